"""The nodes of trees, and walking full rows from roots to leaves on a device.

Letters: R rows, C columns that the trees read, M nodes, T trees, A sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels.sizes import trees_together


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Nodes:
    """The nodes of all trees, level by level in each tree.

    The right child directly follows the left one. A leaf is its own left child, and every row goes
    left there.
    """

    left: Any  # int32 [M]
    feature: Any  # int32 [M], a column
    threshold: Any  # [M], x <= threshold goes left
    value: Any  # [M, A], 0 except at leaves
    roots: Any  # int32 [T]
    levels: Any  # bool [levels, C]: only shapes are visible in a traced step
    missing_left: Any = None  # bool [M], whether NaN goes left; None: there is none
    category_split: Any = None  # int32 [M], the row of `goes_left`; -1: none
    goes_left: Any = None  # bool [c, width], categories; the last: missing or unknown
    cover: Any = None  # [M], weights of the training rows that reach each node


NAMES = tuple(Nodes.__dataclass_fields__)


def flat(params: dict[str, Any]) -> tuple[Any, ...]:
    """The arrays of `Nodes`, with [0] for missing ones, so that all traces have the same number of
    arrays."""
    return tuple(params.get(name, jnp.zeros(0, bool)) for name in NAMES)


def nodes_of(arrays: Sequence[Any]) -> Nodes:
    """The nodes from the arrays of `flat`."""
    return Nodes(*(None if array.shape[0] == 0 else array for array in arrays))


def leaf_of(nodes: Nodes, rows: Any, root: Any, unroll: int | None = None) -> Any:
    """The leaf that each row reaches from one root, int32 [R], or from each of several, [R,
    roots]."""
    dims, levels = rows.shape[:1] + jnp.shape(root), nodes.levels.shape[0]
    flat, first = rows.ravel(), jnp.arange(rows.shape[0], dtype="int32") * rows.shape[1]
    first = first.reshape(-1, *[1] * jnp.ndim(root))

    def step(_: Any, at: Any) -> Any:
        x = _at(flat, first + _at(nodes.feature, at))
        right = ~(x <= _at(nodes.threshold, at))
        if nodes.category_split is not None:
            split, table = _at(nodes.category_split, at), nodes.goes_left
            known = (x >= 0) & (x < table.shape[1] - 1)
            code = jnp.where(known, x, table.shape[1] - 1).astype("int32")
            right = jnp.where(split < 0, right, ~table[jnp.maximum(split, 0), code])
        if nodes.missing_left is not None:
            right &= ~(jnp.isnan(x) & _at(nodes.missing_left, at))
        return _at(nodes.left, at) + right.astype("int32")

    start = jnp.full(dims, root, "int32")
    return jax.lax.fori_loop(0, levels, step, start, unroll=unroll)


def leaf_sums(nodes: Nodes, rows: Any) -> Any:
    """The sum over trees of their leaves' values, [R, A].

    A CPU takes one tree after another, five times as fast as all at once, because a tree's nodes
    and the rows' positions in it stay in the cache. A GPU or TPU takes several trees at once, level
    by level.
    """

    def add(total: Any, root: Any) -> tuple[Any, None]:
        return total + _at(nodes.value, leaf_of(nodes, rows, root)), None

    def add_some(total: Any, trees: tuple[Any, Any]) -> tuple[Any, None]:
        roots, counts = trees
        leaf = leaf_of(nodes, rows, roots, unroll=nodes.levels.shape[0])
        values = _at(nodes.value, leaf)
        if filled:
            values = jnp.where(counts[:, None], values, 0)
        return total + values.sum(axis=1), None

    value, roots = nodes.value, nodes.roots
    none = jnp.zeros((rows.shape[0], value.shape[1]), value.dtype)
    trees = trees_together(len(rows), len(roots))
    filled = -len(roots) % trees  # the last tree again, with weight 0

    def at_once(none: Any) -> Any:
        counts = jnp.arange(len(roots) + filled) < len(roots)
        padded = jnp.pad(roots, (0, filled), mode="edge")
        parts = padded.reshape(-1, trees), counts.reshape(-1, trees)
        return jax.lax.scan(add_some, none, parts)[0]

    return jax.lax.platform_dependent(
        none,
        cpu=lambda none: jax.lax.scan(add, none, roots)[0],
        default=at_once,
    )


def _at(array: Any, places: Any) -> Any:
    """array[places], without checks: the indices are valid by construction."""
    return jnp.asarray(array).at[places].get(mode="promise_in_bounds")
