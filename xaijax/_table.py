"""Tables: rows of any kind as code matrices, made of which the engine builds hybrids.

A hybrid takes each column from one row or another, so it can be made of codes that stand for the
values, and is turned back only at the model's door. Three kinds, one for each way rows come:

- `FloatTable`: arrays for JAX models; the code of a value is the value itself.
- `WordTable`: arrays for host models; the codes are the value's bits, so any dtype comes through.
- `FrameTable` (`_frame_table.py`): data frames for host models; a code is a place in a list of
  the column's distinct values.

Letters: M rows, F columns, C code columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError


class Table(Protocol):
    """What the engine asks of a table.

    To add a kind of rows: write a class with these members and choose it in
    `xaijax.games.replacement.replacement_of`.
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

    def read(self, X: Any, name: str, allow_nan: bool) -> Any:
        """X checked and copied, in the form that `encode` takes; raises the error family."""
        ...

    def encode(self, rows: Any) -> tuple[Table, np.ndarray]:
        """(a table that knows these rows too, their codes [M, C])."""
        ...

    def decode(self, codes: np.ndarray) -> Any:
        """Rows as the model takes them, of codes [M, C]."""
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


class FloatTable:
    """Arrays, or frames of numbers, for a JAX model."""

    codes_per_column = 1

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype, feature_names: tuple[str, ...] | None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.feature_names = feature_names

    def read(self, X: Any, name: str, allow_nan: bool) -> np.ndarray | MappedRows:
        """float32 (or the model's dtype) [M, *shape], a copy."""
        if _checks.frame_kind(X):
            X = _numeric_frame(X, name, self.feature_names)
        array = _checks.rows_of(_checks.as_array(X, name), name, self.shape, "the background")
        _checks.finite(array, name, allow_nan)
        if isinstance(X, np.memmap):
            for _, part in _checks.chunks(array):
                _checks.to_float(part, name, self.dtype)
            return MappedRows(array, self._converted)
        return one_nan(_checks.to_float(array, name, self.dtype))

    def encode(self, rows: Any) -> tuple[FloatTable, Any]:
        """Values [M, F]; compare them by their bits."""
        if isinstance(rows, MappedRows):
            return self, MappedRows(rows.array, lambda part: _flat(self._converted(part)))
        return self, _flat(rows)

    def _converted(self, part: np.ndarray) -> np.ndarray:
        return one_nan(part.astype(self.dtype))

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """[M, *shape]."""
        return codes.reshape(len(codes), *self.shape)


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

    def read(self, X: Any, name: str, allow_nan: bool) -> np.ndarray | MappedRows:
        """[M, *shape] of the background's dtype, a copy unless X is a memory map."""
        if _checks.frame_kind(X):
            raise InputTypeError(f"{name} is a data frame, but the background is an array.")
        array = _checks.rows_of(_checks.as_array(X, name), name, self.shape, "the background")
        _checks.finite(array, name, allow_nan)
        if array.dtype != self.dtype and np.result_type(array.dtype, self.dtype) != self.dtype:
            raise InputTypeError(
                f"{name} has dtype {array.dtype}, but the background has {self.dtype}, which can "
                f"not hold it. Give both the same dtype (background.astype({array.dtype}))."
            )
        if isinstance(X, np.memmap):
            return MappedRows(array, self._converted)
        return one_nan(array.astype(self.dtype))

    def encode(self, rows: Any) -> tuple[WordTable, Any]:
        """The bits of the values, [M, F codes_per_column]."""
        if isinstance(rows, MappedRows):
            return self, MappedRows(
                rows.array, lambda part: _flat(self._converted(part)).view(self.word)
            )
        return self, _flat(rows).view(self.word)

    def _converted(self, part: np.ndarray) -> np.ndarray:
        return one_nan(part.astype(self.dtype))

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """[M, *shape] of the background's dtype."""
        flat = np.ascontiguousarray(codes).view(self.dtype)
        return flat.reshape(len(codes), *self.shape)


def _flat(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows.reshape(len(rows), -1))


def _numeric_frame(frame: Any, name: str, expected: tuple[str, ...] | None) -> np.ndarray:
    """The numbers of a frame for a JAX model; names are checked against the background's."""
    labels = frame_labels(frame, name)
    if expected is not None:
        same_labels(labels, expected, name)
    for label, dtype in zip(labels, frame.dtypes, strict=True):
        text = str(dtype).lower()
        if not text.startswith(("int", "uint", "float", "bool")):
            raise InputTypeError(
                f"{name}: column {label!r} has dtype {dtype}; a JAX model takes numbers. Encode it "
                "first (OrdinalEncoder or OneHotEncoder)."
            )
    return np.asarray(frame.to_numpy())


def frame_labels(frame: Any, name: str) -> tuple[str, ...]:
    """Column names as text, each once."""
    labels = tuple(str(c) for c in frame.columns)
    _checks.unique_names(labels, f"{name}: column names")
    return labels


def same_labels(got: tuple[str, ...], expected: tuple[str, ...], name: str) -> None:
    """Refuse other columns, or the same in another order."""
    if got == expected:
        return
    missing, extra = sorted(set(expected) - set(got)), sorted(set(got) - set(expected))
    if missing or extra:
        raise InputError(
            f"{name} has other columns than the background: missing {missing}, unknown {extra}."
        )
    j = next(j for j in range(len(got)) if got[j] != expected[j])
    raise InputError(
        f"{name} has the background's columns in another order (column {j} is {got[j]!r}, expected "
        f"{expected[j]!r}). Say {name}[list(background.columns)]."
    )


def array_shape(array: np.ndarray, declared: tuple[int, ...] | None, name: str) -> tuple[int, ...]:
    """Shape of one instance, checked."""
    rows = _checks.rows_of(array, name, None if declared is None else tuple(declared))
    if math.prod(rows.shape[1:]) == 0:
        raise InputError(f"{name} has no columns (shape {array.shape}).")
    return rows.shape[1:]
