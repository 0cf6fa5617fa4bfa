"""Frames made of columns, of the library that is named or that another frame is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xaijax.core.optional import require
from xaijax.tables.rows import rows_of

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
