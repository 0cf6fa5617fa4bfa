"""Covariances of coalitions, and of them with interactions, in closed form.

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
so that no budget is too small.

Letters: P players, D coalitions whose even part is known.
"""

from __future__ import annotations

import math

import numpy as np

Nodes = tuple[np.ndarray, np.ndarray]  # values of u, and their weights


def distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Players in which coalitions differ, int64 [D, D']; signs float64 [D, P] and [D', P]."""
    return np.rint((first.shape[1] - first @ second.T) / 2).astype(np.int64)


def of_distance(P: int, rate: float) -> tuple[np.ndarray, float]:
    """(covariances at distances 0..P, scaled to a variance of 1; the scale)."""
    d = np.arange(P + 1)
    up, down = np.log1p(rate), np.log1p(-rate)
    # `_even` less the set of size 0, whose part is the level: near 0 for small rates, so that a
    # difference of the two would lose what keeps the matrix of all coalitions positive.
    found = (np.expm1((P - d) * up + d * down) + np.expm1(d * up + (P - d) * down)) / 2
    return found / found[0], float(found[0])


def nodes_of(P: int, draws_orders: bool) -> Nodes:
    """u and its weights, of which E[u^k] of even k <= P is exact; u^k of odd k plays no part."""
    if draws_orders:
        u, w = np.polynomial.legendre.leggauss(P // 2 + 1)
        return (u + 1) / 2, w / 2  # uniform from 0 to 1: even powers as from -1 to 1
    return np.zeros(1), np.ones(1)


def with_interactions(
    signs: np.ndarray, sets: np.ndarray, rate: float, nodes: Nodes
) -> tuple[np.ndarray, np.ndarray]:
    """(covariances of the answers with the interactions of sets [D, sets], their own variances).

    Scaled as `of_distance`. sets int [sets, 2]: (i, j) is a pair, 4 rho^2 E[sum over R of the
    others of (rho u)^|R| chi_R], |R| even; (i, -1) the sum of all pairs with i.
    """
    D, P = signs.shape
    u, w = nodes
    _, scale = of_distance(P, rate)
    low = (signs < 0).astype(np.int64)
    minus = low.sum(axis=1)
    rest = max(P - 2, 0)
    m = np.arange(rest + 1)
    of_rest = 4 * rate**2 / scale * (_even(rate * u, (rest - m)[:, None], m[:, None]) @ w)
    squares = _even(np.multiply.outer(u, u) * rate, np.array(rest), np.array(0))
    cross, prior = np.empty((D, len(sets))), np.full(len(sets), float(w @ squares @ w))
    prior *= 16 * rate**2 / scale
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
    prior[~pair] = ((4 * (r - 1) * moments) ** 2 * rate**r * sizes).sum() / scale
    return cross, prior


def _even(x: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """The sum of x^|R| chi_R over R of even size, of so many players at 1 and at -1."""
    return ((1 + x) ** plus * (1 - x) ** minus + (1 - x) ** plus * (1 + x) ** minus) / 2
