"""`rows_of`: one interface for rows of any kind.

Letters: M rows, F columns.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any, ClassVar

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.tables.tree import arrays_of, is_tree


class GivenRows:
    """The user's rows; members that return rows return the same kind.

    The members of this class serve a NumPy or JAX array [M, *F], a memory map, or anything that
    converts to an array, such as a list. Nothing is read or checked before it is needed: `checks`
    reports errors in arrays. To add a kind of rows, write a subclass and add it to `KINDS` below.
    """

    kind: ClassVar[str] = "array"  # one word for messages
    is_frame: ClassVar[bool] = False  # each column has its own label and dtype

    def __init__(self, native: Any) -> None:
        self.native = native

    def __len__(self) -> int:
        return len(self.native)

    @classmethod
    def holds(cls, rows: Any) -> bool:
        """Whether these are rows of this kind. Imports nothing."""
        return False

    @property
    def _array(self) -> Any:
        return self.native if hasattr(self.native, "shape") else np.asarray(self.native)

    @property
    def labels(self) -> list[Any]:
        """[F], the columns' labels as given; empty unless it is a frame."""
        return []

    @property
    def index(self) -> Any:
        """The labels of the rows, a pandas Index [M]; None if they are only numbered from 0."""
        return None

    def labelled(self, index: Any) -> Any:
        """The rows with these labels, if the library has labels; otherwise the rows as they are."""
        return self.native

    @property
    def instance(self) -> Any:
        """The shape of one row."""
        return self.native.shape[1:]

    @property
    def first(self) -> Any:
        """The first row alone: without the axis of rows, or a frame of one row."""
        return self.part(0, 1) if self.is_frame else self.native[0]

    @property
    def width(self) -> int:
        """F, the number of entries of one row; 0 if there are no rows."""
        return math.prod(self.native.shape[1:]) if len(self.native.shape) > 1 else 0

    def take(self, places: Any, counted: bool = False) -> Any:
        """The rows at these positions, ints or a slice (a view of an array); counted: the index
        is numbered from 0 again.
        """
        return self._array[places]

    def part(self, first: int, last: int) -> Any:
        """Rows first to last - 1, as a view; nothing else of a memory map is read."""
        return self._array[first:last]

    def columns_at(self, places: Sequence[int] | np.ndarray) -> Any:
        """All rows of the columns at these positions."""
        return self._array[:, places]

    def column(self, place: int) -> np.ndarray:
        """One column [M] as a NumPy array: numbers stay numbers (missing: NaN), other values are
        objects.

        For an array it is a view; entries of instances of rank above 1 are counted in C order.
        """
        array = self._array
        if hasattr(array, "__array__"):
            array = np.asarray(array)
        if len(array.shape) == 2:
            return array[:, place]
        return array[(slice(None), *np.unravel_index(place, array.shape[1:]))]

    def is_category(self, place: int) -> bool:
        """Whether a column has a dtype of categories, which may be numbers."""
        return False

    def columns(self) -> list[np.ndarray]:
        """All columns of a frame, each [M]."""
        return [self.column(j) for j in range(len(self.labels))]

    def matrix(self) -> np.ndarray:
        """All rows as one array; a memory map is read."""
        return np.asarray(self._array[:])

    def texts(self) -> Iterator[bytes]:
        """Yields bytes for each row; equal rows give equal bytes."""
        return (np.ascontiguousarray(row).tobytes() for row in self.native)

    def copy(self) -> Any:
        """A copy of the rows that the user cannot change; arrays become NumPy arrays."""
        return np.array(self.native)

    def stacked(self, parts: Sequence[Any]) -> Any:
        """Concatenates rows of this kind with the same columns."""
        return np.concatenate(parts)

    def beside(self, columns: Mapping[str, Any]) -> Any:
        """These rows with labelled columns [M] appended; an array becomes float64."""
        matrix = checks.matrix(self.native, "X").astype(np.float64)
        return np.column_stack([matrix, *columns.values()])

    def with_row(self, columns: Sequence[int], row: Any) -> Any:
        """These rows, with `columns` set to the values of `row`: [F], or rows of this kind.

        An array has the dtype that holds both.
        """
        out = np.array(self.native, np.result_type(self._array.dtype, row.dtype))
        out[:, list(columns)] = row[list(columns)]
        return out

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """One row with the "median" or "mean" of each column; for other values the most frequent
        one.

        For an array it is [1, *F], float64 unless the rows are floats. Raises InputError for no
        rows, and for NaN unless allowed.
        """
        array = checks.as_array(self.native, name)
        if array.ndim < 2 or len(array) == 0:
            raise InputError(
                f"{name}: Baseline({how!r}, rows) needs rows [B, F], got shape {array.shape}."
            )
        checks.finite(array, name, allow_nan)
        summary = (np.nanmedian if how == "median" else np.nanmean)(array, axis=0)
        return summary[None].astype(array.dtype if array.dtype.kind == "f" else np.float64)

    def missing(self, name: str) -> Any:
        """One row of missing values; for an array NaN [*F], float64 unless the rows are floats.

        Raises InputError for a column that cannot be missing.
        """
        array = checks.as_array(self.native, "background")
        dtype = array.dtype if array.dtype.kind == "f" else np.float64
        return np.full(array.shape[1:], np.nan, dtype)


