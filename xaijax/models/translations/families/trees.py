"""Decision trees, forests and boosted trees.

scikit-learn's trees take rows in float32 and compare x <= t with t in float64; the histogram kind
takes both in float64. Thresholds are rounded down, never to the nearest, and rows to the side of
every threshold that they are on (`columns.rounded_down`, `on_their_side`, `tree_thresholds`), so
that every row reaches the same leaf as in scikit-learn, to the bit. (Behind a scaler: every row of
float64. Rows of float32 are scaled by scikit-learn in float32, where one that lies within a
rounding of a threshold may fall on its other side.)

Letters: R rows, M nodes, T trees, K outputs.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax.models.translations.columns import Columns, rounded_down
from xaijax.models.translations.families.heads import logistic, place, then, two
from xaijax.models.translations.families.tree_arrays import Tree, forest, sums
from xaijax.models.translations.families.tree_leaves import summed_by_leaves
from xaijax.models.translations.families.tree_thresholds import folded
from xaijax.models.translations.registry import Head, Translation, translates, translation
from xaijax.tables.coded_table import Untranslatable


def _trees(estimators: Any, values: list[np.ndarray], columns: Columns) -> list[Tree]:
    """scikit-learn's trees with other values [m, K] at their nodes."""
    columns.as_values()
    inner = [one.tree_ for one in estimators]
    trees = [
        Tree(
            np.asarray(tree.children_left, np.int64),
            np.asarray(tree.children_right, np.int64),
            np.asarray(tree.feature, np.int64),
            np.array(tree.threshold, np.float64),
            np.array(getattr(tree, "missing_go_to_left", np.zeros(tree.node_count))) != 0,
            value,
        )
        for tree, value in zip(inner, values, strict=True)
    ]
    return _folded(trees, columns, np.float32)


def _folded(trees: list[Tree], columns: Columns, seen: Any) -> list[Tree]:
    """Trees that compare the rows' own numbers in JAX's dtype; seen: to which these cast."""
    splits = [tree.left >= 0 if tree.category_split is None
              else (tree.left >= 0) & (tree.category_split < 0) for tree in trees]  # fmt: skip
    of_splits = [
        np.concatenate([array[own] for array, own in zip(arrays, splits, strict=True)])
        for arrays in zip(*((t.feature, t.threshold, t.missing_left) for t in trees), strict=True)
    ]
    feature, cuts, left = of_splits
    thresholds, left = folded(columns, feature, cuts, left, seen)
    ends = np.cumsum([own.sum() for own in splits])[:-1]
    made = []
    for tree, own, cuts, goes in zip(
        trees, splits, np.split(thresholds, ends), np.split(left, ends), strict=True
    ):
        threshold, missing_left = tree.threshold.copy(), tree.missing_left.copy()
        threshold[own], missing_left[own] = cuts, goes
        threshold = rounded_down(threshold, columns.dtype)
        made.append(dataclasses.replace(tree, threshold=threshold, missing_left=missing_left))
    return made


def _summed(trees: list[Tree], columns: Columns, missing: bool) -> tuple[Any, Head]:
    params, levels = forest(trees, columns)
    # A gap that a step before the tree fills reaches it still, and goes where its filling would.
    missing |= any(function is not None for function in columns.maps)
    return _by_leaves(params, trees, levels, missing, columns)


def _by_leaves(
    params: Any, trees: list[Tree], levels: int, missing: bool, columns: Columns
) -> tuple[Any, Head]:
    def walk(params: Any, rows: Any) -> Any:
        return sums(params, rows, levels, missing)

    return summed_by_leaves(params, walk, trees, levels, columns, len(columns))


def _takes_nan(estimator: Any) -> bool:
    return bool(estimator.__sklearn_tags__().input_tags.allow_nan)


