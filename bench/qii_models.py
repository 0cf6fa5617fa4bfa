"""The paper's four classifiers on Adult: fitted by scikit-learn, and the same written in JAX.

The protocol of the authors: 13 inputs one-hot, a missing value an all-zero block, 40 % for
training; data and pool are the rest. `pipeline` is the same estimator behind the encoder and the
scaler, for rows of one code for each input: what a user of scikit-learn holds.

Letters: R rows, F columns, P players.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import xaijax
from bench.frame import NotRun
from bench.models import adult_table

KINDS = ("logistic", "kernel svm", "tree", "forest")


@dataclass(frozen=True)
class Classifier:
    """One classifier with its data."""

    kind: str
    data: np.ndarray  # float32 [R, F]
    women: np.ndarray  # bool [R]
    players: dict[str, list[int]]
    predict: Callable[[np.ndarray], np.ndarray]  # scikit-learn's own, -> bool [R]
    model: Any  # from as_model: the same in JAX
    codes: np.ndarray  # float32 [R, P], numbers, and places of texts; -1: missing
    pipeline: Pipeline  # codes -> the same classes

    @property
    def groups(self) -> list[np.ndarray]:
        """Columns of each player."""
        return [np.array(columns) for columns in self.players.values()]


def classifiers(train: int | None = None, kinds: tuple[str, ...] = KINDS) -> list[Classifier]:
    """All of them; train: rows to fit on, None: 40 %."""
    frame, y = adult_table("raw")
    frame = frame.drop(columns="fnlwgt")
    blocks, players, width = [], {}, 0
    codes, steps = [], []
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind in "if":
            block = column.to_numpy(np.float64)[:, None]
            codes.append(block[:, 0])
            steps.append((str(name), "passthrough", [len(steps)]))
        else:
            values = sorted(set(column) - {"?"})
            codes.append(column.map({v: i for i, v in enumerate(values)}).fillna(-1))
            values = values[:1] if len(values) == 2 else values
            known = np.arange(len(values), dtype=np.float32)
            encoder = OneHotEncoder(
                categories=cast("Any", [known]), handle_unknown="ignore", sparse_output=False
            )
            steps.append((str(name), encoder, [len(steps)]))
            block = np.stack([(column == value).to_numpy(np.float64) for value in values], axis=1)
        players[str(name)] = list(range(width, width + block.shape[1]))
        width += block.shape[1]
        blocks.append(block)
    rows, labels = np.concatenate(blocks, axis=1), y.to_numpy()
    cut = int(0.4 * len(rows))
    used = cut if train is None else min(train, cut)
    scaler = StandardScaler().fit(rows[:cut])
    scaled = np.asarray(scaler.transform(rows)).astype(np.float32)
    coded = np.stack(codes, axis=1).astype(np.float32)
    encode = ColumnTransformer(steps).fit(coded[:cut])
    if not np.array_equal(encode.transform(coded), rows):
        raise AssertionError("the encoder makes other columns than the authors'")
    women = (frame["sex"] == "Female").to_numpy()[cut:]
    found = []
    for kind in kinds:
        fitted: Any = _estimator(kind).fit(scaled[:used], labels[:used])
        model = xaijax.as_model(_in_jax(fitted), output="decision", classes=[False, True])
        pipeline = make_pipeline(encode, scaler, fitted)
        found.append(
            Classifier(
                *(kind, scaled[cut:], women, players, fitted.predict, model, coded[cut:], pipeline)
            )
        )
    return found


def _estimator(kind: str) -> Any:
    return {
        "logistic": lambda: LogisticRegression(max_iter=1_000),
        "kernel svm": lambda: SVC(),
        "tree": lambda: DecisionTreeClassifier(max_depth=2, random_state=0),
        "forest": lambda: GradientBoostingClassifier(
            n_estimators=20, max_depth=2, learning_rate=1.0, random_state=0
        ),
    }[kind]()


def _in_jax(fitted: Any) -> Callable[[jax.Array], jax.Array]:
    """Rows [R, F] -> the decision [R], positive for the second class."""
    name = type(fitted).__name__
    if name == "LogisticRegression":
        weight, bias = fitted.coef_[0].astype(np.float32), np.float32(fitted.intercept_[0])
        return lambda rows: rows @ weight + bias
    if name == "SVC":
        return _kernel(fitted)
    if name == "DecisionTreeClassifier":
        share = fitted.tree_.value[:, 0, :]
        return _trees([fitted.tree_], [share[:, 1] - share[:, 0]], 0.0)
    if name == "GradientBoostingClassifier":
        trees = [one.tree_ for one in fitted.estimators_[:, 0]]
        start = np.log(fitted.init_.class_prior_[1] / fitted.init_.class_prior_[0])
        leaves = [fitted.learning_rate * tree.value[:, 0, 0] for tree in trees]
        return _trees(trees, leaves, float(start))
    raise NotRun(f"no JAX form of {name}")


def _kernel(fitted: Any) -> Callable[[jax.Array], jax.Array]:
    vectors = fitted.support_vectors_.astype(np.float32)
    dual, bias = fitted.dual_coef_[0].astype(np.float32), np.float32(fitted.intercept_[0])
    gamma, norms = np.float32(fitted._gamma), (vectors**2).sum(axis=1)

    def decision(rows: jax.Array) -> jax.Array:
        distance = (rows**2).sum(axis=1)[:, None] + norms - 2 * rows @ vectors.T
        return jnp.exp(-gamma * distance) @ dual + bias

    return decision


def _trees(trees: list[Any], leaves: list[np.ndarray], start: float) -> Callable[..., jax.Array]:
    """Trees of depth 2: three comparisons each, four leaves."""
    tests: list[tuple[int, np.float32]] = []
    tables = []
    for tree, value in zip(trees, leaves, strict=True):
        places = []
        for path in range(4):
            node, places = 0, places
            for step in (path >> 1, path & 1):
                if tree.children_left[node] >= 0:
                    node = (tree.children_right if step else tree.children_left)[node]
            places.append(value[node])
        tables.append(places)
        for node in (0, tree.children_left[0], tree.children_right[0]):
            inner = node >= 0 and tree.children_left[node] >= 0
            column = int(tree.feature[node]) if inner else 0
            tests.append((column, _below(tree.threshold[node]) if inner else np.float32(np.inf)))
    columns = np.array([column for column, _ in tests])
    bounds = np.array([bound for _, bound in tests], np.float32)
    table = np.array(tables, np.float32)  # [trees, 4]

    def decision(rows: jax.Array) -> jax.Array:
        right = (rows[:, columns] > bounds).reshape(len(rows), -1, 3)
        low = jnp.where(right[:, :, 1], table[:, 1], table[:, 0])
        high = jnp.where(right[:, :, 2], table[:, 3], table[:, 2])
        return jnp.where(right[:, :, 0], high, low).sum(axis=1) + np.float32(start)

    return decision


def _below(threshold: float) -> np.float32:
    """The largest float32 up to a threshold, so that float32 inputs fall on the same side."""
    near = np.float32(threshold)
    return near if near <= threshold else np.nextafter(near, np.float32(-np.inf))
