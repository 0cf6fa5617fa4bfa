"""Bins: what "the same" means in a column, and a rule's predicates and words.

A numeric column is cut at increasing edges; bin i is (edge i - 1, edge i]. Other columns, and
numeric ones that are not cut, are compared by equality.

Letters: M rows, F columns.
"""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.players.predicates import (
    Predicate,
    category_key,
    cut_words,
    label_words,
    missing,
    number_words,
    value_of,
)
from xaijax.tables.rows import rows_of

DISCRETISERS = {"quartile": (25, 50, 75), "decile": tuple(range(10, 100, 10))}


@dataclass(frozen=True)
class RuleColumn:
    """One column for rules."""

    place: int
    name: str
    edges: np.ndarray | None  # float64, increasing; None: by equality
    values: tuple[Any, ...]  # by equality: the distinct values of the data, a bin each
    categorical: bool
    names: Mapping[Any, str] | None = None  # names of values, by `key`
    interval: tuple[float, float] | None = None  # the user's own (low, high]: bins 0 (out), 1 (in)
    members: tuple[Any, ...] | None = None  # categories that the user gave: bins 0 (out), 1 (in)
    numeric: bool = True  # `values` are numbers, in order
    single: bool = False  # numbers are float32, and the user's numbers are rounded to it
    # For each edge: the largest data value up to it, the smallest above it, and the distance to the
    # nearest other edge; float64 [edges, 3].
    around: np.ndarray | None = None
    alike: frozenset[str] = frozenset()  # texts of several values: of 1 and "1"

    @property
    def count(self) -> int:
        """Number of bins; the last one is for missing or unknown values."""
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
            keys = {self.key(v) for v in self.members}
            inside = (self.key(v) in keys for v in values.tolist())
            return np.fromiter(inside, np.int32, len(values))
        if self.edges is not None:
            numbers_ = _as_numbers(values, self.name)
            places = np.searchsorted(self.edges, numbers_, side="left")
            return np.where(np.isnan(numbers_), len(self.edges) + 1, places).astype(np.int32)
        if values.dtype.kind in "biuf" and self.numeric:
            known = np.asarray(self.values)  # sorted, NaN last
            whole = known.dtype.kind in "iu" and values.dtype.kind in "iu"  # of any length
            numbers_ = values if whole else values.astype(np.float64)
            known = known if whole else known.astype(np.float64)
            places = np.minimum(np.searchsorted(known, numbers_), len(known) - 1)
            same = (known[places] == numbers_) | (np.isnan(known[places]) & np.isnan(numbers_))
            if values.dtype == np.float32 and not same.all():  # for rows with fewer digits
                short = known.astype(np.float32)
                nearest = np.minimum(np.searchsorted(short, values), len(known) - 1)
                places = np.where(same, places, nearest)
                same |= short[places] == values
            return np.where(same, places, len(known)).astype(np.int32)
        place = {self.key(value): i for i, value in enumerate(self.values)}
        inside = (place.get(self.key(value), len(place)) for value in values.tolist())
        return np.fromiter(inside, np.int32, len(values))

    def key(self, value: Any) -> Any:
        """A key that is equal for equal values."""
        return category_key(value, not self.numeric)

    def predicate(self, bin_: int, value: Any, last: int | None = None) -> Predicate:
        """The predicate of a bin, or of bins bin_ .. last; value: the instance's."""
        if self.interval is not None:
            return (self.place, *self.interval)
        if self.members is not None:
            return (self.place, self.members)
        if self.edges is None:
            gone = missing(value) and not isinstance(value, float)  # of pandas.NA
            if isinstance(value, float) and not gone and self.numeric and bin_ < len(self.values):
                value = self.values[bin_]  # x may have fewer digits than the data
            return (self.place, (None if gone else value,))
        if bin_ > len(self.edges):
            return (self.place, (float("nan"),))
        edges = np.r_[-np.inf, self.edges, np.inf]
        last = bin_ if last is None else last
        return (self.place, float(edges[bin_]), float(edges[last + 1]))

    def range_of(self, predicate: Predicate) -> tuple[int, int] | None:
        """(first bin, last bin) of a predicate (column, low, high); None: its ends are not
        edges."""
        if self.edges is None:
            return None
        edges = np.r_[-np.inf, self.edges, np.inf].tolist()
        low, high = map(float, predicate[1:])
        if low not in edges or high not in edges:
            return None
        return edges.index(low), edges.index(high) - 1

    def words(self, predicate: Predicate, value: Any = None) -> str:
        """The predicate in words: "7 < temp <= 14", "Sex = female".

        value: of an instance that satisfies the predicate, or None.
        """
        if len(predicate) == 2:
            return _member_words(self.name, [self.called(member) for member in predicate[1]])
        low, high = (None if np.isinf(end) else self._cut(end, value) for end in predicate[1:])
        return _range_words(self.name, low, high)

    def called(self, value: Any) -> str | None:
        """One category in words; None: it is missing."""
        if missing(value):
            return None
        if self.names and self.key(value) in self.names:
            return self.names[self.key(value)]
        if isinstance(value, float):
            return number_words(value, self.single)
        text = label_words(value)
        plain = isinstance(value, bool | numbers.Number | np.generic)
        return repr(value) if text in self.alike and not plain else text

    def _cut(self, cut: float, value: Any) -> str:
        """An end of a predicate, with enough digits to separate it from the data, x and other
        cuts."""
        edges = np.zeros(0) if self.edges is None else self.edges
        place = int(np.searchsorted(edges, cut))
        if self.around is None or place == len(edges) or edges[place] != cut:  # of the user
            return number_words(cut, self.single)
        below, above, gap = self.around[place].tolist()
        if value is not None:
            below = max(below, float(value)) if value <= cut else below
            above = min(above, float(value)) if value > cut else above
        return cut_words(float(cut), below, above, gap, self.single)


