"""JAX models: the dispatches that feed the compiled programs of one explainer.

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

from xaijax.games.engine.dispatch import Dispatches, ProgramRecipe, UnderWay, placed, shape
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
from xaijax_kernels.engine.reduce import block_of, block_weights, reduce_pairs, reduce_pieces
from xaijax_kernels.engine.seeds import Seeds, seeds
from xaijax_kernels.engine.steps import operations
from xaijax_kernels.engine.tables import put, tables_of_pairs
from xaijax_kernels.engine.tiles import weights_of, widest_layer
from xaijax_kernels.sizes import group_tiles, tile_rows
from xaijax_kernels.structures.named import NAMED

if TYPE_CHECKING:
    from xaijax.games.engine.evaluator import Engine

PUT, MEANS = "a list of answers", "the means of a list"  # programs, for messages


@dataclass
class DeviceOutputs:
    """One piece of the stream and the model's answers, still on the device."""

    under_way: UnderWay
    slot_bits: int  # of the stream

    @property
    def piece(self) -> Dispatch | Seeds:
        """Which rows."""
        return self.under_way.asked

    @property
    def place(self) -> np.ndarray:
        """Places of the piece's tiles among the T tiles."""
        return self.under_way.place

    @property
    def values(self) -> jax.Array:
        """[T, R, K]."""
        return self.under_way.results.result()[0]

    @property
    def bad(self) -> jax.Array:
        """int32 [T], 1 if an answer is not finite, or a score out of its bounds."""
        return self.under_way.results.result()[1]


