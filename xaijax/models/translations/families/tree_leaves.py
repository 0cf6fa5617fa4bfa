"""The leaves of trees as boxes: the bounds of each column under which a row reaches the leaf.

Letters: L leaves of all trees, C columns that the trees read, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xaijax.models.translations.columns import Columns
from xaijax.models.translations.families.tree_arrays import Tree
from xaijax_kernels.structures.named import xaijax_leaf_sums

# A corner costs one multiplication a leaf and output, in a matrix product; walking costs a step a
# tree and level. 128 of the first took as long as one of the second (two CPU cores).
LEAVES_PER_STEP = 128


def summed_by_leaves(
    params: dict[str, Any],
    walk: Callable[[Any, Any], Any],
    trees: Sequence[Tree],
    levels: int,
    columns: Columns,
    width: int,
) -> tuple[dict[str, Any], Callable[[Any, Any], Any]]:
    """(params, the sum of leaves' values [R, K]) which a trace shows as boxes, where that pays.

    walk(params, rows [R, C]) -> [R, K]; width: C.
    """
    K = trees[0].value.shape[1]
    leaves = sum(int((tree.left < 0).sum()) for tree in trees)
    categorical = any(tree.goes_left is not None for tree in trees)
    if categorical or leaves * K > LEAVES_PER_STEP * len(trees) * max(levels, 1):
        return params, walk
    parts = zip(*(_boxes(tree, width) for tree in trees), strict=True)
    low, high, values = (np.concatenate(part) for part in parts)
    boxes = {
        "low": low.astype(columns.dtype),
        "high": high.astype(columns.dtype),
        "values": columns.number(values),
    }

    def sums(params: Any, rows: Any) -> Any:
        own = (params["leaves"][name] for name in ("low", "high", "values"))
        return xaijax_leaf_sums(rows, *own, params, walk)

    return params | {"leaves": boxes}, sums


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
