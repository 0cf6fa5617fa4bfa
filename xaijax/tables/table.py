"""Tables: rows of any kind as code matrices, from which the engine builds hybrids.

A hybrid takes each column from one row or another, so it can be made of codes that stand for the
values, and is turned back only at the model's door. Each way rows come has its kind:

- `FloatTable`: arrays for JAX models; the code of a value is the value itself. A whole number of
  more digits than a code has is two codes.
- `WordTable`: arrays for host models; the codes are the value's bits, so any dtype comes through.
- `FrameTable` (`frame_table.py`): data frames for host models; a code is a place in a list of
  the column's distinct values.
- `CodedTable`: rows of an estimator that JAX runs, each column as a number. Rows are read and kept
  as the estimator itself takes them, by the table of host models, and become numbers where they are
  encoded. The estimator can therefore answer in place of JAX at any time.

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
from xaijax.tables.rows import refuse_series, rows_of


class CodeTable(Protocol):
    """What the engine asks of a table.

    To add a way to code rows: write a class with these members and choose it in
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
        """X checked and copied, in the form that `encode` takes; raises the error family.

        owner: whose shape and names these are, for messages.
        """
        ...

    def encode(self, rows: Any) -> tuple[CodeTable, np.ndarray]:
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
    if lost is None or not lost.any():
        return array
    return np.where(lost, array.dtype.type(np.nan), array)


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
        """Shape of the map."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the rows once they are converted."""
        return self[:0].dtype

    def then(self, convert: Callable[[np.ndarray], np.ndarray]) -> MappedRows:
        """The same rows, converted once more."""
        return MappedRows(self.array, lambda part: convert(self._convert(part)))


def kept_rows(X: Any, rows: Any) -> Any:
    """What a result keeps of rows X that were read as `rows`: a frame stays a frame, copied."""
    if rows_of(rows).is_frame:  # a copy already, made before the model was asked
        return rows
    given = rows_of(X)
    if given.is_frame:
        return given.copy()
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
    """X [M, *shape] checked and copied as `dtype`, all NaN the one NaN; a memory map stays one.

    shape None: any [M, F], or any [M, *F] with any_shape; dtype None: that of X. X may be a frame
    of numbers, whose names must be `labels` where these are given; `owner` is whose shape and names
    these are.
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
    changed = sum(checks.changed_numbers(one, wanted) for one in columns)
    if changed:
        checks.warn(
            f"{name}: {changed} whole numbers change in {wanted}, which has not enough digits for "
            "them. Subtract an offset, or say precision='float64' in as_model."
        )
    if coarse := sum(checks.coarse_columns(one, wanted) for one in columns):
        checks.warn(
            f"{name}: in {coarse} of {array[:1].size} columns the numbers are so near each other, "
            f"compared with their size, that {wanted} keeps fewer than four digits of what they "
            "differ by. Subtract an offset, or say precision='float64' in as_model."
        )
    if _is_mapped(array):
        return MappedRows(array, lambda part: one_nan(part.astype(wanted)))
    return one_nan(array.astype(wanted))


def _refuse_beyond(array: np.ndarray, dtype: np.dtype, name: str) -> None:
    """Raises InputError for whole numbers that the dtype does not have."""
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

    Rows reach the model in the dtype that NumPy gives to all of them together: whole numbers if the
    background and X are whole numbers, floats if one of them is. A hybrid therefore has the dtype
    of `np.where(kept, x, donor)`. Codes are floats in either case, as the engine's sums are.
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
        """dtype: that of the codes. whole: in which the model is given rows, of whole numbers or
        bools; None: it is given floats. takes: (dtype of rows) -> that in which the model takes
        them; None: as floats. wide: whether each number is two codes. base: the table of the
        background alone; None: this one.
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
        """[M, *shape] in the dtype of the model's floats, or of its whole numbers where X and the
        background are such; see `read_array`. alone: whatever the background is.
        """
        labels, wanted = self.feature_names, self.dtype
        if self._takes is not None and (alone or self._base.whole is not None):
            wanted = self._takes(dtype_of(X, name))
        return read_array(X, name, self.shape, allow_nan, wanted, labels, owner)

    def read_exactly(
        self, X: Any, name: str, allow_nan: bool, owner: str = "the background"
    ) -> np.ndarray | None:
        """The same with all digits of X, for who compares numbers; None: `read` keeps them all."""
        given = dtype_of(X, name)
        if given.kind not in "iuf" or (given.kind in "iu" and self._base.whole is not None):
            return None
        wanted = given.newbyteorder("=") if given.kind == "f" else np.dtype(np.float64)
        if wanted.itemsize <= self.dtype.itemsize and wanted == self.dtype:
            return None
        rows = read_array(X, name, self.shape, allow_nan, wanted, self.feature_names, owner)
        return rows[:] if isinstance(rows, MappedRows) else rows

    def rounded(self, rows: np.ndarray) -> np.ndarray:
        """Rows of `read_exactly` as `read` gives them."""
        wanted = self.dtype
        if self._takes is not None and self._base.whole is not None:
            wanted = self._takes(rows.dtype)
        return one_nan(rows.astype(wanted, copy=False))

    def holding(self, *rows: Any, alone: bool = False) -> FloatTable:
        """The table of these rows and the background, whatever others were asked about before.

        alone: for the rows without the background. Raises InputError for whole numbers that no
        dtype of JAX holds.
        """
        if self._takes is None or (self._base.whole is None and not alone):
            return self._base  # floats joined with anything are floats
        return self._base.joined(*rows, alone=alone, base=self._base)

    def joined(self, *rows: Any, alone: bool = False, base: FloatTable | None = None) -> FloatTable:
        """The same as `holding`; base: None: the background is among the rows."""
        if self._takes is None:
            return self
        dtypes = [one.dtype for one in rows] + [self.rows_dtype] * (not alone)
        common = self._takes(np.result_type(*dtypes))
        whole = common if common.kind in "biu" else None
        wide = self.codes_per_column == 2 and not alone
        if whole is not None and whole.kind in "iu":
            for one in rows:
                array = one.array if isinstance(one, MappedRows) else one
                _refuse_beyond(array, whole, "X or background")
                wide |= checks.changed_numbers(array, self.dtype) > 0
        wide &= whole is not None
        labels = self.feature_names
        return FloatTable(self.shape, self.dtype, labels, whole, self._takes, wide, base)

    def like(self, rows: np.ndarray, name: str) -> np.ndarray:
        """The rows in the dtype in which others reach the model: floats only if they are whole
        numbers where the others are; InputTypeError if they are not.
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
        """Values [M, F], or parts of them [M, 2 F]; compare them by their bits."""
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
        """[M, *shape] as the model takes them, of codes of any shape; traced by JAX, or NumPy's."""
        if self.whole is None:
            return codes.reshape(len(codes), *self.shape)
        if self.codes_per_column == 2:
            parts = codes.reshape(len(codes), -1, 2).astype(self.whole)
            codes = (parts[..., 0] << self._digits) + parts[..., 1]
        return codes.reshape(len(codes), *self.shape).astype(self.whole)

    def asked(self, codes: np.ndarray) -> np.ndarray:
        """Floats [M, *shape], which the engine's model makes whole numbers of; parts: [M, 2 F]."""
        return codes if self.codes_per_column == 2 else codes.reshape(len(codes), *self.shape)


