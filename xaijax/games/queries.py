"""Computes semivalues, values of coalitions and full tables of a run, and their costs.

The strategy is chosen here too, from sizes and the probe, never from a model's output.

Everything is batched over instances from the start. Bit 1 of a coalition = KEPT: entry 0 is the
value with everything replaced, entry 2^P - 1 is f(x).

**Semivalues** for a linear quantity: each instance goes to the first strategy that takes it.

1. closed form, if the model's trace shows one (additive models, sums of trees): all instances,
   without hybrids.
2. averaged tables, if the model's structure evaluates sub-coalitions on a device: instances that
   differ from nearly every donor in every player. They need at least four donors, 2^P rows that
   fit a tile, and a score that is not a vector of probabilities.
3. pairs: all others, by the 2^k sub-coalitions of a pair that differs in k players; evaluated by
   the structure if its products are at least a 32nd of the model's (`Engine.worthwhile`), otherwise
   by the model.

**All coalitions**, if an outer function acts on the mean or a table is requested: full tables, made
of the sub-coalitions of pairs as in 3.

**Listed coalitions**, of sampled estimators and of sets that the user names:

1. a few sets, if their distinct donors are at most three quarters of the list's rows: crossed with
   the instances by the model's structure, if its table of values fits the memory; otherwise each
   distinct donor once.
2. sub-coalitions of pairs, for instances whose sub-coalitions are at most three quarters of the
   list's rows.
3. sums of parts, by a layer that adds and saves enough of the model, or the bits of trees' leaves,
   with four donors or more.
4. the list: one row for each coalition and donor.

**Coalitions of each instance**: one row per coalition and donor (`own_values`).

**Orders** of players: by a first layer if possible (`GameRun.may_scan`); otherwise as listed
coalitions.

**Drawn hybrids** of QII: by an additive first layer, if its parts fit the memory and a draw has few
coalitions (`drawn.drawn_values`); otherwise one row each. **Private sums**: one row each, at
positions that depend on sizes only (`plain`).

**The empty and the full coalition** are evaluated with the coalitions, or separately if there are
none (`certify.py`), by a table of the players' values if the structure adds.

A structure evaluates only rows with finite numbers, and never if the score reads f(x).

Letters: N instances, B donors, P players, K scores, C coalitions or code columns, k players that
differ, n of them, D orders, L coalitions of a draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from xaijax.core.errors import InputError, ModelOutputError
from xaijax.games.certify import refuse_structure, refuse_wrong_program, scored
from xaijax.games.engine.evaluator import LARGEST_PAIR
from xaijax.games.engine.loop import Backend
from xaijax.games.refuse import table_limits
from xaijax.games.run import GameRun
from xaijax.games.strategies.averaged import ByAveragedTables
from xaijax.games.strategies.by_pairs import ByPairs, full_tables, full_tables_cost
from xaijax.games.strategies.by_parts import ByParts
from xaijax.games.strategies.closed_form import ByClosedForm, ClosedForm, closed_form, no_paths
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
from xaijax.games.strategies.totals import Chunk, Totals, Weights

SemivalueStrategy = ByClosedForm | ByAveragedTables | ByPairs
ListStrategy = ByCrossing | ByDistinctDonors | ByList


def _solved(run: GameRun, weights: Weights) -> ClosedForm | None:
    """The closed form of the values with these weights; None: hybrids are needed. Probes the
    model, unless no closed form exists for its kind.
    """
    key = weights.of
    if key not in run.solved:
        engine = run.engine
        untold = engine.uses_host or engine.score is not None or not engine.model.deterministic
        if untold or not run.quantity.linear:
            return None  # before the probe
        solved = run.read_affine() is not None and run.may_solve()
        if solved:
            run.read_affine()  # another thread may have probed the model again
        run.solved[key] = closed_form(run.engine, key) if solved else None
    return run.solved[key]


def _strategies(run: GameRun, weights: Weights) -> list[Callable[[], SemivalueStrategy]]:
    """Strategies for the values with these weights, in order; records the structure in `run`.
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
    """Yields the strategies for the values of coalitions, bool [C, P], in order; each is made when
    the previous one leaves instances. Probes the model.

    few: there are few coalitions, so distinct donors may be fewer than the list's rows.
    """
    listed = masks[0 : len(masks)] if few else None
    entries = None if listed is None else entries_worth_it(run, listed)
    if listed is None or entries is None:
        yield _by_list(run, masks, K)
    else:
        yield ByCrossing(run, listed, entries, K)
        yield ByDistinctDonors(run, listed, entries, K)