def _range_words(name: str, low: str | None, high: str | None) -> str:
    """low < name <= high, with ends in words; None: that end is open."""
    if low is None and high is None:
        return f"{name} is any number"
    if low is None:
        return f"{name} <= {high}"
    return f"{name} > {low}" if high is None else f"{low} < {name} <= {high}"


def _member_words(name: str, shown: list[str | None]) -> str:
    """name = one, or name in (several), with categories in words; None: missing."""
    if len(shown) == 1:
        return f"{name} is missing" if shown[0] is None else f"{name} = {shown[0]}"
    return f"{name} in ({', '.join('missing' if s is None else s for s in sorted(shown, key=str))})"


def _as_numbers(values: np.ndarray, name: str) -> np.ndarray:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"column {name!r} must be numbers, as in the data, got {values.dtype}."
        ) from None


def as_read(value: Any, single: bool) -> Any:
    """The user's number in the data's precision: 0.6 in float32 is not 0.6 in float64."""
    if not single or isinstance(value, bool) or not isinstance(value, numbers.Real):
        return value
    with np.errstate(over="ignore"):
        return float(np.float32(value))


@dataclass(frozen=True)
class Bins:
    """All columns."""

    columns: tuple[RuleColumn, ...]

    def of(self, rows: Any) -> np.ndarray:
        """The bins of rows (array [M, F] or frame); int32 [M, F]."""
        read = rows_of(rows)
        binned = [column.bins(read.column(column.place)) for column in self.columns]
        return np.stack(binned, axis=1) if binned else np.zeros((len(read), 0), np.int32)

    def said(
        self, rows: Any, used: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> list[tuple[list[Predicate], list[str]]]:
        """The predicates of each row's rule, and their words; rows: array [N, F] or frame.

        used: bool [N, F], the columns of each rule; low, high: int32 [N, F], its bins in these
        columns.
        """
        values = {int(f): rows_of(rows).column(int(f)) for f in np.flatnonzero(used.any(axis=0))}
        rules = []
        for n, rule in enumerate(used):
            predicates, words = [], []
            for f in map(int, np.flatnonzero(rule)):
                column, value = self.columns[f], values[f][n]
                value = value.item() if isinstance(value, np.generic) else value
                predicates.append(column.predicate(int(low[n, f]), value, int(high[n, f])))
                words.append(column.words(predicates[-1], value))
            rules.append((predicates, words))
        return rules

    def refuse_unseen(self, rows: Any, bins: np.ndarray) -> None:
        """Raises InputError for a category that the data do not have; bins [N, F] of the rows X."""
        for j, column in enumerate(self.columns):
            if not column.categorical or column.edges is not None or column.members is not None:
                continue
            unseen = np.flatnonzero(bins[:, j] >= len(column.values))
            if len(unseen):
                value = rows_of(rows).column(column.place)[unseen[0]]
                known = ", ".join(label_words(v) for v in column.values[:10])
                known += ", ..." if len(column.values) > 10 else ""
                raise InputError(
                    f"X row {int(unseen[0])}, column {column.name!r}: the category "
                    f"{label_words(value)!r} is not in the data, which have {known}. No "
                    "rule can be tested on it: add such rows to the data, or correct the value."
                )

    def with_predicates(self, predicates: Sequence[Any]) -> tuple[Bins, list[int]]:
        """(bins that contain the user's predicates as bins, the columns of these predicates).

        A predicate is (column, low, high), (column, categories), or a column alone (its own bin).
        Raises InputError, InputTypeError for anything else.
        """
        if isinstance(predicates, str) or not isinstance(predicates, Sequence):
            raise InputTypeError(
                "predicates must be a list of (feature, low, high), (feature, categories) or "
                f"feature, got {type(predicates).__name__}."
            )
        columns, used = list(self.columns), []
        for predicate in predicates:
            parts = predicate if isinstance(predicate, tuple | list) else (predicate,)
            if not 1 <= len(parts) <= 3:
                raise InputError(
                    f"predicates hold {predicate!r}; (feature, low, high), (feature, categories) "
                    "or feature is accepted."
                )
            j = place_of_column(parts[0], [column.name for column in self.columns], "predicates")
            if j in used:
                raise InputError(f"predicates name the column {columns[j].name!r} twice.")
            used.append(j)
            if len(parts) == 3:
                columns[j] = replace(columns[j], interval=_interval(columns[j], *parts[1:]))
            elif len(parts) == 2:
                columns[j] = replace(columns[j], members=_members(columns[j], parts[1]))
        return Bins(tuple(columns)), used


def _interval(column: RuleColumn, low: Any, high: Any) -> tuple[float, float]:
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


def _members(column: RuleColumn, value: Any) -> tuple[Any, ...]:
    listed = (
        [value] if isinstance(value, str) or not isinstance(value, tuple | list | set) else value
    )
    by_name = {name: value_of(key) for key, name in (column.names or {}).items()}
    named = [by_name.get(v, v) if isinstance(v, str) else v for v in listed]
    typed = [as_read(v, column.single) for v in named]
    if column.categorical:
        known = {column.key(v) for v in column.values}
        unknown = [v for v, read in zip(named, typed, strict=True) if column.key(read) not in known]
        if unknown:
            raise InputError(
                f"predicates: {unknown[0]!r} is no category of {column.name!r} in the data."
            )
    return tuple({column.key(v): None if missing(v) else v for v in typed}.values())


def place_of_column(label: Any, names: Sequence[str], argument: str) -> int:
    """The position of a column that is given by name or by position."""
    if isinstance(label, str):
        if label in names:
            return list(names).index(label)
        raise InputError(f"{argument}: there is no column {label!r}; there are {list(names)[:20]}.")
    if isinstance(label, bool) or not isinstance(label, numbers.Integral):
        raise InputTypeError(f"{argument}: a column is a name or a place, got {label!r}.")
    if not 0 <= int(label) < len(names):
        raise InputError(f"{argument}: there is no column {label}; there are {len(names)}.")
    return int(label)


def bins_of(data: Any, names: Sequence[str], categories: Any, bins: Any) -> Bins:
    """Reads `categories=` and `bins=` for data (array [B, F] or frame, as read).

    Raises InputError, InputTypeError for columns that do not exist, cuts that do not increase,
    cuts of a column that is not numeric.
    """
    named, called = _categories(categories, names)
    cuts = _cuts(bins, names)
    columns = []
    ids = rows_of(data).kind == "tree"  # whose integers are names, for example of words
    for j, name in enumerate(names):
        values = rows_of(data).column(j)
        numeric = values.dtype.kind in "iuf"
        categorical = j in named or not numeric or rows_of(data).is_category(j)
        edges, single = None, values.dtype == np.float32
        if isinstance(cuts, dict):
            if j in cuts and categorical:
                raise InputTypeError(
                    f"bins: column {name!r} is categorical and cannot be cut. Leave it out of "
                    "bins=, or out of categories=, or give its column a dtype of numbers."
                )
            edges = cuts.get(j)
            if edges is not None and single:
                edges = np.array([as_read(v, True) for v in edges])
                edges = _increasing(edges, name, " in float32, the dtype of the data")
        elif cuts is not None and not categorical and not (ids and values.dtype.kind in "iu"):
            edges = np.unique(np.nanpercentile(values.astype(np.float64), cuts))
            edges = edges[np.isfinite(edges)]
        numbered = numeric or values.dtype.kind == "b"
        distinct = () if edges is not None else _distinct(values, numbered)
        texts = {category_key(v, not numbered): text for v, text in called.get(j, {}).items()}
        column = RuleColumn(j, name, edges, distinct, categorical, texts or None, numeric=numbered)
        around = None if edges is None else _around(edges, values)
        columns.append(replace(column, single=single, around=around, alike=_alike(column)))
    return Bins(tuple(columns))


def _distinct(values: np.ndarray, numbered: bool) -> tuple[Any, ...]:
    if numbered:
        whole = values.dtype.kind in "iu"
        return tuple(np.unique(values if whole else values.astype(np.float64)).tolist())
    distinct = dict.fromkeys(category_key(v, True) for v in values.tolist())
    return tuple(value_of(key) for key in distinct)


def _around(edges: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`RuleColumn.around`."""
    ordered = np.sort(values.astype(np.float64))
    ordered = np.r_[-np.inf, ordered[~np.isnan(ordered)], np.inf]
    above = np.searchsorted(ordered, edges, side="right")
    gaps = np.diff(np.r_[-np.inf, edges, np.inf])
    gap = np.minimum(gaps[1:], gaps[:-1])
    return np.stack([ordered[above - 1], ordered[above], gap], axis=1)


def _alike(column: RuleColumn) -> frozenset[str]:
    """Texts shared by several categories. Raises InputError if one of them is a name."""
    if not column.names and column.numeric:
        return frozenset()
    texts = [column.called(v) for v in column.values if not missing(v)]
    alike = frozenset(str(text) for text, count in Counter(texts).items() if count > 1)
    twice = sorted(alike & set((column.names or {}).values()))
    if twice:
        raise InputError(
            f"categories: {twice[0]!r} is the name of several values of column {column.name!r}, "
            "so two rules would read alike. Give each value a name of its own."
        )
    return alike


def _categories(columns: Any, names: Sequence[str]) -> tuple[set[int], dict[int, dict[Any, str]]]:
    if columns is None:
        return set(), {}
    if isinstance(columns, str) or not isinstance(columns, Mapping | Sequence):
        raise InputTypeError(
            f"categories must be None, a list of columns or {{column: names}}, got {columns!r}."
        )
    places = {place_of_column(c, names, "categories"): c for c in columns}
    called: dict[int, dict[Any, str]] = {}
    if isinstance(columns, Mapping):
        for place, column in places.items():
            called[place] = _value_names(columns[column], column)
    return set(places), called


def _value_names(names: Any, column: Any) -> dict[Any, str]:
    """{value: name}, from a list by code or from such a mapping."""
    if not isinstance(names, Mapping):
        if isinstance(names, str | bytes) or not isinstance(names, Iterable):
            raise InputTypeError(
                f"categories: the names of column {column!r} must be a list by code or "
                f"{{code: name}}, got {names!r}. For a column without names say "
                f"categories=[{column!r}], or {{{column!r}: {{}}}}."
            )
        names = dict(enumerate(names))
    for value, name in names.items():
        if missing(name):  # missing values have their own words: "c is missing"
            raise InputError(
                f"categories: the names of column {column!r} hold {name!r} for the value "
                f"{value!r}. Give a text, or say {{code: name}} without that value."
            )
    texts = {value: str(name) for value, name in names.items()}
    twice = [name for name, count in Counter(texts.values()).items() if count > 1]
    if twice:
        raise InputError(
            f"categories: the names of column {column!r} hold {twice[0]!r} more than once, so two "
            "rules would read alike. Give each value a name of its own."
        )
    return texts


def _cuts(bins: Any, names: Sequence[str]) -> Any:
    """Percentiles, {position: edges}, or None (all by equality)."""
    if bins is None:
        return None
    if isinstance(bins, str):
        if bins not in DISCRETISERS:
            raise InputError(
                f"bins must be one of {list(DISCRETISERS)}, None or {{column: cuts}}, got {bins!r}."
            )
        return DISCRETISERS[bins]
    if not isinstance(bins, Mapping):
        raise InputTypeError(
            f"bins must be one of {list(DISCRETISERS)}, None or {{column: cuts}}, got "
            f"{type(bins).__name__}."
        )
    edges_of = {}
    for column, cuts in bins.items():
        place = place_of_column(column, names, "bins")
        try:
            edges = checks.real_numbers(cuts, "cuts")
        except (TypeError, ValueError):
            raise InputTypeError(
                f"bins: cuts of {column!r} must be numbers, got {cuts!r}."
            ) from None
        if edges.ndim != 1 or not len(edges):
            raise InputError(f"bins: cuts of {column!r} must be finite numbers, got {cuts!r}.")
        edges_of[place] = _increasing(edges, column)
    return edges_of


def _increasing(edges: np.ndarray, column: Any, where: str = "") -> np.ndarray:
    if not np.isfinite(edges).all():
        raise InputError(f"bins: cuts of {column!r} must be finite numbers, got {edges.tolist()}.")
    if not (np.diff(edges) > 0).all():
        raise InputError(
            f"bins: cuts of {column!r} must increase{where}, got {edges.tolist()}. Sort them, each "
            "once."
        )
    return edges
