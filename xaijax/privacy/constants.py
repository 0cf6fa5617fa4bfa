"""The factor by which an index multiplies the sensitivity of its game.

A record moves the game v by a function delta with |delta(S)| <= 1 (times the sensitivity of one
influence) and delta(nothing) = 0, since v(nothing) = 0 for all data. An index is linear: phi_i =
sum over S of c_i(S) v(S), c_i(S) = p(|S| - 1) if i is in S and -p(|S|) if it is not.

One player: |delta phi_i| <= sum over S, not empty, of |c_i(S)| = 2 (mass of p) - p(0), attained by
delta(S) = sign c_i(S). With Shapley's mass 1 this is 2 - 1/P, with Banzhaf's 2 - 2^-(P-1).

All players: the largest sum_i |delta phi_i| is the largest sum_i s_i delta phi_i over signs s, so

    L1 = max over s of sum over S, not empty, of |sum_i s_i c_i(S)|.

A semivalue treats players alike: only the number m of positive signs counts. Among the sets of size
r, C(m, j) C(P - m, r - j) have j players of positive sign. The signs inside add up to 2j - r and
those outside to (2m - P) - (2j - r):

    L1 = max over m of sum over r, j of C(m, j) C(P - m, r - j)
         |p(r - 1) (2j - r) - p(r) ((2m - P) - (2j - r))|,        p(P) = 0,

which takes P^3 steps in place of 4^P. Signs and their opposites give the same, hence m <= P/2.

Letters: P players.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from math import comb, lcm

import numpy as np

ENUMERATED = 10  # players up to which an index without symmetry is enumerated


def exact_weights(weights: Sequence[float]) -> tuple[Fraction, ...]:
    """The weight of one set of size s [P], as the fraction that the float represents.

    The weights of Shapley, Banzhaf and limited sizes have denominators below 20 C(19, 9) < 10^7, so
    two such fractions are never within one rounding of each other.
    """
    return tuple(Fraction(float(w)).limit_denominator(10**7) for w in weights)


def of_one(weights: Sequence[Fraction]) -> Fraction:
    """The constant of one player's value; weights: those of one set of size s [P]."""
    P = len(weights)
    mass = sum((comb(P - 1, s) * abs(w) for s, w in enumerate(weights)), Fraction(0))
    return 2 * mass - abs(weights[0])


def of_all(weights: Sequence[Fraction]) -> Fraction:
    """The L1 constant of the values of all players together."""
    return _of_all(tuple(weights))


@lru_cache(256)
def _of_all(weights: tuple[Fraction, ...]) -> Fraction:
    P = len(weights)
    unit = lcm(*(w.denominator for w in weights))
    p = [int(w * unit) for w in weights] + [0]
    largest = 0
    for m in range(P // 2 + 1):
        total = 0
        for r in range(1, P + 1):
            for j in range(max(0, r - (P - m)), min(m, r) + 1):
                inside = 2 * j - r
                outside = 2 * m - P - inside
                sets = comb(m, j) * comb(P - m, r - j)
                total += sets * abs(p[r - 1] * inside - p[r] * outside)
        largest = max(largest, total)
    return Fraction(largest, unit)


def of_chances(chance: np.ndarray) -> tuple[Fraction, Fraction]:
    """(the largest of one player, that of all) for an index with its own probabilities Pr[S] [2^P].

    Up to 10 players all signs are enumerated; for more, the bound is the sum over players.
    """
    P = len(chance).bit_length() - 1
    sets = np.arange(1 << P)
    c = np.zeros((P, 1 << P))
    for i in range(P):
        inside = sets >> i & 1 == 1
        c[i, inside] = chance[sets[inside] & ~(1 << i)]
        c[i, ~inside] = -chance[~inside]
    c[:, 0] = 0.0  # v(nothing) never moves
    singles = np.abs(c).sum(axis=1)
    total = singles.sum()
    if P <= ENUMERATED:
        signs = 1.0 - 2.0 * (np.arange(1 << (P - 1))[:, None] >> np.arange(P) & 1)
        total = max(np.abs(one @ c).sum() for one in np.array_split(signs, len(signs)))
    # Sums of 2^P floats: their rounding is far below one part in 10^9.
    return _above(singles.max()), _above(total)


def _above(number: float) -> Fraction:
    return Fraction(float(number)) * (1 + Fraction(1, 10**9))
