"""The models that sampled estimators are compared on, each with a truth.

Letters: N instances, P players, B background rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import xaijax
from bench import games
from bench.cases.exact import network
from bench.definition import shapley
from bench.frame import Agreement
from bench.models import continuous, forward
from bench.peers import shap_sampled
from bench.truth import long_run

BACKGROUND = 10  # rows


@dataclass(frozen=True)
class Subject:
    """A model with its instances and background; the same for every contender."""

    name: str
    X: np.ndarray  # [N, P]
    background: np.ndarray  # [B, P]
    model: Any  # from as_model
    game_of: Callable[[np.ndarray], games.Game]
    # (truth [N, P] -> the smallest error compared with it) -> truth and its variance
    truth: Callable[[Callable[[np.ndarray], float]], tuple[np.ndarray, float]]


def of_network(
    instances: int, players: int, hidden: tuple[int, ...], most: int, *, keep: bool
) -> Subject:
    """A network. most: the largest budget, which says how long one run of the truth should be."""
    problem = network(instances, BACKGROUND, (players, *hidden))
    model = xaijax.as_model(forward, problem.params)
    budget = max(8 * most, 64 * players)
    explain = xaijax.Explainer(model, problem.background, estimator="permutation", budget=budget)

    def run(seed: int) -> tuple[np.ndarray, np.ndarray]:
        explain.seed = seed
        found = explain(problem.X, progress=False)
        assert found.std_errors is not None
        return found.values, found.std_errors

    def truth(smallest: Callable[[np.ndarray], float]) -> tuple[np.ndarray, float]:
        inputs = (problem.X, problem.background, problem.params, budget)
        found = long_run(inputs, run, smallest, keep=keep)
        return found.values, found.variance

    game_of = games.of_network(problem.params, problem.background)
    return Subject("MLP", problem.X, problem.background, model, game_of, truth)


def _fitted(players: int, trees: int, depth: int) -> RandomForestRegressor:
    """A forest of a rule with interactions of two and three inputs, in a third of them."""
    X, _ = continuous(2_000, 1, players, seed=5)
    used = X[:, : max(4, players // 3)]
    left, middle, right = used, np.roll(used, 1, axis=1), np.roll(used, 2, axis=1)
    y = (left + left * middle + (middle > 0) * left * right).mean(axis=1)
    forest = RandomForestRegressor(n_estimators=trees, max_depth=depth, random_state=0)
    return forest.fit(X, y)


def of_forest(instances: int, players: int, trees: int) -> Subject:
    """A forest on the host."""
    forest = _fitted(players, trees, 7)
    X, background = continuous(instances, BACKGROUND, players)
    model = xaijax.as_model(forest, backend="host")
    values = shap_sampled.trees(forest, background, X)
    game_of = games.of_host(forest.predict, background)
    return Subject("forest", X, background, model, game_of, lambda smallest: (values, 0.0))


def closed_form() -> Agreement:
    """shap's values of a small forest against the definition."""
    forest = _fitted(6, 10, 5)
    X, background = continuous(2, 4, 6)
    given = shap_sampled.trees(forest, background, X)
    expected = np.stack([shapley(forest.predict, x, background) for x in X])
    difference = float(np.abs(given - expected).max())
    reason = "leaves kept in float32, outputs of about 1"
    return Agreement("closed form of a forest and the definition", difference, 1e-5, reason)
