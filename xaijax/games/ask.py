"""What a run is asked for: semivalues, values of coalitions, full tables; and what that costs.

Batched over instances from the start. Bit 1 of a coalition = KEPT: entry 0 is the value with
everything replaced, entry 2^P - 1 is f(x).

Letters: N instances, B donors, P players, K scores, C code columns, k players that differ, n of
them, D orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from xaijax.core.errors import ModelOutputError
from xaijax.games.certify import refuse_structure, refuse_wrong_program, scored
from xaijax.games.engine.compiled import ProgramRecipe
from xaijax.games.engine.evaluator import LARGEST_PAIR
from xaijax.games.engine.loop import Backend
from xaijax.games.engine.plan import Held
from xaijax.games.refuse import table_limits
from xaijax.games.run import GameRun
from xaijax.games.ways import choose
from xaijax.games.ways.choose import SemivalueWay, in_parts
from xaijax.games.ways.corners import full_tables, tables_coming
from xaijax.games.ways.listed import Masks, WithWhole, own_list_means
from xaijax.games.ways.totals import Coming, Stretch, Totals, Weights
from xaijax_kernels.games.semivalues import count

CLOSED_ROWS = 4096  # instances answered together by a closed form


@dataclass(frozen=True)
class ExactCost:
    """What exact values would ask for."""

    corners: np.ndarray  # int64 [N], distinct model rows of each instance
    largest: np.ndarray  # int64 [N], players that differ from a donor at most


def survey(run: GameRun) -> ExactCost:
    """Count what exact values would ask for, a stretch at a time; asks the model nothing."""
    corners, largest = np.zeros(run.N, np.int64), np.zeros(run.N, np.int64)
    asked = run.quantity.asked(run.N)
    for first, differs in run.differing(asked):
        k = differs.sum(axis=2, dtype=np.int64)
        here = asked[first : first + len(differs)]
        largest[here] = k.max(axis=1)
        # Past the limit the count no longer matters, but must not overflow.
        corners[here] = (np.int64(1) << np.minimum(k, LARGEST_PAIR + 1)).sum(axis=1)
    run.largest = largest
    return ExactCost(corners, largest)


def moving(run: GameRun, rows: np.ndarray) -> np.ndarray:
    """Which players differ from a donor, bool [n, P], of the instances `rows` [n].

    The others change nothing: their values are 0, however they are found. Of a random model all
    players differ.
    """
    found = np.empty((len(rows), run.P), bool)
    for first, differs in run.differing(rows):
        found[first : first + len(differs)] = differs.any(axis=1)
    return found


def in_closed_form(run: GameRun, weights: Weights) -> bool:
    """Whether values with these weights come from full rows alone; probes the model."""
    return run.quantity.linear and not choose.semivalues(run, weights)[0].asks_hybrids


def _stretches(
    run: GameRun, ways: list[SemivalueWay], chosen: np.ndarray, order: int = 1
) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    """(place of the first, instances, how they differ from the donors) that are planned
    together, of the instances `chosen`; order: the players of a set at most.
    """
    if ways[0].asks_hybrids:
        for first, differs in run.differing(chosen):
            yield first, chosen[first : first + len(differs)], differs
        return
    # The columns in float64, and three tables of values.
    each = 8 * (run.codes.shape[1] + 3 * count(run.P, order) * run.engine.outputs)
    step = min(CLOSED_ROWS, max(1, run.engine.memory.fits("results", each)))
    for first in range(0, len(chosen), step):
        yield first, chosen[first : first + step], None


def semivalues(run: GameRun, weights: Weights, rows: np.ndarray | None = None) -> Totals:
    """The values with these weights, of players or of sets of them, where the quantity is
    linear.

    rows: int [n], which instances; None: all. One row comes back where groups are measured.
    """
    backend, groups = run.backend(), run.quantity.groups
    chosen = run.quantity.asked(run.N) if rows is None else rows
    n, donors = len(chosen if groups is None else groups), run.engine.replacement.weights
    totals = Totals(n, run.P, run.engine.outputs, weights, donors, run.random)
    ways = choose.semivalues(run, weights)
    for stretch in _stretches(run, ways, chosen, weights.order):
        add = partial(_add, run, ways, totals, *stretch)
        backend, _ = run.with_less_where_memory_is_short(backend, add)
    run.structure, run.closed = ways[-1].structure, not ways[0].asks_hybrids
    if run.engine.offset is not None:  # each row is a mean
        totals.empty += run.engine.offset
        totals.full += run.engine.offset
    if run.quantity.groups is not None and run.shares_base:
        totals.empty[:] = totals.empty[:1]
    factors = run.quantity.combine
    return totals.combined(factors) if isinstance(factors, np.ndarray) else totals


def _add(
    run: GameRun,
    ways: list[SemivalueWay],
    totals: Totals,
    first: int,
    here: np.ndarray,
    differs: np.ndarray | None,
    backend: Backend,
) -> None:
    """Put the sums of one stretch, or of its groups, into `totals`."""
    n, groups = len(here), run.quantity.groups
    own = totals.stretch(first, first + n) if groups is None else totals.like(n)
    own.clear()
    if groups is None and ways[0].structure is None and not run.random:
        own.keep_donors(shared=run.shares_base)
    stretch, left = Stretch(backend, here, differs), np.arange(n)
    for way in ways:
        places = left[way.takes(stretch)[left]]
        if len(places):
            left = np.setdiff1d(left, places[way.add(stretch, places, own)])
    own.add_donors()
    if groups is not None:
        run.note_size(own.full, own.empty)
        totals.add(groups[:, here], own)


def refuse_other(run: GameRun, full: np.ndarray) -> None:
    """Raise ModelOutputError where f(x) as it was found, [N, K], is not the model's own."""
    if not run.quantity.linear or run.engine.score is not None:
        return
    if run.structure is None:
        refuse_wrong_program(run, full)
    else:
        refuse_structure(run, run.structure, full)


