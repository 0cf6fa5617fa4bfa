"""`PolarsRows`: a polars frame, of which dtypes and order come through unchanged."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError
from xaijax.tables.given_rows import FrameRows


class PolarsRows(FrameRows):
    """A `polars.DataFrame`; it is never changed in place, and it has no index."""

    kind = "polars"

    def take(self, places: Any, counted: bool = False) -> Any:
        """The same, counted or not."""
        return self.given[places]

    def part(self, first: int, last: int) -> Any:
        """A view."""
        return self.given[first:last]

    def columns_at(self, places: Sequence[int] | np.ndarray) -> Any:
        """The same columns, not copied."""
        return self.given[:, [int(j) for j in places]]

    def column(self, place: int) -> np.ndarray:
        """A null is NaN among numbers and bools; dates are objects."""
        series = self.given.to_series(place)
        if series.dtype.is_temporal():
            dates = np.empty(len(series), object)
            dates[:] = series.to_list()
            return dates
        missing = str(series.dtype) == "Boolean" and series.null_count()
        return (series.cast(float) if missing else series).to_numpy()

    def is_category(self, place: int) -> bool:
        """Of Boolean, which may be missing; what else polars calls a category holds texts."""
        return str(self.given.dtypes[place]) == "Boolean"

    def texts(self) -> Iterator[bytes]:
        """Of the values."""
        return (repr(row).encode() for row in self.given.iter_rows())

    def copy(self) -> Any:
        """Another frame of the same columns, which cannot be changed."""
        return self.given.clone()

    def beside(self, numbers: np.ndarray, labels: Sequence[str]) -> Any:
        """As float64."""
        more = type(self.given)({name: numbers[:, j] for j, name in enumerate(labels)})
        return self.given.hstack(more)

    def with_row(self, columns: Sequence[int], row: Any) -> Any:
        """With the dtypes of the row, in those columns; of an array float64."""
        names, rows = [self.labels[c] for c in columns], len(self)
        if self.holds(row):
            return self.given.with_columns(*row.select(names)[[0] * rows].get_columns())
        series = type(self.given.to_series(0))
        pairs = zip(names, columns, strict=True)
        return self.given.with_columns(*(series(n, [float(row[c])] * rows) for n, c in pairs))

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """Numbers become Float64; of other columns it is the first of the most frequent values."""
        rows = self.given
        if len(rows) == 0:
            raise InputError(f"{name} has 0 rows; at least 1 is needed.")
        one, schema = {}, {}
        for place, label in enumerate(rows.columns):
            column = rows[label]
            numeric = column.dtype.is_numeric()
            schema[label] = sys.modules["polars"].Float64 if numeric else column.dtype
            if numeric:
                allowed = checks.nan_at(allow_nan, place)
                checks.finite(column.to_numpy(), f"{name}, column {label!r}", allowed)
            if column.dtype.is_float():
                column = column.fill_nan(None)  # a number that is missing, as in arrays and pandas
            one[label] = (
                [getattr(column, how)()] if numeric else column.mode().sort().head(1).to_list()
            )
        return type(rows)(one, schema=schema)

    def missing(self, name: str) -> Any:
        """Nulls of the same dtypes."""
        return self.given.head(1).clear(1)
