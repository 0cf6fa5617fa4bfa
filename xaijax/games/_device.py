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
from xaijax_kernels.hybrids import SLOT_BITS
from xaijax_kernels.lattice import Dispatch, Pairs, dispatches
from xaijax_kernels.memory import program_bytes
from xaijax_kernels.reduce import reduce_pairs, reduce_pieces
from xaijax_kernels.tables import device_tables
from xaijax_kernels.tiles import SMALLEST_TILE, TileShape, over_tiles, run_tiles, tile_rows

LOOK_AHEAD = 2  # dispatches under way before the first is fetched


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run, fixed before its first dispatch."""

    tile: TileShape
    tiles: int  # T
    instances: int  # rows of x on the device at a time
    donors: int  # B
    columns: int  # C

    @property
    def rows(self) -> int:
        """Rows of one dispatch."""
        return self.tile.rows * self.tiles


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

    @property
    def slot_bits(self) -> int:
        """A pair takes at least 2^slot_bits rows."""
        return self.sizes.tile.slot_bits

    @property
    def rows_per_piece(self) -> int:
        """Rows of one dispatch."""
        return self.sizes.rows

    @property
    def rows_per_block(self) -> int:
        """Rows within which a pair is reduced in one go (R)."""
        return self.sizes.tile.rows

    def answers(self, pairs: Pairs, x: np.ndarray) -> Iterator[Answers]:
        """Evaluate all rows of `pairs`; x [at most `instances`, C]. Dispatches run ahead."""
        self._prepare()
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
        weights = jax.device_put(matrix.astype(answers.values.dtype), self._same)
        program = self._program(("pairs", k, matrix.shape), partial(reduce_pairs, k=k), weights)
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
        weights = jax.device_put(matrices.astype(answers.values.dtype), self._same)
        program = self._program(("pieces", matrices.shape), reduce_pieces, weights, bits)
        sums = program(answers.values, weights, bits)
        return lambda: self._read(answers, sums)

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
        parts = []
        for answers in self.answers(pairs, x):
            check(pairs, answers)
            ordered = np.zeros(self.sizes.tiles, np.int32)
            ordered[: len(answers.place)] = answers.place
            parts.append(jnp.reshape(answers.values[ordered], (-1, answers.values.shape[2])))
            done(answers.piece.rows)
        parts += [parts[0]] * ((1 << (len(parts) - 1).bit_length()) - len(parts))
        values = jax.device_put(jnp.concatenate(parts), self.mesh.devices.flat[0])
        padding = [(0, (1 << (len(start) - 1).bit_length()) - len(start))]
        # Equal weights become ones, exactly; the scale is put back in float64.
        scale = donor_weights.max()
        high, low = jax.jit(device_tables)(
            values,
            np.pad(start.astype(np.int32), padding + [(0, 0)]),
            np.pad(rank, padding + [(0, 0)] * 2),
            (donor_weights / scale).astype(values.dtype),
        )
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
        slots = len(piece.instance)
        tiles = -(-slots // S)
        # Every device gets the same number of tiles, the last one what is left.
        share = -(-tiles // devices)
        place = np.arange(tiles) // share * (T // devices) + np.arange(tiles) % share
        counts = np.clip(tiles - share * np.arange(devices), 0, share).astype(np.int32)

        def laid_out(slot_values: np.ndarray) -> jax.Array:
            flat = np.zeros((tiles * S, *slot_values.shape[1:]), slot_values.dtype)
            flat[:slots] = slot_values
            flat[slots:] = slot_values[-1]  # the padding repeats a valid row
            full = np.zeros((T, S, *slot_values.shape[1:]), slot_values.dtype)
            full[place] = flat.reshape(tiles, S, *slot_values.shape[1:])
            return jax.device_put(full, self._split)

        values, bad = self._run(
            self._params,
            x,
            self._donors,
            self._players,
            jax.device_put(counts, self._split),
            laid_out(piece.instance),
            laid_out(piece.donor),
            laid_out(piece.offset),
            laid_out(piece.words),
        )
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

            def slots(dtype: Any, *more: int) -> jax.ShapeDtypeStruct:
                return jax.ShapeDtypeStruct(
                    (s.tiles, shape.slots, *more), dtype, sharding=self._split
                )

            program = partial(run_tiles, self._apply, shape, self.mesh)
            x = jax.ShapeDtypeStruct(
                (s.instances, s.columns), self._donors.dtype, sharding=self._same
            )
            self._cache[key] = (
                jax.jit(program)
                .lower(
                    self._params,
                    x,
                    self._donors,
                    self._players,
                    jax.ShapeDtypeStruct((self.mesh.size,), jnp.int32, sharding=self._split),
                    slots(jnp.int32),
                    slots(jnp.int32),
                    slots(jnp.int32),
                    slots(jnp.uint32, -(-shape.P // 32)),
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
        key = ("reduce", s.tile, s.tiles, tuple(self.mesh.devices.flat), *key)
        if key not in self._cache:
            started = time.perf_counter()
            values = jax.ShapeDtypeStruct(
                (s.tiles, s.tile.rows, s.tile.outputs), s.tile.dtype, sharding=self._split
            )
            split = (True, False, True)[: 1 + len(arguments)]
            program = jax.jit(over_tiles(function, self.mesh, split))
            self._cache[key] = program.lower(values, *arguments).compile()
            self.clock.compile_seconds += time.perf_counter() - started
        return self._cache[key]


def plan_sizes(
    *,
    width: int,
    itemsize: int,
    platform: str,
    shape: tuple[int, ...],
    P: int,
    outputs: int,
    dtype: str,
    donors: int,
    columns: int,
    devices: int,
    tile: int | None,
    batch_rows: int | None,
    most_rows: int,
    default_tiles: int,
    max_memory: int,
) -> Sizes:
    """Choose tile and tiles per dispatch; a pure function of its arguments.

    batch_rows is cut to what fits, and to the most rows that are asked for (where these are more
    than the default).
    """
    slot_bits = min(P, SLOT_BITS)
    per_row = itemsize * (2 * width + 3 * columns + outputs) + 16
    rows = tile or tile_rows(max(width, columns), itemsize, platform)
    while tile is None and rows > SMALLEST_TILE and rows * per_row * 4 > max_memory:
        rows //= 2
    if rows * per_row > max_memory:
        raise MemoryPlanError(
            f"max_memory={max_memory:,} bytes, but one tile of {rows} rows needs about "
            f"{rows * per_row:,} ({columns} columns, widest layer {width}). Raise max_memory=."
        )
    tiles = default_tiles
    if batch_rows is not None:
        tiles = min(-(-batch_rows // rows), max(default_tiles, -(-most_rows // rows)))
    fits = max_memory // 4 // max(1, rows * itemsize * (outputs + 1))
    tiles = max(1, min(tiles, fits))
    tiles = -(-tiles // devices) * devices
    return Sizes(
        TileShape(shape, P, slot_bits, rows >> slot_bits, outputs, dtype),
        tiles,
        instances_at_a_time(donors, columns * itemsize, max_memory),
        donors,
        columns,
    )


def instances_at_a_time(donors: int, bytes_per_row: int, max_memory: int) -> int:
    """Instances whose pairs are planned, and whose rows are held, together.

    About a million pairs on the host, and an eighth of the memory for the rows. It does not depend
    on how many instances there are, so that every call runs the same program.
    """
    by_pairs = (1 << 20) // donors
    by_rows = max_memory // 8 // max(1, bytes_per_row)
    return max(1, min(by_pairs, by_rows, 1 << 14))


def make_mesh(devices: list[Any]) -> Mesh:
    """One axis, over which tiles are split."""
    return Mesh(np.array(devices), ("tiles",))
