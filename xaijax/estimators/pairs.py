"""Sampled interactions of two players: a Gaussian process over coalitions, fitted to pairs of them.

Coalitions are asked with their complements, as by the kernel estimator. In signs z (1 for members,
-1 for others) a game is a sum of c_R chi_R, chi_R = product of z_i over R (its Walsh, or Fourier,
coefficients). Half the sum of v(S) and v(complement) holds the sets R of even size alone, half the
difference those of odd size: two games, asked by the same rows. An interaction is linear in c:

    D_S chi_R at T = 2^s chi_(R - S)(T), so I(S) = sum over R with S of 2^s c_R E[u^(|R| - s)],

where u = 2 q - 1, and q is uniform for Shapley interactions (their sets T have each player with
chance q, Grabisch and Roubens 1999) and 1/2 for Banzhaf's. So pairs are read from the even half,
which neither single players nor triples disturb, and players from the odd half.

The c_R are taken to be independent, normal, with variance tau^2 rho^|R|: interactions of many
players are small, and how small is told by the data. The covariance of two coalitions at distance d
is then a sum over R in closed form, tau^2 ((1 + rho)^(P - d) (1 - rho)^d +- (1 - rho)^(P - d)
(1 + rho)^d) / 2 (O'Donnell 2014, "Analysis of Boolean functions", section 2.4: the noise operator),
so that no budget is too small. rho is the likeliest of RATES, for each instance and output by
itself, and tau^2 is profiled out (Rasmussen and Williams 2006, "Gaussian processes for machine
learning", chapters 2 and 5; O'Hagan 1991, "Bayes-Hermite quadrature", for integrals of one).

An estimate is the mean given the data, drawn towards 0 by what is not known yet; its standard error
is the deviation given the data, which holds this shrinking. Both vanish for games of pairs once the
data determine them. Measured on networks, forests and games of high order, at equal coalitions, it
has a fraction of the error of KernelSHAP-IQ, SVARM-IQ, SHAP-IQ and permutations: `bench`, T30.

Letters: N instances, P players, M sets of one and two, C coalitions asked, D pairs drawn and the
ends, K outputs, Q nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from xaijax.estimators import kernel_design
from xaijax.estimators.result import Result
from xaijax.players.index import named
from xaijax.players.interaction_index import InteractionIndex

RATES = (0.001, 0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.32, 0.45, 0.6, 0.8, 0.95)  # of rho
JITTER = 1e-9  # of the variance: far above float32 answers' rounding, squared
LEAST_PAIRS = 8
DECIDE = 400  # of the answers, by which the rate is decided
TOGETHER = 512  # sets whose errors are worked out at a time
DRAWN_BY = named("shapley")  # sizes of coalitions in equal numbers


@dataclass(frozen=True)
class State:
    """The pairs drawn so far. Coalitions are asked as S, complement, S, complement, ..."""

    P: int
    index: InteractionIndex
    budget: int
    seed: int
    sets: np.ndarray  # bool [D - 1, P], the first of each pair

    @cached_property
    def _distance(self) -> np.ndarray:
        """Players in which two of the coalitions drawn differ; int64 [D, D]."""
        signs = self.signs
        return np.rint((self.P - signs @ signs.T) / 2).astype(np.int64)

    @cached_property
    def signs(self) -> np.ndarray:
        """1 for members, -1 for others, the full coalition first; float64 [D, P]."""
        ends = np.ones((1, self.P), bool)
        return np.where(np.concatenate([ends, self.sets]), 1.0, -1.0)

    @cached_property
    def _fits(self) -> dict[tuple[float, int, int], Fit]:
        return {}

    def fit(self, rate: float, half: int, D: int) -> Fit:
        """Of the first D answers of the even (0) or odd (1) half, for all instances and outputs."""
        key = rate, half, D
        if key not in self._fits:
            self._fits[key] = _fit(self._distance[:D, :D], self.P, rate, half)
        return self._fits[key]


class Fit(NamedTuple):
    """A covariance of the D answers, scaled to a variance of 1, by what turns them to white."""

    rate: float
    scale: float
    white: np.ndarray  # [D, D], the inverse of its Cholesky factor
    log_det: float
    level: np.ndarray | None  # [D], the constant, turned; of the even half


def smallest_budget(P: int, index: InteractionIndex) -> int:
    """The coalitions of LEAST_PAIRS pairs."""
    return 2 * min(LEAST_PAIRS, max(1, kernel_design.total_pairs(P)))


def units(P: int, index: InteractionIndex, budget: int) -> int:
    """How many pairs the budget allows."""
    return min(budget // 2, kernel_design.total_pairs(P))


def drawing(P: int, index: InteractionIndex, budget: int, K: int) -> tuple[float, float]:
    """(bytes on the host, operations of a core) of all that a budget draws, and of an instance.

    Matrices of the answers that decide, for each rate of both halves; some of all answers, and of
    the sets that are worked out together.
    """
    D = units(P, index, budget) + 1
    some, rates = min(D, DECIDE), len(RATES)
    held = 8 * (2 * rates * some**2 + D * (D * 7 + 3 * TOGETHER + 2 * P))
    # The matrices, three for each half; for an instance the products with them.
    return held, 4.0 * K * (rates * some**2 + 2.0 * D * D)


def first_stop(P: int) -> int:
    """Pairs at the first checkpoint."""
    return 4 * P


def walks(index: InteractionIndex) -> bool:
    """No orders are drawn."""
    return False


def count(P: int) -> int:
    """Sets of one and of two players."""
    return P * (P + 1) // 2


def init(P: int, index: InteractionIndex, budget: int, seed: int) -> State:
    """Nothing drawn yet."""
    return State(P, index, budget, seed, np.zeros((0, P), bool))


def step(state: State, pairs: int) -> tuple[State, np.ndarray]:
    """Goes on until `pairs` pairs are drawn in all; returns the new coalitions, bool [C_new, P]."""
    P, budget = state.P, state.budget
    number = max(min(pairs, units(P, state.index, budget)), len(state.sets))
    _, sets = kernel_design.draw(P, DRAWN_BY, budget, state.seed, 0, number)
    new = sets[len(state.sets) :]
    return replace(state, sets=sets), np.stack([new, ~new], axis=1).reshape(-1, P)


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
    a player changes anything, bool [N, P]; sets with another are known to be 0. None: all do.
    """
    N, _, K = values.shape
    P, joint = state.P, state.index.efficient
    first, second = values[:, 0::2], values[:, 1::2]
    both = np.concatenate([(full + empty)[:, None], first + second], axis=1) / 2
    apart = np.concatenate([(full - empty)[:, None], first - second], axis=1) / 2
    nodes = _nodes(P, state.index)
    pairs, pair_errors = _half(state, 0, both, nodes)
    alone, errors = _half(state, 1, apart, nodes)
    pairs, pair_errors, summed = pairs[:, P:], pair_errors[:, P:], pair_errors[:, :P]
    i, j = np.triu_indices(P, 1)
    moves = np.ones((N, P), bool) if moves is None else moves
    both_move = (moves[:, i] & moves[:, j])[:, :, None]
    pairs, pair_errors = pairs * both_move, pair_errors * both_move
    alone, errors, summed = (one * moves[:, :, None] for one in (alone, errors, summed))
    if state.index.uniform:
        # Shapley values add up. What the jitter and the players that change nothing have taken of
        # the sum goes in equal parts to the others.
        left = ((full - empty) - alone.sum(axis=1)) / np.maximum(1, moves.sum(axis=1))[:, None]
        alone += left[:, None] * moves[:, :, None]
    if joint:  # n-Shapley values of order 2: a player less half of all pairs with it
        for end in (i, j):
            np.subtract.at(alone, (slice(None), end), pairs / 2)
        errors = np.sqrt(errors**2 + summed**2 / 4)
    values = np.concatenate([alone, pairs], axis=1)
    errors = np.concatenate([errors, pair_errors], axis=1)
    return Result(values, errors, np.full((N, K), float(max(1, len(state.sets) - 1))))