def _mean(estimators: Any, columns: Columns, classes: Any, whole: Any) -> Translation:
    """The mean over trees of class shares [R, K], or of targets [R] or [R, K].

    classes: None of a regressor; a list of arrays where there are several targets.
    """
    # [m, targets, classes] of each tree
    values, T = [np.asarray(one.tree_.value, np.float64) for one in estimators], len(estimators)
    several = isinstance(classes, list)  # of the classes of several targets
    if classes is None:
        less = columns.taken_from_answers().reshape(1, -1)
        values = [(value[:, :, 0] - less) / T for value in values]
    elif several:
        values = [_of_targets(value, [len(labels) for labels in classes], T) for value in values]
    else:
        shares = [value[:, 0] for value in values]
        totals = [share.sum(axis=1, keepdims=True) for share in shares]
        if len(classes) == 2 and all(total.all() for total in totals):
            return _of_two(estimators, shares, totals, columns, whole)
        pairs = zip(shares, totals, strict=True)
        values = [share / np.where(total == 0, 1, total) / T for share, total in pairs]
    trees = _trees(estimators, values, columns)
    params, head = _summed(trees, columns, _takes_nan(whole))
    if classes is not None:
        heads = {"proba": head} if several else {"proba": head, "label": then(head, place)}
    else:
        single = trees[0].value.shape[1] == 1
        heads = {"value": then(head, lambda x: x[:, 0] if single else x)}
    return Translation(params, heads, "trees", _takes_nan(whole))


def _of_targets(value: np.ndarray, counts: list[int], T: int) -> np.ndarray:
    """The class shares of all targets side by side, [m, targets, classes] -> [m, K], over T."""
    own = [value[:, t, :count] for t, count in enumerate(counts)]
    totals = [share.sum(axis=1, keepdims=True) for share in own]
    whole = zip(own, totals, strict=True)
    return np.concatenate([a / np.where(total == 0, 1, total) / T for a, total in whole], axis=1)


def _of_two(
    estimators: Any,
    shares: list[np.ndarray],
    totals: list[np.ndarray],
    columns: Columns,
    whole: Any,
) -> Translation:
    """Of two classes one sum: that of the second's share less the first's, from -1 to 1 a tree.

    Not divided by the number of trees, so that as many trees for one as for the other sum to 0.
    """
    pairs = zip(shares, totals, strict=True)
    values = [(share[:, 1:] - share[:, :1]) / total for share, total in pairs]
    params, head = _summed(_trees(estimators, values, columns), columns, _takes_nan(whole))
    margin, T = then(head, lambda x: x[:, 0]), len(estimators)
    heads = {
        "proba": then(margin, lambda x: two(0.5 + x / (2 * T))),
        "label": then(margin, place),
    }
    return Translation(params, heads, "trees", _takes_nan(whole))


@translates(
    *("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier"),
    "ExtraTreeRegressor",
    mixed=True,
    thresholds=True,
)
def tree(estimator: Any, columns: Columns) -> Translation:
    """One tree: the shares of the classes in the leaf, or its mean."""
    return _mean([estimator], columns, getattr(estimator, "classes_", None), estimator)


@translates(
    *("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier"),
    "ExtraTreesRegressor",
    mixed=True,
    thresholds=True,
)
def random_forest(estimator: Any, columns: Columns) -> Translation:
    """The mean of its trees."""
    return _mean(estimator.estimators_, columns, getattr(estimator, "classes_", None), estimator)


