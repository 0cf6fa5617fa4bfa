"""Computes confidence sequences: bounds on a mean that hold at all sample sizes together.

An ordinary interval that is checked repeatedly until it is narrow misses its value more often than
its level says. The bounds here hold for all numbers of draws together, whenever sampling stops.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from xaijax.core.checks import share

BEST = 64  # draws at which `time_uniform_quantile` is close to its minimum
HALVINGS = 200  # of an interval of floats, to its last digit


@lru_cache(maxsize=4096)
def time_uniform_quantile(count: int, alpha: float, two_sided: bool = True) -> float:
    """Bound on the error of a mean of `count` draws in standard errors, valid at all counts
    together.

    Let s_n be the standard deviation of the first n draws, by n - 1. With probability 1 - alpha, no
    n has |mean_n - mu| >= q_n s_n / sqrt(n) (one-sided: mean_n - mu). The bound is exact for normal
    draws of unknown variance, and asymptotic for others with a variance: then it approaches the
    asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024,
    "Time-uniform central limit theory and asymptotic confidence sequences", theorem 2.2). For few
    draws it is wider than that, as Student's t is than the normal quantile.

    With a N(0, 1 / g) prior of mu / sigma and the right Haar prior of sigma, the Bayes factor of
    n draws against mu = 0 is a martingale there, so that it reaches 1 / alpha with probability at
    most alpha (Wang and Ramdas 2024, "Anytime-valid t-tests and confidence sequences for Gaussian
    means with unknown variance", section 4). With t = sqrt(n) mean / s and r = g / (n + g) it is

        sqrt(r) ((n - 1 + t^2) / (n - 1 + r t^2))^(n / 2).

    In the one-sided case the prior is restricted to mu > 0: the factor is multiplied by twice the
    posterior probability of mu > 0, by Student's t with n degrees of freedom. g is chosen for
    `BEST` draws, and is the same for all n.

    The result is infinite if `count` draws are too few for any bound.
    """
    if count < 2:
        return math.inf
    wanted = math.log(1 / alpha)
    likely = 2 * wanted if two_sided else 2 * (wanted - math.log(2))
    g = BEST / (likely + math.log(1 + likely)) if likely > 0 else float(BEST)
    r = g / (count + g)
    most = 0.5 * math.log(r) - 0.5 * count * math.log(r) + (0.0 if two_sided else math.log(2))
    if most <= wanted:
        return math.inf
    low, high = 0.0, 1.0
    while _log_factor(high, count, r, two_sided) < wanted:
        low, high = high, 2 * high
        if high > 1e9:
            return math.inf
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _log_factor(middle, count, r, two_sided) < wanted:
            low = middle
        else:
            high = middle
    return high


def _log_factor(t: float, n: int, r: float, two_sided: bool) -> float:
    """Logarithm of the Bayes factor above; it increases with t >= 0."""
    rest = n - 1 + r * t * t
    log = 0.5 * math.log(r) + 0.5 * n * math.log((n - 1 + t * t) / rest)
    if two_sided:
        return log
    from scipy.special import stdtr  # noqa: PLC0415 - `import xaijax` does not load scipy

    # The posterior of mu has its centre at r' mean, r' = n / (n + g), and the scale sqrt(rest / (n
    # (n + g))) s; 1 / (n + g) = (1 - r) / n.
    return log + math.log(2 * stdtr(n, t * math.sqrt((1 - r) * n / rest)))


def log_bounded_factor(total: Any, variation: Any, width: float) -> np.ndarray:
    """Logarithm of a test's wealth, the evidence that bounded draws have a mean above 0, float64.

    For draws within an interval of this width and with mean at most 0, the probability that the
    result ever reaches log(1 / alpha) is at most alpha, at all counts together and without further
    assumptions. It is the empirical-Bernstein confidence sequence of Howard, Ramdas, McAuliffe and
    Sekhon (2021, "Time-uniform, nonparametric, nonasymptotic confidence sequences", theorem 4) by
    the gamma-exponential mixture of their proposition 9, whose rho is width^2 here. It is

        log of the integral over u from 0 to 1 of u^b exp(-u x) exp(x - 1), over that at 0 of both,
        b = variation / width^2, x = (total width + variation) / width^2 + 1,

    which equals that of exp(lambda total - psi(lambda) variation) over lambda = (1 - u) / width.

    Args:
        total: sums of the draws, any shape.
        variation: sums of (draw - its prediction from the earlier draws)^2, of that shape.
        width: width of the interval.
    """
    from scipy.special import gammainc, gammaln  # noqa: PLC0415 - as above

    # Nothing is claimed for sums below 0, and their integral would underflow.
    s, v = np.maximum(total, 0.0) / width, np.asarray(variation) / width**2
    shape, x = v + 1.0, s + v + 1.0
    integral = gammaln(shape) + np.log(gammainc(shape, x)) - shape * np.log(x)
    factor = integral + (x - 1.0) - np.log(gammainc(1.0, 1.0))
    return np.where(np.asarray(total) > 0, factor, -np.inf)


def checked_level(level: Any, name: str = "level") -> float:
    """Returns a number between 0 and 1; raises InputError or InputTypeError for other values."""
    return share(level, name, remedy=" Say 0.95, for example.")


def half_widths_of(
    std_errors: np.ndarray | None, shape: tuple[int, ...], exact: Any, dof: Any, level: Any
) -> np.ndarray:
    """Half-widths of a result's values, of this shape [N, ...]: 0 where exact, NaN where unknown.

    exact: whether all values are exact, or [N]; dof: [N] if known, else any value: then the normal
        quantile is used. It raises what `checked_level` raises.
    """
    chance = checked_level(level)
    if std_errors is None:
        each = np.where(exact, 0.0, np.nan)
        return np.broadcast_to(each.reshape(each.shape + (1,) * (len(shape) - 1)), shape).copy()
    known = isinstance(dof, np.ndarray) and dof.ndim > 0 and len(dof) == shape[0]
    return half_widths(std_errors, dof if known else np.inf, chance)


def half_widths(std_errors: np.ndarray, dof: Any, level: float = 0.95) -> np.ndarray:
    """Half-width of each interval by Student's t; NaN where there is no degree of freedom.

    Args:
        std_errors: any shape whose first axes are those of dof.
        dof: degrees of freedom, a number or [N]; infinite: the normal quantile.
        level: the interval's coverage, within 0 and 1.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - `import xaijax` does not load scipy

    dof = np.asarray(dof, float)
    t = np.where(dof > 0, stdtrit(np.maximum(dof, 1e-9), (1 + level) / 2), np.nan)
    return std_errors * t.reshape(t.shape + (1,) * (std_errors.ndim - t.ndim))
