"""A text that tells a model from any other one, so that a ledger knows a question again.

A text that two models share by mistake would answer the second with the noisy values of the first;
a text that a model does not find again only costs budget. So whatever cannot be read is told apart
by a random token of this process. Nothing here asks the model for an answer.
"""

from __future__ import annotations

import functools
import hashlib
import io
import pickle
import types
import uuid
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import jax
import numpy as np

DEEPEST = 8  # functions within functions that are followed

_TOKENS: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


class Identified(Protocol):
    """What this file reads of a `Model`."""

    @property
    def backend(self) -> str: ...
    @property
    def output(self) -> Any: ...
    @property
    def apply(self) -> Callable[..., Any] | None: ...
    @property
    def params(self) -> Any: ...
    @property
    def call(self) -> Callable[..., Any] | None: ...
    @property
    def scores(self) -> Callable[..., Any] | None: ...
    @property
    def decide(self) -> Callable[..., Any] | None: ...
    @property
    def classes(self) -> tuple[Any, ...] | None: ...
    @property
    def threshold(self) -> float | None: ...
    @property
    def precision(self) -> str: ...


def identity(model: Identified, shape: tuple[int, ...], dtype: Any) -> str:
    """Of a model that is given rows [R, *shape] of this dtype (which matter to JAX models)."""
    found = hashlib.sha256()
    facts = (model.backend, model.output, model.classes, model.threshold, model.precision)
    found.update(repr(facts).encode())
    for function in (model.apply, model.call, model.scores, model.decide):
        if function is None:
            found.update(b"none;")
        elif model.backend == "jax":
            found.update(_traced(function, model.params, shape, dtype))
        else:
            found.update(_of(function, DEEPEST))
    return found.hexdigest()


def _traced(function: Any, params: Any, shape: tuple[int, ...], dtype: Any) -> bytes:
    """The program that JAX lowers, whose text holds every constant, and the parameters."""
    rows = jax.ShapeDtypeStruct((2, *shape), dtype)
    parts = [jax.jit(function).lower(params, rows).as_text().encode()]
    for leaf in jax.tree.leaves(params):
        array = np.asarray(leaf)
        parts += [f"{array.dtype}{array.shape}".encode(), array.tobytes()]
    return hashlib.sha256(b"|".join(parts)).digest()


def _of(thing: Any, depth: int) -> bytes:
    """A digest of a function, of what it closes over and of what it names, or of an object."""
    if depth == 0:
        return _token(thing)
    if isinstance(thing, functools.partial):
        parts = (thing.func, *thing.args, *sorted(thing.keywords.items()))
        return _joined(b"partial", [_of(one, depth - 1) for one in parts])
    if isinstance(thing, types.MethodType):
        parts = (thing.__func__, thing.__self__)
        return _joined(b"method", [_of(one, depth - 1) for one in parts])
    if isinstance(thing, types.FunctionType):
        return _of_function(thing, depth)
    if isinstance(thing, types.ModuleType):
        return _joined(b"module", [thing.__name__.encode()])
    called = vars(type(thing)).get("__call__")  # of a class of the user's, whose text may change
    parts = [_of(called, depth - 1)] if isinstance(called, types.FunctionType) else []
    return _joined(b"object", [_of_object(thing), *parts])


def _of_function(function: types.FunctionType, depth: int) -> bytes:
    parts = [function.__module__.encode(), function.__qualname__.encode()]
    parts += _code(function.__code__)
    try:
        inside = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a cell that is not filled yet
        return _token(function)
    inside += [function.__defaults__, function.__kwdefaults__]
    parts += [_of(one, depth - 1) for one in inside]
    if not function.__module__.startswith(("numpy", "scipy", "sklearn", "jax", "xaijax")):
        known = function.__globals__
        named = sorted(name for name in _names(function.__code__) if name in known)
        parts += [
            name.encode() + _of(known[name], depth - 1)
            for name in named
            if known[name] is not function
        ]
    return _joined(b"function", parts)


def _names(code: types.CodeType) -> set[str]:
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _code(code: types.CodeType) -> list[bytes]:
    parts = [code.co_code, repr(code.co_names).encode()]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            parts += _code(constant)
        else:
            parts.append(repr(constant).encode())
    return parts


def _of_object(thing: Any) -> bytes:
    """By its pickled form, which is hashed and thrown away; nothing is ever unpickled."""
    try:
        written = io.BytesIO()
        pickle.Pickler(written, protocol=5).dump(thing)
    except Exception:
        return _token(thing)
    return hashlib.sha256(written.getvalue()).digest()


def _token(thing: Any) -> bytes:
    try:
        return _TOKENS.setdefault(thing, uuid.uuid4().hex).encode()
    except TypeError:  # cannot be kept in mind: never the same again
        return uuid.uuid4().hex.encode()


def _joined(kind: bytes, parts: list[bytes]) -> bytes:
    found = hashlib.sha256(kind)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()
