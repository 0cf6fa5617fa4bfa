"""What random worlds are made of: programs of JAX, estimators, data held in many ways, players.

Numbers are multiples of 1/4 and thresholds odd multiples of 1/8, so that float32 and float64 decide
alike. Nothing here is of the library but for what is handed to it.
"""

from __future__ import annotations

import copy
import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pandas as pd
import pytest

import xaijax as xj


def quarters(rng, *shape, reach=8):
    return rng.integers(-reach, reach + 1, size=shape) / 4


def tied(rng, N, B, F):
    """Instances [N, F] and background [B, F] that often agree in a column."""
    both = quarters(rng, N + B, F)
    constant = rng.random(F) < 0.2
    both[:, constant] = both[0, constant]
    for i in range(N):
        same = rng.random(F) < 0.3
        both[i, same] = both[N + rng.integers(B), same]
    if B > 2:
        both[N + 1] = both[N]  # duplicates
    return both[:N], both[N:]


def partition(rng, F):
    """Columns of each player; every column has one."""
    P = int(rng.integers(2, F + 1))
    owner = np.concatenate([np.arange(P), rng.integers(P, size=F - P)])
    rng.shuffle(owner)
    return [np.flatnonzero(owner == p).tolist() for p in range(P)]


def index_of(rng, P):
    """(index=, the weight of a set of s players, whether it adds up to f(x))."""
    kind = rng.integers(4)
    if kind == 0:
        return "shapley", oracles.shapley_weight(P), True
    if kind == 1:
        return "banzhaf", oracles.banzhaf_weight(P), False
    if kind == 2:
        k, normalised = int(rng.integers(P)), bool(rng.integers(2))
        return xj.SizeLimited(k, normalised), oracles.size_limited_weight(P, k, normalised), False
    share = rng.random(P)
    return lambda s: float(share[s]), lambda s: float(share[s]), False


def donor_weights(rng, B):
    if B == 1 or rng.random() < 0.5:
        return None
    weights = rng.random(B)
    weights[rng.integers(B)] = 0.0
    return weights


