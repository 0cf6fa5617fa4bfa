"""What is worked out once for an owner, and kept by it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")
KEPT = "worked out once"  # in the owner's own dict, so that it goes with the owner


def once(make: Callable[..., Made]) -> Callable[..., Made]:
    """make(owner, *key), called once for each owner and key; the owner never changes."""

    @functools.wraps(make)
    def kept(owner: Any, *key: Any) -> Made:
        own = vars(owner).setdefault(KEPT, {})
        place = (make, *key)
        if place not in own:
            own[place] = make(owner, *key)
        return own[place]

    return kept
