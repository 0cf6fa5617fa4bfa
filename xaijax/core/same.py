"""Facts that compare equal: arrays by identity or by numbers, objects by identity as long as they
live.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

WHOLE, SPREAD = 1 << 27, 1 << 16  # bytes of an array that are read; entries of a larger one


class SameArray:
    """Equals another instance with the same array, or with the same numbers."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SameArray):
            return False
        mine, theirs = self.value, other.value
        if mine is theirs:
            return True
        if any(isinstance(array, Tracer) for array in (mine, theirs)):
            return False
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            return False
        try:
            return digest_of_array(mine) == digest_of_array(theirs)
        except RuntimeError:  # one of them was deleted
            return False

    def __hash__(self) -> int:
        return hash((self.value.shape, str(self.value.dtype)))


class SameObject:
    """Equals another instance with the same object, as long as it lives."""

    def __init__(self, value: Any) -> None:
        try:
            self.value: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self.value = lambda: value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SameObject):
            return False
        mine = self.value()
        return mine is not None and mine is other.value()

    def __hash__(self) -> int:
        return 0


def digest_of_array(array: Any) -> Hashable:
    """Digest of an array's numbers; for a large array, of entries spread over it."""
    if isinstance(array, Tracer):
        return "traced", str(array.aval)
    if isinstance(array, jax.Array) and jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    array = np.asarray(array)
    facts = array.dtype.str, array.shape
    if array.nbytes > WHOLE:
        places = np.linspace(0, array.size - 1, SPREAD).astype(np.int64)
        array = array.reshape(-1)[places] if array.flags.c_contiguous else array.flat[places]
    return *facts, hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=16).digest()
