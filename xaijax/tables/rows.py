"""`rows_of`: rows of any kind behind one set of members, so that nobody asks what holds them.

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
    """Rows as the user gave them; a member that makes rows makes them of the same kind.

    These members serve an array [M, *F] of NumPy or JAX, a memory map, or what becomes an array, a
    list say. Nothing is read or checked before it is needed: `checks` says what is wrong with
    arrays. To add a kind of rows, write a subclass with these members and name it in `KINDS` below.
    """

    kind: ClassVar[str] = "array"  # in a word, for messages
    is_frame: ClassVar[bool] = False  # each column has a label and a dtype of its own

    def __init__(self, given: Any) -> None:
        self.given = given

    def __len__(self) -> int:
        return len(self.given)

    @classmethod
    def holds(cls, given: Any) -> bool:
        """Whether these are rows of this kind; nothing is imported for the answer."""
        return False

    @property
    def _array(self) -> Any:
        return self.given if hasattr(self.given, "shape") else np.asarray(self.given)

    @property
    def labels(self) -> list[Any]:
        """[F], the columns' labels as given; none unless it is a frame."""
        return []

    @property
    def index(self) -> Any:
        """The labels of the rows, a pandas Index [M]; None: they are only counted from 0."""
        return None

    def labelled(self, index: Any) -> Any:
        """The rows with these labels, if the library keeps labels; else as they are."""
        return self.given

    @property
    def instance(self) -> Any:
        """What one row is shaped like."""
        return self.given.shape[1:]

    @property
    def first(self) -> Any:
        """The first row alone: without the axis of rows, or a frame of one row."""
        return self.part(0, 1) if self.is_frame else self.given[0]

    @property
    def width(self) -> int:
        """F, the entries of one row; 0 of what has no rows."""
        return math.prod(self.given.shape[1:]) if len(self.given.shape) > 1 else 0

    def take(self, places: Any, counted: bool = False) -> Any:
        """The rows at these places, int or slice (of an array a view); counted: an index starts at
        0 again.
        """
        return self._array[places]

    def part(self, first: int, last: int) -> Any:
        """Rows first to last - 1, a view; of a memory map nothing else is read."""
        return self._array[first:last]

    def columns_at(self, places: Sequence[int] | np.ndarray) -> Any:
        """All rows of the columns at these places."""
        return self._array[:, places]

    def column(self, place: int) -> np.ndarray:
        """One column [M] as NumPy: numbers stay numbers (missing: NaN), the rest as objects.

        For an array it is a view; entries of instances of rank above 1 are counted in C order.
        """
        array = self._array
        if hasattr(array, "__array__"):
            array = np.asarray(array)
        if len(array.shape) == 2:
            return array[:, place]
        return array[(slice(None), *np.unravel_index(place, array.shape[1:]))]

    def is_category(self, place: int) -> bool:
        """Whether the dtype of a column says that its values are categories, numbers or not."""
        return False

    def columns(self) -> list[np.ndarray]:
        """All columns of a frame, each [M]."""
        return [self.column(j) for j in range(len(self.labels))]

    def matrix(self) -> np.ndarray:
        """All of the rows as one array; a memory map is read."""
        return np.asarray(self._array[:])

    def texts(self) -> Iterator[bytes]:
        """Yields bytes for each row, the same for equal rows."""
        return (np.ascontiguousarray(row).tobytes() for row in self.given)

    def copy(self) -> Any:
        """The same rows, which the user who gave them cannot change; arrays become NumPy's."""
        return np.array(self.given)

    def stacked(self, parts: Sequence[Any]) -> Any:
        """Rows of this kind, with the same columns, one under the other."""
        return np.concatenate(parts)

    def beside(self, columns: Mapping[str, Any]) -> Any:
        """These rows and, to their right, columns [M] of these labels; an array becomes float64."""
        own = checks.matrix(self.given, "X").astype(np.float64)
        return np.column_stack([own, *columns.values()])

    def with_row(self, columns: Sequence[int], row: Any) -> Any:
        """These rows, those columns at the values of a row: [F], or one of this kind.

        An array has the dtype that holds both.
        """
        out = np.array(self.given, np.result_type(self._array.dtype, row.dtype))
        out[:, list(columns)] = row[list(columns)]
        return out

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """One row, of the "median" or "mean" of each column; for other values the most frequent.

        For an array it is [1, *F], float64 unless the rows are floats. Raises InputError for no
        rows, and for NaN unless allowed.
        """
        array = checks.as_array(self.given, name)
        if array.ndim < 2 or len(array) == 0:
            raise InputError(
                f"{name}: Baseline({how!r}, rows) needs rows [B, F], got shape {array.shape}."
            )
        checks.finite(array, name, allow_nan)
        summary = (np.nanmedian if how == "median" else np.nanmean)(array, axis=0)
        return summary[None].astype(array.dtype if array.dtype.kind == "f" else np.float64)

    def missing(self, name: str) -> Any:
        """One row with nothing in it; an array's is NaN [*F], float64 unless the rows are floats.

        Raises InputError for a column that cannot be missing.
        """
        array = checks.as_array(self.given, "background")
        dtype = array.dtype if array.dtype.kind == "f" else np.float64
        return np.full(array.shape[1:], np.nan, dtype)


