"""Whether a function is the one that was traced before, so that its programs serve it again.

The same object is not enough: a function that reads `W` from its module answers otherwise once `W`
is assigned anew. So all that it reads from outside is looked at, as far as that can be told: its
closure, its defaults, and the globals that its code names, functions among them all the way down.
Numbers and texts are compared by value, NumPy arrays by a digest, JAX's arrays (which never change)
by the object. A function that reads anything else has no key, and is traced anew.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import types
from collections.abc import Hashable, Iterator
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

# Libraries whose modules, classes and functions are what they were, whoever asks.
LIBRARIES = frozenset(
    "jax jaxlib numpy scipy optax math functools itertools operator typing collections".split()
)
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
DEEPEST = 50  # functions within functions, containers within containers


class Untold(Exception):
    """There is something that may change unseen."""


class Same:
    """An object, equal to itself alone; holds it, so that its place is not given to another."""

    def __init__(self, one: Any) -> None:
        self._one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self._one is other._one

    def __hash__(self) -> int:
        return id(self._one)


def key_of(function: Any) -> Hashable | None:
    """Equal for a function that will be traced as before; None: that cannot be told."""
    try:
        return _key(function, 0, set())
    except Untold:
        return None


def _key(thing: Any, depth: int, seen: set[int]) -> Hashable:
    if depth > DEEPEST:
        raise Untold
    if isinstance(thing, PLAIN) or isinstance(thing, np.dtype | np.generic):
        return type(thing), thing if thing == thing else "nan"
    if isinstance(thing, jax.Array) and not isinstance(thing, Tracer):
        return Same(thing)
    if isinstance(thing, np.ndarray) and thing.dtype.kind in "biufc":
        bits = hashlib.blake2b(np.ascontiguousarray(thing).tobytes()).digest()
        return thing.dtype.str, thing.shape, bits
    if isinstance(thing, tuple | list):
        return type(thing), tuple(_key(one, depth + 1, seen) for one in thing)
    if type(thing) is dict:
        rows = ((_key(k, depth + 1, seen), _key(v, depth + 1, seen)) for k, v in thing.items())
        return dict, tuple(rows)
    if isinstance(thing, functools.partial):
        parts = (thing.func, thing.args, thing.keywords)
        return functools.partial, tuple(_key(part, depth + 1, seen) for part in parts)
    if isinstance(thing, types.FunctionType):
        return _of_function(thing, depth, seen)
    if _of_a_library(thing):
        return Same(thing)
    inner = getattr(thing, "__wrapped__", None)
    if inner is not None and type(thing).__module__.startswith("jax"):  # what jax.jit returns
        return Same(thing), _key(inner, depth + 1, seen)
    raise Untold


def _of_function(function: types.FunctionType, depth: int, seen: set[int]) -> Hashable:
    if id(function) in seen or _of_a_library(function):
        return Same(function)
    seen.add(id(function))
    read = [
        *_cells(function),
        function.__defaults__ or (),
        function.__kwdefaults__ or {},
        *_globals(function),
    ]
    own = Same(function), Same(function.__code__)
    return own, tuple(_key(one, depth + 1, seen) for one in read)


def _cells(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            raise Untold from None


def _globals(function: types.FunctionType) -> Iterator[Any]:
    """What the code's names mean in the function's module; a name of an attribute may mean one by
    chance, which is looked at too.
    """
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield function.__globals__[name]
        elif name in ("globals", "locals", "eval", "exec", "vars", "getattr", "__import__"):
            if hasattr(builtins, name):
                raise Untold  # what these reach is not in the code's names


def _names(code: types.CodeType) -> set[str]:
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return {*code.co_names}.union(*map(_names, inner))


def _of_a_library(thing: Any) -> bool:
    """Whether it is a module, class or function of a library that nobody changes."""
    if isinstance(thing, np.ufunc):
        return True
    if isinstance(thing, types.ModuleType):
        name = thing.__name__
    elif isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType):
        name = getattr(thing, "__module__", None) or ""
    else:
        owner = type(thing).__module__
        known = callable(thing) and owner.partition(".")[0] in ("jax", "jaxlib", "numpy")
        name = (getattr(thing, "__module__", None) or "") if known else ""
    return name.partition(".")[0] in LIBRARIES
