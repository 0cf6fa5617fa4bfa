"""Translates decision trees, forests and boosted trees.

scikit-learn's trees take rows in float32 and compare x <= t with t in float64; the histogram kind
takes both in float64. Thresholds are rounded down, not to nearest, and rows are rounded so that
they stay on their side of every threshold (`columns.rounded_down`, `on_their_side`, `folded`).
Every row therefore reaches the same leaf as in scikit-learn. (After a scaler this holds for float64
rows. scikit-learn scales float32 rows in float32, where a row within a rounding of a threshold may
fall on its other side.)

Letters: R rows, M nodes, T trees, K outputs, L leaves of all trees, C columns that the trees
read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax.models.identity.patched import of_sklearn
from xaijax.models.translations.columns import Columns, Map, rounded_down
from xaijax.models.translations.registry import (
    Head,
    Translation,
    logistic,
    only,
    place,
    then,
    translates,
    translation,
    two,
)
from xaijax.tables.table import Untranslatable
from xaijax_kernels.structures.named import xaijax_leaf_sums
from xaijax_kernels.structures.nodes import flat


def trees_with(
    estimators: Any, values: list[np.ndarray], columns: Columns, places: Any = None
) -> list[Tree]:
    """scikit-learn's trees with other values [m, K] at their nodes.

    places: the columns of each tree; None: all.
    """
    columns.as_values()
    inner, every = [estimator.tree_ for estimator in estimators], np.arange(len(columns))
    columns_of = [every] * len(inner) if places is None else places
    trees = [
        Tree(
            np.asarray(tree.children_left, np.int64),
            np.asarray(tree.children_right, np.int64),
            np.where(tree.feature >= 0, of_tree[tree.feature], 0),
            np.array(tree.threshold, np.float64),
            np.array(getattr(tree, "missing_go_to_left", np.zeros(tree.node_count))) != 0,
            value,
            cover=np.array(tree.weighted_n_node_samples, np.float64),
        )
        for tree, value, of_tree in zip(inner, values, columns_of, strict=True)
    ]
    return folded_trees(trees, columns, np.float32)


def folded_trees(trees: list[Tree], columns: Columns, seen: Any) -> list[Tree]:
    """Trees that compare the rows' own numbers in JAX's dtype; seen: the dtype to which they
    cast."""
    splits = [tree.left >= 0 if tree.category_split is None
              else (tree.left >= 0) & (tree.category_split < 0) for tree in trees]  # fmt: skip
    of_splits = [
        np.concatenate([array[split] for array, split in zip(arrays, splits, strict=True)])
        for arrays in zip(*((t.feature, t.threshold, t.missing_left) for t in trees), strict=True)
    ]
    feature, cuts, left = of_splits
    thresholds, left = folded(columns, feature, cuts, left, seen)
    bounds = np.cumsum([split.sum() for split in splits])[:-1]
    made = []
    for tree, split, cuts, goes in zip(
        trees, splits, np.split(thresholds, bounds), np.split(left, bounds), strict=True
    ):
        threshold, missing_left = tree.threshold.copy(), tree.missing_left.copy()
        threshold[split], missing_left[split] = cuts, goes
        threshold = rounded_down(threshold, columns.dtype)
        made.append(dataclasses.replace(tree, threshold=threshold, missing_left=missing_left))
    return made


def of_scores(scores: TreeScores, columns: Columns) -> Translation:
    """The translation of a model whose outputs are functions of sums over trees."""
    params, head = _summed(scores.trees, columns, scores.missing)
    if scores.guess is not None:
        params["guess"] = columns.number(scores.guess)

    def raw(params: Any, rows: Any) -> Any:
        sums = head(params, rows)
        return sums if scores.guess is None else sums + params["guess"]

    heads = {word: then(raw, answer) for word, answer in scores.heads.items()}
    return Translation(params, heads, "trees", scores.missing, tree_scores=scores)


def takes_nan(estimator: Any) -> bool:
    """Whether rows may hold NaN, by scikit-learn's tags."""
    return bool(estimator.__sklearn_tags__().input_tags.allow_nan)


