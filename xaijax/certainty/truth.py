"""The truth that an attribution is held against: exact where it fits, else sampled.

A sampled truth is the mean of RUNS runs of their own seeds, so that its variance is known without
bias from how far the runs are apart. (Standard errors of one run are meant for intervals and are
rather too wide: taken off, they would take off too much.)

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.typing import Outputs
from xaijax.estimators.driver import METHODS, InstanceValues, sampled
from xaijax.games.ask import ExactCost
from xaijax.games.run import GameRun
from xaijax.methods.explainer.choice import EstimatorChoice, choose, default_budget
from xaijax.methods.explainer.explainer import Explainer
from xaijax.methods.explainer.record import explanation, with_one_base
from xaijax.players.index import Index, named
from xaijax.results.explanation import Explanation

RUNS = 8
SAMPLER = "permutation"  # its values have no bias, whatever the budget


@dataclass(frozen=True)
class Truth:
    """What was found, with the outputs as an axis in any case."""

    explanation: Explanation
    values: np.ndarray  # float64 [N, P, K]
    variances: np.ndarray  # float64 [N, P, K], of the draws; 0 where exact
    change: np.ndarray  # float64 [N, K], f(x) less the base value, as the engine found both
    efficient: bool  # whether the values of the index add up to that


def truth_of(
    explainer: Explainer, X: Any, outputs: Outputs, budget: int | None, seeds: Sequence[int]
) -> Truth:
    """The values that the explainer's question has, whatever its own estimator is.

    seeds: [RUNS], of the runs of what is sampled.
    """
    started, index = time.perf_counter(), named(explainer.index)
    decide = partial(_choice, index=index, budget=budget)
    rows, game, _, choice = explainer._begun(X, lambda done: None, decide, outputs=outputs)
    before = game.evaluator.start()
    answer = _answer(explainer, game, choice, index, seeds)
    seconds = time.perf_counter() - started
    found = explanation(explainer, X, rows, game, choice, answer, before, seconds)
    own = {"seed": int(seeds[0]), "tolerance": None, "budget": choice.budget * RUNS}
    found = replace(found, stats={**found.stats, **own})
    errors = answer.std_errors
    return Truth(
        found,
        answer.values,
        np.zeros_like(answer.values) if errors is None else errors**2,
        answer.full - answer.base,
        index.efficient,
    )


def _choice(game: GameRun, survey: ExactCost, index: Index, budget: int | None) -> EstimatorChoice:
    """Exact where "auto" would be; the rest goes to `SAMPLER`, by a run's share of the budget."""
    found = choose(game, survey, "auto", index, budget)
    if found.sampler is None:
        return found
    least = METHODS[SAMPLER].smallest_budget(game.P, index)
    asked = max(default_budget(game.P), 4 * RUNS * game.P) if budget is None else budget
    if asked < RUNS * least:
        raise InputError(
            f"budget={asked:,} is less than {RUNS} runs of {least:,} coalitions, from which a "
            f"sampled truth and its variance are found. Say budget={RUNS * least:,} or more."
        )
    return replace(found, sampler=SAMPLER, budget=asked // RUNS)


def _answer(
    explainer: Explainer, game: GameRun, choice: EstimatorChoice, index: Index, seeds: Sequence[int]
) -> InstanceValues:
    """All instances: enumerated once, or sampled once with each seed."""
    own, others = np.flatnonzero(choice.exact), np.flatnonzero(~choice.exact)
    exact = InstanceValues.exact(*explainer.exact.estimate(game, own)[:6]) if len(own) else None
    if choice.sampler is None or not len(others):
        assert exact is not None
        return with_one_base(game, choice, exact)
    runs = [sampled(game, others, choice.sampler, index, choice.budget, seed) for seed in seeds]
    values = np.stack([run.values for run in runs])
    drawn = replace(
        runs[0],
        values=values.mean(axis=0),
        std_errors=values.std(axis=0, ddof=1) / np.sqrt(RUNS),
        dof=np.full(len(others), RUNS - 1.0),
        coalitions=np.sum([run.coalitions for run in runs], axis=0),
    )
    whole = drawn if exact is None else InstanceValues.mixed(choice.exact, exact, drawn)
    return with_one_base(game, choice, whole)
