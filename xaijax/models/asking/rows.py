"""The rows that a person hands to `Model.predict` and `.labels`, and which model takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.forks import before_jax
from xaijax.models.asking.leaves import coded_rows
from xaijax.models.base.trace import DTYPES
from xaijax.models.translations.translated import Comparison, answering, check_unchanged
from xaijax.tables.frames import copied_frame
from xaijax.tables.rows import rows_of
from xaijax.tables.table import MappedRows, Untranslatable, dtype_of, read_array
from xaijax.tables.tree import is_tree

if TYPE_CHECKING:
    from xaijax.models.model import Model

PROBE_ROWS = 32  # as many as the probe traces


def answered_by(model: Model, X: Any, labels: bool = False) -> tuple[Any, Any]:
    """(which model answers, X as it takes them); labels: with the classes that it decides."""
    comparison = model.comparison
    if model.loop == "jax":
        check_unchanged(model)
    if is_tree(X):
        return coded_rows(model, X)
    if model.reader is None:
        return model, (jax_rows if model.loop == "jax" else host_rows)(model, X)
    compared = isinstance(comparison, Comparison)
    if compared and comparison.reason is not None:
        return model.original, X
    rows = host_rows(model, X)
    if compared:
        labels |= model.asks_labels
        if not (comparison.labels_done if labels else comparison.done):
            comparison.compare_first((rows,), labels)
        found = answering(model)
        if not (comparison.done or comparison.forced):  # the rows do not tell rounding from more
            found = model.original
        if found is not model:
            return found, X
    try:
        return model, model.reader.codes(rows)
    except Untranslatable as reason:
        if not compared:
            raise InputError(f"X: {model.name} cannot run in JAX on it: {reason}.") from None
        comparison.fall_back(str(reason))
        return model.original, X


def jax_rows(model: Model, X: Any) -> np.ndarray | MappedRows:
    """X checked and copied in the dtype of a JAX model, [R, *F]; a memory map stays one."""
    rows = rows_of(X)
    shape = (rows.width,) if rows.is_frame else checks.as_array(X, "X").shape[1:]
    dtype = row_dtype(model, shape, dtype_of(X, "X"))
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


def row_dtype(model: Model, shape: tuple[int, ...], given: np.dtype) -> np.dtype:
    """The dtype in which rows [R, *shape] reach a JAX model: whole numbers and bools as they are,
    as JAX holds them, and floats in the model's precision.

    Whole numbers become floats for a function that JAX can trace with floats only: a convolution
    takes rows and weights of one dtype.
    """
    floats = np.dtype(DTYPES[model.precision])
    if given.kind not in "biu":
        return floats
    whole = np.dtype(jax.dtypes.canonicalize_dtype(given))
    key = "rows", shape, whole.name
    if key not in model.compiled:
        fails = cannot_trace(model.apply, model.params, shape, whole)
        model.compiled[key] = (
            floats
            if fails and not cannot_trace(model.apply, model.params, shape, floats)
            else whole
        )
    return model.compiled[key]


def cannot_trace(apply: Any, params: Any, shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether JAX cannot trace apply(params, rows [R, *shape]) with rows of this dtype."""
    before_jax()
    try:
        jax.eval_shape(apply, params, jax.ShapeDtypeStruct((PROBE_ROWS, *shape), dtype))
    except Exception:  # what is wrong with it is said by the probe
        return True
    return False


def host_rows(model: Model, X: Any) -> Any:
    """X checked and copied in its own dtypes: an array [R, *F], a memory map, or a frame."""
    if rows_of(X).is_frame:
        return copied_frame(X, "X", model.allow_nan)
    any_shape = _of_any_shape(model)
    return read_array(
        X, "X", model.input_shape, model.allow_nan, owner="the model", any_shape=any_shape
    )


def _of_any_shape(model: Model) -> bool:
    return model.network and model.feature_names is None


def parts(rows: Any, size: int | None) -> Iterator[tuple[int, Any]]:
    """(start, slice) of at most `size` rows each; frames are cut as frames."""
    step = len(rows) if size is None else size
    given = rows_of(rows)
    for start in range(0, len(rows), step):
        yield start, given.part(start, start + step)
