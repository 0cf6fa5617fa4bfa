"""Decision trees as arrays, and the walk of all rows through them.

Letters: R rows, T trees, M nodes of all trees, K outputs, C categorical splits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.models.translations.columns import Columns


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

    Nodes are numbered anew, level by level in each tree, so that the right child stands behind the
    left one and only "left" is kept. A leaf is its own left child, where every row goes left.
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
        own = {
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
                own["goes_left"] = _wide(tree.goes_left, width)
            own["category_split"] = split
        for name, array in own.items():
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


def leaf_of(params: Any, rows: Any, root: Any, levels: int, missing: bool) -> Any:
    """The leaf that each row reaches from one root, int32 [R].

    missing: rows may hold NaN, which goes where its node says; else it is not looked at.
    """
    flat, first = rows.ravel(), jnp.arange(rows.shape[0], dtype="int32") * rows.shape[1]

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

    return jax.lax.fori_loop(0, levels, step, jnp.full(rows.shape[0], root, "int32"))


def sums(params: Any, rows: Any, levels: int, missing: bool) -> Any:
    """The sum over trees of their leaves' values, [R, K].

    One tree after another: on a CPU five times as fast as all at once, since a tree's nodes and the
    rows' places in it stay in the cache.
    """

    def add(total: Any, root: Any) -> tuple[Any, None]:
        leaf = leaf_of(params, rows, root, levels, missing)
        return total + _at(params["value"], leaf), None

    value = params["value"]
    none = jnp.zeros((rows.shape[0], value.shape[1]), value.dtype)
    return jax.lax.scan(add, none, params["roots"])[0]


def _at(array: Any, places: Any) -> Any:
    """array[places]; the places are sound by construction, and not checked once more."""
    return jnp.asarray(array).at[places].get(mode="promise_in_bounds")
