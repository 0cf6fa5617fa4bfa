"""The stopping point of scikit-learn's `LogisticRegression()` for one column.

The same loss is given to the same optimiser, SciPy's L-BFGS-B, from the same start and with the
options that scikit-learn (1.5 and later) gives it, so that it stops where `fit` does. Left out is
what `fit` does around it: it checks the rows and looks for the classes, once for each column, which
takes longer than the few steps of a fit (1 to 6 of the bench's 16 columns, 7 to 17 of the diabetes
table's). Letters: R rows, or distinct values with their weights.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

LARGEST = 700.0  # whose exponential is a float64
TILE = 1 << 13  # rows whose numbers stay in the cache
OPTIONS = {"maxiter": 100, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(np.float64).eps}


def stopping_point(
    x: np.ndarray,  # float64 [R]
    y: np.ndarray,  # [R], 0 or 1
    weights: np.ndarray | None,  # [R]; None: all 1
) -> tuple[float, float, bool]:
    """Intercept and slope where it stops, and whether it converged.

    The loss is (sum w log(1 + exp(eta)) - w y eta) / sum w + b^2 / (2 sum w) with eta = a + b x:
    the mean of the logistic loss, and the L2 penalty of C = 1.
    """
    total = float(len(x)) if weights is None else float(weights.sum())
    sign = 1.0 - 2.0 * y  # the loss of a row is log(1 + exp(m)) with m = sign (a + b x)
    given = [sign, sign * x] if weights is None else [sign, sign * x, weights]
    parts = [[one[first : first + TILE] for one in given] for first in range(0, len(x), TILE)]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        b, a = theta
        sums = np.array([b * b / 2, b, 0.0])  # of the loss, and of its slopes by b and by a
        for s, sx, *weighted in parts:
            m = a * s + b * sx
            low = np.minimum(m, LARGEST)
            e = np.exp(low)
            above = 1.0 + e
            # What a small e loses beside 1 is at most 2^-53 of a mean loss in which the optimiser
            # looks for 64 times 2^-52. Above `LARGEST`, log(1 + exp(m)) is m and the slope is 1.
            value, slope = np.log(above) + (m - low), e / above
            for w in weighted:
                value, slope = w * value, w * slope
            sums += value.sum(), slope @ sx, slope @ s
        return sums[0] / total, sums[1:] / total

    with np.errstate(under="ignore"):  # exp(m) of a step too long, whoever asks for errors
        found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", options=OPTIONS)
    b, a = found.x
    return float(a), float(b), bool(found.success)
