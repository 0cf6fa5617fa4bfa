"""Computes v(S) of a few coalitions by the donors that differ in the replaced columns.

Replacing one column makes at most as many hybrids of an instance as the column has values, for any
number of donors. For each coalition, donors that agree in the replaced columns are therefore
evaluated once, with the sum of their weights. A donor that equals the instance there gives f(x).

Letters: N instances, B donors, P players, C coalitions, E entries (coalition, donor), K scores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xaijax.core.errors import MemoryPlanError
from xaijax.games.certify import ROWS_AT_A_TIME
from xaijax.games.engine.dispatch import THREADS, ProgramRecipe, submit
from xaijax.games.engine.evaluator import Engine, once
from xaijax.games.engine.player_values import Values, distinct, kernel_of, values_of
from xaijax.games.measure.replacement.base import agreement_codes, kept_columns
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import Means
from xaijax_kernels.sizes import DONORS_OF_CROSSING as DONORS
from xaijax_kernels.sizes import INSTANCES_OF_CROSSING as INSTANCES
from xaijax_kernels.structures.crossed import crossed_means

WORTH = 0.75  # largest share of the rows that the list would need
MOST_KEPT = 1 << 20  # number of codes of donors up to which the distinct ones are cached
MOST_INSTANCES = 1 << 11  # in one call; two calls run at the same time


@dataclass(frozen=True)
class Entries:
    """The (coalition, donor) entries of every instance, in the order of coalitions."""

    coalition: np.ndarray  # int32 [E]
    donor: np.ndarray  # int32 [E], one of the donors that agree
    weight: np.ndarray  # float64 [E], total weight of these donors; sums to 1 within a coalition
    start: np.ndarray  # int64 [C], first entry of each coalition
    columns: list[np.ndarray]  # bool [C code columns] for each coalition, the replaced ones

    def __len__(self) -> int:
        return len(self.coalition)


def entries_of(engine: Engine, masks: np.ndarray) -> Entries:
    """Entries of coalitions bool [C, P], True = kept."""
    coalition, donor, weight, columns = [], [], [], []
    for c, mask in enumerate(masks):
        # Coalitions that replace one player are requested repeatedly.
        keeps = (~mask).sum() == 1 and engine.replacement.codes.size <= MOST_KEPT
        find = _apart_by_player if keeps else _apart
        first, weights = find(engine, mask.tobytes())
        coalition.append(np.full(len(first), c, np.int32))
        donor.append(first)
        weight.append(weights)
        columns.append(~kept_columns(mask, engine.code_players))
    start = np.cumsum([0, *map(len, donor)])[:-1]
    joined = [np.concatenate(parts) for parts in (coalition, donor, weight)]
    return Entries(joined[0], joined[1], joined[2], start, columns)


def _apart(engine: Engine, mask: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The distinct donors of a coalition: (one donor of each group that agrees, int32 [E], the
    total weights of the groups [E]).
    """
    codes, weights = engine.replacement.bits, engine.replacement.weights
    replaced = ~kept_columns(np.frombuffer(mask, bool), engine.code_players)
    if replaced.any():
        first, place = distinct(codes[:, replaced])
    else:
        first, place = np.zeros(1, np.int64), np.zeros(len(codes), np.int64)
    return first.astype(np.int32), np.bincount(place.ravel(), weights, len(first))


_apart_by_player = once(_apart)


def agreeing(entries: Entries, x: np.ndarray, donors: np.ndarray) -> np.ndarray:
    """Whether an entry leaves the instance unchanged; bool [n, E]; x [n, code columns]."""
    out = np.empty((len(x), len(entries)), bool)
    stops = [*entries.start[1:], len(entries)]
    for first, last, columns in zip(entries.start, stops, entries.columns, strict=True):
        values, theirs = x[:, columns], donors[entries.donor[first:last]][:, columns]
        same = np.ones((len(x), last - first), bool)
        for j in range(values.shape[1]):
            same &= values[:, j, None] == theirs[None, :, j]
        out[:, first:last] = same
    return out


def means(entries: Entries, values: np.ndarray) -> np.ndarray:
    """The mean over donors of values [n, E, K], for each coalition; [n, C, K].

    The first value of a coalition is subtracted before weighting, so that the mean of equal values
    is exact and an input without influence gets exactly 0.
    """
    first = values[:, entries.start]
    size = np.diff([*entries.start, len(entries)])
    change = entries.weight[:, None] * (values - np.repeat(first, size, axis=1))
    return first + np.add.reduceat(change, entries.start, axis=1)


