"""Checks of arguments, done before any work; each error names argument, got, accepted, remedy."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xaijax._errors import InputError, InputTypeError, XaiWarning

CHUNK_BYTES = 1 << 26  # of an array looked at in one go, so that a memory map is never read whole


def frame_kind(X: Any) -> str | None:
    """ "pandas" or "polars" for a data frame, else None; imports neither."""
    module = type(X).__module__.split(".")[0]
    return module if module in ("pandas", "polars") and type(X).__name__ == "DataFrame" else None


def whole_number(value: Any, name: str, least: int = 1, remedy: str = "") -> int:
    """A whole number of at least `least`; bool, float and text are refused."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise InputTypeError(
            f"{name} must be a whole number of at least {least}, got {value!r} "
            f"({type(value).__name__}).{remedy}"
        )
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {value!r}.{remedy}")
    return int(value)


def one_of(value: Any, name: str, accepted: Sequence[str]) -> str:
    """A text among `accepted`."""
    if not isinstance(value, str):
        raise InputTypeError(f"{name} must be one of {list(accepted)}, got {value!r}.")
    if value not in accepted:
        raise InputError(f"{name} must be one of {list(accepted)}, got {value!r}.")
    return value


def as_array(X: Any, name: str) -> np.ndarray:
    """X as a numeric or bool array of any rank, not copied where that is possible."""
    if hasattr(X, "tocsr") or hasattr(X, "todense"):
        raise InputTypeError(
            f"{name} is a sparse matrix; dense rows are needed. Say {name}.toarray() if it fits."
        )
    if isinstance(X, np.ma.MaskedArray):
        if np.ma.is_masked(X):
            raise InputError(
                f"{name} is a masked array with {int(np.ma.count_masked(X))} masked entries. "
                f"Fill them first ({name}.filled(value))."
            )
        X = X.data
    if type(X).__module__.startswith("torch"):
        raise InputTypeError(f"{name} is a torch tensor; say {name}.numpy().")
    try:
        array = np.asarray(X)
    except (ValueError, TypeError) as error:
        raise InputTypeError(
            f"{name} must be an array of numbers with rows of one length: {error}."
        ) from None
    if array.dtype.kind == "V" and array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        array = array.astype(np.float32)
    if array.dtype.kind == "c":
        raise InputTypeError(f"{name} is complex ({array.dtype}); real numbers are needed.")
    if array.dtype.kind in "mM":
        raise InputTypeError(
            f"{name} holds dates ({array.dtype}); make them numbers first (days since some day)."
        )
    if array.dtype.kind not in "biuf":
        raise InputTypeError(
            f"{name} has dtype {array.dtype}; numbers are needed. Encode text and categories first "
            "(OrdinalEncoder or OneHotEncoder), or give a data frame to a scikit-learn model."
        )
    return array


def rows_of(
    array: np.ndarray, name: str, shape: tuple[int, ...] | None, width_of: str = ""
) -> np.ndarray:
    """[M, *shape] with M >= 1; shape None takes any [M, F]."""
    rank = 2 if shape is None else 1 + len(shape)
    if array.ndim == rank - 1:
        raise InputError(
            f"{name} has shape {array.shape}: one row, not a batch of rows. Say {name}[None]."
        )
    if array.ndim != rank:
        wanted = "[rows, features]" if shape is None else f"[rows, {', '.join(map(str, shape))}]"
        raise InputError(
            f"{name} has shape {array.shape}, but {wanted} is needed. For inputs of another rank "
            "say input_shape= in as_model."
        )
    if array.shape[0] == 0:
        raise InputError(f"{name} has 0 rows; at least 1 is needed.")
    if 0 in array.shape[1:]:
        raise InputError(f"{name} has 0 columns (shape {array.shape}); at least 1 is needed.")
    if shape is not None and array.shape[1:] != shape:
        raise InputError(
            f"{name} has rows of shape {array.shape[1:]}, but {width_of or 'the model'} has "
            f"{shape}."
        )
    return array


def chunks(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """(first row, rows) of an array, piece by piece."""
    each = max(1, array.dtype.itemsize * math.prod(array.shape[1:]))
    step = max(1, CHUNK_BYTES // each)
    for first in range(0, len(array), step):
        yield first, array[first : first + step]


def finite(array: np.ndarray, name: str, allow_nan: bool) -> None:
    """Refuse inf, and NaN unless allowed, with the place of the first."""
    if array.dtype.kind != "f":
        return
    for first, part in chunks(array):
        wrong = np.isinf(part) if allow_nan else ~np.isfinite(part)
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            what = "NaN" if np.isnan(part[place]) else str(part[place])
            where = f"row {place[0] + first}, column {', '.join(map(str, place[1:]))}"
            remedy = (
                " Fill it, or say allow_nan=True in as_model for a model that takes NaN."
                if what == "NaN"
                else " Clip or remove it."
            )
            raise InputError(f"{name} contains {what} at {where}.{remedy}")


def to_float(array: np.ndarray, name: str, dtype: np.dtype) -> np.ndarray:
    """A copy in a JAX model's dtype; refuses overflow, warns of whole numbers that change."""
    with np.errstate(over="ignore"):
        out = array.astype(dtype)
    if array.dtype.kind == "f" and array.dtype.itemsize > dtype.itemsize:
        over = np.isinf(out) & ~np.isinf(array)
        if over.any():
            place = tuple(int(i) for i in np.argwhere(over)[0])
            raise InputError(
                f"{name} contains {array[place]} at row {place[0]}, column "
                f"{', '.join(map(str, place[1:]))}: infinite in {dtype}. Rescale the column, or "
                'say precision="float64" in as_model.'
            )
    if array.dtype.kind in "iu":
        changed = int((out.astype(np.longdouble) != array).sum())
        if changed:
            warnings.warn(
                f"{name}: {changed} whole numbers change in {dtype} (above 2^24 it skips some). "
                "Subtract an offset, or say precision='float64' in as_model.",
                XaiWarning,
                stacklevel=4,
            )
    return out


def unique_names(names: Sequence[str], name: str) -> None:
    """Refuse names that occur twice."""
    twice = sorted({n for n in names if list(names).count(n) > 1}) if _repeats(names) else []
    if twice:
        raise InputError(f"{name} occur more than once: {twice}. Rename the columns.")


def _repeats(names: Sequence[str]) -> bool:
    return len(set(names)) != len(names)


def row_weights(weights: Any, rows: int) -> np.ndarray:
    """Weights of the background rows [B]: not negative, finite, sum 1; None: equal."""
    if weights is None:
        return np.full(rows, 1.0 / rows)
    given = as_array(weights, "weights").astype(np.float64)
    if given.shape != (rows,):
        raise InputError(
            f"weights has shape {given.shape}, but the background has {rows} rows: give [{rows}]."
        )
    if not np.isfinite(given).all():
        raise InputError("weights contain NaN or inf; finite weights of at least 0 are needed.")
    if (given < 0).any():
        raise InputError(f"weights contain {given.min()}; weights of at least 0 are needed.")
    if not given.any():
        raise InputError("weights are all zero; at least one must be positive.")
    return given / given.sum()
