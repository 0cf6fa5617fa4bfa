"""A Gaussian process over coalitions: what a game of even sets is, by some of its answers.

In signs z (1 for members, -1 for others) a game is a sum of c_R chi_R, chi_R = product of z_i over
R (its Walsh, or Fourier, coefficients). Half the sum of v(S) and v(complement), the even part of
the game, holds the sets R of even size alone. An interaction is linear in c:

    D_S chi_R at T = 2^s chi_(R - S)(T), so I(S) = sum over R with S of 2^s c_R E[u^(|R| - s)],

where u = 2 q - 1, and q is uniform for Shapley interactions (their sets T have each player with
chance q, Grabisch and Roubens 1999) and 1/2 for Banzhaf's.

The c_R are taken to be independent, normal, with variance tau^2 rho^|R|: interactions of many
players are small, and how small is told by the data. The covariance of two coalitions at distance d
is then a sum over R in closed form, tau^2 ((1 + rho)^(P - d) (1 - rho)^d + (1 - rho)^(P - d)
(1 + rho)^d) / 2 (O'Donnell 2014, "Analysis of Boolean functions", section 2.4: the noise operator),
so that no budget is too small. rho is the likeliest of RATES, for each instance and output by
itself, and tau^2 is profiled out (Rasmussen and Williams 2006, "Gaussian processes for machine
learning", chapters 2 and 5; O'Hagan 1991, "Bayes-Hermite quadrature", for integrals of one).

Letters: N instances, P players, D coalitions whose even part is known, K outputs.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

RATES = (0.001, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.32, 0.45, 0.6, 0.8, 0.95)  # of rho
JITTER = 1e-9  # of the variance: far above float32 answers' rounding, squared
DECIDE = 400  # of the answers, by which the rate is decided
TOGETHER = 512  # sets whose errors are worked out at a time


class Fit(NamedTuple):
    """A covariance of the D answers, scaled to a variance of 1, by what turns them to white."""

    rate: float
    scale: float
    white: np.ndarray  # [D, D], the inverse of its Cholesky factor
    log_det: float
    level: np.ndarray  # [D], the constant, turned


class Process:
    """The process at D coalitions, for all instances and outputs; fits are kept."""

    def __init__(self, signs: np.ndarray, draws_orders: bool) -> None:
        """signs: 1 for members, -1 for others, float64 [D, P]; draws_orders: of Shapley's index."""
        self.signs, (self.D, self.P) = signs, signs.shape
        self._nodes = _nodes(self.P, draws_orders)
        self._fits: dict[tuple[float, int], Fit] = {}

    @cached_property
    def _distance(self) -> np.ndarray:
        """Players in which two of the coalitions differ; int64 [D, D]."""
        return _distance(self.signs, self.signs)

    def _fit(self, rate: float, D: int) -> Fit:
        """Of the first D answers."""
        if (rate, D) not in self._fits:
            self._fits[rate, D] = _fit(self._distance[:D, :D], self.P, rate)
        return self._fits[rate, D]

    def likeliest(self, y: np.ndarray) -> np.ndarray:
        """The place of the likeliest rate, int64 [N, K], by the even parts y [N, D, K]."""
        some, (N, _, K) = min(self.D, DECIDE), y.shape
        best, chosen = np.full((N, K), np.inf), np.zeros((N, K), np.int64)
        for number, rate in enumerate(RATES):
            fit = self._fit(rate, some)
            _, squares = _turned(fit, y[:, :some])
            with np.errstate(divide="ignore"):
                criterion = max(1, some - 1) * np.log(squares) + fit.log_det
            criterion = criterion + np.log(fit.level @ fit.level)
            better = criterion < best
            best[better], chosen[better] = criterion[better], number
        return chosen

    def interactions(self, y: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(means, deviations) given y; [N, P + pairs, K]: the sums of all pairs with each player
        first, then the pairs.
        """
        (N, _, K), P = y.shape, self.P
        alone = np.stack([np.arange(P), np.full(P, -1)], axis=1)
        sets = np.concatenate([alone, np.stack(np.triu_indices(P, 1), axis=1)])
        means, deviations = (np.zeros((N, len(sets), K)) for _ in range(2))
        for number in np.unique(chosen):
            fit, own = self._fit(RATES[number], self.D), chosen == number
            rows = np.flatnonzero(own.any(axis=1))
            white, spread = _turned(fit, y[rows])
            for start in range(0, len(sets), TOGETHER):
                part = slice(start, start + TOGETHER)
                cross, prior = _cross(self.signs, sets[part], fit, self._nodes)
                turned = fit.white @ cross  # [D, sets]
                found = np.matmul(turned.T, white)
                left = prior - (turned**2).sum(axis=0)
                left += (turned.T @ fit.level) ** 2 / (fit.level @ fit.level)  # of the level
                error = np.sqrt(np.maximum(left, 0))[:, None] * np.sqrt(spread)[:, None]
                here = own[rows][:, None]
                means[rows, part] = np.where(here, found, means[rows, part])
                deviations[rows, part] = np.where(here, error, deviations[rows, part])
        return means, deviations

    def expected(self, y: np.ndarray, chosen: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """The mean even parts [N, D', K] of other coalitions, signs [D', P], given y [N, D, K]."""
        apart = _distance(self.signs, signs)
        found = np.zeros((len(y), len(signs), y.shape[2]))
        for number in np.unique(chosen):
            fit, own = self._fit(RATES[number], self.D), chosen == number
            rows = np.flatnonzero(own.any(axis=1))
            covariance = _of_distance(self.P, fit.rate)[0]
            turned = fit.white @ covariance[apart]  # [D, D']
            white, _ = _turned(fit, y[rows])
            level = np.matmul(fit.level, np.matmul(fit.white, y[rows])) / (fit.level @ fit.level)
            means = level[:, None] + np.matmul(turned.T, white)
            found[rows] = np.where(own[rows][:, None], means, found[rows])
        return found


def _distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.rint((first.shape[1] - first @ second.T) / 2).astype(np.int64)


def _of_distance(P: int, rate: float) -> tuple[np.ndarray, float]:
    """(covariances at distances 0..P, scaled to a variance of 1; the scale)."""
    d = np.arange(P + 1)
    found = _even(np.array(rate), P - d, d) - 1  # no set of size 0: the level is fitted
    return found / found[0], float(found[0])


def _nodes(P: int, draws_orders: bool) -> tuple[np.ndarray, np.ndarray]:
    """u and its weights, of which E[u^k] of even k <= P is exact; u^k of odd k plays no part."""
    if draws_orders:
        u, w = np.polynomial.legendre.leggauss(P // 2 + 1)
        return (u + 1) / 2, w / 2  # uniform from 0 to 1: even powers as from -1 to 1
    return np.zeros(1), np.ones(1)


def _even(x: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """The sum of x^|R| chi_R over R of even size, of so many players at 1 and at -1."""
    return ((1 + x) ** plus * (1 - x) ** minus + (1 - x) ** plus * (1 + x) ** minus) / 2


def _fit(distance: np.ndarray, P: int, rate: float) -> Fit:
    from scipy.linalg import solve_triangular  # noqa: PLC0415 - `import xaijax` loads no scipy

    of_distance, scale = _of_distance(P, rate)
    covariance = of_distance[distance]
    covariance[np.diag_indices(len(covariance))] += JITTER
    factor = np.linalg.cholesky(covariance)
    white = solve_triangular(factor, np.eye(len(factor)), lower=True)
    log_det = 2 * float(np.log(np.diag(factor)).sum())
    return Fit(rate, scale, white, log_det, white.sum(axis=1))


def _turned(fit: Fit, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(answers [N, D, K] less the level, turned to white; tau^2 [N, K]). The level has a flat
    prior.
    """
    turned = np.matmul(fit.white, y)  # instance by instance, in one shape
    size = fit.level @ fit.level
    turned -= fit.level[:, None] * np.matmul(fit.level, turned)[:, None] / size
    return turned, (turned**2).sum(axis=1) / max(1, y.shape[1] - 1)


def _cross(
    signs: np.ndarray, sets: np.ndarray, fit: Fit, nodes: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(covariances of the answers with the interactions of sets [D, sets], their own variances).

    sets int [sets, 2]: (i, j) is a pair, 4 rho^2 E[sum over R of the others of (rho u)^|R| chi_R],
    |R| even; (i, -1) the sum of all pairs with i.
    """
    D, P = signs.shape
    (u, w), rate = nodes, fit.rate
    low = (signs < 0).astype(np.int64)
    minus = low.sum(axis=1)
    rest = max(P - 2, 0)
    m = np.arange(rest + 1)
    of_rest = 4 * rate**2 / fit.scale * (_even(rate * u, (rest - m)[:, None], m[:, None]) @ w)
    squares = _even(np.multiply.outer(u, u) * rate, np.array(rest), np.array(0))
    cross, prior = np.empty((D, len(sets))), np.full(len(sets), float(w @ squares @ w))
    prior *= 16 * rate**2 / fit.scale
    i, j = sets.T
    pair = j >= 0
    at = minus[:, None] - low[:, i[pair]] - low[:, j[pair]]
    cross[:, pair] = signs[:, i[pair]] * signs[:, j[pair]] * of_rest[at]
    for place in np.flatnonzero(~pair):  # by how many of the others are at -1
        left = minus - low[:, i[place]]
        plus = (P - 1 - left) * of_rest[np.minimum(left, rest)]
        less = left * of_rest[np.maximum(left - 1, 0)]
        cross[:, place] = signs[:, i[place]] * (plus - less)
    r = np.arange(2, P + 1, 2)  # a set R with i holds |R| - 1 pairs with i
    moments = np.array([(w * u ** (k - 2)).sum() for k in r])
    sizes = np.array([float(math.comb(P - 1, k - 1)) for k in r])
    prior[~pair] = ((4 * (r - 1) * moments) ** 2 * rate**r * sizes).sum() / fit.scale
    return cross, prior
