"""Decision trees, forests and boosted trees.

scikit-learn's trees take rows in float32 and compare x <= t with t in float64; the histogram kind
takes both in float64. Thresholds are rounded down, never to the nearest, and rows to the side of
every threshold that they are on (`columns.rounded_down`, `on_their_side`, `tree_thresholds`), so
that every row reaches the same leaf as in scikit-learn, bit for bit. (Behind a scaler this holds
for every row of float64. Rows of float32 are scaled by scikit-learn in float32, where one that lies
within a rounding of a threshold may fall on its other side.)

Letters: R rows, M nodes, T trees, K outputs, L leaves of all trees, C columns that the trees
read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.models.identity.patched import of_sklearn
from xaijax.models.translations.columns import Columns, Map, rounded_down
from xaijax.models.translations.registry import (
    Head,
    Translation,
    logistic,
    place,
    then,
    translates,
    translation,
    two,
)
from xaijax.tables.table import Untranslatable
from xaijax_kernels.sizes import trees_together
from xaijax_kernels.structures.named import xaijax_leaf_sums


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


def _takes_nan(estimator: Any) -> bool:
    return bool(estimator.__sklearn_tags__().input_tags.allow_nan)


def _mean(estimators: Any, columns: Columns, classes: Any, whole: Any) -> Translation:
    """The mean over trees of class shares [R, K], or of targets [R] or [R, K].

    classes: None of a regressor; a list of arrays if there are several targets.
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
    shares = [value[:, t, :count] for t, count in enumerate(counts)]
    totals = [share.sum(axis=1, keepdims=True) for share in shares]
    whole = zip(shares, totals, strict=True)
    return np.concatenate([a / np.where(total == 0, 1, total) / T for a, total in whole], axis=1)


def _of_two(
    estimators: Any,
    shares: list[np.ndarray],
    totals: list[np.ndarray],
    columns: Columns,
    whole: Any,
) -> Translation:
    """Sum for two classes: the second's share minus the first's, from -1 to 1 a tree.

    It is not divided by the number of trees, so that as many trees for one as for the other sum to
    0.
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


FORESTS = (
    *("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier"),
    "ExtraTreesRegressor",
)


@translates(*FORESTS, mixed=True, thresholds=True)
def random_forest(estimator: Any, columns: Columns) -> Translation:
    """The mean of its trees."""
    return _mean(estimator.estimators_, columns, getattr(estimator, "classes_", None), estimator)


FEW = 16  # rows to which a pool of jobs takes longer than the trees


def by_trees(forest: Any, head: Callable[..., Any]) -> Callable[..., Any]:
    """`head` (predict or predict_proba of a forest) with few rows answered by the forest's trees
    one after another, without the pool of jobs that scikit-learn starts for each call.

    The bits are those of the forest: without n_jobs= its sum has this order. The first such rows
    are answered both ways, and all later ones by `head` if a bit differs.
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
    # With two classes the second is decided if the score is 0, here and in no other kind.
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
    params, head = _summed(_folded(trees, inner, np.float64), inner, True)
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
    """Branch of each category, bool [splits, 257]; the last column: what is missing or unknown.

    The numbers come from the encoder in front, which makes all that it does not know missing.
    """
    bits = (bitsets[:, :, None] >> np.arange(32, dtype=np.uint32)) & 1
    table = np.zeros((len(bitsets), 257), bool)
    table[:, :256] = bits.reshape(len(bitsets), 256) != 0
    used = split >= 0
    table[split[used], 256] = missing[used]
    return table


# A hybrid costs one multiplication a leaf and output, in a matrix product; walking costs a step a
# tree and level. 128 of the first took as long as one of the second (two CPU cores).
LEAVES_PER_STEP = 128


def _summed(trees: list[Tree], columns: Columns, missing: bool) -> tuple[dict[str, Any], Head]:
    """(params, the sum of leaves' values [R, K]) which a trace shows as boxes, where that pays.

    missing: rows may hold NaN.
    """
    params, levels = forest(trees, columns)
    # A gap that a step before the tree fills reaches it still, and goes where its filling would.
    missing |= any(function is not None for function in columns.maps)

    def walk(params: Any, rows: Any) -> Any:
        return sums(params, rows, levels, missing)

    K = trees[0].value.shape[1]
    leaves = sum(int((tree.left < 0).sum()) for tree in trees)
    categorical = any(tree.goes_left is not None for tree in trees)
    if categorical or leaves * K > LEAVES_PER_STEP * len(trees) * max(levels, 1):
        return params, walk
    parts = zip(*(_boxes(tree, len(columns)) for tree in trees), strict=True)
    low, high, values = (np.concatenate(part) for part in parts)
    dtype = columns.dtype
    boxes = (low.astype(dtype), high.astype(dtype), columns.number(values))

    def by_leaves(params: Any, rows: Any) -> Any:
        return xaijax_leaf_sums(rows, *params["leaves"], params, walk)

    return params | {"leaves": boxes}, by_leaves


