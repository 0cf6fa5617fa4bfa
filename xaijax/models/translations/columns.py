"""The columns that a translated estimator reads, and how its rows become numbers for JAX.

A column of the model's rows is read in one of two ways, which the translation decides: as a value
(the number itself) or as a code (a place among the values that an encoder knows, so that text and
categories reach JAX). A hybrid takes each column from one row or another, so both may be mixed
freely; codes are turned into what the encoder makes of them inside the compiled program.

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
MISSING = ("missing",)  # stands for NaN, which does not equal itself, among the values


@dataclass(eq=False)
class ColumnSource:
    """A column of the model's rows; what is read of it is known once all steps are translated."""

    index: int
    name: str
    read: str | None = None  # "value" | "code"; None: nothing reads it
    codes: dict[Any, int] = field(default_factory=dict)  # value -> code
    strict: str | None = None  # the encoder that refuses values it does not know
    filled: bool = False  # a step that takes no NaN reads it
    cuts: list[np.ndarray] = field(default_factory=list)  # float64 thresholds, see `on_their_side`
    shift: float = 0.0  # taken from the numbers in float64; who reads them knows of it
    shared: bool = False  # several steps read it

    def read_as(self, how: str) -> None:
        """Says how the column is read; raises Untranslatable if it is read otherwise already."""
        if self.read not in (None, how):
            raise Untranslatable(f"column {self.name} is read both as a number and by an encoder")
        self.read = how

    def code(self, value: Any) -> int:
        """The code of a value that an encoder knows."""
        return self.codes.setdefault(key_of(value), len(self.codes))


class Columns(Sequence[ColumnSource | None]):
    """The input columns of one estimator: a `ColumnSource` each; None if an earlier step made it.

    dtype: that of the numbers in JAX, float32 or float64. gaps: for each column the source whose
    missing values it may pass on; None: none. lazy: what reads them at the end asks thresholds
    only, so that a step which maps a column by a function that never falls leaves it as it is and
    adds the function to `maps` (`families/tree_thresholds.py`). centre: what columns and answers
    are to be short of; None: nothing.
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
        """All columns are read as numbers; raises Untranslatable if one holds codes."""
        for source in self._sources:
            if source is not None:
                source.read_as("value")

    def chosen(self, places: Iterable[int]) -> Columns:
        """The columns at these places."""
        wanted = [int(place) for place in places]
        gaps, maps = [self.gaps[j] for j in wanted], [self.maps[j] for j in wanted]
        sources = [self._sources[j] for j in wanted]
        return Columns(sources, self.dtype, gaps, maps, self.lazy, self.centre)

    def changed(self) -> Columns:
        """As many columns of numbers, each made of the one in its place; NaN stays NaN."""
        return Columns([None] * len(self), self.dtype, self.gaps, None, self.lazy, self.centre)

    def made(self, count: int) -> Columns:
        """Columns that a step makes, of numbers that are not missing."""
        return Columns([None] * count, self.dtype, None, None, self.lazy, self.centre)

    def mapped(self, functions: Sequence[Map | None], fills: bool = False) -> Columns:
        """The same columns, each to be mapped once more; fills: NaN becomes a number."""
        maps = [_after(own, more) for own, more in zip(self.maps, functions, strict=True)]
        gaps = [None] * len(self) if fills else self.gaps
        return Columns(self._sources, self.dtype, gaps, maps, self.lazy, self.centre)

    def for_thresholds(self) -> Columns:
        """The same columns, lazy."""
        return Columns(self._sources, self.dtype, self.gaps, self.maps, True, self.centre)

    def taken(self) -> np.ndarray:
        """What is missing of each column as this step gets it, float64 [F]; the step makes up."""
        missing = np.zeros(len(self))
        for j, source in enumerate(self._sources):
            if self.centre is not None and source is not None and not source.shared:
                missing[j] = source.shift = self.centre.columns[source.index]
        return missing

    def taken_from_answers(self) -> np.ndarray:
        """What the answers of a regressor [] or [K] are to be short of, float64."""
        if self.centre is None:
            return np.zeros(())
        self.centre.taken = True
        return self.centre.answer

    def as_they_are(self) -> None:
        """Says that a step reads the numbers themselves; raises Untranslatable if it cannot."""
        if any(function is not None for function in self.maps):
            raise Untranslatable("a step reads what a scaler makes, before trees do")

    def must_be_filled(self) -> None:
        """Says that a step takes no missing values."""
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
    """The value as a key: NaN of any kind is one."""
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

    For a number x of `dtype`, x <= t and x <= down(t) are the same: if x <= t then down(t), the
    largest such number, is not below x; and down(t) <= t. Rounding to the nearest would not do.
    Numbers are the normal ones and 0: XLA takes the smaller ones for 0.
    """
    with np.errstate(over="ignore"):
        near = thresholds.astype(dtype)
    lower = np.nextafter(near, np.asarray(-np.inf, dtype))
    down = np.where(near.astype(np.float64) > thresholds, lower, near)
    tiny = np.finfo(dtype).tiny
    return np.where(np.abs(down) < tiny, np.where(down < 0, -tiny, 0), down).astype(dtype)


