"""Programs that models share: those of one function, asked for one answer.

What a model compiles is kept beside its function, so that the cell of a notebook that is run again
traces and compiles nothing. The functions asked last are kept; others are forgotten.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

MOST = 32  # functions whose programs are kept
# What else a trace depends on; the precision of products is the model's own.
SETTINGS = ("jax_enable_x64", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion")


@dataclass(frozen=True)
class Traced:
    """A function made ready for the engine, and what was compiled of it."""

    whole: Callable[..., Any]
    apply: Any
    compiled: dict[Any, Any] = field(default_factory=dict)


_kept: OrderedDict[Hashable, Traced] = OrderedDict()
_lock = threading.Lock()


def shared(key: Hashable | None, make: Callable[[], Traced]) -> Traced:
    """What was made for an equal key, or make(); key None: made, and kept by nobody."""
    if key is None:
        return make()
    with _lock:
        if key not in _kept:
            _kept[key] = make()
        _kept.move_to_end(key)
        while len(_kept) > MOST:
            _kept.popitem(last=False)
        return _kept[key]


def places(params: Any) -> Hashable:
    """The structure of parameters, and the shape, dtype and place of each array."""
    leaves, tree = jax.tree.flatten(params)
    own = [
        (jnp.shape(a), str(jnp.result_type(a)), getattr(a, "weak_type", None), _sharding(a))
        for a in leaves
    ]
    return tree, tuple(own)


def settings() -> Hashable:
    """How JAX is set to trace."""
    return tuple(str(getattr(jax.config, name)) for name in SETTINGS)


def _sharding(leaf: Any) -> str | None:
    return str(leaf.sharding) if isinstance(leaf, jax.Array) else None