def mean_of_trees(
    estimators: Any, columns: Columns, classes: Any, whole: Any, places: Any = None
) -> Translation:
    """The mean over trees of class shares [R, K], or of targets [R] or [R, K].

    classes: None for a regressor; a list of arrays for several targets. places: see `trees_with`.
    """
    # [m, targets, classes] of each tree
    values, T = [np.asarray(tree.tree_.value, np.float64) for tree in estimators], len(estimators)
    several = isinstance(classes, list)  # offsets of the classes of several targets
    if classes is None:
        less = columns.taken_from_answers().reshape(1, -1)
        values = [(value[:, :, 0] - less) / T for value in values]
    elif several:
        values = [_of_targets(value, [len(labels) for labels in classes], T) for value in values]
    else:
        shares = [value[:, 0] for value in values]
        totals = [share.sum(axis=1, keepdims=True) for share in shares]
        if len(classes) == 2 and all(total.all() for total in totals):
            return _of_two(estimators, shares, totals, columns, whole, places)
        pairs = zip(shares, totals, strict=True)
        values = [share / np.where(total == 0, 1, total) / T for share, total in pairs]
    trees = trees_with(estimators, values, columns, places)
    heads: dict[str, Callable[[Any], Any]] = {"value": only}
    if classes is not None:
        heads = {"proba": lambda x: x} if several else {"proba": lambda x: x, "label": place}
    return of_scores(TreeScores(trees, takes_nan(whole), None, heads), columns)


def _of_targets(value: np.ndarray, counts: list[int], T: int) -> np.ndarray:
    """The class shares of all targets, concatenated, [m, targets, classes] -> [m, K], over T."""
    shares = [value[:, t, :count] for t, count in enumerate(counts)]
    totals = [share.sum(axis=1, keepdims=True) for share in shares]
    whole = zip(shares, totals, strict=True)
    return np.concatenate([a / np.where(total == 0, 1, total) / T for a, total in whole], axis=1)


def _of_two(
    estimators: Any, shares: list[Any], totals: list[Any], columns: Columns, whole: Any, places: Any
) -> Translation:
    """Sum for two classes: the second's share minus the first's, from -1 to 1 per tree.

    It is not divided by the number of trees, so that equal numbers of trees for each sum to 0.
    """
    pairs = zip(shares, totals, strict=True)
    values = [(share[:, 1:] - share[:, :1]) / total for share, total in pairs]
    trees, T = trees_with(estimators, values, columns, places), len(estimators)
    heads = {
        "proba": lambda x: two(0.5 + x[:, 0] / (2 * T)),
        "label": lambda x: place(x[:, 0]),
    }
    return of_scores(TreeScores(trees, takes_nan(whole), None, heads), columns)


TREES = (
    *("DecisionTreeClassifier", "DecisionTreeRegressor", "ExtraTreeClassifier"),
    "ExtraTreeRegressor",
)


@translates(*TREES, mixed=True, thresholds=True)
def tree(estimator: Any, columns: Columns) -> Translation:
    """One tree: the shares of the classes in the leaf, or its mean."""
    return mean_of_trees([estimator], columns, getattr(estimator, "classes_", None), estimator)


FORESTS = (
    *("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier"),
    "ExtraTreesRegressor",
)


@translates(*FORESTS, mixed=True, thresholds=True)
def random_forest(estimator: Any, columns: Columns) -> Translation:
    """The mean of its trees."""
    classes = getattr(estimator, "classes_", None)
    return mean_of_trees(estimator.estimators_, columns, classes, estimator)


FEW = 16  # rows up to which a pool of jobs takes longer than the trees


def by_trees(forest: Any, head: Callable[..., Any]) -> Callable[..., Any]:
    """`head` (predict or predict_proba of a forest) that evaluates a few rows tree by tree, without
    the pool of jobs that scikit-learn starts for each call.

    Results are identical: without n_jobs= the forest's sum has this order. The first such rows are
    evaluated both ways, and if a bit differs all later ones by `head`.
    """
    same: bool | None = None

    def answers(rows: Any) -> Any:
        nonlocal same
        numbers = isinstance(rows, np.ndarray) and rows.dtype.kind in "fiu"
        if same is False or not numbers or len(rows) > FEW or forest.n_jobs not in (None, 1):
            return head(rows)
        with np.errstate(over="ignore"):
            seen = rows.astype(np.float32)
        if seen.shape[1:] != (forest.n_features_in_,) or not np.isfinite(seen).all():
            return head(rows)
        total: Any = sum(tree.tree_.predict(seen) for tree in forest.estimators_)
        mean = total / len(forest.estimators_)
        mean = mean if hasattr(forest, "classes_") else mean[:, 0]
        if same is None:
            wanted = head(rows)
            same = np.array_equal(mean, wanted)
            return wanted
        return mean

    known = of_sklearn(type(forest)) and type(forest).__name__ in FORESTS
    return answers if known and forest.n_outputs_ == 1 else head


