"""shap's sampled explainers as peers: by rows of a model for time, by a game for error.

By a game: each player is a feature that is 0 or 1, the background is one row of zeros, the row
explained is all ones, and the model has one output an instance. What shap then explains is the
game, with its own coalitions, for all instances at once. Letters: N instances, P players.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.games import Counted, Game
from bench.peers.installed import installed

PERMUTATION, KERNEL = "shap Permutation", "shap Kernel"


def permutation_of_rows(
    model: Callable[[np.ndarray], np.ndarray], background: np.ndarray, count: int
) -> Callable[..., np.ndarray]:
    """Return (rows, seed) -> values [N, P] by `count` orders there and back.

    shap counts 2 P + 1 evaluations an order: the empty coalition twice, the full one, and 2 (P - 1)
    others.
    """
    shap = installed("shap")
    masker = shap.maskers.Independent(background, max_samples=len(background))
    evaluations = count * (2 * background.shape[1] + 1)

    def explain(rows: np.ndarray, seed: int = 0) -> np.ndarray:
        explainer = shap.explainers.Permutation(model, masker, seed=seed)
        return explainer(rows, max_evals=evaluations, silent=True).values

    return explain


def permutation(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Values [N, P] of the game by PermutationExplainer."""
    return _by_orders(game, players, _orders(players, budget, seed), seed)


def _by_orders(game: Game, players: int, count: int, seed: int) -> np.ndarray:
    explain = permutation_of_rows(_single(game), np.zeros((1, players)), count)
    return explain(np.ones((1, players)), seed)[0].reshape(players, -1).T


def _orders(players: int, budget: int, seed: int) -> int:
    """As many orders, each there and back, as ask at most `budget` distinct coalitions.

    One asks 2 (P - 1), but small and large coalitions are met again: ours goes on for what that
    saves, and so must shap. Its orders are tried on a game that costs nothing.
    """
    cost = 2 * (players - 1)
    count, more = 0, budget // cost
    while more:
        free = Counted(lambda masks: np.zeros((len(masks), 1)), players)
        _by_orders(free, players, count + more, seed)
        if free.asked > budget:
            break
        count += more
        more = max(1, (budget - free.asked) // cost)
    return count


def kernel(game: Game, players: int, budget: int, seed: int) -> np.ndarray:
    """Values [N, P] of the game by KernelExplainer without its lasso, which False turns off."""
    explainer = installed("shap").KernelExplainer(_single(game), np.zeros((1, players)))
    np.random.seed(seed)  # it draws from the global stream
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Linear regression equation is singular")
        values = explainer.shap_values(
            np.ones((1, players)), nsamples=budget, l1_reg=False, silent=True
        )
    return np.asarray(values)[0].reshape(players, -1).T


def trees(model: Any, background: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Interventional values [N, P] of a forest in closed form."""
    shap = installed("shap")
    explainer = shap.TreeExplainer(model, background, feature_perturbation="interventional")
    return np.asarray(explainer.shap_values(X, check_additivity=False))


def _single(game: Game) -> Callable[[Any], np.ndarray]:
    return lambda rows: game(np.asarray(rows) > 0.5)