def _by_list(run: GameRun, masks: Masks, K: int) -> ByList:
    """The strategy for a list of coalitions: by sub-coalitions, a layer or rows."""
    return ByList(run, [BySubsets(run), ByParts(run), ByRows(run)], masks, K)


CLOSED_ROWS = 4096  # instances per step of a closed form


@dataclass(frozen=True)
class ExactCost:
    """Cost of exact values."""

    rows: np.ndarray  # int64 [N], distinct model rows of each instance
    # int64 [N], maximum number of players that differ from a donor; 0: not counted
    largest: np.ndarray


def exact_cost(run: GameRun, weights: Weights | None = None) -> ExactCost:
    """Counts the model rows of exact values, a chunk at a time.

    weights: of values that a closed form may give, which takes one full row per instance, however
    many players differ; probes the model, unless no closed form exists for its kind. None: closed
    forms are not considered.
    """
    if not run.engine.replacement.HYBRIDS or (
        weights is not None and _solved(run, weights) is not None
    ):
        return ExactCost(np.ones(run.N, np.int64), run.largest)
    rows, largest = np.zeros(run.N, np.int64), np.zeros(run.N, np.int64)
    chosen = run.quantity.asked(run.N)
    for first, differs in run.differing(chosen):
        k = differs.sum(axis=2, dtype=np.int64)
        places = chosen[first : first + len(differs)]
        largest[places] = k.max(axis=1)
        # Above the limit the count is irrelevant, but must not overflow.
        rows[places] = (np.int64(1) << np.minimum(k, LARGEST_PAIR + 1)).sum(axis=1)
    run.largest = largest
    return ExactCost(rows, largest)


def moving(run: GameRun, rows: np.ndarray) -> np.ndarray:
    """Returns which players differ from a donor, bool [n, P], of the instances `rows` [n].

    The others change nothing: their values are 0 by every strategy. With a random model all players
    differ.
    """
    moves = np.empty((len(rows), run.P), bool)
    for first, differs in run.differing(rows):
        moves[first : first + len(differs)] = differs.any(axis=1)
    return moves


def full_rows_cost(run: GameRun) -> None:
    """Adds f(x) of each instance to `run.cost`, as evaluated by `run.instances`."""
    backend, step = run.backend(), run.engine.rows_at_a_time
    parts = (min(step, run.N - first) for first in range(0, run.N, step))
    calls = sum(backend.calls(n, scored=False) for n in parts)
    run.cost.add_rows(slice(None), 1)
    run.cost.add_calls(calls, backend.recipe("rows", scored=False))


def require_closed_form(run: GameRun, weights: Weights, estimator: str) -> None:
    """Raises InputError if values with these weights need hybrids, which the replacement cannot
    make.

    estimator: the requested one. Probes the model.
    """
    quantity = run.quantity
    if estimator not in ("auto", "exact"):
        reason = f"estimator={estimator!r} samples. Leave it out: the values are exact"
    elif not quantity.linear:
        reason = f"{quantity.argument}={quantity.name!r} has no closed form. Leave it out"
    elif weights.order > 1:
        reason = f"order={weights.order} has no closed form. Say order=1, or give background rows"
    else:
        run.read_affine()
        reason = no_paths(run.compare())
    if reason is None and _solved(run, weights) is None:
        reason = "the index or the rows have no closed form. Say index='shapley'"
    if reason is not None:
        raise InputError(f"background=TreePaths() is answered in closed form only: {reason}.")


