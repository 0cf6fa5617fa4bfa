"""AEC by scikit-learn's own fits, as its author's scripts do it, and by np.cov with fits for y."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

LOOP, TARGETS, COVARIANCE = "loop over pairs", "fits of y", "np.cov and fits of y"


def pairs(n: int) -> Iterator[tuple[int, int]]:
    """(z, i) of every fit in the order of the author's loops: for each feature all pairs again."""
    for j in range(n):
        for i in range(n):
            for z in range(n):
                if i != j and z != i:
                    yield z, i


def pair_count(n: int) -> int:
    """How many these are."""
    return n * (n - 1) ** 2


def fit_pairs(X: np.ndarray, count: int) -> list[tuple[int, int, float]]:
    """(z, i, slope) of the first `count` fits."""
    model = LinearRegression()
    return [
        (z, i, model.fit(X[:, [i]], X[:, z]).coef_[0])
        for _, (z, i) in zip(range(count), pairs(X.shape[1]), strict=False)
    ]


def fit_targets(X: np.ndarray, y: np.ndarray, labels: bool, count: int) -> np.ndarray:
    """Slopes of y on the first `count` columns, by scikit-learn's defaults."""
    model: Any = LogisticRegression() if labels else LinearRegression()
    return np.array([np.ravel(model.fit(X[:, [j]], y).coef_)[0] for j in range(count)])


def by_covariance(X: np.ndarray, y: np.ndarray, labels: bool) -> np.ndarray:
    """Effects [n] by one covariance matrix and a fit of y for each column."""
    covariance = np.cov(X, rowvar=False)
    slopes = covariance / np.diagonal(covariance)
    sums = slopes.sum(axis=0) - 1
    return fit_targets(X, y, labels, X.shape[1]) * (sums.sum() - sums)
