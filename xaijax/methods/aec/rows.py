"""The rows that AEC is fitted on: one table in memory, or chunks that are read again for each pass.

Letters: M rows in all, F features, R rows in a block.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.tables.frames import entries, frame_labels, frame_numbers, same_labels
from xaijax.tables.rows import rows_of

BLOCK_VALUES = 1 << 18  # float64 numbers in a block: 2 MiB, which stay in the cache
LARGEST_BLOCK = 1 << 23  # the same for many columns, which should have few matrices of pairs
LARGEST = 1e100  # weight: squares of deviations have 200 of the 308 powers of ten left
TUPLES = "tuples (X, y) or (X, y, sample_weight)"
AGAIN = "pass a list, an object whose __iter__ starts anew, or a function that makes an iterator"
FILL = "Fill it or drop the rows first."


def block_rows(features: int) -> int:
    """R, a power of two that depends on the number of columns, not on the chunks.

    A block adds F^2 numbers of products, so it should have about F rows or more.
    """
    rows = max(BLOCK_VALUES // features, min(4 * features, LARGEST_BLOCK // features))
    return 1 << max(8, rows.bit_length() - 1)


@dataclass(frozen=True)
class InMemoryRows:
    """Rows in memory, or in a memory map; an array is read in place, block by block."""

    names: tuple[str, ...]
    x: np.ndarray  # [F, M]: float64 with a column's values side by side, or an array's transpose
    y: np.ndarray  # [M]
    weights: np.ndarray | None  # float64 [M], positive
    in_memory: bool = True  # False for a memory map: its blocks are not kept

    def blocks(self) -> Iterator[InMemoryRows]:
        """Yields every row once."""
        step = block_rows(len(self.names))
        for first in range(0, len(self.y), step):
            yield self.part(slice(first, first + step))

    def part(self, rows: slice) -> InMemoryRows:
        """Some rows, each column's values side by side."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, x=_doubles(self.x[:, rows]), y=self.y[rows], weights=weights)

    def by_column(self) -> InMemoryRows:
        """The same with each column's values side by side, for work column by column."""
        return replace(self, x=_doubles(self.x)) if self.in_memory else self

    def column(self, j: int) -> np.ndarray:
        """One feature, float64 [M]."""
        return _doubles(self.x[j])


class Chunks:
    """Rows that are read again in every pass, and cut into blocks of one size."""

    in_memory = False

    def __init__(self, chunks: Any) -> None:
        self._chunks = _repeatable(chunks)
        self.labels: tuple[str, ...] | None = None  # see `text_names`
        self._kind: str | None = None  # the kind of the chunks' tables, in words
        first = next(self._read(), None)
        if first is None:
            raise InputError("chunks hold no rows of positive weight; at least 2 are needed.")
        self.names = first.names
        self._rows: int | None = None

    def blocks(self) -> Iterator[InMemoryRows]:
        """Yields every row once; raises InputError if a later pass has another number of rows."""
        step, rows = block_rows(len(self.names)), 0
        parts: list[InMemoryRows] = []
        for table in self._read():
            first = 0
            while first < len(table.y):
                last = min(len(table.y), first + step - rows % step)
                parts.append(table.part(slice(first, last)))
                rows += last - first
                first = last
                if rows % step == 0:
                    yield _joined(parts)
                    parts = []
        if parts:
            yield _joined(parts)
        if self._rows not in (None, rows):
            raise InputError(
                f"chunks gave {self._rows:,} rows in the first pass and {rows:,} in a later one: "
                f"{AGAIN}."
            )
        self._rows = rows

    def _read(self) -> Iterator[InMemoryRows]:
        names = None
        passed = self._chunks()
        if not isinstance(passed, Iterable):
            raise InputTypeError(
                f"chunks: the function returned {type(passed).__name__}, no iterator of {TUPLES}."
            )
        for place, chunk in enumerate(passed):
            if not isinstance(chunk, tuple | list) or len(chunk) not in (2, 3):
                raise InputTypeError(
                    f"chunks: item {place} is a {type(chunk).__name__}, not one of the {TUPLES}."
                )
            self._check_kind(chunk[0], place)
            table = table_of(*chunk, expected=names, where=f" of chunk {place}", least=1)
            names = table.names
            if len(table.y):  # its weights may all be zero
                yield table
        if names is None:
            raise InputError(f"chunks has no items; give {TUPLES}.")

    def _check_kind(self, X: Any, place: int) -> None:
        """Raises if frames are mixed with arrays, or texts as names with numbers."""
        labels, kind = text_names(X), "an array"
        if rows_of(X).is_frame:
            kind = f"a frame with{'out' if labels is None else ''} texts as column names"
        if self._kind is None:
            self._kind, self.labels = kind, labels
        if kind != self._kind:
            raise InputError(
                f"X of chunk {place} is {kind}, but that of the first chunk is {self._kind}: give "
                "all chunks as the same kind."
            )


Rows: TypeAlias = InMemoryRows | Chunks  # the rows of AEC; each call of `blocks` is one pass


def text_names(X: Any) -> tuple[str, ...] | None:
    """Column names of a frame if all are text, as scikit-learn keeps them; None otherwise."""
    rows = rows_of(X)
    texts = rows.is_frame and all(isinstance(label, str) for label in rows.labels)
    return tuple(rows.labels) if texts else None


