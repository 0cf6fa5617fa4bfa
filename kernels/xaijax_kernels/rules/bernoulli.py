"""Bounds on a chance from draws of zeros and ones, by the Kullback-Leibler divergence, in float64.

Kaufmann and Kalyanakrishnan 2013, "Information complexity in bandit subset selection": with n draws
of mean p and a rate beta, the chance lies between `lower` and `upper` at level beta / n.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# KL-LUCB's constant for alpha = 1.1:
# 2 e + 1 + e / (alpha - 1) + (e + 1) / (alpha - 1)^2 = 405.4476, rounded up.
EXPLORATION = 405.5
ALPHA = 1.1
_STEPS = 7  # of Newton; the test compares with bisection over all p and levels that occur


def divergence(p: Any, q: Any) -> np.ndarray:
    """KL(p, q) of two Bernoulli chances; 0 log 0 = 0, infinite where q excludes what p allows."""
    p, q = np.broadcast_arrays(np.asarray(p, np.float64), np.asarray(q, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        ones = np.where(p > 0, p * np.log(p / q), 0.0)
        zeros = np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0.0)
    return ones + zeros


def upper(p: Any, level: Any) -> np.ndarray:
    """The largest q >= p with KL(p, q) <= level; arrays of chances and of levels >= 0.

    Newton in the log-odds y of q: KL is convex in y with slope q - p, and the start lies above the
    root, so every step stays above it: what is returned errs outwards, by rounding only.
    """
    p, level = np.broadcast_arrays(np.asarray(p, np.float64), np.asarray(level, np.float64))
    inside = (p > 0) & (p < 1) & (level > 0)
    s = np.where(inside, p, 0.5)
    L = np.where(inside, level, 0.5)
    entropy = -s * np.log(s) - (1 - s) * np.log1p(-s)
    # Three bounds from above: Pinsker's, (q - p)^2 <= 2 q KL, and (1 - p) y <= KL + entropy.
    q = np.minimum(s + np.sqrt(L / 2), s + L + np.sqrt(L * (L + 2 * s)))
    q = np.minimum(q, 1 - 2.0**-53)
    y = np.minimum(np.log(q) - np.log1p(-q), (L + entropy) / (1 - s))
    for _ in range(_STEPS):
        small = np.exp(-np.abs(y))
        q = np.where(y > 0, 1.0, small) / (1 + small)
        # p softplus(-y) + (1 - p) softplus(y), less the entropy
        gap = np.log1p(small) + np.where(y > 0, (1 - s) * y, -s * y) - entropy - L
        y = y - np.maximum(gap, 0.0) / np.maximum(q - s, 1e-300)
    small = np.exp(-np.abs(y))
    q = np.where(y > 0, 1.0, small) / (1 + small)
    return np.where(inside, np.maximum(q, p), np.where(p <= 0, -np.expm1(-level), p))


def lower(p: Any, level: Any) -> np.ndarray:
    """The smallest q <= p with KL(p, q) <= level."""
    return 1 - upper(1 - np.asarray(p, np.float64), level)


def exploration_rate(arms: Any, rounds: Any, delta: float) -> np.ndarray:
    """KL-LUCB's rate a + ln a, a = ln(405.5 n t^1.1 / delta), of n arms in round t = 1, 2, ..."""
    a = np.log(EXPLORATION * np.asarray(arms, np.float64) / delta) + ALPHA * np.log(rounds)
    return a + np.log(a)


def widening_rate(candidate: Any, look: Any, delta: float) -> np.ndarray:
    """ln(1 / share) of look t = 1, 2, ... at candidate c = 1, 2, ... of one instance.

    share = delta a_c a_t with a_i = 6 / (pi i)^2, which sum to 1. Given all that came before
    candidate c, its draws are independent, and at look t their number is fixed: so the bound of
    that look errs with chance at most its share, and any look at any candidate with at most delta.
    """
    i = np.asarray(candidate, np.float64) * np.asarray(look, np.float64)
    return np.log(1 / delta) + 2 * np.log(np.pi**2 / 6 * i)


def validation_rate(beam: int, features: int, delta: float) -> float:
    """ln((1 + (W - 1) F) / delta): the rate at which a kept rule is validated."""
    return float(np.log((1 + (beam - 1) * features) / delta))
