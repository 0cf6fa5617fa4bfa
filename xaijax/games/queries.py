"""What a run is asked for: semivalues, values of coalitions, full tables; and what that costs.

Which strategy answers is decided here too, from sizes and the probe, never from an answer.

Everything is batched over instances from the start. Bit 1 of a coalition = KEPT: entry 0 is the
value with everything replaced, entry 2^P - 1 is f(x).

**Semivalues** of an explanation whose quantity is linear: each instance goes to the first strategy
that takes it.

1. closed form, where the model's trace shows one (additive models, sums of trees): every instance,
   no hybrid is asked.
2. averaged tables, where the model's structure answers sub-coalitions on a device: instances that
   differ from every donor in every player. They need four donors at least, 2^P rows that fit a
   tile, and a score that is no vector of chances.
3. pairs: all others, by the 2^k sub-coalitions of a pair that differs in k players; answered by the
   structure where its products are at least a 32nd of the model's (`Engine.worthwhile`), else by
   the model.

**All coalitions**, where an outer function acts on the mean or a table is asked for: full tables,
made of the sub-coalitions of pairs as in 3.

**Listed coalitions**, of sampled estimators and of sets that the user names:

1. a few sets, where their distinct donors are at most three quarters of the list's rows: crossed
   with the instances by the model's structure, where its table of values fits the memory; else
   each distinct donor once.
2. sub-coalitions of pairs, for instances where they are at most three quarters of the list's rows.
3. sums of parts, by a layer that adds and saves enough of the model, with four donors or more.
4. the list: one row for each coalition and donor.

**Coalitions that each instance has for itself**: one row for each and each donor (`own_lists`).

**Orders** of players: walked by a first layer, where it may be (`GameRun.may_scan`); else as listed
coalitions.

**Drawn hybrids** of QII: by an additive first layer, where its parts fit the memory and a draw has
few coalitions (`drawn.drawn_values`); else a row each. **Private sums**: one row each, in places
that follow from sizes alone (`plain`).

**The two ends** of a game, nothing kept and f(x), are asked with the coalitions where these are
asked; else apart (`certify.py`), by a table of the players' values where the structure adds.

A structure answers only rows whose numbers are finite, and never if the score looks at f(x).

Letters: N instances, B donors, P players, K scores, C coalitions or code columns, k players that
differ, n of them, D orders, L coalitions of a draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from xaijax.core.errors import ModelOutputError
from xaijax.games.certify import refuse_structure, refuse_wrong_program, scored
from xaijax.games.engine.evaluator import LARGEST_PAIR
from xaijax.games.engine.loop import Backend
from xaijax.games.refuse import table_limits
from xaijax.games.run import GameRun
from xaijax.games.strategies.averaged import ByAveragedTables
from xaijax.games.strategies.by_pairs import ByPairs, full_tables, full_tables_cost
from xaijax.games.strategies.by_parts import ByParts
from xaijax.games.strategies.closed_form import ByClosedForm, ClosedForm, closed_form
from xaijax.games.strategies.distinct_donors import (
    ByCrossing,
    ByDistinctDonors,
    entries_worth_it,
)
from xaijax.games.strategies.listed import (
    ByList,
    ByRows,
    BySubsets,
    Masks,
    WithWhole,
    own_list_means,
)
from xaijax.games.strategies.totals import Stretch, Totals, Weights

SemivalueStrategy = ByClosedForm | ByAveragedTables | ByPairs
ListStrategy = ByCrossing | ByDistinctDonors | ByList


def _solved(run: GameRun, weights: Weights) -> ClosedForm | None:
    """The closed form that gives the values with these weights; None: hybrids are asked. Probes
    the model.
    """
    engine = run.probe()
    linear = run.quantity.linear and engine.affine is not None
    return closed_form(engine, weights) if linear and run.may_solve() else None


def _strategies(run: GameRun, weights: Weights) -> list[Callable[[], SemivalueStrategy]]:
    """Makers of the ways to the values with these weights, in order; says in `run` what answers.
    Probes the model.
    """
    form = _solved(run, weights)
    run.closed = form is not None
    if form is not None:
        run.structure = form.name
        return [partial(ByClosedForm, run, form)]
    pairs = partial(ByPairs, run, weights)
    if not run.may_structure():
        run.structure = None
        return [pairs]
    run.structure = run.engine.structure_name
    return [partial(ByAveragedTables, run, weights), pairs]


def _list_strategies(run: GameRun, masks: Masks, K: int, few: bool) -> Iterator[ListStrategy]:
    """The ways to the values of coalitions, bool [C, P], in order; each is made when the one
    before leaves the instances to it. Probes the model.

    few: they are few, so that their distinct donors may be fewer than the list's rows.
    """
    own = masks[0 : len(masks)] if few else None
    entries = None if own is None else entries_worth_it(run, own)
    if own is None or entries is None:
        yield _by_list(run, masks, K)
    else:
        yield ByCrossing(run, own, entries, K)
        yield ByDistinctDonors(run, own, entries, K)


def _by_list(run: GameRun, masks: Masks, K: int) -> ByList:
    """The strategy for a list of coalitions: sub-coalitions, a layer or rows answer an instance."""
    return ByList(run, [BySubsets(run), ByParts(run), ByRows(run)], masks, K)


CLOSED_ROWS = 4096  # instances answered together by a closed form


@dataclass(frozen=True)
class ExactCost:
    """What exact values would ask for."""

    rows: np.ndarray  # int64 [N], distinct model rows of each instance
    largest: np.ndarray  # int64 [N], players that differ from a donor at most


def exact_cost(run: GameRun) -> ExactCost:
    """Counts what exact values would ask for, a stretch at a time; asks the model nothing."""
    rows, largest = np.zeros(run.N, np.int64), np.zeros(run.N, np.int64)
    chosen = run.quantity.asked(run.N)
    for first, differs in run.differing(chosen):
        k = differs.sum(axis=2, dtype=np.int64)
        here = chosen[first : first + len(differs)]
        largest[here] = k.max(axis=1)
        # Past the limit the count no longer matters, but must not overflow.
        rows[here] = (np.int64(1) << np.minimum(k, LARGEST_PAIR + 1)).sum(axis=1)
    run.largest = largest
    return ExactCost(rows, largest)


def moving(run: GameRun, rows: np.ndarray) -> np.ndarray:
    """Which players differ from a donor, bool [n, P], of the instances `rows` [n].

    The others change nothing: their values are 0, however they are found. With a random model all
    players differ.
    """
    moves = np.empty((len(rows), run.P), bool)
    for first, differs in run.differing(rows):
        moves[first : first + len(differs)] = differs.any(axis=1)
    return moves


def full_rows_cost(run: GameRun) -> None:
    """Adds f(x) of each instance to `run.cost`, which `run.instances` asks."""
    backend, step = run.backend(), run.engine.rows_at_a_time
    parts = (min(step, run.N - first) for first in range(0, run.N, step))
    calls = sum(backend.calls(n, scored=False) for n in parts)
    run.cost.add_rows(slice(None), 1)
    run.cost.add_calls(calls, backend.recipe("rows", scored=False))


def in_closed_form(run: GameRun, weights: Weights) -> bool:
    """Whether values with these weights come from full rows alone; probes the model."""
    return run.quantity.linear and _solved(run, weights) is not None


def _stretches(
    run: GameRun, weights: Weights, chosen: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    """(place of the first, instances, how they differ from the donors) that are asked together,
    of the instances `chosen`.
    """
    if not run.closed:
        for first, differs in run.differing(chosen):
            yield first, chosen[first : first + len(differs)], differs
        return
    # The columns in float64, and three tables of values.
    each = 8 * (run.codes.shape[1] + 3 * weights.count(run.P) * run.engine.outputs)
    step = min(CLOSED_ROWS, max(1, run.engine.memory.fits("results", each)))
    for first in range(0, len(chosen), step):
        yield first, chosen[first : first + step], None


def semivalues(run: GameRun, weights: Weights, rows: np.ndarray | None = None) -> Totals:
    """The values with these weights, of players or of sets of them, if the quantity is
    linear.

    rows: int [n], which instances; None: all. One row comes back where groups are measured.
    """
    backend, groups = run.backend(), run.quantity.groups
    chosen = run.quantity.asked(run.N) if rows is None else rows
    n, donors = len(chosen if groups is None else groups), run.engine.replacement.weights
    totals = Totals(n, run.P, run.engine.outputs, weights, donors, run.random_answers)
    strategies = _strategies(run, weights)
    for stretch in _stretches(run, weights, chosen):
        add = partial(_add, run, strategies, totals, *stretch)
        backend, _ = run.with_less_where_memory_is_short(backend, add)
    if run.engine.offset is not None:  # each row is a mean
        totals.empty += run.engine.offset
        totals.full += run.engine.offset
    if run.quantity.groups is not None and run.shares_base:
        totals.empty[:] = totals.empty[:1]
    factors = run.quantity.combine
    return totals.combined(factors) if isinstance(factors, np.ndarray) else totals


def semivalues_cost(run: GameRun, weights: Weights, rows: np.ndarray) -> None:
    """Adds what `semivalues` asks with these weights for the instances `rows` [n] to `run.cost`."""
    backend, strategies = run.backend(), _strategies(run, weights)
    for _, here, differs in _stretches(run, weights, rows):
        _share_out(strategies, Stretch(backend, here, differs), None)
    run.cost.hold(results=16 * len(rows) * weights.count(run.P) * run.engine.outputs)


def _share_out(
    strategies: list[Callable[[], SemivalueStrategy]], stretch: Stretch, own: Totals | None
) -> None:
    """Gives the instances of a stretch to the first way that takes and answers them, for their
    sums in `own`; None: for their cost, which is added to the run's.
    """
    left = np.arange(len(stretch))
    for make in strategies:
        if not len(left):
            return
        strategy = make()
        places = left[strategy.takes(stretch)[left]]
        if not len(places):
            continue
        if own is None:
            strategy.cost(stretch, places)
        else:
            places = places[strategy.add(stretch, places, own)]
        left = np.setdiff1d(left, places)


def _add(
    run: GameRun,
    strategies: list[Callable[[], SemivalueStrategy]],
    totals: Totals,
    first: int,
    here: np.ndarray,
    differs: np.ndarray | None,
    backend: Backend,
) -> None:
    """Puts the sums of one stretch, or of its groups, into `totals`."""
    n, groups = len(here), run.quantity.groups
    own = totals.stretch(first, first + n) if groups is None else totals.like(n)
    own.clear()
    if groups is None and run.structure is None and not run.random_answers:
        own.keep_donors(shared=run.shares_base)
    _share_out(strategies, Stretch(backend, here, differs), own)
    own.add_donors()
    if groups is not None:
        run.note_size(own.full, own.empty)
        totals.add(groups[:, here], own)


def refuse_other(run: GameRun, full: np.ndarray) -> None:
    """Raises ModelOutputError if f(x) as it was found, [N, K], is not the model's own."""
    if not run.quantity.linear or run.engine.score is not None:
        return
    if run.structure is None:
        refuse_wrong_program(run, full)
    else:
        refuse_structure(run, run.structure, full)


