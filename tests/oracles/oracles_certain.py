"""Oracles of bounds that hold at every look: float64, from the definitions, by quadrature."""

from __future__ import annotations

import math

import numpy as np
from scipy import integrate, stats

# What the library writes in its docstrings: draws at which the asymptotic bound is tightest.
BEST = 64


def precision(alpha: float, two_sided: bool) -> float:
    """g: the precision of the prior of mu / sigma."""
    log = 2 * math.log(1 / alpha if two_sided else 1 / (2 * alpha))
    return BEST / (log + math.log(1 + log))


def two_sided_quantile(n: int, alpha: float) -> float:
    """Of the t of n normal draws: where (r)^(1/2) ((n-1+t^2) / (n-1+r t^2))^(n/2) is 1 / alpha."""
    g = precision(alpha, True)
    r = g / (n + g)
    A = (1 / (alpha**2 * r)) ** (1 / n)
    return math.inf if A * r >= 1 else math.sqrt((n - 1) * (A - 1) / (1 - A * r))


def bayes_factor(t: float, n: int, g: float, two_sided: bool) -> float:
    """n draws with this t statistic: a normal prior of delta = mu / sigma against delta = 0.

    By the noncentral t distribution, the density of t under delta, and none of the closed forms.
    """
    high = 10 / math.sqrt(g)
    delta = np.linspace(-high if two_sided else 0.0, high, 8_001)
    weighed = stats.nct.pdf(t, n - 1, delta * math.sqrt(n)) * stats.norm.pdf(delta * math.sqrt(g))
    integral = integrate.simpson(weighed, x=delta) * math.sqrt(g)
    return (1 if two_sided else 2) * float(integral) / stats.t.pdf(t, n - 1)


def log_bounded(total: float, variation: float, width: float) -> float:
    """The gamma-exponential mixture: over lambda in [0, 1 / width), psi of empirical Bernstein."""

    def weight(lam: float) -> float:
        return math.exp(-(1 - width * lam))  # (1 - c lambda)^(rho / c^2 - 1) is 1 at rho = c^2

    def wealth(lam: float) -> float:
        left = 1 - width * lam
        psi = (-math.log(left) - width * lam) / width**2
        return math.exp(lam * total - psi * variation) * weight(lam)

    end = 1 / width
    return math.log(integrate.quad(wealth, 0, end)[0] / integrate.quad(weight, 0, end)[0])


def top(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Which players [.., P] are the k largest in size, bool; the sign of each that is, else 0."""
    largest = np.argsort(-np.abs(values), axis=-1)[..., :k]
    chosen = np.zeros(values.shape, bool)
    np.put_along_axis(chosen, largest, True, axis=-1)
    return chosen, np.where(chosen, np.sign(values), 0)