class FrameRows(GivenRows):
    """A `DataFrame` of the library that `kind` names; the library is never imported here.

    Columns are found by place, since labels of pandas may occur twice.
    """

    is_frame = True

    @classmethod
    def holds(cls, given: Any) -> bool:
        """Whether it is a frame of the library."""
        frame = getattr(sys.modules.get(cls.kind), "DataFrame", None)
        return frame is not None and isinstance(given, frame)

    @property
    def labels(self) -> list[Any]:
        """The names of the columns; those of pandas may have any type."""
        return list(self.given.columns)

    @property
    def _at(self) -> Any:
        """What takes rows and columns by place."""
        return self.given

    def take(self, places: Any, counted: bool = False) -> Any:
        """The same, counted or not, of a library without an index."""
        return self._at[places]

    def part(self, first: int, last: int) -> Any:
        """A view."""
        return self._at[first:last]

    def columns_at(self, places: Sequence[int] | np.ndarray) -> Any:
        """All rows of these columns, with their index."""
        return self._at[:, [int(j) for j in places]]

    def is_category(self, place: int) -> bool:
        """True for bools too, which may be missing."""
        nw = _narwhals()
        column = nw.from_native(self._at[:, place], series_only=True)
        return column.dtype in (nw.Boolean, nw.Categorical, nw.Enum)

    def matrix(self) -> np.ndarray:
        """Returns all cells, in a dtype that holds all columns."""
        return self.given.to_numpy()

    def texts(self) -> Iterator[bytes]:
        """Yields bytes of the values of each row, without the index."""
        return (repr(row).encode() for row in _narwhals().from_native(self.given).iter_rows())

    def copy(self) -> Any:
        """A deep copy; columns of polars, which cannot be changed, are shared."""
        return deepcopy(self.given)

    def stacked(self, parts: Sequence[Any]) -> Any:
        """Returns the parts as one frame; parts of pandas keep their index."""
        return sys.modules[self.kind].concat(parts)

    def beside(self, columns: Mapping[str, Any]) -> Any:
        """Returns the frame with these columns set; the index stays."""
        nw = _narwhals()
        made = [nw.new_series(n, values, backend=self.kind) for n, values in columns.items()]
        return nw.from_native(self.given).with_columns(*made).to_native()

    def with_row(self, columns: Sequence[int], row: Any) -> Any:
        """Returns the frame with one row's values in some columns, in the dtypes of that row.

        Columns of polars take float64 if the row is an array.
        """
        nw, rows = _narwhals(), len(self)
        if self.holds(row):
            repeated = nw.from_native(row)[[0] * rows]
            made = [repeated[:, c] for c in columns]
        else:
            value = float if self.kind == "polars" else lambda one: one
            pairs = [(self.labels[c], [value(row[c])] * rows) for c in columns]
            made = [nw.new_series(*pair, backend=self.kind) for pair in pairs]
        return nw.from_native(self.given).with_columns(*made).to_native()


