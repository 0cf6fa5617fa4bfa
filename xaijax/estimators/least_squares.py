"""The authors' weighted least squares over all coalitions, for comparison with exact values.

Wang (2019) computes the values of Algorithm 2 by the regression of Lundberg and Lee (2017, "A
unified approach to interpreting model predictions", theorem 2) on all 2^P coalitions, in which the
empty and the full one have a large finite weight instead of an infinite one. The result is
Shapley's value but for a difference of order 1 / end weight, and so is efficiency.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

import math

import numpy as np

from xaijax.estimators.exact import Estimate, by_tables
from xaijax.games.game import Game


def operator(P: int, end_weight: float) -> np.ndarray:
    """float64 [P + 1, 2^P]: times v [2^P] it gives the P values, then the intercept.

    (A' W A)^-1 A' W with the rows (members of S, 1) and the weights
    (P - 1) / (C(P, s) s (P - s)), or end_weight at s = 0 and P.
    """
    members = (np.arange(1 << P)[:, None] >> np.arange(P) & 1).astype(float)
    by_size = [end_weight] * (P + 1)
    for s in range(1, P):
        by_size[s] = (P - 1) / (math.comb(P, s) * s * (P - s))
    w = np.array(by_size)[members.sum(axis=1).astype(int)]
    A = np.concatenate([members, np.ones((1 << P, 1))], axis=1)
    weighted = (A * w[:, None]).T
    return np.linalg.solve(weighted @ A, weighted)


def least_squares(game: Game, rows: np.ndarray, end_weight: float) -> Estimate:
    """The regression's coefficients for the instances `rows`; its intercept is the base value."""
    solve = operator(game.P, end_weight)

    def read(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        solution = np.matmul(solve, table)  # [n, P + 1, K]
        return solution[:, :-1], solution[:, -1]

    return by_tables(game, rows, read)