def _chunks(
    run: GameRun, weights: Weights, chosen: np.ndarray
) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    """Yields (position of the first, instances, their differences from the donors) of the
    instances `chosen` that are processed together.
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

    rows: int [n], the instances; None: all. For groups one row is returned.
    """
    backend, groups = run.backend(), run.quantity.groups
    chosen = run.quantity.asked(run.N) if rows is None else rows
    n, donors = len(chosen if groups is None else groups), run.engine.replacement.weights
    totals = Totals(n, run.P, run.engine.outputs, weights, donors, run.random_answers)
    strategies = _strategies(run, weights)
    for chunk in _chunks(run, weights, chosen):
        add = partial(_add, run, strategies, totals, *chunk)
        backend, _ = run.with_less_where_memory_is_short(backend, add)
    if run.engine.offset is not None:  # each row is a mean
        totals.empty += run.engine.offset
        totals.full += run.engine.offset
    if run.quantity.groups is not None and run.shares_base:
        totals.empty[:] = totals.empty[:1]
    factors = run.quantity.combine
    return totals.combined(factors) if isinstance(factors, np.ndarray) else totals


def semivalues_cost(run: GameRun, weights: Weights, rows: np.ndarray) -> None:
    """Adds the cost of `semivalues` with these weights for the instances `rows` [n] to
    `run.cost`."""
    backend, strategies = run.backend(), _strategies(run, weights)
    for _, chosen, differs in _chunks(run, weights, rows):
        _share_out(strategies, Chunk(backend, chosen, differs), None)
    form, values = _solved(run, weights), weights.count(run.P) * run.engine.outputs
    run.cost.reserve(results=16 * len(rows) * values + (0 if form is None else form.size))


def _share_out(
    strategies: list[Callable[[], SemivalueStrategy]], chunk: Chunk, totals: Totals | None
) -> None:
    """Gives the instances of a chunk to the first strategy that takes and solves them, for their
    sums in `totals`; None: for their cost, which is added to the run's.
    """
    left = np.arange(len(chunk.here))
    for make in strategies:
        if not len(left):
            return
        strategy = make()
        places = left[strategy.takes(chunk)[left]]
        if not len(places):
            continue
        if totals is None:
            strategy.cost(chunk, places)
        else:
            places = places[strategy.add(chunk, places, totals)]
        left = np.setdiff1d(left, places)


def _add(
    run: GameRun,
    strategies: list[Callable[[], SemivalueStrategy]],
    totals: Totals,
    first: int,
    chosen: np.ndarray,
    differs: np.ndarray | None,
    backend: Backend,
) -> None:
    """Puts the sums of one chunk, or of its groups, into `totals`."""
    n, groups = len(chosen), run.quantity.groups
    part = totals.chunk(first, first + n) if groups is None else totals.like(n)
    part.clear()
    if groups is None and run.structure is None and not run.random_answers:
        part.keep_donors(shared=run.shares_base)
    _share_out(strategies, Chunk(backend, chosen, differs), part)
    part.add_donors()
    if groups is not None:
        run.note_size(part.full, part.empty)
        totals.add(groups[:, chosen], part)


def refuse_other(run: GameRun, full: np.ndarray) -> None:
    """Raises ModelOutputError if the computed f(x) [N, K] is not the model's own."""
    if not run.quantity.linear or run.engine.score is not None:
        return
    if run.structure is None:
        refuse_wrong_program(run, full)
    else:
        refuse_structure(run, run.structure, full)


def whole(run: GameRun) -> tuple[np.ndarray, np.ndarray] | None:
    """(the value with nothing replaced, by the model itself [N, K], allowed rounding difference
    of a structure's value [N, K]); None if the model itself was used.
    """
    if run.structure is None and not run.own_base:
        return None
    chosen, whole = run.quantity.asked(run.N), run.full
    certified = whole.answers[chosen], whole.allowed[chosen]
    answers, allowed = scored(run.engine.score, *certified)
    if run.own_base:  # values are compared with the structure's
        allowed = allowed + whole.base_allowed
    means, slack = (_mean(run, [(chosen, a[:, None])]) for a in (answers, allowed))
    value = _whole(run, means)
    most = np.zeros_like(value)
    groups = [slice(None)] if run.quantity.groups is None else list(range(len(means)))
    for g in groups:  # each group's mean changes independently
        part = np.zeros_like(slack)
        part[g] = slack[g]
        off = [np.abs(_whole(run, means + sign * part) - value) for sign in (1, -1)]
        most += np.nan_to_num(np.fmax(*off), nan=np.inf)
    return value, most


