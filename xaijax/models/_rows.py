"""The rows that a person hands to `Model.predict` and `Model.labels`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax._errors import InputError, InputTypeError


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars frame, told without importing either."""
    root = type(X).__module__.partition(".")[0]
    return root in ("pandas", "polars") and type(X).__name__ == "DataFrame"


def array_rows(
    X: Any, input_shape: tuple[int, ...] | None, allow_nan: bool, dtype: Any = None
) -> np.ndarray:
    """X as a finite array [R, *F]; of `dtype`, or of its own for None.

    Raises InputError for a single row, no rows or columns, another instance shape, NaN (unless
    allowed), infinities and numbers beyond the dtype; InputTypeError for what is not real numbers.
    """
    if hasattr(X, "toarray"):
        raise InputTypeError(
            f"X must be a dense array or a frame; got a sparse {type(X).__name__}. "
            f"Pass X.toarray()."
        )
    if np.ma.is_masked(X):
        raise InputError("X must not hold masked entries; fill them (X.filled(...)) first.")
    try:
        array = np.asarray(X)
    except ValueError as exc:
        raise InputTypeError(
            "X must be an array [R, F]; got rows of unequal length. Make them equally long."
        ) from exc
    kind = array.dtype
    if not (
        kind == np.bool_ or jnp.issubdtype(kind, np.floating) or jnp.issubdtype(kind, np.integer)
    ):
        raise InputTypeError(
            f"X must hold real numbers; got dtype {kind}. Encode the columns as numbers, or give a "
            f"frame to a host model that takes one."
        )
    _check_shape(array.shape, input_shape)
    return _finite(array, allow_nan, dtype)


def frame_rows(X: Any) -> Any:
    """A frame of at least one row and column, copied so that a model cannot write into X."""
    if 0 in X.shape:
        raise InputError(f"X must hold at least one row and one column; got shape {X.shape}.")
    return X.copy() if type(X).__module__.startswith("pandas") else X.clone()


def check_columns(X: Any, feature_names: tuple[str, ...] | None) -> None:
    """Raise InputError where a frame's columns are not the model's features in their order."""
    columns = [str(name) for name in X.columns]
    if feature_names is None or columns == list(feature_names):
        return
    missing = [name for name in feature_names if name not in columns]
    extra = [name for name in columns if name not in feature_names]
    detail = f"missing {missing}, not known {extra}" if missing or extra else "another order"
    raise InputError(
        f"X must have the model's columns in their order; got {detail}. "
        f"Pass X[list(model.feature_names)]."
    )


def parts(rows: Any, size: int | None) -> Iterator[tuple[int, Any]]:
    """(start, slice) of at most `size` rows each; frames are cut as frames."""
    if size is None or len(rows) <= size:
        yield 0, rows
        return
    for start in range(0, len(rows), size):
        yield start, (rows.iloc if hasattr(rows, "iloc") else rows)[start : start + size]


def _check_shape(shape: tuple[int, ...], input_shape: tuple[int, ...] | None) -> None:
    rank = 1 if input_shape is None else len(input_shape)
    if len(shape) == rank:
        raise InputError(
            f"X must hold one instance per row; got a single instance, shape {shape}. Pass x[None]."
        )
    if input_shape is None and len(shape) != 2:
        raise InputError(
            f"X must be [R, F]; got shape {shape}. For instances of more axes say "
            f"input_shape= in as_model."
        )
    if input_shape is not None and tuple(shape[1:]) != input_shape:
        raise InputError(
            f"X must be rows of shape {input_shape} (input_shape=); got shape {shape}."
        )
    if 0 in shape:
        raise InputError(f"X must hold at least one row and one column; got shape {shape}.")


def _finite(array: np.ndarray, allow_nan: bool, dtype: Any) -> np.ndarray:
    with np.errstate(over="ignore"):
        wanted = array if dtype is None else array.astype(dtype, copy=False)
    if wanted.dtype.kind in "biu":
        return wanted
    bad = ~np.isfinite(wanted)
    if allow_nan:
        bad &= ~np.isnan(wanted)
    if bad.any():
        place = np.argwhere(bad)[0]
        nan = " NaN is let through by as_model(..., allow_nan=True)." if not allow_nan else ""
        raise InputError(
            f"X must be finite in {wanted.dtype}; got {array[tuple(place)]!r} in row {place[0]}, "
            f"column {', '.join(map(str, place[1:]))}.{nan}"
        )
    return wanted
