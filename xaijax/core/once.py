"""What is worked out once for an owner, and kept by it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax

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


def shapes_of(method: Callable[[Any], Made], params: Any) -> Made:
    """`jax.eval_shape(method, params)`, traced once for the method's owner, which never changes,
    and parameters of the same shapes and dtypes: a trace takes as long as a small run.
    """
    leaves, tree = jax.tree.flatten(params)
    own = vars(method.__self__).setdefault(KEPT, {})  # type: ignore[attr-defined]
    place = (method.__name__, tree, tuple(map(jax.typeof, leaves)))
    if place not in own:
        own[place] = jax.eval_shape(method, params)
    return own[place]
