"""JAX models: pulls through tiles, by the trace that the engine already has.

Letters: T tiles in a dispatch, G pulls in a tile, p draws of a pull, M pulls, N instances.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import MemoryPlanError
from xaijax.games.engine.programs import LOOK_AHEAD, Programs
from xaijax.games.engine.threads import THREADS, beside
from xaijax.games.measure.score import Score
from xaijax.games.rules.pulls import Pulls
from xaijax_kernels.engine.memory import program_bytes
from xaijax_kernels.rules.perturbed_rows import Pool, Space, Subjects
from xaijax_kernels.rules.pulls import PullShape, run_pulls

# Tiles of one dispatch: few programs, and a small question is not sent in a large array.
LADDER = (4, 32, 256)


class RuleDevice:
    """Runs pulls on the devices of the engine's own programs."""

    def __init__(self, programs: Programs, score: Score, cache: dict[Any, Any]) -> None:
        self._programs, self._score, self._cache = programs, score, cache
        self._held: tuple[Any, Any] | None = None  # the pool and its copy on the devices
        self._who: tuple[Any, Any] | None = None
        self._needs: dict[Any, int] = {}  # bytes of a program, which take time to ask for

    @property
    def rows_per_call(self) -> int:
        """R: the rows of a tile."""
        return self._programs.sizes.tile.rows

    def bits(
        self, space: Space, pool: Pool, subjects: Subjects, pulls: Pulls
    ) -> tuple[np.ndarray, int]:
        """(bits uint32 [M, ceil(p / 32)], the first pull of a tile with a bad answer or -1)."""
        programs = self._programs
        shape = PullShape(programs.sizes.tile.instance_shape, self.rows_per_call, pulls.draws)
        G, devices = shape.pulls, programs.mesh.size
        needed = -(-len(pulls.header) // (G * devices))  # tiles of a device
        # A question of some length is cut for the threads, and once more where it is very long.
        threads = THREADS if needed > LADDER[0] else 1
        pieces = max(threads, -(-needed // LADDER[-1]))
        each = -(-needed // pieces)
        T = devices * next(t for t in LADDER if t >= each)
        pool = self._pool(pool)
        who = self._subjects(subjects)
        run = self._program(space, shape, T, pool, who, pulls.header.shape[1])
        out = np.empty((len(pulls.header), shape.words), np.uint32)
        waiting: list[tuple[int, np.ndarray, Any]] = []
        bad = -1

        def take() -> int:
            first, place, under_way = waiting.pop(0)
            bits, lost = under_way.result()
            part = np.asarray(bits)[place].reshape(-1, shape.words)
            out[first : first + G * len(place)] = part[: len(out) - first]
            wrong = np.flatnonzero(np.asarray(lost)[place])
            return first + int(wrong[0]) * G if len(wrong) else -1

        step = each * devices * G
        for first in range(0, len(pulls.header), step):
            part = pulls.header[first : first + step]
            tiles = -(-len(part) // G)
            share = -(-tiles // devices)
            at = np.arange(tiles)
            place = at // share * (T // devices) + at % share
            counts = np.clip(tiles - share * np.arange(devices), 0, share).astype(np.int32)
            full = np.zeros((T, G, part.shape[1]), np.int32)
            own = np.concatenate([part, np.repeat(part[-1:], tiles * G - len(part), axis=0)])
            full[place] = own.reshape(tiles, G, -1)
            under_way = beside(run, (programs.params, pool, who, counts, full))
            waiting.append((first, place, under_way))
            programs.clock.model_calls += first // step % threads == 0  # given to all threads
            programs.clock.padded_rows += tiles * shape.rows - len(part) * pulls.draws
            if len(waiting) > LOOK_AHEAD:
                bad = max(bad, take())
        while waiting:
            bad = max(bad, take())
        return out, bad

    def _pool(self, pool: Pool) -> Any:
        if self._held is None or self._held[0] is not pool:
            self._held = pool, jax.device_put(pool, self._programs.same)
        return self._held[1]

    def _subjects(self, subjects: Subjects) -> Any:
        """The instances, as many rows as every call has."""
        if self._who is None or self._who[0] is not subjects:
            count, dtype = self._programs.sizes.instances, self._programs.donors.dtype

            def padded(rows: Any, kind: Any) -> np.ndarray:
                full = np.zeros((count, *rows.shape[1:]), kind)
                full[: len(rows)] = rows
                return full

            full = Subjects(
                padded(subjects.rows, dtype),
                padded(subjects.bins, np.int32),
                padded(subjects.own, dtype),
            )
            self._who = subjects, jax.device_put(full, self._programs.same)
        return self._who[1]

    def _program(self, space: Space, shape: PullShape, T: int, pool: Any, who: Any, L: int) -> Any:
        programs = self._programs
        shapes = tuple((a.shape, str(a.dtype)) for a in (*pool, *who))
        key = ("pulls", space, shape, T, L, shapes, self._score, tuple(programs.mesh.devices.flat))
        if key not in self._cache:
            started = time.perf_counter()

            def of(*dims: int) -> jax.ShapeDtypeStruct:
                return jax.ShapeDtypeStruct(dims, jnp.int32, sharding=programs.split)

            run = partial(run_pulls, programs.traced(), self._score, space, shape, programs.mesh)
            arguments = (programs.params, pool, who, of(programs.mesh.size), of(T, shape.pulls, L))
            self._cache[key] = jax.jit(run).lower(*arguments).compile()
            programs.clock.compile_seconds += time.perf_counter() - started
        needed = self._needs.get(key)
        if needed is None:
            needed = self._needs[key] = program_bytes(self._cache[key]) * (LOOK_AHEAD + 1)
        if needed > programs.max_memory:
            raise MemoryPlanError(
                f"max_memory={programs.max_memory:,} bytes, but a dispatch of pulls needs "
                f"{needed:,}. Raise max_memory=, or lower tile=."
            )
        return self._cache[key]
