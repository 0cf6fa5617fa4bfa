"""Runs JAX models: the dispatches that feed the compiled programs of one explainer.

Letters: T tiles in a dispatch, R rows in a tile, S slots in a tile, K scores, A answers, C code
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

from xaijax.games.engine.dispatch import (
    Dispatches,
    ProgramRecipe,
    UnderWay,
    parameters_held,
    placed,
    shape,
)
from xaijax.games.engine.loop import Count, GameQuery, Instances, Stream, every_row
from xaijax.games.engine.plan import (
    bytes_of_row,
    donors_held,
    fitting_tile,
    plan_sizes,
    rows_held,
)
from xaijax.games.engine.programs import NAMES_LIST, Programs
from xaijax_kernels.engine.lattice import Dispatch, Pairs, list_words
from xaijax_kernels.engine.listed import ListedStream, group_means, list_means
from xaijax_kernels.engine.reduce import (
    LEVELS,
    block_of,
    block_weights,
    reduce_pairs,
    reduce_pieces,
)
from xaijax_kernels.engine.seeds import Seeds, seeds
from xaijax_kernels.engine.steps import largest_product, operations
from xaijax_kernels.engine.tables import put, tables_of_pairs
from xaijax_kernels.engine.tiles import weights_of
from xaijax_kernels.sizes import SMALLEST_OF_WIDE, group_tiles, tile_rows

if TYPE_CHECKING:
    from xaijax.games.engine.evaluator import Engine

PUT, MEANS = "a list of answers", "the means of a list"  # programs, for messages


@dataclass
class DeviceOutputs:
    """One piece of the stream and the model's outputs, still on the device."""

    under_way: UnderWay
    slot_bits: int  # of the stream

    @property
    def piece(self) -> Dispatch | Seeds:
        """The rows of the piece."""
        return self.under_way.asked

    @property
    def place(self) -> np.ndarray:
        """Positions of the piece's tiles among the T tiles."""
        return self.under_way.place

    @property
    def values(self) -> jax.Array:
        """[T, R, K]."""
        return self.under_way.results.result()[0]

    @property
    def bad(self) -> jax.Array:
        """int32 [T], 1 if an output is not finite, or a score is out of bounds."""
        return self.under_way.results.result()[1]


