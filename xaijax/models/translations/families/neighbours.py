"""Translates nearest neighbours.

If the k-th and the next neighbour are equally far, scikit-learn's output depends on its search
order: such rows are `undecided`.

Letters: R rows, F columns, V training rows, k neighbours, K outputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax.models.translations.columns import Columns, dense
from xaijax.models.translations.registry import Head, Translation, place, then, translates
from xaijax.tables.table import Untranslatable
from xaijax_kernels.neighbours import nearest


@translates("KNeighborsClassifier")
def classifier(estimator: Any, columns: Columns) -> Translation:
    """Shares of the classes among the neighbours; the largest decides, ties to the lowest."""
    if isinstance(estimator.classes_, list):
        raise Untranslatable("it predicts several targets")
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

    return params, mean, Ties(rows_of, k, power, columns.dtype)


def _power(estimator: Any) -> float:
    """p of the Minkowski distance that `metric` names."""
    metric, options = estimator.effective_metric_, estimator.effective_metric_params_ or {}
    named = {"euclidean": 2.0, "l2": 2.0, "manhattan": 1.0, "cityblock": 1.0, "l1": 1.0}
    named |= {"chebyshev": np.inf, "infinity": np.inf}
    if metric in named and not options:
        return named[metric]
    if metric == "minkowski" and options.get("w") is None and set(options) <= {"p", "w"}:
        return float(options.get("p", 2.0))
    raise Untranslatable(f"its metric, {metric!r}, has no translation")


class Ties:
    """Tells which rows have a k-th and next neighbour that are equally far, up to rounding."""

    def __init__(self, train: np.ndarray, k: int, power: float, dtype: Any) -> None:
        self.train, self.k, self.power, self.dtype = train, k, power, dtype

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """bool [M] of rows [M, F].

        The rounding error of a distance is F times that of its largest term.
        """
        tied = np.zeros(len(rows), bool)
        rows = rows.astype(np.float64)
        known = np.isfinite(rows).all(axis=1)  # no other row has neighbours
        if self.k >= len(self.train) or not known.any():
            return tied
        far, _ = self._search.kneighbors(rows[known])
        size = np.maximum(np.abs(rows[known]).max(axis=1), np.abs(self.train).max())
        rounding = 4 * rows.shape[1] * np.finfo(self.dtype).eps * size
        tied[known] = far[:, self.k] - far[:, self.k - 1] <= rounding
        return tied

    @cached_property
    def _search(self) -> Any:  # float64
        from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415

        # Both sum the differences; "auto" may expand the square, which rounds more.
        algorithm = "kd_tree" if self.power >= 1 else "brute"
        options: Any = {"n_neighbors": self.k + 1, "algorithm": algorithm, "p": self.power}
        # "not a metric", which the estimator's fit reported already
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return NearestNeighbors(**options).fit(self.train)
