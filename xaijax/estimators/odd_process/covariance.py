"""Covariances of coalitions, and the values of a process, in closed form.

In signs z (1 for members, -1 for others) a game is a sum of c_R chi_R, chi_R = product of z_i over
R (its Walsh, or Fourier, coefficients). Half the difference of v(S) and v(complement), the odd part
of the game, holds the sets R of odd size alone, and Shapley and Banzhaf values are of it alone.

The c_R of three players or more are taken to be independent, normal, with variance tau^2 times the
product of rho_i over R: a rate for each player, so that players who take no part in interactions
take none in the process. The sum over all R is a product over players, (1 + rho_i z_i z'_i)
(O'Donnell 2014, "Analysis of Boolean functions", section 2.4, the noise operator, with a rate for
each coordinate). With a = sum of log(1 - rho_i^2) / 2 and w_i = artanh(rho_i) its odd part is

    k(z, z') = e^a sinh(x) - sum of rho_i z_i z'_i,   x = sum of w_i z_i z'_i.

Single players have a variance of their own, so large that it says nothing (FLAT).

Letters: P players, D and D' coalitions whose odd part is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FLAT = 100.0  # variance of all single players together, over that of all larger sets
# Legendre's nodes: of u^k the mean from 0 to 1 is exact up to k = 47 and to 1e-9 up to 128, and
# sets of so many players have almost no share.
NODES = 24

Nodes = tuple[np.ndarray, np.ndarray]  # values of u, and their weights


def nodes_of(P: int, draws_orders: bool) -> Nodes:
    """u and its weights: i's value is 2 sum over R with i of c_R E[u^(|R| - 1)].

    A Shapley value is the mean over q, uniform from 0 to 1, of what i adds to a set that has each
    other player with chance q (Owen 1972, "Multilinear extensions of games"): u = 2 q - 1, of which
    even powers alone play a part. A Banzhaf value is that at q = 1/2.
    """
    if not draws_orders:
        return np.zeros(1), np.ones(1)
    u, weights = np.polynomial.legendre.leggauss(min(P // 2 + 1, NODES))
    return (u + 1) / 2, weights / 2


@dataclass(frozen=True)
class Covariance:
    """Of coalitions, scaled so that the sets of three and more have a variance of 1."""

    rates: np.ndarray  # [P], from 0 to below 1

    @property
    def scale(self) -> float:
        """The variance of a coalition's answer, by sets of three and more, before it is scaled."""
        log, w = self._logs(1.0)
        return float(np.exp(log) * np.sinh(w.sum()) - self.rates.sum())

    def between(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """[D, D'], of signs [D, P] and [D', P]."""
        log, w = self._logs(1.0)
        found = (first * w) @ second.T
        np.sinh(found, out=found)
        found *= np.exp(log) / self.scale
        found += (first * (FLAT / len(w) - self.rates / self.scale)) @ second.T
        return found

    def values(self, signs: np.ndarray, weights: np.ndarray, nodes: Nodes) -> np.ndarray:
        """The values [P] of the game that is sum of weights [D] times covariances with signs.

        i's, of k(., z): 2 E[rho_i z_i times the even part of the product over the others of
        (1 + rho_j u z_j)] less 2 rho_i z_i. With r = rho_i u and x, a of the rates rho u that even
        part is e^a (cosh x - r z_i sinh x) / (1 - r^2).
        """
        singles = signs.T @ weights
        found = np.zeros(len(self.rates))
        for u, share in zip(*nodes, strict=True):
            log, w = self._logs(float(u))
            x, r = signs @ w, self.rates * u
            even, odd = np.exp(log) * np.cosh(x), np.exp(log) * np.sinh(x)
            towards = signs.T @ (even * weights) - r * (odd @ weights)
            found += share * towards / (1 - r**2)
        larger = self.rates * (found - singles) / self.scale
        return 2 * (larger + FLAT / len(self.rates) * singles)

    def _logs(self, u: float) -> tuple[float, np.ndarray]:
        """(a, w [P]) of the rates times u."""
        r = self.rates * u
        return float(np.log1p(-(r**2)).sum()) / 2, np.arctanh(r)