@translates("GradientBoostingClassifier", "GradientBoostingRegressor", mixed=True, thresholds=True)
def gradient_boosting(estimator: Any, columns: Columns) -> Translation:
    """The initial constant plus the learning rate times the trees."""
    if estimator.init_ != "zero" and not type(estimator.init_).__name__.startswith("Dummy"):
        raise Untranslatable("its first guess, init=, is a model of its own")
    stages = np.asarray(estimator.estimators_, object)  # [stages, K]
    K = stages.shape[1]
    values = []
    for row in stages:
        for k, member in enumerate(row):
            value = np.zeros((member.tree_.node_count, K))
            value[:, k] = estimator.learning_rate * member.tree_.value[:, 0, 0]
            values.append(value)
    # The constant does not depend on the row, but no attribute holds it.
    guess = estimator._raw_predict_init(np.zeros((1, estimator.n_features_in_), np.float32))[0]
    trees = trees_with(stages.ravel(), values, columns)
    if not hasattr(estimator, "classes_"):
        guess = guess - columns.taken_from_answers()
        return of_scores(TreeScores(trees, False, np.ravel(guess), {"value": only}), columns)
    exponential = estimator.loss == "exponential"
    heads: dict[str, Callable[[Any], Any]] = {
        "decision": only,
        "proba": lambda x: logistic(2 * only(x) if exponential else only(x)),
        # Only here does a score of 0 decide for the second of two classes.
        "label": lambda x: (x[:, 0] >= 0).astype("int32") if K == 1 else x.argmax(axis=1),
    }
    return of_scores(TreeScores(trees, False, np.ravel(guess), heads), columns)


LINKS = {"IdentityLink": lambda x: x, "LogLink": jnp.exp}


@translates(
    *("HistGradientBoostingClassifier", "HistGradientBoostingRegressor"),
    mixed=True,
    thresholds=True,
)
def histogram_boosting(estimator: Any, columns: Columns) -> Translation:
    """Trees on float64 values; each split decides where missing values and categories go."""
    before = None
    inner = columns
    if estimator._preprocessor is not None:  # categories as numbers, in front
        before = translation(estimator._preprocessor, columns)
        assert before.outputs is not None
        inner = before.outputs
    inner.as_values()
    stages = estimator._predictors
    K = estimator.n_trees_per_iteration_
    trees = [_histogram(predictor, k, K) for stage in stages for k, predictor in enumerate(stage)]
    guess = np.ravel(estimator._baseline_prediction)
    classifies, link = hasattr(estimator, "classes_"), type(estimator._loss.link).__name__
    if not classifies and link == "IdentityLink":
        guess = guess - columns.taken_from_answers()
    elif not classifies and link not in LINKS:
        raise Untranslatable(f"its link, {link}, has no translation")
    heads: dict[str, Callable[[Any], Any]] = (
        {"decision": only, "proba": lambda x: logistic(only(x)), "label": lambda x: place(only(x))}
        if classifies
        else {"value": lambda x: LINKS[link](only(x))}
    )
    trees = folded_trees(trees, inner, np.float64)
    translated = of_scores(TreeScores(trees, True, guess, heads), inner)
    if before is None:
        return translated
    encode = before.heads["transform"]

    def behind(head: Head) -> Head:
        return lambda params, rows: head(params[0], encode(params[1], rows))

    made = {word: behind(head) for word, head in translated.heads.items()}
    return Translation((translated.params, before.params), made, "trees", True)


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
        np.asarray(nodes["count"], np.float64),
    )


