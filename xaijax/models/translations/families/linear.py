"""Translates linear and logistic models: one product, and a function of it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from xaijax.models.translations.columns import Columns
from xaijax.models.translations.registry import Translation, logistic, place, then, translates, two
from xaijax.tables.table import Untranslatable


def _product(
    estimator: Any, columns: Columns, less: Any = 0.0
) -> tuple[dict[str, np.ndarray], Any]:
    """({"weights" [F] or [F, K], "bias" [] or [K]}, rows -> rows @ weights + bias).

    less: the value to subtract from the outputs.
    """
    weights = np.asarray(estimator.coef_, np.float64).T
    bias = np.broadcast_to(np.asarray(estimator.intercept_, np.float64), weights.shape[1:])
    bias = bias - less + columns.taken() @ weights
    params = {"weights": columns.number(weights), "bias": columns.number(bias)}
    return params, lambda params, rows: rows @ params["weights"] + params["bias"]


@translates(
    *("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV"),
    *("BayesianRidge", "ARDRegression", "HuberRegressor", "SGDRegressor", "LinearSVR"),
    *("Lars", "LassoLars", "QuantileRegressor", "TheilSenRegressor"),
)
def regression(estimator: Any, columns: Columns) -> Translation:
    """A number, or one per target."""
    if np.ndim(estimator.coef_) == 1 and np.size(estimator.intercept_) == 1:
        estimator = _Flat(estimator.coef_, np.asarray(estimator.intercept_).reshape(()))
    params, product = _product(estimator, columns, columns.taken_from_answers())
    return Translation(params, {"value": product}, "linear")


@translates("PoissonRegressor", "GammaRegressor", "TweedieRegressor")
def generalised(estimator: Any, columns: Columns) -> Translation:
    """The inverse link of a linear model."""
    link = type(estimator._base_loss.link).__name__
    inverse = {"LogLink": jax.numpy.exp, "IdentityLink": lambda x: x}.get(link)
    if inverse is None:
        raise Untranslatable(f"its link, {link}, has no translation")
    params, product = _product(estimator, columns)
    return Translation(params, {"value": then(product, inverse)}, "linear")


@translates("LogisticRegression", "LogisticRegressionCV")
def logistic_regression(estimator: Any, columns: Columns) -> Translation:
    """Two classes by a sigmoid, several by a softmax, or by one normalised sigmoid each."""
    params, decision = _classifier(estimator, columns)
    several = len(estimator.classes_) > 2
    # Before scikit-learn 1.8 a model could be one against the rest.
    apart = several and (
        getattr(estimator, "multi_class", "deprecated") == "ovr" or estimator.solver == "liblinear"
    )
    proba = then(decision, _normalised if apart else logistic)
    heads = {"decision": decision, "proba": proba, "label": then(decision, place)}
    return Translation(params, heads, "linear")


@translates(
    *("LinearSVC", "RidgeClassifier", "RidgeClassifierCV", "Perceptron", "SGDClassifier"),
    "PassiveAggressiveClassifier",
)
def classification(estimator: Any, columns: Columns) -> Translation:
    """Classifiers that decide by the largest product."""
    params, decision = _classifier(estimator, columns)
    heads = {"decision": decision, "label": then(decision, place)}
    if getattr(estimator, "loss", None) == "log_loss":
        heads["proba"] = then(decision, _normalised)
    return Translation(params, heads, "linear")


def _classifier(estimator: Any, columns: Columns) -> tuple[dict[str, np.ndarray], Any]:
    """The decision: [R] for two classes, whose weights are stored as one row, otherwise [R, K]."""
    weights = np.atleast_2d(estimator.coef_)
    if len(weights) == 1:
        estimator = _Flat(weights[0], np.ravel(estimator.intercept_)[0])
    return _product(estimator, columns)


class _Flat:
    """A linear model of one output, without the axis."""

    def __init__(self, coef_: Any, intercept_: Any) -> None:
        self.coef_, self.intercept_ = coef_, intercept_


def _normalised(scores: Any) -> Any:
    """One sigmoid per class; several classes are divided by their sum."""
    each = jax.nn.sigmoid(scores)
    return two(each) if each.ndim == 1 else each / each.sum(axis=1, keepdims=True)
