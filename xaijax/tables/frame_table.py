"""`FrameTable`: turns data frames of mixed types into integer codes, and back without change.

Every column has a list of its distinct values in its own dtype; a code is a position in it. New
values are appended, so earlier codes stay valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError, InputTypeError
from xaijax.tables.frames import (
    copied_frame,
    frame_labels,
    frame_of_columns,
    same_labels,
)
from xaijax.tables.rows import refuse_series, rows_of
from xaijax.tables.table import one_nan


class FrameTable:
    """Pandas or polars frames for a host model; dtypes, names and order are preserved."""

    codes_per_column = 1

    def __init__(
        self,
        kind: str,
        columns: Sequence[Any],
        feature_names: tuple[str, ...],
        levels: Sequence[Any],
    ) -> None:
        self.kind = kind  # "pandas" | "polars"
        self.columns = list(columns)  # labels as given
        self.feature_names = feature_names
        self.shape = (len(feature_names),)
        self.levels = list(levels)  # [F], distinct values per column

    @classmethod
    def of(cls, frame: Any, name: str) -> FrameTable:
        """A table with the columns and dtypes of `frame`, without values."""
        names = frame_labels(frame, name)
        return cls(
            rows_of(frame).kind, frame.columns, names, [frame[c].head(0) for c in frame.columns]
        )

    def read(
        self, X: Any, name: str, allow_nan: bool | NanColumns, owner: str = "the background"
    ) -> Any:
        """Checks X and returns a copy."""
        refuse_series(X, name)
        if rows_of(X).kind != self.kind:
            raise InputTypeError(
                f"{name} must be a {self.kind} frame like {owner}, got {type(X).__name__}. Say "
                f"{self.kind}.DataFrame(rows, columns=names), of {len(self.columns)} columns; "
                "row[None] of one row."
            )
        same_labels(frame_labels(X, name), self.feature_names, name, owner)
        if self.kind == "pandas":
            for label, known in zip(self.columns, self.levels, strict=True):
                _refuse_other_order(X[label].dtype, known.dtype, f"{name}[{label!r}]", owner)
        return copied_frame(X, name, allow_nan)

    def encode(self, rows: Any) -> tuple[FrameTable, np.ndarray]:
        """(codes int32 [M, F], the table with the new values added)."""
        code = _pandas_codes if self.kind == "pandas" else _polars_codes
        levels, codes = [], np.empty((len(rows), len(self.columns)), np.int32)
        for j, label in enumerate(self.columns):
            try:
                known, codes[:, j] = code(self.levels[j], rows[label], label)
            except TypeError as error:
                if isinstance(error, InputTypeError):
                    raise
                raise InputTypeError(
                    f"X or background, column {label!r} holds values that cannot be told apart "
                    f"({error}); numbers, text and categories are accepted."
                ) from error
            levels.append(known)
        return FrameTable(self.kind, self.columns, self.feature_names, levels), codes

    def decode(self, codes: np.ndarray) -> Any:
        """A frame with the original column labels, order and dtypes."""
        levels = dict(zip(self.columns, self.levels, strict=True))
        if self.kind == "polars":
            gathered = {label: levels[label].gather(codes[:, j]) for j, label in enumerate(levels)}
            return frame_of_columns(self.kind, gathered)
        import pandas as pd  # noqa: PLC0415

        taken = {label: levels[label].array.take(codes[:, j]) for j, label in enumerate(levels)}
        for label, level in levels.items():
            if level.dtype == object:  # otherwise pandas would convert date objects
                taken[label] = pd.Series(taken[label], dtype=object, copy=False)
        return pd.DataFrame(taken, columns=self.columns, copy=False)

    asked = decode


def _pandas_codes(levels: Any, column: Any, label: Any) -> tuple[Any, np.ndarray]:
    """(levels with the column's new values added, the column's codes)."""
    import pandas as pd  # noqa: PLC0415

    column = column.reset_index(drop=True)
    both = _pandas_joined(levels, column, label)
    sparse = hasattr(both.array, "sp_values")
    if both.dtype.kind == "f" and (sparse or isinstance(both.dtype, np.dtype)):
        places, codes = _by_bits(np.asarray(both))
    elif both.dtype.kind == "f":  # nullable, or of arrow
        numbers = both.to_numpy(dtype=np.float64, na_value=np.nan)
        places, codes = _by_bits(numbers, both.isna().to_numpy())
    else:
        codes, _ = pd.factorize(_told_apart(both), use_na_sentinel=False)
        places = np.unique(codes, return_index=True)[1]
    _refuse_merged(codes, len(levels), (levels.dtype, column.dtype), label)
    return both.iloc[places].reset_index(drop=True), codes[len(levels) :]


def _refuse_merged(codes: np.ndarray, known: int, dtypes: tuple[Any, Any], label: Any) -> None:
    """Raises InputError if values with different codes are equal in the common dtype."""
    if not np.array_equal(codes[:known], np.arange(known)):
        raise InputError(
            f"X, column {label!r} has dtype {dtypes[1]}, but the background has {dtypes[0]}. No "
            "dtype for both keeps all values of the background apart. Give both the same dtype."
        )


def _by_bits(
    values: np.ndarray, missing: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(first position of each distinct float, code of each float). 0.0 and -0.0 differ, all NaN are
    one value, and missing values [M] are another.

    Codes are numbered by first appearance, so that earlier codes stay valid.
    """
    bits = np.ascontiguousarray(one_nan(values)).view(f"i{values.dtype.itemsize}")
    if missing is not None:
        bits = np.where(missing, -1, bits)  # bits of a NaN that `one_nan` never produces
    _, first, codes = np.unique(bits, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return first[order], rank[codes]


def _told_apart(values: Any) -> Any:
    """Objects as (type, value) if types are mixed, because pandas treats 1, 1.0 and True as
    equal."""
    import pandas as pd  # noqa: PLC0415

    if values.dtype != object or pd.api.types.infer_dtype(values, skipna=False) == "string":
        return values
    pairs = zip(values, values.isna(), strict=True)
    keys = [(type(value), None if missing else value) for value, missing in pairs]
    return pd.Series(keys, dtype=object)


def _pandas_joined(levels: Any, column: Any, label: Any) -> Any:
    import pandas as pd  # noqa: PLC0415

    if isinstance(levels.dtype, pd.CategoricalDtype) and isinstance(
        column.dtype, pd.CategoricalDtype
    ):
        unknown = sorted(map(str, set(column.dropna()) - set(levels.dtype.categories)))
        if unknown:
            raise InputError(
                f"X, column {label!r}: categories {unknown} are unknown to the background's dtype. "
                "Give both the same categories."
            )
        _warn_of_other_codes(column.dtype, levels.dtype, label)
        return pd.concat([levels, column.astype(levels.dtype)], ignore_index=True)
    sparse = [hasattr(series.array, "sp_values") for series in (levels, column)]
    if any(sparse) and not all(sparse):
        levels, column = (
            series.sparse.to_dense() if hasattr(series.array, "sp_values") else series
            for series in (levels, column)
        )
    if levels.dtype == column.dtype:
        return pd.concat([levels, column], ignore_index=True)
    dtypes = (levels.dtype, column.dtype)
    if not all(pd.api.types.is_numeric_dtype(d) and d.kind in "iuf" for d in dtypes):
        raise InputTypeError(
            f"X, column {label!r} has dtype {column.dtype}, but the background has {levels.dtype}. "
            f"Say X[{label!r}].astype(background[{label!r}].dtype)."
        )
    plain = all(isinstance(d, np.dtype) for d in dtypes)
    common = np.result_type(*dtypes) if plain else "Float64"  # pandas' bool, which may be missing
    return pd.concat([levels.astype(common), column.astype(common)], ignore_index=True)


def _shared_places(dtype: Any, known: Any) -> tuple[list[int], list[int]]:
    """Positions of the shared categories in each of two categorical dtypes."""
    place = {category: j for j, category in enumerate(known.categories)}
    pairs = [(i, place[c]) for i, c in enumerate(dtype.categories) if c in place]
    return [i for i, _ in pairs], [j for _, j in pairs]


def _refuse_other_order(dtype: Any, known: Any, where: str, owner: str) -> None:
    """Raises InputError if pandas categories are in another order than those of `owner`.

    The model gets rows of the owner's dtype, and a model that reads codes would see other numbers
    than in X. (pandas compares unordered categories as sets, so equal dtypes may differ in order.)
    """
    if not hasattr(dtype, "categories") or not hasattr(known, "categories"):
        return
    if dtype.categories is known.categories:
        return
    _, places = _shared_places(dtype, known)
    if places != sorted(places):
        raise InputError(
            f"{where} has its categories in another order than {owner}: {_some(dtype.categories)}, "
            f"not {_some(known.categories)}. A model that reads codes would see other numbers. Say "
            f"{where}.cat.set_categories(categories) with those of {owner}, in their order."
        )


def _warn_of_other_codes(dtype: Any, known: Any, label: Any) -> None:
    """Warns of missing or additional categories compared with the owner's, if they change codes."""
    if dtype.categories is known.categories:
        return
    mine, places = _shared_places(dtype, known)
    if mine != places:
        checks.warn(
            f"X, column {label!r} has the categories {_some(dtype.categories)}, the background has "
            f"{_some(known.categories)}. The model gets rows with the background's; one that reads "
            f"their codes sees other numbers than in X itself. Say X[{label!r}].cat.set_categories("
            "categories) with the background's."
        )


def _some(categories: Any) -> str:
    shown = ", ".join(map(repr, categories[:12].tolist()))
    return f"[{shown}{', ...' if len(categories) > 12 else ''}]"


def _polars_codes(levels: Any, column: Any, label: Any) -> tuple[Any, np.ndarray]:
    import polars as pl  # noqa: PLC0415

    dtypes = (levels.dtype, column.dtype)
    if levels.dtype != column.dtype:
        if not (levels.dtype.is_numeric() and column.dtype.is_numeric()):
            raise InputTypeError(
                f"X, column {label!r} has dtype {column.dtype}, but the background has "
                f"{levels.dtype}. Cast one to the other."
            )
        levels, column = levels.cast(pl.Float64), column.cast(pl.Float64)
    both = pl.concat([levels.rename("value"), column.rename("value")])
    if both.dtype.is_float():
        first, codes = _by_bits(both.to_numpy(), both.is_null().to_numpy())
        _refuse_merged(codes, len(levels), dtypes, label)
        return both.gather(first), codes[len(levels) :]
    known = both.unique(maintain_order=True)
    places = known.to_frame().with_row_index("place")
    joined = both.to_frame().join(
        places, on="value", how="left", nulls_equal=True, maintain_order="left"
    )
    return known, joined["place"].to_numpy().astype(np.int32)[len(levels) :]
