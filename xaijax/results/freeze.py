"""The fields of an Explanation: checked, made plain, and frozen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from xaijax.core.checks import listed, real_numbers, shown
from xaijax.core.errors import InputError, InputTypeError


class FrozenDict(dict[str, Any]):
    """A dict that stays as it is: what would change it raises TypeError."""

    def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this dict is frozen. Make a copy to change: dict(...).")

    __setitem__ = __delitem__ = pop = popitem = clear = _refuse
    update = setdefault = __ior__ = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


def frozen(value: Any) -> Any:
    """Dicts and lists as what cannot be changed, however deep; anything else as it is."""
    if isinstance(value, Mapping):
        return FrozenDict({name: frozen(one) for name, one in value.items()})
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else read_only(value)


def thawed(value: Any) -> Any:
    """Dicts and lists again, of what `frozen` made."""
    if isinstance(value, Mapping):
        return {name: thawed(one) for name, one in value.items()}
    return list(map(thawed, value)) if isinstance(value, tuple) else value


def floats(name: str, array: Any) -> np.ndarray:
    """A read-only float64 array; a float64 array given is not copied."""
    return read_only(real_numbers(array, name))


def read_only(value: Any) -> Any:
    """An array as a view that cannot be written; anything else as it is."""
    # A view: the flag must not reach an array that the caller goes on using.
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


def check_shape(name: str, got: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Refuse a shape that does not fit the values."""
    if got != expected:
        raise InputError(f"{name}: got shape {got}; the values need {expected}.")


def names(name: str, given: Any, size: int | None, unique: bool) -> tuple[str, ...] | None:
    """The names of one axis as texts; size None: the axis does not exist."""
    if given is None:
        return None
    given = listed(given, name)
    if size is None:
        raise InputError(f"{name}: values [N, P] have one output; pass None or values [N, P, K].")
    result = tuple(str(one) for one in given)
    if len(result) != size:
        raise InputError(f"{name}: got {len(result)} names; the values need {size}.")
    if unique and len(set(result)) < size:
        twice = next(one for one in result if result.count(one) > 1)
        raise InputError(f"{name}: {twice!r} is there more than once; names must differ.")
    return result


def facts(name: str, given: Any) -> Mapping[str, Any]:
    """A mapping whose keys are texts."""
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InputTypeError(
            f"{name}: got {type(given).__name__} {given!r:.60}; pass a dict whose keys are texts."
        )
    return given


def not_negative(name: str, array: np.ndarray, meaning: str) -> np.ndarray:
    """Returns the array after checking that no number is negative; NaN means unknown."""
    if (array < 0).any():
        raise InputError(
            f"{name}: got {shown(array[array < 0][0])}; {meaning} is at least 0, or NaN where it "
            "is unknown."
        )
    return array


def per_instance(value: Any, N: int) -> bool:
    """Whether an entry of `stats` is one entry per instance."""
    return isinstance(value, np.ndarray) and value.ndim > 0 and len(value) == N