class DeviceBackend:
    """Runs the pieces of a stream on the devices of its programs."""

    def __init__(self, programs: Programs) -> None:
        """programs: for the sizes and the devices to run on."""
        self.programs = programs
        self.sizes, self.mesh, self.clock = programs.sizes, programs.mesh, programs.compiled.clock
        self.rows_per_call = self.sizes.tile.rows  # of the model
        self.slot_bits = self.sizes.tile.slot_bits  # a pair takes at least 2^slot_bits rows
        self.rows_per_block = self.rows_per_call  # rows within which a pair is reduced at once
        # The memory that the run is planned with.
        self.held = self.sizes.held | parameters_held(programs.params, self.mesh)
        self._same, self._split = programs.same, programs.split
        self._dtype = programs.donors.dtype
        self._weights: dict[int, tuple[np.ndarray, jax.Array]] = {}

    def calls(self, rows: int, scored: bool = True) -> int:
        """Calls of the model, a dispatch each, for a stream of `rows` rows; scored: as for
        `answers`.
        """
        return -(-rows // (self.programs.tiles(scored) * self.sizes.tile.rows))

    def recipe(
        self, kind: str, bits: int | None = None, scored: bool = True, coalitions: int = 1
    ) -> ProgramRecipe:
        """Recipe of the program for slots of one kind; bits: of structured slots, coalitions: of
        the list that slots name. See `Programs.run`.
        """
        return self.programs.run_recipe(kind, scored, bits, coalitions)

    def stream_mean_recipes(self, rows: int, donors: int, C: int) -> list[ProgramRecipe]:
        """Recipes of the programs that `stream_means` runs for a stream of `rows` rows."""
        held = self._held_shape(rows)
        means = self._group_recipe(held, np.zeros(donors, self._dtype))
        return [self.recipe("list", coalitions=C), self._put_recipe(held), means]

    def pair_mean_recipes(
        self, kind: str, rows: int, n: int, donors: int, C: int
    ) -> list[ProgramRecipe]:
        """Recipes of the programs that `pair_means` runs for n instances and C coalitions."""
        held, P = self._held_shape(rows), self.sizes.tile.P
        run = self.recipe(kind, coalitions=C)
        n, C = _power_of_two(n), _power_of_two(C)
        start, listed = np.zeros((n, donors), np.int32), np.zeros((n, donors), bool)
        arguments = (start, listed, np.zeros((n, donors, P), np.int32), np.zeros((C, P), bool))
        weights = np.zeros(donors, self._dtype)
        return [run, self._put_recipe(held), _list_recipe(held, *arguments, weights)]

    def answers(
        self, stream: Stream, x: Instances, masks: np.ndarray | None = None, scored: bool = True
    ) -> Iterator[Any]:
        """Scores all rows of the stream; at most `instances` of them. Dispatches run ahead.

        masks: bool [at most `listed`, P], the coalitions that the stream names. scored: False
        returns the model's outputs without a score.
        """
        bits = stream.slot_bits if stream.kind == "structured" else None
        coalitions, words = 1, None
        if stream.kind in NAMES_LIST:
            assert masks is not None
            coalitions = len(masks)
            held = list_words(masks, self.programs.capacity(coalitions))
            words = jax.device_put(held, self._same)
        run, ahead = self.programs.run(stream.kind, scored, bits, coalitions)
        self._weights.clear()
        slots = self.programs.shape(stream.kind, scored, bits).slots
        reference = x.own if self.programs.reads_own(scored) else None
        p = self.programs
        before = (p.params, self._padded(x.codes), p.donors, p.players)
        after = (words, None if reference is None else self._padded(reference))
        tiles = p.tiles(scored)
        if isinstance(stream, Pairs) and p.seeded(stream.kind):
            work = self._seeded(stream, slots, tiles, p.pairs(scored, bits))
        else:
            pieces = stream.dispatches(tiles * self.sizes.tile.rows)
            work = ((piece, self._tiles(piece, slots), None) for piece in pieces)
        dispatches = Dispatches(self.mesh, self.clock, tiles, ahead)
        started = dispatches.run(run, before, work, after)
        yield from every_row(stream, (DeviceOutputs(batch, stream.slot_bits) for batch in started))

    def _padded(self, rows: np.ndarray) -> jax.Array:
        """Rows of some instances on the devices, padded to the same number for every call."""
        padded = np.zeros((self.sizes.instances, rows.shape[1]), self._dtype)
        padded[: len(rows)] = rows
        return jax.device_put(padded, self._same)

    def pair_sums(
        self, answers: DeviceOutputs, k: int, matrix: np.ndarray, count: Count
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Starts the reduction of the piece's blocks (`reduce_pairs`). Returns a function of the
        positions of consecutive blocks, int [b], that gives their values, float64 [b, K, M + 3].

        matrix: [rows, M] of k players that differ; count(k) gives M.
        """
        low, parts, level = block_of(k, answers.slot_bits, self.sizes.tile.rows)
        width = count(min(low + LEVELS - 1, self.sizes.tile.P))
        made = partial(block_weights, matrix, parts, level, width)
        weights = self._weights_on_device(matrix, made)
        program = self.programs.compiled.program(self._pairs(weights))
        last = np.int32((1 << min(k, low)) - 1)
        sums = program(answers.values, weights, np.int32(level), last)

        def read(blocks: np.ndarray) -> np.ndarray:
            parts = self._read(answers, sums)[:, :, :: 1 << level]  # one part of each pair
            parts = parts.reshape(-1, *parts.shape[3:])[blocks]
            return np.concatenate([parts[..., : matrix.shape[1]], parts[..., width:]], axis=-1)

        return read

    def pair_recipe(
        self, k: int, slot_bits: int, matrix: np.ndarray, count: Count
    ) -> ProgramRecipe:
        """Recipe of the program that `pair_sums` runs for pairs of k players that differ."""
        low, parts, level = block_of(k, slot_bits, self.sizes.tile.rows)
        made = block_weights(matrix, parts, level, count(min(low + LEVELS - 1, self.sizes.tile.P)))
        return self._pairs(shape(self._same, *made.shape, dtype=self._dtype))

    def _pairs(self, weights: Any) -> ProgramRecipe:
        """Recipe of the sums of pairs with these weights, an array or its shape."""
        tile, platform = self.sizes.tile, self.mesh.devices.flat[0].platform
        most = self.programs.compiled.memory.share("results")
        reduce = partial(reduce_pairs, group=group_tiles(tile.rows, tile.outputs, platform, most))
        at = np.int32(0), np.int32(0)
        return self.programs.reduction("pairs", reduce, (False,) * 3, weights, *at)

    def piece_sums(
        self, answers: DeviceOutputs, matrices: np.ndarray, high_bits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        """Starts `reduce_pieces` on the piece; high_bits int32 [tiles of the piece].

        Returns a function that gives float64 [tiles of the piece, K, columns + 3].
        """
        padded = np.zeros(self.sizes.tiles, np.int32)
        padded[answers.place] = high_bits
        bits = jax.device_put(padded, self._split)
        weights = self._weights_on_device(matrices)
        program = self.programs.compiled.program(self.piece_recipe(matrices))
        sums = program(answers.values, weights, bits)
        return lambda: self._read(answers, sums)

    def piece_recipe(self, matrices: np.ndarray) -> ProgramRecipe:
        """Recipe of the program that `piece_sums` runs."""
        weights = shape(self._same, *matrices.shape, dtype=self._dtype)
        bits = shape(self._split, self.sizes.tiles)
        return self.programs.reduction("pieces", reduce_pieces, (False, True), weights, bits)

    def _weights_on_device(
        self, matrix: np.ndarray, made: Callable[[], np.ndarray] | None = None
    ) -> jax.Array:
        """The matrix, or `made` of it, in the outputs' dtype, put on the devices once."""
        cached = self._weights.get(id(matrix))
        if cached is None:
            whole = matrix if made is None else made()
            # The matrix is cached too, so that its id stays unique.
            cached = (matrix, jax.device_put(whole.astype(self._dtype), self._same))
            self._weights[id(matrix)] = cached
        return cached[1]

    def tables(
        self, streams: list[tuple[Pairs, GameQuery]], start: np.ndarray, differs: np.ndarray
    ) -> np.ndarray:
        """v(S) of N instances over B donors: float64 [N, 2^P, K].

        start [N, B]: a pair's first row, the streams one after another; differs bool [N, B, P].
        """
        rows = sum(pairs.rows for pairs, _ in streams)
        values = np.empty((rows, self.sizes.tile.outputs), self.sizes.tile.dtype)
        before = 0
        for pairs, question in streams:
            for answers in self.answers(pairs, question.x, question.masks):
                question.check(pairs, answers)
                first, count = before + answers.piece.first_row, answers.piece.rows
                tiles = np.asarray(answers.values)
                if self.mesh.size > 1:  # elsewhere the tiles are in order
                    tiles = tiles[answers.place]
                values[first : first + count] = tiles.reshape(-1, values.shape[1])[:count]
                question.done(count)
            before += pairs.rows
        return tables_of_pairs(values, start, differs, streams[0][1].donor_weights)

    def stream_means(self, stream: ListedStream, question: GameQuery) -> np.ndarray:
        """v(S) of the stream's instances for a list of coalitions, float64 [N, C, K]."""
        values = self._held(stream, question)
        means = partial(self._group_recipe, values)
        groups = self._means(means, question)[: stream.groups]
        K = groups.shape[-1]
        return groups.reshape(len(stream.instances), -1, K)[:, : stream.coalitions]

    def pair_means(
        self, pairs: Pairs, question: GameQuery, places: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """`stream_means` if some pairs are evaluated by sub-coalitions; places as in
        `list_means`."""
        values = self._held(pairs, question)
        start, listed, rank = places
        assert question.masks is not None
        padded = [
            _to_power_of_two(a) for a in (start.astype(np.int32), listed, rank, question.masks)
        ]
        v = self._means(partial(_list_recipe, values, *padded), question)
        return v[: len(start), : len(question.masks)]

    def _held(self, stream: Stream, question: GameQuery) -> jax.Array:
        """All outputs of the stream, on the first device; [V, K], V >= its rows.

        V is a power of two of dispatches, so that few shapes compile.
        """
        held = self._held_shape(stream.rows)
        home = self.mesh.devices.flat[0]
        values = jnp.zeros(held.shape, held.dtype, device=home)
        for answers in self.answers(stream, question.x, question.masks):
            question.check(stream, answers)
            place = np.zeros(self.sizes.tiles, np.int32)
            place[: len(answers.place)] = answers.place
            part = (jax.device_put(answers.values, home), place)
            first = np.int32(answers.piece.first_row)
            values = self.programs.compiled.run(self._put_recipe(values, *part, first))
            question.done(answers.piece.rows)
        return values

    def _held_shape(self, rows: int) -> jax.ShapeDtypeStruct:
        """Shape of the outputs of `rows` rows, held together."""
        home = SingleDeviceSharding(self.mesh.devices.flat[0])
        pieces = _power_of_two(-(-rows // self.sizes.rows))
        dims = pieces * self.sizes.rows, self.sizes.tile.outputs
        return shape(home, *dims, dtype=self._dtype)

    def _put_recipe(self, held: Any, *values: Any) -> ProgramRecipe:
        """Recipe of the program that adds a dispatch's outputs, positions and first row to the
        held arrays; values: these three, or none for their shapes.
        """
        s = self.sizes
        part = shape(held.sharding, s.tiles, s.tile.rows, s.tile.outputs, dtype=self._dtype)
        arguments = values or (part, np.zeros(s.tiles, np.int32), np.int32(0))
        return ProgramRecipe(("put",), put, (held, *arguments), what=PUT, donate=(0,))

    def _group_recipe(self, held: Any, weights: np.ndarray) -> ProgramRecipe:
        """Recipe of the program that takes the means of a list, group by group."""
        slot = 1 << self.slot_bits

        def means(values: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
            return group_means(values, weights, slot)

        return ProgramRecipe(("groups", slot), means, (held, weights), what=MEANS)

    def _means(
        self, recipe_of: Callable[[np.ndarray], ProgramRecipe], question: GameQuery
    ) -> np.ndarray:
        """The compensated sum over donors by the recipe for their weights, float64."""
        # Equal weights become exactly one; the scale is restored in float64.
        scale = question.donor_weights.max()
        weights = (question.donor_weights / scale).astype(self._dtype)
        high, low = self.programs.compiled.run(recipe_of(weights))
        means = np.asarray(high).astype(np.float64)
        with np.errstate(invalid="ignore"):  # overflow of float32 is refused by the method
            means += np.asarray(low)
        means *= scale  # in place: with one donor these arrays are as long as the outputs
        return means

    def values(self, answers: DeviceOutputs) -> np.ndarray:
        """The outputs themselves, float64 [rows, K]."""
        tiles = self._read(answers, answers.values)
        return tiles.reshape(-1, tiles.shape[-1])[: answers.piece.rows]

    def _read(self, answers: DeviceOutputs, array: jax.Array) -> np.ndarray:
        """Results on the host, in float64, in the order of the stream."""
        return np.asarray(array)[answers.place].astype(np.float64)

    def any_bad(self, answers: DeviceOutputs) -> bool:
        """Whether an output is not finite, or a score is out of bounds."""
        return bool(np.asarray(answers.bad).any())

    def _tiles(self, piece: Dispatch, S: int) -> np.ndarray:
        """The slots of a piece, S per tile; the padding repeats a valid row."""
        slots, count = piece.slots, len(piece.slots)
        tiles = -(-count // S)
        self.clock.padded_rows += tiles * self.sizes.tile.rows - piece.rows
        if count < tiles * S:
            slots = np.concatenate([slots, np.repeat(slots[-1:], tiles * S - count, axis=0)])
        return slots.reshape(tiles, S, -1)

    def _seeded(self, pairs: Pairs, S: int, T: int, most: int) -> Iterator[tuple[Any, ...]]:
        """The pieces, with the runs from which the device makes their slots, and the table of their
        pairs."""
        last: np.ndarray | None = None
        table: Any = None
        for piece in seeds(pairs, S, T, most):
            if piece.table is not last:
                last, full = piece.table, np.zeros((most, piece.table.shape[1]), np.int32)
                full[: len(last)] = last
                table = jax.device_put(full, self._same)
            self.clock.padded_rows += len(piece.tiles) * self.sizes.tile.rows - piece.rows
            yield piece, piece.tiles, table


def _list_recipe(*arguments: Any) -> ProgramRecipe:
    """Recipe of the program for the means of a list if some pairs are evaluated by
    sub-coalitions.
    """
    return ProgramRecipe(("list",), list_means, arguments, what=MEANS)


def _to_power_of_two(array: np.ndarray) -> np.ndarray:
    """Pads the first axis with zeros to a power of two, so that few shapes compile."""
    missing = _power_of_two(len(array)) - len(array)
    return np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1))


def _power_of_two(count: int) -> int:
    """The smallest power of two of at least `count`."""
    return 1 << (count - 1).bit_length()


def part_of_tile(engine: Engine, parts: int) -> int:
    """Rows of a tile that is `parts` times smaller than the device's usual one, if it fits."""
    probe = engine.findings
    columns, itemsize = engine.replacement.columns, engine.replacement.dtype.itemsize
    width = probe.widest
    whole = tile_rows(max(width, columns), itemsize, engine.devices[0].platform)
    per_row = bytes_of_row(itemsize, width, columns, engine.outputs)
    return fitting_tile(whole // parts, per_row, engine.memory)


FAR = 7  # a hundredth of the memory, a small share


def least_of_structure(engine: Engine) -> int:
    """Bytes of the largest product of the model's structure for the smallest tile, and of its
    head's input; 0: it evaluates no sub-coalitions. The rows of a product may be padded, so that
    all have the same rounding.
    """
    if not (engine.structured and engine.worthwhile):
        return 0
    platform, replacement = engine.devices[0].platform, engine.replacement
    known, itemsize = engine.known, replacement.dtype.itemsize
    if SMALLEST_OF_WIDE * known.parts * itemsize <= engine.memory.whole >> FAR:
        return 0  # it fits without looking at a trace
    most = min(engine.players.count, SMALLEST_OF_WIDE.bit_length() - 1)
    bits = min(most, min(known.slot_bits))
    key = "least of a structure", engine.structure, platform, replacement.columns, bits
    cache = engine.compiled.cache
    if key not in cache:
        dims = (SMALLEST_OF_WIDE >> bits, replacement.columns)
        rows = jax.ShapeDtypeStruct(dims, replacement.dtype)
        players = jax.ShapeDtypeStruct((dims[0], bits + 1, dims[1]), bool)

        def answers(params: Any, x: jax.Array, donors: jax.Array, masks: jax.Array) -> jax.Array:
            layer = engine.structure.of(params)
            return layer.subsets(lambda hidden: hidden[:, :1], x, donors, masks, platform)

        made = jax.make_jaxpr(answers)(engine.model.params, rows, rows, players)
        read = SMALLEST_OF_WIDE * known.width * itemsize
        cache[key] = largest_product(made.jaxpr) + read
    return cache[key]


def device_backend(engine: Engine, N: int, before: DeviceBackend | None = None) -> DeviceBackend:
    """The loop of a traced model, planned for N instances.

    before: an earlier loop with too little room, whose plan is continued.
    """
    if before is not None:
        room = rows_held(N, engine.row_bytes, engine.rows_at_a_time)
        return DeviceBackend(before.programs.holding(room))
    probe = engine.findings
    model, codes = engine.model, engine.replacement.for_loops
    placement = placed(engine.devices, model.params)
    sizes = plan_sizes(
        width=probe.widest,
        itemsize=codes.itemsize,
        platform=engine.devices[0].platform,
        shape=engine.replacement.table.asked(codes[:1]).shape[1:],
        P=engine.players.count,
        outputs=engine.outputs,
        dtype=codes.dtype.name,
        donors=donors_held(len(codes), engine.row_bytes),
        columns=codes.shape[1],
        devices=placement.mesh.size,
        tile=engine.limits.tile,
        batch_rows=engine.limits.batch_rows,
        most_rows=engine.most_rows(N),
        memory=engine.memory,
        least=least_of_structure(engine),
        weights=None if engine.worthwhile else weights_of(probe.jaxpr),
        operations=operations(probe.jaxpr, probe.rows),
        answers=probe.outputs if engine.score is not None and engine.score.reads_own else 0,
        instances=N,
    )
    return DeviceBackend(Programs(engine, sizes, placement))
