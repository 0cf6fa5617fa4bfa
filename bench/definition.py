"""Comparisons that every row of the table carries: efficiency, and the definition itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.frame import Agreement

REASON = (
    "float32 model outputs summed in another order: 1e-5 of the largest output (of 1 at least), "
    "about 100 units in the last place"
)


def tolerance(outputs: np.ndarray) -> float:
    """What float32 outputs of this size may differ by; the reason is `REASON`."""
    return 1e-5 * max(1.0, float(np.abs(outputs).max()))


def coalition_values(
    predict: Callable[[np.ndarray], np.ndarray], x: np.ndarray, background: np.ndarray
) -> np.ndarray:
    """v [2^P] of one instance x [P] in float64; bit p of a place says whether player p is kept."""
    P = len(x)
    kept = (np.arange(2**P)[:, None] >> np.arange(P)) & 1 == 1  # [2^P, P]
    values = np.empty(2**P)
    step = max(1, 2**19 // len(background))
    for start in range(0, 2**P, step):
        part = kept[start : start + step]
        hybrids = np.where(part[:, None, :], x, background).reshape(-1, P)
        values[start : start + step] = predict(hybrids).reshape(len(part), -1).mean(axis=1)
    return values


def shapley(
    predict: Callable[[np.ndarray], np.ndarray], x: np.ndarray, background: np.ndarray
) -> np.ndarray:
    """Shapley values [P] of one instance x [P] in float64, from every one of the 2^P coalitions."""
    P, values = len(x), coalition_values(predict, x, background)
    sizes = np.bitwise_count(np.arange(2**P))
    weights = np.array(
        [math.factorial(s) * math.factorial(P - 1 - s) / math.factorial(P) for s in range(P)]
    )
    phi = np.empty(P)
    for player in range(P):
        without = np.flatnonzero(~np.arange(2**P) >> player & 1)
        gains = values[without + (1 << player)] - values[without]
        phi[player] = (weights[sizes[without]] * gains).sum()
    return phi


def shapley_of_players(
    predict: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    background: np.ndarray,
    players: np.ndarray,
) -> np.ndarray:
    """The same [P] of players that have several columns; players int [F], -1: never replaced.

    Hybrids are named by the row that each player is of: 0 for x, 1 + b for a background row.
    """
    rows, P = np.concatenate([x[None], background]), int(players.max()) + 1

    def of_names(names: np.ndarray) -> np.ndarray:
        own = np.where(players < 0, 0, names[:, players])
        return predict(rows[own, np.arange(len(players))])

    names = np.repeat(np.arange(1, len(rows))[:, None], P, axis=1)
    return shapley(of_names, np.zeros(P, int), names)


def efficiency(explanation: Any, outputs: np.ndarray) -> Agreement:
    """Base value plus values against the model's outputs [N] on the instances."""
    total = explanation.base_values + explanation.values.sum(axis=1)
    difference = float(np.abs(total - outputs).max())
    return Agreement("base + values and f(x)", difference, tolerance(outputs), REASON)


def against_definition(
    explanation: Any,
    predict: Callable[[np.ndarray], np.ndarray],
    X: np.ndarray,
    background: np.ndarray,
    *,
    instances: int = 2,
) -> Agreement:
    """The first instances against the sum over all coalitions, in float64."""
    expected = np.stack([shapley(predict, x, background) for x in X[:instances]])
    difference = float(np.abs(explanation.values[:instances] - expected).max())
    return Agreement("values and the definition", difference, tolerance(predict(X)), REASON)


def against_peer(name: str, ours: np.ndarray, theirs: np.ndarray, outputs: np.ndarray) -> Agreement:
    """Our values against a peer's, which may cover the first instances only."""
    difference = float(np.abs(ours[: len(theirs)] - theirs).max())
    return Agreement(f"values and {name}'s", difference, tolerance(outputs), REASON)
