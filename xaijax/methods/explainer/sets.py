"""Interactions: what is computed for sets of players, by which estimator, and what is kept of it.

Letters: N instances, P players, M sets, K outputs, B background rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import EnumerationLimitError, InputError, MemoryPlanError
from xaijax.estimators.driver import METHODS, SAMPLERS, InstanceValues, refuse_undrawable
from xaijax.estimators.exact import by_pairs, exact_sets
from xaijax.estimators.pairs import looked_for, warn_not_looked_for
from xaijax.estimators.stopping import narrow
from xaijax.games import queries
from xaijax.games.engine.evaluator import LARGEST_PAIR
from xaijax.games.queries import ExactCost
from xaijax.games.refuse import (
    LARGEST_TABLE,
    refuse_biased_link,
    refuse_too_many,
    warn_long_run,
    why_long,
)
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import OfSets, Weights
from xaijax.methods.explainer.choice import EstimatorChoice, default_budget, enumerated
from xaijax.methods.explainer.record import answered, provenance_of, stats_of
from xaijax.methods.progress import progress_bar
from xaijax.methods.record import instances, numbers
from xaijax.players.index import named
from xaijax.players.interaction_index import (
    INTERACTIONS,
    InteractionIndex,
    checked_order,
    interaction_index,
)
from xaijax.results.interactions import Interactions
from xaijax.results.set_keys import all_of
from xaijax_kernels.games.semivalues import count

if TYPE_CHECKING:
    from xaijax.methods.explainer.explainer import Explainer

SAMPLED_ORDER = 2
SAMPLERS_OF = {False: "pairs", True: "unbiased-pairs"}  # by unbiased=

Begun = tuple[Any, GameRun, ExactCost, EstimatorChoice]


@dataclass
class SetsAsked:
    """Interactions of sets of 1 to `order` players, requested from an explainer."""

    explainer: Explainer
    index: InteractionIndex
    order: int
    P: int  # players of the game
    sampler: str  # if it is sampled

    def __init__(
        self, explainer: Explainer, index: Any, order: Any, P: int, unbiased: Any = False
    ) -> None:
        """Checks the index and the order; raises InputError for ones that do not exist."""
        self.explainer, self.index = explainer, interaction_index(index)
        self.order, self.P = checked_order(order, P), P
        self.sampler = SAMPLERS_OF[checks.yes_or_no(unbiased, "unbiased")]
        if unbiased:
            self._refuse_unbiased()

    @property
    def of(self) -> OfSets:
        """The weights of the sets."""
        return OfSets(self.index, self.order)

    def run(
        self, X: Any, begin: Callable[..., Begun], progress: bool | None, outputs: Any
    ) -> Interactions:
        """The interactions of the instances X; begin: `Explainer._begun`."""
        started = time.perf_counter()

        def progressed(done: int) -> None:
            bar.update(done)

        rows, game, costs, choice = begin(X, progressed, self.choose, outputs=outputs)
        bar = progress_bar(progress, self.warn_long_run(game, costs, choice))
        before = game.evaluator.start()
        with bar:
            answer = self.answer(game, choice)
            bar.total = bar.n
        sought = self._sought(game, choice, answer)
        seconds = time.perf_counter() - started
        found = interactions(self, X, rows, game, choice, answer, before, seconds)
        return found if sought is None else replace(found, stats={**found.stats, **sought})

    def _sought(
        self, game: GameRun, choice: EstimatorChoice, answer: InstanceValues
    ) -> dict[str, Any] | None:
        """Whether each instance was searched for pairs far larger than the others; warns if not.

        None if the answer does not depend on it.
        """
        if choice.sampler != SAMPLERS_OF[False]:
            return None
        asked = self.index, game.P, choice.budget, self.explainer.seed
        sought = looked_for(*asked, answer.coalitions)
        warn_not_looked_for(self.index, game.P, self.explainer.seed, answer.coalitions, sought)
        return {"large_pairs_sought": sought}

    def choose(self, game: GameRun, costs: ExactCost) -> EstimatorChoice:
        """The estimator of each instance, and its stopping rule; raises the errors of `_chosen`."""
        return replace(self._chosen(game, costs), rule=narrow(self.explainer.tolerance))

    def _chosen(self, game: GameRun, costs: ExactCost) -> EstimatorChoice:
        """The estimator of each instance; see `choice.choose`.

        A game that cannot be enumerated is checked for a closed form before it is sampled or
        refused.
        It raises EnumerationLimitError for what cannot be enumerated, and MemoryPlanError for
        values that do not fit into memory.
        """
        refuse_biased_link(game)
        self._refuse_many_sets(game)
        asked, P = self.explainer, game.P
        allowed = default_budget(P) if asked.budget is None else asked.budget
        fits = enumerated(game, costs, asked.estimator, asked.budget)
        if self._by_closed_form(game, costs, fits):
            return EstimatorChoice(np.ones(game.N, bool), None, allowed)
        if not fits.all():
            self._refuse_unsampled(game, costs, fits)
            least = SAMPLERS[self.sampler].smallest_budget(P, self.index)
            if allowed < least:
                raise InputError(
                    f"budget={allowed:,} is too small: sampled interactions ask at least {least:,} "
                    f"coalitions of {P} players. Raise budget=."
                )
            given = asked.budget is not None
            refuse_undrawable(game, self.sampler, self.index, allowed, given=given)
            return EstimatorChoice(fits & by_pairs(game, self.of), self.sampler, allowed)
        refuse_too_many(game, costs.largest)
        if not by_pairs(game, self.of).all() and P > LARGEST_TABLE:
            k = int(costs.largest.max())
            raise EnumerationLimitError(
                f"order={self.order}: {k} of {P} players differ in a pair, whose 2^{k} corners "
                f"make {count(k, self.order):,} sets each; a matrix of that size is not "
                f"made, and tables go up to {LARGEST_TABLE} players. Lower order=, or group "
                "columns with players=."
            )
        return EstimatorChoice(fits, None, allowed)

    def answer(self, game: GameRun, choice: EstimatorChoice) -> InstanceValues:
        """The interactions of all instances."""
        by = self.explainer
        enumerate_some = partial(exact_sets, game, self.of)
        return answered(game, choice, enumerate_some, self.index, by.seed)

    def warn_long_run(self, game: GameRun, costs: ExactCost, choice: EstimatorChoice) -> int:
        """Warns of a long run before it starts; returns the largest number of model rows it may
        take.
        """
        coming = rows = int(costs.rows.sum())
        ways = "fewer background rows, or columns united to fewer players"
        if choice.sampler is not None:
            each = game.engine.replacement.count * (choice.budget + 2)
            rows = int(costs.rows[choice.exact].sum()) + each * int((~choice.exact).sum())
            K = game.probe().outputs
            cost = SAMPLERS[self.sampler].cost(game.P, self.index, choice.budget, K)
            beside = cost.once + int((~choice.exact).sum()) * K * cost.each
            ways = f"a smaller budget= (now {choice.budget:,} coalitions an instance), {ways}"
            warn_long_run(game, rows, ways, beside)
            return rows
        if why_long(game, rows) and queries.in_closed_form(game, Weights(self.of)):
            coming = rows = game.N  # each instance is checked, and none is run
        warn_long_run(game, coming, ways)
        return rows

    def _by_closed_form(self, game: GameRun, costs: ExactCost, fits: np.ndarray) -> bool:
        """Whether a closed form gives what would otherwise be sampled, refused or computed from
        tables.

        Other games are not checked, so that the model is not probed if no closed form is needed.
        """
        within = fits.all() and costs.largest.max(initial=0) <= LARGEST_PAIR
        if (within and by_pairs(game, self.of).all()) or self.explainer.estimator in METHODS:
            return False
        engine = game.engine  # none is known for a host function, a random model or a score
        untold = engine.on_host or not engine.model.deterministic or engine.score
        return not untold and queries.in_closed_form(game, Weights(self.of))

    def _refuse_many_sets(self, game: GameRun) -> None:
        M, memory = count(game.P, self.order), game.engine.memory.whole
        held = 24 * game.N * M  # sums, values, and a copy, of one output at least
        if held > memory:
            raise MemoryPlanError(
                f"order={self.order}: {game.N:,} instances have {M:,} sets of up to {self.order} "
                f"of {game.P} players each, about {held:,} bytes, more than "
                f"max_memory={memory:,}. Lower order=, explain fewer rows at a time, or raise "
                "max_memory=."
            )

    def _refuse_unbiased(self) -> None:
        """Raises InputError for an index or an order for which unbiased sampling does not exist."""
        if self.index.sampled and named(self.index.singles).draws_sets:
            raise InputError(
                f"unbiased=True needs coalitions of every size, and index={self.index.name!r} "
                "draws hardly any but the middle ones. Say index='sii' or 'k-sii', or leave "
                "unbiased= out."
            )
        if not self.index.sampled or self.order != SAMPLED_ORDER:
            raise InputError(
                "unbiased=True chooses how interactions are sampled, and only index='sii' and "
                f"'k-sii' at order={SAMPLED_ORDER} are; got index={self.index.name!r}, "
                f"order={self.order}. Leave unbiased= out."
            )

    def _refuse_unsampled(self, game: GameRun, costs: ExactCost, fits: np.ndarray) -> None:
        name = self.explainer.estimator
        reason = METHODS[name].no_interactions if name in METHODS else None
        if reason is not None:
            raise InputError(
                f"estimator={name!r} samples no interactions: {reason}. Say "
                "estimator='kernel' or 'auto'."
            )
        if not game.engine.model.deterministic:
            raise InputError(
                "interactions of a random model are enumerated, not sampled. Say "
                "estimator='exact', or unite columns with players=."
            )
        if self.index.sampled and self.order == SAMPLED_ORDER and game.P > 1:
            return
        n = int(np.where(fits, -1, costs.rows).argmax())
        k = int(costs.largest[n])
        # Past the limit the count stops.
        counted = f"{costs.rows[n]:,}"
        rows = counted if k <= LARGEST_PAIR else f"more than {1 << LARGEST_PAIR:,}"
        alone = ""
        if self.order == 1 and self.index.sampled:
            alone = (
                " explainer(X) gives the values of single players, sampled if needed; they are "
                "in the result of order=2, too."
            )
        raise EnumerationLimitError(
            f"index={self.index.name!r}, order={self.order}: X row {n} needs {rows} model rows (at "
            f"most {k} of {game.P} players differ from a background row), the model has no closed "
            f"form that is known, and this order is not sampled.{alone} Say one that is at order=2 "
            f"({', '.join(repr(one.name) for one in INTERACTIONS.values() if one.sampled)}), group "
            "columns with players=, use fewer background rows, or say estimator='exact' where no "
            "more than 24 players differ."
        )


def interactions(
    asked: SetsAsked,
    X: Any,
    rows: Any,
    game: GameRun,
    choice: EstimatorChoice,
    answer: InstanceValues,
    before: Any,
    seconds: float,
) -> Interactions:
    """The interactions of a run: values, stats and provenance; before: the clock at the start."""
    by, scalar, errors = asked.explainer, game.engine.outputs == 1, answer.std_errors
    sets = all_of(by.players.count, asked.order)
    present = getattr(by.players, "present", None)
    if present is not None:
        lacking = np.stack([~present[:, list(S)].all(axis=1) for S in sets], axis=1)
        for array in (answer.values, errors):
            if array is not None:
                array[lacking] = 0.0
    values = _as_players(asked.of, game.P)
    stats = stats_of(by, X, game, choice, answer, before, seconds, asked.index.efficient, values)
    provenance = provenance_of(by, game, choice.name)
    del provenance["index_weights"]
    provenance |= {"index": asked.index.name, "order": asked.order}
    return Interactions(
        **numbers(answer.values, answer.base, errors, scalar),
        **instances(X, rows),
        sets=sets,
        index=asked.index.name,
        order=asked.order,
        feature_names=by.players.names,
        output_names=None if scalar else game.engine.findings.output_names,
        exact=errors is None,
        stats=stats,
        provenance=provenance,
        present=present,
    )


def _as_players(of: OfSets, P: int) -> float:
    """Number of values of players that the sum of all sets counts as, for its rounding.

    The weights of a player add up to 1 with it and to -1 without. The absolute weights of a set of
    s players add up to 2^s times the sum of |p|.
    """
    total = 0.0
    for s, p in enumerate(of(P), start=1):
        size = math.fsum(math.comb(P - s, t) * abs(w) for t, w in enumerate(p.tolist()))
        total += math.comb(P, s) * (2.0 ** (s - 1) * size) ** 2
    return total