def normal(values: np.ndarray) -> np.ndarray:
    """Numbers that are not normal moved to the least that is, on their side of 0."""
    tiny = np.finfo(values.dtype).tiny
    small = (np.abs(values) < tiny) & (values != 0)
    return np.where(small, np.copysign(tiny, values), values) if small.any() else values


def on_their_side(values: np.ndarray, cuts: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """float64 values as `dtype`, on the same side of every threshold (x <= t) as they were.

    The nearest number lies on the other side where a threshold is between the two; the next number
    towards the value does not. Raises Untranslatable if two thresholds are closer than numbers.
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
    """Rows of an estimator as numbers for its translation."""

    sources: tuple[ColumnSource, ...]  # [F]
    dtype: np.dtype
    name: str

    @property
    def numbers_only(self) -> bool:
        """Whether the rows are what JAX takes, but for rounding."""
        return all(source.read != "code" for source in self.sources)

    def codes(self, rows: Any, argument: str = "X") -> Any:
        """[M, F] of `dtype`, of an array [M, F], a memory map of one, or a frame.

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
        if not table.is_frame and self._plain:
            filled = any(source.filled for source in self.sources)
            if self.shifted:
                rows = np.asarray(rows, np.float64) - [source.shift for source in self.sources]
            return self._numbers(rows, "a value", filled, argument)
        codes = np.zeros((len(rows), width), self.dtype)
        for source in self.sources:
            j = source.index
            if source.read is None:
                continue  # all alike, so that nothing is asked for it
            read = self._values if source.read == "value" else self._places
            codes[:, j] = read(source, table.column(j), argument)
        return codes

    @property
    def shifted(self) -> bool:
        """Whether something is taken from a column."""
        return any(source.shift for source in self.sources)

    def middle(self, rows: Any) -> np.ndarray:
        """What is worth taking from each column of rows that `codes` accepts, float64 [F]."""
        table = rows_of(rows)
        return np.array(
            [
                middle_of(table.column(source.index)) if source.read == "value" else 0.0
                for source in self.sources
            ]
        )

    @property
    def _plain(self) -> bool:
        """Whether all columns are numbers, and no threshold is near."""
        return all(source.read == "value" and not source.cuts for source in self.sources)

    def _mapped(self, rows: np.ndarray, argument: str) -> np.ndarray:
        """A piece of a memory map, which is read too late to turn to the host."""
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
            cuts = np.concatenate(source.cuts)
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
        if column.dtype.kind in "biuf":
            distinct, place = np.unique(column, return_inverse=True)
        else:
            distinct, place = column, slice(None)
        codes = np.array([source.codes.get(key_of(v), UNKNOWN) for v in distinct], self.dtype)
        if source.strict is not None and (codes == UNKNOWN).any():
            raise InputError(
                f"{argument}, column {source.name}, holds {distinct[codes == UNKNOWN][0]!r}, which "
                f"{source.strict} was not fitted with (handle_unknown='error')."
            )
        return codes[place]


def _example(column: np.ndarray) -> str:
    """The first value that is no number: numbers in a text are read."""
    for value in column:
        try:
            np.array([value], column.dtype).astype(np.float64)
        except (TypeError, ValueError):
            return repr(value)
    return repr(column[0])


# A column of 1e4 +- 1 has three digits of its +- 1 left in float32, answers of 1e6 +- 1 one. If
# that shows in the comparison with the estimator, the translation is made once more for rows and
# answers minus what they have in common: it is subtracted in float64 from the rows before they are
# numbers for JAX, and from the fitted numbers; what was taken from the answers is added on the
# host, in float64 (`Model.offset`). Ordinary models never come to this.


@dataclass
class Centre:
    """The middle of the columns and of the answers, of the first rows that were compared."""

    columns: np.ndarray  # float64 [F]; 0 where little would be gained, or a column has no numbers
    answer: np.ndarray  # float64 [] or [K]
    taken: bool = False  # whether a translation took `answer` from its own


def middle_of(column: Any) -> float:
    """The mean of a column of numbers [M] if it is large compared with what they differ by,
    else 0.
    """
    values = np.asarray(column, np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0
    mean = float(values.mean())
    return mean if abs(mean) > np.ptp(values) else 0.0
