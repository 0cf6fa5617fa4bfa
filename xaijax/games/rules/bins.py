"""Bins: what "the same" means in a column, and a rule's predicates and words.

A numeric column is cut at increasing edges, bin i being (edge i - 1, edge i]; any other column, and
a numeric one that is not cut, goes by equality.

Letters: M rows, F columns.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.players.predicates import Predicate, label_words, predicate_words
from xaijax.tables.rows import rows_of

DISCRETISERS = {"quartile": (25, 50, 75), "decile": tuple(range(10, 100, 10))}


@dataclass(frozen=True)
class Column:
    """One column as rules see it."""

    place: int
    name: str
    edges: np.ndarray | None  # float64, increasing; None: by equality
    values: tuple[Any, ...]  # by equality: the distinct values of the data, a bin each
    categorical: bool
    names: Mapping[Any, str] | None = None  # what values are called
    interval: tuple[float, float] | None = None  # a person's own (low, high]: bins 0 (out), 1 (in)
    members: frozenset[Any] | None = None  # a person's own categories, likewise
    numeric: bool = True  # `values` are numbers, in order
    single: bool = False  # numbers come as float32, and a person's own are read as such too

    @property
    def count(self) -> int:
        """Bins; the last one is for what is missing, or not among the values."""
        if self.interval is not None or self.members is not None:
            return 2
        return (len(self.values) if self.edges is None else len(self.edges) + 1) + 1

    def bins(self, values: np.ndarray) -> np.ndarray:
        """int32 [M] of values [M]."""
        if self.interval is not None:
            low, high = self.interval
            numbers_ = _as_numbers(values, self.name)
            return ((low < numbers_) & (numbers_ <= high)).astype(np.int32)
        if self.members is not None:
            own = self.members
            return np.fromiter((_key(v) in own for v in values.tolist()), np.int32, len(values))
        if self.edges is not None:
            numbers_ = _as_numbers(values, self.name)
            places = np.searchsorted(self.edges, numbers_, side="left")
            return np.where(np.isnan(numbers_), len(self.edges) + 1, places).astype(np.int32)
        if values.dtype.kind in "biuf" and self.numeric:
            known = np.asarray(self.values, np.float64)  # sorted, NaN last
            numbers_ = values.astype(np.float64)
            places = np.minimum(np.searchsorted(known, numbers_), len(known) - 1)
            same = (known[places] == numbers_) | (np.isnan(known[places]) & np.isnan(numbers_))
            return np.where(same, places, len(known)).astype(np.int32)
        place = {value: i for i, value in enumerate(self.values)}
        found = (place.get(_key(value), len(place)) for value in values.tolist())
        return np.fromiter(found, np.int32, len(values))

    def predicate(self, bin_: int, value: Any, last: int | None = None) -> Predicate:
        """What holds of the rows of a bin, or of bins bin_ .. last; value: that of the instance."""
        if self.interval is not None:
            return (self.place, *self.interval)
        if self.members is not None:
            return (self.place, tuple(self.members))
        if self.edges is None:
            return (self.place, (value,))
        if bin_ > len(self.edges):
            return (self.place, (float("nan"),))
        ends = np.r_[-np.inf, self.edges, np.inf]
        last = bin_ if last is None else last
        return (self.place, float(ends[bin_]), float(ends[last + 1]))

    def range_of(self, predicate: Predicate) -> tuple[int, int] | None:
        """(first bin, last bin) of a predicate (column, low, high); None: its ends are no edges."""
        if self.edges is None:
            return None
        ends = np.r_[-np.inf, self.edges, np.inf].tolist()
        low, high = map(float, predicate[1:])
        if low not in ends or high not in ends:
            return None
        return ends.index(low), ends.index(high) - 1

    def words(self, predicate: Predicate) -> str:
        """The predicate in words: "7 < temp <= 14", "Sex = female"."""
        return predicate_words(predicate, self.name, self.names)


def _key(value: Any) -> Any:
    """A value under which equal ones are found: every missing one is None."""
    return None if value is None or value != value else value


def _as_numbers(values: np.ndarray, name: str) -> np.ndarray:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"column {name!r} must be numbers, as in the data, got {values.dtype}."
        ) from None


def as_read(value: Any, single: bool) -> Any:
    """A person's number as the data have it: 0.6 of float32 is not 0.6 of float64."""
    if not single or isinstance(value, bool) or not isinstance(value, numbers.Real):
        return value
    with np.errstate(over="ignore"):
        return float(np.float32(value))


