"""Tables: rows of any kind as code matrices, made of which the engine builds hybrids.

A hybrid takes each column from one row or another, so it can be made of codes that stand for the
values, and is turned back only at the model's door. Three kinds, one for each way rows come:

- `FloatTable`: arrays for JAX models; the code of a value is the value itself.
- `WordTable`: arrays for host models; the codes are the value's bits, so any dtype comes through.
- `FrameTable` (`frame_table.py`): data frames for host models; a code is a place in a list of
  the column's distinct values.

Letters: M rows, F columns, C code columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputTypeError
from xaijax.tables.frames import frame_numbers
from xaijax.tables.rows import rows_of


class Table(Protocol):
    """What the engine asks of a table.

    To add a way to code rows: write a class with these members and choose it in
    `xaijax.games.measure.replacement.table_of`.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one instance."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """[F], where the rows have names."""
        ...

    @property
    def codes_per_column(self) -> int:
        """C = F * codes_per_column."""
        ...

    def read(self, X: Any, name: str, allow_nan: bool, owner: str = "the background") -> Any:
        """X checked and copied, in the form that `encode` takes; raises the error family.

        owner: whose shape and names these are, for messages.
        """
        ...

    def encode(self, rows: Any) -> tuple[Table, np.ndarray]:
        """(a table that knows these rows too, their codes [M, C])."""
        ...

    def decode(self, codes: np.ndarray) -> Any:
        """Rows as the model takes them, of codes [M, C]."""
        ...

    def asked(self, codes: np.ndarray) -> Any:
        """What the engine's model (`Model.of_codes`) is given of them; most often these rows."""
        ...


def one_nan(array: np.ndarray) -> np.ndarray:
    """The same array with all NaN made the one NaN, so that NaN equals NaN bit for bit."""
    lost = np.isnan(array) if array.dtype.kind == "f" else None
    return (
        np.where(lost, array.dtype.type(np.nan), array)
        if lost is not None and lost.any()
        else array
    )


class MappedRows:
    """Rows of a memory map, converted piece by piece where they are sliced; never read whole."""

    def __init__(self, array: np.ndarray, convert: Callable[[np.ndarray], np.ndarray]) -> None:
        self.array, self._convert = array, convert

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self._convert(self.array[rows])

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the map."""
        return self.array.shape

    def then(self, convert: Callable[[np.ndarray], np.ndarray]) -> MappedRows:
        """The same rows, converted once more."""
        return MappedRows(self.array, lambda part: convert(self._convert(part)))


def read_array(
    X: Any,
    name: str,
    shape: tuple[int, ...] | None,
    allow_nan: bool,
    dtype: np.dtype | None = None,
    labels: tuple[str, ...] | None = None,
    owner: str = "the background",
    any_shape: bool = False,
) -> np.ndarray | MappedRows:
    """X [M, *shape] checked and copied as `dtype`, all NaN the one NaN; a memory map stays one.

    shape None: any [M, F], or any [M, *F] with any_shape; dtype None: that of X. X may be a frame
    of numbers, whose names must be `labels` where these are given; `owner` is whose shape and names
    these are.
    """
    if rows_of(X).is_frame:
        columns = frame_numbers(X, name, labels, owner)
        array = np.column_stack(columns)
    else:
        array = checks.as_array(X, name)
        columns = [array]
    if shape is None and any_shape and array.ndim > 2:
        shape = array.shape[1:]
    checks.rows_of(array, name, shape, owner)
    wanted = array.dtype if dtype is None else dtype
    checks.finite(array, name, allow_nan, wanted)
    changed = sum(checks.changed_numbers(one, wanted) for one in columns)
    if changed:
        checks.warn(
            f"{name}: {changed} whole numbers change in {wanted}, which has not enough digits for "
            "them. Subtract an offset, or say precision='float64' in as_model."
        )
    if coarse := sum(checks.coarse_columns(one, wanted) for one in columns):
        checks.warn(
            f"{name}: in {coarse} of {array[:1].size} columns the numbers are so near each other, "
            f"beside their size, that {wanted} keeps fewer than four digits of what they differ "
            "by. Subtract an offset, or say precision='float64' in as_model."
        )
    if _is_mapped(array):
        return MappedRows(array, lambda part: one_nan(part.astype(wanted)))
    return one_nan(array.astype(wanted))


def _is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


class FloatTable:
    """Arrays, or frames of numbers, for a JAX model."""

    codes_per_column = 1

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype, feature_names: tuple[str, ...] | None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.feature_names = feature_names

    def read(
        self, X: Any, name: str, allow_nan: bool, owner: str = "the background"
    ) -> np.ndarray | MappedRows:
        """float32 (or the model's dtype) [M, *shape]; see `read_array`."""
        labels = self.feature_names
        return read_array(X, name, self.shape, allow_nan, self.dtype, labels, owner)

    def encode(self, rows: Any) -> tuple[FloatTable, Any]:
        """Values [M, F]; compare them by their bits."""
        return self, rows.then(_flat) if isinstance(rows, MappedRows) else _flat(rows)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """[M, *shape]."""
        return codes.reshape(len(codes), *self.shape)

    asked = decode


class WordTable:
    """Arrays for a host model; every dtype comes through unchanged."""

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype, feature_names: tuple[str, ...] | None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.feature_names = feature_names
        self.word = np.dtype(f"u{min(4, dtype.itemsize)}")
        self.codes_per_column = dtype.itemsize // self.word.itemsize

    def read(
        self, X: Any, name: str, allow_nan: bool, owner: str = "the background"
    ) -> np.ndarray | MappedRows:
        """[M, *shape] of the background's dtype; see `read_array`."""
        if rows_of(X).is_frame:
            raise InputTypeError(f"{name} is a data frame, but {owner} is an array.")
        array = checks.as_array(X, name)
        if np.result_type(array.dtype, self.dtype) != self.dtype.newbyteorder("="):
            raise InputTypeError(
                f"{name} has dtype {array.dtype}, but {owner} has {self.dtype}, which can "
                f"not hold it. Give both the same dtype (.astype({array.dtype}))."
            )
        return read_array(array, name, self.shape, allow_nan, self.dtype, owner=owner)

    def encode(self, rows: Any) -> tuple[WordTable, Any]:
        """The bits of the values, [M, F codes_per_column]."""
        return self, rows.then(self._words) if isinstance(rows, MappedRows) else self._words(rows)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """[M, *shape] of the background's dtype."""
        flat = np.ascontiguousarray(codes).view(self.dtype)
        return flat.reshape(len(codes), *self.shape)

    asked = decode

    def _words(self, rows: np.ndarray) -> np.ndarray:
        return _flat(rows).view(self.word)


def _flat(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows.reshape(len(rows), -1))
