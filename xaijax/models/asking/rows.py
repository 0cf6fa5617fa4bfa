"""The rows that a person hands to `Model.predict` and `Model.labels`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xaijax.models.base.trace import DTYPES
from xaijax.tables.frames import copied_frame
from xaijax.tables.rows import rows_of
from xaijax.tables.table import MappedRows, read_array


def jax_rows(model: Any, X: Any) -> np.ndarray | MappedRows:
    """X checked and copied in the dtype of a JAX model, [R, *F]; a memory map stays one."""
    dtype = np.dtype(DTYPES[model.precision])
    names = model.feature_names
    return read_array(X, "X", model.input_shape, model.allow_nan, dtype, names, "the model")


def host_rows(model: Any, X: Any) -> Any:
    """X checked and copied in its own dtypes: an array [R, *F], a memory map, or a frame."""
    if rows_of(X).is_frame:
        return copied_frame(X, "X", model.allow_nan)
    return read_array(X, "X", model.input_shape, model.allow_nan, owner="the model")


def parts(rows: Any, size: int | None) -> Iterator[tuple[int, Any]]:
    """(start, slice) of at most `size` rows each; frames are cut as frames."""
    step = len(rows) if size is None else size
    given = rows_of(rows)
    for start in range(0, len(rows), step):
        yield start, given.part(start, start + step)
