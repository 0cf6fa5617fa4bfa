"""The stopping point of scikit-learn's `LogisticRegression()` for one column.

The same loss is given to the same optimiser, SciPy's L-BFGS-B, from the same start and with the
options that scikit-learn (1.5 and later) gives it, so that it stops where `fit` does. Left out is
what `fit` does around it: it checks the rows and looks for the classes, once for each column, which
takes longer than the two or three steps of most fits. Letters: R rows, or distinct values with
their weights.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

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
    given = [x, y] if weights is None else [x, y, weights]
    parts = [[one[first : first + TILE] for one in given] for first in range(0, len(x), TILE)]

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        b, a = theta
        sums = np.array([b * b / 2, b, 0.0])  # of the loss, and of its slopes by b and by a
        for x, y, *weighted in parts:
            eta = a + b * x
            e = np.exp(-np.abs(eta))
            # log(1 + exp(eta)) = max(eta, 0) + log(1 + exp(-|eta|)), and the chance by the same e.
            value = np.log1p(e) + np.maximum(eta, 0.0) - y * eta
            missed = np.where(eta >= 0, 1.0, e) / (1 + e) - y
            for w in weighted:
                value, missed = w * value, w * missed
            sums += value.sum(), missed @ x, missed.sum()
        return sums[0] / total, sums[1:] / total

    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", options=OPTIONS)
    b, a = found.x
    return float(a), float(b), bool(found.success)
