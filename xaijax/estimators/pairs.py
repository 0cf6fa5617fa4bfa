"""Sampled interactions of two players: a Gaussian process over coalitions, fitted to pairs of them.

Coalitions are drawn, with their complements, by the kernel estimator, which gives the values of the
players alone. In signs z (1 for members, -1 for others) a game is a sum of c_R chi_R, chi_R =
product of z_i over R (its Walsh, or Fourier, coefficients). Half the sum of v(S) and v(complement)
holds the sets R of even size alone: neither single players nor triples disturb it, of which the
kernel's differences are made. An interaction is linear in c:

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

An estimate is the mean given the data, drawn towards 0 by what is not known yet; its standard error
is the deviation given the data, which holds this shrinking. Both vanish for games of pairs once the
data determine them. Measured on networks, forests and games of high order, at equal coalitions, it
has a fraction of the error of KernelSHAP-IQ, SVARM-IQ, SHAP-IQ and permutations: `bench`, T30.

Letters: N instances, P players, C coalitions asked, D pairs drawn and the ends, K outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from xaijax.estimators import kernel
from xaijax.estimators.result import Result
from xaijax.players.index import Index, named
from xaijax.players.interaction_index import InteractionIndex

RATES = (0.001, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.32, 0.45, 0.6, 0.8, 0.95)  # of rho
JITTER = 1e-9  # of the variance: far above float32 answers' rounding, squared
DECIDE = 400  # of the answers, by which the rate is decided
TOGETHER = 512  # sets whose errors are worked out at a time


@dataclass(frozen=True)
class State:
    """The pairs drawn so far, by the kernel estimator."""

    index: InteractionIndex
    drawn: kernel.State

    @cached_property
    def signs(self) -> np.ndarray:
        """1 for members, -1 for others, the full coalition first; float64 [D, P]."""
        ends = np.ones((1, self.drawn.P), bool)
        return np.where(np.concatenate([ends, self.drawn.sets]), 1.0, -1.0)

    @cached_property
    def _distance(self) -> np.ndarray:
        """Players in which two of the coalitions drawn differ; int64 [D, D]."""
        return np.rint((self.drawn.P - self.signs @ self.signs.T) / 2).astype(np.int64)

    @cached_property
    def _fits(self) -> dict[tuple[float, int], Fit]:
        return {}

    def fit(self, rate: float, D: int) -> Fit:
        """Of the first D answers, for all instances and outputs."""
        if (rate, D) not in self._fits:
            self._fits[rate, D] = _fit(self._distance[:D, :D], self.drawn.P, rate)
        return self._fits[rate, D]


class Fit(NamedTuple):
    """A covariance of the D answers, scaled to a variance of 1, by what turns them to white."""

    rate: float
    scale: float
    white: np.ndarray  # [D, D], the inverse of its Cholesky factor
    log_det: float
    level: np.ndarray  # [D], the constant, turned


def _of_players(index: InteractionIndex) -> Index:
    """The index whose values players alone have, but for what k-SII takes out of them."""
    return named(index.singles)


def smallest_budget(P: int, index: InteractionIndex) -> int:
    """The coalitions from which the players' values are determined."""
    return kernel.smallest_budget(P, _of_players(index))


def units(P: int, index: InteractionIndex, budget: int) -> int:
    """How many pairs the budget allows."""
    return kernel.units(P, _of_players(index), budget)


def drawing(P: int, index: InteractionIndex, budget: int, K: int) -> tuple[float, float]:
    """(bytes on the host, operations of a core) of all that a budget draws, and of an instance.

    Beside the kernel's: matrices of the answers that decide, for each rate; some of all answers,
    and of the sets that are worked out together.
    """
    D = units(P, index, budget) + 1
    some, rates = min(D, DECIDE), len(RATES)
    held, each = kernel.drawing(P, _of_players(index), budget, K)
    held += 8 * (rates * some**2 + D * (D * 7 + 3 * TOGETHER + 2 * P))
    return held, each + 2.0 * K * (rates * some**2 + 2.0 * D * D)


def first_stop(P: int) -> int:
    """Pairs at the first checkpoint."""
    return kernel.first_stop(P)


def walks(index: InteractionIndex) -> bool:
    """No orders are drawn."""
    return False


def count(P: int) -> int:
    """Sets of one and of two players."""
    return P * (P + 1) // 2


def init(P: int, index: InteractionIndex, budget: int, seed: int) -> State:
    """Nothing drawn yet."""
    return State(index, kernel.init(P, _of_players(index), budget, seed))


def step(state: State, pairs: int) -> tuple[State, np.ndarray]:
    """As of the kernel estimator; the new coalitions, bool [C_new, P]."""
    drawn, new = kernel.step(state.drawn, pairs)
    return replace(state, drawn=drawn), new


def masks(state: State, new: np.ndarray) -> np.ndarray:
    """What `step` returns are the coalitions."""
    return new


