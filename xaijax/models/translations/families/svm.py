"""Translates support vector machines: kernels with the support vectors, and votes between classes;
Gaussian processes and kernel densities.

Letters: R rows, F columns, V support vectors, K classes, P = K (K - 1) / 2 pairs of classes.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import logsumexp

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
        # Checked before its vectors are read: a precomputed kernel has none.
        shown = "a function" if callable(estimator.kernel) else repr(estimator.kernel)
        raise Untranslatable(f"its kernel, {shown}, has no translation")
    bias = columns.number(estimator._intercept_ - less)
    order = _mixed(coefficients)
    vectors, coefficients = dense(estimator.support_vectors_)[order], coefficients[order]
    if estimator.kernel == "rbf":
        parts = {
            # A common shift does not change distances.
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
    at its largest magnitude. With 5,231 vectors of Adult the error was 7e-5 of the outputs' spread;
    evenly mixed it is 6e-6.
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
    """One kernel machine per pair of classes; the class with most votes, ties to the lowest.

    Probabilities come from libsvm's iteration over pairs, which stops early, and stay on the host.
    """
    first, second = np.triu_indices(len(estimator.classes_), 1)
    params, scores = _machine(estimator, _of_pairs(estimator, first, second), columns)
    if len(estimator.classes_) == 2:
        # scikit-learn flips the sign; libsvm decides for the first class above 0.
        label = then(scores, lambda x: (x[:, 0] <= 0).astype("int32"))
        heads = {"decision": then(scores, lambda x: -x[:, 0]), "label": label}
        return Translation(params, heads, "kernel")
    one_first = jax.nn.one_hot(first, len(estimator.classes_), dtype=columns.dtype)  # [P, K]
    one_second = jax.nn.one_hot(second, len(estimator.classes_), dtype=columns.dtype)

    def votes(pairs: Any) -> Any:
        won = (pairs > 0).astype(pairs.dtype)
        return won @ one_first + (1 - won) @ one_second

    def of_rest(pairs: Any) -> Any:
        # Votes plus a confidence too small to change a vote, as in scikit-learn, where a score of 0
        # votes for the first class.
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


@translates("OneClassSVM")
def one_class(estimator: Any, columns: Columns) -> Translation:
    """One kernel machine; a row with a decision above 0 is an inlier."""
    params, scores = _machine(estimator, dense(estimator._dual_coef_).T, columns)
    decision = then(scores, lambda x: x[:, 0])
    label = then(decision, lambda x: (x > 0).astype("int32"))
    return Translation(params, {"decision": decision, "label": label}, "kernel")


@translates("KernelDensity")
def density(estimator: Any, columns: Columns) -> Translation:
    """The density, a sum of Gaussians, and its logarithm, which scikit-learn calls a score."""
    if estimator.kernel != "gaussian" or estimator.metric != "euclidean":
        shown = f"the kernel {estimator.kernel!r} of {estimator.metric!r} distances"
        raise Untranslatable(f"{shown} has no translation")
    if estimator.atol or estimator.rtol:
        raise Untranslatable("atol= and rtol= let its answers be near the density")
    tree, width = estimator.tree_, estimator.bandwidth_
    rows = np.asarray(tree.data, np.float64)
    weights = tree.sample_weight
    weights = np.ones(len(rows)) if weights is None else np.asarray(weights, np.float64)
    rows, weights = rows[weights > 0], weights[weights > 0]
    level = -len(columns) * (np.log(width) + np.log(2 * np.pi) / 2)
    logs = np.log(weights / weights.sum()) + level
    with np.errstate(over="ignore"):
        heights = np.exp(logs).astype(columns.dtype)
    params = {
        "vectors": columns.number(rows - columns.taken()),
        "gamma": columns.number(0.5 / width**2),
        "logs": columns.number(logs),
        "bias": columns.number(np.zeros(1)),
    }

    def score(params: Any, x: Any) -> Any:
        centres, dots = params["vectors"], x @ params["vectors"].T
        squares = (x * x).sum(axis=1)[:, None] + (centres * centres).sum(axis=1)
        distances = jnp.maximum(squares - 2 * dots, 0)
        return logsumexp(params["logs"] - params["gamma"] * distances, axis=1)

    heads: dict[str, Head] = {"decision": score}
    if np.isfinite(heights).all() and heights.min() >= np.finfo(columns.dtype).tiny:
        params["coefficients"] = columns.number(heights[:, None])

        def sums(params: Any, x: Any) -> Any:
            parts = (params[name] for name in ("vectors", "gamma", "coefficients", "bias"))
            return xaijax_gaussian_sums(x, *parts)

        heads["density"] = then(sums, lambda x: x[:, 0])
    return Translation(params, heads, "kernel")


@translates("GaussianProcessRegressor")
def process(estimator: Any, columns: Columns) -> Translation:
    """The mean of a Gaussian process of one RBF kernel, times and plus constants, with noise."""
    if not hasattr(estimator, "alpha_"):
        raise Untranslatable("it is not fitted")
    terms = _terms(estimator.kernel_)
    lengths = [(factor, length) for factor, length in terms if length is not None]
    if len(lengths) != 1:
        raise Untranslatable(f"its kernel is a sum of {len(lengths)} RBF kernels; one has")
    (factor, length), rows = lengths[0], np.asarray(estimator.X_train_, np.float64)
    scale = np.broadcast_to(1 / np.asarray(length, np.float64), rows.shape[1:])
    weights = (estimator._y_train_std * estimator.alpha_).reshape(len(rows), -1)
    level = sum(share for share, length in terms if length is None) * weights.sum(axis=0)
    order = _mixed(weights)
    params = {
        "scale": columns.number(scale),
        "vectors": columns.number(((rows - columns.taken()) * scale)[order]),
        "gamma": columns.number(0.5),
        "coefficients": columns.number(factor * weights[order]),
        "bias": columns.number(level + estimator._y_train_mean - columns.taken_from_answers()),
    }

    def means(params: Any, rows: Any) -> Any:
        parts = (params[name] for name in ("vectors", "gamma", "coefficients", "bias"))
        return xaijax_gaussian_sums(rows * params["scale"], *parts)

    single = estimator.alpha_.ndim == 1
    value = then(means, lambda x: x[:, 0]) if single else means
    return Translation(params, {"value": value}, "kernel")


def _terms(kernel: Any, factor: float = 1.0) -> list[tuple[float, Any]]:
    """(factor, length scale; None: a constant) of each term of a kernel between different rows."""
    match type(kernel).__name__:
        case "RBF":
            return [(factor, kernel.length_scale)]
        case "ConstantKernel":
            return [(factor * kernel.constant_value, None)]
        case "WhiteKernel":  # of a training row with itself only
            return []
        case "Sum":
            return _terms(kernel.k1, factor) + _terms(kernel.k2, factor)
        case "Product":
            for factor_kernel, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
                if type(factor_kernel).__name__ == "ConstantKernel":
                    return _terms(other, factor * factor_kernel.constant_value)
    raise Untranslatable(f"its kernel, {kernel}, has no translation")
