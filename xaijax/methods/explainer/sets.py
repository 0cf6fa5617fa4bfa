"""Interactions: what is computed for sets of players, by which estimator, and what is kept of it.

Letters: N instances, P players, M sets, K outputs, B background rows.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import EnumerationLimitError, InputError, MemoryPlanError
from xaijax.estimators.driver import (
    METHODS,
    SAMPLERS,
    InstanceValues,
    by_pairs,
    exact_sets,
    refuse_undrawable,
)
from xaijax.estimators.pairs import looked_for, warn_not_looked_for
from xaijax.games import queries, refuse
from xaijax.games.engine.evaluator import LARGEST_PAIR
from xaijax.games.queries import ExactCost
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import OfSets, Weights
from xaijax.methods.explainer import record
from xaijax.methods.explainer.choice import (
    EstimatorChoice,
    default_budget,
    enumerated,
    seeks_closed_form,
)
from xaijax.players.index import LARGEST_P, named
from xaijax.players.interaction_index import (
    INTERACTIONS,
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


class InteractionQuery:
    """A query for the interactions of sets of 1 to `order` players of an explainer."""

    def __init__(
        self, explainer: Explainer, index: Any, order: Any, P: int, unbiased: Any = False
    ) -> None:
        """Checks the index and the order; raises InputError for ones that do not exist."""
        self.explainer, self.index = explainer, interaction_index(index)
        self.order = checked_order(order, P)
        self.weights = OfSets(self.index, self.order)
        self.sampler = SAMPLERS_OF[checks.yes_or_no(unbiased, "unbiased")]  # if it is sampled
        if unbiased:
            self._refuse_unbiased()

    def run(self, X: Any, progress: bool | None, outputs: Any) -> Interactions:
        """The interactions of the instances X."""
        explainer = self.explainer
        run = explainer._run(X, progress, self.choose, self.warn_long_run, self.answer, outputs)
        return self._interactions(run, self._sought(run))

    def _sought(self, run: record.ExplainerRun) -> dict[str, Any]:
        """Whether each instance was searched for pairs far larger than the others; warns if not.

        It is empty if the answer does not depend on it.
        """
        if run.choice.sampler != SAMPLERS_OF[False]:
            return {}
        P, seed, coalitions = run.game.P, self.explainer.seed, run.answer.coalitions
        sought = looked_for(self.index, P, run.choice.budget, seed, coalitions)
        warn_not_looked_for(self.index, P, seed, coalitions, sought)
        return {"large_pairs_sought": sought}

    def choose(self, game: GameRun) -> EstimatorChoice:
        """The estimator of each instance, and its stopping rule; see `choice.choose`.

        It raises EnumerationLimitError for what cannot be enumerated, and MemoryPlanError for
        values that do not fit into memory.
        """
        refuse.refuse_biased_link(game)
        self._refuse_many_sets(game)
        if self.index.efficient and game.P > LARGEST_P:
            self._refuse_many_players(game.P)
        explainer, P, rule = self.explainer, game.P, self.explainer._rule
        if not game.engine.replacement.HYBRIDS:
            queries.require_closed_form(game, Weights(self.weights), explainer.estimator)
        allowed = default_budget(P) if explainer.budget is None else explainer.budget
        seeks = seeks_closed_form(game, explainer.estimator, explainer.budget)
        costs = queries.exact_cost(game, Weights(self.weights) if seeks else None)
        fits = enumerated(game, costs, explainer.estimator, explainer.budget)
        if not fits.all():
            self._refuse_unsampled(game, costs, fits)
            if P > LARGEST_P:
                self._refuse_many_players(P)
            least = SAMPLERS[self.sampler].smallest_budget(P, self.index)
            if allowed < least:
                raise InputError(
                    f"budget={allowed:,} is too small: interactions of {P} players need at least "
                    f"{least:,} coalitions. Raise budget=, or group columns with players=."
                )
            has_budget = explainer.budget is not None
            refuse_undrawable(game, self.sampler, self.index, allowed, given=has_budget)
            exact = fits & by_pairs(game, self.weights)
            return EstimatorChoice(exact, self.sampler, allowed, costs, rule)
        refuse.refuse_too_many(game, costs.largest)
        if not by_pairs(game, self.weights).all() and P > refuse.LARGEST_TABLE:
            k = int(costs.largest.max())
            raise EnumerationLimitError(
                f"order={self.order}: {k} of {P} players differ in a pair, and tables go up to "
                f"{refuse.LARGEST_TABLE} players. Lower order=, or group columns with players=."
            )
        return EstimatorChoice(fits, None, allowed, costs, rule)

    def answer(self, game: GameRun, choice: EstimatorChoice) -> InstanceValues:
        """The interactions of all instances."""
        enumerate_some = partial(exact_sets, game, self.weights)
        return record.answered(game, choice, enumerate_some, self.index, self.explainer.seed)

    def warn_long_run(self, game: GameRun, choice: EstimatorChoice) -> int:
        """Warns of a long run before it starts; returns the largest number of model rows it may
        take.
        """
        counts = choice.costs.rows
        rows, beside = int(counts[choice.exact].sum()), 0.0
        ways = "fewer background rows, or columns united to fewer players"
        if choice.sampler is not None:
            drawn = int((~choice.exact).sum())
            each = game.engine.replacement.count * (choice.budget + 2)
            rows += each * drawn
            K = game.probe().outputs
            cost = SAMPLERS[self.sampler].cost(game.P, self.index, choice.budget, K)
            beside = cost.once + drawn * K * cost.each
            ways = f"a smaller budget= (now {choice.budget:,} coalitions an instance), {ways}"
        refuse.warn_long_run(game, rows, ways, beside)
        return rows

    def _refuse_many_sets(self, game: GameRun) -> None:
        M, memory = count(game.P, self.order), game.engine.memory.whole
        held = 24 * game.N * M  # sums, values, and a copy, of one output at least
        if held > memory:
            raise MemoryPlanError(
                f"order={self.order}: {game.N:,} instances have {M:,} sets, about {held:,} bytes, "
                f"more than max_memory={memory:,}. Lower order=, explain fewer rows, or raise "
                "max_memory=."
            )

    def _refuse_many_players(self, P: int) -> None:
        raise EnumerationLimitError(
            f"index={self.index.name!r}, order={self.order}: there are {P:,} players. With "
            f"more than {LARGEST_P:,}, the numbers of sets exceed float64. Only 'sii', 'banzhaf' "
            "and 'moebius' are possible then, for models with a closed form (additive, or sums of "
            "trees). Group columns with players=, or say one of these."
        )

    def _refuse_unbiased(self) -> None:
        """Raises InputError for an index or an order for which unbiased sampling does not exist."""
        if self.index.sampled and named(self.index.singles).draws_sets:
            raise InputError(
                f"unbiased=True needs coalitions of every size, which index={self.index.name!r} "
                "does not draw. Say index='sii' or 'k-sii', or leave unbiased= out."
            )
        if not self.index.sampled or self.order != SAMPLED_ORDER:
            raise InputError(
                f"unbiased=True is for 'sii' and 'k-sii' at order={SAMPLED_ORDER}, got "
                f"index={self.index.name!r}, order={self.order}. Leave it out."
            )

    def _refuse_unsampled(self, game: GameRun, costs: ExactCost, fits: np.ndarray) -> None:
        name = self.explainer.estimator
        reason = METHODS[name].no_interactions if name in METHODS else None
        if reason is not None:
            raise InputError(
                f"estimator={name!r} samples no interactions: {reason}. Say estimator='kernel' or "
                "'auto'."
            )
        if not game.engine.model.deterministic:
            raise InputError(
                "interactions of a random model are not sampled. Say estimator='exact', or group "
                "columns with players=."
            )
        if self.index.sampled and self.order == SAMPLED_ORDER and game.P > 1:
            return
        n = int(np.where(fits, -1, costs.rows).argmax())
        k = int(costs.largest[n])
        single = self.order == 1 and self.index.sampled
        alone = " explainer(X) gives the values of single players." if single else ""
        counted = k <= LARGEST_PAIR  # past the limit the count stops
        rows = f"{costs.rows[n]:,}" if counted else f"more than {1 << LARGEST_PAIR:,}"
        raise EnumerationLimitError(
            f"index={self.index.name!r}, order={self.order}: X row {n} needs {rows} model rows (at "
            f"most {k} of {game.P} players differ), no closed form is known, and this order is not "
            f"sampled.{alone} Say order=2 of "
            f"{[item.name for item in INTERACTIONS.values() if item.sampled]}, group columns with "
            "players=, use fewer background rows, or say estimator='exact' where no more than 24 "
            "differ."
        )

    def _interactions(self, run: record.ExplainerRun, sought: dict[str, Any]) -> Interactions:
        """The interactions of a run: values, stats and provenance."""
        explainer, answer = self.explainer, run.answer
        sets = all_of(explainer.players.count, self.order)
        present = getattr(explainer.players, "present", None)
        if present is not None:
            lacking = np.stack([~present[:, list(S)].all(axis=1) for S in sets], axis=1)
            for array in (answer.values, answer.std_errors):
                if array is not None:
                    array[lacking] = 0.0
        efficient = self.index.efficient
        values = _as_players(self.weights, run.game.P) if efficient else None
        provenance = record.provenance_of(explainer, run.game, run.choice.name)
        del provenance["index_weights"]
        return Interactions(
            **record.results_of(explainer, run),
            sets=sets,
            index=self.index.name,
            order=self.order,
            stats=record.stats_of(explainer, run, efficient, values) | sought,
            provenance=provenance | {"index": self.index.name, "order": self.order},
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