class PandasRows(FrameRows):
    """A frame of pandas, whose index, dtypes and order come through unchanged."""

    kind = "pandas"

    @property
    def index(self) -> Any:
        """The frame's own, unless it is 0 to M - 1."""
        return labels_of_rows(self.given.index)

    def labelled(self, index: Any) -> Any:
        """Returns the frame with another index."""
        return self.given.set_axis(index)

    @property
    def _at(self) -> Any:
        return self.given.iloc

    def take(self, places: Any, counted: bool = False) -> Any:
        """Returns the rows at these places, with their index or one that counts from 0."""
        rows = self.given.iloc[places]
        return rows.reset_index(drop=True) if counted else rows

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

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """Numbers become floats; for other columns it is the first of the most frequent values."""
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
                    f"{name}: column {label!r} is bool, which has no NaN. Cast it to 'boolean' or "
                    "float, or give a row."
                )
            plain = isinstance(dtype, np.dtype) and dtype.kind in "iuf"
            gone, kept = ([np.nan], np.float64) if plain else ([None], dtype)
            empty[label] = type(empty[label])(gone, index=empty.index, dtype=kept)
        return empty


class PolarsRows(FrameRows):
    """A frame of polars, whose dtypes and order come through unchanged; it has no index."""

    kind = "polars"

    def column(self, place: int) -> np.ndarray:
        """A null is NaN among numbers and bools; dates are objects."""
        series = self.given.to_series(place)
        if series.dtype.is_temporal():
            dates = np.empty(len(series), object)
            dates[:] = series.to_list()
            return dates
        missing = str(series.dtype) == "Boolean" and series.null_count()
        return (series.cast(float) if missing else series).to_numpy()

    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """Numbers become Float64; for other columns it is the first of the most frequent values."""
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


class TreeRows(GivenRows):
    """A pytree of arrays [M, ...]; the columns are the entries of all leaves in a line."""

    kind = "tree"

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
        """Returns a column in the leaf's own dtype."""
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
        """The parts one after the other, leaf by leaf."""
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    def beside(self, columns: Mapping[str, Any]) -> Any:
        """Raises InputTypeError: a tree has no place for columns of numbers."""
        raise InputTypeError(f"rows in a {type(self.given).__name__}: give one array or a frame.")

    def with_row(self, columns: Sequence[int], row: Any) -> Any:
        """The rows with these entries at the values of a row, a tree of arrays without their
        first axis.
        """
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
        """Returns one row: the median or mean of floats, and the most frequent whole number or
        bool (the smallest of several).
        """
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


# What none of them holds is an array.
KINDS: tuple[type[GivenRows], ...] = (PandasRows, PolarsRows, TreeRows)


def rows_of(given: Any) -> GivenRows:
    """The rows, to be asked whatever holds them; no row is read or copied."""
    if not isinstance(given, np.ndarray):
        given = checks.from_torch(given)
        for kind in KINDS:
            if kind.holds(given):
                return kind(given)
    return GivenRows(given)


def refuse_series(given: Any, name: str) -> None:
    """Raises InputError for a series of pandas or polars in place of rows."""
    if type(given).__name__ != "Series" or not hasattr(given, "to_frame"):
        return
    way = "frame.iloc[[0]]" if hasattr(given, "iloc") else "frame[0:1]"
    raise InputError(
        f"{name} is a Series, one row or one column of a frame; rows are needed. Say {way}, which "
        "keeps the columns' dtypes, or series.to_numpy()[None] for a row of numbers."
    )


def labels_of_rows(index: Any) -> Any:
    """An index of pandas; None for one that counts from 0, which says no more than the places."""
    counts = index.nlevels == 1 and index.dtype.kind in "iu"
    return None if counts and np.array_equal(index, np.arange(len(index))) else index


def joined_index(parts: Sequence[Any]) -> Any:
    """The labels of all parts, each an index or a range of places; None as in `labels_of_rows`."""
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


def _narwhals() -> Any:
    """Loads narwhals on use, so that `import xaijax` stays fast."""
    import narwhals.stable.v2 as narwhals  # noqa: PLC0415

    return narwhals
