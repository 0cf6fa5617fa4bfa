"""Host models: hybrids drawn on the device as codes, answered by the model, reduced in float64.

`HostBackend` has the methods of `device.DeviceBackend`, in NumPy.

Letters: R rows in a model call, C code columns, K outputs, S slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.process import in_order, threads_of
from xaijax.games.engine.dispatch import ProgramRecipe, shape
from xaijax.games.engine.loop import Count, GameQuery, Instances, Stream, every_row
from xaijax.games.engine.plan import (
    capacity,
    power_below,
    rows_held,
)
from xaijax.models.queries.findings import answer_host
from xaijax.tables.table import CodeTable
from xaijax_kernels.engine.host_loop import HostOutputs, run_on_host
from xaijax_kernels.engine.hybrids import hybrid_rows
from xaijax_kernels.engine.lattice import LISTED, Dispatch, Pairs, agreement_codes, list_words
from xaijax_kernels.engine.listed import ListedStream, host_group_means, host_list_means
from xaijax_kernels.engine.tables import tables_of_pairs
from xaijax_kernels.sizes import SMALLEST_OF_WIDE

if TYPE_CHECKING:
    from xaijax.games.engine.evaluator import Engine

Whose = Callable[[np.ndarray], str]  # of slots int32 [R, ...]

ROWS_PER_CALL = 1 << 15
COPIES = 4  # of a row at work: its codes, what they decode to, and two that the model makes
BYTES_OF_ANSWER = 16  # one number as the model gave it, and as it is looked at
TOGETHER = 1 << 20  # answers whose changes are held together
# One row a slot: a host model's row is dear, so none is asked for as padding.
SLOT_BITS = 0


class HostBackend:
    """Runs the pieces of a stream through a host model."""

    def __init__(self, engine: Engine, N: int, table: CodeTable) -> None:
        """N: instances of the question; table: decodes the codes of the rows asked about.

        The sums are taken in blocks whose size does not depend on the size of a call, so that
        batch_size= changes no bit of them.
        """
        self._engine, self._most_rows, self._table = engine, engine.most_rows(N), table
        self.clock, self.compiled = engine.clock, engine.compiled
        self._P, self._score = engine.players.count, engine.score
        self._outputs = engine.findings.outputs  # A
        # Rows of a call of the model, and rows within which a pair is reduced in one go.
        self.rows_per_call, self.rows_per_block = _host_rows(engine, self._most_rows, self._outputs)
        self.slot_bits = SLOT_BITS  # a pair takes at least 2^slot_bits rows
        self.clock.tile = self.rows_per_call
        self._instances = rows_held(N, engine.row_bytes, engine.rows_at_a_time)
        self._listed = engine.listed
        self._device, players = engine.devices[0], engine.players_of_codes
        self._donors = jax.device_put(engine.replacement.for_loops, self._device)
        self._players = None if players is None else jax.device_put(players, self._device)
        self._sharing = _sharing(engine)
        # Calls of a thread-safe model at a time that fit, as `_host_rows` counts them.
        fits = max(1, engine.memory.fits("tile", 8 * engine.row_bytes * self.rows_per_call))
        self.threads = min(threads_of(engine.model.thread_safe), fits)

    @property
    def held(self) -> dict[str, int]:
        """The bytes of calls at work (codes, decoded values, the model's copies), their answers,
        donors and instances.
        """
        row = self._donors.shape[1] * self._donors.dtype.itemsize
        work = min(self.rows_per_call, self._most_rows) * max(1, self.threads)
        return {
            "tile": COPIES * row * work,
            "answers": BYTES_OF_ANSWER * self._outputs * work,
            "instances": row * self._instances,
            "background": row * len(self._donors),
        }

    def _capacity(self, coalitions: int) -> int:
        return capacity(coalitions, self._listed, self._P)

    def calls(self, rows: int, scored: bool = True) -> int:
        """Calls of the model for a stream of `rows` rows, if none are shared."""
        return -(-rows // self.rows_per_call)

    def recipe(
        self, kind: str, bits: int | None = None, scored: bool = True, coalitions: int = 1
    ) -> ProgramRecipe:
        """Recipe of the program that draws hybrids for slots of one kind."""
        slots, words = self._rows >> SLOT_BITS, -(-self._P // 32)
        at, columns = self._donors.sharding, self._donors.shape[1]
        listed = shape(at, self._capacity(coalitions), words, dtype=jnp.uint32)
        arguments = (
            shape(at, self._instances, columns, dtype=self._donors.dtype),
            self._donors,
            self._players,
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

    def stream_mean_recipes(self, rows: int, donors: int, C: int) -> list[ProgramRecipe]:
        """Recipe of the program that draws hybrids, in a list."""
        return [self.recipe("list", coalitions=C)]

    def pair_mean_recipes(
        self, kind: str, rows: int, n: int, donors: int, C: int
    ) -> list[ProgramRecipe]:
        """Recipe of the program that draws hybrids, in a list."""
        return [self.recipe(kind, coalitions=C)]

    def answers(
        self, stream: Stream, x: Instances, masks: np.ndarray | None = None, scored: bool = True
    ) -> Iterator[Any]:
        """Scores all rows of the stream; masks bool [at most `listed`, P], its list.

        scored: False gives the model's answers themselves.
        """
        score = self._score if scored else None
        draw = self._drawer(x.codes, stream.kind, masks)
        whose = WhoseRows(x, stream.kind, masks).of
        several = self._rows > self.rows_per_call
        answers = self.answered(draw, stream.dispatches(self._rows), whose, several)
        for answered in every_row(stream, answers):
            if score is None:
                yield answered
                continue
            piece, values = answered
            own = x.own[piece.slots[:, 1]] if score.reads_own and x.own is not None else None
            yield HostOutputs(piece, score(values, own).astype(np.float64, copy=False))

    def _answer(self, codes: np.ndarray, first: int) -> np.ndarray:
        """The model's answers to rows of codes [R, C], float64 [R, A]; first: for messages."""
        engine = self._engine
        answers = answer_host(engine.model, self._table.asked(codes), first, self._outputs)
        if engine.determinism is not None:
            engine.determinism(codes, answers, self._table)
        return answers

    def answered(
        self,
        draw: Callable[[Any], jax.Array],
        pieces: Iterator[Any],
        whose: Whose,
        several: bool = False,
    ) -> Iterator[HostOutputs]:
        """The model's answers to the rows that `draw` makes of each piece; [rows, A].

        whose(slots of some rows): says whose they are, if the model raises. several: a piece
        takes several calls, over which threads go then; else they go over the pieces.
        """

        def answer(codes: np.ndarray, piece: Any) -> np.ndarray:
            threads = self.threads if several else 1
            return self._asked(codes, piece.first_row, piece.slots, whose, threads)

        mapped = map if several else partial(in_order, threads=self.threads)
        if self._sharing is None:
            yield from run_on_host(draw, answer, pieces, mapped)
            return
        stretches = self._sharing.stretches(pieces)
        for stretch in stretches:
            if not self._sharing.worth:
                rest = chain.from_iterable(stretches)  # which holds a piece that it took ahead
                yield from run_on_host(draw, answer, chain(stretch, rest), mapped)
                return
            yield from self._answer_shared(draw, stretch, self._sharing, whose)

    def _answer_shared(
        self,
        draw: Callable[[Dispatch], jax.Array],
        stretch: list[Dispatch],
        sharing: Sharing,
        whose: Whose,
    ) -> Iterator[HostOutputs]:
        """Asks the distinct rows of all pieces, in as few calls as they take."""
        drawn = [draw(piece) for piece in stretch]
        parts = [np.asarray(d)[: p.rows] for d, p in zip(drawn, stretch, strict=True)]
        codes = np.concatenate(parts)
        asked, place = sharing.places(codes)
        rows = filled(codes[asked])
        slots = np.concatenate([piece.slots for piece in stretch])[asked]
        values = self._asked(rows, stretch[0].first_row, slots, whose, self.threads)[place]
        self.clock.spared_rows += len(codes) - len(asked)
        self.clock.padded_rows += len(rows) - len(asked)
        first = 0
        for piece in stretch:
            yield HostOutputs(piece, values[first : first + piece.rows])
            first += piece.rows

    @property
    def _rows(self) -> int:
        """Rows of one piece: whole blocks, and whole calls."""
        return max(self.rows_per_call, self.rows_per_block)

    def _asked(
        self, codes: np.ndarray, first_row: int, slots: np.ndarray, whose: Whose, threads: int
    ) -> np.ndarray:
        """Asks for rows of codes in calls; slots: those of the rows, for the note on an error."""

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
            own = answers.values[rows * blocks[0] : rows * (blocks[-1] + 1)]
            return _of_blocks(own, rows, lambda change, _: change @ matrix, last)

        return read

    def piece_sums(
        self, answers: HostOutputs, matrices: np.ndarray, high_bits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        """The same as on the device, of full blocks only; float64 [blocks, K, columns + 3]."""

        def summed(change: np.ndarray, first: int) -> np.ndarray:
            out = np.empty((*change.shape[:2], matrices.shape[2]))
            for one, part, h in zip(out, change, high_bits[first:], strict=False):
                one[...] = part @ matrices[h]
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
        """All answers of the stream; float64 [rows, K]."""
        parts = []
        for answers in self.answers(stream, question.x, question.masks):
            question.check(stream, answers)
            parts.append(answers.values)
            question.done(answers.piece.rows)
        return np.concatenate(parts)

    def values(self, answers: HostOutputs) -> np.ndarray:
        """The answers themselves, float64 [rows, K]."""
        return answers.values

    def any_bad(self, answers: HostOutputs) -> bool:
        """Whether an answer is not finite, or a score does not keep its bounds."""
        kept = np.isfinite if self._score is None else self._score.kept
        return not kept(answers.values).all()

    def _drawer(
        self, x: np.ndarray, kind: str, masks: np.ndarray | None
    ) -> Callable[[Dispatch], jax.Array]:
        padded = np.zeros((self._instances, x.shape[1]), x.dtype)
        padded[: len(x)] = x
        on_device = jax.device_put(padded, self._device)
        slots = self._rows >> SLOT_BITS
        words = -(-self._P // 32)
        coalitions, listed = 1, None
        if kind != "subsets":
            assert masks is not None
            coalitions = len(masks)
            held = list_words(masks, self._capacity(coalitions))
            listed = jax.device_put(held, self._device)
        program = self.compiled.program(self.recipe(kind, coalitions=coalitions))

        def draw(piece: Dispatch) -> jax.Array:
            full = np.zeros((slots, 3 + words), np.int32)
            full[: len(piece.slots)] = piece.slots
            return program(on_device, self._donors, self._players, full, listed)

        return draw


def _of_blocks(
    values: np.ndarray,
    rows: int,
    summed: Callable[[np.ndarray, int], np.ndarray],
    last: int = -1,
) -> np.ndarray:
    """What blocks of `rows` rows of answers [R, K] come to, float64 [blocks, K, M + 3]: the sums,
    the answer to the first row and to the row `last`, and how far answers go from the first.

    summed(changes from the first row [b, K, rows], number of the first block) -> [b, K, M]. It
    takes some blocks at a time, because their changes take as much memory as the answers
    themselves.
    """
    blocks, K = len(values) // rows, values.shape[1]
    step = max(1, TOGETHER // (rows * K))
    v = values[: blocks * rows].reshape(blocks, rows, K).swapaxes(1, 2)
    parts = []
    for first in range(0, max(blocks, 1), step):  # of no blocks there is a shape too
        some = v[first : first + step]
        empty, full = some[:, :, :1], some[:, :, last:][:, :, :1]
        change = some - empty
        span = np.maximum(change.max(axis=2), -change.min(axis=2))[:, :, None]
        parts.append(np.concatenate([summed(change, first), empty, full, span], axis=2))
    return np.concatenate(parts)


def _drawn(P: int, kind: str, x: Any, donors: Any, players: Any, slots: Any, masks: Any) -> Any:
    return hybrid_rows(x, donors, players, P, SLOT_BITS, slots, masks, kind)


# Against one reference row, instances that agree in the players they keep have the same hybrids:
# on codes a third of the rows and more. On continuous columns there are next to none, which the
# first rows tell. Against many background rows they are rare, and not looked for.

MOST_ROWS = 1 << 19  # looked through together
FIRST_ROWS = 1 << 16  # and of the first look, which decides whether there is another
WORTH = 0.1  # of the rows at least must be spared; continuous columns share 2^-k of them
# Rows of a call are filled up to a multiple: how many are new depends on the other instances, and
# linear algebra rounds the last few rows of a product in another way than the rest.
MULTIPLE = 64


class Sharing:
    """Whether and in how large stretches shared rows are looked for."""

    def __init__(self, most_rows: int) -> None:
        """most_rows: whose codes fit the memory."""
        self.worth = True
        self._most = min(most_rows, MOST_ROWS)
        self._first = True

    def stretches(self, pieces: Iterator[Dispatch]) -> Iterator[list[Dispatch]]:
        """The pieces, some at a time. One is taken ahead: the rest is in what this returns."""
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
        """Rows to ask, int64 [distinct], and for each row its place among them; codes [R, C]."""
        words = agreement_codes(codes)
        same_as = first_alike(words, hashes(words))
        asked = np.flatnonzero(same_as == np.arange(len(codes)))
        self.worth = self.worth and len(asked) <= (1 - WORTH) * len(codes)
        self._first = False
        return asked, np.searchsorted(asked, same_as)


def filled(rows: np.ndarray) -> np.ndarray:
    """Rows [R, C] with the last one repeated to a whole multiple."""
    return np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % MULTIPLE, axis=0)])


def hashes(words: np.ndarray) -> np.ndarray:
    """64 bits of each row of whole numbers [R, C], by a polynomial in an odd constant; [R]."""
    out = np.zeros(len(words), np.uint64)
    for column in words.T:
        out ^= column.astype(np.int64).view(np.uint64)
        out *= np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
    return out


def first_alike(words: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """For each row the first row that equals it, or itself where rows of one key differ; [R]."""
    order = np.argsort(keys, kind="stable")
    new = np.r_[True, np.diff(keys[order]) != 0]
    first = np.empty(len(words), np.int64)
    first[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1]
    alike = (words[first] == words).all(axis=1)
    return np.where(alike, first, np.arange(len(words)))


OF_X = "these are hybrids of X"  # how a note begins that counts rows as the call did
_SHOWN = 8  # stretches of rows that are named


class WhoseRows:
    """The rows of a stream whose slots are one row each."""

    def __init__(self, x: Instances, kind: str, masks: np.ndarray | None) -> None:
        """kind, masks: those of the stream."""
        self._here = x.here
        # For rows asked one by one: whether a coalition of the list keeps nothing of X.
        self._none_kept = None if kind != "rows" or masks is None else ~masks.any(axis=1)

    def of(self, slots: np.ndarray) -> str:
        """What some rows are, in words; slots int32 [R, 3 + words]."""
        if self._none_kept is not None and self._none_kept[slots[:, 0] - LISTED].all():
            rows = named_rows(slots[:, 2])
            return f"these are donors as they are (background, pool or data), {rows} of them, not X"
        own = slots[:, 1] if self._here is None else self._here[slots[:, 1]]
        return f"{OF_X} {named_rows(own)} with the donors (background, pool or data)"


def named_rows(rows: Any) -> str:
    """ "row 4", "rows 0 to 31", "rows 2, 5 and 9 to 11" of whole numbers in any order."""
    distinct = np.unique(rows)
    ends = np.flatnonzero(np.diff(distinct) > 1)
    starts = distinct[np.r_[0, ends + 1]]
    stops = distinct[np.r_[ends, len(distinct) - 1]]
    parts = [f"{a}" if a == b else f"{a} to {b}" for a, b in zip(starts, stops, strict=True)]
    if len(distinct) == 1:
        return f"row {parts[0]}"
    more = len(parts) - _SHOWN
    if more > 0:
        left = int((distinct > stops[_SHOWN - 1]).sum())
        return f"rows {', '.join(parts[:_SHOWN])} and {left:,} more"
    return f"rows {' and '.join(filter(None, [', '.join(parts[:-1]), parts[-1]]))}"


def _sharing(engine: Engine) -> Sharing | None:
    """How hybrids of several instances are shared; None if none can be the same, or the model is
    random.
    """
    if engine.replacement.count > 1 or not engine.limits.shares or not engine.model.deterministic:
        return None
    # Codes, those asked, and what sorting needs.
    return Sharing(engine.memory.fits("parts", engine.row_bytes + 32))


def _host_rows(engine: Engine, most_rows: int, K: int) -> tuple[int, int]:
    """(rows of one call, rows of one block of sums).

    A block: `tile`, or as many rows as the share of a tile holds with their codes, their
    decoded values and the model's own copies, and that of answers with their K numbers; a power of
    two. A call: `batch_size` rounded up
    to whole blocks, as tiles are on a device: many models round a single row's answer in
    another way than a batch's. Never more than is asked for, than fits, or than the model's
    `max_rows`, a power of two below it.
    """
    engine.refuse_large_tile()
    memory = engine.memory
    fits = memory.fits("tile", 8 * engine.row_bytes)
    fits = min(fits, memory.fits("answers", BYTES_OF_ANSWER * K))
    block = engine.limits.tile or max(SMALLEST_OF_WIDE, min(ROWS_PER_CALL, power_below(fits)))
    wanted = min(engine.limits.batch_rows or block, max(block, min(most_rows, fits)))
    call = -(-wanted // block) * block
    if engine.model.max_rows is not None:
        call = min(call, power_below(engine.model.max_rows))
    return call, block
