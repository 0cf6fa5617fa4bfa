"""A stamp of a fitted estimator, by which a later change is seen: a refit, a number assigned.

It is cheap, since it is taken at every call: Python's own 64-bit hash of all that it holds, for
this process only. `fitted_state.py` digests what a ledger keeps, which nobody may forge. What
cannot be looked into, a function say, is known by its identity, and so are modules and the
variables of whoever wrote a formula. Within objects of other libraries no more than `MOST` things
and `BYTES` of arrays are read; what is left is compared by answers only.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from xaijax.models.identity.patched import SEARCHED

DEEPEST = 200  # objects within objects
# Within objects of classes that are not of `READ_WHOLE`: things, and bytes of arrays, that are
# read; of later arrays, entries spread over them.
MOST, BYTES, SPREAD = 1 << 13, 1 << 28, 1 << 12
READ_WHOLE = ("sklearn", "numpy", "scipy")
NAMESPACES = ("EvalEnvironment", "LayeredMapping")  # of patsy and formulaic: a caller's variables
# What an answer does not depend on and people set between two calls; and the search tree of nearest
# neighbours, which counts its visitors and is made of rows that are looked at themselves.
_WITHOUT = ("n_jobs", "verbose", "_tree", "random_state", "_random_state", *SEARCHED)
_BARE, _POINTER = object.__basicsize__, 8  # bytes of an object that holds nothing, and of a pointer
_HASHED = frozenset({type(None), bool, str, bytes})
_PRINTED = frozenset({int, slice, np.ufunc})  # hash(-1) == hash(-2); slices have none
_NUMBERS = (float, complex, np.generic, np.dtype)  # where NaN equals NaN
# Methods by which an estimator or a part of it answers: one that is put over them on the class is a
# change too.
_ANSWERS = ("predict", "predict_proba", "decision_function", "transform", "kneighbors")
# Its state is no part of a fit: scikit-learn keeps NumPy's own, from which everybody draws.
_GENERATORS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator)
_BY_IDENTITY = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    types.FrameType,
)


@functools.cache
def _packed(dtype: np.dtype) -> np.dtype:
    """The same fields with nothing between them, within them neither."""
    if dtype.subdtype is not None:
        return np.dtype((_packed(dtype.base), dtype.shape))
    if dtype.names is None:
        return dtype
    return np.dtype([(name, _packed(dtype[i])) for i, name in enumerate(dtype.names)])


@functools.cache
def _used(dtype: np.dtype) -> int | None:
    """Bytes of a record before its padding, if nothing lies between its fields; else None."""
    packed = _packed(dtype)
    there, here = packed.fields or {}, dtype.fields or {}
    return packed.itemsize if all(there[name] == here[name][:2] for name in there) else None


@functools.lru_cache(1 << 10)
def _layout(names: tuple[str, ...], kinds: tuple[type, ...]) -> tuple[int, Any, Any, list[str]]:
    """How attributes of these names and types are read: (a hash of both, what gets those that are
    hashed as they are, what gets those that are printed, the names of the others).
    """
    kept = [(name, kind) for name, kind in zip(names, kinds, strict=True) if name not in _WITHOUT]
    plain = [name for name, kind in kept if kind in _HASHED]
    printed = [name for name, kind in kept if kind in (int, float)]
    others = [name for name, _ in kept if name not in plain and name not in printed]
    return hash(tuple(kept)), _getter(plain), _getter(printed), others


def _getter(names: list[str]) -> Callable[[Any], Any]:
    return itemgetter(*names) if names else lambda _: None


class FitFingerprint:
    """Equal for one estimator in one state; what is known by identity is held, so that no other
    object gets its place.
    """

    def __init__(self, estimator: Any) -> None:
        self._held: list[Any] = []
        self._seen: dict[int, int] = {}
        self._kinds: dict[type, tuple[int, bool]] = {}
        self._ways: dict[type, Callable[[Any, int], int]] = {}
        self._foreign = 0  # objects of other libraries that are being read, one within another
        self._left, self._bytes = MOST, BYTES
        self._found = self._of(estimator, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FitFingerprint) and self._found == other._found

    __hash__ = None  # type: ignore[assignment]

    def made_by(self, libraries: tuple[str, ...]) -> bool:
        """Whether all objects that were looked into are of classes of these libraries."""
        return all(kind.__module__.split(".")[0] in libraries for kind in self._kinds)

    def _of(self, thing: Any, depth: int) -> int:
        kind = type(thing)
        if kind in _HASHED:
            return hash((kind, thing))
        if self._foreign:
            self._left -= 1
            if self._left < 0:
                return hash(("unread", kind.__qualname__))
        if kind in _PRINTED:
            return hash((kind, repr(thing)))
        way = self._ways.get(kind)
        if way is None:
            way = self._ways[kind] = self._way_of(thing)
        return way(thing, depth) if depth <= DEEPEST else 0

    def _way_of(self, thing: Any) -> Callable[[Any, int], int]:
        """How things of this one's class are read: an estimator has many of few classes."""
        kind = type(thing)
        if isinstance(thing, _NUMBERS):
            return lambda one, _: hash((kind, repr(one)))
        if kind is np.ndarray:
            return self._of_array
        if isinstance(thing, memoryview):
            return lambda one, depth: self._of_array(np.asarray(one), depth)
        if kind in (tuple, list):
            return lambda one, depth: hash((kind, *[self._of(part, depth + 1) for part in one]))
        if kind in (set, frozenset):
            return lambda one, depth: hash(
                (kind, frozenset(self._of(part, depth + 1) for part in one))
            )
        if kind is dict:
            return self._of_pairs
        if isinstance(thing, dict):
            return lambda one, depth: hash(
                (self._of_pairs(one, depth), self._of_pairs(getattr(one, "__dict__", {}), depth))
            )
        if isinstance(thing, _GENERATORS):
            return lambda one, _: self._of_identity(kind)
        if isinstance(thing, _BY_IDENTITY):
            return lambda one, _: self._of_identity(one)
        return self._of_object

    def _of_pairs(self, pairs: Any, depth: int) -> int:
        if "__builtins__" in pairs and "__name__" in pairs:  # the variables of a module
            return self._of_identity(pairs)
        if not self._foreign and set(map(type, pairs)) == {str}:
            layout = _layout(tuple(pairs), tuple(map(type, pairs.values())))
            of_layout, plain, printed, others = layout
            found = [self._of(pairs[name], depth + 1) for name in others]
            return hash((of_layout, plain(pairs), repr(printed(pairs)), *found))
        own: list[Any] = ["pairs"]
        for key, value in pairs.items():
            if self._foreign and self._left < 0:
                break
            if isinstance(key, str) and key in _WITHOUT:
                continue
            own.append(key if type(key) is str else self._of(key, depth + 1))
            kind = type(value)
            # Most are these: by themselves, and not by a hash of their own.
            own += (kind, value) if kind in _HASHED else (self._of(value, depth + 1),)
        return hash(tuple(own))

    def _of_array(self, array: np.ndarray, depth: int) -> int:
        facts = array.dtype if array.dtype.names else array.dtype.str, array.shape
        if array.dtype.hasobject:
            return hash((facts, *(self._of(one, depth + 1) for one in array.ravel().tolist())))
        if array.dtype.names:  # what lies between the fields is not set
            used = _used(array.dtype)
            if used is None or not array.flags.c_contiguous:
                array = array.astype(_packed(array.dtype))
            else:
                array = array.view((np.uint8, array.dtype.itemsize))[..., :used]
        if self._foreign:
            self._bytes -= array.nbytes
            if self._bytes < 0 and array.size > SPREAD:
                array = array.flat[np.linspace(0, array.size - 1, SPREAD).astype(np.int64)]
        return hash((facts, array.tobytes()))

    def _of_object(self, thing: Any, depth: int) -> int:
        if id(thing) in self._seen:  # met before, or met within itself
            return hash(("again", self._seen[id(thing)]))
        self._seen[id(thing)] = len(self._seen)
        self._held.append(thing)
        kind = type(thing)
        if kind.__name__ in NAMESPACES:
            return self._of_identity(thing)
        foreign = kind.__module__.partition(".")[0] not in READ_WHOLE
        self._foreign += foreign
        try:
            return self._of_contents(thing, kind, depth)
        finally:
            self._foreign -= foreign

    def _of_contents(self, thing: Any, kind: type, depth: int) -> int:
        found = self._of_pairs(vars(thing), depth) if hasattr(thing, "__dict__") else 0
        of_kind, all_in_dict = self._kinds.get(kind) or self._of_kind(kind)
        if all_in_dict:
            return hash((of_kind, found))
        try:
            kept = thing.__reduce_ex__(4)
        except Exception:  # what an object that does not pickle raises is up to its class
            return hash((self._of_identity(thing), found))
        if isinstance(kept, str):
            return hash((self._of_identity(thing), found))
        parts = (part if i < 3 or part is None else list(part) for i, part in enumerate(kept))
        return hash((of_kind, found, *(self._of(p, depth + 1) for p in parts)))

    def _of_kind(self, kind: type) -> tuple[int, bool]:
        """(a hash of a class and of what it and its bases hold for `_ANSWERS`, whether all that its
        objects hold is in their `__dict__`).

        It is if they take no more bytes than an object with that and with weak references does:
        slots take more, and so does what a class written in C keeps.
        """
        own = [vars(base).get(name) for base in kind.__mro__ for name in _ANSWERS]
        self._held += own
        pointers = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
        bare = kind.__dictoffset__ != 0 and kind.__basicsize__ == _BARE + _POINTER * pointers
        self._kinds[kind] = hash((self._of_identity(kind), *map(id, own))), bare
        return self._kinds[kind]

    def _of_identity(self, thing: Any) -> int:
        if isinstance(thing, types.MethodType):  # made anew at every look
            return hash((self._of_identity(thing.__func__), self._of_identity(thing.__self__)))
        self._held.append(thing)
        return hash(("identity", id(thing)))
