"""Chooses the estimator of each instance before the model is called.

Letters: N instances, P players, B background rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import EnumerationLimitError, InputError
from xaijax.estimators.driver import (
    METHODS,
    Exact,
    InstanceValues,
    refuse_undrawable,
    sampled_cost,
)
from xaijax.estimators.kernel import SPARE
from xaijax.estimators.stopping import Rule
from xaijax.games import refuse
from xaijax.games.engine.evaluator import LARGEST_PAIR
from xaijax.games.queries import ExactCost
from xaijax.games.run import GameRun
from xaijax.methods.progress import plan_of
from xaijax.players.index import Index, named, quoted
from xaijax.results.plan import Plan

AUTO_ROWS = 1 << 16  # model rows per background row that "auto" enumerates when no budget is given
ESTIMATORS = ("auto", "exact", *METHODS)
# "auto" uses the kernel estimator for at most this number of players, if the budget is at least 5 P
# coalitions and enough for its standard errors. From there on its squared error is 0.4 to 0.65
# times that of permutations or less, and its intervals cover 94 to 99 % (docs/performance.md).
KERNEL_PLAYERS, KERNEL_BUDGET = 128, 5


@dataclass(frozen=True)
class EstimatorChoice:
    """The estimator of each instance, its budget and its stopping rule."""

    exact: np.ndarray  # bool [N], instances that are enumerated
    sampler: str | None  # a name of METHODS for the others; None: there are none
    budget: int  # coalitions per sampled instance
    rule: Rule | None = None  # stops sampled instances early; None: no early stop

    @cached_property
    def name(self) -> str:
        """The estimator that stats and provenance name: the sampled one if there is one."""
        return self.sampler or "exact"


def default_budget(P: int) -> int:
    """Coalitions of an instance when no budget is given: shap's number, and at least 4 P."""
    return max(2 * P + 2048, 4 * P)


def refuse_index(estimator: str, index: str) -> None:
    """Raises InputError for an index that the estimator cannot sample."""
    if estimator in METHODS and named(index).drawn is None:
        raise InputError(
            f"estimator={estimator!r} samples index={' and '.join(quoted('drawn'))}, got "
            f"index={index!r}. Say estimator='exact', or group columns with players=."
        )


def choose(
    game: GameRun,
    costs: ExactCost,
    estimator: str,
    index: Index,
    budget: int | None,
    independent: bool = False,
) -> EstimatorChoice:
    """Decides for every instance, from that instance and the background only.

    independent: "auto" samples by independent draws alone.

    It raises EnumerationLimitError for what can neither be enumerated nor sampled, MemoryPlanError
    for a budget that cannot be drawn, and InputError for a budget that is too small for the
    estimator or given with estimator="exact", and for a link of a random model's answers.
    """
    refuse.refuse_biased_link(game)
    P, random = game.P, not game.engine.model.deterministic
    allowed = default_budget(P) if budget is None else budget
    fits, sampler = enumerated(game, costs, estimator, budget), estimator
    if fits.all():
        refuse.refuse_too_many(game, costs.largest)
        asked = budget is not None or estimator in METHODS
        if asked and _covers_all(game, allowed):
            checks.warn(
                f"budget={allowed:,}{'' if budget is not None else ' (the default)'} covers all "
                f"{(1 << P) - 2:,} coalitions of {P} players: the values are exact."
            )
        return EstimatorChoice(fits, None, allowed)
    if estimator not in METHODS:
        if fits.any():
            refuse.refuse_large_tables(game)
        if index.drawn is None:
            _refuse_unsampled(game, costs, index, budget)
        # Standard errors of the kernel omit the noise of a random model.
        many = allowed >= max(KERNEL_BUDGET * P, 2 * (P + SPARE)) and P <= KERNEL_PLAYERS
        sampler = "kernel" if many and not (random or independent) else "permutation"
    elif random and not METHODS[estimator].independent:
        raise InputError(
            f"estimator={estimator!r} leaves a random model's own noise out of its standard "
            "errors. Say estimator='permutation'."
        )
    least = METHODS[sampler].smallest_budget(P, index)
    if allowed < least:
        raise InputError(
            f"budget={allowed:,} is too small: estimator={sampler!r} asks at least {least:,} "
            f"coalitions of {P} players. Raise budget=, or group columns with players=."
        )
    refuse_undrawable(game, sampler, index, allowed, given=budget is not None)
    return EstimatorChoice(fits, sampler, allowed)


def _covers_all(game: GameRun, budget: int) -> bool:
    """Whether the budget covers all coalitions, which can be evaluated."""
    return (1 << game.P) - 2 <= budget and game.P <= _most_players(game)