def dtype_of(X: Any, name: str) -> np.dtype:
    """The dtype of rows, an array or a frame of numbers, that holds all of their columns."""
    refuse_series(X, name)
    if rows_of(X).is_frame:
        return np.result_type(*(one.dtype for one in frame_numbers(X, name, None, "")))
    return checks.as_array(X, name).dtype


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
        self, X: Any, name: str, allow_nan: bool | NanColumns, owner: str = "the background"
    ) -> np.ndarray | MappedRows:
        """[M, *shape] of the background's dtype, of an array or a frame of numbers; see
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
        """[M, *shape] of the background's dtype."""
        flat = np.ascontiguousarray(codes).view(self.dtype)
        return flat.reshape(len(codes), *self.shape)

    asked = decode

    def _words(self, rows: np.ndarray) -> np.ndarray:
        return _flat(rows).view(self.word)


def _flat(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows.reshape(len(rows), -1))


class Untranslatable(Exception):
    """Why an estimator, or rows for it, cannot go to JAX."""


class RowReader(Protocol):
    """What makes numbers of rows; `models/translations/columns.Reader`."""

    @property
    def dtype(self) -> np.dtype: ...
    def codes(self, rows: Any, argument: str = "X") -> Any: ...


class CodedTable:
    """Arrays or frames for an estimator translated to JAX; the code of a number is the number."""

    codes_per_column = 1

    def __init__(self, host: CodeTable, reader: RowReader) -> None:
        self.host = host  # reads the rows, and is what the estimator itself is asked by
        self.shape, self.feature_names = host.shape, host.feature_names
        self.reader = reader

    def read(
        self, X: Any, name: str, allow_nan: bool | NanColumns, owner: str = "the background"
    ) -> Any:
        """X as the estimator takes it, checked and copied."""
        return self.host.read(X, name, allow_nan, owner)

    def encode(self, rows: Any) -> tuple[CodedTable, Any]:
        """Numbers [M, F]; raises Untranslatable if they do not fit the dtype."""
        return self, self.reader.codes(rows, "X or background")

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The numbers as they are."""
        return codes

    asked = decode


def read_by(table: CodeTable) -> CodeTable:
    """What reads rows for this table: the table of the host, where they are then made numbers."""
    return table.host if isinstance(table, CodedTable) else table