def whole(run: GameRun) -> tuple[np.ndarray, np.ndarray] | None:
    """(the value with nothing replaced, as the model itself answers full rows [N, K], how far
    rounding may take a structure's from it [N, K]); None if the model itself answered.
    """
    if run.structure is None and not run.own_base:
        return None
    chosen, whole = run.quantity.asked(run.N), run.full_row_answers
    own = whole.answers[chosen], whole.allowed[chosen]
    answers, allowed = scored(run.engine.score, *own)
    if run.own_base:  # values are next to the structure's
        allowed = allowed + whole.base_allowed
    means, slack = (_mean(run, [(chosen, a[:, None])]) for a in (answers, allowed))
    value = _whole(run, means)
    most = np.zeros_like(value)
    groups = [slice(None)] if run.quantity.groups is None else list(range(len(means)))
    for g in groups:  # each group's mean moves by itself
        part = np.zeros_like(slack)
        part[g] = slack[g]
        off = [np.abs(_whole(run, means + sign * part) - value) for sign in (1, -1)]
        most += np.nan_to_num(np.fmax(*off), nan=np.inf)
    return value, most


def _mean(run: GameRun, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """`Quantity.mean` of the parts, whose sizes are noted."""

    def noted() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for rows, part in parts:
            run.note_size(part)
            yield rows, part

    return run.quantity.mean(parts if run.quantity.groups is None else noted())


def _whole(run: GameRun, means: np.ndarray) -> np.ndarray:
    """The quantity of means [.., 1, K] with nothing replaced; NaN if it has none; [n, K]."""
    combined = means if run.quantity.groups is None else run.quantity.combined(means)
    if run.quantity.outer is None:
        return combined[:, 0]
    with np.errstate(all="ignore"):
        return np.asarray(run.quantity.outer(combined, combined), np.float64)[:, 0]


def values(
    run: GameRun, masks: Masks, rows: np.ndarray | None = None, distinct: bool = False
) -> np.ndarray:
    """v(S) for a list of coalitions; float64 [n, C, K], or [1, C, K] where groups are measured.

    masks: bool [C, P], True = kept; or what gives such an array for a slice. rows: int [n],
    which instances; None: all. Rows are asked once for hybrids that agree if an instance
    saves a quarter of its rows by it. distinct: for few coalitions, the donors that agree in
    what a coalition replaces are asked once, where that saves as much.
    """
    chosen = run.quantity.asked(run.N) if rows is None else rows
    C = len(masks)
    asked = WithWhole(masks, run.P) if run.quantity.reads_full else masks
    for strategy in _list_strategies(run, asked, run.probe().outputs, distinct):
        parts = strategy.means(chosen)
        if parts is not None:
            means = _mean(run, parts)
            run.structure = strategy.structure or run.structure
            return _measured(run, means, C, lambda c: asked[c : c + 1][0])
    raise AssertionError("the last way takes all instances")


def values_cost(run: GameRun, C: int, rows: np.ndarray) -> None:
    """Adds what `values` asks of a long list of C coalitions for the instances `rows` [n] to
    `run.cost`.
    """
    # Only their number is read: no array of coalitions by players, which single pixels make large.
    unknown = np.broadcast_to(np.zeros(1, bool), (C, run.P))
    strategy = _by_list(run, unknown, run.probe().outputs)
    strategy.cost(rows)
    run.structure = strategy.structure or run.structure


def own_values(run: GameRun, masks: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """v(S) for coalitions that each instance has for itself; float64 [n, C, K].

    masks: bool [n, C, P], True = kept, of the instances `rows` [n]. The game must have no groups.
    """
    (n, C, _), quantity = masks.shape, run.quantity
    asked = masks
    if quantity.reads_full:
        asked = np.concatenate([masks, np.ones_like(masks[:, :1])], axis=1)
    means = own_list_means(run, rows, asked, run.probe().outputs)
    own = means[:, :C]
    if quantity.linear:
        return own
    # As one list, so that a message names the coalition of the instance that it is about.
    full = np.repeat(means[:, -1:], C, axis=1).reshape(1, n * C, -1)
    measured = quantity.of(
        own.reshape(1, n * C, -1),
        full if quantity.reads_full else None,
        lambda c: run.named(masks[c // C, c % C]),
    )
    return measured.reshape(own.shape)


def base(run: GameRun) -> np.ndarray | None:
    """The value with nothing kept of every instance [K], by the model's own answers, where a
    structure answers hybrids: its sums of parts of a row and of a donor round the donor's
    answer by the row. None: a closed form or the model itself answered, or it is not the same
    for all.
    """
    one = run.shares_base and run.quantity.groups is None and not run.quantity.reads_full
    if not one or run.closed or (run.structure is None and not run.may_structure()):
        return None
    run.own_base = True
    return run.quantity.of(run.full_row_answers.base[None, None], None, lambda _: "nothing")[0, 0]


def _measured(
    run: GameRun, means: np.ndarray, C: int, kept_of: Callable[[int], np.ndarray]
) -> np.ndarray:
    """The quantity of C coalitions out of means [.., C, K], where the last keeps everything.

    With nothing kept all rows x are the same hybrids, so the groups' means are equal: they are made
    equal bit for bit.
    """
    if run.quantity.groups is not None and run.shares_base:
        for c in range(C) if C <= run.P + 2 else (0,):  # of a table the first
            if not kept_of(c).any():
                means[:, c] = means[:1, c]
    combined = run.quantity.combined(means)
    full = combined[:, -1:] if run.quantity.reads_full else None
    return run.quantity.of(combined[:, :C], full, lambda c: run.named(kept_of(c)))


def scan(run: GameRun, orders: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """v(S) along orders int [D, P], by the declared first layer; float64 [n, D, 2, P, K].

    Entry [i, d, 0, s - 1] keeps the first s players of order d, entry [i, d, 1, s - 1] the others.
    Only the instances `rows` [n] are walked.
    """
    sums, bad = run.scanner().sums(run.codes[rows], orders)
    sums = run.with_offset(sums)
    if bad and run.engine.model.nonfinite == "raise":
        _refuse_scanned(run, sums, orders, rows)
    donors, (D, P) = run.engine.replacement.count, orders.shape
    asked = len(rows) * donors * (2 * D * (P - 1) + 2)
    run.count.distinct += asked
    # The two ends come with every order.
    run.count.padded += len(rows) * donors * 2 * D * P - asked
    run.report(asked)
    run.structure = run.engine.structure_name
    flat = sums.reshape(len(rows), -1, sums.shape[-1])
    return _measured(run, flat, flat.shape[1], _of_scan(orders)).reshape(sums.shape)


def scan_cost(run: GameRun, D: int, rows: np.ndarray) -> None:
    """Adds what `scan` asks along D orders for the instances `rows` [n] to `run.cost`."""
    scanner = run.scanner()
    run.cost.add_rows(rows, run.engine.replacement.count * (2 * D * (run.P - 1) + 2))
    T = scanner.tiles_of(len(rows), D)
    run.cost.add_calls(scanner.calls(len(rows), D), scanner.recipe(T))
    run.cost.hold(**scanner.held)
    run.structure = run.engine.structure_name


def _of_scan(orders: np.ndarray) -> Callable[[int], np.ndarray]:
    """The coalition at a place of flattened walks, bool [P]."""

    def kept_of(place: int) -> np.ndarray:
        d, half, s = np.unravel_index(place, (len(orders), 2, orders.shape[1]))
        kept = np.full(orders.shape[1], half == 1)
        kept[orders[d, : s + 1]] = half == 0
        return kept

    return kept_of


def _refuse_scanned(run: GameRun, sums: np.ndarray, orders: np.ndarray, rows: np.ndarray) -> None:
    """Raises ModelOutputError for a walk through answers that are not finite.

    A walk keeps sums over donors only, so the coalition is asked again to name the donor.
    """
    where = np.flatnonzero(~np.isfinite(sums).all(axis=4))
    n, place = divmod(int(where[0]) if len(where) else 0, sums[0, ..., 0].size)
    kept = _of_scan(orders)(place)[None]
    values(run, kept, rows[n : n + 1])
    raise ModelOutputError(
        "the model's head, as structure= declares it, returned answers that are not finite for "
        f"X row {rows[n]}, where the model itself returns numbers. Fix head=, or leave "
        "structure= out."
    )


def tables(run: GameRun, rows: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """v(S), float64 [n, 2^P, K], for stretches of the instances `rows` (None: all).

    One table [1, 2^P, K] where groups are measured.
    """
    chosen = run.quantity.asked(run.N) if rows is None else rows
    K = run.probe().outputs
    parts = full_tables(run, chosen, K, *table_limits(run, K))
    if run.quantity.groups is not None:
        parts = iter([(chosen, _mean(run, parts))])
    if run.may_structure():
        run.structure = run.engine.structure_name
    for _, means in parts:
        yield _measured(run, run.with_offset(means), means.shape[1], _of_table(run.P))


def tables_cost(run: GameRun, rows: np.ndarray) -> None:
    """Adds what `tables` asks for the instances `rows` [n] to `run.cost`."""
    K = run.probe().outputs
    full_tables_cost(run, rows, K, *table_limits(run, K))
    if run.may_structure():
        run.structure = run.engine.structure_name


def _of_table(P: int) -> Callable[[int], np.ndarray]:
    """The coalition at a place of a table, bool [P]."""
    return lambda c: ((c >> np.arange(P)) & 1).astype(bool)