def _boxes(tree: Tree, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(low [l, C], high [l, C], values [l, K]): a leaf is reached where low < z <= high."""
    low = np.full((len(tree.left), width), -np.inf)
    high = np.full((len(tree.left), width), np.inf)
    level = np.zeros(1, np.int64)
    while len(level):
        node = level[tree.left[level] >= 0]
        left, right, column = tree.left[node], tree.right[node], tree.feature[node]
        cut = tree.threshold[node].astype(np.float64)
        for child in (left, right):
            low[child], high[child] = low[node], high[node]
        high[left, column] = np.minimum(high[left, column], cut)
        low[right, column] = np.maximum(low[right, column], cut)
        level = np.concatenate([left, right])
    leaf = tree.left < 0
    return low[leaf], high[leaf], tree.value[leaf]


# A tree sees a column only through x <= t. If a step before it maps a column by a function g that
# never falls, g(x) <= t is x <= b for the largest b with g(b) <= t. g then need not be computed in
# JAX, where its rounding would turn rows that lie on a threshold (a mean that fills gaps does): b
# is found from g as scikit-learn computes it, in float64, and the tree reads the rows themselves.


def folded(
    columns: Columns, feature: np.ndarray, cuts: np.ndarray, left: np.ndarray, seen: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(thresholds of the rows' own numbers float64 [m], where NaN goes bool [m]).

    For all m splits of all trees: `feature` [m] is compared as `seen` (float32 or float64, to which
    the tree casts) with `cuts` [m]; left: where NaN goes that reaches the node.
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
        # Rounding to the nearest float32 is what a tree does itself, before it compares.
        if source is not None and (mapped is not None or not exact):
            source.cuts.append(np.unique(thresholds[splits]))
    return thresholds, left


def _largest(goes: Callable[[np.ndarray, np.ndarray], np.ndarray], cuts: np.ndarray) -> np.ndarray:
    """The largest float64 that goes left, by halving the numbers in their order; -inf: none."""
    low = np.full(len(cuts), _order(np.array([-np.inf]))[0])  # goes left, or nothing does
    high = np.full(len(cuts), _order(np.array([np.inf]))[0])  # does not
    for _ in range(64):  # as many as a number has bits
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        left = goes(_number(middle), cuts)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return _number(low)


def _order(x: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of float64 numbers."""
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
    category_split: np.ndarray | None = None  # int [m], which row of `goes_left`; -1: none
    goes_left: np.ndarray | None = None  # bool [c, width]: categories; the last: unknown


def forest(trees: list[Tree], columns: Columns) -> tuple[dict[str, np.ndarray], int]:
    """(params of all trees together, levels below the roots).

    Nodes are numbered anew, level by level in each tree, so that the right child comes right after
    the left one and only "left" is kept. A leaf is its own left child, where every row goes left.
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
    """The table with `width` categories; those it does not know go where its last column says."""
    missing = width - goes_left.shape[1]
    return np.concatenate([goes_left, np.repeat(goes_left[:, -1:], missing, axis=1)], axis=1)


def leaf_of(
    params: Any, rows: Any, root: Any, levels: int, missing: bool, unroll: int | None = None
) -> Any:
    """The leaf that each row reaches from one root, int32 [R], or from each of some, [R, roots].

    missing: rows may hold NaN, which goes where its node says; else it is not looked at.
    """
    dims = rows.shape[:1] + jnp.shape(root)
    flat, first = rows.ravel(), jnp.arange(rows.shape[0], dtype="int32") * rows.shape[1]
    first = first.reshape(-1, *[1] * jnp.ndim(root))

    def step(_: Any, at: Any) -> Any:
        x = _at(flat, first + _at(params["feature"], at))
        right = ~(x <= _at(params["threshold"], at))
        if "category_split" in params:
            split, table = _at(params["category_split"], at), params["goes_left"]
            known = (x >= 0) & (x < table.shape[1] - 1)
            code = jnp.where(known, x, table.shape[1] - 1).astype("int32")
            right = jnp.where(split < 0, right, ~table[jnp.maximum(split, 0), code])
        if missing:
            right &= ~(jnp.isnan(x) & _at(params["missing_left"], at))
        return _at(params["left"], at) + right

    start = jnp.full(dims, root, "int32")
    return jax.lax.fori_loop(0, levels, step, start, unroll=unroll)


def sums(params: Any, rows: Any, levels: int, missing: bool) -> Any:
    """The sum over trees of their leaves' values, [R, K].

    One tree after another: on a CPU five times as fast as all at once, since a tree's nodes and the
    rows' places in it stay in the cache. On a GPU and a TPU, some trees at once, level by level.
    """

    def add(total: Any, root: Any) -> tuple[Any, None]:
        leaf = leaf_of(params, rows, root, levels, missing)
        return total + _at(params["value"], leaf), None

    def add_some(total: Any, some: tuple[Any, Any]) -> tuple[Any, None]:
        roots, counts = some
        leaf = leaf_of(params, rows, roots, levels, missing, unroll=max(1, levels))
        values = _at(params["value"], leaf)
        if filled:
            values = jnp.where(counts[:, None], values, 0)
        return total + values.sum(axis=1), None

    value, roots = params["value"], params["roots"]
    none = jnp.zeros((rows.shape[0], value.shape[1]), value.dtype)
    some = trees_together(len(rows), len(roots))
    filled = -len(roots) % some  # the last tree once more, without weight

    def at_once(none: Any) -> Any:
        counts = jnp.arange(len(roots) + filled) < len(roots)
        padded = jnp.pad(roots, (0, filled), mode="edge")
        parts = padded.reshape(-1, some), counts.reshape(-1, some)
        return jax.lax.scan(add_some, none, parts)[0]

    return jax.lax.platform_dependent(
        none,
        cpu=lambda none: jax.lax.scan(add, none, roots)[0],
        default=at_once,
    )


def _at(array: Any, places: Any) -> Any:
    """array[places]; the places are sound by construction, and not checked once more."""
    return jnp.asarray(array).at[places].get(mode="promise_in_bounds")
