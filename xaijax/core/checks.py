"""Checks of arguments, done before any work; each error names argument, got, accepted, remedy."""

from __future__ import annotations

import math
import numbers
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from xaijax.core.errors import InputError, InputTypeError, LongRunWarning, XaiWarning

CHUNK_BYTES = 1 << 26  # of an array checked at a time, so that a memory map is not loaded


def shown(value: Any) -> str:
    """Formats a value for a message: 1.0 where NumPy's repr is np.float64(1.0)."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def count(number: int, thing: str) -> str:
    """Formats a number and its noun: 1 row, 2 rows."""
    return f"{number:,} {thing}" + ("s" if number != 1 else "")


def whole_number(value: Any, name: str, least: int = 1, remedy: str = "") -> int:
    """Returns a whole number of at least `least`; raises for bool, float and text."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Integral):
        raise InputTypeError(
            f"{name} must be a whole number of at least {least}, got {shown(value)} "
            f"({type(value).__name__}).{remedy}"
        )
    if value < least:
        raise InputError(f"{name} must be at least {least}, got {shown(value)}.{remedy}")
    return int(value)


def number(
    value: Any, name: str, wanted: str, fits: Callable[[Any], bool], remedy: str = ""
) -> float:
    """Returns a real number that fits; raises for bool and text. `wanted` describes it in
    messages."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise InputTypeError(f"{name} must be {wanted}, got {shown(value)}.{remedy}")
    try:
        real, text = float(value), shown(value)
    except OverflowError:  # a whole number beyond the floats
        real, text = math.inf, "one beyond the floats"
    if not fits(real):
        raise InputError(f"{name} must be {wanted}, got {text}.{remedy}")
    return real


def positive(value: Any, name: str) -> float:
    """Returns a finite number above 0; raises for bool and text."""
    return number(value, name, "a positive number", lambda v: 0 < v < math.inf)


def share(value: Any, name: str, top: bool = False, remedy: str = "") -> float:
    """Returns a number in (0, 1), or in (0, 1] with `top`."""
    wanted = f"a number in (0, 1{']' if top else ')'}"
    return number(value, name, wanted, lambda v: 0 < v < 1 or (top and v == 1), remedy)


def text(value: Any, name: str, none: bool = False) -> Any:
    """Returns a text; with `none` also None."""
    if not (none and value is None):
        instance(value, name, str, "a text or None" if none else "a text")
    return value


def instance(value: Any, name: str, kind: Any, wanted: str, remedy: str = "") -> None:
    """Refuses a value that is of none of these types; wanted: which, for the message."""
    if not isinstance(value, kind):
        raise InputTypeError(f"{name} must be {wanted}, got {type(value).__name__}.{remedy}")


def passed(value: Any, name: str, kind: Any, wanted: str) -> None:
    """Refuses a value that is of none of these types; wanted: what to pass."""
    if not isinstance(value, kind):
        raise InputTypeError(f"{name}: got {type(value).__name__}; pass {wanted}.")


def one_of(value: Any, name: str, accepted: Sequence[str]) -> str:
    """Returns a text among `accepted`."""
    said = f"{name} must be one of {list(accepted)}, got {shown(value)}."
    if not isinstance(value, str):
        raise InputTypeError(said)
    if value not in accepted:
        raise InputError(said)
    return value


def yes_or_no(value: Any, name: str) -> bool:
    """Returns True or False; raises for other values, also those that Python treats as true."""
    if not isinstance(value, bool):
        raise InputTypeError(f"{name} must be True or False, got {shown(value)}.")
    return value


def listed(value: Any, name: str, of: str = "names") -> list[Any]:
    """Returns the entries of a list, a tuple or another ordered sequence.

    Raises for values without order (a set), with two parts (a dict, a frame) and for single texts.
    """
    flat = np.ndim(value) == 1 if hasattr(value, "__array__") else isinstance(value, Iterable)
    if not flat or isinstance(value, str | bytes | Mapping | Set):
        got = f" {value!r:.60}" if isinstance(value, str | bytes) else ""
        raise InputTypeError(
            f"{name} must be a list of {of}, got {type(value).__name__}{got}. Write [...]."
        )
    return list(value)


def functions(owner: Any, *fields: str) -> None:
    """Raises InputTypeError if one of these fields of `owner` is not a function."""
    for field in fields:
        instance(getattr(owner, field), field, Callable, "a function")


def as_array(
    X: Any,
    name: str,
    remedy: str = "Encode text and categories first (OrdinalEncoder or OneHotEncoder), or give a "
    "data frame to a scikit-learn model.",
) -> np.ndarray:
    """Returns X as a numeric or bool array of any rank, without a copy where possible.

    remedy: what to do about values of other types.
    """
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
    X = from_torch(X)
    try:
        array = np.asarray(X)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InputTypeError(
            f"{name} must be an array of numbers with rows of one length: {error}."
        ) from None
    if array.dtype.kind == "V":  # JAX's narrow numbers, a kind of their own in NumPy
        for narrow, wide in (("bfloat", "f4"), ("float", "f4"), ("int", "i4"), ("uint", "u4")):
            if array.dtype.name.startswith(narrow):
                array = array.astype(wide)
                break
    if array.dtype.kind == "c":
        raise InputTypeError(f"{name} is complex ({array.dtype}); real numbers are needed.")
    if array.dtype.kind in "mM":
        raise InputTypeError(
            f"{name} holds dates ({array.dtype}); make them numbers first (days since some day)."
        )
    if array.dtype.kind not in "biuf":
        said = f"{name} has dtype {array.dtype}; numbers are needed. {remedy}"
        raise InputTypeError(said.rstrip())
    return array


def from_torch(X: Any) -> Any:
    """Returns a PyTorch tensor as a NumPy array, without a copy if it is on the CPU. Anything else,
    also a sparse tensor, is returned unchanged. Narrow floats, which NumPy lacks, become float32.
    """
    if not (type(X).__module__.startswith("torch") and hasattr(X, "detach")):
        return X
    X = X.detach().cpu()
    try:
        return X.float().numpy() if "bfloat16" in str(X.dtype) else X.numpy()
    except (TypeError, RuntimeError):  # `as_array` says what it cannot read
        return X


def real_numbers(value: Any, name: str) -> np.ndarray:
    """Returns the numbers as float64, in any shape; a float64 array is not copied.

    It raises for complex numbers, whose real parts NumPy would keep with a warning of its own, and
    for texts and dates, which NumPy would read as numbers.

    Raises:
        InputTypeError: `value` is not an array of real numbers.
    """
    try:
        array = np.asarray(value)
        objects = array.flat if array.dtype.kind == "O" else ()
        if array.dtype.kind in "SUmM" or any(isinstance(entry, str | bytes) for entry in objects):
            raise TypeError("texts or dates")
        if array.dtype.kind != "c" and not any(
            isinstance(entry, complex | np.complexfloating) for entry in objects
        ):
            return np.asarray(array, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputTypeError(
            f"{name}: got {type(value).__name__}, which is no array of numbers."
        ) from error
    raise InputTypeError(
        f"{name}: got complex numbers; real ones are needed. Take np.real or np.abs of them."
    )


def matrix(X: Any, name: str) -> np.ndarray:
    """Returns X as an array [M, F] of numbers, M and F at least 1, where no model is involved."""
    array = as_array(X, name, "Encode text and categories first (OrdinalEncoder or OneHotEncoder).")
    if array.ndim != 2:
        raise InputError(
            f"{name} has shape {array.shape}, but [rows, columns] is needed. Say {name}[:, None] "
            f"for a single column, {name}[None] for a single row."
        )
    return rows_of(array, name, None)


def rows_of(
    array: np.ndarray, name: str, shape: tuple[int, ...] | None, width_of: str = ""
) -> np.ndarray:
    """Returns rows [M, *shape] with M >= 1; with shape None, any [M, F]."""
    rank = 2 if shape is None else 1 + len(shape)
    if array.ndim == rank - 1:
        raise InputError(
            f"{name} has shape {array.shape}: one row, not a batch of rows. Pass x[None] for a "
            "single row x."
        )
    if array.ndim != rank:
        wanted = "[rows, features]" if shape is None else f"[rows, {', '.join(map(str, shape))}]"
        raise InputError(
            f"{name} has shape {array.shape}, but {wanted} is needed, or input_shape= in as_model."
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


def leaves_of(tree: Any, name: str) -> tuple[list[Any], Any]:
    """Returns (leaves, structure) of a container, None being a leaf; raises for keys that do not
    sort.
    """
    try:
        return jax.tree.flatten(tree, is_leaf=lambda node: node is None)
    except ValueError as reason:
        raise InputTypeError(
            f"{name}: keys of a dict of several types do not sort. Name all leaves by texts."
        ) from reason


def rows_given(X: Any) -> int:
    """Returns the row count of an argument that is not checked yet; 0 if it is unknown."""
    leaves = [X] if hasattr(X, "shape") else leaves_of(X, "X")[0]
    shape = getattr(leaves[0], "shape", None) if leaves else None
    return int(shape[0]) if isinstance(shape, tuple) and shape else 0


def chunks(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (first row, rows) of an array, piece by piece."""
    each = max(1, array.dtype.itemsize * math.prod(array.shape[1:]))
    step = max(1, CHUNK_BYTES // each)
    for first in range(0, len(array), step):
        yield first, array[first : first + step]


@dataclass(frozen=True)
class NanColumns:
    """The columns of a model's rows that may contain NaN, for a model that accepts it in some only.

    Attributes:
        allowed: bool [F], in the order in which the model was fitted.
    """

    allowed: tuple[bool, ...]


def nan_at(allow_nan: bool | NanColumns, place: int) -> bool:
    """Returns whether `allow_nan` permits NaN in the column at this position."""
    if not isinstance(allow_nan, NanColumns):
        return allow_nan
    return place < len(allow_nan.allowed) and allow_nan.allowed[place]


def finite(
    array: np.ndarray,
    name: str,
    allow_nan: bool | NanColumns,
    dtype: np.dtype | None = None,
    remedy: str = "Fill it, or say allow_nan=True in as_model if the model takes NaN.",
) -> None:
    """Raises for inf, for NaN unless allowed, and for values that are infinite in `dtype`. The
    message names the first place.

    remedy: what to do about NaN.
    """
    if array.dtype.kind != "f":
        return
    narrower = dtype is not None and dtype.itemsize < array.dtype.itemsize
    for first, part in chunks(array):
        with np.errstate(over="ignore"):
            converted = part.astype(dtype) if narrower else part
        wrong = np.isinf(converted) if allow_nan else ~np.isfinite(converted)
        if isinstance(allow_nan, NanColumns):
            columns = range(converted.shape[-1])
            wrong |= np.isnan(converted) & [not nan_at(allow_nan, column) for column in columns]
        if not wrong.any():
            continue
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        value, where = part[place], f"row {place[0] + first}"
        if place[1:]:
            where += f", column {', '.join(map(str, place[1:]))}"
        if np.isnan(value):
            what = "NaN"
        elif np.isinf(value):
            what, remedy = str(value), "Clip or remove it."
        else:
            what = f"{value}, infinite in {dtype},"
            remedy = "Rescale the column, or say precision='float64' in as_model."
        raise InputError(f"{name} contains {what} at {where}. {remedy}")


def changed_numbers(array: np.ndarray, dtype: np.dtype) -> int:
    """Counts the whole numbers of the array that change when they are converted to `dtype`."""
    if array.dtype.kind not in "iu" or dtype.kind != "f":
        return 0
    digits = int(np.finfo(dtype).nmant) + 1
    if array.dtype.itemsize * 8 <= digits:
        return 0
    changed = 0
    for _, part in chunks(array):
        size = np.abs(part).astype(np.uint64)  # the smallest int64 is its own abs: 2^63 unsigned
        size = size[size >> digits != 0]
        # A whole number is kept where its binary digits, without the closing zeros, are few enough.
        changed += int((size // (size & (~size + 1)) >> digits != 0).sum())
    return changed


def coarse_columns(array: np.ndarray, dtype: np.dtype) -> int:
    """Counts the columns of floats [M, *F] that lose all but four digits of their spread as
    `dtype`.

    If there are many rows, a sample at even steps is checked.
    """
    if array.dtype.kind != "f" or dtype.kind != "f" or array.dtype.itemsize <= dtype.itemsize:
        return 0
    sample = np.asarray(array[:: 1 + array.nbytes // CHUNK_BYTES])
    with np.errstate(over="ignore", invalid="ignore"):  # infinite and missing numbers stay
        moved = np.abs(sample - sample.astype(dtype))
        spread = sample.max(axis=0) - sample.min(axis=0)
        coarse = (moved.max(axis=0) > 1e-4 * spread) & (spread > 0)
    return int(np.count_nonzero(coarse))


def warn(text: str, category: type[XaiWarning] = XaiWarning) -> None:
    """Issues a warning at the line of the first caller outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("xaijax"):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def on_devices(X: Any, name: str, devices: Sequence[Any]) -> None:
    """Warns about a JAX array that is on other devices than the run."""
    if isinstance(X, jax.Array) and not X.devices() <= set(devices):
        warn(
            f"{name} is on {', '.join(sorted(map(str, X.devices())))}, but the run is on "
            f"{', '.join(map(str, devices))}: it is copied once. Put it there first "
            "(jax.device_put), or say devices=."
        )


def unique_names(names: Sequence[str], name: str) -> None:
    """Raises InputError for names that occur twice."""
    twice = sorted(n for n, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(f"{name} occur more than once: {twice}. Rename the columns.")


def row_weights(
    weights: Any, rows: int, name: str = "weights", of: str = "the background"
) -> tuple[np.ndarray, float | None]:
    """Returns row weights [B] with sum 1, and the given sum; for None equal weights and None."""
    if weights is None:
        return np.full(rows, 1.0 / rows), None
    array = as_array(weights, name).astype(np.float64)
    if array.shape != (rows,):
        raise InputError(
            f"{name} has shape {array.shape}, but {of} has {rows} rows: give [{rows}]."
        )
    if not np.isfinite(array).all():
        raise InputError(f"{name} contain NaN or inf; finite weights of at least 0 are needed.")
    if (array < 0).any():
        raise InputError(f"{name} contain {array.min()}; weights of at least 0 are needed.")
    if not array.any():
        raise InputError(f"{name} are all zero; at least one must be positive.")
    with np.errstate(over="ignore"):
        total = float(array.sum())
    scaled = array / array.max()  # the sum of these is finite
    return scaled / scaled.sum(), total


# Operations of about a minute at 25e9 a second, which small float32 networks reach on one CPU core.
# Layers that fit no cache are up to ten times slower, large layers up to ten times faster.
MINUTE_OF_A_CORE = 1.5e12


def warn_slow(said: str, ways: str) -> None:
    """Warns that a run takes long; `ways` says how to shorten it."""
    warn(
        f"{said}: more than about a minute. To ask for less: {ways}. To go on without this "
        "message: warnings.filterwarnings('ignore', category=xaijax.LongRunWarning).",
        LongRunWarning,
    )
