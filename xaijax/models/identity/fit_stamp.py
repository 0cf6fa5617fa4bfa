"""A stamp of a fitted estimator, by which a later change is seen: a refit, a number assigned.

Cheap, since it is taken at every call: Python's own 64-bit hash of all that it holds,
for this process only. `fitted_state.py` digests what a ledger keeps, which nobody may forge. What
cannot be looked into, a function say, is told by its identity.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np

DEEPEST = 200  # objects within objects
# What an answer does not depend on and people set between two calls; and the search tree of nearest
# neighbours, which counts its visitors and is made of rows that are looked at themselves.
_WITHOUT = ("n_jobs", "verbose", "_tree", "random_state", "_random_state")
_HEAP_TYPE = 1 << 9  # of type.__flags__: a class made by Python, whose objects are all in __dict__
_HASHED = frozenset({type(None), bool, str, bytes})
_PRINTED = frozenset({int, slice, np.ufunc})  # hash(-1) == hash(-2); slices have none
_NUMBERS = (float, complex, np.generic, np.dtype)  # where NaN equals NaN
# Methods by which an estimator or a part of it answers: one that is put over them on the class is a
# change too.
_ANSWERS = ("predict", "predict_proba", "decision_function", "transform", "kneighbors")
# Where one stands is no part of a fit: scikit-learn keeps NumPy's own, of which everybody draws.
_GENERATORS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator)
_BY_IDENTITY = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


@functools.cache
def _packed(dtype: np.dtype) -> np.dtype:
    """The same fields with nothing between them, within them neither."""
    if dtype.subdtype is not None:
        return np.dtype((_packed(dtype.base), dtype.shape))
    if dtype.names is None:
        return dtype
    return np.dtype([(name, _packed(dtype[i])) for i, name in enumerate(dtype.names)])


class Stamp:
    """Equal for one estimator in one state; what is told by identity is held, so that no other
    object gets its place.
    """

    def __init__(self, estimator: Any) -> None:
        self._held: list[Any] = []
        self._seen: dict[int, int] = {}
        self._kinds: dict[type, int] = {}
        self._found = self._of(estimator, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stamp) and self._found == other._found

    __hash__ = None  # type: ignore[assignment]

    def _of(self, thing: Any, depth: int) -> int:
        kind = type(thing)
        if kind in _HASHED:
            return hash((kind, thing))
        if kind in _PRINTED or isinstance(thing, _NUMBERS):
            return hash((kind, repr(thing)))
        if depth > DEEPEST:
            return 0
        if kind is np.ndarray:
            return self._of_array(thing, depth)
        if isinstance(thing, memoryview):
            return self._of_array(np.asarray(thing), depth)
        if kind in (tuple, list):
            return hash((kind, *[self._of(one, depth + 1) for one in thing]))
        if kind in (set, frozenset):
            return hash((kind, frozenset(self._of(one, depth + 1) for one in thing)))
        if isinstance(thing, dict):
            return self._of_pairs(thing, depth)
        if isinstance(thing, _GENERATORS):
            return self._of_identity(kind)
        if isinstance(thing, _BY_IDENTITY):
            return self._of_identity(thing)
        if id(thing) in self._seen:  # met before, or met within itself
            return hash(("again", self._seen[id(thing)]))
        self._seen[id(thing)] = len(self._seen)
        self._held.append(thing)
        return self._of_object(thing, depth)

    def _of_pairs(self, pairs: Any, depth: int) -> int:
        own = [
            (self._of(key, depth + 1), self._of(value, depth + 1))
            for key, value in pairs.items()
            if not (isinstance(key, str) and key in _WITHOUT)
        ]
        return hash(("pairs", *own))

    def _of_array(self, array: np.ndarray, depth: int) -> int:
        facts = array.dtype.str, array.shape
        if array.dtype.hasobject:
            return hash((facts, *(self._of(one, depth + 1) for one in array.ravel().tolist())))
        if array.dtype.names:  # what lies between the fields is not set
            array = array.astype(_packed(array.dtype))
        return hash((facts, array.tobytes()))

    def _of_object(self, thing: Any, depth: int) -> int:
        kind, found = type(thing), 0
        python = all(base is object or base.__flags__ & _HEAP_TYPE for base in kind.__mro__)
        if hasattr(thing, "__dict__"):
            found = self._of_pairs(vars(thing), depth)
            if python and not any("__slots__" in vars(base) for base in kind.__mro__):
                return hash((self._of_kind(kind), found))
        try:
            kept = thing.__reduce_ex__(4)
        except Exception:  # what an object that does not pickle raises is up to its class
            return hash((self._of_identity(thing), found))
        if isinstance(kept, str):
            return hash((self._of_identity(thing), found))
        parts = (part if i < 3 or part is None else list(part) for i, part in enumerate(kept))
        return hash((self._of_kind(kind), found, *(self._of(p, depth + 1) for p in parts)))

    def _of_kind(self, kind: type) -> int:
        """Of a class and of what stands in it and its bases for `_ANSWERS`."""
        if kind not in self._kinds:
            own = [vars(base).get(name) for base in kind.__mro__ for name in _ANSWERS]
            self._held += own
            self._kinds[kind] = hash((self._of_identity(kind), *map(id, own)))
        return self._kinds[kind]

    def _of_identity(self, thing: Any) -> int:
        if isinstance(thing, types.MethodType):  # made anew at every look
            return hash((self._of_identity(thing.__func__), self._of_identity(thing.__self__)))
        self._held.append(thing)
        return hash(("identity", id(thing)))
