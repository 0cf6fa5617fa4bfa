"""The data that was explained, row by row and player by player, whatever holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from xaijax.core.checks import leaves_of
from xaijax.core.errors import InputError, InputTypeError
from xaijax.results.freeze import check_shape, read_only
from xaijax.results.selection import Selection
from xaijax.tables.rows import rows_of


def frozen_rows(data: Any, N: int) -> Any:
    """Arrays of N rows as views that cannot be written; a frame as it is."""
    rows = rows_of(data)
    if rows.is_frame:
        check_shape("data (its first axis)", data.shape[:1], (N,))
        return data
    leaves, structure = leaves_of(data, "data") if rows.kind == "tree" else ([data], None)
    leaves = [_frozen_leaf(leaf, N) for leaf in leaves]
    if not leaves:
        raise InputTypeError(f"data: got an empty {type(data).__name__}, which holds no instances.")
    return leaves[0] if structure is None else structure.unflatten(leaves)


def _frozen_leaf(leaf: Any, N: int) -> np.ndarray:
    """One array of the instances [N, *F]."""
    try:
        array = read_only(np.asarray(leaf))
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"data: got {type(leaf).__name__}, which is no array of rows of one length: {error}."
        ) from error
    if array.dtype.kind == "c":
        raise InputTypeError(f"data is complex ({array.dtype}); real numbers are needed.")
    check_shape("data (its first axis)", array.shape[:1], (N,))
    return array


def take_rows(data: Any, rows: Selection) -> Any:
    """The selected rows of an array or frame; None stays None."""
    return None if data is None else rows_of(data).take(rows)


def player_columns(
    data: Any, feature_names: Sequence[str], given: Sequence[Sequence[int]] | None
) -> list[int | None]:
    """The column of `data` behind each player [P]; None for a united player or none known.

    Args:
        data: array [N, *F], frame, or None.
        feature_names: the players [P].
        given: `provenance["player_columns"]`, the column positions of each player, where present;
            those of instances of rank above 1 count their entries in C order.

    Raises:
        InputError: `given` has not an entry for each player, or names no columns of `data`.
    """
    if data is None:
        return [None] * len(feature_names)
    if given is not None:
        check_columns(given, len(feature_names), data)
        return [int(columns[0]) if len(columns) == 1 else None for columns in given]
    rows = rows_of(data)
    if rows.is_frame:
        labels = [str(label) for label in rows.labels]
        places = {label: c for c, label in enumerate(labels)}
        several = {label for label, times in Counter(labels).items() if times > 1}
        return [None if name in several else places.get(name) for name in feature_names]
    if rows.width == len(feature_names):
        return list(range(len(feature_names)))
    return [None] * len(feature_names)


def check_columns(given: Any, P: int, data: Any) -> None:
    """Refuse a `provenance["player_columns"]` that does not fit P players or `data`, where known.

    Raises:
        InputError: it does not.
    """
    width = np.inf if data is None else rows_of(data).width
    try:
        fits = len(given) == P and all(
            isinstance(c, int | np.integer) and 0 <= c < width for own in given for c in own
        )
    except TypeError:
        fits = False
    if not fits:
        known = "" if data is None else f", below {width:,} as data has"
        raise InputError(
            f"provenance['player_columns']: expected for each of {P:,} players a tuple of the "
            f"positions of its columns{known}; leave it out where there are none."
        )


def as_numbers(values: np.ndarray) -> np.ndarray | None:
    """float64 [N] where all entries are numbers (None counts as NaN), else None."""
    if values.dtype.kind in "biuf" or (values.dtype.kind == "V" and values.dtype.names is None):
        return values.astype(np.float64)
    if values.dtype.kind != "O":
        return None
    if all(
        v is None or isinstance(v, int | float | np.integer | np.floating | np.bool_)
        for v in values
    ):
        return np.array([np.nan if v is None else float(v) for v in values])
    return None


def concatenate(parts: Sequence[Any]) -> Any:
    """The rows of all parts, arrays or frames of one library, one under the other.

    Raises:
        InputError: the parts are of different kinds, columns or instance shapes.
    """
    if all(part is None for part in parts):
        return None
    kinds = {"none" if part is None else rows_of(part).kind for part in parts}
    if len(kinds) > 1:
        raise InputError(f"data: the parts are of different kinds, {', '.join(sorted(kinds))}.")
    rows = rows_of(parts[0])
    if not rows.is_frame:
        if len({rows_of(part).instance for part in parts}) > 1:
            raise InputError("data: the parts have instances of different shapes.")
    elif len({tuple(rows_of(part).labels) for part in parts}) > 1:
        raise InputError("data: the parts have different columns.")
    elif any(list(part.dtypes) != list(parts[0].dtypes) for part in parts):
        raise InputError("data: the parts have columns of different dtypes.")
    return rows.stacked(parts)