def _nodes(P: int, index: InteractionIndex) -> tuple[np.ndarray, np.ndarray]:
    """u and its weights, of which E[u^k] of even k <= P is exact; u^k of odd k plays no part."""
    if index.uniform:
        u, w = np.polynomial.legendre.leggauss(P // 2 + 1)
        return (u + 1) / 2, w / 2  # uniform from 0 to 1: even powers as from -1 to 1
    return np.zeros(1), np.ones(1)


def _halves(x: np.ndarray, plus: np.ndarray, minus: np.ndarray, odd: bool) -> np.ndarray:
    """The sum of x^|R| chi_R over R of even (odd) size, of so many players at 1 and at -1."""
    one, other = (1 + x) ** plus * (1 - x) ** minus, (1 - x) ** plus * (1 + x) ** minus
    return (one - other) / 2 if odd else (one + other) / 2


def _fit(distance: np.ndarray, P: int, rate: float, half: int) -> Fit:
    from scipy.linalg import solve_triangular  # noqa: PLC0415 - `import xaijax` loads no scipy

    d = np.arange(P + 1)
    of_distance = _halves(np.array(rate), P - d, d, bool(half)) - (1 - half)  # no set of size 0
    scale = of_distance[0]
    covariance = (of_distance / scale)[distance]
    covariance[np.diag_indices(len(covariance))] += JITTER
    factor = np.linalg.cholesky(covariance)
    white = solve_triangular(factor, np.eye(len(factor)), lower=True)
    level = None if half else white.sum(axis=1)
    return Fit(rate, scale, white, 2 * float(np.log(np.diag(factor)).sum()), level)


def _half(
    state: State, half: int, y: np.ndarray, nodes: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(means, deviations) of one half's sets by its answers y [N, D, K]; [N, sets, K].

    Of the even half the sums of all pairs with each player come first, then the pairs.
    """
    N, D, K = y.shape
    best, chosen, some = np.full((N, K), np.inf), np.zeros((N, K), np.int64), min(D, DECIDE)
    for number, rate in enumerate(RATES):
        fit = state.fit(rate, half, some)
        _, squares, log_det, free = _turned(fit, y[:, :some])
        with np.errstate(divide="ignore"):
            criterion = free * np.log(squares) + log_det
        better = criterion < best
        best[better], chosen[better] = criterion[better], number
    sets = _targets(state.P, half == 0)
    means, deviations = (np.zeros((N, len(sets), K)) for _ in range(2))
    for number in np.unique(chosen):
        fit, own = state.fit(RATES[number], half, D), chosen == number
        rows = np.flatnonzero(own.any(axis=1))
        white, spread, _, _ = _turned(fit, y[rows])
        for start in range(0, len(sets), TOGETHER):
            part = slice(start, start + TOGETHER)
            cross, prior = _cross(state.signs, sets[part], fit, nodes)
            turned = fit.white @ cross  # [D, sets]
            found = np.matmul(turned.T, white)
            left = prior - (turned**2).sum(axis=0)
            if fit.level is not None:
                left += (turned.T @ fit.level) ** 2 / (fit.level @ fit.level)
            error = np.sqrt(np.maximum(left, 0))[:, None] * np.sqrt(spread)[:, None]
            here = own[rows][:, None]
            means[rows, part] = np.where(here, found, means[rows, part])
            deviations[rows, part] = np.where(here, error, deviations[rows, part])
    return means, deviations


def _turned(fit: Fit, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, int]:
    """(answers [N, D, K] turned to white, tau^2 [N, K], log of the determinant, free numbers)."""
    turned = np.matmul(fit.white, y)  # instance by instance, in one shape
    log_det, free = fit.log_det, y.shape[1]
    if fit.level is not None:  # the constant is fitted, with a flat prior
        size = float(fit.level @ fit.level)
        turned -= fit.level[:, None] * np.matmul(fit.level, turned)[:, None] / size
        log_det, free = log_det + float(np.log(size)), max(1, free - 1)
    return turned, (turned**2).sum(axis=1) / free, log_det, free


def _targets(P: int, even: bool) -> np.ndarray:
    """Int [sets, 2]: (i, -1) is a player, or the sum of its pairs; (i, j) a pair."""
    alone = np.stack([np.arange(P), np.full(P, -1)], axis=1)
    pairs = np.stack(np.triu_indices(P, 1), axis=1)
    return np.concatenate([alone, pairs]) if even else alone


def _cross(
    signs: np.ndarray, sets: np.ndarray, fit: Fit, nodes: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(covariances of the answers with each set's interaction [D, sets], its own variance [sets]).

    Of players in the odd half 2 rho E[sum over R of the others of (rho u)^|R| chi_R], |R| even; of
    pairs in the even half 4 rho^2 of that; of the sum of a player's pairs the sum of these.
    """
    D, P = signs.shape
    (u, w), rate, even = nodes, fit.rate, fit.level is not None
    minus = (signs < 0).sum(axis=1)
    rest, factor = (P - 2, 4 * rate**2) if even else (P - 1, 2 * rate)
    m = np.arange(max(rest, 0) + 1)
    of_rest = factor / fit.scale * (_halves(rate * u, (rest - m)[:, None], m[:, None], False) @ w)
    twice = np.multiply.outer(u, u) * rate
    own = factor**2 / rate ** (2 if even else 1) / fit.scale
    own = own * (w @ _halves(twice, np.array(rest), np.array(0), False) @ w)
    cross, prior = np.empty((D, len(sets))), np.full(len(sets), own)
    i, j = sets.T
    low = (signs < 0).astype(np.int64)
    if not even:
        return signs[:, i] * of_rest[minus[:, None] - low[:, i]], prior
    pair = j >= 0
    at = minus[:, None] - low[:, i[pair]] - low[:, j[pair]]
    cross[:, pair] = signs[:, i[pair]] * signs[:, j[pair]] * of_rest[at]
    for place in np.flatnonzero(~pair):  # of a player's pairs: by how many others are at -1
        one = i[place]
        left = minus - low[:, one]
        others = P - 1 - left
        plus = others * of_rest[np.minimum(left, rest)] if rest >= 0 else 0.0
        less = left * of_rest[np.maximum(left - 1, 0)]
        cross[:, place] = signs[:, one] * (plus - less)
    r = np.arange(2, P + 1, 2)
    moments = np.array([(w * u ** (k - 2)).sum() for k in r])
    sizes = np.array([float(math.comb(P - 1, k - 1)) for k in r])
    joined = ((4 * (r - 1) * moments) ** 2 * rate**r * sizes).sum() / fit.scale
    prior[~pair] = joined
    return cross, prior
