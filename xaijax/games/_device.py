"""JAX models: the compiled programs of one explainer, and the dispatches that feed them.

Letters: T tiles in a dispatch, R rows in a tile, S slots in a tile, K scores, A answers, C code
columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from xaijax._errors import MemoryPlanError
from xaijax.games._clock import Clock
from xaijax.games._loop import Instances, Question, Stream
from xaijax.games._plan import Sizes
from xaijax.games.quantity import Score
from xaijax_kernels.lattice import Dispatch, Pairs
from xaijax_kernels.listed import ListedStream, group_means, list_means, list_words
from xaijax_kernels.memory import program_bytes
from xaijax_kernels.reduce import group_tiles, reduce_pairs, reduce_pieces
from xaijax_kernels.tables import put, tables_of_pairs
from xaijax_kernels.tiles import SMALLEST_TILE, TileShape, over_tiles, run_tiles, traced_once

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
        listed: int = 0,
        score: Score | None = None,
        outputs: int = 1,
    ) -> None:
        """listed: coalitions of the list that slots may name, 0 for none; outputs: A."""
        self._score, self._outputs = score, outputs
        self.sizes, self.mesh, self.clock = sizes, mesh, clock
        clock.tile = sizes.tile.rows
        self._cache = cache
        self.same, self.split = NamedSharding(mesh, Spec()), NamedSharding(mesh, Spec("tiles"))
        self._apply = apply
        self.params = jax.device_put(params, self.same)
        self.donors = jax.device_put(donors, self.same)
        self._players = None if players is None else jax.device_put(players, self.same)
        self.max_memory = max_memory
        self._listed = listed
        self._runs: dict[tuple[str, bool], Any] = {}  # the compiled programs that hold the model
        self._weights: dict[int, tuple[np.ndarray, jax.Array]] = {}

    @property
    def slot_bits(self) -> int:
        """A pair takes at least 2^slot_bits rows."""
        return self.sizes.tile.slot_bits

    @property
    def rows_per_block(self) -> int:
        """Rows within which a pair is reduced in one go (R)."""
        return self.sizes.tile.rows

    def answers(
        self, stream: Stream, x: Instances, masks: np.ndarray | None = None, scored: bool = True
    ) -> Iterator[Answers]:
        """Score all rows of the stream; at most `instances` of them. Dispatches run ahead.

        masks: bool [at most `listed`, P], the coalitions that the stream names. scored: False gives
        the model's answers themselves.
        """
        run = self._prepare(stream.kind, scored)
        words = None
        if stream.kind != "corners":
            assert masks is not None
            words = jax.device_put(list_words(masks, self._listed), self.same)
        self._weights.clear()
        slots = self._shape(stream.kind, scored).slots
        own = x.own if self._reads_own(scored) else None
        fixed = (self._padded(x.codes), None if own is None else self._padded(own), words)
        waiting: list[Answers] = []
        for piece in stream.dispatches(self.sizes.rows):
            waiting.append(self._launch(run, piece, slots, *fixed))
            if len(waiting) > LOOK_AHEAD:
                yield waiting.pop(0)
        yield from waiting

    def _padded(self, rows: np.ndarray) -> jax.Array:
        """Rows of some instances on the devices, as many as every call has."""
        padded = np.zeros((self.sizes.instances, rows.shape[1]), self.donors.dtype)
        padded[: len(rows)] = rows
        return jax.device_put(padded, self.same)

    def _reads_own(self, scored: bool) -> bool:
        return scored and self._score is not None and self._score.reads_own

    def _shape(self, kind: str, scored: bool = True) -> TileShape:
        """The tile for slots of one kind; slots of "rows" are single rows."""
        tile = self.sizes.tile if scored else replace(self.sizes.tile, outputs=self._outputs)
        return replace(tile, slot_bits=0, slots=tile.rows) if kind == "rows" else tile

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
        bits = jax.device_put(padded, self.split)
        weights = self._weights_on_device(matrices, answers.values.dtype)
        program = self._program(("pieces", matrices.shape), reduce_pieces, weights, bits)
        sums = program(answers.values, weights, bits)
        return lambda: self._read(answers, sums)

    def _weights_on_device(self, matrix: np.ndarray, dtype: Any) -> jax.Array:
        """The matrix in the answers' dtype, put on the devices once."""
        kept = self._weights.get(id(matrix))
        if kept is None:
            # The matrix is kept too: its id then stays its own.
            kept = (matrix, jax.device_put(matrix.astype(dtype), self.same))
            self._weights[id(matrix)] = kept
        return kept[1]

    def tables(
        self, pairs: Pairs, question: Question, start: np.ndarray, differs: np.ndarray
    ) -> np.ndarray:
        """v(S) of N instances over B donors: float64 [N, 2^P, K]; differs bool [N, B, P]."""
        parts = []
        for answers in self.answers(pairs, question.x, question.masks):
            question.check(pairs, answers)
            tiles = np.asarray(answers.values)[answers.place]
            parts.append(tiles.reshape(-1, tiles.shape[-1])[: answers.piece.rows])
            question.done(answers.piece.rows)
        values = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return tables_of_pairs(values, start, differs, question.donor_weights)

    def stream_means(self, stream: ListedStream, question: Question) -> np.ndarray:
        """v(S) of the stream's instances for a list of coalitions, float64 [N, C, K]."""
        values = self._held(stream, question)
        slot = 1 << self.slot_bits

        def means(values: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
            return group_means(values, weights, slot)

        groups = self._means(("groups",), means, question, values)[: stream.groups]
        K = groups.shape[-1]
        return groups.reshape(len(stream.instances), -1, K)[:, : stream.coalitions]

    def pair_means(
        self, pairs: Pairs, question: Question, places: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """The same for pairs of which some answer their corners; places as in `list_means`."""
        values = self._held(pairs, question)
        start, listed, rank = places
        assert question.masks is not None
        padded = [
            _to_power_of_two(a) for a in (start.astype(np.int32), listed, rank, question.masks)
        ]
        v = self._means(("list",), list_means, question, values, *padded)
        return v[: len(start), : len(question.masks)]

    def _held(self, stream: Stream, question: Question) -> jax.Array:
        """All answers of the stream, kept on the first device; [V, K], V >= its rows.

        V is a power of two of dispatches, so that few shapes compile.
        """
        home = self.mesh.devices.flat[0]
        pieces = 1 << (-(-stream.rows // self.sizes.rows) - 1).bit_length()
        K, dtype = self.sizes.tile.outputs, self.donors.dtype
        values = jnp.zeros((pieces * self.sizes.rows, K), dtype, device=home)
        for answers in self.answers(stream, question.x, question.masks):
            question.check(stream, answers)
            place = np.zeros(self.sizes.tiles, np.int32)
            place[: len(answers.place)] = answers.place
            part = (jax.device_put(answers.values, home), place)
            first = np.int32(answers.piece.first_row)
            program = self._compiled(("put", values.shape), put, (values, *part, first), (0,))
            values = program(values, *part, first)
            question.done(answers.piece.rows)
        return values

    def _means(
        self,
        key: tuple[Any, ...],
        function: Callable[..., tuple[jax.Array, jax.Array]],
        question: Question,
        *arguments: Any,
    ) -> np.ndarray:
        """function(*arguments, weights), a compensated sum over donors, in float64."""
        # Equal weights become ones, exactly; the scale is put back in float64.
        scale = question.donor_weights.max()
        everything = (*arguments, (question.donor_weights / scale).astype(self.donors.dtype))
        key = (*key, *(a.shape for a in everything))
        high, low = self._compiled(key, function, everything)(*everything)
        means = np.asarray(high).astype(np.float64)
        means += np.asarray(low)
        means *= scale  # in place: with one donor these arrays are as long as the answers
        return means

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

    def _launch(
        self,
        run: Any,
        piece: Dispatch,
        S: int,
        x: jax.Array,
        own: jax.Array | None,
        masks: jax.Array | None,
    ) -> Answers:
        T, devices = self.sizes.tiles, self.mesh.size
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
            filled, slots = slots, np.zeros((T, *slots.shape[1:]), np.int32)
            slots[place] = filled
        arguments = (self.params, x, self.donors, self._players, counts, slots, masks, own)
        values, bad = run(*arguments)
        self.clock.model_calls += 1
        self.clock.padded_rows += tiles * self.sizes.tile.rows - piece.rows
        return Answers(piece, values, bad, place)

    def _prepare(self, kind: str, scored: bool = True) -> Any:
        """The program that holds the model, for slots of one kind, compiled once."""
        if (kind, scored) in self._runs:
            return self._runs[kind, scored]
        s, shape = self.sizes, self._shape(kind, scored)
        score = self._score if scored else None
        words = -(-shape.P // 32)
        listed = None if kind == "corners" else (self._listed, words)
        dtype = self.donors.dtype
        devices = tuple(self.mesh.devices.flat)
        key = ("run", kind, s, listed, self._players is None, dtype.name, devices, score, shape)
        if key not in self._cache:
            started = time.perf_counter()

            def of(sharding: Any, *dims: int, dtype: Any = jnp.int32) -> jax.ShapeDtypeStruct:
                return jax.ShapeDtypeStruct(dims, dtype, sharding=sharding)

            run = partial(run_tiles, self.traced(), shape, self.mesh, kind=kind, score=score)
            arguments = (
                self.params,
                of(self.same, s.instances, s.columns, dtype=dtype),
                self.donors,
                self._players,
                of(self.split, self.mesh.size),
                of(self.split, s.tiles, shape.slots, 3 + words),
                None if listed is None else of(self.same, *listed, dtype=jnp.uint32),
                of(self.same, s.instances, self._outputs, dtype=dtype)
                if self._reads_own(scored)
                else None,
            )
            self._cache[key] = jax.jit(run).lower(*arguments).compile()
            self.clock.compile_seconds += time.perf_counter() - started
        compiled = self._cache[key]
        # Dispatches that run ahead hold their results beside the one at work.
        needed = program_bytes(compiled) * (LOOK_AHEAD + 1)
        if needed > self.max_memory:
            raise MemoryPlanError(
                f"max_memory={self.max_memory:,} bytes, but a dispatch of {s.tiles} tiles of "
                f"{shape.rows} rows needs {needed:,}. Raise max_memory=, or lower batch_size= or "
                f"tile= (at least {SMALLEST_TILE})."
            )
        self._runs[kind, scored] = compiled
        return compiled

    def traced(self) -> Callable[[Any, jax.Array], jax.Array]:
        """The model for one tile of rows: one trace serves all programs."""
        shape = self.sizes.tile
        dims, dtype = (shape.rows, *shape.instance_shape), self.donors.dtype
        key = ("traced", dims, dtype.name)
        if key not in self._cache:
            rows = jax.ShapeDtypeStruct(dims, dtype)
            self._cache[key] = traced_once(self._apply, self.params, rows)
        return self._cache[key]

    def _program(self, key: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """A reduction of the values, compiled once: (values, weights[, one number per tile])."""
        s = self.sizes
        values = jax.ShapeDtypeStruct(
            (s.tiles, s.tile.rows, s.tile.outputs), s.tile.dtype, sharding=self.split
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


def _to_power_of_two(array: np.ndarray) -> np.ndarray:
    """Zeros after the first axis, up to a power of two, so that few shapes compile."""
    missing = (1 << (len(array) - 1).bit_length()) - len(array)
    return np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1))


def make_mesh(devices: list[Any]) -> Mesh:
    """One axis, over which tiles are split."""
    return Mesh(np.array(devices), ("tiles",))
