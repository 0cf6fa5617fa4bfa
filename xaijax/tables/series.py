"""A series of pandas or polars on its own: a row, a target, a mask or a list of importances."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.tables.rows import rows_of


def is_labelled(given: Any) -> bool:
    """Whether it is a pandas Series, whose index says which entry is which."""
    return type(given).__module__.startswith("pandas") and hasattr(given, "to_frame")


def series_labels(given: Any) -> list[Any] | None:
    """The labels of a pandas Series; None for one that was given none, and for anything else."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(given, pandas.Series):
        return None
    index = given.index
    counted = isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1
    return None if counted else index.tolist()


def entries(given: Any) -> Any:
    """The entries [M] of a series, missing numbers NaN; anything else as it came."""
    return rows_of(given.to_frame()).column(0) if hasattr(given, "to_frame") else given


def entries_at(series: Any, places: Any) -> Any:
    """A pandas Series of the entries at these places, with their labels."""
    return series.iloc[places]


def refuse_series(given: Any, name: str) -> None:
    """Raise InputError for a series of pandas or polars in place of rows."""
    if type(given).__name__ != "Series" or not hasattr(given, "to_frame"):
        return
    way = "frame.iloc[[0]]" if is_labelled(given) else "frame[0:1]"
    raise InputError(
        f"{name} is a Series, one row or one column of a frame; rows are needed. Say {way} for the "
        "row as a frame, which keeps the columns' dtypes, or series.to_numpy()[None] for a row of "
        "numbers."
    )


def row_of_numbers(series: Any, name: str) -> Any:
    """A row that is a Series of numbers, as a frame; InputTypeError for other values."""
    if series.dtype.kind not in "biuf":
        raise InputTypeError(
            f"{name}: Baseline(row) got a Series of dtype {series.dtype}, which has "
            "lost the columns' own dtypes. Give a frame of one row (frame.iloc[[0]])."
        )
    return series.to_frame().T


def row_like(series: Any, data: Any, name: str) -> Any:
    """A row that is a Series, as a frame of the dtypes that its columns have in the data.

    Raises InputTypeError for a value that is not of its column's dtype.
    """
    row = series.to_frame().T
    if rows_of(data).kind != "pandas":
        return row.infer_objects()
    own = {label: data[label].dtype for label in row.columns if label in data.columns}
    try:
        return row.astype(own)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{name}: a value is not of its column's dtype: {error}.") from None


def aligned(series: Any, data: Any, name: str) -> Any:
    """A pandas Series by the index of the data, which says which row is which; else as it came.

    Raises InputError where they do not have the same index.
    """
    if not (type(series).__module__.startswith("pandas") and hasattr(series, "index")):
        return series
    index = series.index
    # The rows of an array have their places only.
    wanted = data.index if rows_of(data).kind == "pandas" else np.arange(len(data))
    if len(index) == len(wanted) and np.all(index == wanted):
        return series
    if not index.is_unique or not getattr(wanted, "is_unique", True):
        same = False
    else:
        same = len(index) == len(wanted) and bool(index.isin(wanted).all())
    if not same:
        raise InputError(
            f"{name} is a Series of {len(index)} rows whose index is not that of the data's "
            f"{len(wanted)} rows. Make it from the data itself, or say {name}.to_numpy() if the "
            "rows stand in the order of the data."
        )
    return series.reindex(wanted)