def _mean(run: GameRun, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """`Quantity.mean` of the parts; records their sizes."""

    def noted() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for rows, part in parts:
            run.note_size(part)
            yield rows, part

    return run.quantity.mean(parts if run.quantity.groups is None else noted())


def _whole(run: GameRun, means: np.ndarray) -> np.ndarray:
    """The quantity of means [.., 1, K] with nothing replaced, NaN if undefined; [n, K]."""
    combined = means if run.quantity.groups is None else run.quantity.combined(means)
    if run.quantity.outer is None:
        return combined[:, 0]
    with np.errstate(all="ignore"):
        return np.asarray(run.quantity.outer(combined, combined), np.float64)[:, 0]


def values(
    run: GameRun, masks: Masks, rows: np.ndarray | None = None, distinct: bool = False
) -> np.ndarray:
    """v(S) for a list of coalitions; float64 [n, C, K], or [1, C, K] for groups.

    masks: bool [C, P], True = kept; or an object that gives such an array for a slice. rows: int
    [n], the instances; None: all. Equal hybrids are evaluated once if that saves a quarter of an
    instance's rows. distinct: for few coalitions, donors that agree in the replaced columns are
    evaluated once if that saves as much.
    """
    chosen = run.quantity.asked(run.N) if rows is None else rows
    C = len(masks)
    listed = WithWhole(masks, run.P) if run.quantity.reads_full else masks
    for strategy in _list_strategies(run, listed, run.probe().outputs, distinct):
        parts = strategy.means(chosen)
        if parts is not None:
            means = _mean(run, parts)
            run.structure = strategy.structure or run.structure
            return _measured(run, means, C, lambda c: listed[c : c + 1][0])
    raise AssertionError("the last way takes all instances")


def values_cost(run: GameRun, C: int, rows: np.ndarray) -> None:
    """Adds the cost of `values` for a long list of C coalitions and the instances `rows` [n] to
    `run.cost`.
    """
    # Only their number is read: an array of coalitions by players would be large for single pixels.
    unknown = np.broadcast_to(np.zeros(1, bool), (C, run.P))
    strategy = _by_list(run, unknown, run.probe().outputs)
    strategy.cost(rows)
    run.structure = strategy.structure or run.structure


def own_values(run: GameRun, masks: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """v(S) for each instance's own coalitions; float64 [n, C, K].

    masks: bool [n, C, P], True = kept, of the instances `rows` [n]. The game must have no groups.
    """
    (n, C, _), quantity = masks.shape, run.quantity
    listed = masks
    if quantity.reads_full:
        listed = np.concatenate([masks, np.ones_like(masks[:, :1])], axis=1)
    means = own_list_means(run, rows, listed, run.probe().outputs)
    result = means[:, :C]
    if quantity.linear:
        return result
    # As one list, so that a message names the instance's coalition.
    full = np.repeat(means[:, -1:], C, axis=1).reshape(1, n * C, -1)
    measured = quantity.of(
        result.reshape(1, n * C, -1),
        full if quantity.reads_full else None,
        lambda c: run.named(masks[c // C, c % C]),
    )
    return measured.reshape(result.shape)


def base(run: GameRun) -> np.ndarray | None:
    """The common value of the empty coalition [K], by the model itself, if a structure evaluates
    hybrids, whose rounding of a donor's output depends on the row. None: a closed form or the
    model itself was used, or the value differs between instances.
    """
    shared = run.shares_base and run.quantity.groups is None and not run.quantity.reads_full
    if not shared or run.closed or (run.structure is None and not run.may_structure()):
        return None
    run.own_base = True
    return run.quantity.of(run.full.base[None, None], None, lambda _: "nothing")[0, 0]


def _measured(
    run: GameRun, means: np.ndarray, C: int, kept_of: Callable[[int], np.ndarray]
) -> np.ndarray:
    """The quantity of C coalitions from means [.., C, K], whose last coalition keeps everything.

    With nothing kept all instances have the same hybrids, so the groups' means are equal; they are
    set to be identical.
    """
    if run.quantity.groups is not None and run.shares_base:
        for c in range(C) if C <= run.P + 2 else (0,):  # of a table, the first
            if not kept_of(c).any():
                means[:, c] = means[:1, c]
    combined = run.quantity.combined(means)
    full = combined[:, -1:] if run.quantity.reads_full else None
    return run.quantity.of(combined[:, :C], full, lambda c: run.named(kept_of(c)))


def scan(run: GameRun, orders: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """v(S) along orders int [D, P], by the first layer; float64 [n, D, 2, P, K].

    Entry [i, d, 0, s - 1] keeps the first s players of order d, entry [i, d, 1, s - 1] the others.
    Only for the instances `rows` [n].
    """
    sums, bad = run.scanner().sums(run.codes[rows], orders)
    sums = run.with_offset(sums)
    if bad and run.engine.model.nonfinite == "raise":
        _refuse_scanned(run, sums, orders, rows)
    donors, (D, P) = run.engine.replacement.count, orders.shape
    evaluated = len(rows) * donors * (2 * D * (P - 1) + 2)
    run.count.distinct += evaluated
    # Every order contains the empty and the full coalition.
    run.count.padded += len(rows) * donors * 2 * D * P - evaluated
    run.report(evaluated)
    run.structure = run.engine.structure_name
    flat = sums.reshape(len(rows), -1, sums.shape[-1])
    return _measured(run, flat, flat.shape[1], _of_scan(orders)).reshape(sums.shape)


def scan_cost(run: GameRun, D: int, rows: np.ndarray) -> None:
    """Adds the cost of `scan` along D orders for the instances `rows` [n] to `run.cost`."""
    scanner = run.scanner()
    run.cost.add_rows(rows, run.engine.replacement.count * (2 * D * (run.P - 1) + 2))
    T = scanner.tiles_of(len(rows), D)
    run.cost.add_calls(scanner.calls(len(rows), D), scanner.recipe(T))
    run.cost.reserve(**scanner.held)
    run.structure = run.engine.structure_name


def _of_scan(orders: np.ndarray) -> Callable[[int], np.ndarray]:
    """The coalition at a position of flattened scans, bool [P]."""

    def kept_of(place: int) -> np.ndarray:
        d, half, s = np.unravel_index(place, (len(orders), 2, orders.shape[1]))
        mask = np.full(orders.shape[1], half == 1)
        mask[orders[d, : s + 1]] = half == 0
        return mask

    return kept_of


def _refuse_scanned(run: GameRun, sums: np.ndarray, orders: np.ndarray, rows: np.ndarray) -> None:
    """Raises ModelOutputError for a scan with outputs that are not finite.

    A scan keeps sums over donors only, so the coalition is evaluated again to name the donor.
    """
    where = np.flatnonzero(~np.isfinite(sums).all(axis=4))
    n, place = divmod(int(where[0]) if len(where) else 0, sums[0, ..., 0].size)
    mask = _of_scan(orders)(place)[None]
    values(run, mask, rows[n : n + 1])
    raise ModelOutputError(
        "the model's head, as structure= declares it, returned answers that are not finite for "
        f"X row {rows[n]}, where the model itself returns numbers. Fix head=, or leave "
        "structure= out."
    )


def tables(run: GameRun, rows: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """v(S), float64 [n, 2^P, K], for chunks of the instances `rows` (None: all).

    For groups one table [1, 2^P, K].
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
    """Adds the cost of `tables` for the instances `rows` [n] to `run.cost`."""
    K = run.probe().outputs
    full_tables_cost(run, rows, K, *table_limits(run, K))
    if run.may_structure():
        run.structure = run.engine.structure_name


def _of_table(P: int) -> Callable[[int], np.ndarray]:
    """The coalition at a position of a table, bool [P]."""
    return lambda c: ((c >> np.arange(P)) & 1).astype(bool)
