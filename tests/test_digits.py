"""Answers far from zero keep their digits: in JAX where the offset is taken out, else on the host.

The oracle is the estimator itself, on the host in float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from sklearn.tree import DecisionTreeRegressor

import xaijax as xj

P = 4
RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, P))
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] - X[:, 3]
SHARE = 1e-5  # of the spread, as is promised


def close(model: Any, fitted: Any, background: Any, rows: Any, **options: Any) -> Any:
    """The explanation by `model`, whose values are those of the host."""
    host = xj.as_model(fitted, backend="host")
    found = xj.Explainer(model, background, **options)(rows)
    wanted = xj.Explainer(host, background, **options)(rows)
    spread = np.ptp(host.predict(np.concatenate([background, rows])), axis=0).max()
    np.testing.assert_allclose(found.values, wanted.values, rtol=0, atol=SHARE * spread)
    np.testing.assert_allclose(found.base_values, wanted.base_values, rtol=0, atol=SHARE * spread)
    return found


FORESTS = partial(RandomForestRegressor, 10, max_depth=5, random_state=0)
OFFSET = {
    "forest, 2e5": (FORESTS(), 2e5),
    "SVR, 1e6": (SVR(gamma=0.3), 1e6),
    "MLP, 1e6": (
        MLPRegressor(hidden_layer_sizes=(5,), solver="lbfgs", max_iter=60, random_state=0),
        1e6,
    ),
    "neighbours, 1e6": (KNeighborsRegressor(), 1e6),
    "tree, 1e6": (DecisionTreeRegressor(max_depth=5, random_state=0), 1e6),
    "boosting, 1e6": (GradientBoostingRegressor(n_estimators=8, random_state=0), 1e6),
    "histograms, 1e6": (HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=5), 1e6),
    "least squares, 1e6": (LinearRegression(), 1e6),
    "forest, 1e8": (FORESTS(), 1e8),
    "two targets": (FORESTS(), np.array([1e6, -3e4])),
}


@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
@pytest.mark.parametrize("name", OFFSET)
def test_values_beside_a_large_offset_are_those_of_the_host(name: str) -> None:
    estimator, offset = OFFSET[name]
    y = Y + offset if np.ndim(offset) == 0 else np.stack([Y, X[:, 0]], axis=1) + offset
    fitted = estimator.fit(X, y)
    close(xj.as_model(fitted), fitted, X[:30], X[30:36])


SCALED = {
    "least squares": (LinearRegression(), Y),
    "logistic": (LogisticRegression(), Y > 0),
    "scaled logistic": (make_pipeline(StandardScaler(), LogisticRegression()), Y > 0),
    "scaled SVR": (make_pipeline(StandardScaler(), SVR(gamma=0.3)), Y),
    "neighbours": (KNeighborsRegressor(), Y),
}


@pytest.mark.parametrize("level", [3e3, 1e4])  # float32 has 1e-4 and 1e-3 of X
@pytest.mark.parametrize("name", SCALED)
def test_values_of_columns_far_from_zero_are_those_of_the_host(name: str, level: float) -> None:
    estimator, y = SCALED[name]
    fitted = estimator.fit(level + X, y)
    close(xj.as_model(fitted), fitted, level + X[:30], level + X[30:36])
