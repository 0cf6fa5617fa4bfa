"""Defines the columns that a translated estimator reads, and turns its rows into numbers for JAX.

The translation decides how a column of the model's rows is read: as a value (the number itself) or
as a code (a position in the values that an encoder knows, so that text and categories reach JAX). A
hybrid takes each column from one row or another, so both may be mixed freely; the compiled program
maps codes to the encoder's outputs.

Letters: M rows, F columns, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.tables.rows import rows_of
from xaijax.tables.table import MappedRows, Untranslatable, one_nan

Map = Callable[[np.ndarray], np.ndarray]
UNKNOWN = -1  # the code of a value that no encoder knows
MISSING = ("missing",)  # replaces NaN, which does not equal itself, among the values


@dataclass(frozen=True)
class Categories:
    """How a booster reads a column of categories."""

    framed: bool  # a frame holds the categories themselves; otherwise an array holds their numbers
    seen: str = "float64"  # dtype to which numbers are cast
    downwards: bool = False  # they are rounded down; otherwise towards 0
    known: bool = False  # the host handles categories that were not seen in training

    def refuses(self, table: Any, place: int) -> bool:
        """Whether rows have another kind of column at this position."""
        return table.is_category(place) != self.framed

    def whole(self, column: np.ndarray) -> np.ndarray:
        """A numeric column as the numbers of categories; other columns as they are."""
        if self.framed or column.dtype.kind not in "iuf":
            return column
        with np.errstate(over="ignore"):
            return (np.floor if self.downwards else np.trunc)(column.astype(self.seen))


@dataclass(eq=False)
class ColumnSource:
    """A column of the model's rows; how it is read is known once all steps are translated."""

    index: int
    name: str
    read: str | None = None  # "value" | "code"; None: nothing reads it
    codes: dict[Any, int] = field(default_factory=dict)  # value -> code
    strict: str | None = None  # the encoder that refuses unknown values
    filled: bool = False  # a step that takes no NaN reads it
    categories: Categories | None = None  # how a booster reads it; None: no booster does so
    cuts: list[np.ndarray] = field(default_factory=list)  # float64 thresholds, see `on_their_side`
    # thresholds of trees that round rows to float32
    rounded: list[np.ndarray] = field(default_factory=list)
    shift: float = 0.0  # subtracted from the numbers in float64; their readers account for it
    shared: bool = False  # several steps read it

    def read_as(self, how: str) -> None:
        """Records how the column is read; raises Untranslatable if it is already read in another
        way."""
        if self.read not in (None, how) or self.categories is not None:
            raise Untranslatable(f"column {self.name} is read both as a number and by an encoder")
        self.read = how

    def read_by(self, categories: Categories) -> None:
        """Records how a booster reads the column; raises Untranslatable if it is already read in
        another way."""
        if self.read is not None and self.categories != categories:
            raise Untranslatable(f"column {self.name} is read in two ways, one as categories")
        self.read, self.categories = "code", categories

    def code(self, value: Any) -> int:
        """The code of a value that an encoder knows."""
        return self.codes.setdefault(key_of(value), len(self.codes))