@dataclass(frozen=True)
class Bins:
    """All columns."""

    columns: tuple[Column, ...]

    def of(self, rows: Any) -> np.ndarray:
        """The bins of rows (array [M, F] or frame); int32 [M, F]."""
        given = rows_of(rows)
        found = [one.bins(given.column(one.place)) for one in self.columns]
        return np.stack(found, axis=1) if found else np.zeros((len(given), 0), np.int32)

    def refuse_unseen(self, rows: Any, bins: np.ndarray) -> None:
        """Raise InputError for a category that the data do not have; bins [N, F] of the rows X."""
        for j, one in enumerate(self.columns):
            if not one.categorical or one.edges is not None or one.members is not None:
                continue
            unseen = np.flatnonzero(bins[:, j] >= len(one.values))
            if len(unseen):
                value = rows_of(rows).column(one.place)[unseen[0]]
                known = ", ".join(label_words(v) for v in one.values[:10])
                known += ", ..." if len(one.values) > 10 else ""
                raise InputError(
                    f"X row {int(unseen[0])}, column {one.name!r}: the category "
                    f"{label_words(value)!r} is not in the data, which have {known}. No "
                    "rule can be tested on it: add such rows to the data, or correct the value."
                )

    def with_predicates(self, predicates: Sequence[Any]) -> tuple[Bins, list[int]]:
        """Bins in which a person's own predicates are bins, and the columns they are about.

        A predicate is (column, low, high), (column, categories), or a column alone (its own bin).
        Raises InputError, InputTypeError for what is none of these.
        """
        if isinstance(predicates, str) or not isinstance(predicates, Sequence):
            raise InputTypeError(
                "predicates must be a list of (feature, low, high), (feature, categories) or "
                f"feature, got {type(predicates).__name__}."
            )
        columns, used = list(self.columns), []
        for given in predicates:
            parts = given if isinstance(given, tuple | list) else (given,)
            if not 1 <= len(parts) <= 3:
                raise InputError(
                    f"predicates hold {given!r}; (feature, low, high), (feature, categories) or "
                    "feature is accepted."
                )
            j = place_of_column(parts[0], [one.name for one in self.columns], "predicates")
            if j in used:
                raise InputError(f"predicates name the column {columns[j].name!r} twice.")
            used.append(j)
            if len(parts) == 3:
                columns[j] = replace(columns[j], interval=_interval(columns[j], *parts[1:]))
            elif len(parts) == 2:
                columns[j] = replace(columns[j], members=_members(columns[j], parts[1]))
        return Bins(tuple(columns)), used


def _interval(column: Column, low: Any, high: Any) -> tuple[float, float]:
    if not all(isinstance(v, numbers.Real) and not isinstance(v, bool) for v in (low, high)):
        raise InputTypeError(
            f"predicates: low and high of {column.name!r} must be numbers (inf where open), got "
            f"{(low, high)!r}."
        )
    if column.edges is None and column.categorical:
        raise InputError(
            f"predicates: {column.name!r} goes by categories; say (feature, categories)."
        )
    if not as_read(float(low), column.single) < as_read(float(high), column.single):
        raise InputError(f"predicates: {column.name!r} needs low < high, got {(low, high)!r}.")
    return as_read(float(low), column.single), as_read(float(high), column.single)


def _members(column: Column, given: Any) -> frozenset[Any]:
    listed = (
        [given] if isinstance(given, str) or not isinstance(given, tuple | list | set) else given
    )
    by_name = {name: value for value, name in (column.names or {}).items()}
    named = [by_name.get(v, v) if isinstance(v, str) else v for v in listed]
    found = [as_read(v, column.single) for v in named]
    if column.categorical:
        known = {_key(v) for v in column.values}
        unknown = [v for v, read in zip(named, found, strict=True) if _key(read) not in known]
        if unknown:
            raise InputError(
                f"predicates: {unknown[0]!r} is no category of {column.name!r} in the data."
            )
    return frozenset(_key(v) for v in found)


def place_of_column(given: Any, names: Sequence[str], argument: str) -> int:
    """The place of a column that is given by name or by place."""
    if isinstance(given, str):
        if given in names:
            return list(names).index(given)
        raise InputError(f"{argument}: there is no column {given!r}; there are {list(names)[:20]}.")
    if isinstance(given, bool) or not isinstance(given, numbers.Integral):
        raise InputTypeError(f"{argument}: a column is a name or a place, got {given!r}.")
    if not 0 <= int(given) < len(names):
        raise InputError(f"{argument}: there is no column {given}; there are {len(names)}.")
    return int(given)