def entries_worth_it(run: GameRun, masks: np.ndarray) -> Entries | None:
    """The entries by distinct donors; None if they save too little."""
    replacement = run.engine.replacement
    if not run.engine.model.deterministic or run.engine.listed < len(masks):
        return None
    apart = masks[masks.any(axis=1)]
    if not len(apart):
        return None
    entries = entries_of(run.engine, apart)
    slot = 1 << run.backend().slot_bits
    listed = -(-len(apart) // slot) * slot * replacement.count
    return entries if len(entries) <= WORTH * listed else None


def rows_of_list(run: GameRun, masks: np.ndarray) -> int:
    """Maximum number of model rows of a list for one instance; does not call the model."""
    apart = masks[masks.any(axis=1)]
    if not run.engine.model.deterministic or not len(apart):
        return len(masks) * run.engine.replacement.count
    return len(entries_of(run.engine, apart))


class ByDistinctDonors:
    """One row per distinct donor, for a few coalitions bool [C, P]."""

    structure: str | None = None

    def __init__(self, run: GameRun, masks: np.ndarray, entries: Entries, K: int) -> None:
        self._run, self._masks, self._entries, self._K = run, masks, entries, K

    def means(self, chosen: np.ndarray) -> Iterator[Means]:
        """Means of the instances `chosen`."""
        for rows in chunks(self._run, self._entries, chosen, self._K):
            yield rows, with_donors(self._run, self._masks, rows, self._means(rows))

    def _means(self, rows: np.ndarray) -> np.ndarray:
        """Means of the coalitions that keep something; [n, C of them, K]."""
        run, entries = self._run, self._entries
        donors = run.engine.replacement.bits
        listed = self._masks[self._masks.any(axis=1)]  # coalitions that have entries
        masks = np.concatenate([listed, np.ones((1, run.P), bool)])
        same = agreeing(entries, agreement_codes(run.codes[rows]), donors)
        instance, entry = np.nonzero(~same)
        unchanged = np.flatnonzero(same.any(axis=1))
        answers = run.rows_asked(
            rows,
            np.concatenate([instance, unchanged]),
            np.concatenate([entries.donor[entry], np.zeros(len(unchanged), np.int32)]),
            np.concatenate(
                [entries.coalition[entry], np.full(len(unchanged), len(masks) - 1, np.int32)]
            ),
            masks,
        )
        values = np.empty((len(rows), len(entries), self._K))
        values[instance, entry] = answers[: len(instance)]
        full = np.zeros((len(rows), self._K))
        full[unchanged] = answers[len(instance) :]
        place = np.nonzero(same)
        values[place] = full[place[0]]
        return means(entries, values)


class ByCrossing:
    """`ByDistinctDonors` by the model's structure: all instances crossed with the distinct donors
    of each coalition.

    The layer of a hybrid is the sum, or product, of its players' terms, from a table by value
    (`player_values`). No row is made, and the head evaluates thousands of hybrids at once.
    """

    def __init__(self, run: GameRun, masks: np.ndarray, entries: Entries, K: int) -> None:
        self._run, self._masks, self._entries, self._K = run, masks, entries, K

    @property
    def structure(self) -> str:
        """The structure that answers in place of the model."""
        return self._run.engine.structure_name

    def means(self, chosen: np.ndarray) -> Iterator[Means] | None:
        """Means of the instances `chosen`; None: left to the next strategy, because a score is
        invalid or the table of values does not fit.
        """
        run = self._run
        values = values_of(run.engine, run.codes) if run.may_cross() else None
        crossed = None if values is None else self._crossed(values, chosen)
        if crossed is None:
            return None
        run.answered(len(chosen))
        return self._chunks(chosen, crossed)

    def _chunks(self, chosen: np.ndarray, crossed: np.ndarray) -> Iterator[Means]:
        first = 0
        for rows in chunks(self._run, self._entries, chosen, self._K):
            of_rows = crossed[first : first + len(rows)]
            yield rows, with_donors(self._run, self._masks, rows, of_rows)
            first += len(rows)

    def _crossed(self, values: Values, chosen: np.ndarray) -> np.ndarray | None:
        """Means of the coalitions that keep something, float64 [n, C, K]; None: a score is
        invalid."""
        engine, masks = self._run.engine, self._masks[self._masks.any(axis=1)]
        if masks.all():
            answers = self._run.empty_and_full.ask_by_values(donors=False)
            if answers is None:
                return None
            outputs, score = answers[chosen], engine.score
            scores = outputs if score is None else np.asarray(score(outputs, outputs))
            valid = np.isfinite(scores) if score is None else score.kept(scores)
            means = np.repeat(scores[:, None], len(masks), axis=1).astype(np.float64)
            return means if valid.all() else None
        # A block holds its parts two or three times while they are computed.
        per_coalition = 3 * INSTANCES * values.table.shape[1] * values.table.dtype.itemsize
        step = max(1, engine.memory.fits("results", per_coalition))
        parts = []
        for c in range(0, len(masks), step):
            chunk = masks[c : c + step]
            blocks = chunk, *_blocks(self._entries, values, chunk, c)
            part = self._chunk(values, blocks, chosen)
            if part is None:
                return None
            parts.append(part)
        return np.concatenate(parts, axis=1)

    def _chunk(
        self, values: Values, blocks: tuple[np.ndarray, ...], chosen: np.ndarray
    ) -> np.ndarray | None:
        """The means of the coalitions of `blocks`, by `crossed_means`. Two calls run at the same
        time, if the memory holds both.
        """
        engine, N = self._run.engine, len(chosen)
        size = min(
            MOST_INSTANCES,
            INSTANCES << (-(-N // (2 * INSTANCES)) - 1).bit_length(),
        )

        def arguments(first: int) -> tuple[Any, ...]:
            rows = chosen[np.minimum(np.arange(first, first + size), N - 1)]
            return engine.model.params, values.table, values.of_rows[rows], *blocks

        key = ("crossed", engine.structure, engine.score, self._K)
        function = kernel_of(
            crossed_means,
            engine,
            INSTANCES * DONORS,
            INSTANCES,
            values,
            self._K,
        )
        what, ahead = "instances crossed with donors", THREADS
        recipe = ProgramRecipe(key, function, arguments(0), what=what, ahead=ahead)
        try:
            program = engine.compiled.program(recipe)
        except MemoryPlanError:
            ahead = 0
            program = engine.compiled.program(replace(recipe, ahead=0))
        waiting: deque[tuple[slice, Any]] = deque()
        out = np.empty((N, len(blocks[0]), self._K))

        def read() -> bool:
            """Waits for the first of the calls; returns whether all its scores are valid."""
            place, call = waiting.popleft()
            means, bad = call.result()
            out[place] = np.asarray(means)[: len(out[place])]
            return not bad

        for first in range(0, N, size):  # arguments of one shape: the program is looked up once
            waiting.append((slice(first, first + size), submit(program, arguments(first))))
            if len(waiting) > ahead and not read():
                return None
        return out if all(read() for _ in range(len(waiting))) else None


def _blocks(
    entries: Entries, values: Values, masks: np.ndarray, first: int
) -> tuple[np.ndarray, ...]:
    """(coalition [blocks], whether the block is its first, donors [blocks, D, P], weights
    [blocks, D]) of the coalitions masks bool [C, P], beginning at entry `first`.
    """
    stops = [*entries.start[1:], len(entries)]
    coalition, begins, donors, weights = [], [], [], []
    for c, mask in enumerate(masks):
        entry = slice(entries.start[first + c], stops[first + c])
        numbers = values.of_donors[entries.donor[entry]]
        # Values with equal factors have one number, see `player_values`; the distinct ones keep the
        # donors' order, which does not depend on the instances.
        once, place = np.zeros(1, int), np.zeros(1, int)
        if not mask.all():
            once, place = distinct(numbers[:, ~mask])
        order = np.argsort(once)
        once, weight = once[order], np.bincount(place, entries.weight[entry])[order]
        blocks = -(-len(once) // DONORS)
        filled = 0, blocks * DONORS - len(once)
        coalition.append(np.full(blocks, c, np.int32))
        begins.append(np.arange(blocks) == 0)
        donors.append(np.pad(numbers[once], (filled, (0, 0)), mode="edge"))
        weights.append(np.pad(weight, filled))
    joined = [np.concatenate(part) for part in (coalition, begins, donors, weights)]
    shape = len(joined[0]), DONORS
    weight = joined[3].reshape(shape).astype(values.table.dtype)
    return joined[0], joined[1], joined[2].reshape(*shape, -1), weight


def chunks(run: GameRun, entries: Entries, chosen: np.ndarray, K: int) -> Iterator[np.ndarray]:
    """Yields instances int [n] whose outputs are held together."""
    fits = min(ROWS_AT_A_TIME, run.engine.memory.fits("answers", 32 + 16 * K))
    step = max(1, min(run.engine.rows_at_a_time, fits // len(entries)))
    for first in range(0, len(chosen), step):
        yield chosen[first : first + step]


def with_donors(run: GameRun, masks: np.ndarray, rows: np.ndarray, means: np.ndarray) -> np.ndarray:
    """All coalitions [n, C, K]: `means` for those that keep something; those that keep nothing
    have the donors' value, independent of x.
    """
    apart = masks.any(axis=1)
    out = np.empty((len(rows), len(masks), means.shape[2]))
    out[:, apart] = means
    if not apart.all():
        out[:, ~apart] = run.empty_and_full.of_donors(rows)[:, None]
    return out