def whole(run: GameRun) -> tuple[np.ndarray, np.ndarray] | None:
    """(the value with nothing replaced, as the model itself answers whole rows [N, K], how far
    rounding may take a structure's from it [N, K]); None where the model itself answered.
    """
    if run.structure is None and not run.own_base:
        return None
    chosen, whole = run.quantity.asked(run.N), run.ask_whole()
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
    """The quantity of means [.., 1, K] with nothing replaced; NaN where it has none; [n, K]."""
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
    which instances; None: all. Rows are asked once for hybrids that agree where an instance
    saves a quarter of its rows by it. distinct: for few coalitions, the donors that agree in
    what a coalition replaces are asked once, where that saves as much.
    """
    chosen = run.quantity.asked(run.N) if rows is None else rows
    C = len(masks)
    asked = WithWhole(masks, run.P) if run.quantity.reads_full else masks
    for way in choose.listed(run, asked, run.probe().outputs, distinct):
        found = way.means(chosen)
        if found is not None:
            means = _mean(run, found)
            run.structure = way.structure or run.structure
            return _measured(run, means, C, lambda c: asked[c : c + 1][0])
    raise AssertionError("the last way takes all instances")


def own_values(run: GameRun, masks: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """v(S) for coalitions of which each instance has its own; float64 [n, C, K].

    masks: bool [n, C, P], True = kept, of the instances `rows` [n]. Of games without groups.
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
    found = quantity.of(
        own.reshape(1, n * C, -1),
        full if quantity.reads_full else None,
        lambda c: run.named(masks[c // C, c % C]),
    )
    return found.reshape(own.shape)


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
    return run.quantity.of(run.ask_whole().base[None, None], None, lambda _: "nothing")[0, 0]


def _measured(
    run: GameRun, means: np.ndarray, C: int, kept_of: Callable[[int], np.ndarray]
) -> np.ndarray:
    """The quantity of C coalitions out of means [.., C, K], where the last keeps everything.

    With nothing kept all rows x are the same hybrids, so the groups' means are equal: made so
    to the last bit.
    """
    if run.quantity.groups is not None and run.shares_base:
        for c in range(C) if C <= run.P + 2 else (0,):  # of a table the first
            if not kept_of(c).any():
                means[:, c] = means[:1, c]
    combined = run.quantity.combined(means)
    full = combined[:, -1:] if run.quantity.reads_full else None
    return run.quantity.of(combined[:, :C], full, lambda c: run.named(kept_of(c)))


def walk(run: GameRun, orders: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """v(S) along orders int [D, P], by the declared first layer; float64 [n, D, 2, P, K].

    Entry [i, d, 0, s - 1] keeps the first s players of order d, entry [i, d, 1, s - 1] the
    others. For the instances `rows` [n].
    """
    sums, bad = run.walker().sums(run.codes[rows], orders)
    sums = run.with_offset(sums)
    if bad and run.engine.model.nonfinite == "raise":
        _refuse_walked(run, sums, orders, rows)
    donors, (D, P) = run.engine.replacement.count, orders.shape
    asked = len(rows) * donors * (2 * D * (P - 1) + 2)
    run.count.distinct += asked
    # The two ends come with every order.
    run.count.padded += len(rows) * donors * 2 * D * P - asked
    run.told(asked)
    run.structure = run.engine.structure_name
    flat = sums.reshape(len(rows), -1, sums.shape[-1])
    return _measured(run, flat, flat.shape[1], _of_walk(orders)).reshape(sums.shape)


def _of_walk(orders: np.ndarray) -> Callable[[int], np.ndarray]:
    """The coalition at a place of flattened walks, bool [P]."""

    def kept_of(place: int) -> np.ndarray:
        d, half, s = np.unravel_index(place, (len(orders), 2, orders.shape[1]))
        kept = np.full(orders.shape[1], half == 1)
        kept[orders[d, : s + 1]] = half == 0
        return kept

    return kept_of


def _refuse_walked(run: GameRun, sums: np.ndarray, orders: np.ndarray, rows: np.ndarray) -> None:
    """Raise ModelOutputError for a walk through answers that are not finite.

    A walk keeps sums over donors only, so the coalition is asked again to name the donor.
    """
    where = np.argwhere(~np.isfinite(sums).all(axis=4))
    n, d, half, s = (int(i) for i in where[0]) if len(where) else (0, 0, 0, 0)
    kept = np.full((1, run.P), half == 1)
    kept[0, orders[d, : s + 1]] = half == 0
    values(run, kept, rows[n : n + 1])
    raise ModelOutputError(
        "the model's head, as structure= declares it, returned answers that are not finite for "
        f"X row {rows[n]}, where the model itself returns numbers. Mend head=, or leave "
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


def _of_table(P: int) -> Callable[[int], np.ndarray]:
    """The coalition at a place of a table, bool [P]."""
    return lambda c: ((c >> np.arange(P)) & 1).astype(bool)


@dataclass
class Planned:
    """Of the N instances of a game, so far."""

    rows: np.ndarray  # int64 [N]
    calls: int = 0
    structure: str | None = None
    recipes: dict[tuple, ProgramRecipe] = field(default_factory=dict)
    held: Held = field(default_factory=dict)  # the most that is held at a time, beside the backend

    def add(self, places: np.ndarray, coming: Coming) -> None:
        """Count what the instances at `places` are asked."""
        self.rows[places] += coming.rows
        self.calls += coming.calls
        self.recipes |= {recipe.name: recipe for recipe in coming.recipes}

    def hold(self, **sizes: int) -> None:
        """Count bytes of shares that are held at a time."""
        self.held |= {name: max(size, self.held.get(name, 0)) for name, size in sizes.items()}


def nothing(run: GameRun) -> Planned:
    """Nothing yet."""
    return Planned(np.zeros(run.N, np.int64))


def plan_whole_rows(run: GameRun, planned: Planned) -> None:
    """Add f(x) of each instance, where the score looks at it and nobody gave it."""
    backend = run.backend()
    score = run.engine.score
    if score is None or not score.reads_own or run.own is not None:
        return
    step = run.engine.rows_at_a_time
    for first in range(0, run.N, step):
        calls = backend.calls(min(step, run.N - first), scored=False)
        some = np.arange(first, min(first + step, run.N))
        recipes = [backend.recipe("rows", scored=False)]
        planned.add(some, Coming(np.ones(len(some), np.int64), calls, recipes))


def plan_semivalues(run: GameRun, weights: Weights, rows: np.ndarray, planned: Planned) -> None:
    """Add what `semivalues` asks with these weights for the instances `rows` [n]."""
    backend, ways = run.backend(), choose.semivalues(run, weights)
    for _, here, differs in _stretches(run, ways, rows):
        stretch, left = Stretch(backend, here, differs), np.arange(len(here))
        for way in ways:
            places = left[way.takes(stretch)[left]]
            if len(places):
                planned.add(here[places], way.coming(stretch, places))
                left = np.setdiff1d(left, places)
    planned.structure = ways[-1].structure
    planned.hold(results=16 * len(rows) * weights.count(run.P) * run.engine.outputs)


def plan_tables(run: GameRun, rows: np.ndarray, planned: Planned) -> None:
    """Add what `tables` asks for the instances `rows` [n]."""
    K = run.probe().outputs
    most, together = table_limits(run, K)
    for here, coming in tables_coming(run, rows, most, together):
        planned.add(here, coming)
        planned.hold(answers=16 * K * min(most, int(coming.rows.sum())))
        planned.hold(results=(24 * K << run.P) * len(here))
    if run.may_structure():
        planned.structure = run.engine.structure_name


def plan_listed(run: GameRun, C: int, rows: np.ndarray, planned: Planned) -> None:
    """Add what `values` asks of a list of C coalitions for the instances `rows` [n]."""
    backend = run.backend()
    asked = in_parts(run, np.zeros((C, run.P), bool), run.engine.outputs)
    random = not run.engine.model.deterministic
    for first, differs in run.differing(rows):
        own = rows[first : first + len(differs)]
        coming = asked.coming(backend, own, None if random else differs)
        planned.add(own, coming)
        most = min(asked.most, int(coming.rows.sum()))
        planned.hold(answers=16 * run.engine.outputs * most)
    planned.hold(lists=12 * run.P * min(C, run.engine.listed))
    planned.structure = asked.structure or planned.structure


def plan_walked(run: GameRun, D: int, rows: np.ndarray, planned: Planned) -> None:
    """Add what `walk` asks along D orders for the instances `rows` [n]."""
    walker = run.walker()
    calls = walker.calls(len(rows), D)
    each = run.engine.replacement.count * (2 * D * (run.P - 1) + 2)
    recipes = [walker.recipe(run.codes.dtype)]
    planned.add(rows, Coming(np.full(len(rows), each), calls, recipes))
    planned.structure = run.engine.structure_name