def finite_matrix(X: Any, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """(X [M, F], names of its columns); raises for what is no finite matrix of numbers."""
    array = checks.matrix(X, name)
    checks.finite(array, name, False, remedy=FILL)
    return array, tuple(f"x{j}" for j in range(array.shape[1]))


def table_of(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    expected: tuple[str, ...] | None = None,
    where: str = "",
    least: int = 2,
) -> InMemoryRows:
    """Checks and reads X, y and weights. Rows of weight 0 are left out: they have no effect.

    Raises:
        InputError, InputTypeError: an argument is not accepted; the message names it, with `where`.
    """
    name = f"X{where}"
    if not rows_of(X).is_frame:
        array, names = finite_matrix(X, name)
        if expected is not None and len(names) != len(expected):
            held = checks.count(len(names), "column")
            raise InputError(
                f"{name} has {held}, but the first chunk has {len(expected)}: give them the same."
            )
        x = array.T
    else:
        names = frame_labels(X, name)
        if expected is not None:
            same_labels(names, expected, name, "the first chunk")
        columns = frame_numbers(X, name, None, "", "AEC")
        for label, column in zip(names, columns, strict=True):
            checks.finite(column, f"{name}, column {label!r},", False, remedy=FILL)
        x = np.stack([np.asarray(column, np.float64) for column in columns])
    M = x.shape[1]
    if M < least:
        raise InputError(
            f"{name} has {checks.count(M, 'row')} (n_samples={M}); at least {least} are needed."
        )
    target = target_values(y, M, where)
    weights = _weights(sample_weight, M, where)
    if weights is not None and not weights.all():
        used = weights > 0
        if not where and not used.any():
            raise InputError("sample_weight is zero for all rows; at least 2 must be positive.")
        x, target, weights = _doubles(x[:, used]), target[used], weights[used]
    return InMemoryRows(names, x, target, weights, not isinstance(X, np.memmap))


def target_values(y: Any, rows: int, where: str = "") -> np.ndarray:
    """y as an array [M] of bools, numbers, or objects for texts and other labels.

    Raises:
        InputError: y has missing values, another shape, or another length than X.
        InputTypeError: y is not an array of numbers or labels.
    """
    name = f"y{where}"
    if y is None:
        raise InputError("AEC requires y to be passed, but the target y is None. Give y [rows].")
    array = _plain(y, name)
    if array.ndim != 1:
        raise InputError(
            f"{name} has shape {array.shape}, not [rows]. Say y.ravel() for a single column."
        )
    if len(array) != rows:
        raise InputError(f"{name} has {len(array):,} entries, but X{where} has {rows:,} rows.")
    checks.finite(array, name, False, remedy=FILL)
    if array.dtype.kind == "O":
        missing = [i for i, label in enumerate(array) if label is None or label != label]
        if missing:
            raise InputError(f"{name} contains {array[missing[0]]} at row {missing[0]}. {FILL}")
    return array


def _plain(y: Any, name: str) -> np.ndarray:
    """y as an array of numbers, or of objects if it holds labels."""
    rows = rows_of(y)
    if rows.is_frame and len(rows.labels) == 1:
        return _plain(y[rows.labels[0]], name)
    if str(getattr(y, "dtype", "")).lower().startswith(("category", "categorical", "enum")):
        return np.asarray(y, dtype=object)  # categories are labels, even if they are numbers
    y = entries(y)
    try:
        array = np.asarray(y)
    except ValueError as error:
        raise InputTypeError(f"{name} must be one target [rows]: {error}.") from None
    if array.dtype.kind in "US":
        return array.astype(object)
    if array.dtype.kind != "O":
        return checks.as_array(y, name, "Make them numbers or texts.")
    if all(isinstance(item, numbers.Real) and not isinstance(item, bool) for item in array.flat):
        return array.astype(np.float64)
    return array


def _weights(weights: Any, rows: int, where: str) -> np.ndarray | None:
    if weights is None:
        return None
    name = f"sample_weight{where}"
    array = checks.as_array(weights, name, "Give one number for each row.").astype(np.float64)
    if array.shape != (rows,):
        raise InputError(f"{name} has shape {array.shape}, but X has {rows:,} rows: give [{rows}].")
    checks.finite(array, name, False, remedy="Give finite weights of at least 0.")
    if (array < 0).any():
        raise InputError(f"{name} contains {array.min()}; weights of at least 0 are needed.")
    strange = (array > LARGEST) | ((array > 0) & (array < 1 / LARGEST))
    if strange.any():
        raise InputError(
            f"{name} contains {array[strange][0]}; weights must be 0 or between {1 / LARGEST:g} "
            f"and {LARGEST:g}, for squares in float64. Divide them by their mean."
        )
    return array


def _repeatable(chunks: Any) -> Callable[[], Iterable[Any]]:
    """A function that starts a new pass."""
    if callable(chunks):
        started: Callable[[], Any] = chunks
        return started
    if not isinstance(chunks, Iterable) or hasattr(chunks, "__array__"):
        raise InputTypeError(f"chunks must give {TUPLES}, got {type(chunks).__name__}: {AGAIN}.")
    if iter(chunks) is chunks:
        raise InputTypeError(
            f"chunks is a {type(chunks).__name__}, which can be read once: {AGAIN}."
        )
    return lambda: chunks


def _joined(parts: list[InMemoryRows]) -> InMemoryRows:
    """Several parts joined to one block."""
    if len(parts) == 1:
        return parts[0]
    weights = None
    if any(part.weights is not None for part in parts):
        ones = [np.ones(len(t.y)) if t.weights is None else t.weights for t in parts]
        weights = np.concatenate(ones)
    x = np.concatenate([part.x for part in parts], axis=1)
    return InMemoryRows(parts[0].names, x, np.concatenate([part.y for part in parts]), weights)


def _doubles(x: np.ndarray) -> np.ndarray:
    """x as float64 with a contiguous last axis; not copied if it is so already."""
    if x.dtype == np.float64 and x.strides[-1] == x.itemsize:
        return x
    return np.array(x, np.float64, order="C")
