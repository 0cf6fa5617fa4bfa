"""Tables turn rows of any kind into code matrices, from which the engine builds hybrids.

A hybrid takes each column from one row or another, so it can be made of codes for the values, which
are decoded just before the model is called. Each kind of rows has its table:

- `FloatTable`: arrays for JAX models; the code of a value is the value itself. An integer with more
  digits than a code takes two codes.
- `WordTable`: arrays for host models; the codes are the value's bits, so any dtype is preserved.
- `FrameTable` (`frame_table.py`): data frames for host models; a code is a position in the list of
  the column's distinct values.
- `CodedTable`: rows of an estimator that JAX runs, with each column as a number. The table for host
  models reads and keeps the rows as the estimator takes them, and `encode` makes numbers of them.
  The estimator can therefore replace JAX at any time.

Letters: M rows, F columns, C code columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError, InputTypeError
from xaijax.tables.frames import frame_numbers
from xaijax.tables.rows import GivenRows, refuse_series, rows_of


class CodeTable(Protocol):
    """The interface of tables for the engine.

    To add a kind of table: write a class with these members and choose it in
    `xaijax.games.measure.replacement.table_of`.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one instance."""
        ...

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """[F], if the rows have names."""
        ...

    @property
    def codes_per_column(self) -> int:
        """C = F * codes_per_column."""
        ...

    def read(
        self, X: Any, name: str, allow_nan: bool | NanColumns, owner: str = "the background"
    ) -> Any:
        """Checks X and returns a copy in the form that `encode` takes; raises subclasses of
        XaiError.

        owner: the argument that sets the shape and names, for messages.
        """
        ...

    def encode(self, rows: Any) -> tuple[CodeTable, np.ndarray]:
        """(a table that includes these rows, their codes [M, C])."""
        ...

    def decode(self, codes: np.ndarray) -> Any:
        """Rows for the model, from codes [M, C]."""
        ...

    def asked(self, codes: np.ndarray) -> Any:
        """The engine's input to the model (`Model.of_codes`), from codes; usually the decoded
        rows."""
        ...


def one_nan(array: np.ndarray) -> np.ndarray:
    """The array with all NaN replaced by the same NaN, so that NaN equals NaN bit for bit."""
    lost = np.isnan(array) if array.dtype.kind == "f" else None
    if lost is None or not lost.any():
        return array
    return np.where(lost, array.dtype.type(np.nan), array)


class MappedRows:
    """Rows of a memory map that are converted when they are sliced; the map is never read in
    full."""

    def __init__(self, array: np.ndarray, convert: Callable[[np.ndarray], np.ndarray]) -> None:
        self.array, self._convert = array, convert

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: slice) -> np.ndarray:
        return self._convert(self.array[rows])

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the map."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the rows once they are converted."""
        return self[:0].dtype

    def then(self, convert: Callable[[np.ndarray], np.ndarray]) -> MappedRows:
        """The same rows with one more conversion."""
        return MappedRows(self.array, lambda part: convert(self._convert(part)))


def kept_rows(original: GivenRows, rows: Any) -> Any:
    """The data that a result stores for rows that were read as `rows`: a frame stays a frame,
    copied.
    """
    if original.is_frame and not rows_of(rows).is_frame:  # those are copies already
        return original.copy()
    return rows.array if isinstance(rows, MappedRows) else rows


def read_array(
    X: Any,
    name: str,
    shape: tuple[int, ...] | None,
    allow_nan: bool | NanColumns,
    dtype: np.dtype | None = None,
    labels: tuple[str, ...] | None = None,
    owner: str = "the background",
    any_shape: bool = False,
) -> np.ndarray | MappedRows:
    """Checks X [M, *shape] and copies it as `dtype`, with a single NaN; a memory map stays one.

    shape None: any [M, F], or any [M, *F] with any_shape; dtype None: that of X. X may be a frame
    of numbers, whose names must equal `labels` if these are given; `owner` names the argument that
    sets the shape and names.
    """
    refuse_series(X, name)
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
    if wanted.kind in "iu":
        _refuse_beyond(array, wanted, name)
    changed = sum(checks.changed_numbers(column, wanted) for column in columns)
    if changed:
        checks.warn(
            f"{name}: {changed} whole numbers change in {wanted}, which has not enough digits for "
            "them. Subtract an offset, or say precision='float64' in as_model."
        )
    if coarse := sum(checks.coarse_columns(column, wanted) for column in columns):
        checks.warn(
            f"{name}: in {coarse} of {array[:1].size} columns the numbers are so near each other, "
            f"compared with their size, that {wanted} keeps fewer than four digits of what they "
            "differ by. Subtract an offset, or say precision='float64' in as_model."
        )
    if _is_mapped(array):
        return MappedRows(array, lambda part: one_nan(part.astype(wanted)))
    return one_nan(array.astype(wanted))