class Columns(Sequence[ColumnSource | None]):
    """The input columns of one estimator: a `ColumnSource` each; None if an earlier step made it.

    dtype: of the numbers in JAX, float32 or float64. gaps: for each column the source whose missing
    values it may pass on; None: none. lazy: the last step only compares with thresholds, so a step
    that maps a column by a nondecreasing function leaves it unchanged and adds the function to
    `maps` (`families/trees.py`). centre: the values to subtract from columns and outputs; None:
    none.
    """

    def __init__(
        self,
        sources: Iterable[ColumnSource | None],
        dtype: np.dtype,
        gaps: Iterable[ColumnSource | None] | None = None,
        maps: Iterable[Map | None] | None = None,
        lazy: bool = False,
        centre: Centre | None = None,
    ) -> None:
        self._sources = tuple(sources)
        self.dtype, self.lazy, self.centre = dtype, lazy, centre
        self.maps = (None,) * len(self._sources) if maps is None else tuple(maps)
        self.gaps = self._sources if gaps is None else tuple(gaps)

    def __getitem__(self, place: Any) -> Any:
        return self._sources[place]

    def __len__(self) -> int:
        return len(self._sources)

    def as_values(self) -> None:
        """Records that all columns are read as numbers; raises Untranslatable if one holds
        codes."""
        for source in self._sources:
            if source is not None:
                source.read_as("value")

    def chosen(self, places: Iterable[int]) -> Columns:
        """The columns at these positions."""
        wanted = [int(place) for place in places]
        gaps, maps = [self.gaps[j] for j in wanted], [self.maps[j] for j in wanted]
        sources = [self._sources[j] for j in wanted]
        return Columns(sources, self.dtype, gaps, maps, self.lazy, self.centre)

    def changed(self) -> Columns:
        """The same number of numeric columns, each computed from the one at its position; NaN stays
        NaN."""
        return Columns([None] * len(self), self.dtype, self.gaps, None, self.lazy, self.centre)

    def made(self, count: int) -> Columns:
        """Numeric columns that a step makes, without missing values."""
        return Columns([None] * count, self.dtype, None, None, self.lazy, self.centre)

    def mapped(self, functions: Sequence[Map | None], fills: bool = False) -> Columns:
        """The same columns with one more map each; fills: NaN becomes a number."""
        maps = [_after(before, more) for before, more in zip(self.maps, functions, strict=True)]
        gaps = [None] * len(self) if fills else self.gaps
        return Columns(self._sources, self.dtype, gaps, maps, self.lazy, self.centre)

    def for_thresholds(self) -> Columns:
        """The same columns, lazy."""
        return Columns(self._sources, self.dtype, self.gaps, self.maps, True, self.centre)

    def taken(self) -> np.ndarray:
        """The value subtracted from each column that this step reads, float64 [F]; the step must
        account for it."""
        missing = np.zeros(len(self))
        for j, source in enumerate(self._sources):
            if self.centre is not None and source is not None and not source.shared:
                missing[j] = source.shift = self.centre.columns[source.index]
        return missing

    def taken_from_answers(self) -> np.ndarray:
        """The value to subtract from the outputs of a regressor, float64 [] or [K]."""
        if self.centre is None:
            return np.zeros(())
        self.centre.taken = True
        return self.centre.answer

    def as_they_are(self) -> None:
        """Records that a step reads the numbers themselves; raises Untranslatable if it cannot."""
        if any(function is not None for function in self.maps):
            raise Untranslatable("a step reads what a scaler makes, before trees do")

    def must_be_filled(self) -> None:
        """Records that a step takes no missing values."""
        for source in self.gaps:
            if source is not None:
                source.filled = True

    def number(self, value: Any) -> np.ndarray:
        """An array of fitted numbers in the dtype; raises Untranslatable if one overflows."""
        array = np.asarray(value, np.float64)
        with np.errstate(over="ignore"):
            narrow = array.astype(self.dtype)
        if (np.isinf(narrow) & np.isfinite(array)).any():
            raise Untranslatable(f"a fitted number is infinite in {self.dtype}")
        return narrow


def _after(first: Map | None, second: Map | None) -> Map | None:
    if first is None or second is None:
        return second if first is None else first
    return lambda x: second(first(x))


def key_of(value: Any) -> Any:
    """The value as a key; all kinds of NaN have the same key."""
    if value is None:
        return value
    if type(value).__name__ in ("NAType", "NaTType"):
        return MISSING
    plain = value.item() if isinstance(value, np.generic) else value
    return MISSING if plain != plain else plain


def dense(array: Any) -> np.ndarray:
    """A fitted array in float64, also one that scikit-learn keeps as a sparse matrix."""
    return np.asarray(array.toarray() if hasattr(array, "toarray") else array, np.float64)


