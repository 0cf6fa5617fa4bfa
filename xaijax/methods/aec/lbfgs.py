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
    share = 1 / total if weights is None else weights / total

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        b, a = theta
        eta = a + b * x
        e = np.exp(-np.abs(eta))
        # log(1 + exp(eta)) = max(eta, 0) + log(1 + exp(-|eta|)), and the chance by the same e.
        value = share * (np.log1p(e) + np.maximum(eta, 0.0) - y * eta)
        missed = share * (np.where(eta >= 0, 1.0, e) / (1 + e) - y)
        gradient = np.array([missed @ x + b / total, missed.sum()])
        return value.sum() + b * b / (2 * total), gradient

    found = minimize(loss, np.zeros(2), jac=True, method="L-BFGS-B", options=OPTIONS)
    b, a = found.x
    return float(a), float(b), bool(found.success)