class DeviceBackend:
    """Runs the pieces of a stream on the devices of its programs."""

    def __init__(self, programs: Programs) -> None:
        """programs: those for the sizes and the devices to run on."""
        self.programs = programs
        self.sizes, self.mesh, self.clock = programs.sizes, programs.mesh, programs.compiled.clock
        self.clock.tile = self.sizes.tile.rows
        self.slot_bits = self.sizes.tile.slot_bits  # a pair takes at least 2^slot_bits rows
        self.rows_per_block = self.sizes.tile.rows  # within which a pair is reduced in one go
        self.held = self.sizes.held  # the bytes that the run is planned with
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
        """Recipe of the program that answers slots of one kind; bits: those of structured slots,
        coalitions: those of the list that slots name. See `Programs.run`.
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

        masks: bool [at most `listed`, P], the coalitions that the stream names. scored: False gives
        the model's answers themselves.
        """
        bits = stream.slot_bits if stream.kind == "structured" else None
        coalitions, words = 1, None
        if stream.kind in NAMES_LIST:
            assert masks is not None
            coalitions = len(masks)
            held = list_words(masks, self.programs.capacity(coalitions))
            words = jax.device_put(held, self._same)
        run = self.programs.run(stream.kind, scored, bits, coalitions)
        self._weights.clear()
        slots = self.programs.shape(stream.kind, scored, bits).slots
        own = x.own if self.programs.reads_own(scored) else None
        p = self.programs
        before = (p.params, self._padded(x.codes), p.donors, p.players)
        after = (words, None if own is None else self._padded(own))
        tiles = p.tiles(scored)
        if isinstance(stream, Pairs) and p.seeded(stream.kind):
            work = self._seeded(stream, slots, tiles, p.pairs(scored, bits))
        else:
            pieces = stream.dispatches(tiles * self.sizes.tile.rows)
            work = ((piece, self._tiles(piece, slots), None) for piece in pieces)
        dispatches = Dispatches(self.mesh, self.clock, tiles)
        asked = dispatches.run(run, before, work, after)
        yield from every_row(stream, (DeviceOutputs(one, stream.slot_bits) for one in asked))

    def _padded(self, rows: np.ndarray) -> jax.Array:
        """Rows of some instances on the devices, as many as every call has."""
        padded = np.zeros((self.sizes.instances, rows.shape[1]), self._dtype)
        padded[: len(rows)] = rows
        return jax.device_put(padded, self._same)

    def pair_sums(
        self, answers: DeviceOutputs, k: int, matrix: np.ndarray, count: Count
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Starts the values of the piece's blocks (`reduce_pairs`). Called with the places of some
        consecutive blocks, int [b], the result gives theirs, float64 [b, K, M + 3].

        matrix: [rows, M] of k players that differ; count(k) gives M.
        """
        low, parts, level = block_of(k, answers.slot_bits, self.sizes.tile.rows)
        width = count(min(low + 2, self.sizes.tile.P))
        made = partial(block_weights, matrix, parts, level, width)
        weights = self._weights_on_device(matrix, made)
        program = self.programs.compiled.program(self._pairs(weights))
        last = np.int32((1 << min(k, low)) - 1)
        sums = program(answers.values, weights, np.int32(level), last)

        def read(blocks: np.ndarray) -> np.ndarray:
            found = self._read(answers, sums)[:, :, :: 1 << level]  # one part of each pair
            found = found.reshape(-1, *found.shape[3:])[blocks]
            return np.concatenate([found[..., : matrix.shape[1]], found[..., width:]], axis=-1)

        return read

    def pair_recipe(
        self, k: int, slot_bits: int, matrix: np.ndarray, count: Count
    ) -> ProgramRecipe:
        """Recipe of the program that `pair_sums` runs for pairs of k players that differ."""
        low, parts, level = block_of(k, slot_bits, self.sizes.tile.rows)
        made = block_weights(matrix, parts, level, count(min(low + 2, self.sizes.tile.P)))
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
        """`reduce_pieces` started on the piece; high_bits int32 [tiles of the piece].

        Call the result for float64 [tiles of the piece, K, columns + 3].
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
        """The matrix, or what is made of it, in the answers' dtype, put on the devices once."""
        kept = self._weights.get(id(matrix))
        if kept is None:
            whole = matrix if made is None else made()
            # The matrix is kept too: its id then stays its own.
            kept = (matrix, jax.device_put(whole.astype(self._dtype), self._same))
            self._weights[id(matrix)] = kept
        return kept[1]

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
        """The same if some pairs answer their sub-coalitions; places as in `list_means`."""
        values = self._held(pairs, question)
        start, listed, rank = places
        assert question.masks is not None
        padded = [
            _to_power_of_two(a) for a in (start.astype(np.int32), listed, rank, question.masks)
        ]
        v = self._means(partial(_list_recipe, values, *padded), question)
        return v[: len(start), : len(question.masks)]

    def _held(self, stream: Stream, question: GameQuery) -> jax.Array:
        """All answers of the stream, kept on the first device; [V, K], V >= its rows.

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
        """Shape of the answers of `rows` rows, held together."""
        home = SingleDeviceSharding(self.mesh.devices.flat[0])
        pieces = _power_of_two(-(-rows // self.sizes.rows))
        dims = pieces * self.sizes.rows, self.sizes.tile.outputs
        return shape(home, *dims, dtype=self._dtype)

    def _put_recipe(self, held: Any, *given: Any) -> ProgramRecipe:
        """Recipe of the program that puts a dispatch's answers, its places and its first row into
        those held; given: these three, or none for their shapes.
        """
        s = self.sizes
        part = shape(held.sharding, s.tiles, s.tile.rows, s.tile.outputs, dtype=self._dtype)
        own = given or (part, np.zeros(s.tiles, np.int32), np.int32(0))
        return ProgramRecipe(("put",), put, (held, *own), what=PUT, donate=(0,))

    def _group_recipe(self, held: Any, weights: np.ndarray) -> ProgramRecipe:
        """Recipe of the program that takes the means of a list, group by group."""
        slot = 1 << self.slot_bits

        def means(values: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
            return group_means(values, weights, slot)

        return ProgramRecipe(("groups", slot), means, (held, weights), what=MEANS)

    def _means(
        self, recipe_of: Callable[[np.ndarray], ProgramRecipe], question: GameQuery
    ) -> np.ndarray:
        """What the recipe of the donors' weights makes, a compensated sum over donors, float64."""
        # Equal weights become ones, exactly; the scale is put back in float64.
        scale = question.donor_weights.max()
        weights = (question.donor_weights / scale).astype(self._dtype)
        high, low = self.programs.compiled.run(recipe_of(weights))
        means = np.asarray(high).astype(np.float64)
        with np.errstate(
            invalid="ignore"
        ):  # what is too large for float32 is refused by the method
            means += np.asarray(low)
        means *= scale  # in place: with one donor these arrays are as long as the answers
        return means

    def values(self, answers: DeviceOutputs) -> np.ndarray:
        """The answers themselves, float64 [rows, K]."""
        tiles = self._read(answers, answers.values)
        return tiles.reshape(-1, tiles.shape[-1])[: answers.piece.rows]

    def _read(self, answers: DeviceOutputs, array: jax.Array) -> np.ndarray:
        """Results on the host, in float64, in the order of the stream."""
        return np.asarray(array)[answers.place].astype(np.float64)

    def any_bad(self, answers: DeviceOutputs) -> bool:
        """Whether an answer is not finite, or a score does not keep its bounds."""
        return bool(np.asarray(answers.bad).any())

    def _tiles(self, piece: Dispatch, S: int) -> np.ndarray:
        """The slots of a piece, S in each tile; the padding repeats a valid row."""
        slots, count = piece.slots, len(piece.slots)
        tiles = -(-count // S)
        self.clock.padded_rows += tiles * self.sizes.tile.rows - piece.rows
        if count < tiles * S:
            slots = np.concatenate([slots, np.repeat(slots[-1:], tiles * S - count, axis=0)])
        return slots.reshape(tiles, S, -1)

    def _seeded(self, pairs: Pairs, S: int, T: int, most: int) -> Iterator[tuple[Any, ...]]:
        """The pieces, what the device makes their slots of, and the table of their pairs."""
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
    """Recipe of the program that takes the means of a list, where pairs answer some of it by
    sub-coalitions.
    """
    return ProgramRecipe(("list",), list_means, arguments, what=MEANS)


def _to_power_of_two(array: np.ndarray) -> np.ndarray:
    """Zeros after the first axis, up to a power of two, so that few shapes compile."""
    missing = _power_of_two(len(array)) - len(array)
    return np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1))


