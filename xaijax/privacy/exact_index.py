"""Computes an index on the lattice from exact integer sums: rational arithmetic, rounded once.

Letters: G groups, C sets, K scores, P players.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from xaijax.results.recount import LATTICE, ExactSums

ROOT = 1 << 40  # a Euclidean distance is cut off at a multiple of 1 / (ROOT denominator)
CHANCE = 1 << 52  # Pr[S] is rounded to multiples of 1 / CHANCE


def influences(exact: ExactSums, n: int, difference: str, signed: bool) -> tuple[np.ndarray, int]:
    """(v(S) of game n, Python integers in an array [C, K], or [C, 1] for a distance; denominator).

    v(S) = d(Q(nothing replaced), Q(S replaced)); two groups are compared, absolutely or signed.
    """
    sums = exact.sums[n].astype(object)
    weight = [int(one.sum()) for one in exact.outer]
    below = int(exact.inner.sum()) * exact.unit * math.prod(weight)
    if len(weight) == 1:
        Q = sums[0]
    else:
        Q = sums[0] * weight[1] - sums[1] * weight[0]
        Q = Q if signed else np.abs(Q)
    change = Q[:1] - Q  # [C, K]
    if difference == "subtract":
        return change, below
    value, more = _DISTANCES[difference](change)
    return value[:, None], below * more


def _root(change: np.ndarray) -> tuple[np.ndarray, int]:
    squares = (change * change).sum(axis=1)
    return np.array([math.isqrt(q * ROOT * ROOT) for q in squares], object), ROOT


# [C, K] -> ([C], the factor of the denominator)
_DISTANCES: dict[str, Callable[[np.ndarray], tuple[np.ndarray, int]]] = {
    "l1": lambda change: (np.abs(change).sum(axis=1), 1),
    "tv": lambda change: (np.abs(change).sum(axis=1), 2),
    "linf": lambda change: (np.abs(change).max(axis=1), 1),
    "l2": _root,
}


def semivalues(v: np.ndarray, weights: Sequence[Fraction]) -> list[Fraction]:
    """sum over S without i of p(|S|) (v(S + i) - v(S)) for each player; v integers [2^P].

    The differences are summed by size first: these sums are integers, and only P fractions remain.
    """
    P = len(weights)
    others = np.bitwise_count(np.arange(1 << (P - 1), dtype=np.uint32)).astype(np.int64)
    order = np.argsort(others, kind="stable")
    first = np.searchsorted(others[order], np.arange(P))
    out = []
    for i in range(P):
        marginal = _marginals(v, i)[order]
        by_size = np.add.reduceat(marginal, first)
        terms = (w * int(one) for w, one in zip(weights, by_size, strict=True))
        out.append(sum(terms, Fraction(0)))
    return out


def of_chances(v: np.ndarray, chance: np.ndarray) -> list[Fraction]:
    """sum over S without i of Pr[S] (v(S + i) - v(S)) for each player; chance [2^P]."""
    P = len(chance).bit_length() - 1
    whole = np.array([int(one * CHANCE) for one in chance_on_lattice(chance)], object)
    out = []
    for i in range(P):
        without = whole.reshape(-1, 2, 1 << i)[:, 0].reshape(-1)
        out.append(Fraction(int((without * _marginals(v, i)).sum()), CHANCE))
    return out


def chance_on_lattice(chance: np.ndarray) -> np.ndarray:
    """The values Pr[S] that are used, float64: exact multiples of 1 / CHANCE."""
    return np.rint(chance * CHANCE) / CHANCE


def _marginals(v: np.ndarray, i: int) -> np.ndarray:
    """v(S + i) - v(S) for all S without i, in ascending order [2^(P-1)]."""
    halves = v.reshape(-1, 2, 1 << i)
    return (halves[:, 1] - halves[:, 0]).reshape(-1)


def on_lattice(value: Fraction) -> int:
    """The nearest multiple of 1 / LATTICE, as a whole number; halves are rounded up."""
    return math.floor(value * LATTICE + Fraction(1, 2))
