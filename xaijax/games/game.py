"""`Game`: the coalition values of N instances, asked for as semivalues or as full tables.

Batched over instances from the start. Bit 1 of a coalition = KEPT: entry 0 is the value with
everything replaced, entry 2^P - 1 is f(x).

Letters: N instances, B donors, P players, K scores, C code columns, k players that differ, n of
them, D orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from xaijax.core.errors import ModelOutputError
from xaijax.games.asking.questions import Count, Questions
from xaijax.games.asking.refuse import coalition_text, table_limits
from xaijax.games.asking.whole_rows import refuse_other, refuse_wrong_program, scored, widen
from xaijax.games.engine.compiled import Recipe
from xaijax.games.engine.evaluator import LARGEST_PAIR, PROBE_ROWS, Evaluator, Probed, Setting
from xaijax.games.engine.loop import Backend
from xaijax.games.engine.plan import Held
from xaijax.games.engine.walk import WalkBackend
from xaijax.games.measure.quantity import Quantity
from xaijax.games.ways import choose
from xaijax.games.ways.choose import SemivalueWay, in_parts
from xaijax.games.ways.corners import full_tables, tables_coming
from xaijax.games.ways.listed import Masks, WithWhole, own_list_means
from xaijax.games.ways.totals import Coming, Stretch, Totals, Weights
from xaijax.tables.table import Table
from xaijax_kernels.games.interactions import count

CLOSED_ROWS = 4096  # instances answered together by a closed form


@dataclass(frozen=True)
class Survey:
    """What exact values would ask for."""

    corners: np.ndarray  # int64 [N], distinct model rows of each instance
    largest: np.ndarray  # int64 [N], players that differ from a donor at most


class Game:
    """The games of N instances on one evaluator."""

    def __init__(
        self,
        evaluator: Evaluator,
        rows: Any,
        quantity: Quantity,
        progress: Callable[[int], None] = lambda rows: None,
        asks: bool = True,
        encoded: Callable[[], tuple[Table, np.ndarray]] | None = None,
        own: np.ndarray | None = None,
    ) -> None:
        """rows: instances as read by the evaluator's table; progress(model rows done); asks: False
        where the game is only planned, encoded: for rows whose codes are kept, own: what the score
        looks at beside an answer; see `Questions`.
        """
        self.evaluator, self.quantity = evaluator, quantity
        self.ask = Questions(evaluator, rows, progress, asks=asks, encoded=encoded, own=own)
        self.N, self.P = self.ask.N, self.ask.P
        self.structure: str | None = None  # what answered instead of the whole model, if anything
        self._closed = False  # whether a closed form answered
        self._own_base = False  # whether the model's own answers gave the base value
        self.largest = np.zeros(len(self.ask.codes), np.int64)  # players that differ, once surveyed
        self._scores = 0.0  # the largest |score| of a data row in the groups' means so far

    @property
    def setting(self) -> Setting:
        """What is asked about, by which limits."""
        return self.evaluator.setting

    @property
    def probed(self) -> Probed:
        """What is known of the model, once a question was asked."""
        return self.evaluator.probed

    @property
    def count(self) -> Count:
        """Model rows asked so far."""
        return self.ask.count

    @property
    def walks(self) -> bool:
        """Whether `walk` can be asked; the first question probes the model."""
        return choose.walked(self.ask)

    @property
    def outputs(self) -> int:
        """K, the scores of a row; the first question probes the model."""
        self.ask.backend()
        return self.probed.outputs

    def survey(self) -> Survey:
        """Count what exact values would ask for, a stretch at a time; asks the model nothing."""
        corners, largest = np.zeros(self.N, np.int64), np.zeros(self.N, np.int64)
        asked = self.quantity.asked(self.N)
        for first, differs in self.ask.differing(asked):
            k = differs.sum(axis=2, dtype=np.int64)
            here = asked[first : first + len(differs)]
            largest[here] = k.max(axis=1)
            # Past the limit the count no longer matters, but must not overflow.
            corners[here] = (np.int64(1) << np.minimum(k, LARGEST_PAIR + 1)).sum(axis=1)
        self.largest = largest
        return Survey(corners, largest)

    def moves(self, rows: np.ndarray) -> np.ndarray:
        """Which players differ from a donor, bool [n, P], of the instances `rows` [n].

        The others change nothing: their values are 0, however they are found. Of a random model all
        players differ.
        """
        found = np.empty((len(rows), self.P), bool)
        for first, differs in self.ask.differing(rows):
            found[first : first + len(differs)] = differs.any(axis=1)
        return found

    def ways(self, weights: Weights) -> list[SemivalueWay]:
        """What gives the values with these weights, in order; probes the model."""
        return choose.semivalues(self.ask, self.quantity, weights)

    def stretches(
        self, ways: list[SemivalueWay], chosen: np.ndarray, order: int = 1
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
        """(place of the first, instances, how they differ from the donors) that are planned
        together, of the instances `chosen`; order: the players of a set at most.
        """
        if ways[0].asks_hybrids:
            for first, differs in self.ask.differing(chosen):
                yield first, chosen[first : first + len(differs)], differs
            return
        # The columns in float64, and three tables of values.
        each = 8 * (self.ask.codes.shape[1] + 3 * count(self.P, order) * self.outputs)
        step = min(CLOSED_ROWS, max(1, self.setting.memory.fits("results", each)))
        for first in range(0, len(chosen), step):
            yield first, chosen[first : first + step], None

    def index(self, weights: Weights, rows: np.ndarray | None = None) -> Totals:
        """The values with these weights, of players or of sets of them, where the quantity is
        linear.

        rows: int [n], which instances; None: all. One row comes back where groups are measured.
        """
        backend, groups = self.ask.backend(), self.quantity.groups
        chosen = self.quantity.asked(self.N) if rows is None else rows
        totals = self._totals(len(chosen) if groups is None else len(groups), weights)
        ways = self.ways(weights)
        for stretch in self.stretches(ways, chosen, weights.order):
            run = partial(self._add, ways, totals, *stretch)
            backend, _ = self.ask.with_less_where_memory_is_short(backend, run)
        self.structure, self._closed = ways[-1].structure, not ways[0].asks_hybrids
        if self.setting.offset is not None:  # each row is a mean
            totals.empty += self.setting.offset
            totals.full += self.setting.offset
        if self.quantity.groups is not None and self.shares_base:
            totals.empty[:] = totals.empty[:1]
        factors = self.quantity.combine
        return totals.combined(factors) if isinstance(factors, np.ndarray) else totals

    def _totals(self, n: int, weights: Weights) -> Totals:
        donors = self.setting.replacement.weights
        return Totals(n, self.P, self.outputs, weights, donors, self._random)

    @property
    def _random(self) -> bool:
        return self.probed.findings.noise is not None

    def _add(
        self,
        ways: list[SemivalueWay],
        totals: Totals,
        first: int,
        here: np.ndarray,
        differs: np.ndarray | None,
        backend: Backend,
    ) -> None:
        """Put the sums of one stretch, or of its groups, into `totals`."""
        n, groups = len(here), self.quantity.groups
        own = totals.stretch(first, first + n) if groups is None else totals.like(n)
        own.clear()
        if groups is None and ways[0].structure is None and not self._random:
            own.keep_donors(shared=self.shares_base)
        stretch, left = Stretch(backend, here, differs), np.arange(n)
        for way in ways:
            places = left[way.takes(stretch)[left]]
            if len(places):
                left = np.setdiff1d(left, places[way.add(stretch, places, own)])
        own.add_donors()
        if groups is not None:
            self._note_size(own.full, own.empty)
            totals.add(groups[:, here], own)

    def refuse_other(self, full: np.ndarray) -> None:
        """Raise ModelOutputError where f(x) as it was found, [N, K], is not the model's own."""
        if not self.quantity.linear or self.setting.score is not None:
            return
        if self.structure is None:
            refuse_wrong_program(self.ask, full)
        else:
            refuse_other(self.ask, self.structure, full)

    def widen(self) -> None:
        """Allow the structure what its rows' answers go by rounding, also where they agree."""
        widen(self.ask)

    def whole(self) -> tuple[np.ndarray, np.ndarray] | None:
        """(the value with nothing replaced, as the model itself answers whole rows [N, K], how far
        rounding may take a structure's from it [N, K]); None where the model itself answered.
        """
        if self.structure is None and not self._own_base:
            return None
        chosen, whole = self.quantity.asked(self.N), self.ask.whole
        own = whole.answers[chosen], whole.allowed[chosen]
        answers, allowed = scored(self.setting.score, *own)
        if self._own_base:  # values are next to the structure's
            allowed = allowed + whole.base_allowed
        means, slack = (self._mean([(chosen, a[:, None])]) for a in (answers, allowed))
        value = self._whole(means)
        most = np.zeros_like(value)
        groups = [slice(None)] if self.quantity.groups is None else list(range(len(means)))
        for g in groups:  # each group's mean moves by itself
            part = np.zeros_like(slack)
            part[g] = slack[g]
            off = [np.abs(self._whole(means + sign * part) - value) for sign in (1, -1)]
            most += np.nan_to_num(np.fmax(*off), nan=np.inf)
        return value, most

    @property
    def subtracted(self) -> float:
        """The largest size of what groups' means were made of, so far; 0 without groups.

        Rounding errors of a difference follow this, not the difference, which may be 0.
        """
        factors = self.quantity.combine
        return self._scores * (np.abs(factors).sum() if isinstance(factors, np.ndarray) else 1.0)

    def _mean(self, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """`Quantity.mean` of the parts, whose sizes are noted."""

        def noted() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for rows, part in parts:
                self._note_size(part)
                yield rows, part

        return self.quantity.mean(parts if self.quantity.groups is None else noted())

    def _note_size(self, *scores: np.ndarray) -> None:
        for one in scores:
            size = np.nan_to_num(max(one.max(initial=0.0), -one.min(initial=0.0)), posinf=0.0)
            self._scores = max(self._scores, float(size))

    def _whole(self, means: np.ndarray) -> np.ndarray:
        """The quantity of means [.., 1, K] with nothing replaced; NaN where it has none; [n, K]."""
        combined = self.quantity.combined(means)
        if self.quantity.outer is None:
            return combined[:, 0]
        with np.errstate(all="ignore"):
            return np.asarray(self.quantity.outer(combined, combined), np.float64)[:, 0]

    def values(
        self, masks: Masks, rows: np.ndarray | None = None, distinct: bool = False
    ) -> np.ndarray:
        """v(S) for a list of coalitions; float64 [n, C, K], or [1, C, K] where groups are measured.

        masks: bool [C, P], True = kept; or what gives such an array for a slice. rows: int [n],
        which instances; None: all. Rows are asked once for hybrids that agree where an instance
        saves a quarter of its rows by it. distinct: for few coalitions, the donors that agree in
        what a coalition replaces are asked once, where that saves as much.
        """
        chosen = self.quantity.asked(self.N) if rows is None else rows
        C = len(masks)
        asked = WithWhole(masks, self.P) if self.quantity.reads_full else masks
        for way in choose.listed(self.ask, asked, self.outputs, distinct):
            found = way.means(chosen)
            if found is not None:
                means = self._mean(found)
                self.structure = way.structure or self.structure
                return self._measured(means, C, lambda c: asked[c : c + 1][0])
        raise AssertionError("the last way takes all instances")

    def own_values(self, masks: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """v(S) for coalitions of which each instance has its own; float64 [n, C, K].

        masks: bool [n, C, P], True = kept, of the instances `rows` [n]. Of games without groups.
        """
        (n, C, _), quantity = masks.shape, self.quantity
        asked = masks
        if quantity.reads_full:
            asked = np.concatenate([masks, np.ones_like(masks[:, :1])], axis=1)
        means = own_list_means(self.ask, rows, asked, self.outputs)
        own = means[:, :C]
        if quantity.linear:
            return own
        # As one list, so that a message names the coalition of the instance that it is about.
        full = np.repeat(means[:, -1:], C, axis=1).reshape(1, n * C, -1)
        found = quantity.of(
            own.reshape(1, n * C, -1),
            full if quantity.reads_full else None,
            lambda c: self.named(masks[c // C, c % C]),
        )
        return found.reshape(own.shape)

    def base(self) -> np.ndarray | None:
        """The value with nothing kept of every instance [K], by the model's own answers, where a
        structure answers hybrids: its sums of parts of a row and of a donor round the donor's
        answer by the row. None: a closed form or the model itself answered, or it is not the same
        for all.
        """
        one = self.shares_base and self.quantity.groups is None and not self.quantity.reads_full
        if not one or self._closed or (self.structure is None and not self.ask.structured):
            return None
        self._own_base = True
        return self.quantity.of(self.ask.whole.base[None, None], None, lambda _: "nothing")[0, 0]

    @property
    def shares_base(self) -> bool:
        """Whether all instances, or groups, have one mean where nothing is kept of x. Not where
        columns are always kept, nor where each row has a baseline of its own. The answers of a
        random model differ by chance from instance to instance.
        """
        score = self.setting.score
        reads_own = self.setting.fixed or (score is not None and score.reads_own)
        return not reads_own and (self.quantity.groups is not None or not self._random)

    def _measured(
        self, means: np.ndarray, C: int, kept_of: Callable[[int], np.ndarray]
    ) -> np.ndarray:
        """The quantity of C coalitions out of means [.., C, K], where the last keeps everything.

        With nothing kept all rows x are the same hybrids, so the groups' means are equal: made so
        to the last bit.
        """
        if self.quantity.groups is not None and self.shares_base:
            for c in range(C) if C <= self.P + 2 else (0,):  # of a table the first
                if not kept_of(c).any():
                    means[:, c] = means[:1, c]
        combined = self.quantity.combined(means)
        full = combined[:, -1:] if self.quantity.reads_full else None
        return self.quantity.of(combined[:, :C], full, lambda c: self.named(kept_of(c)))

    def named(self, kept: np.ndarray) -> str:
        """A coalition bool [P], for messages."""
        names = self.setting.players.names
        if self.quantity.argument == "link":
            return coalition_text(names, kept)
        return f"S = {[names[i] for i in np.flatnonzero(~kept)]} replaced"

    def walk(self, orders: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """v(S) along orders int [D, P], by the declared first layer; float64 [n, D, 2, P, K].

        Entry [i, d, 0, s - 1] keeps the first s players of order d, entry [i, d, 1, s - 1] the
        others. For the instances `rows` [n].
        """
        sums, bad = self.walker().sums(self.ask.codes[rows], orders)
        sums = self.ask.with_offset(sums)
        if bad and self.setting.model.nonfinite == "raise":
            self._refuse_walked(sums, orders, rows)
        donors, (D, P) = len(self.setting.replacement.codes), orders.shape
        asked = len(rows) * donors * (2 * D * (P - 1) + 2)
        self.ask.count.distinct += asked
        # The two ends come with every order.
        self.ask.count.padded += len(rows) * donors * 2 * D * P - asked
        self.ask.told(asked)
        self.structure = self.probed.known.name
        flat = sums.reshape(len(rows), -1, sums.shape[-1])
        return self._measured(flat, flat.shape[1], self._walked(orders)).reshape(sums.shape)

    def walker(self) -> WalkBackend:
        """The loop along orders, where there is one; see `walks`."""
        few = self.ask.codes[:PROBE_ROWS]
        return self.evaluator.walker(self.ask.table_of_rows, few, self.N)

    def _walked(self, orders: np.ndarray) -> Callable[[int], np.ndarray]:
        """The coalition at a place of flattened walks, bool [P]."""

        def kept_of(place: int) -> np.ndarray:
            d, half, s = np.unravel_index(place, (len(orders), 2, self.P))
            kept = np.full(self.P, half == 1)
            kept[orders[d, : s + 1]] = half == 0
            return kept

        return kept_of

    def _refuse_walked(self, sums: np.ndarray, orders: np.ndarray, rows: np.ndarray) -> None:
        """Raise ModelOutputError for a walk through answers that are not finite.

        A walk keeps sums over donors only, so the coalition is asked again to name the donor.
        """
        where = np.argwhere(~np.isfinite(sums).all(axis=4))
        n, d, half, s = (int(i) for i in where[0]) if len(where) else (0, 0, 0, 0)
        kept = np.full((1, self.P), half == 1)
        kept[0, orders[d, : s + 1]] = half == 0
        self.values(kept, rows[n : n + 1])
        raise ModelOutputError(
            "the model's head, as structure= declares it, returned answers that are not finite for "
            f"X row {rows[n]}, where the model itself returns numbers. Mend head=, or leave "
            "structure= out."
        )

    def tables(self, rows: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """v(S), float64 [n, 2^P, K], for stretches of the instances `rows` (None: all).

        One table [1, 2^P, K] where groups are measured.
        """
        chosen = self.quantity.asked(self.N) if rows is None else rows
        limits = table_limits(self, self.outputs)
        parts = full_tables(self.ask, chosen, self.outputs, *limits)
        if self.quantity.groups is not None:
            parts = iter([(chosen, self._mean(parts))])
        if self.ask.structured:
            self.structure = self.probed.known.name
        for _, means in parts:
            yield self._measured(self.ask.with_offset(means), means.shape[1], self._kept_of)

    def _kept_of(self, c: int) -> np.ndarray:
        """Coalition c of a table, bool [P]."""
        return ((c >> np.arange(self.P)) & 1).astype(bool)

    def table(self) -> np.ndarray:
        """v(S) of all instances; float64 [N, 2^P, K]."""
        return np.concatenate(list(self.tables()))


@dataclass
class Planned:
    """Of the N instances of a game, so far."""

    rows: np.ndarray  # int64 [N]
    calls: int = 0
    structure: str | None = None
    recipes: dict[tuple, Recipe] = field(default_factory=dict)
    held: Held = field(default_factory=dict)  # the most that is held at a time, beside the backend

    def add(self, places: np.ndarray, coming: Coming) -> None:
        """Count what the instances at `places` are asked."""
        self.rows[places] += coming.rows
        self.calls += coming.calls
        self.recipes |= {recipe.name: recipe for recipe in coming.recipes}

    def hold(self, **sizes: int) -> None:
        """Count bytes of shares that are held at a time."""
        self.held |= {name: max(size, self.held.get(name, 0)) for name, size in sizes.items()}


def nothing(game: Game) -> Planned:
    """Nothing yet."""
    return Planned(np.zeros(game.N, np.int64))


def whole_rows(game: Game, planned: Planned) -> None:
    """Add f(x) of each instance, where the score looks at it and nobody gave it."""
    score, backend = game.setting.score, game.ask.backend()
    if score is None or not score.reads_own or game.ask.own is not None:
        return
    step = game.setting.rows_at_a_time
    for first in range(0, game.N, step):
        calls = backend.calls(min(step, game.N - first), scored=False)
        some = np.arange(first, min(first + step, game.N))
        recipes = [backend.recipe("rows", scored=False)]
        planned.add(some, Coming(np.ones(len(some), np.int64), calls, recipes))


def semivalues(game: Game, weights: Weights, rows: np.ndarray, planned: Planned) -> None:
    """Add what `Game.index` asks with these weights for the instances `rows` [n]."""
    backend, ways = game.ask.backend(), game.ways(weights)
    for _, here, differs in game.stretches(ways, rows):
        stretch, left = Stretch(backend, here, differs), np.arange(len(here))
        for way in ways:
            places = left[way.takes(stretch)[left]]
            if len(places):
                planned.add(here[places], way.coming(stretch, places))
                left = np.setdiff1d(left, places)
    planned.structure = ways[-1].structure
    planned.hold(results=16 * len(rows) * weights.count(game.P) * game.outputs)


def tables(game: Game, rows: np.ndarray, planned: Planned) -> None:
    """Add what `Game.tables` asks for the instances `rows` [n]."""
    game.ask.backend()
    most, together = table_limits(game, game.outputs)
    for here, coming in tables_coming(game.ask, rows, most, together):
        planned.add(here, coming)
        asked = min(most, int(coming.rows.sum()))
        planned.hold(answers=16 * game.outputs * asked)
        planned.hold(results=(24 * game.outputs << game.P) * len(here))
    if game.ask.structured:
        planned.structure = game.probed.known.name


def listed(game: Game, C: int, rows: np.ndarray, planned: Planned) -> None:
    """Add what `Game.values` asks of a list of C coalitions for the instances `rows` [n]."""
    backend = game.ask.backend()
    asked = in_parts(game.ask, np.zeros((C, game.P), bool), game.outputs)
    random = not game.setting.model.deterministic
    for first, differs in game.ask.differing(rows):
        own = rows[first : first + len(differs)]
        coming = asked.coming(backend, own, None if random else differs)
        planned.add(own, coming)
        most = min(asked.most, int(coming.rows.sum()))
        planned.hold(answers=16 * game.outputs * most)
    planned.hold(lists=12 * game.P * min(C, game.setting.listed))
    planned.structure = asked.structure or planned.structure


def walked(game: Game, D: int, rows: np.ndarray, planned: Planned) -> None:
    """Add what `Game.walk` asks along D orders for the instances `rows` [n]."""
    walker = game.walker()
    calls = walker.calls(len(rows), D)
    each = len(game.setting.replacement.codes) * (2 * D * (game.P - 1) + 2)
    recipes = [walker.recipe(game.ask.codes.dtype)]
    planned.add(rows, Coming(np.full(len(rows), each), calls, recipes))
    planned.structure = game.probed.known.name
