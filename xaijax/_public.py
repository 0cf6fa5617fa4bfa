"""The door of every public callable: an unknown keyword is refused before any work."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from xaijax._errors import InputTypeError

_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C", bound=type)

# What users of other libraries type first, and the word for it here.
_KNOWN_ELSEWHERE = {
    "nsamples": ("budget", "samples"),
    "max_evals": ("budget", "samples"),
    "random_state": ("seed",),
    "masker": ("background",),
    "tau": ("threshold",),
    "aggregation": ("index",),
}


def public(function: _F, name: str | None = None) -> _F:
    """Wrap a function so that arguments which do not fit its signature raise InputTypeError."""
    signature = inspect.signature(function)
    shown = name or function.__name__

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        unknown = [k for k in kwargs if k not in signature.parameters]
        if unknown:
            raise InputTypeError(_unknown(shown, unknown[0], list(signature.parameters)))
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputTypeError(f"{shown}: {error}; it takes {signature}.") from None
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def public_class(cls: _C) -> _C:
    """The same for the constructor, and for the public methods, of a class."""
    for key, member in list(vars(cls).items()):
        if inspect.isfunction(member) and (
            key in ("__init__", "__call__") or not key.startswith("_")
        ):
            shown = cls.__name__ if key.startswith("_") else f"{cls.__name__}.{key}"
            setattr(cls, key, public(member, shown))
    return cls


def _unknown(shown: str, keyword: str, parameters: list[str]) -> str:
    accepted = [p for p in parameters if p != "self"]
    own = [p for p in _KNOWN_ELSEWHERE.get(keyword, ()) if p in accepted]
    hint = f" For {keyword}, say {own[0]}=." if own else ""
    return f"{shown} has no keyword {keyword!r}.{hint} It takes: {', '.join(accepted)}."
