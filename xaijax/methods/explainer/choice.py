"""Chooses the estimator of each instance before the model is called.

Letters: N instances, P players, B background rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import EnumerationLimitError, InputError, InputTypeError
from xaijax.core.sequences import checked_level
from xaijax.estimators.driver import (
    METHODS,
    Exact,
    InstanceValues,
    refuse_undrawable,
    sampled_cost,
)
from xaijax.estimators.kernel import SPARE
from xaijax.estimators.stopping import Rule, Top
from xaijax.games import queries, refuse
from xaijax.games.engine.evaluator import LARGEST_PAIR
from xaijax.games.queries import ExactCost
from xaijax.games.run import GameRun
from xaijax.methods.record import plan_of
from xaijax.players.index import Index, named, quoted
from xaijax.results.explanation import Explanation
from xaijax.results.plan import Plan

if TYPE_CHECKING:
    from xaijax.methods.explainer.explainer import Explainer

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
    costs: ExactCost  # of exact values
    rule: Rule | None = None  # stops sampled instances early; None: no early stop

    @cached_property
    def name(self) -> str:
        """The estimator that stats and provenance name: the sampled one if there is one."""
        return self.sampler or "exact"

    def most_coalitions(self, P: int) -> int:
        """Coalitions of P players that are asked of an instance, at most."""
        every = 1 << min(P, LARGEST_PAIR) if self.exact.any() else 0
        return max(every, 0 if self.sampler is None else self.budget + 2)


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
    game: GameRun, exact: Exact, estimator: str, budget: int | None, independent: bool = False
) -> EstimatorChoice:
    """Decides for the model and the question if a closed form is known, and else for every
    instance, from that instance and the background only.

    independent: "auto" samples by independent draws alone.

    It raises EnumerationLimitError for what can neither be enumerated nor sampled, MemoryPlanError
    for a budget that cannot be drawn, and InputError for a budget that is too small for the
    estimator or given with estimator="exact", and for a link of a random model's answers.
    """
    refuse.refuse_biased_link(game)
    P, random, index = game.P, not game.engine.model.deterministic, exact.index
    allowed = default_budget(P) if budget is None else budget
    seeks = exact.solvable and seeks_closed_form(game, estimator, budget)
    costs = queries.exact_cost(game, exact.weights if seeks else None)
    fits, sampler = enumerated(game, costs, estimator, budget), estimator
    if fits.all():
        refuse.refuse_too_many(game, costs.largest)
        requested = budget is not None or estimator in METHODS
        if requested and _covers_all(game, budget):
            checks.warn(
                f"budget={allowed:,}{'' if budget is not None else ' (the default)'} covers all "
                f"{(1 << P) - 2:,} coalitions of {P} players: the values are exact."
            )
        return EstimatorChoice(fits, None, allowed, costs)
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
    return EstimatorChoice(fits, sampler, allowed, costs)


def seeks_closed_form(game: GameRun, estimator: str, budget: int | None) -> bool:
    """Whether a closed form is looked for, which probes the model: unless the estimator samples.

    "exact" looks for none of more players than can be enumerated if the model is a function: it
    may have to be refused, and then is not asked. Answers of a translated estimator were compared.
    """
    samples = estimator in METHODS and not _covers_all(game, budget)
    function = game.engine.model.original is None
    unasked = estimator == "exact" and function and game.P > LARGEST_PAIR
    return not (samples or unasked)


def _covers_all(game: GameRun, budget: int | None) -> bool:
    """Whether the budget covers all coalitions, which can be evaluated."""
    allowed = default_budget(game.P) if budget is None else budget
    return (1 << game.P) - 2 <= allowed and game.P <= _most_players(game)


def enumerated(game: GameRun, costs: ExactCost, estimator: str, budget: int | None) -> np.ndarray:
    """Whether each instance is enumerated, bool [N], by the rules of `choose`."""
    everything = np.ones(game.N, bool)
    if _covers_all(game, budget):
        return everything
    if estimator == "exact":
        if budget is not None:
            raise InputError(
                f"budget={budget:,} is given, but estimator='exact' takes all coalitions. Leave it "
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
        f"{_most_rows(game, budget):,}, up to which auto is exact without a closed form (known of "
        f"{refuse.CLOSED_FORMS}), and index={index.name!r} is not sampled. Say estimator='exact', "
        "group columns with players=, or use fewer background rows."
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


def warn_long(game: GameRun, choice: EstimatorChoice, index: Index) -> int:
    """Warns of a long run before it starts; returns the largest number of model rows it may
    take.
    """
    each = game.engine.replacement.count * (choice.budget + 2)
    counts = choice.costs.rows
    rows, beside = int(counts[choice.exact].sum()), 0.0
    if choice.sampler is not None:
        K = game.probe().outputs
        rows += int(np.minimum(counts[~choice.exact], each).sum())
        cost = METHODS[choice.sampler].cost(game.P, index, choice.budget, K)
        beside = cost.once + int((~choice.exact).sum()) * K * cost.each
    ways = "estimator='permutation', whose budget= bounds the rows"
    if choice.sampler:
        ways = f"a smaller budget= (now {choice.budget:,} coalitions an instance)"
    ways = f"{ways}, fewer background rows, or columns united to fewer players"
    refuse.warn_long_run(game, rows, ways, beside)
    return rows


def cost_of(game: GameRun, choice: EstimatorChoice, seed: int, exact: Exact) -> Plan:
    """The plan of a game: what the chosen estimators ask."""
    enumerable, others = np.flatnonzero(choice.exact), np.flatnonzero(~choice.exact)
    if len(enumerable):
        exact.cost(game, enumerable)
    if choice.sampler is not None:
        sampled_cost(game, others, choice.sampler, exact.index, choice.budget, seed)
    return plan_of(game, np.where(choice.exact, exact.name, choice.sampler or "exact"))


CONFIDENCE = 0.95


def top_rule(explainer: Explainer, P: int, top: Any, confidence: Any, bounds: Any) -> Top | None:
    """The rule of top=, confidence= and bounds=; None if there is none.

    It raises InputError or InputTypeError for arguments that do not go together, before any work.
    """
    if top is None:
        for name, value in (("confidence", confidence), ("bounds", bounds)):
            if value is not None:
                raise InputError(f"{name}={value!r} needs top=, which is not given. Say top=3.")
        return None
    k = checks.whole_number(top, "top")
    if k > P:
        raise InputError(f"top={k:,}, but there are {P:,} players. Pass a number from 1 to {P:,}.")
    level = CONFIDENCE if confidence is None else checked_level(confidence, "confidence")
    pair = None if bounds is None else _pair(bounds)
    if explainer.tolerance is not None:
        raise InputError(
            f"top={k} and tolerance={explainer.tolerance:g} are two rules of when to stop. Leave "
            "out one."
        )
    if explainer.estimator in METHODS and not METHODS[explainer.estimator].independent:
        raise InputError(
            f"top={k} needs independent pairs, and estimator={explainer.estimator!r} fits all "
            "draws together. Say estimator='permutation' or 'auto'."
        )
    if not explainer.model.deterministic:
        raise InputError(
            f"top={k} needs a deterministic model. Leave top= out; explanation.top() uses standard "
            "errors."
        )
    return Top(k, level, pair)


REAL = int | float | np.integer | np.floating


def _pair(bounds: Any) -> tuple[float, float]:
    """(low, high) of bounds=; raises InputError or InputTypeError for anything else."""
    wanted = "pass two numbers, (0, 1) for probabilities: v(S) is never outside."
    two = isinstance(bounds, tuple | list) and len(bounds) == 2
    if not two or any(isinstance(end, bool) or not isinstance(end, REAL) for end in bounds):
        raise InputTypeError(f"bounds: got {checks.shown(bounds)}; {wanted}")
    low, high = map(float, bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"bounds: got ({low:g}, {high:g}); {wanted}")
    return low, high


def with_top_claims(result: Explanation, rule: Top) -> Explanation:
    """The same explanation, with `top` and `confidence`, and which instances are certain.

    Exact values are judged by their rounding; for others the run has recorded what it found.
    """
    sure = result.top(rule.k, rule.confidence).certain.reshape(len(result), -1).all(axis=1)
    stats = dict(result.stats)
    if "certain" in stats:
        sure = np.where(stats["exact_rows"], sure, stats["certain"])
    claims = {"top": rule.k, "confidence": rule.confidence, "certain": sure}
    return replace(result, stats={"bound": "rounding", **stats, **claims})
