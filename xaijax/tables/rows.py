"""`rows_of`: rows of any kind behind one set of members, so that nobody asks what holds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError
from xaijax.tables.given_rows import GivenRows
from xaijax.tables.pandas_rows import PandasRows
from xaijax.tables.polars_rows import PolarsRows
from xaijax.tables.tree_rows import TreeRows


class ArrayRows(GivenRows):
    """An array [M, *F] of NumPy or JAX, a memory map, or what becomes an array, a list say.

    Nothing is read or checked before it is asked for: `checks` says what is wrong with arrays.
    """

    kind = "array"
    is_frame = False

    @property
    def _array(self) -> Any:
        return self.given if hasattr(self.given, "shape") else np.asarray(self.given)

    @property
    def labels(self) -> list[Any]:
        """None of them."""
        return []

    def take(self, places: Any, counted: bool = False) -> Any:
        """The same, counted or not; a slice is a view."""
        return self._array[places]

    def part(self, first: int, last: int) -> Any:
        """A view; of a memory map nothing else is read."""
        return self._array[first:last]

    def columns_at(self, places: Sequence[int] | np.ndarray) -> Any:
        """[M, columns]."""
        return self._array[:, places]

    def column(self, place: int) -> np.ndarray:
        """A view; entries of instances of rank above 1 are counted in C order."""
        array = self._array
        if hasattr(array, "__array__"):
            array = np.asarray(array)
        if len(array.shape) == 2:
            return array[:, place]
        return array[(slice(None), *np.unravel_index(place, array.shape[1:]))]

    def matrix(self) -> np.ndarray:
        """[M, *F]; a memory map that is converted where it is sliced is read."""
        return np.asarray(self._array[:])

    def texts(self) -> Iterator[bytes]:
        """The bytes of each row."""
        return (np.ascontiguousarray(row).tobytes() for row in self.given)

    def copy(self) -> np.ndarray:
        """A NumPy array."""
        return np.array(self.given)

    def stacked(self, parts: Sequence[Any]) -> np.ndarray:
        """Of the dtype that holds all."""
        return np.concatenate(parts)

    def beside(self, numbers: np.ndarray, labels: Sequence[str]) -> np.ndarray:
        """As float64."""
        own = checks.matrix(self.given, "X").astype(np.float64)
        return np.concatenate([own, numbers], axis=1)

    def with_row(self, columns: Sequence[int], row: Any) -> np.ndarray:
        """Of the dtype that holds both."""
        out = np.array(self.given, np.result_type(self._array.dtype, row.dtype))
        out[:, list(columns)] = row[list(columns)]
        return out

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> np.ndarray:
        """[1, *F], float64 unless the rows are floats."""
        array = checks.as_array(self.given, name)
        if array.ndim < 2 or len(array) == 0:
            raise InputError(
                f"{name}: Baseline({how!r}, rows) needs rows [B, F], got shape {array.shape}."
            )
        checks.finite(array, name, allow_nan)
        summary = (np.nanmedian if how == "median" else np.nanmean)(array, axis=0)
        return summary[None].astype(array.dtype if array.dtype.kind == "f" else np.float64)

    def missing(self, name: str) -> np.ndarray:
        """NaN [*F], float64 unless the rows are floats."""
        array = checks.as_array(self.given, "background")
        dtype = array.dtype if array.dtype.kind == "f" else np.float64
        return np.full(array.shape[1:], np.nan, dtype)


# What none of them holds is an array.
KINDS: tuple[type[GivenRows], ...] = (PandasRows, PolarsRows, TreeRows)


def rows_of(given: Any) -> GivenRows:
    """The rows, to be asked whatever holds them; no row is read or copied."""
    given = checks.from_torch(given)
    if not isinstance(given, np.ndarray):
        for kind in KINDS:
            if kind.holds(given):
                return kind(given)
    return ArrayRows(given)