def _refuse_beyond(array: np.ndarray, dtype: np.dtype, name: str) -> None:
    """Raises InputError for integers outside the range of the dtype."""
    limits = np.iinfo(dtype)
    if array.dtype.kind == "b" or np.can_cast(array.dtype, dtype):
        return
    for first, part in checks.chunks(array):
        if len(wrong := np.argwhere((part < limits.min) | (part > limits.max))):
            place = tuple(int(i) for i in wrong[0])
            column = ", ".join(map(str, place[1:]))
            raise InputError(
                f"{name} holds {part[place]} at row {first + place[0]}, column {column}, beyond "
                f"{dtype}. Turn 64-bit JAX on (jax.config.update('jax_enable_x64', True)), number "
                f"the values from 0, or give {name} as floats (.astype('float32'))."
            )


def _is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


class FloatTable:
    """Arrays, or frames of numbers, for a JAX model.

    Rows reach the model in NumPy's common dtype of the background and X: integers if both are
    integers, floats if one is. A hybrid therefore has the dtype of `np.where(kept, x, donor)`.
    Codes are floats in either case, like the engine's sums.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        feature_names: tuple[str, ...] | None,
        whole: np.dtype | None = None,
        takes: Callable[[np.dtype], np.dtype] | None = None,
        wide: bool = False,
        base: FloatTable | None = None,
    ) -> None:
        """dtype: the dtype of the codes. whole: the integer or bool dtype of rows for the model;
        None: floats. takes: (dtype of rows) -> the dtype in which the model takes them; None:
        floats. wide: whether each number takes two codes. base: the table of the background
        alone; None: this one.
        """
        self.shape = shape
        self.dtype = dtype
        self.feature_names = feature_names
        self.whole = whole
        self.codes_per_column = 2 if wide else 1
        self._takes, self._base = takes, base or self

    @property
    def key(self) -> Any:
        """Equal for tables that make the same rows of codes."""
        return "numbers", self.shape, str(self.rows_dtype), self.codes_per_column

    @property
    def rows_dtype(self) -> np.dtype:
        """The dtype in which rows reach the model."""
        return self.dtype if self.whole is None else self.whole

    def read(
        self,
        X: Any,
        name: str,
        allow_nan: bool | NanColumns,
        owner: str = "the background",
        alone: bool = False,
    ) -> np.ndarray | MappedRows:
        """[M, *shape] in the dtype of the model's floats, or of its integers if X and the
        background are integers; see `read_array`. alone: ignore the background.
        """
        labels, wanted = self.feature_names, self.dtype
        if self._takes is not None and (alone or self._base.whole is not None):
            wanted = self._takes(dtype_of(X, name))
        return read_array(X, name, self.shape, allow_nan, wanted, labels, owner)

    def read_exactly(
        self, X: Any, name: str, allow_nan: bool, owner: str = "the background"
    ) -> np.ndarray | None:
        """`read` with all digits of X, for comparing numbers; None if `read` keeps them all."""
        dtype = dtype_of(X, name)
        if dtype.kind not in "iuf" or (dtype.kind in "iu" and self._base.whole is not None):
            return None
        wanted = dtype.newbyteorder("=") if dtype.kind == "f" else np.dtype(np.float64)
        if wanted.itemsize <= self.dtype.itemsize and wanted == self.dtype:
            return None
        rows = read_array(X, name, self.shape, allow_nan, wanted, self.feature_names, owner)
        return rows[:] if isinstance(rows, MappedRows) else rows

    def rounded(self, rows: np.ndarray) -> np.ndarray:
        """Rounds rows of `read_exactly` to those of `read`."""
        wanted = self.dtype
        if self._takes is not None and self._base.whole is not None:
            wanted = self._takes(rows.dtype)
        return one_nan(rows.astype(wanted, copy=False))

    def holding(self, *rows: Any, alone: bool = False) -> FloatTable:
        """The table of these rows and the background, without earlier rows.

        alone: for the rows without the background. Raises InputError for integers that no JAX dtype
        holds.
        """
        if self._takes is None or (self._base.whole is None and not alone):
            return self._base  # floats combined with any dtype are floats
        return self._base.joined(*rows, alone=alone, base=self._base)

    def joined(self, *rows: Any, alone: bool = False, base: FloatTable | None = None) -> FloatTable:
        """`holding` with a given base; base None: the background is among the rows."""
        if self._takes is None:
            return self
        dtypes = [part.dtype for part in rows] + [self.rows_dtype] * (not alone)
        common = self._takes(np.result_type(*dtypes))
        whole = common if common.kind in "biu" else None
        wide = self.codes_per_column == 2 and not alone
        if whole is not None and whole.kind in "iu":
            for part in rows:
                array = part.array if isinstance(part, MappedRows) else part
                _refuse_beyond(array, whole, "X or background")
                wide |= checks.changed_numbers(array, self.dtype) > 0
        wide &= whole is not None
        labels = self.feature_names
        return FloatTable(self.shape, self.dtype, labels, whole, self._takes, wide, base)

    def like(self, rows: np.ndarray, name: str) -> np.ndarray:
        """The rows in the dtype in which the others reach the model. Raises InputTypeError if
        the others are integers and these rows are not.
        """
        if self.whole is None or rows.dtype.kind != "f":
            return rows
        if (rows != np.rint(rows)).any():
            raise InputTypeError(
                f"{name} holds fractions, but the rows explained are {self.whole}. Give data= and "
                "X as floats too (.astype('float32')), or whole numbers here."
            )
        return rows.astype(self.whole)

    def encode(self, rows: Any) -> tuple[FloatTable, Any]:
        """Values [M, F], or their parts [M, 2 F]; compare them by their bits."""
        return self, rows.then(self._coded) if isinstance(rows, MappedRows) else self._coded(rows)

    def _coded(self, rows: np.ndarray) -> np.ndarray:
        flat = _flat(rows)
        if self.codes_per_column == 1:
            return flat.astype(self.dtype, copy=False)
        high = flat >> self._digits
        if checks.changed_numbers(high, self.dtype):
            raise InputError(
                f"X or background holds whole numbers beyond 2**{2 * self._digits}. Say "
                "precision='float64' in as_model, or number the values from 0."
            )
        low = flat & ((1 << self._digits) - 1)
        return np.stack([high, low], axis=2).reshape(len(flat), -1).astype(self.dtype)

    @property
    def _digits(self) -> int:
        return int(np.finfo(self.dtype).nmant) + 1

    def decode(self, codes: Any) -> Any:
        """Rows [M, *shape] for the model, from codes of any shape; as tracers or NumPy arrays."""
        if self.whole is None:
            return codes.reshape(len(codes), *self.shape)
        if self.codes_per_column == 2:
            parts = codes.reshape(len(codes), -1, 2).astype(self.whole)
            codes = (parts[..., 0] << self._digits) + parts[..., 1]
        return codes.reshape(len(codes), *self.shape).astype(self.whole)

    def asked(self, codes: np.ndarray) -> np.ndarray:
        """Floats [M, *shape], which the engine's model converts to integers; parts: [M, 2 F]."""
        return codes if self.codes_per_column == 2 else codes.reshape(len(codes), *self.shape)


