"""`TreeRows`: rows in several arrays, behind the members of rows of any kind.

Where a table is asked for, its columns are the entries of all leaves in a line.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError, InputTypeError
from xaijax.tables.given_rows import GivenRows
from xaijax.tables.tree import arrays_of, is_tree


class TreeRows(GivenRows):
    """A pytree of arrays [M, ...]."""

    kind = "tree"
    is_frame = False

    @classmethod
    def holds(cls, given: Any) -> bool:
        """Whether these are rows in several arrays."""
        return is_tree(given)

    @cached_property
    def _leaves(self) -> list[np.ndarray]:
        return [np.asarray(checks.from_torch(leaf)) for leaf in jax.tree.leaves(self.given)]

    def _of_each(self, made: Any) -> Any:
        return jax.tree.map(lambda leaf: made(np.asarray(checks.from_torch(leaf))), self.given)

    def __len__(self) -> int:
        return len(self._leaves[0])

    @property
    def instance(self) -> Any:
        """The structure and its leaves' shapes."""
        structure = jax.tree.structure(self.given)
        return structure, tuple(leaf.shape[1:] for leaf in self._leaves)

    @property
    def first(self) -> Any:
        """The first row of every array."""
        return self._of_each(lambda leaf: leaf[0])

    @property
    def width(self) -> int:
        """F."""
        return sum(math.prod(leaf.shape[1:]) for leaf in self._leaves)

    @property
    def labels(self) -> list[Any]:
        """None of them."""
        return []

    def take(self, places: Any, counted: bool = False) -> Any:
        """The same, counted or not; a slice is a view."""
        return self._of_each(lambda leaf: leaf[places])

    def part(self, first: int, last: int) -> Any:
        """Views."""
        return self._of_each(lambda leaf: leaf[first:last])

    def columns_at(self, places: Sequence[int] | np.ndarray) -> Any:
        """[M, columns], of the dtype that holds all."""
        return self.matrix()[:, places]

    def column(self, place: int) -> np.ndarray:
        """Of the leaf's own dtype."""
        for leaf in self._leaves:
            size = math.prod(leaf.shape[1:])
            if place < size:
                return leaf.reshape(len(leaf), size)[:, place]
            place -= size
        raise IndexError(place)

    def matrix(self) -> np.ndarray:
        """[M, F], of the dtype that holds all leaves; narrow numbers, which NumPy joins with no
        others, as float32.
        """
        wide = [
            leaf.astype(np.float32) if leaf.dtype.kind == "V" else leaf for leaf in self._leaves
        ]
        return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in wide], axis=1)

    def texts(self) -> Iterator[bytes]:
        """A digest of the bytes of each row."""
        flat = [np.ascontiguousarray(leaf.reshape(len(leaf), -1)) for leaf in self._leaves]
        for n in range(len(self)):
            digest = hashlib.blake2b()
            for leaf in flat:
                digest.update(leaf[n].tobytes())
            yield digest.digest()

    def copy(self) -> Any:
        """NumPy arrays."""
        return self._of_each(np.array)

    def stacked(self, parts: Sequence[Any]) -> Any:
        """Leaf by leaf."""
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def beside(self, numbers: np.ndarray, labels: Sequence[str]) -> Any:
        """Not made: a tree has no place for columns of numbers."""
        raise InputTypeError(f"rows in a {type(self.given).__name__}: give one array or a frame.")

    def with_row(self, columns: Sequence[int], row: Any) -> Any:
        """Those entries at the values of a row, a tree of arrays less their first axis."""
        beside = [np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(row)]
        out, start = [], 0
        for leaf, given in zip(self._leaves, beside, strict=True):
            own = [c - start for c in columns if 0 <= c - start < len(given)]
            flat = np.array(leaf.reshape(len(leaf), -1))
            flat[:, own] = given[own]
            out.append(flat.reshape(leaf.shape))
            start += len(given)
        return jax.tree.unflatten(jax.tree.structure(self.given), out)

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """Of whole numbers and bools the most frequent, the smallest of several."""
        names, arrays, structure = arrays_of(self.given, name)
        out = []
        for leaf, array in zip(names, arrays, strict=True):
            if array.dtype.kind != "f":
                out.append(np.apply_along_axis(_most_frequent, 0, array)[None])
                continue
            checks.finite(array, f"{name}: the leaf {leaf!r}", allow_nan)
            one = (np.nanmedian if how == "median" else np.nanmean)(array, axis=0)
            out.append(np.asarray(one, array.dtype)[None])
        return jax.tree.unflatten(structure, out)

    def missing(self, name: str) -> Any:
        """NaN; whole numbers and bools cannot be missing."""
        names, arrays, structure = arrays_of(self.given, name)
        for leaf, array in zip(names, arrays, strict=True):
            if array.dtype.kind != "f":
                raise InputError(f"{name}: the leaf {leaf!r} is {array.dtype}, which has no NaN.")
        lost = [np.full(array.shape[1:], np.nan, array.dtype) for array in arrays]
        return jax.tree.unflatten(structure, lost)


def _most_frequent(column: np.ndarray) -> Any:
    values, times = np.unique(column, return_counts=True)
    return values[times.argmax()]