def program(rng, F, K):
    """A function (xp, params, X) of random steps, and its params."""
    H = int(rng.integers(2, 6))
    params = {
        "W": quarters(rng, F, H, reach=4) / 2,
        "b": quarters(rng, H, reach=4) / 2,
        "V": quarters(rng, H, K, reach=4) / 4,
        "c": quarters(rng, F, reach=2) / 2,
    }
    steps = rng.choice(["relu", "tanh", "exp", "square", "abs", "softplus"], 2)
    wide = rng.choice(["where", "sum", "reshape", "product", "max", "sort", "gather", "none"], 2)
    a, b = rng.permutation(F)[:2]
    cut = int(rng.integers(-3, 3)) / 4 + 0.125

    def step(xp, name, h):
        if name == "relu":
            return xp.maximum(h, 0.0)
        if name == "tanh":
            return xp.tanh(h)
        if name == "exp":
            return xp.exp(-xp.abs(h) / 4)
        if name == "square":
            return h * h / 8
        if name == "softplus":
            return xp.log1p(xp.exp(-xp.abs(h))) + xp.maximum(h, 0.0)
        return xp.abs(h)

    def more(xp, name, X):
        if name == "where":
            return xp.where(X[:, a] > cut, X[:, b], -X[:, b] * X[:, a])
        if name == "sum":
            return xp.exp(-((X * X).sum(axis=1)) / 16)
        if name == "reshape":
            return X.reshape(X.shape[0], F, 1).mean(axis=(1, 2))
        if name == "product":
            return X[:, a] * X[:, b]
        if name == "max":
            return X.max(axis=1)
        if name == "sort":
            return xp.sort(X, axis=1)[:, F // 2]
        if name == "gather":
            return X[:, ::-1][:, [a, b]].sum(axis=1)
        return X[:, a] * 0

    def f(xp, params, X):
        h = step(xp, steps[0], X @ params["W"] + params["b"])
        out = step(xp, steps[1], h @ params["V"])
        side = more(xp, wide[0], X) + more(xp, wide[1], X) + X @ params["c"]
        return out + side[:, None]

    return f, params


def written(rng, f, params, K):
    """(The program as a person would hand it over, params= or None, its form)."""
    single = K == 1 and bool(rng.integers(2))
    form = rng.choice(["closure", "params", "vmap", "inner jit", "jit", "method"])
    narrow = {name: np.asarray(array, np.float32) for name, array in params.items()}

    def whole(held, X):
        out = f(jnp, held, X)
        return out[:, 0] if single else out

    if form == "params":
        return whole, narrow, form
    held = {name: jnp.asarray(array) for name, array in narrow.items()}
    if form == "vmap":
        return jax.vmap(lambda x: whole(held, x[None])[0]), None, form
    if form == "inner jit":
        inner = jax.jit(functools.partial(f, jnp))
        return lambda X: inner(held, X)[:, 0] if single else inner(held, X), None, form
    if form == "jit":
        return jax.jit(lambda X: whole(held, X)), None, form
    if form == "method":

        class Net:
            weights = held

            def __call__(self, X):
                return whole(self.weights, X)

        return Net(), None, form
    return lambda X: whole(held, X), None, form


def estimators():
    from sklearn import (  # noqa: PLC0415
        discriminant_analysis,
        ensemble,
        gaussian_process,
        kernel_ridge,
        linear_model,
        multioutput,
        naive_bayes,
        neighbors,
        neural_network,
        svm,
        tree,
    )

    few = {"n_estimators": 3, "random_state": 0}
    classifiers = [
        linear_model.LogisticRegression(),
        linear_model.RidgeClassifier(),
        linear_model.SGDClassifier(loss="log_loss", random_state=0),
        tree.DecisionTreeClassifier(max_depth=3, random_state=0),
        ensemble.RandomForestClassifier(max_depth=3, **few),
        ensemble.ExtraTreesClassifier(max_depth=3, **few),
        ensemble.GradientBoostingClassifier(max_depth=2, **few),
        ensemble.HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2, random_state=0),
        ensemble.AdaBoostClassifier(**few),
        ensemble.BaggingClassifier(**few),
        naive_bayes.GaussianNB(),
        naive_bayes.BernoulliNB(),
        neighbors.KNeighborsClassifier(3, weights="distance"),
        discriminant_analysis.LinearDiscriminantAnalysis(),
        discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.5),
        neural_network.MLPClassifier(hidden_layer_sizes=(4,), max_iter=30, random_state=0),
        svm.SVC(gamma=0.3),
        svm.LinearSVC(random_state=0),
    ]
    regressors = [
        linear_model.LinearRegression(),
        linear_model.Ridge(),
        linear_model.PoissonRegressor(),
        linear_model.BayesianRidge(),
        tree.DecisionTreeRegressor(max_depth=3, random_state=0),
        ensemble.RandomForestRegressor(max_depth=3, **few),
        ensemble.GradientBoostingRegressor(max_depth=2, **few),
        ensemble.HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=2, random_state=0),
        ensemble.VotingRegressor(
            [("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=2))]
        ),
        neighbors.KNeighborsRegressor(3),
        neural_network.MLPRegressor(hidden_layer_sizes=(4,), max_iter=30, random_state=0),
        svm.SVR(gamma=0.3),
        kernel_ridge.KernelRidge(kernel="rbf", gamma=0.2),
        gaussian_process.GaussianProcessRegressor(optimizer=None, alpha=0.5),
        multioutput.MultiOutputRegressor(linear_model.Ridge()),
        tree.DecisionTreeRegressor(max_depth=3, random_state=1),  # of two targets
    ]
    return classifiers, regressors


def steps(rng, F):
    """Transformers before an estimator."""
    from sklearn import decomposition, impute, preprocessing  # noqa: PLC0415

    every = [
        preprocessing.StandardScaler(),
        preprocessing.MinMaxScaler(),
        preprocessing.RobustScaler(),
        preprocessing.PolynomialFeatures(2, include_bias=bool(rng.integers(2))),
        preprocessing.KBinsDiscretizer(3, encode="onehot-dense", quantile_method="linear")
        if "quantile_method" in inspect.signature(preprocessing.KBinsDiscretizer).parameters
        else preprocessing.KBinsDiscretizer(3, encode="onehot-dense"),
        decomposition.PCA(min(2, F)),
        preprocessing.Normalizer(),
        impute.SimpleImputer(strategy=str(rng.choice(["mean", "median"]))),
    ]
    return [copy.deepcopy(every[i]) for i in rng.permutation(len(every))[: rng.integers(3)]]


NAMES = [
    ["a", "b", "c"], ["", " ", "\u00e9"], [0, 1, 2], [2, 1, 0], ["x1", "x0", "x2"],
    ["base_value", "player 0", "instance"], [1.5, None, "n"], ["a" * 300, "\n", "b=1,c"],
]  # fmt: skip


def held_otherwise(rng, array):
    """(the same numbers, held in another way; the numbers [M, 3] that this way keeps)."""
    kind = rng.choice(["dtype", "strides", "list", "jax", "pandas", "polars", "big end", "memory"])
    if kind == "dtype":
        dtype = rng.choice(["f2", "f4", "f8", "i1", "i2", "i4", "i8", "?"])
        array = array.astype(dtype)
        return array, array.astype(np.float64), f"{kind} {dtype}"
    if kind == "strides":
        wide = np.repeat(np.repeat(array, 2, axis=0), 3, axis=1)[::2, ::3]
        wide = np.asfortranarray(wide) if rng.integers(2) else wide
        return wide[::-1, ::-1][::-1, ::-1], array, kind
    if kind == "list":
        return array.tolist(), array, kind
    if kind == "jax":
        return jnp.asarray(array), array, kind
    if kind == "big end":
        return array.astype(">f8"), array, kind
    if kind == "memory":
        array.flags.writeable = False
        return array, array, kind
    return (kind, rng), array, kind  # a frame, which is made of both tables alike


def framed(kind, array, names, rng):
    if kind == "polars":
        polars = pytest.importorskip("polars")
        return polars.DataFrame({str(n): array[:, j] for j, n in enumerate(names)})
    M = len(array)
    indices = [
        list("zyxwvutsrq")[:M],
        [0] * M,
        pd.date_range("2020", periods=M),
        pd.MultiIndex.from_arrays([range(M), range(M)]),
        pd.RangeIndex(5, 5 + M),
    ]
    frame = pd.DataFrame(array, columns=pd.Index(names, dtype=object))
    frame.index = indices[rng.integers(len(indices))]
    dtypes = ["float64", "float32", "Float64", "int64", "Int32"]
    whole = (array == np.round(array)).all(axis=0)
    for j in range(array.shape[1]):
        dtype = dtypes[rng.integers(5 if whole[j] else 3)]
        frame.isetitem(j, frame.iloc[:, j].astype(dtype))
    return frame


class Scaled:
    """A person's own model, whose state is changed and which is fitted again."""

    def __init__(self):
        self.scale, self.weights = 1.0, np.ones(3)

    def fit(self, weights):
        self.weights = np.asarray(weights, np.float64)
        return self

    def __call__(self, rows):
        return (np.tanh(np.asarray(rows) @ self.weights) + rows[:, 0] * rows[:, 1]) * self.scale