def bins_of(data: Any, names: Sequence[str], categories: Any, bins: Any) -> Bins:
    """Read `categories=` and `bins=` for data (array [B, F] or frame, as read).

    Raises InputError, InputTypeError for columns that do not exist, cuts that do not increase,
    cuts of a column that is not numeric.
    """
    named, called = _categories(categories, names)
    cuts = _cuts(bins, names)
    columns = []
    ids = rows_of(data).kind == "tree"  # whose whole numbers are names, of words say
    for j, name in enumerate(names):
        values = rows_of(data).column(j)
        numeric = values.dtype.kind in "iuf"
        categorical = j in named or not numeric
        edges, single = None, values.dtype == np.float32
        if isinstance(cuts, dict):
            if j in cuts and categorical:
                raise InputTypeError(
                    f"bins: column {name!r} is categorical and cannot be cut. Leave it out of "
                    "bins=, or out of categories=."
                )
            edges = cuts.get(j)
            if edges is not None and single:
                edges = _increasing(np.array([as_read(v, True) for v in edges]), name)
        elif cuts is not None and not categorical and not (ids and values.dtype.kind in "iu"):
            edges = np.unique(np.nanpercentile(values.astype(np.float64), cuts))
            edges = edges[np.isfinite(edges)]
        distinct = () if edges is not None else _distinct(values, numeric)
        one = Column(j, name, edges, distinct, categorical, called.get(j))
        numbered = numeric or values.dtype.kind == "b"
        columns.append(replace(one, numeric=numbered, single=single))
    return Bins(tuple(columns))


def _distinct(values: np.ndarray, numeric: bool) -> tuple[Any, ...]:
    if numeric or values.dtype.kind == "b":
        return tuple(np.unique(values.astype(np.float64)).tolist())
    return tuple(dict.fromkeys(_key(v) for v in values.tolist()))


def _categories(given: Any, names: Sequence[str]) -> tuple[set[int], dict[int, dict[Any, str]]]:
    if given is None:
        return set(), {}
    if isinstance(given, str) or not isinstance(given, Mapping | Sequence):
        raise InputTypeError(
            f"categories must be None, a list of columns or {{column: names}}, got {given!r}."
        )
    places = {place_of_column(c, names, "categories"): c for c in given}
    called: dict[int, dict[Any, str]] = {}
    if isinstance(given, Mapping):
        for place, column in places.items():
            own = given[column]
            pairs = own.items() if isinstance(own, Mapping) else enumerate(own)
            called[place] = {value: str(name) for value, name in pairs}
    return set(places), called


def _cuts(given: Any, names: Sequence[str]) -> Any:
    """Percentiles, {place: edges}, or None (all by equality)."""
    if given is None:
        return None
    if isinstance(given, str):
        if given not in DISCRETISERS:
            raise InputError(
                f"bins must be one of {list(DISCRETISERS)}, None or {{column: cuts}}, got "
                f"{given!r}."
            )
        return DISCRETISERS[given]
    if not isinstance(given, Mapping):
        raise InputTypeError(
            f"bins must be one of {list(DISCRETISERS)}, None or {{column: cuts}}, got "
            f"{type(given).__name__}."
        )
    found = {}
    for column, cuts in given.items():
        place = place_of_column(column, names, "bins")
        try:
            edges = checks.real_numbers(cuts, "cuts")
        except (TypeError, ValueError):
            raise InputTypeError(
                f"bins: cuts of {column!r} must be numbers, got {cuts!r}."
            ) from None
        if edges.ndim != 1 or not len(edges):
            raise InputError(f"bins: cuts of {column!r} must be finite numbers, got {cuts!r}.")
        found[place] = _increasing(edges, column)
    return found


def _increasing(edges: np.ndarray, column: Any) -> np.ndarray:
    if not np.isfinite(edges).all():
        raise InputError(f"bins: cuts of {column!r} must be finite numbers, got {edges.tolist()}.")
    if not (np.diff(edges) > 0).all():
        raise InputError(
            f"bins: cuts of {column!r} must increase, got {edges.tolist()}. Sort them, each once."
        )
    return edges
