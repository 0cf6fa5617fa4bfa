"""A digest of a fitted scikit-learn estimator: its classes, their versions, and all that it holds.

Only what scikit-learn, NumPy, SciPy and Python itself define can be read whole: an estimator with a
function or a class of somebody else's in it, wherever, has no digest. Nothing is called but the
objects' own `__reduce_ex__`, by which pickle takes them apart, and nothing is built from it.

Left out are two things that change while nothing is fitted, how often a search tree was visited and
where a generator of random numbers stands, and the scores and times of a search for parameters.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from xaijax.models.identity.patched import SEARCHED, is_own

ROOTS = ("sklearn", "numpy", "scipy")  # whose classes and functions are known by name and version
DEEPEST = 200  # objects within objects; also what ends a circle
_TREES = ("sklearn.neighbors._kd_tree", "sklearn.neighbors._ball_tree")
_VISITS = slice(7, 11)  # in the state of a tree: trims, leaves, splits and distances, all counted
_GENERATORS = np.random.RandomState | np.random.Generator


class Unreadable(Exception):
    """There is something inside whose work is not known from what can be read."""


def digest_of(estimator: Any) -> bytes:
    """Of the whole fitted state; raises Unreadable."""
    if type(estimator).__module__.partition(".")[0] != "sklearn":
        raise Unreadable
    versions = [(root, _version(root)) for root in ROOTS]
    return _joined(b"estimator", [repr(versions).encode(), _of(estimator, 0)])


def library_versions() -> str:
    """Of the libraries that an estimator is read by, one after the other."""
    return " ".join(map(_version, ROOTS))


def _version(root: str) -> str:
    return getattr(sys.modules.get(root), "__version__", "")


def _of(thing: Any, depth: int) -> bytes:
    if depth > DEEPEST:
        raise Unreadable
    if thing is None or type(thing) in (bool, int, float, complex, str, bytes, slice):
        return _joined(type(thing).__name__.encode(), [repr(thing).encode()])
    if type(thing) is np.ndarray:
        return _of_array(thing, depth)
    if isinstance(thing, np.generic):
        return _joined(b"scalar", [_of_array(np.asarray(thing), depth)])
    if type(thing) in (tuple, list):
        return _joined(type(thing).__name__.encode(), _all(thing, depth))
    if type(thing) in (set, frozenset):
        return _joined(b"set", sorted(_all(thing, depth)))  # whose order follows a random seed
    if type(thing) is dict:
        pairs = (_joined(b"pair", _all(pair, depth)) for pair in thing.items())
        return _joined(b"dict", list(pairs))
    if isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType | np.ufunc):
        return _of_name(thing)
    if isinstance(thing, np.dtype):
        return _joined(b"dtype", [repr(thing.descr if thing.names else thing.str).encode()])
    return _of_object(thing, depth)


def _all(things: Iterable[Any], depth: int) -> list[bytes]:
    return [_of(one, depth + 1) for one in things]


def _of_array(array: np.ndarray, depth: int) -> bytes:
    shape = f"{array.dtype.str}{array.shape}".encode()
    if array.dtype.names:  # field by field: what lies between fields is not set
        fields = [_of_array(array[name], depth + 1) for name in array.dtype.names]
        return _joined(b"fields", [repr(array.dtype.names).encode(), *fields])
    if array.dtype.hasobject:
        return _joined(b"objects", [shape, *_all(array.ravel().tolist(), depth)])
    return _joined(b"array", [shape, np.ascontiguousarray(array).tobytes()])


def _of_name(thing: Any) -> bytes:
    """A class or a function of a known library, which that library has by this very name."""
    module = "numpy" if isinstance(thing, np.ufunc) else getattr(thing, "__module__", None)
    name = getattr(thing, "__qualname__", getattr(thing, "__name__", ""))
    if not isinstance(module, str) or not _known(module):
        raise Unreadable
    try:
        own = functools.reduce(getattr, name.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        raise Unreadable from None
    if own is not thing:
        raise Unreadable
    return _joined(b"name", [module.encode(), name.encode()])


def _known(module: str) -> bool:
    python = (object.__module__, functools.__name__, operator.__name__, "_operator", "copyreg")
    return module.partition(".")[0] in ROOTS or module in (*python, "collections")


def _of_object(thing: Any, depth: int) -> bytes:
    """By its class and by what pickle would keep of it."""
    if isinstance(thing, _GENERATORS):
        return _of_name(type(thing))
    try:
        kept = thing.__reduce_ex__(4)
    except Exception:
        raise Unreadable from None
    if isinstance(kept, str):  # kept by name, as compiled functions are
        return _of_name(thing)
    if is_own(thing, "BaseSearchCV"):
        state = {name: one for name, one in kept[2].items() if name not in SEARCHED}
        kept = (*kept[:2], state, *kept[3:])
    if type(thing).__module__ in _TREES and hasattr(thing, "get_tree_stats"):
        kept = (*kept[:2], _without_visits(thing, kept[2]), *kept[3:])
    parts = [_of_name(type(thing))]
    for part in kept[:3]:
        parts.append(_of(part, depth + 1))
    for part in kept[3:]:
        parts.append(b"" if part is None else _of(list(part), depth + 1))
    return _joined(b"object", parts)


def _without_visits(tree: Any, state: Any) -> tuple[Any, ...]:
    """Its rows, nodes and sizes; Unreadable where this scikit-learn keeps its counts elsewhere."""
    if state[_VISITS] != (*tree.get_tree_stats(), tree.get_n_calls()):
        raise Unreadable
    return (*state[: _VISITS.start], *state[_VISITS.stop :])


def _joined(kind: bytes, parts: list[bytes]) -> bytes:
    found = hashlib.sha256(kind)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()
