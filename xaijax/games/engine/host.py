"""Runs host models: hybrids are made on the device as codes, the model is called, outputs are
reduced in float64.

`HostBackend` has the methods of `device.DeviceBackend`, in NumPy. `SmallBackend` does the same for
a few rows, also of JAX models, which the probe's program evaluates: nothing else is compiled.

Letters: R rows in a model call, C code columns, K outputs, S slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.process import in_order, threads_of
from xaijax.games.engine.dispatch import ProgramRecipe, mesh_of, shape
from xaijax.games.engine.loop import (
    Count,
    GameQuery,
    Instances,
    Stream,
    WhoseRows,
    every_row,
    refuse_lost_rows,
)
from xaijax.games.engine.plan import (
    bytes_of_row,
    capacity,
    is_small,
    power_below,
    refuse_larger,
    rows_held,
)
from xaijax.games.measure.replacement.base import agreement_codes
from xaijax.games.measure.score import Own
from xaijax.models.queries.findings import answer_host
from xaijax.tables.table import CodeTable
from xaijax_kernels.engine.host_loop import HostOutputs, run_on_host
from xaijax_kernels.engine.hybrids import host_hybrid_rows, hybrid_rows
from xaijax_kernels.engine.lattice import Dispatch, Pairs, list_words
from xaijax_kernels.engine.listed import ListedStream, host_group_means, host_list_means
from xaijax_kernels.engine.tables import tables_of_pairs
from xaijax_kernels.sizes import SMALLEST_OF_WIDE

if TYPE_CHECKING:
    from xaijax.games.engine.evaluator import Engine

Whose = Callable[[np.ndarray], str]  # of slots int32 [R, ...]

ROWS_PER_CALL = 1 << 15
# Numbers per call in the model's widest layer: 32,768 rows of up to 1,024 numbers. Larger calls
# save no time per row: ResNet-18 makes 802,816 numbers from an image of 224 x 224, and gets 32
# images per call. The width of a model that is not a module is unknown; it counts as WIDER numbers
# per column.
NUMBERS_PER_CALL = 1 << 25
WIDER = 8
COPIES = 4  # copies of a row in a call: its codes, the decoded row, and two of the model's
BYTES_OF_ANSWER = 16  # one number as returned and as checked
TOGETHER = 1 << 20  # outputs whose changes are held together
# One row per slot: rows of a host model are expensive, so none is used as padding.
SLOT_BITS = 0


class HostBackend:
    """Runs the pieces of a stream through a host model."""

    def __init__(self, engine: Engine, N: int, table: CodeTable) -> None:
        """N: number of instances; table: decodes the codes of the rows.

        The sums use blocks whose size does not depend on the size of a call, so that batch_size=
        does not change them.
        """
        self._engine, self._most_rows, self._table = engine, engine.most_rows(N), table
        self.N = N
        self.clock, self.compiled = engine.clock, engine.compiled
        self._P, self._score = engine.players.count, engine.score
        self._outputs = engine.findings.outputs  # A
        # Rows of a call of the model, and rows within which a pair is reduced at once.
        self.rows_per_call, self.rows_per_block = _host_rows(engine, self._most_rows, self._outputs)
        self.rows_together = self.rows_per_call  # rows that are drawn at once, for pulls
        self.slot_bits = SLOT_BITS  # a pair takes at least 2^slot_bits rows
        self._instances = rows_held(N, engine.row_bytes, engine.rows_at_a_time)
        self._listed = engine.listed
        self.device = engine.devices[0]
        self._donors, self._players = engine.replacement.for_loops, engine.players_of_codes
        self._sharing = _sharing(engine)
        # Number of simultaneous calls of a thread-safe model that fit, as `_host_rows` counts them.
        fits = max(1, engine.memory.fits("tile", _bytes_at_work(engine) * self.rows_per_call))
        self.threads = min(threads_of(engine.model.thread_safe), fits)

    @property
    def held(self) -> dict[str, int]:
        """The bytes of running calls (codes, decoded values, the model's copies), their outputs,
        donors and instances.
        """
        row = self._donors.shape[1] * self._donors.dtype.itemsize
        work = min(self.rows_per_call, self._most_rows) * max(1, self.threads)
        return {
            "tile": max(COPIES * row, _bytes_of_layers(self._engine)) * work,
            "answers": BYTES_OF_ANSWER * self._outputs * work,
            "instances": row * self._instances,
            "background": row * len(self._donors),
        }

    def _capacity(self, coalitions: int) -> int:
        return capacity(coalitions, self._listed, self._P)

    def calls(self, rows: int, scored: bool = True) -> int:
        """Calls of the model for a stream of `rows` rows, if none are shared."""
        return -(-rows // self.rows_per_call)

    @cached_property
    def _on_device(self) -> tuple[jax.Array, jax.Array | None]:
        """The donors and the players of their columns, for the program that makes hybrids."""
        donors, players = jax.device_put(self._donors, self.device), self._players
        return donors, None if players is None else jax.device_put(players, self.device)

    def recipe(
        self, kind: str, bits: int | None = None, scored: bool = True, coalitions: int = 1
    ) -> ProgramRecipe | None:
        """Recipe of the program that makes hybrids for slots of one kind."""
        slots, words = self._rows >> SLOT_BITS, -(-self._P // 32)
        donors, players = self._on_device
        at, columns = donors.sharding, donors.shape[1]
        listed = shape(at, self._capacity(coalitions), words, dtype=jnp.uint32)
        arguments = (
            shape(at, self._instances, columns, dtype=donors.dtype),
            donors,
            players,
            jax.ShapeDtypeStruct((slots, 3 + words), np.int32),
            None if kind == "subsets" else listed,
        )
        drawn = partial(_drawn, self._P, kind)
        what = f"a draw of {slots:,} hybrids"
        return ProgramRecipe(("draw", self._P, kind), drawn, arguments, what=what)

    def pair_recipe(self, k: int, slot_bits: int, matrix: np.ndarray, count: Count) -> None:
        """None: the sums are taken in NumPy."""

    def piece_recipe(self, matrices: np.ndarray) -> None:
        """None: the sums are taken in NumPy."""

    def stream_mean_recipes(self, rows: int, donors: int, C: int) -> list[ProgramRecipe | None]:
        """Recipe of the program that draws hybrids, in a list."""
        return [self.recipe("list", coalitions=C)]

    def pair_mean_recipes(
        self, kind: str, rows: int, n: int, donors: int, C: int
    ) -> list[ProgramRecipe | None]:
        """Recipe of the program that draws hybrids, in a list."""
        return [self.recipe(kind, coalitions=C)]

    def answers(
        self, stream: Stream, x: Instances, masks: np.ndarray | None = None, scored: bool = True
    ) -> Iterator[Any]:
        """Scores all rows of the stream; masks bool [at most `listed`, P], its list.

        scored: False returns the model's outputs without a score.
        """
        draw = self._drawer(x.codes, stream.kind, masks)
        whose = WhoseRows(x, stream.kind, masks).of
        several = self._rows > self.rows_per_call
        answers = self.answered(draw, stream.dispatches(self._rows), whose, several)
        for piece, values in every_row(stream, answers):
            yield self._outputs_of(piece, values, x, scored)

    def _outputs_of(
        self, piece: Any, values: np.ndarray, x: Instances, scored: bool
    ) -> HostOutputs:
        score = self._score if scored else None
        if score is not None:
            reference = x.own[piece.slots[:, 1]] if score.reads_own and x.own is not None else None
            values = score(values, reference).astype(np.float64, copy=False)
        return HostOutputs(piece, values)

    def _answer(self, codes: np.ndarray, first: int) -> np.ndarray:
        """The model's outputs for rows of codes [R, C], float64 [R, A]; first: for messages."""
        engine = self._engine
        answers = answer_host(engine.model, self._table.asked(codes), first, self._outputs)
        if engine.determinism is not None:
            engine.determinism(codes, answers, self._table)
        return answers

    def answered(
        self,
        draw: Callable[[Any], Any],
        pieces: Iterator[Any],
        whose: Whose,
        several: bool = False,
    ) -> Iterator[HostOutputs]:
        """The model's outputs for the rows that `draw` makes of each piece; [rows, A].

        whose(slots of rows): names the rows if the model raises. several: a piece takes several
        calls, which threads share; otherwise threads share the pieces.
        """

        def answer(codes: np.ndarray, piece: Any) -> np.ndarray:
            threads = self.threads if several else 1
            return self._asked(codes, piece.first_row, piece.slots, whose, threads)

        mapped = map if several else partial(in_order, threads=self.threads)
        if self._sharing is None:
            yield from run_on_host(draw, answer, pieces, mapped)
            return
        chunks = self._sharing.chunks(pieces)
        for chunk in chunks:
            if not self._sharing.worth:
                rest = chain.from_iterable(chunks)  # which holds a piece taken ahead
                yield from run_on_host(draw, answer, chain(chunk, rest), mapped)
                return
            yield from self._answer_shared(draw, chunk, self._sharing, whose)

    def _answer_shared(
        self,
        draw: Callable[[Dispatch], Any],
        chunk: list[Dispatch],
        sharing: Sharing,
        whose: Whose,
    ) -> Iterator[HostOutputs]:
        """Evaluates the distinct rows of all pieces, in as few calls as possible."""
        drawn = [draw(piece) for piece in chunk]
        parts = [np.asarray(d)[: p.rows] for d, p in zip(drawn, chunk, strict=True)]
        codes = np.concatenate(parts)
        distinct, place = sharing.places(codes)
        rows = filled(codes[distinct])
        slots = np.concatenate([piece.slots for piece in chunk])[distinct]
        values = self._asked(rows, chunk[0].first_row, slots, whose, self.threads)[place]
        self.clock.spared_rows += len(codes) - len(distinct)
        self.clock.padded_rows += len(rows) - len(distinct)
        first = 0
        for piece in chunk:
            yield HostOutputs(piece, values[first : first + piece.rows])
            first += piece.rows

    @property
    def _rows(self) -> int:
        """Rows of one piece: full blocks, and full calls."""
        return max(self.rows_per_call, self.rows_per_block)

    def _asked(
        self, codes: np.ndarray, first_row: int, slots: np.ndarray, whose: Whose, threads: int
    ) -> np.ndarray:
        """Evaluates rows of codes in calls; slots: of the rows, for the note on an error."""

        def ask(first: int) -> np.ndarray:
            part = slice(first, first + self.rows_per_call)
            try:
                return self._answer(codes[part], first_row + first)
            except Exception as error:
                error.add_note(f"xaijax: {whose(slots[part] if len(slots[part]) else slots[-1:])}")
                raise

        calls = range(0, len(codes), self.rows_per_call)
        parts = list(in_order(ask, calls, threads))
        self.clock.model_calls += len(calls)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def pair_sums(
        self, answers: HostOutputs, k: int, matrix: np.ndarray, count: Count
    ) -> Callable[[np.ndarray], np.ndarray]:
        """The same as on the device, of full blocks only; float64 [b, K, M + 3]."""
        rows, last = len(matrix), (1 << k) - 1

        def read(blocks: np.ndarray) -> np.ndarray:
            changes = answers.values[rows * blocks[0] : rows * (blocks[-1] + 1)]
            return _of_blocks(changes, rows, lambda change, _: change @ matrix, last)

        return read

    def piece_sums(
        self, answers: HostOutputs, matrices: np.ndarray, high_bits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        """The same as on the device, of full blocks only; float64 [blocks, K, columns + 3]."""

        def summed(change: np.ndarray, first: int) -> np.ndarray:
            out = np.empty((*change.shape[:2], matrices.shape[2]))
            for block, part, h in zip(out, change, high_bits[first:], strict=False):
                block[...] = part @ matrices[h]
            return out

        sums = _of_blocks(answers.values, self.rows_per_block, summed)
        return lambda: sums

    def tables(
        self, streams: list[tuple[Pairs, GameQuery]], start: np.ndarray, differs: np.ndarray
    ) -> np.ndarray:
        """v(S) of N instances over B donors: float64 [N, 2^P, K]; differs bool [N, B, P]."""
        parts = [self._held(pairs, question) for pairs, question in streams]
        values = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return tables_of_pairs(values, start, differs, streams[0][1].donor_weights)

    def stream_means(self, stream: ListedStream, question: GameQuery) -> np.ndarray:
        """v(S) of the stream's instances for a list of coalitions, float64 [N, C, K]."""
        groups = host_group_means(
            self._held(stream, question), question.donor_weights, 1 << SLOT_BITS
        )
        return groups.reshape(len(stream.instances), -1, groups.shape[-1])

    def pair_means(
        self, pairs: Pairs, question: GameQuery, places: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """The same if some pairs answer their sub-coalitions; places as in `list_means`."""
        assert question.masks is not None
        values = self._held(pairs, question)
        return host_list_means(values, *places, question.masks, question.donor_weights)

    def _held(self, stream: Stream, question: GameQuery) -> np.ndarray:
        """All outputs of the stream; float64 [rows, K]."""
        parts = []
        for answers in self.answers(stream, question.x, question.masks):
            question.check(stream, answers)
            parts.append(answers.values)
            question.done(answers.piece.rows)
        return np.concatenate(parts)

    def values(self, answers: HostOutputs) -> np.ndarray:
        """The outputs themselves, float64 [rows, K]."""
        return answers.values

    def any_bad(self, answers: HostOutputs) -> bool:
        """Whether an output is not finite, or a score is out of bounds."""
        keeps = np.isfinite if self._score is None else self._score.kept
        return not keeps(answers.values).all()

    def _drawer(
        self, x: np.ndarray, kind: str, masks: np.ndarray | None
    ) -> Callable[[Dispatch], Any]:
        """The function that makes the hybrids of a piece, for the instances x [n, C]."""
        padded = np.zeros((self._instances, x.shape[1]), x.dtype)
        padded[: len(x)] = x
        donors, players = self._on_device
        on_device = jax.device_put(padded, self.device)
        slots = self._rows >> SLOT_BITS
        words = -(-self._P // 32)
        coalitions, listed = 1, None
        if kind != "subsets":
            assert masks is not None
            coalitions = len(masks)
            held = list_words(masks, self._capacity(coalitions))
            listed = jax.device_put(held, self.device)
        recipe = self.recipe(kind, coalitions=coalitions)
        assert recipe is not None
        program = self.compiled.program(recipe)

        def draw(piece: Dispatch) -> jax.Array:
            full = np.zeros((slots, 3 + words), np.int32)
            full[: len(piece.slots)] = piece.slots
            return program(on_device, donors, players, full, listed)

        return draw


def takes_small(engine: Engine, N: int, coalitions: int) -> bool:
    """Whether N instances take path="small" on a probed engine, by sizes (`is_small`). With
    "auto" they do not if the model's parameters are sharded, a structure is declared, or the
    user's score is traced.
    """
    limits, score = engine.limits, engine.score
    if limits.path != "auto":
        return limits.path == "small"
    width, B, platform = engine.replacement.columns, engine.replacement.count, "cpu"
    if not engine.uses_host:
        if score and isinstance(score.function, Own) or mesh_of(engine.model.params) is not None:
            return False
        probe, platform = engine.findings, engine.devices[0].platform
        if probe.layer is not None and probe.layer.declared:
            return False
        width = max(width, probe.widest)
    return is_small(N, B, coalitions, engine.outputs, width, platform)


class SmallBackend(HostBackend):
    """The host loop, with hybrids made in NumPy and JAX models run by the probe's program."""

    def __init__(self, engine: Engine, N: int, table: CodeTable) -> None:
        super().__init__(engine, N, table)
        if engine.uses_host:
            return
        probe, replacement = engine.findings, engine.replacement
        assert probe.programs is not None
        width, columns = probe.widest, replacement.columns
        each = bytes_of_row(replacement.dtype.itemsize, width, columns, probe.outputs)
        what = f"one call of {probe.rows} rows ({columns} columns, widest layer {width})"
        refuse_larger(probe.rows * each, what, engine.memory)
        self._program = partial(probe.programs["probe"][0], jax.device_put(engine.model.params))
        self.rows_per_call = probe.rows
        self.rows_together = self._rows
        self._sharing = None

    def recipe(
        self, kind: str, bits: int | None = None, scored: bool = True, coalitions: int = 1
    ) -> None:
        """None: nothing is compiled."""

    def answers(
        self, stream: Stream, x: Instances, masks: np.ndarray | None = None, scored: bool = True
    ) -> Iterator[Any]:
        """Asks a host model like any other, and a JAX model piece by piece, in this thread."""
        if self._engine.uses_host:
            yield from super().answers(stream, x, masks, scored)
            return
        draw, row = self._drawer(x.codes, "", masks), 0
        for piece in stream.dispatches(self._rows):
            try:
                values = self.by_program(draw(piece))
            except Exception as error:  # of a callback
                whose = WhoseRows(x, stream.kind, masks)
                error.add_note(f"xaijax: {whose.of(piece.slots)}")
                raise
            yield self._outputs_of(piece, values, x, scored)
            row += piece.rows
        if row != stream.rows:
            refuse_lost_rows(stream, row)

    def _drawer(
        self, x: np.ndarray, kind: str, masks: np.ndarray | None
    ) -> Callable[[Dispatch], np.ndarray]:
        def draw(piece: Dispatch) -> np.ndarray:
            return host_hybrid_rows(x, self._donors, self._players, self._P, piece.slots, masks)

        return draw

    def _asked(
        self, codes: np.ndarray, first_row: int, slots: np.ndarray, whose: Whose, threads: int
    ) -> np.ndarray:
        if self._engine.uses_host:
            return super()._asked(codes, first_row, slots, whose, threads)
        return self.by_program(codes)

    def by_program(self, codes: np.ndarray) -> np.ndarray:
        """A JAX model's outputs for rows of codes [R, C], float64 [R, A]."""
        rows, step = self._table.asked(codes), self.rows_per_call
        missing = -len(rows) % step
        rows = np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)])
        # All calls start before the first output is read.
        started = [self._program(rows[first : first + step]) for first in range(0, len(rows), step)]
        answers = np.concatenate([np.asarray(answer) for answer in started])[: len(codes)]
        self.clock.model_calls += len(started)
        self.clock.padded_rows += missing
        return answers.reshape(len(codes), -1).astype(np.float64)


def _of_blocks(
    values: np.ndarray,
    rows: int,
    summed: Callable[[np.ndarray, int], np.ndarray],
    last: int = -1,
) -> np.ndarray:
    """Reduces blocks of `rows` rows of outputs [R, K] to float64 [blocks, K, M + 3]: the sums, the
    outputs of the first row and of the row `last`, and the largest change from the first.

    summed(changes from the first row [b, K, rows], number of the first block) -> [b, K, M]. It
    takes some blocks at a time, because their changes take as much memory as the outputs.
    """
    blocks, K = len(values) // rows, values.shape[1]
    step = max(1, TOGETHER // (rows * K))
    v = values[: blocks * rows].reshape(blocks, rows, K).swapaxes(1, 2)
    parts = []
    for first in range(0, max(blocks, 1), step):  # zero blocks have a shape too
        chunk = v[first : first + step]
        empty, full = chunk[:, :, :1], chunk[:, :, last:][:, :, :1]
        change = chunk - empty
        span = np.maximum(change.max(axis=2), -change.min(axis=2))[:, :, None]
        parts.append(np.concatenate([summed(change, first), empty, full, span], axis=2))
    return np.concatenate(parts)


def _drawn(P: int, kind: str, x: Any, donors: Any, players: Any, slots: Any, masks: Any) -> Any:
    return hybrid_rows(x, donors, players, P, SLOT_BITS, slots, masks, kind)


# With one reference row, instances that agree in the kept players have equal hybrids: for codes a
# third of the rows or more. For continuous columns there are almost none, as the first rows show.
# With many background rows they are rare, and not searched.

MOST_ROWS = 1 << 19  # rows searched together
FIRST_ROWS = 1 << 16  # rows of the first search, which decides whether to continue
WORTH = 0.1  # least share of saved rows; continuous columns share 2^-k of the rows
# Rows of a call are padded to a multiple: the number of new rows depends on the other instances,
# and linear algebra rounds the last few rows of a product differently.
MULTIPLE = 64


class Sharing:
    """Decides whether shared rows are searched, and in which chunks."""

    def __init__(self, most_rows: int) -> None:
        """most_rows: number of rows whose codes fit the memory."""
        self.worth = True
        self._most = min(most_rows, MOST_ROWS)
        self._first = True

    def chunks(self, pieces: Iterator[Dispatch]) -> Iterator[list[Dispatch]]:
        """Yields several pieces at a time. One piece is taken ahead; the results contain the
        rest."""
        held: list[Dispatch] = []
        rows = 0
        for piece in pieces:
            most = min(FIRST_ROWS, self._most) if self._first else self._most
            if held and rows + piece.rows > most:
                yield held
                held, rows = [], 0
            held.append(piece)
            rows += piece.rows
        if held:
            yield held

    def places(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(rows to evaluate int64 [distinct], the position of each row among them); codes [R,
        C]."""
        words = agreement_codes(codes)
        same_as = first_alike(words, hashes(words))
        distinct = np.flatnonzero(same_as == np.arange(len(codes)))
        self.worth = self.worth and len(distinct) <= (1 - WORTH) * len(codes)
        self._first = False
        return distinct, np.searchsorted(distinct, same_as)


def filled(rows: np.ndarray) -> np.ndarray:
    """Rows [R, C] padded with the last one to a multiple."""
    return np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % MULTIPLE, axis=0)])


def hashes(words: np.ndarray) -> np.ndarray:
    """64-bit hashes of rows of integers [R, C], by a polynomial in an odd constant; [R]."""
    out = np.zeros(len(words), np.uint64)
    for column in words.T:
        out ^= column.astype(np.int64).view(np.uint64)
        out *= np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
    return out


def first_alike(words: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Returns the first equal row of each row, or itself if rows with one key differ; [R]."""
    order = np.argsort(keys, kind="stable")
    new = np.r_[True, np.diff(keys[order]) != 0]
    first = np.empty(len(words), np.int64)
    first[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1]
    alike = (words[first] == words).all(axis=1)
    return np.where(alike, first, np.arange(len(words)))


def _sharing(engine: Engine) -> Sharing | None:
    """How hybrids of several instances are shared; None if none can be equal, or the model is
    random.
    """
    if engine.replacement.count > 1 or not engine.limits.shares or not engine.model.deterministic:
        return None
    # All codes, the codes to evaluate, and arrays for sorting.
    return Sharing(engine.memory.fits("parts", engine.row_bytes + 32))


def _bytes_of_layers(engine: Engine) -> int:
    """Bytes that a row's widest layer reads and writes, float32; 0: unknown."""
    return 2 * 4 * (engine.findings.width or 0)


def _bytes_at_work(engine: Engine) -> int:
    """Bytes per row of a running call."""
    return max(2 * COPIES * engine.row_bytes, _bytes_of_layers(engine))


def _host_rows(engine: Engine, most_rows: int, K: int) -> tuple[int, int]:
    """(rows of one call, rows of one block of sums).

    A block has `tile` rows, or enough rows for NUMBERS_PER_CALL numbers in the widest layer; a
    power of two, limited by the memory for codes, decoded values, the model's copies and outputs. A
    call has `batch_size` rows rounded up to full blocks, because many models round a single row
    differently from a batch. It never exceeds the requested rows, the memory, or a power of two
    within the model's `max_rows`.
    """
    engine.refuse_large_tile()
    memory, columns = engine.memory, engine.replacement.for_loops.shape[1]
    fits = memory.fits("tile", _bytes_at_work(engine))
    fits = min(fits, memory.fits("answers", BYTES_OF_ANSWER * K))
    narrow = NUMBERS_PER_CALL // max(1, engine.findings.width or WIDER * columns, columns)
    most = power_below(min(fits, narrow))
    block = engine.limits.tile or max(SMALLEST_OF_WIDE, min(ROWS_PER_CALL, most))
    wanted = min(engine.limits.batch_rows or block, max(block, min(most_rows, fits)))
    call = -(-wanted // block) * block
    if engine.model.max_rows is not None:
        call = min(call, power_below(engine.model.max_rows))
    return call, block
