"""Support vector machines: a kernel against the support vectors, and votes between classes.

Letters: R rows, F columns, V support vectors, K classes, P = K (K - 1) / 2 pairs of classes.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.models.translations.columns import Columns, dense
from xaijax.models.translations.registry import Head, Translation, then, translates
from xaijax.tables.table import Untranslatable
from xaijax_kernels.structures.named import xaijax_gaussian_sums

_KERNELS = ("linear", "poly", "rbf", "sigmoid")


def _machine(
    estimator: Any, coefficients: np.ndarray, columns: Columns, less: Any = 0.0
) -> tuple[Any, Head]:
    """(params, scores): kernel @ coefficients [V, P] + bias [P]; less: of bias."""
    if callable(estimator.kernel) or estimator.kernel not in _KERNELS:
        # Before its vectors are looked at: a precomputed kernel keeps none.
        shown = "a function" if callable(estimator.kernel) else repr(estimator.kernel)
        raise Untranslatable(f"its kernel, {shown}, has no translation")
    bias = columns.number(estimator._intercept_ - less)
    order = _mixed(coefficients)
    vectors, coefficients = dense(estimator.support_vectors_)[order], coefficients[order]
    if estimator.kernel == "rbf":
        parts = {
            # Distances do not change where all is moved.
            "vectors": columns.number(vectors - columns.taken()),
            "gamma": columns.number(estimator._gamma),
            "coefficients": columns.number(coefficients),
            "bias": bias,
        }

        def sums(params: Any, rows: Any) -> Any:
            parts_of = (params[name] for name in ("vectors", "gamma", "coefficients", "bias"))
            return xaijax_gaussian_sums(rows, *parts_of)

        return parts, sums
    power = estimator.degree
    of_product = {
        "linear": lambda params, x: x,
        "poly": lambda params, x: (params["gamma"] * x + params["shift"]) ** power,
        "sigmoid": lambda params, x: jnp.tanh(params["gamma"] * x + params["shift"]),
    }
    kernel = of_product[estimator.kernel]
    params = {
        "vectors": columns.number(vectors),
        "gamma": columns.number(estimator._gamma),
        "shift": columns.number(estimator.coef0),
        "coefficients": columns.number(coefficients),
        "bias": bias,
    }

    def scores(params: Any, rows: Any) -> Any:
        products = kernel(params, rows @ params["vectors"].T)
        return products @ params["coefficients"] + params["bias"]

    return params, scores


def _mixed(coefficients: np.ndarray) -> np.ndarray:
    """An order of the vectors [V] in which coefficients [V, P] of each sign are spread evenly.

    scikit-learn sorts vectors by class: a sum over thousands goes far below 0 and back, and rounds
    to the digits of its farthest point. With 5,231 vectors of Adult it lost 7e-5 of the answers'
    spread, spread evenly 6e-6.
    """
    place = np.empty(len(coefficients))
    signs, group = np.unique(np.sign(coefficients), axis=0, return_inverse=True)
    for g in range(len(signs)):
        members = np.flatnonzero(group.reshape(-1) == g)
        place[members] = (np.arange(len(members)) + 0.5) / len(members)
    return np.argsort(place, kind="stable")


@translates("SVR", "NuSVR")
def regressor(estimator: Any, columns: Columns) -> Translation:
    """One kernel machine."""
    coefficients, less = dense(estimator._dual_coef_).T, columns.taken_from_answers()
    params, scores = _machine(estimator, coefficients, columns, less)
    return Translation(params, {"value": then(scores, lambda x: x[:, 0])}, "kernel")


@translates("SVC", "NuSVC")
def classifier(estimator: Any, columns: Columns) -> Translation:
    """A kernel machine for each pair of classes; the class with most votes, ties to the lowest.

    The probabilities are libsvm's own iteration over pairs, stopped early, and stay on the host.
    """
    first, second = np.triu_indices(len(estimator.classes_), 1)
    params, scores = _machine(estimator, _of_pairs(estimator, first, second), columns)
    if len(estimator.classes_) == 2:
        # scikit-learn turns the sign; libsvm decides for the first class above 0.
        label = then(scores, lambda x: (x[:, 0] <= 0).astype("int32"))
        heads = {"decision": then(scores, lambda x: -x[:, 0]), "label": label}
        return Translation(params, heads, "kernel")
    one_first = jax.nn.one_hot(first, len(estimator.classes_), dtype=columns.dtype)  # [P, K]
    one_second = jax.nn.one_hot(second, len(estimator.classes_), dtype=columns.dtype)

    def votes(pairs: Any) -> Any:
        won = (pairs > 0).astype(pairs.dtype)
        return won @ one_first + (1 - won) @ one_second

    def of_rest(pairs: Any) -> Any:
        # Votes and a share of confidence that turns none, as scikit-learn makes them: there a
        # score of 0 votes for the first class.
        lost = (pairs < 0).astype(pairs.dtype)
        votes = (1 - lost) @ one_first + lost @ one_second
        sure = pairs @ one_first - pairs @ one_second
        return votes + sure / (3 * (jnp.abs(sure) + 1))

    rest = estimator.decision_function_shape == "ovr"
    decision = then(scores, of_rest if rest else lambda x: x)
    broken = rest and estimator.break_ties
    label = then(scores, lambda x: (of_rest(x) if broken else votes(x)).argmax(axis=1))
    return Translation(params, {"decision": decision, "label": label}, "kernel")


def _of_pairs(estimator: Any, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The coefficients of all vectors in each pair's machine, float64 [V, P].

    scikit-learn keeps [K - 1, V] with vectors by class: a vector of class i has in row j - 1 its
    coefficient against class j > i, and in row j the one against class j < i.
    """
    dual = dense(estimator._dual_coef_)
    of_class = np.repeat(np.arange(len(estimator.classes_)), estimator._n_support)
    table = np.zeros((dual.shape[1], len(first)))
    for p, (i, j) in enumerate(zip(first, second, strict=True)):
        table[of_class == i, p] = dual[j - 1, of_class == i]
        table[of_class == j, p] = dual[i, of_class == j]
    return table