def rounded_down(thresholds: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The largest numbers of `dtype` that are not above the thresholds, float64.

    For a number x of `dtype`, x <= t and x <= down(t) are equivalent: if x <= t, then down(t), the
    largest such number, is not below x; and down(t) <= t. Rounding to nearest would not be. Numbers
    are the normal ones and 0: XLA treats smaller ones as 0.
    """
    with np.errstate(over="ignore"):
        near = thresholds.astype(dtype)
        lower = np.nextafter(near, np.asarray(-np.inf, dtype))
    down = np.where(near.astype(np.float64) > thresholds, lower, near)
    tiny = np.finfo(dtype).tiny
    return np.where(np.abs(down) < tiny, np.where(down < 0, -tiny, 0), down).astype(dtype)


def before_rounding(thresholds: np.ndarray) -> np.ndarray:
    """The largest float64 numbers that are at most these float32 ones once they are rounded."""
    low = thresholds.astype(np.float32)
    middle = (low.astype(np.float64) + np.nextafter(low, np.float32(np.inf))) / 2
    return np.where(middle.astype(np.float32) <= low, middle, np.nextafter(middle, -np.inf))


def normal(values: np.ndarray) -> np.ndarray:
    """Subnormal numbers moved to the smallest normal one of the same sign."""
    tiny = np.finfo(values.dtype).tiny
    small = (np.abs(values) < tiny) & (values != 0)
    return np.where(small, np.copysign(tiny, values), values) if small.any() else values


def on_their_side(values: np.ndarray, cuts: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float64 values as `dtype`, kept on the same side of every threshold (x <= t).

    If a threshold lies between a value and the nearest number, the next number towards the value is
    used. Raises Untranslatable if two thresholds are closer than numbers.
    """
    near = values.astype(dtype)
    wide = near.astype(np.float64)
    cuts = np.unique(cuts)
    place = np.searchsorted(cuts, values)  # thresholds below the value
    moved = np.searchsorted(cuts, wide)
    towards = np.where(moved < place, np.inf, -np.inf).astype(dtype)
    near = np.where(moved == place, near, np.nextafter(near, towards))
    known = ~np.isnan(values)
    if (np.searchsorted(cuts, near.astype(np.float64)) != place)[known].any():
        raise Untranslatable(f"thresholds lie closer together than {dtype} numbers do")
    return near


@dataclass(frozen=True)
class Reader:
    """Turns rows of an estimator into numbers for its translation."""

    sources: tuple[ColumnSource, ...]  # [F]
    dtype: np.dtype
    name: str

    @property
    def numbers_only(self) -> bool:
        """Whether JAX takes the rows directly, up to rounding."""
        return all(source.read != "code" for source in self.sources)

    def codes(self, rows: Any, argument: str = "X") -> Any:
        """Codes [M, F] of `dtype`, from an array [M, F], a memory map, or a frame.

        Raises Untranslatable for numbers that the dtype cannot hold, or a missing one that the
        estimator does not take; InputError for a value that an encoder refuses.
        """
        if isinstance(rows, MappedRows):
            return rows.then(lambda part: self._mapped(part, argument))
        width = rows.shape[1] if len(rows.shape) == 2 else 0
        if width != len(self.sources):
            raise InputError(
                f"{argument} has rows of shape {tuple(rows.shape[1:])}, but {self.name} was fitted "
                f"on {len(self.sources)} columns."
            )
        table = rows_of(rows)
        plain, codes = self._plain(table, rows), np.zeros((len(rows), width), self.dtype)
        if plain:
            numbers = rows if len(plain) == width else np.asarray(rows)[:, plain]
            if self.shifted:
                numbers = np.asarray(numbers, np.float64) - [self.sources[j].shift for j in plain]
            filled = any(self.sources[j].filled for j in plain)
            narrow = self._numbers(numbers, "a value", filled, argument)
            if len(plain) == width:
                return narrow
            codes[:, plain] = narrow
        done = set(plain)
        for source in self.sources:
            j = source.index
            if source.read is None or j in done:
                continue  # without a reader all codes are equal
            if source.categories is not None and source.categories.refuses(table, j):
                wanted = "of a frame" if source.categories.framed else "by their numbers"
                raise Untranslatable(f"{argument}, column {source.name}: not categories {wanted}")
            read = self._values if source.read == "value" else self._places
            codes[:, j] = read(source, table.column(j), argument)
        return codes

    @property
    def shifted(self) -> bool:
        """Whether a value is subtracted from any column."""
        return any(source.shift for source in self.sources)

    def middle(self, rows: Any) -> np.ndarray:
        """The value worth subtracting from each column of rows that `codes` accepts, float64
        [F]."""
        table = rows_of(rows)
        return np.array(
            [
                middle_of(table.column(source.index)) if source.read == "value" else 0.0
                for source in self.sources
            ]
        )

    def _plain(self, table: Any, rows: Any) -> list[int]:
        """The columns of an array that are numbers without a threshold near: one step reads them
        all."""
        if table.is_frame:
            return []
        plain = [s.index for s in self.sources if s.read == "value" and not s.cuts]
        own = len(plain) == len(self.sources) or np.asarray(rows).dtype.kind in "biuf"
        return plain if own else []

    def _mapped(self, rows: np.ndarray, argument: str) -> np.ndarray:
        """A chunk of a memory map, which is read too late to fall back to the host."""
        try:
            return self.codes(rows, argument)
        except Untranslatable as reason:
            raise InputError(
                f"{argument}: {self.name} cannot run in JAX on it: {reason}. Say backend='host'."
            ) from None

    def _values(self, source: ColumnSource, column: np.ndarray, argument: str) -> np.ndarray:
        if column.dtype.kind not in "biuf":
            try:
                column = column.astype(np.float64)
            except (TypeError, ValueError):
                raise InputError(
                    f"{argument}, column {source.name}, holds {_example(column)}, where "
                    f"{self.name} takes numbers."
                ) from None
        if source.shift:
            column = column.astype(np.float64) - source.shift
        narrow = self._numbers(column, f"column {source.name}", source.filled, argument)
        if source.cuts:
            cuts = np.concatenate([*source.cuts, *map(before_rounding, source.rounded)])
            narrow = normal(one_nan(on_their_side(column.astype(np.float64), cuts, self.dtype)))
        return narrow

    def _numbers(self, values: np.ndarray, what: str, filled: bool, argument: str) -> np.ndarray:
        """Numbers of any shape in the dtype; filled: none may be missing."""
        if checks.changed_numbers(values, self.dtype):
            raise Untranslatable(f"{argument}: whole numbers of {what} change in {self.dtype}")
        with np.errstate(over="ignore"):
            narrow = values.astype(self.dtype)
        if values.dtype.kind == "f":
            if (np.isinf(narrow) & np.isfinite(values)).any():
                raise Untranslatable(f"{argument}: {what} is infinite in {self.dtype}")
            if filled and np.isnan(narrow).any():
                raise Untranslatable(f"{argument}: {what} is missing, which {self.name} refuses")
        return normal(one_nan(narrow))

    def _places(self, source: ColumnSource, column: np.ndarray, argument: str) -> np.ndarray:
        if source.categories is not None:
            column = source.categories.whole(column)
        if column.dtype.kind in "biuf":
            distinct, place = np.unique(column, return_inverse=True)
        else:
            distinct, place = column, slice(None)
        codes = np.array([source.codes.get(key_of(v), UNKNOWN) for v in distinct], self.dtype)
        if source.categories is not None and source.categories.known and (codes == UNKNOWN).any():
            raise Untranslatable(
                f"{argument}, column {source.name}, holds {distinct[codes == UNKNOWN][0]!r}, a "
                "category that was not seen in training"
            )
        if source.strict is not None and (codes == UNKNOWN).any():
            raise InputError(
                f"{argument}, column {source.name}, holds {distinct[codes == UNKNOWN][0]!r}, which "
                f"{source.strict} was not fitted with (handle_unknown='error')."
            )
        return codes[place]


def _example(column: np.ndarray) -> str:
    """The first value that is not a number; numbers as text count as numbers."""
    for value in column:
        try:
            np.array([value], column.dtype).astype(np.float64)
        except (TypeError, ValueError):
            return repr(value)
    return repr(column[0])


# In float32 a column of 1e4 +- 1 keeps three digits of the +- 1, and outputs of 1e6 +- 1 keep one.
# If the comparison with the estimator shows this, the translation is made again for rows and
# outputs minus their common level. It is subtracted in float64 from the rows, before they become
# numbers for JAX, and from the fitted numbers; the level of the outputs is added on the host, in
# float64 (`Model.offset`). Ordinary models do not need this.


@dataclass
class Centre:
    """The centre of the columns and of the outputs, from the first rows that were compared."""

    columns: np.ndarray  # float64 [F]; 0 if little would be gained, or the column is not numeric
    answer: np.ndarray  # float64 [] or [K]
    taken: bool = False  # whether a translation subtracts `answer` from its outputs


def middle_of(column: Any) -> float:
    """The mean of a numeric column [M] if it is large compared with the spread, otherwise 0."""
    values = np.asarray(column, np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0
    mean = float(values.mean())
    return mean if abs(mean) > np.ptp(values) else 0.0
