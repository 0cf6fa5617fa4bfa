"""The rows that a person hands to `Model.predict` and `.labels`, and which model takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from xaijax.core.errors import InputError
from xaijax.models.asking.leaves import Coded, coded_rows
from xaijax.models.base.trace import DTYPES
from xaijax.tables.coded_table import Untranslatable
from xaijax.tables.frames import copied_frame
from xaijax.tables.rows import rows_of
from xaijax.tables.table import MappedRows, read_array
from xaijax.tables.tree import is_tree


class Asked(Coded, Protocol):
    """What more is looked at of a model; `Model` says what each means."""

    @property
    def input_shape(self) -> tuple[int, ...] | None: ...
    @property
    def feature_names(self) -> tuple[str, ...] | None: ...
    @property
    def network(self) -> bool: ...
    @property
    def reader(self) -> Any: ...
    @property
    def comparison(self) -> Any: ...
    @property
    def original(self) -> Any: ...
    @property
    def sent_away(self) -> bool: ...
    def settled(self, rows: tuple[Any, ...] = ()) -> Any: ...
    def refuse_changed(self) -> None: ...


def answered_by(model: Asked, X: Any) -> tuple[Any, Any]:
    """(which model answers, X as it takes them)."""
    if model.loop == "jax" and model.reader is None:
        model.refuse_changed()
    if is_tree(X):
        return coded_rows(model, X)
    if model.reader is None:
        return model, (jax_rows if model.loop == "jax" else host_rows)(model, X)
    if model.sent_away:
        return model.settled(), X
    model.refuse_changed()
    rows = host_rows(model, X)
    if model.comparison is not None:
        found = model.settled(() if model.comparison.done else (rows,))
        found = found if model.comparison.decided else model.original or found
        if found is not model:
            return found, X
    try:
        return model, model.reader.codes(rows)
    except Untranslatable as reason:
        if model.comparison is None:
            raise InputError(f"X: {model.name} cannot run in JAX on it: {reason}.") from None
        model.comparison.to_host(str(reason))
        return model.settled(), X


def jax_rows(model: Asked, X: Any) -> np.ndarray | MappedRows:
    """X checked and copied in the dtype of a JAX model, [R, *F]; a memory map stays one."""
    dtype = np.dtype(DTYPES[model.precision])
    return read_array(
        X,
        "X",
        model.input_shape,
        model.allow_nan,
        dtype,
        model.feature_names,
        "the model",
        _of_any_shape(model),
    )


def host_rows(model: Asked, X: Any) -> Any:
    """X checked and copied in its own dtypes: an array [R, *F], a memory map, or a frame."""
    if rows_of(X).is_frame:
        return copied_frame(X, "X", model.allow_nan)
    any_shape = _of_any_shape(model)
    return read_array(
        X, "X", model.input_shape, model.allow_nan, owner="the model", any_shape=any_shape
    )


def _of_any_shape(model: Asked) -> bool:
    return model.network and model.feature_names is None


def parts(rows: Any, size: int | None) -> Iterator[tuple[int, Any]]:
    """(start, slice) of at most `size` rows each; frames are cut as frames."""
    step = len(rows) if size is None else size
    given = rows_of(rows)
    for start in range(0, len(rows), step):
        yield start, given.part(start, start + step)
