"""The meaning of `explanation[...]`: keys of three named axes become positions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from xaijax.core.errors import InputError, InputTypeError

_T = TypeVar("_T")
KEYS = "pass an integer, a name, a slice, a list or a bool mask."
Selection = slice | np.ndarray  # a slice stays one, so that slicing copies nothing


def split_key(
    key: Any, ndim: int, called: str = "explanation", second: str = "player"
) -> tuple[Any, ...]:
    """Returns one key for each axis of values [N, P] or [N, P, K].

    Axes without a key are kept in full. A tuple inside of the key is one set of players.
    """
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = [i for i, k in enumerate(keys) if k is Ellipsis]
    if dots:
        keys[dots[0] : dots[0] + 1] = [slice(None)] * max(ndim - len(keys) + 1, 0)
    if len(keys) > ndim or len(dots) > 1:
        axes = ", ".join(("instance", second, "output")[:ndim])
        raise InputError(
            f"{called}[...]: got {len(keys)} keys; the axes are {axes}: give each one key at most."
        )
    return tuple(keys) + (slice(None),) * (ndim - len(keys))


def resolve(
    key: Any, size: int, names: Sequence[str] | None, axis: str
) -> tuple[Selection, int | None]:
    """Positions on one axis, and the single position if `key` was an integer or a name.

    Args:
        key: integer, name, slice of integers, list of integers or names, or a bool mask [size].
        size: length of the axis.
        names: [size], or None if the axis has no names.
        axis: "instance" | "player" | "output", for messages.

    Raises:
        InputError: a position is out of range, a name is unknown or ambiguous, or a mask has
            another length.
        InputTypeError: a key has another type.
    """
    if isinstance(key, slice):
        try:
            key.indices(size)
        except TypeError as error:
            raise InputTypeError(
                f"{axis} slice {key!r}: slices take integers; pass a list of names instead."
            ) from error
        return key, None
    try:
        array = None if isinstance(key, str) else np.asarray(key)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"{axis} key of type {type(key).__name__} is not accepted.") from error
    if array is None or array.ndim == 0:
        position = _position(key, size, names, axis)
        return np.array([position], dtype=np.intp), position
    if array.ndim != 1:
        raise InputTypeError(
            f"{axis} key of type {type(key).__name__} with {array.ndim} axes: {KEYS}"
        )
    if array.dtype.kind == "b":
        if len(array) != size:
            raise InputError(f"{axis} mask has {len(array)} entries; the axis has {size}.")
        return np.flatnonzero(array), None
    return np.array([_position(k, size, names, axis) for k in key], dtype=np.intp), None


def take(names: tuple[_T, ...], selection: Selection) -> tuple[_T, ...]:
    """The selected names, or other entries."""
    if isinstance(selection, slice):
        return names[selection]
    return tuple(names[i] for i in selection)


def _position(key: Any, size: int, names: Sequence[str] | None, axis: str) -> int:
    if isinstance(key, str):
        return _named(key, names, axis)
    if isinstance(key, bool | np.bool_):
        raise InputTypeError(f"{axis} key {key!r} is a bool; pass an integer or a mask [{size}].")
    try:
        position = operator.index(key)
    except TypeError as error:
        raise InputTypeError(f"{axis} key of type {type(key).__name__}: {KEYS}") from error
    if not -size <= position < size:
        raise InputError(f"{axis} {position} is out of range; the axis has {size} entries.")
    return position % size


def _named(key: str, names: Sequence[str] | None, axis: str) -> int:
    if names is None:
        raise InputError(f"{axis} {key!r}: this explanation has no {axis} names; pass an integer.")
    places = [i for i, name in enumerate(names) if name == key]
    if not places:
        known = ", ".join(repr(name) for name in names[:8]) + (", ..." if len(names) > 8 else "")
        raise InputError(f"{axis} {key!r} is unknown; the names are {known}.")
    if len(places) > 1:
        raise InputError(f"{axis} {key!r} stands for {len(places)} entries; pass an integer.")
    return places[0]
