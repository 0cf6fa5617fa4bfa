"""Defines every index of interactions: the weight of a dividend, by the sizes of two sets.

A new index is an entry of `INTERACTIONS`.

Every interaction here is a sum over T that contain S of w(s, t) a(T), where a(T) are the Moebius
coefficients (Harsanyi dividends) of the game, s = |S|, t = |T|. All coefficients of sets with a
dummy player and others are 0, and w does not depend on the number of players. These indices
therefore need only the players that differ in a pair, whatever P is.

Interactions are computed by discrete derivatives, in which float32 numbers do not cancel:

    I(S) = sum over T without S of p(|T|) D_S v(T),
    D_S v(T) = sum over L in S of (-1)^(s - |L|) v(T + L).

D_S v(T) is the sum of a(S + R) over R in T, so w(s, s + j) = sum over t of C(m - j, t - j) p(t),
m = k - s of k players. Solved for p: p(t) = sum over i of (-1)^i C(m - t, i) w(s, s + t + i).

Letters: P players, k of them, S and T sets, s and t their sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError

Weight = Callable[[int, int, int], Fraction]  # (s, t, order) -> w(s, t)


@dataclass(frozen=True)
class InteractionIndex:
    """Facts about an index of interactions."""

    name: str  # as `index=` takes it
    value: str  # the name of one number
    weight: Weight
    shapiq: str  # its name in shapiq
    efficient: bool = False  # base value and all interactions add up to f(x)
    singles: str = ""  # the index of single players (k-SII: before pairs are subtracted)

    @property
    def sampled(self) -> bool:
        """Whether it can be sampled, at order 2, if not all coalitions can be evaluated."""
        return bool(self.singles)


def _sii(s: int, t: int, order: int) -> Fraction:
    """Grabisch and Roubens (1999), "An axiomatic approach to the concept of interaction among
    players in cooperative games", section 3.
    """
    return Fraction(1, t - s + 1)


@cache
def bernoulli(n: int) -> Fraction:
    """B_n, B_1 = -1/2."""
    if n == 0:
        return Fraction(1)
    return -sum(
        (math.comb(n + 1, k) * bernoulli(k) for k in range(n)), start=Fraction(0)
    ) / Fraction(n + 1)


def _k_sii(s: int, t: int, order: int) -> Fraction:
    """Bordt and von Luxburg (2023), "From Shapley values to generalized additive models and back",
    definition 4: SII of all sets that contain S, times Bernoulli numbers. Lundberg et al. (2020),
    "From local explanations to global understanding with explainable AI for trees": order 2.
    """
    most = min(order, t) - s
    parts = (math.comb(t - s, j) * bernoulli(j) * _sii(s + j, t, order) for j in range(most + 1))
    return sum(parts, start=Fraction(0))


def _stii(s: int, t: int, order: int) -> Fraction:
    """Sundararajan, Dhamdhere and Agarwal (2020), "The Shapley Taylor interaction index":
    proposition 3; below the top order, the contribution of the set to the empty set.
    """
    return Fraction(1, math.comb(t, order)) if s == order else Fraction(int(s == t))


def _fsii(s: int, t: int, order: int) -> Fraction:
    """Tsai, Yeh and Ravikumar (2023), "Faith-Shap: the faithful Shapley interaction index",
    theorem 19: dividends of sets above the order are shared as in the least-squares fit.
    """
    if t <= order:
        return Fraction(int(s == t))
    share = Fraction(s, order + s) * math.comb(order, s)
    share *= Fraction(math.comb(t - 1, order), math.comb(t + order - 1, order + s))
    return share if (order - s) % 2 == 0 else -share


def _banzhaf(s: int, t: int, order: int) -> Fraction:
    """Grabisch and Roubens (1999), as for `_sii`."""
    return Fraction(1, 1 << (t - s))


def _moebius(s: int, t: int, order: int) -> Fraction:
    """Harsanyi (1963), "A simplified bargaining model for the n-person cooperative game"."""
    return Fraction(int(s == t))


INTERACTIONS = {
    index.name: index
    for index in (
        InteractionIndex("sii", "Shapley interaction", _sii, "SII", singles="shapley"),
        InteractionIndex(
            "k-sii", "n-Shapley interaction", _k_sii, "k-SII", True, singles="shapley"
        ),
        InteractionIndex("stii", "Shapley-Taylor interaction", _stii, "STII", efficient=True),
        InteractionIndex("fsii", "faithful Shapley interaction", _fsii, "FSII", efficient=True),
        InteractionIndex("banzhaf", "Banzhaf interaction", _banzhaf, "BII", singles="banzhaf"),
        InteractionIndex("moebius", "dividend", _moebius, "Moebius"),
    )
}


def interaction_index(index: object) -> InteractionIndex:
    """The index of this name, ignoring case; raises InputError or InputTypeError otherwise."""
    name = index.lower() if isinstance(index, str) and index.lower() in INTERACTIONS else index
    return INTERACTIONS[checks.one_of(name, "index", list(INTERACTIONS))]


def checked_order(order: object, P: int) -> int:
    """Checks an order of 1 to P; raises InputError or InputTypeError otherwise."""
    number = checks.whole_number(order, "order")
    if number > P:
        raise InputError(
            f"order={number} is larger than the {P} players; sets have 1 to {P} of them."
        )
    return number


@cache
def derivative_weights(index: InteractionIndex, order: int, k: int) -> tuple[np.ndarray, ...]:
    """p of sets of 1, 2, .. min(order, k) of k players; float64 [k - s + 1] each, by |T|."""
    parts = []
    for s in range(1, min(order, k) + 1):
        m = k - s
        w = [index.weight(s, s + j, order) for j in range(m + 1)]
        # p(t) = sum_i (-1)^i C(m - t, i) w(t + i), the last of m - t differences, in whole numbers.
        D = math.lcm(*(weight.denominator for weight in w))
        row, last = [weight.numerator * (D // weight.denominator) for weight in w], []
        while row:
            last.append(float(Fraction(row[-1], D)))
            row = [a - b for a, b in itertools.pairwise(row)]
        part = np.array(last[::-1])
        part.flags.writeable = False
        parts.append(part)
    return tuple(parts)
