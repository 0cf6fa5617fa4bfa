"""Rows as a pytree: arrays that share their first axis, in a dict, a named tuple, a list, or
another container.

Letters: M rows, L leaves, F entries of one row in all leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError


def is_tree(rows: Any) -> bool:
    """Whether these are rows in several arrays.

    Lists and tuples count if an entry has two or more axes; otherwise they are read as one array,
    for example a list of rows. All other containers that JAX knows count.
    """
    if rows is None or hasattr(rows, "__array__"):
        return False
    if isinstance(rows, list) or (isinstance(rows, tuple) and not hasattr(rows, "_fields")):
        return any(is_tree(entry) or len(getattr(entry, "shape", ())) > 1 for entry in rows)
    return isinstance(rows, Mapping) or not jax.tree_util.all_leaves([rows])


@dataclass(frozen=True)
class Layout:
    """How a row is made of leaves, and the order of its F entries when they are concatenated.

    Two layouts are equal, and have the same hash, if rows of one are rows of the other.
    """

    structure: Any  # a PyTreeDef
    names: tuple[str, ...]  # [L], of the leaves
    shapes: tuple[tuple[int, ...], ...]  # [L], of one row; () if a row has one number
    dtypes: tuple[np.dtype, ...]  # [L], as the model takes them

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """[L], the end of each leaf in the concatenated entries."""
        return tuple(np.cumsum([math.prod(shape) for shape in self.shapes]).tolist())

    @property
    def entries(self) -> int:
        """F."""
        return self.ends[-1]

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """[F], names of all entries: "age" for a leaf of single numbers, otherwise "ids[3]"."""
        return tuple(
            name if shape == () else f"{name}[{','.join(map(str, place))}]"
            for name, shape in zip(self.names, self.shapes, strict=True)
            for place in np.ndindex(*shape)
        )

    def tree(self, line: Any, made: Callable[[Any, np.dtype], Any]) -> Any:
        """Splits rows of codes [M, F] into leaves; made(codes of a leaf [M, *shape], dtype)."""
        starts = (0, *self.ends[:-1])
        leaves = [
            made(line[:, start:end].reshape(len(line), *shape), dtype)
            for start, end, shape, dtype in zip(
                starts, self.ends, self.shapes, self.dtypes, strict=True
            )
        ]
        return jax.tree.unflatten(self.structure, leaves)


def leaf_names(tree: Any) -> list[str]:
    """Names of the leaves of a tree by their paths, such as "text.ids"; None is a leaf."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda node: node is None)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
    return ["x" + n if n[:1].isdigit() else n for n in names]


def difference(rows: Any, wanted: Layout, owner: str) -> str:
    """The difference between the given leaves and those of the owner, in words, for a message."""
    if not is_tree(rows):
        return f"is one array, but {owner} has the leaves {_quoted(wanted.names)}"
    names = leaf_names(rows)
    lacks = [name for name in wanted.names if name not in names]
    more = [name for name in names if name not in wanted.names]
    if not lacks and not more:
        return f"has the leaves of {owner}, {_quoted(names)}, in a container of another type"
    parts = [f"lacks {_quoted(lacks)}, which {owner} has"] if lacks else []
    parts += [f"has {_quoted(more)}, which {owner} has not"] if more else []
    return ", and ".join(parts)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _is_none(node: Any) -> bool:
    return node is None


def _containers(node: Any) -> list[Any]:
    """The containers inside a container, at any depth."""
    inner = jax.tree.leaves(node, is_leaf=lambda sub: sub is not node)
    containers = [sub for sub in inner if sub is not None and not jax.tree_util.all_leaves([sub])]
    return containers + [deeper for sub in containers for deeper in _containers(sub)]


def arrays_of(tree: Any, argument: str) -> tuple[list[str], list[np.ndarray], Any]:
    """(names, arrays, structure) of a tree of numeric arrays with the same number of rows.

    Raises InputError and InputTypeError, which name the leaf.
    """
    leaves, structure = checks.leaves_of(tree, argument)
    names = leaf_names(tree)
    if not leaves:
        raise InputError(f"{argument} is a {type(tree).__name__} without arrays.")
    empty = [node for node in _containers(tree) if not jax.tree.leaves(node, is_leaf=_is_none)]
    if empty:
        raise InputError(
            f"{argument} holds an empty {type(empty[0]).__name__} where an array is needed."
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"{argument}: two leaves are called {twice!r}, by a key and by a place. Rename one."
        )
    arrays = []
    for name, leaf in zip(names, leaves, strict=True):
        if leaf is None:
            raise InputTypeError(
                f"{argument}: the leaf {name!r} is None; an array [rows, ...] is needed. Leave it "
                "out of the container."
            )
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise InputTypeError(
                f"{argument}: the leaf {name!r} is a {type(leaf).__name__}; an array is needed "
                "whose first axis is rows (of a frame: frame.to_numpy())."
            )
        array = checks.as_array(leaf, f"{argument}: the leaf {name!r}", "Encode it first.")
        if array.ndim == 0 or 0 in array.shape:
            raise InputError(
                f"{argument}: the leaf {name!r} has shape {array.shape}; it needs rows and entries."
            )
        arrays.append(array)
    rows = {len(array) for array in arrays}
    if len(rows) > 1:
        sizes = ", ".join(f"{n!r} {len(a)}" for n, a in zip(names, arrays, strict=True))
        raise InputError(f"{argument}: all leaves need the same number of rows; they have {sizes}.")
    return names, arrays, structure
