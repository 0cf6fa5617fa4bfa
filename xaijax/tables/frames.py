"""Data frames that a person gave, checked: their names, their numbers, a copy for a host model."""

from __future__ import annotations

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
    """Column names as text, each once, at least one; refuses columns of several levels."""
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
    """Refuse other columns than those of `owner`, or the same in another order."""
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
    """The columns [M] of a frame of numbers, for `taker`; names as those of `owner`."""
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
                f"{name}: column {label!r} has dtype {dtype}, and {taker} takes numbers. Make it a "
                "number first (days since some day, say)."
            )
        if not text.startswith(("int", "uint", "float", "double", "bool")):
            raise InputTypeError(
                f"{name}: column {label!r} has dtype {dtype}; {taker} takes numbers. Encode it "
                "first (OrdinalEncoder or OneHotEncoder)."
            )
        columns.append(rows.column(j))
    return columns


def copied_frame(frame: Any, name: str, allow_nan: bool | NanColumns) -> Any:
    """A copy of a frame of any columns, for a host model, checked.

    A missing text or category is a value of its own; a missing number is NaN.
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
                f"{name}: column {label!r} has dtype {dtype}; numbers, text and categories are "
                "accepted."
            )
        allowed = checks.nan_at(allow_nan, j)
        checks.finite(rows.column(j), f"{name}, column {label!r},", allowed)
    return rows.copy()


KINDS = {"pandas": "xaijax[data]", "polars": "polars"}  # and what installs them


def frame_of_columns(kind: str, columns: Mapping[str, Any]) -> Any:
    """A frame of the library `kind` with these columns."""
    library: Any = require(kind, KINDS[kind])
    return library.DataFrame(dict(columns))


def frame_of_arrow(kind: str, table: Any) -> Any:
    """A frame of the library `kind` with the rows of a pyarrow Table."""
    if kind == "pandas":
        return table.to_pandas(ignore_metadata=True)
    library: Any = require(kind, KINDS[kind])
    return library.from_arrow(table)


def widened(frame: Any, columns: Mapping[str, Any]) -> Any:
    """The frame with more columns to its right, in its own order of rows."""
    kind = rows_of(frame).kind
    library: Any = require(kind, KINDS[kind])
    if kind == "polars":
        return frame.hstack(library.DataFrame(dict(columns)))
    more = library.DataFrame(dict(columns), index=frame.index)
    return library.concat([frame, more], axis=1)
