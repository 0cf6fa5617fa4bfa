"""Small tables for the tests of AEC, and the bound on what float64 can lose of an effect."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import xaijax as xj

EPS = np.finfo(np.float64).eps


def collinear(rows=200, columns=5, seed=0, labels=False):
    """Columns of mixed scales that share two hidden causes, and a target of some of them."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 2))
    X = hidden @ rng.normal(size=(2, columns)) + rng.normal(size=(rows, columns))
    X = X * 10.0 ** rng.integers(-2, 3, columns) + rng.normal(size=columns) * 5
    y = hidden[:, 0] + 0.5 * rng.normal(size=rows)
    return X, ((y > 0.3).astype(int) if labels else y)


def rounding(X: np.ndarray, b: np.ndarray, standardize: bool = False) -> np.ndarray:
    """How far two ways of computing the effects [F] may differ by rounding.

    A slope is a ratio of sums of M products, each off by at most M eps of the sum of the sizes of
    its terms; where a slope is small, its terms cancel, so that size is taken as the spreads' ratio
    (Cauchy and Schwarz). The sum of n (n - 1) slopes adds n^2 eps. Means are off by M eps of their
    column's largest |x|, which the deviations feel. 4: two sides, and numerator and denominator.
    """
    M, n = X.shape
    spread = np.where(np.ptp(X, axis=0) == 0, np.inf, X.std(axis=0))
    level = np.abs(X).max(axis=0) / spread
    ratio = np.ones((n, n)) if standardize else X.std(axis=0)[:, None] / spread
    per_slope = ratio * (M * EPS) * (1 + level[:, None]) * (1 + level)
    total = per_slope.sum() + n * n * EPS * ratio.sum()
    return 4 * (np.abs(b) * total + M * EPS * (1 + level) ** 2 * np.abs(b) * ratio.sum())


def fitted(X: Any, y: Any, sample_weight: Any = None, **options: Any) -> xj.AEC:
    """An AEC fitted without a word about scales."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X has columns whose standard deviations")
        return xj.AEC(**options).fit(X, y, sample_weight)