class FrameRows(GivenRows):
    """A `DataFrame` of the library `kind`, which is never imported here.

    Columns are found by position, since labels of pandas may occur twice.
    """

    is_frame = True

    @classmethod
    def holds(cls, rows: Any) -> bool:
        """Whether it is a frame of the library."""
        frame = getattr(sys.modules.get(cls.kind), "DataFrame", None)
        return frame is not None and isinstance(rows, frame)

    @property
    def labels(self) -> list[Any]:
        """The names of the columns; those of pandas may have any type."""
        return list(self.native.columns)

    @property
    def _at(self) -> Any:
        """The indexer by position of rows and columns."""
        return self.native

    def take(self, places: Any, counted: bool = False) -> Any:
        """See `GivenRows.take`; the library has no index, so `counted` changes nothing."""
        return self._at[places]

    def part(self, first: int, last: int) -> Any:
        """A view."""
        return self._at[first:last]

    def columns_at(self, places: Sequence[int] | np.ndarray) -> Any:
        """All rows of these columns, with their index."""
        return self._at[:, [int(j) for j in places]]

    def is_category(self, place: int) -> bool:
        """See `GivenRows.is_category`; True for bools too, which may be missing."""
        nw = _narwhals()
        column = nw.from_native(self._at[:, place], series_only=True)
        return column.dtype in (nw.Boolean, nw.Categorical, nw.Enum)

    def matrix(self) -> np.ndarray:
        """Returns all cells, in a dtype that holds all columns."""
        return self.native.to_numpy()

    def texts(self) -> Iterator[bytes]:
        """Yields bytes of the values of each row, without the index."""
        return (repr(row).encode() for row in _narwhals().from_native(self.native).iter_rows())

    def copy(self) -> Any:
        """Returns a deep copy; polars columns are immutable and therefore shared."""
        return deepcopy(self.native)

    def stacked(self, parts: Sequence[Any]) -> Any:
        """Returns the parts as one frame; parts of pandas keep their index."""
        return sys.modules[self.kind].concat(parts)

    def beside(self, columns: Mapping[str, Any]) -> Any:
        """Returns the frame with these columns set; the index stays."""
        nw = _narwhals()
        made = [nw.new_series(n, values, backend=self.kind) for n, values in columns.items()]
        return nw.from_native(self.native).with_columns(*made).to_native()

    def with_row(self, columns: Sequence[int], row: Any) -> Any:
        """Returns the frame with one row's values in some columns, in the dtypes of that row.

        Columns of polars take float64 if the row is an array.
        """
        nw, rows = _narwhals(), len(self)
        if self.holds(row):
            repeated = nw.from_native(row)[[0] * rows]
            made = [repeated[:, c] for c in columns]
        else:
            value = float if self.kind == "polars" else lambda cell: cell
            pairs = [(self.labels[c], [value(row[c])] * rows) for c in columns]
            made = [nw.new_series(*pair, backend=self.kind) for pair in pairs]
        return nw.from_native(self.native).with_columns(*made).to_native()