@translates("GradientBoostingClassifier", "GradientBoostingRegressor", mixed=True, thresholds=True)
def gradient_boosting(estimator: Any, columns: Columns) -> Translation:
    """The first guess, a constant, plus the rate times the trees."""
    if estimator.init_ != "zero" and not type(estimator.init_).__name__.startswith("Dummy"):
        raise Untranslatable("its first guess, init=, is a model of its own")
    stages = np.asarray(estimator.estimators_, object)  # [stages, K]
    K = stages.shape[1]
    values = []
    for row in stages:
        for k, one in enumerate(row):
            value = np.zeros((one.tree_.node_count, K))
            value[:, k] = estimator.learning_rate * one.tree_.value[:, 0, 0]
            values.append(value)
    # The constant does not look at the row; there is no attribute that holds it.
    guess = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), np.float32))[0]
    params, head = _summed(_trees(stages.ravel(), values, columns), columns, False)
    if not hasattr(estimator, "classes_"):
        guess = guess - columns.taken_from_answers()
    params["guess"] = columns.number(guess)

    def raw(params: Any, rows: Any) -> Any:
        scores = head(params, rows) + params["guess"]
        return scores[:, 0] if K == 1 else scores

    if not hasattr(estimator, "classes_"):
        return Translation(params, {"value": raw}, "trees")
    exponential = estimator.loss == "exponential"
    proba = then(raw, lambda x: logistic(2 * x if exponential else x))
    # Of two classes the second is decided where the score is 0, here and in no other kind.
    label = then(raw, lambda x: (x >= 0).astype("int32") if x.ndim == 1 else x.argmax(axis=1))
    return Translation(params, {"decision": raw, "proba": proba, "label": label}, "trees")


LINKS = {"IdentityLink": lambda x: x, "LogLink": jnp.exp}


@translates(
    *("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
    mixed=True,
    thresholds=True,
)
def histogram_boosting(estimator: Any, columns: Columns) -> Translation:
    """Trees on values in float64; missing ones and categories go as each split says."""
    before = None
    inner = columns
    if estimator._preprocessor is not None:  # categories as numbers, and in front
        before = translation(estimator._preprocessor, columns)
        assert before.outputs is not None
        inner = before.outputs
    inner.as_values()
    stages = estimator._predictors
    K = estimator.n_trees_per_iteration_
    trees = [_histogram(one, k, K) for stage in stages for k, one in enumerate(stage)]
    trees = _folded(trees, inner, np.float64)
    params, levels = forest(trees, columns)
    params, head = _by_leaves(params, trees, levels, True, inner)
    guess = np.ravel(estimator._baseline_prediction)
    classifies, link = hasattr(estimator, "classes_"), type(estimator._loss.link).__name__
    if not classifies and link == "IdentityLink":
        guess = guess - columns.taken_from_answers()
    params["guess"] = columns.number(guess)

    def raw(params: Any, rows: Any) -> Any:
        own, steps = params if before is not None else (params, None)
        rows = rows if before is None else before.heads["transform"](steps, rows)
        scores = head(own, rows) + own["guess"]
        return scores[:, 0] if K == 1 else scores

    whole = params if before is None else (params, before.params)
    if classifies:
        heads = {"decision": raw, "proba": then(raw, logistic), "label": then(raw, place)}
        return Translation(whole, heads, "trees", True)
    if link not in LINKS:
        raise Untranslatable(f"its link, {link}, has no translation")
    return Translation(whole, {"value": then(raw, LINKS[link])}, "trees", True)


def _histogram(predictor: Any, k: int, K: int) -> Tree:
    nodes = predictor.nodes
    leaf = nodes["is_leaf"] != 0
    categorical = (nodes["is_categorical"] != 0) & ~leaf
    cuts = np.array(nodes["num_threshold"], np.float64)
    missing = nodes["missing_go_to_left"] != 0
    value = np.zeros((len(nodes), K))
    value[:, k] = nodes["value"]
    split = np.where(categorical, nodes["bitset_idx"].astype(np.int64), -1)
    return Tree(
        np.where(leaf, -1, nodes["left"].astype(np.int64)),
        nodes["right"].astype(np.int64),
        nodes["feature_idx"].astype(np.int64),
        cuts,
        missing,
        value,
        split,
        _categories(predictor.raw_left_cat_bitsets, split, missing) if categorical.any() else None,
    )


def _categories(bitsets: np.ndarray, split: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Where each category goes, bool [splits, 257]; the last column: what is missing or unknown.

    The numbers come from the encoder in front, which makes all that it does not know missing.
    """
    bits = (bitsets[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1
    table = np.zeros((len(bitsets), 257), bool)
    table[:, :256] = bits.reshape(len(bitsets), 256) != 0
    used = split >= 0
    table[split[used], 256] = missing[used]
    return table
