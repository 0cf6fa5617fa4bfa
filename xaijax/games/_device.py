"""JAX models: the compiled programs of one explainer, and the dispatches that feed them.

Letters: T tiles in a dispatch, R rows in a tile, S slots in a tile, K outputs, C code columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from xaijax._errors import MemoryPlanError
from xaijax.games._clock import Clock
from xaijax.games._plan import Sizes
from xaijax_kernels.lattice import Dispatch, Pairs, dispatches
from xaijax_kernels.memory import program_bytes
from xaijax_kernels.reduce import group_tiles, reduce_pairs, reduce_pieces
from xaijax_kernels.tables import device_tables, put
from xaijax_kernels.tiles import SMALLEST_TILE, over_tiles, run_tiles

LOOK_AHEAD = 2  # dispatches under way before the first is fetched


@dataclass
class Answers:
    """One piece of the stream and the model's answers, still on the device."""

    piece: Dispatch
    values: jax.Array  # [T, R, K]
    bad: jax.Array  # int32 [T], answers that are not finite
    place: np.ndarray  # where tile t of the piece stands in T


class DeviceBackend:
    """Runs the pieces of a stream on the devices of `mesh`."""

    def __init__(
        self,
        apply: Callable[[Any, jax.Array], jax.Array],
        params: Any,
        cache: dict[Any, Any],
        sizes: Sizes,
        players: np.ndarray | None,
        donors: np.ndarray,
        mesh: Mesh,
        max_memory: int,
        clock: Clock,
    ) -> None:
        self.sizes, self.mesh, self.clock = sizes, mesh, clock
        clock.tile = sizes.tile.rows
        self._cache = cache
        self._same, self._split = NamedSharding(mesh, Spec()), NamedSharding(mesh, Spec("tiles"))
        self._apply = apply
        self._params = jax.device_put(params, self._same)
        self._donors = jax.device_put(donors, self._same)
        self._players = None if players is None else jax.device_put(players, self._same)
        self._max_memory = max_memory
        self._run: Any = None
        self._weights: dict[int, tuple[np.ndarray, jax.Array]] = {}

    @property
    def slot_bits(self) -> int:
        """A pair takes at least 2^slot_bits rows."""
        return self.sizes.tile.slot_bits

    @property
    def rows_per_block(self) -> int:
        """Rows within which a pair is reduced in one go (R)."""
        return self.sizes.tile.rows

    def answers(self, pairs: Pairs, x: np.ndarray) -> Iterator[Answers]:
        """Evaluate all rows of `pairs`; x [at most `instances`, C]. Dispatches run ahead."""
        self._prepare()
        self._weights.clear()
        padded = np.zeros((self.sizes.instances, x.shape[1]), x.dtype)
        padded[: len(x)] = x
        on_device = jax.device_put(padded, self._same)
        waiting: list[Answers] = []
        for piece in dispatches(pairs, self.sizes.rows):
            waiting.append(self._launch(piece, on_device))
            if len(waiting) > LOOK_AHEAD:
                yield waiting.pop(0)
        yield from waiting

    def pair_sums(self, answers: Answers, k: int, matrix: np.ndarray) -> Callable[[], np.ndarray]:
        """`reduce_pairs` started on the piece; call the result for float64 [blocks, K, k + 3]."""
        weights = self._weights_on_device(matrix, answers.values.dtype)
        tile, platform = self.sizes.tile, self.mesh.devices.flat[0].platform
        reduce = partial(reduce_pairs, k=k, group=group_tiles(tile.rows, tile.outputs, platform))
        program = self._program(("pairs", k, matrix.shape), reduce, weights)
        sums = program(answers.values, weights)
        return lambda: self._read(answers, sums).reshape(-1, *sums.shape[2:])

    def piece_sums(
        self, answers: Answers, matrices: np.ndarray, high_bits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        """`reduce_pieces` started on the piece; high_bits int32 [tiles of the piece].

        Call the result for float64 [tiles of the piece, K, log2(R) + 5].
        """
        padded = np.zeros(self.sizes.tiles, np.int32)
        padded[answers.place] = high_bits
        bits = jax.device_put(padded, self._split)
        weights = self._weights_on_device(matrices, answers.values.dtype)
        program = self._program(("pieces", matrices.shape), reduce_pieces, weights, bits)
        sums = program(answers.values, weights, bits)
        return lambda: self._read(answers, sums)

    def _weights_on_device(self, matrix: np.ndarray, dtype: Any) -> jax.Array:
        """The matrix in the answers' dtype, put on the devices once."""
        kept = self._weights.get(id(matrix))
        if kept is None:
            # The matrix is kept too: its id then stays its own.
            kept = (matrix, jax.device_put(matrix.astype(dtype), self._same))
            self._weights[id(matrix)] = kept
        return kept[1]

    def tables(
        self,
        pairs: Pairs,
        x: np.ndarray,
        donor_weights: np.ndarray,
        start: np.ndarray,
        rank: np.ndarray,
        check: Callable[[Pairs, Any], None],
        done: Callable[[int], None],
    ) -> np.ndarray:
        """v(S) of N instances over B donors: float64 [N, 2^P, K]; start [N, B], rank [N, B, P].

        The values stay on the device; instances and values are padded to powers of two, so that few
        shapes compile.
        """
        home = self.mesh.devices.flat[0]
        pieces = 1 << (-(-pairs.rows // self.sizes.rows) - 1).bit_length()
        K, dtype = self.sizes.tile.outputs, self._donors.dtype
        values = jnp.zeros((pieces * self.sizes.rows, K), dtype, device=home)
        for answers in self.answers(pairs, x):
            check(pairs, answers)
            place = np.zeros(self.sizes.tiles, np.int32)
            place[: len(answers.place)] = answers.place
            part = (jax.device_put(answers.values, home), place)
            first = np.int32(answers.piece.first_row)
            program = self._compiled(("put", values.shape), put, (values, *part, first), (0,))
            values = program(values, *part, first)
            done(answers.piece.rows)
        padding = [(0, (1 << (len(start) - 1).bit_length()) - len(start))]
        # Equal weights become ones, exactly; the scale is put back in float64.
        scale = donor_weights.max()
        arguments = (
            values,
            np.pad(start.astype(np.int32), padding + [(0, 0)]),
            np.pad(rank, padding + [(0, 0)] * 2),
            (donor_weights / scale).astype(dtype),
        )
        key = ("tables", values.shape, arguments[2].shape)
        high, low = self._compiled(key, device_tables, arguments)(*arguments)
        table = np.asarray(high).astype(np.float64) + np.asarray(low)
        return scale * table[: len(start)]

    def values(self, answers: Answers) -> np.ndarray:
        """The answers themselves, float64 [rows, K]."""
        tiles = self._read(answers, answers.values)
        return tiles.reshape(-1, tiles.shape[-1])[: answers.piece.rows]

    def _read(self, answers: Answers, array: jax.Array) -> np.ndarray:
        """On the host, in float64, in the order of the stream."""
        return np.asarray(array)[answers.place].astype(np.float64)

    def any_bad(self, answers: Answers) -> bool:
        """Whether an answer is not finite."""
        return bool(np.asarray(answers.bad).any())

    def _launch(self, piece: Dispatch, x: jax.Array) -> Answers:
        T, S, devices = self.sizes.tiles, self.sizes.tile.slots, self.mesh.size
        count = len(piece.slots)
        tiles = -(-count // S)
        # Every device gets the same number of tiles, the last one what is left.
        share = -(-tiles // devices)
        place = np.arange(tiles) // share * (T // devices) + np.arange(tiles) % share
        counts = np.clip(tiles - share * np.arange(devices), 0, share).astype(np.int32)
        slots = piece.slots
        if count < tiles * S:  # the padding repeats a valid row
            slots = np.concatenate([slots, np.repeat(slots[-1:], tiles * S - count, axis=0)])
        slots = slots.reshape(tiles, S, -1)
        if tiles < T:
            own, slots = slots, np.zeros((T, *slots.shape[1:]), np.int32)
            slots[place] = own
        values, bad = self._run(self._params, x, self._donors, self._players, counts, slots)
        self.clock.model_calls += 1
        self.clock.padded_rows += tiles * self.sizes.tile.rows - piece.rows
        return Answers(piece, values, bad, place)

    def _prepare(self) -> None:
        """Compile the one program that holds the model, once."""
        if self._run is not None:
            return
        s, shape = self.sizes, self.sizes.tile
        key = (
            "run",
            s,
            self._players is None,
            self._donors.dtype.name,
            tuple(self.mesh.devices.flat),
        )
        if key not in self._cache:
            started = time.perf_counter()

            words = -(-shape.P // 32)

            def of(sharding: Any, *dims: int, dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
                return jax.ShapeDtypeStruct(dims, dtype, sharding=sharding)

            self._cache[key] = (
                jax.jit(partial(run_tiles, self._apply, shape, self.mesh))
                .lower(
                    self._params,
                    of(self._same, s.instances, s.columns, dtype=self._donors.dtype),
                    self._donors,
                    self._players,
                    of(self._split, self.mesh.size),
                    of(self._split, s.tiles, shape.slots, 3 + words),
                )
                .compile()
            )
            self.clock.compile_seconds += time.perf_counter() - started
        compiled = self._cache[key]
        # Dispatches that run ahead hold their results beside the one at work.
        needed = program_bytes(compiled) * (LOOK_AHEAD + 1)
        if needed > self._max_memory:
            raise MemoryPlanError(
                f"max_memory={self._max_memory:,} bytes, but a dispatch of {s.tiles} tiles of "
                f"{shape.rows} rows needs {needed:,}. Raise max_memory=, or lower batch_size= or "
                f"tile= (at least {SMALLEST_TILE})."
            )
        self._run = compiled

    def _program(self, key: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """A reduction of the values, compiled once: (values, weights[, one number per tile])."""
        s = self.sizes
        values = jax.ShapeDtypeStruct(
            (s.tiles, s.tile.rows, s.tile.outputs), s.tile.dtype, sharding=self._split
        )
        split = (True, False, True)[: 1 + len(arguments)]
        return self._compiled(key, over_tiles(function, self.mesh, split), (values, *arguments))

    def _compiled(
        self, key: Any, function: Callable[..., Any], arguments: Any, donate: tuple[int, ...] = ()
    ) -> Any:
        """`function` compiled for such arguments, once for all explainers of the model."""
        s = self.sizes
        key = (s.tile, s.tiles, tuple(self.mesh.devices.flat), *key)
        if key not in self._cache:
            started = time.perf_counter()
            program = jax.jit(function, donate_argnums=donate)
            self._cache[key] = program.lower(*arguments).compile()
            self.clock.compile_seconds += time.perf_counter() - started
        return self._cache[key]


def make_mesh(devices: list[Any]) -> Mesh:
    """One axis, over which tiles are split."""
    return Mesh(np.array(devices), ("tiles",))
