"""What rankers return, read as one importance per column."""

from __future__ import annotations

from typing import Any

import numpy as np


def importance_of(returned: Any) -> np.ndarray | None:
    """[m], or None where it holds no numbers.

    `importances_mean`, of scikit-learn's permutation_importance, is taken as it is. `values` of an
    Explanation, ours or shap's, are [N, m] or [N, m, K]: the mean of |value| over N, summed over K.
    """
    mean = getattr(returned, "importances_mean", None)
    if mean is not None:
        return _numbers(mean)
    values = getattr(returned, "values", None)
    if isinstance(values, np.ndarray) and values.ndim in (2, 3):
        size = np.abs(values).mean(axis=0)
        return size if size.ndim == 1 else size.sum(axis=1)
    return _numbers(returned)


def _numbers(given: Any) -> np.ndarray | None:
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        return None
