"""The rate of each player, by maximum likelihood.

tau^2 is profiled out (Rasmussen and Williams 2006, "Gaussian processes for machine learning",
section 5.4.1 has the gradient). The logarithms of the rates are normal around their mean, which is
free, with a deviation of SPREAD: of a few hundred answers many rates are not to be told. Without it
a process of 100 players was worse than none at 512 coalitions.

Letters: P players, D answers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xaijax.estimators.odd_process.covariance import FLAT
from xaijax.estimators.odd_process.matrices import factor, inverse_of

BY = 256  # answers by which the rates are chosen, or two a player: time goes with its third power
STEPS = 10  # of L-BFGS; twice as many changed no error by more than a hundredth
SPREAD = 1.5  # a rate is within a factor of 20 of the usual one with 95 %
SMALLEST, LARGEST = 1e-4, 0.9
SUM = 200.0  # of artanh(rate) over all players, at most: e to this power is in range
NOISE = 1e-6  # of the variance by sets of three and more: keeps the matrix positive definite


def rates_of(signs: np.ndarray, odd: np.ndarray, even: np.ndarray | None) -> np.ndarray:
    """The likeliest rates [P]; signs [D, P], the odd parts of answers [D], and the even parts.

    Both are of a size of about 1. even: None where it is the same of all answers.
    """
    from scipy.optimize import minimize  # noqa: PLC0415 - not loaded by `import xaijax`

    P = signs.shape[1]
    most = min(LARGEST, float(np.tanh(SUM / P)))
    bounds = [(np.log(SMALLEST), np.log(most))] * P
    start = np.full(P, np.log(min(0.3, 3.0 / P)))
    parts = [odd] if even is None else [odd, even]
    options = {"maxiter": STEPS}
    found = minimize(
        _unlikely, start, (signs, parts), "L-BFGS-B", jac=True, bounds=bounds, options=options
    )
    return np.exp(found.x)


def _unlikely(
    logs: np.ndarray, signs: np.ndarray, parts: Sequence[np.ndarray]
) -> tuple[float, np.ndarray]:
    """Minus the logarithm of the likelihood times the prior, and its gradient [P].

    With f = e^a sinh x, f' = e^a cosh x, s the scale and A = (alpha alpha^T / tau^2 - K^-1) / 2 the
    gradient of the logarithm is the sum over A dK, dK = d(k / s), where for log rho_i
    da = -rho^2 / (1 - rho^2), dw_i = rho / (1 - rho^2): d f = da f + dw_i z_i z'_i f'. Of the even
    part cosh and sinh change places, and what is flat is the level, the set of nobody.
    """
    D, P = signs.shape
    rates = np.exp(logs)
    squares = 1 - rates**2
    w, size = np.arctanh(rates), np.sqrt(np.prod(squares))
    x = (signs * w) @ signs.T
    functions = (size * np.sinh(x), size * np.cosh(x))  # not by exp: near 0 the rest is tiny
    ends = (size * np.sinh(w.sum()), size * np.cosh(w.sum()))
    da, dw = -(rates**2) / squares, rates / squares
    both = signs @ signs.T
    apart = logs - logs.mean()
    value, gradient = float(apart @ apart) / (2 * SPREAD**2), apart / SPREAD**2
    for even, y in enumerate(parts):
        f, slope = functions[even], functions[1 - even]
        small = 1.0 if even else (signs * rates) @ signs.T
        scale = ends[even] - (1.0 if even else rates.sum())
        larger = f - small
        K = larger / scale + (FLAT if even else FLAT / P * both)
        K[np.diag_indices(D)] += NOISE
        lower = factor(K)
        inverse = inverse_of(lower)
        alpha = inverse @ y
        freedom, square = D - (1 if even else P), float(y @ alpha)
        value += freedom * np.log(square) / 2 + np.log(np.diag(lower)).sum()
        A = (freedom / square * np.outer(alpha, alpha) - inverse) / 2
        own = _by_player(A * slope, signs) * dw + da * float((A * f).sum())
        of_scale = da * ends[even] + dw * ends[1 - even]
        if not even:
            own -= _by_player(A, signs) * rates
            of_scale = of_scale - rates
        gradient = gradient - own / scale + float((A * larger).sum()) / scale**2 * of_scale
    return value, gradient


def _by_player(A: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Sums of A over all entries times z_i z'_i, [P]."""
    return ((A @ signs) * signs).sum(axis=0)
