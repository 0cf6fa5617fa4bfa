"""Checks the user's frames and series: names, numbers and order of rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.tables.rows import rows_of

_DATES = ("datetime", "timedelta", "timestamp", "date", "duration", "time", "period")
_NESTED = ("object", "list", "array", "struct")


def frame_labels(frame: Any, name: str) -> tuple[str, ...]:
    """Column names as text. Refuses no columns, duplicate names, and columns of several levels."""
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise InputError(
            f"{name} has columns of several levels (a MultiIndex), and a column needs one name. "
            f'Flatten them first: {name}.columns = ["_".join(map(str, c)) for c in {name}.columns].'
        )
    labels = tuple(map(str, rows_of(frame).labels))
    if not labels:
        raise InputError(f"{name} has 0 columns; at least 1 is needed.")
    checks.unique_names(labels, f"{name}: column names")
    return labels


def same_labels(got: Sequence[str], expected: Sequence[str], name: str, owner: str) -> None:
    """Refuses columns other than those of `owner`, or the same columns in another order."""
    if list(got) == list(expected):
        return
    missing = [label for label in expected if label not in set(got)]
    extra = [label for label in got if label not in set(expected)]
    if missing or extra:
        raise InputError(
            f"{name} has other columns than {owner}: missing {missing}, unknown {extra}."
        )
    moved = [(j, a, b) for j, (a, b) in enumerate(zip(got, expected, strict=True)) if a != b]
    shown = "; ".join(f"column {j} is {a!r}, expected {b!r}" for j, a, b in moved[:5])
    raise InputError(
        f"{name} has the columns of {owner} in another order ({shown}). Say "
        f"{name}[names] with the names in the order of {owner}."
    )


def frame_numbers(
    frame: Any,
    name: str,
    expected: Sequence[str] | None,
    owner: str,
    taker: str = "a JAX model",
) -> list[np.ndarray]:
    """The columns [M] of a frame of numbers, for `taker`; the names must equal those of `owner`."""
    labels = frame_labels(frame, name)
    if expected is not None:
        same_labels(labels, expected, name, owner)
    rows, columns = rows_of(frame), []
    for j, (label, dtype) in enumerate(zip(labels, frame.dtypes, strict=True)):
        text = str(dtype).lower()
        if text.startswith("sparse"):
            raise InputTypeError(
                f"{name}: column {label!r} is sparse ({dtype}), and {taker} takes dense columns. "
                f"Say {name}[{label!r}].sparse.to_dense()."
            )
        if text.startswith(_DATES):
            raise InputTypeError(
                f"{name}: column {label!r} has dtype {dtype}; {taker} takes numbers (days, say)."
            )
        if not text.startswith(("int", "uint", "float", "double", "bool")):
            raise InputTypeError(
                f"{name}: column {label!r} has dtype {dtype}; {taker} takes numbers. Encode it "
                "first (OrdinalEncoder or OneHotEncoder)."
            )
        columns.append(rows.column(j))
    return columns


def copied_frame(frame: Any, name: str, allow_nan: bool | NanColumns) -> Any:
    """Checks a frame for a host model, and returns a copy.

    A missing text or category is a separate value; a missing number is NaN.
    """
    labels, rows = frame_labels(frame, name), rows_of(frame)
    if len(frame) == 0:
        raise InputError(f"{name} has 0 rows; at least 1 is needed.")
    for j, (label, dtype) in enumerate(zip(labels, frame.dtypes, strict=True)):
        text = str(dtype).lower()
        if text.startswith("complex"):
            raise InputTypeError(
                f"{name}: column {label!r} is complex ({dtype}); real numbers are needed."
            )
        if text.startswith(_NESTED) and rows.kind == "polars":
            raise InputTypeError(
                f"{name}: column {label!r} has dtype {dtype}; give numbers, text, categories."
            )
        allowed = checks.nan_at(allow_nan, j)
        checks.finite(rows.column(j), f"{name}, column {label!r},", allowed)
    return rows.copy()


KINDS = {"pandas": "xaijax[data]", "polars": "polars"}  # and the extras that install them


def frame_of_columns(kind: str, columns: Mapping[str, Any]) -> Any:
    """A frame of the library `kind` with these columns."""
    library: Any = require(kind, KINDS[kind])
    return library.DataFrame(dict(columns))


def is_labelled(value: Any) -> bool:
    """Whether it is a pandas Series, whose index labels its entries."""
    return type(value).__module__.startswith("pandas") and hasattr(value, "to_frame")


def series_labels(value: Any) -> list[Any] | None:
    """The labels of a pandas Series; None if it has the default index, and for other types."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, pandas.Series):
        return None
    index = value.index
    counted = isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1
    return None if counted else index.tolist()


def entries(value: Any) -> Any:
    """The entries [M] of a series, with missing numbers as NaN; other types are returned as
    given."""
    return rows_of(value.to_frame()).column(0) if hasattr(value, "to_frame") else value


def entries_at(series: Any, places: Any) -> Any:
    """A pandas Series of the entries at these positions, with their labels."""
    return series.iloc[places]


def row_of_numbers(series: Any, name: str) -> Any:
    """Turns a row that is a Series of numbers into a frame; raises InputTypeError for other
    values."""
    if series.dtype.kind not in "biuf":
        raise InputTypeError(
            f"{name}: Baseline(row) got a Series of dtype {series.dtype}, which has "
            "lost the columns' own dtypes. Give a frame of one row (frame.iloc[[0]])."
        )
    return series.to_frame().T


def row_like(series: Any, data: Any, name: str) -> Any:
    """Turns a row that is a Series into a frame with the dtypes of the data's columns.

    Raises InputTypeError for a value that does not fit its column's dtype.
    """
    row = series.to_frame().T
    if rows_of(data).kind != "pandas":
        return row.infer_objects()
    dtypes = {label: data[label].dtype for label in row.columns if label in data.columns}
    try:
        return row.astype(dtypes)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{name}: a value is not of its column's dtype: {error}.") from None


def aligned(series: Any, data: Any, name: str) -> Any:
    """Aligns a pandas Series to the index of the data; other types are returned as given.

    Raises InputError if the indexes differ.
    """
    if not (type(series).__module__.startswith("pandas") and hasattr(series, "index")):
        return series
    index = series.index
    # The rows of an array have positions only.
    wanted = data.index if rows_of(data).kind == "pandas" else np.arange(len(data))
    if len(index) == len(wanted) and np.all(index == wanted):
        return series
    unique = index.is_unique and getattr(wanted, "is_unique", True)
    if not (unique and len(index) == len(wanted) and index.isin(wanted).all()):
        raise InputError(
            f"{name} is a Series of {len(index)} rows whose index is not that of the data's "
            f"{len(wanted)} rows. Say {name}.to_numpy() if the rows are in the order of the data."
        )
    return series.reindex(wanted)