def _power_of_two(count: int) -> int:
    """The least from `count` on."""
    return 1 << (count - 1).bit_length()


def part_of_tile(engine: Engine, parts: int) -> int:
    """Rows of a tile that is smaller by `parts` than a device's usual one, where that fits."""
    probe = engine.findings
    columns, itemsize = engine.replacement.columns, engine.replacement.dtype.itemsize
    width = widest_layer(probe.jaxpr, probe.rows, NAMED)
    whole = tile_rows(max(width, columns), itemsize, engine.devices[0].platform)
    per_row = bytes_of_row(itemsize, width, columns, engine.outputs)
    return fitting_tile(whole // parts, per_row, engine.memory)


def device_backend(engine: Engine, N: int, before: DeviceBackend | None = None) -> DeviceBackend:
    """The loop of a traced model, planned for N instances.

    before: a loop that lacks the room for them, whose plan goes on with more.
    """
    if before is not None:
        room = rows_held(N, engine.row_bytes, engine.rows_at_a_time)
        return DeviceBackend(before.programs.holding(room))
    probe = engine.findings
    model, codes = engine.model, engine.replacement.for_loops
    placement = placed(engine.devices, model.params)
    sizes = plan_sizes(
        width=widest_layer(probe.jaxpr, probe.rows, NAMED),
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
        weights=None if engine.worthwhile else weights_of(probe.jaxpr),
        operations=operations(probe.jaxpr, probe.rows),
        answers=probe.outputs if engine.score is not None and engine.score.reads_own else 0,
        instances=N,
    )
    return DeviceBackend(Programs(engine, sizes, placement))
