"""JAX models: pulls through tiles, by the trace that the engine already has.

Letters: T tiles in a dispatch, G pulls in a tile, p draws of a pull, M pulls, N instances.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

from xaijax.games.engine.compiled import RAISE, ProgramRecipe, shape
from xaijax.games.engine.device import part_of_tile
from xaijax.games.engine.dispatch import LOOK_AHEAD, THREADS, Dispatches
from xaijax.games.engine.programs import Programs
from xaijax.games.measure.score import Score
from xaijax.games.rules.pulls import Pulls
from xaijax.games.run import GameRun
from xaijax_kernels.rules.perturbed_rows import PerturbationSpace, Pool, Subjects
from xaijax_kernels.rules.pulls import PullShape, run_pulls

# A round ends in a tile that is partly filled, and the last rounds are about few instances: with
# tiles of the engine's size two fifths of the model rows of a search by draws were padding.
TILE_PARTS = 4
# Tiles of one dispatch: few programs, and a small question is not sent in a large array.
LADDER = (4, 32, 256)


def shorten_tiles(questions: GameRun) -> None:
    """Use smaller tiles on devices, where tile= was not given; probes the model."""
    engine, evaluator = questions.probe(), questions.evaluator
    if engine.model.backend == "jax" and engine.limits.tile is None:
        evaluator.use_tile(part_of_tile(engine, TILE_PARTS))


class RuleDevice:
    """Runs pulls on the devices of the engine's own programs."""

    def __init__(self, programs: Programs, score: Score) -> None:
        self._programs, self._score = programs, score
        self._held: tuple[Any, Any] | None = None  # the pool and its copy on the devices
        self._who: tuple[Any, Any] | None = None

    @property
    def rows_per_call(self) -> int:
        """R: the rows of a tile."""
        return self._programs.sizes.tile.rows

    def bits(
        self, space: PerturbationSpace, pool: Pool, subjects: Subjects, pulls: Pulls
    ) -> tuple[np.ndarray, int]:
        """(bits uint32 [M, ceil(p / 32)], the first pull of a tile with a bad answer or -1)."""
        programs, clock = self._programs, self._programs.compiled.clock
        pull = PullShape(programs.sizes.tile.instance_shape, self.rows_per_call, pulls.draws)
        G, devices = pull.pulls, programs.mesh.size
        needed = -(-len(pulls.header) // (G * devices))  # tiles of a device
        # A question of some length is cut for the threads, and once more where it is very long.
        threads = THREADS if needed > LADDER[0] else 1
        pieces = max(threads, -(-needed // LADDER[-1]))
        each = -(-needed // pieces)
        T = devices * next(t for t in LADDER if t >= each)
        pool = self._pool(pool)
        who = self._subjects(subjects)
        run = self._program(space, pull, T, pool, who, pulls.header.shape[1])
        out = np.empty((len(pulls.header), pull.words), np.uint32)
        bad, step = -1, each * devices * G

        def work() -> Iterator[tuple[int, np.ndarray]]:
            for first in range(0, len(pulls.header), step):
                part = pulls.header[first : first + step]
                tiles = -(-len(part) // G)
                clock.padded_rows += tiles * pull.rows - len(part) * pulls.draws
                full = np.concatenate([part, np.repeat(part[-1:], tiles * G - len(part), axis=0)])
                yield first, full.reshape(tiles, G, -1)

        dispatches = Dispatches(programs.mesh, clock, T)
        for dispatch in dispatches.run(run, (programs.params, pool, who), work(), threads=threads):
            first, (bits, lost) = dispatch.asked, dispatch.read()
            part = bits.reshape(-1, pull.words)
            out[first : first + len(part)] = part[: len(out) - first]
            wrong = np.flatnonzero(lost)
            bad = max(bad, first + int(wrong[0]) * G if len(wrong) else -1)
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
                padded(subjects.low, np.int32),
                padded(subjects.high, np.int32),
                padded(subjects.own, dtype),
            )
            self._who = subjects, jax.device_put(full, self._programs.same)
        return self._who[1]

    def _program(
        self, space: PerturbationSpace, pull: PullShape, T: int, pool: Any, who: Any, L: int
    ) -> Any:
        p = self._programs
        run = partial(run_pulls, p.traced(), self._score, space, pull, p.mesh)
        tiles = shape(p.split, p.mesh.size), shape(p.split, T, pull.pulls, L)
        recipe = ProgramRecipe(
            ("pulls", space, pull, self._score),
            run,
            (p.params, pool, who, *tiles),
            what="a dispatch of pulls",
            remedy=f"{RAISE[:-1]}, or lower tile=.",
            ahead=LOOK_AHEAD,
            results=p.results,
        )
        return p.compiled.program(recipe)