def enumerated(game: GameRun, costs: ExactCost, estimator: str, budget: int | None) -> np.ndarray:
    """Whether each instance is enumerated, bool [N], by the rules of `choose`."""
    everything = np.ones(game.N, bool)
    if _covers_all(game, default_budget(game.P) if budget is None else budget):
        return everything
    if estimator == "exact":
        if budget is not None:
            raise InputError(
                f"budget={budget:,} is given, but estimator='exact' asks all coalitions. Leave it "
                "out, or say estimator='auto', for which it is a limit."
            )
        return everything
    return ~everything if estimator in METHODS else _fits(game, costs, budget)


def _fits(game: GameRun, costs: ExactCost, budget: int | None) -> np.ndarray:
    """Whether "auto" enumerates each instance; bool [N]."""
    fits = (costs.rows <= _most_rows(game, budget)) & (costs.largest <= LARGEST_PAIR)
    return fits & (game.quantity.linear or game.P <= refuse.LARGEST_TABLE)


def _most_players(game: GameRun) -> int:
    """Largest number of players whose coalitions can all be evaluated."""
    return LARGEST_PAIR if game.quantity.linear else refuse.LARGEST_TABLE


def _most_rows(game: GameRun, budget: int | None) -> int:
    """Largest number of model rows of an instance that "auto" enumerates."""
    B = game.engine.replacement.count
    return B * (AUTO_ROWS if budget is None else budget + 2)


def _refuse_unsampled(game: GameRun, costs: ExactCost, index: Index, budget: int | None) -> None:
    """Raises for an index that no estimator samples, if "auto" does not enumerate."""
    refuse.refuse_too_many(game, costs.largest)
    n = int(costs.rows.argmax())
    which = "B 2^16" if budget is None else "B (budget + 2)"
    raise EnumerationLimitError(
        f"estimator='auto': X row {n} needs {costs.rows[n]:,} model rows (at most "
        f"{costs.largest[n]} of {game.P} players differ), more than {which} = "
        f"{_most_rows(game, budget):,}, up to which auto is exact, and index={index.name!r} is "
        "not sampled. Say estimator='exact', group columns with players=, or use fewer background "
        "rows."
    )


def warn_unmet(part: InstanceValues, choice: EstimatorChoice) -> None:
    """Warns of instances that used up their budget before the rule was met."""
    unmet = int((~part.met).sum())
    if choice.rule is not None and unmet:
        checks.warn(choice.rule.unmet(unmet, len(part.met), choice.budget))


def warn_heavy_tail(part: InstanceValues) -> None:
    """Warns of instances whose variance comes from a few rare draws."""
    count = int(part.heavy.sum())
    if count:
        checks.warn(
            f"{count:,} of {len(part.heavy):,} sampled instances have heavy tails, so that their "
            "intervals hold less often than they say. Raise budget=, unite columns with players=, "
            'or explain the score before a sigmoid. stats["heavy_tail"] says which they are.'
        )


def warn_long(game: GameRun, costs: ExactCost, choice: EstimatorChoice, exact: Exact) -> int:
    """Warns of a long run before it starts; returns the largest number of model rows it may
    take.
    """
    each = game.engine.replacement.count * (choice.budget + 2)
    enumerated = int(costs.rows[choice.exact].sum())
    drawn = int(np.minimum(costs.rows[~choice.exact], each).sum()) if choice.sampler else 0
    rows, beside = enumerated + drawn, 0.0
    if choice.sampler is not None:
        K = game.probe().outputs
        cost = METHODS[choice.sampler].cost(game.P, exact.index, choice.budget, K)
        beside = cost.once + int((~choice.exact).sum()) * K * cost.each
    said = refuse.why_long(game, rows, beside)
    if said and enumerated and exact.in_closed_form(game):
        said = refuse.why_long(game, drawn, beside)
    if not said:
        return rows
    ways = "estimator='permutation', whose budget= bounds the rows"
    if choice.sampler:
        ways = f"a smaller budget= (now {choice.budget:,} coalitions an instance)"
    checks.warn_slow(said, f"{ways}, fewer background rows, or columns united to fewer players")
    return rows


def cost_of(game: GameRun, choice: EstimatorChoice, seed: int, exact: Exact) -> Plan:
    """The plan of a game: what the chosen estimators ask."""
    enumerable, others = np.flatnonzero(choice.exact), np.flatnonzero(~choice.exact)
    if len(enumerable):
        exact.cost(game, enumerable)
    if choice.sampler is not None:
        sampled_cost(game, others, choice.sampler, exact.index, choice.budget, seed)
    return plan_of(game, np.where(choice.exact, exact.name, choice.sampler or "exact"))