class PandasRows(FrameRows):
    """A pandas frame; index, dtypes and order are preserved."""

    kind = "pandas"

    @property
    def index(self) -> Any:
        """The frame's index, unless it is 0 to M - 1."""
        return labels_of_rows(self.native.index)

    def labelled(self, index: Any) -> Any:
        """Returns the frame with another index."""
        return self.native.set_axis(index)

    @property
    def _at(self) -> Any:
        return self.native.iloc

    def take(self, places: Any, counted: bool = False) -> Any:
        """Returns the rows at these positions, with their index or one numbered from 0."""
        rows = self.native.iloc[places]
        return rows.reset_index(drop=True) if counted else rows

    def column(self, place: int) -> np.ndarray:
        """A nullable column gets its NumPy dtype, or float64 if values are missing. A sparse one
        becomes dense, and dates are objects.
        """
        series = self.native.iloc[:, place]
        if hasattr(series.array, "sp_values"):
            return series.array.to_dense()
        if series.dtype.kind in "mM":
            return series.astype(object).to_numpy()
        if not isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf":  # nullable
            if series.isna().any():
                return series.to_numpy(dtype=np.float64, na_value=np.nan)
            return series.to_numpy(dtype=series.dtype.numpy_dtype)
        return series.to_numpy()

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """Numbers become floats; for other columns it is the first of the most frequent values."""
        rows = self.native
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
        empty = self.native.iloc[:1].copy()
        for label in empty.columns:
            dtype = empty[label].dtype
            if isinstance(dtype, np.dtype) and dtype.kind == "b":
                raise InputError(
                    f"{name}: column {label!r} is bool, which has no NaN. Cast it to 'boolean' or "
                    "float, or give a row."
                )
            plain = isinstance(dtype, np.dtype) and dtype.kind in "iuf"
            gone, new_dtype = ([np.nan], np.float64) if plain else ([None], dtype)
            empty[label] = type(empty[label])(gone, index=empty.index, dtype=new_dtype)
        return empty


class PolarsRows(FrameRows):
    """A polars frame; dtypes and order are preserved; it has no index."""

    kind = "polars"

    def column(self, place: int) -> np.ndarray:
        """Nulls become NaN among numbers and bools; dates are objects."""
        series = self.native.to_series(place)
        if series.dtype.is_temporal():
            dates = np.empty(len(series), object)
            dates[:] = series.to_list()
            return dates
        missing = str(series.dtype) == "Boolean" and series.null_count()
        return (series.cast(float) if missing else series).to_numpy()

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """Numbers become Float64; for other columns it is the first of the most frequent values."""
        rows = self.native
        if len(rows) == 0:
            raise InputError(f"{name} has 0 rows; at least 1 is needed.")
        row, schema = {}, {}
        for place, label in enumerate(rows.columns):
            column = rows[label]
            numeric = column.dtype.is_numeric()
            schema[label] = sys.modules["polars"].Float64 if numeric else column.dtype
            if numeric:
                allowed = checks.nan_at(allow_nan, place)
                checks.finite(column.to_numpy(), f"{name}, column {label!r}", allowed)
            if column.dtype.is_float():
                column = column.fill_nan(None)  # a missing number, as in arrays and pandas
            row[label] = (
                [getattr(column, how)()] if numeric else column.mode().sort().head(1).to_list()
            )
        return type(rows)(row, schema=schema)

    def missing(self, name: str) -> Any:
        """Nulls of the same dtypes."""
        return self.native.head(1).clear(1)


