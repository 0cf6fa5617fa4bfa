"""Marks public names that will be removed (docs/stability.md has the rule)."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])


def deprecated(*, use: str, removed_in: str, name: str | None = None) -> Callable[[_F], _F]:
    """Returns a decorator for a public function or class: each call warns, and works as before.

    Args:
        use: what to write instead, such as "xaijax.new_name(...)".
        removed_in: the first version without the name. A test fails from that version on.
        name: the name as users write it. None: "xaijax." and the function's own name.
    """

    def decorate(old: _F) -> _F:
        called: Any = old.__init__ if isinstance(old, type) else old
        shown = name or f"xaijax.{old.__name__}"

        @functools.wraps(called)
        def warned(*args: Any, **kwargs: Any) -> Any:
            warn_deprecated(shown, use=use, removed_in=removed_in)
            return called(*args, **kwargs)

        if not isinstance(old, type):
            return cast(_F, warned)
        setattr(old, "__init__", warned)  # noqa: B010 - a checker sees no such member to assign
        return cast(_F, old)

    return decorate


def warn_deprecated(name: str, *, use: str, removed_in: str) -> None:
    """Warns the caller's caller about a name that `deprecated` cannot wrap, such as a keyword."""
    warnings.warn(
        f"{name} is deprecated and will be removed in xaijax {removed_in}. Say {use}.",
        DeprecationWarning,
        stacklevel=3,
    )
