"""`PandasRows`: a pandas frame, of which index, dtypes and order come through unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.tables.given_rows import FrameRows


class PandasRows(FrameRows):
    """A `pandas.DataFrame`; columns are found by place, since labels may occur twice."""

    kind = "pandas"

    @property
    def index(self) -> Any:
        """The frame's own, unless it is 0 to M - 1."""
        return labels_of_rows(self.given.index)

    def labelled(self, index: Any) -> Any:
        """With another index."""
        return self.given.set_axis(index)

    def take(self, places: Any, counted: bool = False) -> Any:
        """With the index of these rows, or one that counts from 0."""
        rows = self.given.iloc[places]
        return rows.reset_index(drop=True) if counted else rows

    def part(self, first: int, last: int) -> Any:
        """With the index of these rows."""
        return self.given.iloc[first:last]

    def columns_at(self, places: Sequence[int] | np.ndarray) -> Any:
        """With the index of all rows."""
        return self.given.iloc[:, places]

    def column(self, place: int) -> np.ndarray:
        """A nullable column is a NumPy dtype's; with missing values float64. A sparse one is dense,
        and dates are objects.
        """
        series = self.given.iloc[:, place]
        if hasattr(series.array, "sp_values"):
            return series.array.to_dense()
        if series.dtype.kind in "mM":
            return series.astype(object).to_numpy()
        if not isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":  # nullable
            if series.isna().any():
                return series.to_numpy(dtype=np.float64, na_value=np.nan)
            return series.to_numpy(dtype=series.dtype.numpy_dtype)
        return series.to_numpy()

    def is_category(self, place: int) -> bool:
        """Of a categorical dtype, of a dictionary of Arrow, or of bool, which may be missing."""
        dtype = self.given.dtypes.iloc[place]
        arrow = str(getattr(dtype, "pyarrow_dtype", ""))
        return hasattr(dtype, "categories") or dtype.kind == "b" or arrow.startswith("dictionary")

    def texts(self) -> Iterator[bytes]:
        """Of values only, not of the index."""
        return (repr(row).encode() for row in self.given.itertuples(index=False, name=None))

    def copy(self) -> Any:
        """A deep copy."""
        return self.given.copy()

    def beside(self, numbers: np.ndarray, labels: Sequence[str]) -> Any:
        """With the index of these rows."""
        return self.given.assign(**{name: numbers[:, j] for j, name in enumerate(labels)})

    def with_row(self, columns: Sequence[int], row: Any) -> Any:
        """With the dtypes of the row, in those columns."""
        out, rows = self.given.copy(), len(self)
        for c in columns:
            repeated = row.iloc[[0] * rows, c] if self.holds(row) else [row[c]] * rows
            out.isetitem(c, type(out.iloc[:, c])(repeated).set_axis(out.index))
        return out

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """Numbers become floats; of other columns it is the first of the most frequent values."""
        rows = self.given
        if len(rows) == 0:
            raise InputError(f"{name} has 0 rows; at least 1 is needed.")
        parts = {}
        for place, label in enumerate(rows.columns):
            column = rows[label]
            numeric = column.dtype.kind in "iuf"
            if numeric:
                values = column.to_numpy(dtype=np.float64, na_value=np.nan)
                allowed = checks.nan_at(allow_nan, place)
                checks.finite(values, f"{name}, column {label!r}", allowed)
            value = getattr(column, how)() if numeric else column.mode().iloc[0]
            parts[label] = column.iloc[:1].copy()
            if numeric:
                plain = isinstance(column.dtype, np.dtype)
                wide = np.result_type(column.dtype, np.float64) if plain else "Float64"
                parts[label] = parts[label].astype(wide)
            parts[label].iloc[0] = value
        return type(rows)({k: v.reset_index(drop=True) for k, v in parts.items()})

    def missing(self, name: str) -> Any:
        """Numbers become float64; bool of NumPy cannot be missing."""
        empty = self.given.iloc[:1].copy()
        for label in empty.columns:
            dtype = empty[label].dtype
            if isinstance(dtype, np.dtype) and dtype.kind == "b":
                raise InputError(
                    f"{name}: column {label!r} is bool, which cannot be missing. Cast it "
                    "to 'boolean' or float, or give a row."
                )
            plain = isinstance(dtype, np.dtype) and dtype.kind in "iuf"
            gone, kept = ([np.nan], np.float64) if plain else ([None], dtype)
            empty[label] = type(empty[label])(gone, index=empty.index, dtype=kept)
        return empty


def labels_of_rows(index: Any) -> Any:
    """An index of pandas; None for one that counts from 0, which says no more than the places."""
    counts = index.nlevels == 1 and index.dtype.kind in "iu"
    return None if counts and np.array_equal(index, np.arange(len(index))) else index


def joined_index(parts: Sequence[Any]) -> Any:
    """The labels of all parts, each an index or a range of places; None as of `labels_of_rows`."""
    pandas: Any = require("pandas", "xaijax[data]")
    made = [pandas.RangeIndex(p.start, p.stop) if isinstance(p, range) else p for p in parts]
    first, *others = made
    return labels_of_rows(first.append(others) if others else first)


def labels_of_levels(levels: Sequence[tuple[np.ndarray, str, str | None]]) -> Any:
    """An index of one or several levels, of (labels, dtype, name) of each."""
    pandas: Any = require("pandas", "xaijax[data]")
    made = [pandas.Index(labels, dtype=dtype, name=name) for labels, dtype, name in levels]
    if len(made) == 1:
        return made[0]
    return pandas.MultiIndex.from_arrays(made, names=[one.name for one in made])