class TreeRows(GivenRows):
    """A pytree of arrays [M, ...]; the columns are the entries of all leaves, concatenated."""

    kind = "tree"

    @classmethod
    def holds(cls, rows: Any) -> bool:
        """Whether these are rows in several arrays."""
        return is_tree(rows)

    @cached_property
    def _leaves(self) -> list[np.ndarray]:
        return [np.asarray(checks.from_torch(leaf)) for leaf in jax.tree.leaves(self.native)]

    def _of_each(self, made: Any) -> Any:
        return jax.tree.map(lambda leaf: made(np.asarray(checks.from_torch(leaf))), self.native)

    def __len__(self) -> int:
        return len(self._leaves[0])

    @property
    def instance(self) -> Any:
        """The structure and its leaves' shapes."""
        structure = jax.tree.structure(self.native)
        return structure, tuple(leaf.shape[1:] for leaf in self._leaves)

    @property
    def first(self) -> Any:
        """The first row of every array."""
        return self._of_each(lambda leaf: leaf[0])

    @property
    def width(self) -> int:
        """F."""
        return sum(math.prod(leaf.shape[1:]) for leaf in self._leaves)

    def take(self, places: Any, counted: bool = False) -> Any:
        """See `GivenRows.take`; there is no index, and a slice is a view."""
        return self._of_each(lambda leaf: leaf[places])

    def part(self, first: int, last: int) -> Any:
        """Views."""
        return self._of_each(lambda leaf: leaf[first:last])

    def columns_at(self, places: Sequence[int] | np.ndarray) -> Any:
        """[M, columns], of the dtype that holds all."""
        return self.matrix()[:, places]

    def column(self, place: int) -> np.ndarray:
        """Returns a column in the leaf's own dtype."""
        for leaf in self._leaves:
            size = math.prod(leaf.shape[1:])
            if place < size:
                return leaf.reshape(len(leaf), size)[:, place]
            place -= size
        raise IndexError(place)

    def matrix(self) -> np.ndarray:
        """[M, F], in the common dtype of all leaves; narrow floats, which NumPy cannot promote,
        count as float32.
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
        """Concatenates the parts, leaf by leaf."""
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def beside(self, columns: Mapping[str, Any]) -> Any:
        """Raises InputTypeError: columns of numbers cannot be added to a tree."""
        raise InputTypeError(f"rows in a {type(self.native).__name__}: give one array or a frame.")

    def with_row(self, columns: Sequence[int], row: Any) -> Any:
        """The rows with `columns` set to the values of `row`, a tree of arrays without their
        first axis.
        """
        beside = [np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(row)]
        out, start = [], 0
        for leaf, entries in zip(self._leaves, beside, strict=True):
            places = [c - start for c in columns if 0 <= c - start < len(entries)]
            flat = np.array(leaf.reshape(len(leaf), -1))
            flat[:, places] = entries[places]
            out.append(flat.reshape(leaf.shape))
            start += len(entries)
        return jax.tree.unflatten(jax.tree.structure(self.native), out)

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """Returns one row: the median or mean of floats, and the most frequent integer or bool
        (the smallest of several).
        """
        names, arrays, structure = arrays_of(self.native, name)
        out = []
        for leaf, array in zip(names, arrays, strict=True):
            if array.dtype.kind != "f":
                out.append(np.apply_along_axis(_most_frequent, 0, array)[None])
                continue
            checks.finite(array, f"{name}: the leaf {leaf!r}", allow_nan)
            row = (np.nanmedian if how == "median" else np.nanmean)(array, axis=0)
            out.append(np.asarray(row, array.dtype)[None])
        return jax.tree.unflatten(structure, out)

    def missing(self, name: str) -> Any:
        """NaN; integers and bools cannot be missing."""
        names, arrays, structure = arrays_of(self.native, name)
        for leaf, array in zip(names, arrays, strict=True):
            if array.dtype.kind != "f":
                raise InputError(f"{name}: the leaf {leaf!r} is {array.dtype}, which has no NaN.")
        lost = [np.full(array.shape[1:], np.nan, array.dtype) for array in arrays]
        return jax.tree.unflatten(structure, lost)


def _most_frequent(column: np.ndarray) -> Any:
    values, times = np.unique(column, return_counts=True)
    return values[times.argmax()]


# Anything else is an array.
KINDS: tuple[type[GivenRows], ...] = (PandasRows, PolarsRows, TreeRows)


def rows_of(rows: Any) -> GivenRows:
    """Wraps rows of any kind; reads and copies none."""
    if not isinstance(rows, np.ndarray):
        rows = checks.from_torch(rows)
        for kind in KINDS:
            if kind.holds(rows):
                return kind(rows)
    return GivenRows(rows)


def refuse_series(value: Any, name: str) -> None:
    """Raises InputError for a pandas or polars Series in place of rows."""
    if type(value).__name__ != "Series" or not hasattr(value, "to_frame"):
        return
    way = "frame.iloc[[0]]" if hasattr(value, "iloc") else "frame[0:1]"
    raise InputError(
        f"{name} is a Series, one row or one column of a frame; rows are needed. Say {way}, which "
        "keeps the columns' dtypes, or series.to_numpy()[None] for a row of numbers."
    )


def labels_of_rows(index: Any) -> Any:
    """A pandas Index; None for the default index from 0."""
    counts = index.nlevels == 1 and index.dtype.kind in "iu"
    return None if counts and np.array_equal(index, np.arange(len(index))) else index


def joined_index(parts: Sequence[Any]) -> Any:
    """The labels of all parts, each an index or a range of positions; None as in
    `labels_of_rows`."""
    pandas: Any = require("pandas", "xaijax[data]")
    made = [pandas.RangeIndex(p.start, p.stop) if isinstance(p, range) else p for p in parts]
    first, *others = made
    return labels_of_rows(first.append(others) if others else first)


def labels_of_levels(levels: Sequence[tuple[np.ndarray, str, str | None]]) -> Any:
    """An index of one or several levels, from (labels, dtype, name) of each."""
    pandas: Any = require("pandas", "xaijax[data]")
    made = [pandas.Index(labels, dtype=dtype, name=name) for labels, dtype, name in levels]
    if len(made) == 1:
        return made[0]
    return pandas.MultiIndex.from_arrays(made, names=[level.name for level in made])


def _narwhals() -> Any:
    """Imports narwhals on use, so that `import xaijax` stays fast."""
    import narwhals.stable.v2 as narwhals  # noqa: PLC0415

    return narwhals