def _categories(bitsets: np.ndarray, split: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Branch of each category, bool [splits, 257]; the last column: missing or unknown.

    The numbers come from the encoder in front, which turns unknown categories into missing values.
    """
    bits = (bitsets[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1
    table = np.zeros((len(bitsets), 257), bool)
    table[:, :256] = bits.reshape(len(bitsets), 256) != 0
    used = split >= 0
    table[split[used], 256] = missing[used]
    return table


# By matrix product a hybrid costs one multiplication per leaf and output; by walking one step per
# tree and level. 128 multiplications take as long as one step (two CPU cores).
LEAVES_PER_STEP = 128


def _summed(trees: list[Tree], columns: Columns, missing: bool) -> tuple[dict[str, Any], Head]:
    """(params, the sum of leaves' values [R, K] as a function that a trace recognises as trees).

    missing: rows may hold NaN.
    """
    arrays, levels = forest(trees, columns)
    params: dict[str, Any] = dict(arrays)
    # A missing value that an earlier step fills still reaches the tree, and goes where the filled
    # value would.
    if not missing and all(function is None for function in columns.maps):
        del params["missing_left"]
    read = np.unique(np.concatenate([tree.feature[tree.left >= 0] for tree in trees]))
    read = read if len(read) else np.zeros(1, np.int64)
    place = np.maximum(np.searchsorted(read, np.arange(read[-1] + 1)), 0)
    params["feature"] = place[np.where(params["feature"] > read[-1], 0, params["feature"])]
    params["feature"] = params["feature"].astype(np.int32)
    params["levels"] = np.zeros((max(levels, 1), len(read)), bool)
    every = len(read) == len(columns)
    K, leaves = trees[0].value.shape[1], sum(int((tree.left < 0).sum()) for tree in trees)
    if leaves * K <= LEAVES_PER_STEP * len(trees) * max(levels, 1):
        gaps = "missing_left" in params
        kinds = _kinds(trees, place)
        parts = zip(*(_boxes(tree, place, len(read), gaps, kinds) for tree in trees), strict=True)
        low, high, gap, values, codes = (np.concatenate(part) for part in parts)
        dtype, categories = columns.dtype, len(kinds.columns) > 0
        gap = gap if gaps or categories else gap[:0]
        boxes = low.astype(dtype), high.astype(dtype), gap, columns.number(values)
        params["boxes"] = (*boxes, *kinds.packed(codes)) if categories else boxes

    def summed(params: Any, rows: Any) -> Any:
        rows = rows if every else rows[:, read]
        return xaijax_leaf_sums(rows, flat(params), params.get("boxes", ()))

    return params, summed


@dataclass(frozen=True)
class _Kinds:
    """The columns of categories among the columns that are read."""

    columns: np.ndarray  # int [c]
    number: np.ndarray  # int32 [C], the position of each column among them; -1: numeric
    words: int  # words of 32 codes; the last code: unknown

    def of_splits(self, goes_left: np.ndarray) -> np.ndarray:
        """The table of a tree with all codes."""
        return _wide(goes_left, 32 * self.words)

    def packed(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(codes bool [L, c, 32 words] as bits, uint32 [c, words, L]; `number`)."""
        packed = np.packbits(codes, axis=2, bitorder="little").view("<u4").astype(np.uint32)
        return np.ascontiguousarray(packed.transpose(1, 2, 0)), self.number


def _kinds(trees: list[Tree], place: np.ndarray) -> _Kinds:
    splits = [
        (tree.feature[tree.category_split >= 0], tree.goes_left.shape[1])
        for tree in trees
        if tree.category_split is not None and tree.goes_left is not None
    ]
    chosen = [place[feature] for feature, _ in splits]
    columns = np.unique(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)
    number = np.full(int(place.max()) + 1, -1, np.int32)
    number[columns] = np.arange(len(columns))
    return _Kinds(columns, number, -(-max((width for _, width in splits), default=0) // 32))


def _boxes(
    tree: Tree, place: np.ndarray, width: int, gaps: bool, kinds: _Kinds
) -> tuple[np.ndarray, ...]:
    """(low [l, C], high [l, C], where NaN passes bool [l, C], values [l, K], codes bool
    [l, c, 32 words]): a leaf is reached where low < z <= high, and by its codes of categories.

    place: the position of each column among those that are read; gaps: whether nodes define where
    NaN goes.
    """
    low = np.full((len(tree.left), width), -np.inf)
    high = np.full((len(tree.left), width), np.inf)
    gap = np.ones(low.shape, bool)
    codes = np.ones((len(low), len(kinds.columns), 32 * kinds.words), bool)
    split = np.full(len(low), -1) if tree.category_split is None else tree.category_split
    table = None if tree.goes_left is None else kinds.of_splits(tree.goes_left)
    level = np.zeros(1, np.int64)
    while len(level):
        node = level[tree.left[level] >= 0]
        left, right, column = tree.left[node], tree.right[node], place[tree.feature[node]]
        by_code = split[node] >= 0
        cut = tree.threshold[node].astype(np.float64)
        for child in (left, right):
            low[child], high[child], gap[child] = low[node], high[node], gap[node]
            codes[child] = codes[node]
        high[left, column] = np.minimum(high[left, column], np.where(by_code, np.inf, cut))
        low[right, column] = np.maximum(low[right, column], np.where(by_code, -np.inf, cut))
        goes = tree.missing_left[node] & gaps
        if table is not None:
            goes_left, kind = table[split[node[by_code]]], kinds.number[column[by_code]]
            codes[left[by_code], kind] &= goes_left
            codes[right[by_code], kind] &= ~goes_left
            goes[by_code] |= goes_left[:, -1]
        gap[left, column] &= goes
        gap[right, column] &= ~goes
        level = np.concatenate([left, right])
    leaf = tree.left < 0
    return low[leaf], high[leaf], gap[leaf], tree.value[leaf], codes[leaf]


# A tree reads a column only through x <= t. If an earlier step maps the column by a nondecreasing
# function g, g(x) <= t is x <= b for the largest b with g(b) <= t. g need not be computed in JAX,
# whose rounding would change the side of rows that lie on a threshold (as filled means do): b is
# found with g as scikit-learn computes it, in float64, and the tree reads the rows themselves.


def folded(
    columns: Columns, feature: np.ndarray, cuts: np.ndarray, left: np.ndarray, seen: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(thresholds of the rows' own numbers float64 [m], where NaN goes bool [m]).

    For all m splits of all trees: `feature` [m], cast to `seen` (float32 or float64), is compared
    with `cuts` [m]; left: where a NaN at the node goes.
    """
    thresholds, left = np.array(cuts, np.float64), left.copy()
    exact = np.dtype(seen) == columns.dtype  # JAX sees what the tree does
    for j in np.unique(feature):
        splits = feature == j
        source, mapped = columns[int(j)], columns.maps[int(j)]
        step = mapped or (lambda x: x)

        def goes(x: np.ndarray, cuts: np.ndarray, step: Map = step) -> np.ndarray:
            with np.errstate(all="ignore"):
                return step(x).astype(seen) <= cuts

        if mapped is not None or (seen == np.float32 and not exact):
            distinct, place = np.unique(cuts[splits], return_inverse=True)
            thresholds[splits] = _largest(goes, distinct)[place]
        if mapped is not None:
            filled = step(np.array([np.nan]))
            if not np.isnan(filled[0]):
                left[splits] = filled.astype(seen) <= cuts[splits]
        # A tree itself rounds to the nearest float32 before it compares.
        if source is not None and (mapped is not None or not exact):
            source.cuts.append(np.unique(thresholds[splits]))
        elif source is not None and seen == np.float32:
            source.rounded.append(np.unique(thresholds[splits]))
    return thresholds, left


def _largest(goes: Callable[[np.ndarray, np.ndarray], np.ndarray], cuts: np.ndarray) -> np.ndarray:
    """The largest float64 that goes left, by bisection over all numbers; -inf: none."""
    low = np.full(len(cuts), _order(np.array([-np.inf]))[0])  # goes left, or none does
    high = np.full(len(cuts), _order(np.array([np.inf]))[0])  # does not
    for _ in range(64):  # the number of bits of a float64
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        left = goes(_number(middle), cuts)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return _number(low)


def _order(x: np.ndarray) -> np.ndarray:
    """Integers in the order of float64 numbers."""
    bits = x.view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits - 1, bits)


def _number(order: np.ndarray) -> np.ndarray:
    return np.where(order < 0, np.int64(-(2**63)) - order - 1, order).view(np.float64)


@dataclass(frozen=True)
class Tree:
    """One fitted tree, nodes in any order, node 0 the root."""

    left: np.ndarray  # int [m], -1 at leaves
    right: np.ndarray  # int [m]
    feature: np.ndarray  # int [m]
    threshold: np.ndarray  # [m] in the dtype of comparison: x <= threshold goes left
    missing_left: np.ndarray  # bool [m], where NaN goes
    value: np.ndarray  # float64 [m, K], read at leaves
    category_split: np.ndarray | None = None  # int [m], the row of `goes_left`; -1: none
    goes_left: np.ndarray | None = None  # bool [c, width]: categories; the last: unknown
    cover: np.ndarray | None = None  # float64 [m], the weight of training rows; None: unknown


@dataclass(frozen=True)
class TreeScores:
    """A model that depends on its rows only through K sums over trees."""

    trees: list[Tree]  # folded, see `folded_trees`
    missing: bool  # whether rows may hold NaN
    guess: np.ndarray | None  # float64 [K], added to the sums; None: nothing
    heads: Mapping[str, Callable[[Any], Any]]  # by word: sums [R, K] -> outputs

    @property
    def width(self) -> int:
        """K."""
        return self.trees[0].value.shape[1]


def forest(trees: list[Tree], columns: Columns) -> tuple[dict[str, np.ndarray], int]:
    """(params of all trees together, levels below the roots).

    Nodes are renumbered level by level in each tree, so that the right child directly follows the
    left one and only "left" is stored. A leaf is its own left child, and every row goes left there.
    """
    parts: dict[str, list[np.ndarray]] = {}
    roots, levels, nodes, splits = [], 0, 0, 0
    categorical = any(tree.goes_left is not None for tree in trees)
    width = max([t.goes_left.shape[1] for t in trees if t.goes_left is not None], default=0)
    for tree in trees:
        order, depth = _by_level(tree)
        place = np.empty(len(tree.left), np.int64)
        place[order] = np.arange(len(order))
        leaf = tree.left[order] < 0
        left = np.where(leaf, np.arange(len(order)), place[tree.left[order]])
        arrays_of_tree = {
            "left": (left + nodes).astype(np.int32),
            "feature": np.where(leaf, 0, tree.feature[order]).astype(np.int32),
            "threshold": np.where(leaf, np.inf, tree.threshold[order]).astype(tree.threshold.dtype),
            "missing_left": leaf | tree.missing_left[order],
            "value": columns.number(np.where(leaf[:, None], tree.value[order], 0.0)),
        }
        if tree.cover is not None:
            arrays_of_tree["cover"] = tree.cover[order]
        if categorical:
            split = np.full(len(order), -1, np.int32)
            if tree.category_split is not None and tree.goes_left is not None:
                split = np.where(leaf, -1, tree.category_split[order])
                split = np.where(split < 0, -1, split + splits).astype(np.int32)
                splits += len(tree.goes_left)
                arrays_of_tree["goes_left"] = _wide(tree.goes_left, width)
            arrays_of_tree["category_split"] = split
        for name, array in arrays_of_tree.items():
            parts.setdefault(name, []).append(array)
        roots.append(nodes)
        nodes, levels = nodes + len(order), max(levels, depth)
    params = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    if len(parts.get("cover", ())) < len(trees):  # only a subset of trees has it
        params.pop("cover", None)
    params["roots"] = np.array(roots, np.int32)
    return params, levels


def _by_level(tree: Tree) -> tuple[np.ndarray, int]:
    """(nodes by level, children side by side; levels below the root)."""
    order, level, depth = [np.zeros(1, np.int64)], np.zeros(1, np.int64), 0
    while True:
        inner = level[tree.left[level] >= 0]
        if not len(inner):
            return np.concatenate(order), depth
        level = np.stack([tree.left[inner], tree.right[inner]], axis=1).ravel()
        order.append(level)
        depth += 1


def _wide(goes_left: np.ndarray, width: int) -> np.ndarray:
    """The table with `width` categories; unknown ones take the branch of its last column."""
    missing = width - goes_left.shape[1]
    return np.concatenate([goes_left, np.repeat(goes_left[:, -1:], missing, axis=1)], axis=1)