def dtype_of(X: Any, name: str) -> np.dtype:
    """The common dtype of the columns of rows, an array or a frame of numbers."""
    refuse_series(X, name)
    if rows_of(X).is_frame:
        return np.result_type(*(column.dtype for column in frame_numbers(X, name, None, "")))
    return checks.as_array(X, name).dtype


class WordTable:
    """Arrays for a host model; every dtype is preserved."""

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype, feature_names: tuple[str, ...] | None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.feature_names = feature_names
        self.word = np.dtype(f"u{min(4, dtype.itemsize)}")
        self.codes_per_column = dtype.itemsize // self.word.itemsize

    def read(
        self, X: Any, name: str, allow_nan: bool | NanColumns, owner: str = "the background"
    ) -> np.ndarray | MappedRows:
        """Rows [M, *shape] in the background's dtype, from an array or a frame of numbers; see
        `read_array`.
        """
        refuse_series(X, name)
        if rows_of(X).is_frame:
            try:
                columns = frame_numbers(X, name, self.feature_names, owner, "an array")
            except InputTypeError as error:
                raise InputTypeError(
                    f"{name} is a data frame, but {owner} is an array. {error}"
                ) from None
            X = np.column_stack(columns)
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
        """Rows [M, *shape] in the background's dtype."""
        flat = np.ascontiguousarray(codes).view(self.dtype)
        return flat.reshape(len(codes), *self.shape)

    asked = decode

    def _words(self, rows: np.ndarray) -> np.ndarray:
        return _flat(rows).view(self.word)


def _flat(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows.reshape(len(rows), -1))


class Untranslatable(Exception):
    """An estimator, or its rows, cannot be translated to JAX; the message gives the reason."""


class RowReader(Protocol):
    """Turns rows into numbers; see `models/translations/columns.Reader`."""

    @property
    def dtype(self) -> np.dtype: ...
    def codes(self, rows: Any, argument: str = "X") -> Any: ...


class CodedTable:
    """Arrays or frames for an estimator translated to JAX; the code of a number is the number."""

    codes_per_column = 1

    def __init__(self, host: CodeTable, reader: RowReader) -> None:
        self.host = host  # reads the rows, and calls the estimator
        self.shape, self.feature_names = host.shape, host.feature_names
        self.reader = reader

    def read(
        self, X: Any, name: str, allow_nan: bool | NanColumns, owner: str = "the background"
    ) -> Any:
        """Checks X and returns a copy in the estimator's form."""
        return self.host.read(X, name, allow_nan, owner)

    def encode(self, rows: Any) -> tuple[CodedTable, Any]:
        """Numbers [M, F]; raises Untranslatable if they do not fit the dtype."""
        return self, self.reader.codes(rows, "X or background")

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The numbers themselves."""
        return codes

    asked = decode


def read_by(table: CodeTable) -> CodeTable:
    """The table that reads rows for this one: the host's table if this one encodes them as
    numbers."""
    return table.host if isinstance(table, CodedTable) else table
