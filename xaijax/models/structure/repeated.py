"""Steps of a trace that were made before: the same step of the same inputs has the same outputs.

A decided class is traced beside the scores that say whether it is sound, so a trace holds one
pipeline twice. Followed without this, it would have two layers.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

SMALL = 1 << 12  # numbers that are compared themselves; larger arrays must be one and the same


class Repeated:
    """The steps made so far, by what they do and what they read."""

    def __init__(self) -> None:
        # The inputs are kept with the outputs, so that no other object gets their identity.
        self._made: dict[Any, tuple[list[Any], list[Any]]] = {}

    def key(self, equation: Any, inputs: list[Any]) -> Any:
        """What tells a step from others; None: it cannot be told."""
        if equation.effects:
            return None
        key = (equation.primitive, *sorted(equation.params.items()), *map(_name, inputs))
        try:
            hash(key)
        except TypeError:  # an option that holds arrays, or other unhashable things
            return None
        return key

    def outputs(self, key: Any) -> list[Any] | None:
        """Those of the same step, if it was made."""
        return None if key is None or key not in self._made else self._made[key][1]

    def keep(self, key: Any, inputs: list[Any], outputs: list[Any]) -> None:
        """Remember the outputs of a step."""
        if key is not None:
            self._made[key] = inputs, outputs


def _name(x: Any) -> Any:
    """Equal for what are the same numbers: constants by their bytes, the rest by identity."""
    if isinstance(x, Tracer) or not hasattr(x, "dtype") and not isinstance(x, int | float | bool):
        return id(x)
    if np.size(x) > SMALL:
        return id(x)
    own: Any = getattr(x, "dtype", None)
    if jnp.issubdtype(own, jax.dtypes.extended):
        if not jnp.issubdtype(own, jax.dtypes.prng_key):
            return id(x)
        with jax.ensure_compile_time_eval():  # NumPy has no keys, but the words that they are
            words = np.asarray(jax.random.key_data(x))
        return str(own), words.shape, words.tobytes()
    constant = np.asarray(x)
    return constant.dtype.str, constant.shape, constant.tobytes()