def result(
    state: State,
    values: np.ndarray,
    empty: np.ndarray,
    full: np.ndarray,
    moves: np.ndarray | None = None,
) -> Result:
    """Players, then pairs, and their standard errors; values [N, M, K].

    values: [N, C, K], of all coalitions asked, in their order; empty, full: [N, K]. moves: whether
    a player changes anything, bool [N, P]; pairs with another are known to be 0. None: all do.
    """
    N, _, K = values.shape
    P = state.drawn.P
    alone, errors, dof = kernel.result(state.drawn, values, empty, full, moves)
    both = np.concatenate([(full + empty)[:, None], values[:, 0::2] + values[:, 1::2]], axis=1) / 2
    found, spread = _pairs(state, both)
    pairs, pair_errors = found[:, P:], spread[:, P:]
    i, j = np.triu_indices(P, 1)
    if moves is not None:
        known = ~(moves[:, i] & moves[:, j])
        pairs[known], pair_errors[known] = 0.0, 0.0
        spread[:, :P][~moves] = 0.0
    if state.index.efficient:  # n-Shapley values of order 2: a player less half of its pairs
        for end in (i, j):
            np.subtract.at(alone.swapaxes(0, 1), end, pairs.swapaxes(0, 1) / 2)
        errors = np.sqrt(errors**2 + spread[:, :P] ** 2 / 4)
    return Result(
        np.concatenate([alone, pairs], axis=1), np.concatenate([errors, pair_errors], axis=1), dof
    )


def _nodes(P: int, index: InteractionIndex) -> tuple[np.ndarray, np.ndarray]:
    """u and its weights, of which E[u^k] of even k <= P is exact; u^k of odd k plays no part."""
    if _of_players(index).draws_orders:
        u, w = np.polynomial.legendre.leggauss(P // 2 + 1)
        return (u + 1) / 2, w / 2  # uniform from 0 to 1: even powers as from -1 to 1
    return np.zeros(1), np.ones(1)


def _even(x: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """The sum of x^|R| chi_R over R of even size, of so many players at 1 and at -1."""
    return ((1 + x) ** plus * (1 - x) ** minus + (1 - x) ** plus * (1 + x) ** minus) / 2


def _fit(distance: np.ndarray, P: int, rate: float) -> Fit:
    from scipy.linalg import solve_triangular  # noqa: PLC0415 - `import xaijax` loads no scipy

    d = np.arange(P + 1)
    of_distance = _even(np.array(rate), P - d, d) - 1  # no set of size 0: the level is fitted
    scale = float(of_distance[0])
    covariance = (of_distance / scale)[distance]
    covariance[np.diag_indices(len(covariance))] += JITTER
    factor = np.linalg.cholesky(covariance)
    white = solve_triangular(factor, np.eye(len(factor)), lower=True)
    log_det = 2 * float(np.log(np.diag(factor)).sum())
    return Fit(rate, scale, white, log_det, white.sum(axis=1))


def _pairs(state: State, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(means, deviations) by the answers y [N, D, K]; [N, P + pairs, K]: the sums of all pairs with
    each player first, then the pairs.
    """
    N, D, K = y.shape
    P, nodes = state.drawn.P, _nodes(state.drawn.P, state.index)
    best, chosen, some = np.full((N, K), np.inf), np.zeros((N, K), np.int64), min(D, DECIDE)
    for number, rate in enumerate(RATES):
        fit = state.fit(rate, some)
        _, squares = _turned(fit, y[:, :some])
        with np.errstate(divide="ignore"):
            criterion = max(1, some - 1) * np.log(squares) + fit.log_det
        criterion = criterion + np.log(fit.level @ fit.level)
        better = criterion < best
        best[better], chosen[better] = criterion[better], number
    alone = np.stack([np.arange(P), np.full(P, -1)], axis=1)
    sets = np.concatenate([alone, np.stack(np.triu_indices(P, 1), axis=1)])
    means, deviations = (np.zeros((N, len(sets), K)) for _ in range(2))
    for number in np.unique(chosen):
        fit, own = state.fit(RATES[number], D), chosen == number
        rows = np.flatnonzero(own.any(axis=1))
        white, spread = _turned(fit, y[rows])
        for start in range(0, len(sets), TOGETHER):
            part = slice(start, start + TOGETHER)
            cross, prior = _cross(state.signs, sets[part], fit, nodes)
            turned = fit.white @ cross  # [D, sets]
            found = np.matmul(turned.T, white)
            left = prior - (turned**2).sum(axis=0)
            left += (turned.T @ fit.level) ** 2 / (fit.level @ fit.level)  # of the level
            error = np.sqrt(np.maximum(left, 0))[:, None] * np.sqrt(spread)[:, None]
            here = own[rows][:, None]
            means[rows, part] = np.where(here, found, means[rows, part])
            deviations[rows, part] = np.where(here, error, deviations[rows, part])
    return means, deviations


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
