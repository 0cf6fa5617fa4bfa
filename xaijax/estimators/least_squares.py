"""The authors' weighted least squares over all coalitions, for comparison with exact values.

Wang (2019) computes the values of Algorithm 2 by the regression of Lundberg and Lee (2017, "A
unified approach to interpreting model predictions", theorem 2) on all 2^P coalitions with an
intercept, in which the empty and the full one have a large finite weight E instead of an infinite
one. The result differs from Shapley's value, and from efficiency, by the order of 1 / E.

Letters: N instances, P players, K outputs, E the end weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xaijax.estimators.driver import Estimate, Exact, by_tables
from xaijax.games.queries import tables_cost
from xaijax.games.run import GameRun
from xaijax_kernels.games.semivalues import semivalue


@dataclass(frozen=True)
class LeastSquares(Exact):
    """The estimator of `FederatedExplainer` that solves the authors' regression on the full table.

    p: Shapley's weights of the game's players. end_weight: E. null: positions, among all P players,
    of those that the game leaves out because they change nothing; the table of all P repeats that
    of the game.

    The normal equations are symmetric in the players, so they separate. With
    u = v - v(empty), T = u(all) and w_s = (P - 1) / (C(P, s) s (P - s)):

    - the deviation from the mean is Shapley's value minus T / P for any E, because the entries for
      the same and for two players differ by (P - 1) / P without E;
    - the sum of the values, T + m, and the intercept, v(empty) + b, solve two equations:
      (E + g) m + (E + a) b = t - g T  and  (E + a) b + (a - g) m = z - t - (a - g) T,
      z = sum_S w u, t = sum_S w |S| u / P, a = sum_S w |S| / P, g = sum_S w |S|^2 / P^2, over
      sizes 1..P-1 (and sum_S w = 2 a). Their difference gives m.
    """

    end_weight: float
    null: tuple[int, ...] = ()
    name = "wls"
    solvable = False  # the regression reads the full table
    efficient = False  # a regression's residual is not rounding

    def cost(self, game: GameRun, rows: np.ndarray) -> None:
        """Adds what `estimate` asks for the instances `rows` [n] to the game's cost."""
        tables_cost(game, rows)

    def estimate(self, game: GameRun, rows: np.ndarray) -> Estimate:
        """Coefficients of the regression for the instances `rows`; the base is its intercept."""
        null, end_weight, p = self.null, self.end_weight, self.p
        D, P = len(null), game.P + len(null)
        inner = ((P - 1) / (math.comb(P, s) * s * (P - s)) for s in range(1, P))
        by_size = np.array([0.0, *inner, 0.0])
        count = np.array([math.comb(P, s) for s in range(P + 1)], float)
        shares = np.arange(P + 1) / P
        a = math.fsum((count * by_size * shares).tolist())
        g = math.fsum((count * by_size * shares**2).tolist())
        # A set of the game counts for C(D, r) sets with r more null players.
        size = np.bitwise_count(np.arange(1 << game.P, dtype=np.uint64)).astype(np.int64)
        more = [(math.comb(D, r), size + r) for r in range(D + 1)]
        weight = np.sum([times * by_size[s] for times, s in more], axis=0)
        shared = np.sum([times * (by_size * shares)[s] for times, s in more], axis=0)
        busy = [i for i in range(P) if i not in set(null)]

        def read(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            u = table - table[:, :1]
            T = u[:, -1]  # [n, K]
            z = np.einsum("s,nsk->nk", weight, u)
            t = np.einsum("s,nsk->nk", shared, u)
            m = (2 * t - z + (a - 2 * g) * T) / (end_weight + 2 * g - a)
            b = (t - g * T - (end_weight + g) * m) / (end_weight + a)
            values = np.zeros((len(table), P, table.shape[2]))
            values[:, busy] = semivalue(table, p)
            return values + m[:, None] / P, table[:, 0] + b

        return by_tables(game, rows, read)._replace(fitted=True)
