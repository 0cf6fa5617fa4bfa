"""Nearest neighbours.

Where the k-th and the next neighbour are equally far, scikit-learn's answer hangs on the order in
which its search meets them: such rows are `undecided`.

Letters: R rows, F columns, V training rows, k neighbours, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax.models.translations.columns import Columns, dense
from xaijax.models.translations.families.heads import place, then
from xaijax.models.translations.registry import Head, Translation, translates
from xaijax.tables.coded_table import Untranslatable
from xaijax_kernels.structures.neighbours import nearest


@translates("KNeighborsClassifier")
def classifier(estimator: Any, columns: Columns) -> Translation:
    """Shares of the classes among the neighbours; the largest decides, ties to the lowest."""
    K = len(estimator.classes_)
    votes = np.eye(K)[np.asarray(estimator._y).ravel()]
    params, mean, undecided = _neighbours(estimator, votes, columns)
    heads = {"proba": mean, "label": then(mean, place)}
    return Translation(params, heads, "neighbours", undecided=undecided)


@translates("KNeighborsRegressor")
def regressor(estimator: Any, columns: Columns) -> Translation:
    """The mean of the neighbours' targets."""
    targets = np.asarray(estimator._y, np.float64) - columns.taken_from_answers()
    params, mean, undecided = _neighbours(estimator, targets.reshape(len(targets), -1), columns)
    heads = {"value": then(mean, lambda x: x[:, 0]) if targets.ndim == 1 else mean}
    return Translation(params, heads, "neighbours", undecided=undecided)


def _neighbours(
    estimator: Any, targets: np.ndarray, columns: Columns
) -> tuple[Any, Head, Callable[[np.ndarray], np.ndarray]]:
    """(params, the weighted mean of the neighbours' targets [R, K], rows with ties)."""
    power = _power(estimator)
    if estimator.weights not in ("uniform", "distance"):
        raise Untranslatable("its weights are a function")
    rows_of = dense(estimator._fit_X)
    k, by_distance = int(estimator.n_neighbors), estimator.weights == "distance"
    rows_of = rows_of - columns.taken()
    centre = rows_of.mean(axis=0)  # distances do not change where all is moved
    params = {
        "rows": columns.number(rows_of - centre),
        "targets": columns.number(targets),
        "centre": columns.number(centre),
    }

    def mean(params: Any, rows: Any) -> Any:
        rows = rows - params["centre"]
        smallest, near = nearest(params["rows"], rows, k, power)
        weights = jnp.ones_like(smallest)
        if by_distance:
            # A neighbour at distance 0 decides alone, with others at 0.
            same = smallest == 0
            weights = jnp.where(same.any(axis=1, keepdims=True), same, 1 / smallest)
        total = (weights[:, :, None] * params["targets"][near]).sum(axis=1)
        return total / weights.sum(axis=1, keepdims=True)

    return params, mean, lambda rows: _tied(rows, rows_of, k, power, columns.dtype)


def _power(estimator: Any) -> float:
    """p of the Minkowski distance that `metric` names."""
    metric, given = estimator.effective_metric_, estimator.effective_metric_params_ or {}
    named = {"euclidean": 2.0, "l2": 2.0, "manhattan": 1.0, "cityblock": 1.0, "l1": 1.0}
    named |= {"chebyshev": np.inf, "infinity": np.inf}
    if metric in named and not given:
        return named[metric]
    if metric == "minkowski" and given.get("w") is None and set(given) <= {"p", "w"}:
        return float(given.get("p", 2.0))
    raise Untranslatable(f"its metric, {metric!r}, has no translation")


def _tied(rows: np.ndarray, train: np.ndarray, k: int, power: float, dtype: Any) -> np.ndarray:
    """Rows whose k-th and next neighbour are equally far up to rounding; bool [M].

    The rounding of a distance is that of the largest number that goes into it, F times.
    """
    if k >= len(train):
        return np.zeros(len(rows), bool)
    tied = []
    for row in rows.astype(np.float64):
        off = np.abs(train - row)
        far = np.linalg.norm(off, ord=power, axis=1)
        near, after = np.partition(far, [k - 1, k])[k - 1 : k + 1]
        size = max(np.abs(row).max(), np.abs(train).max())
        tied.append(after - near <= 4 * len(row) * np.finfo(dtype).eps * size)
    return np.array(tied)
