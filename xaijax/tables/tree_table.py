"""`TreeTable`: rows in several arrays, as one row of codes.

The model is then called through a function of codes, which restores the leaves: inside the compiled
program in JAX, before the call on the host (`models/queries/rows.py`).

- For JAX the code of a value is the value itself, in the model's float dtype. Bools are accepted,
  and integers that this dtype holds exactly.
- For the host the codes are the bits of a value, as wide as the widest leaf.

Letters: M rows, F entries of one row in all leaves, C code columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError, InputTypeError
from xaijax.tables.table import one_nan
from xaijax.tables.tree import Layout, arrays_of, difference


class TreeTable:
    """Rows of one layout, each as one row of codes."""

    def __init__(self, layout: Layout, dtype: np.dtype | None) -> None:
        """dtype: the dtype of the codes, a model's in JAX; None: bits, for the host."""
        self.layout, self._dtype = layout, dtype
        self.shape: tuple[int, ...] = (layout.entries,)
        self.feature_names: tuple[str, ...] | None = layout.labels
        self.codes_per_column = 1 if dtype is not None else max(1, _width(layout) // 4)

    @property
    def key(self) -> Any:
        """Equal for tables that make the same rows of codes."""
        return "tree", self.layout

    @classmethod
    def of(cls, rows: Any, name: str, dtype: np.dtype | None) -> TreeTable:
        """The table for rows like these, from the argument `name`."""
        names, arrays, structure = arrays_of(rows, name)
        leaves = map(checks.from_torch, jax.tree.leaves(rows))
        kinds = [
            _kept(leaf.dtype, array.dtype, dtype)
            for leaf, array in zip(leaves, arrays, strict=True)
        ]
        shapes = tuple(array.shape[1:] for array in arrays)
        return cls(Layout(structure, tuple(names), shapes, tuple(kinds)), dtype)

    def read(
        self, X: Any, name: str, allow_nan: bool | NanColumns, owner: str = "the background"
    ) -> Any:
        """The same structure with NumPy arrays [M, ...] in the dtypes that the model takes."""
        layout = self.layout
        names, arrays, structure = arrays_of(X, name)
        if structure != layout.structure:
            raise InputError(f"{name} {difference(X, layout, owner)}.")
        read = []
        rows = zip(names, arrays, layout.shapes, layout.dtypes, strict=True)
        for leaf, array, shape, wanted in rows:
            where = f"{name}: the leaf {leaf!r}"
            if array.shape[1:] != shape:
                raise InputError(
                    f"{where} has rows of shape {array.shape[1:]}, but {owner} has {shape}."
                )
            self._refuse_dtype(array, wanted, where, owner)
            checks.finite(array, where, allow_nan, array.dtype if _narrow(wanted) else wanted)
            read.append(one_nan(array.astype(np.float32 if _narrow(wanted) else wanted)))
        return jax.tree.unflatten(structure, read)

    def _refuse_dtype(self, array: np.ndarray, wanted: np.dtype, where: str, owner: str) -> None:
        """Refuses values that the model's dtype, or codes, cannot hold."""
        kind = array.dtype.kind
        if wanted.kind in "biu" and kind not in ("b" if wanted.kind == "b" else "biu"):
            raise InputTypeError(
                f"{where} has dtype {array.dtype}, but {owner} has {wanted}. Give both the same "
                f"dtype (.astype({str(wanted)!r}))."
            )
        if wanted.kind in "iu" and kind != "b":
            limits = np.iinfo(wanted)
            if array.min() < limits.min or array.max() > limits.max:
                raise InputError(
                    f"{where} holds numbers that {wanted} has not, which is {owner}'s."
                )
        if self._dtype is None or kind not in "iu":
            return
        if changed := checks.changed_numbers(array, self._dtype):
            raise InputError(
                f"{where} holds {changed} whole numbers with more digits than {self._dtype} has. "
                "Say precision='float64' in as_model, or number the values from 0."
            )

    def encode(self, rows: Any) -> tuple[TreeTable, np.ndarray]:
        """[M, C]."""
        flat = [leaf.reshape(len(leaf), -1) for leaf in jax.tree.leaves(rows)]
        if self._dtype is not None:
            return self, np.concatenate([leaf.astype(self._dtype) for leaf in flat], axis=1)
        width = _width(self.layout)
        bits = [
            np.ascontiguousarray(leaf.astype(dtype)).view(f"u{dtype.itemsize}").astype(f"u{width}")
            for leaf, dtype in zip(flat, self.layout.dtypes, strict=True)
        ]
        return self, np.concatenate(bits, axis=1).view(f"u{min(4, width)}")

    def asked(self, codes: np.ndarray) -> np.ndarray:
        """The codes themselves: the engine's model restores the leaves."""
        return codes

    def decode(self, codes: Any) -> Any:
        """The rows, leaf by leaf [M, ...]; as tracers or NumPy arrays."""
        if self._dtype is not None:
            return self.layout.tree(codes, lambda leaf, dtype: leaf.astype(dtype))
        width = _width(self.layout)
        return self.layout.tree(np.ascontiguousarray(codes).view(f"u{width}"), _of_bits)


def by_leaves(groups: Any, table: Any) -> Any:
    """Expands groups {"name": [columns]}, in which a leaf's name means all its entries."""
    if not isinstance(table, TreeTable) or not isinstance(groups, Mapping):
        return groups
    starts = (0, *table.layout.ends)
    entries = {
        name: list(range(*starts[leaf : leaf + 2])) for leaf, name in enumerate(table.layout.names)
    }
    return {
        name: [
            c for key in group for c in (entries.get(key, [key]) if isinstance(key, str) else [key])
        ]
        if isinstance(group, list | tuple)
        else group
        for name, group in groups.items()
    }


def _of_bits(leaf: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.ascontiguousarray(leaf.astype(f"u{dtype.itemsize}")).view(dtype)


def _kept(dtype: Any, read: np.dtype, codes: np.dtype | None) -> np.dtype:
    """The dtype in which a leaf reaches the model."""
    if codes is None:
        return np.dtype(dtype).newbyteorder("=")
    if read.kind == "f":  # narrow floats stay narrow
        return np.dtype(dtype) if np.dtype(dtype).itemsize < 4 else codes
    return np.dtype(jax.dtypes.canonicalize_dtype(read))


def _narrow(dtype: np.dtype) -> bool:
    """Whether it is one of JAX's narrow float dtypes, which NumPy lacks."""
    return dtype.kind == "V"


def _width(layout: Layout) -> int:
    return max(dtype.itemsize for dtype in layout.dtypes)
