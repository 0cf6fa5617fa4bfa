"""A fingerprint of what values are relative to, so that no two questions are merged into one.

The donor rows with their weights, and the functions that the user gave (a link, a difference, a
score, what combines two means): facts that names and sizes in the provenance do not tell apart. The
model has a fingerprint of its own, since many models have none.

They stand in `stats` of an Explanation, which already holds numbers made of the same rows, and not
in the provenance, which is public: a private release copies no stats, a federated explanation drops
the first (a guest's reference row must not be found by trying), and reports print neither. They are
not keyed by the process, so that instances explained in several of them can be compared and merged.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from xaijax.core.once import once
from xaijax.core.reads import of_library
from xaijax.games.engine.evaluator import Engine
from xaijax.games.measure.quantity import Quantity
from xaijax.games.measure.replacement.base import Replacement
from xaijax.games.run import GameRun
from xaijax.tables.rows import rows_of

DEEP = 12  # functions within functions that are looked into
CALLED = 3  # levels that a function called by a global name takes: functions may call each other


def fingerprint(game: GameRun) -> str:
    """32 hexadecimal digits; equal for the same donors in the same order and the same functions.

    Functions are compared by their code, defaults and what they close over, and by the numbers,
    texts, arrays and functions of the user's that they read by a global name or hold. A sampler's
    rows are draws, and left out, as is what a function makes of the instances.
    """
    engine, quantity = game.engine, game.quantity
    digest = _of_donors(engine.replacement).copy()
    stand_ins = getattr(engine.replacement.table, "stand_ins", None)
    for given in (engine.score, quantity.outer, quantity.combine, stand_ins):
        for part in _parts(given, DEEP):
            digest.update(part)
    return digest.hexdigest()


def model_fingerprint(game: GameRun) -> str | None:
    """What tells the model from others, where it can be read; None: a function on the host, say.

    A JAX model's is worked out once, with the parameters that its programs hold; an estimator that
    is asked itself is read at each call, since it may have been fitted again.
    """
    engine = game.engine
    model = engine.model
    return model.mark(engine.findings) if model.backend == "host" else _of_model(engine)


def donors_fingerprint(replacement: Replacement) -> str:
    """The same of donors and their weights alone."""
    return _of_donors(replacement).hexdigest()


def probed_fingerprint(engine: Engine) -> str | None:
    """The same as `model_fingerprint`, of a model in JAX."""
    return _of_model(engine)


def digest_of(value: Any) -> str:
    """32 hexadecimal digits of a function, an array or plain values, as in `fingerprint`."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _parts(value, DEEP):
        digest.update(part)
    return digest.hexdigest()


def functions_of(quantity: Quantity) -> dict[str, str]:
    """The fingerprint of a link, for stats; two functions may have one name."""
    return {} if quantity.outer is None else {"link_fingerprint": digest_of(quantity.outer)}


@once
def _of_donors(replacement: Replacement) -> Any:
    digest = hashlib.blake2b(digest_size=16)
    for part in _rows(replacement):
        digest.update(part)
    return digest


@once
def _of_model(engine: Engine) -> str | None:
    return engine.model.mark(engine.findings)


def _rows(replacement: Replacement) -> Iterator[bytes]:
    """The donors as they were read, and their weights: the same whether JAX or the host asks."""
    if not replacement.SHARED:
        return
    replacement = replacement.for_estimator()
    yield replacement.weights.tobytes()
    rows = rows_of(replacement.table.decode(replacement.codes))
    if not rows.is_frame:
        yield from _array(rows.matrix())
        return
    for label, column in zip(rows.labels, rows.columns(), strict=True):
        yield repr(label).encode()
        yield from _array(column)


def _array(array: np.ndarray) -> Iterator[bytes]:
    yield f"{array.dtype.str}{array.shape}".encode()
    if array.dtype.kind == "O":
        yield repr([(type(one).__name__, one) for one in array.ravel().tolist()]).encode()
    else:
        yield np.ascontiguousarray(array).tobytes()


def _parts(value: Any, deep: int) -> Iterator[bytes]:
    """What tells one value, or function, from another."""
    yield type(value).__qualname__.encode()
    if deep <= 0:
        return
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value).encode()
    elif hasattr(value, "__array__") and hasattr(value, "dtype"):  # NumPy's and JAX's
        yield from _array(np.asarray(value))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _parts(one, deep - 1)
    elif isinstance(value, frozenset):
        yield repr(sorted(map(repr, value))).encode()
    elif isinstance(value, CodeType):
        yield value.co_code
        yield repr(value.co_names).encode()
        yield from _parts(value.co_consts, deep - 1)
    elif isinstance(value, FunctionType):
        yield from _of_function(value, deep - 1)
    elif isinstance(value, MethodType):
        yield from _parts(value.__func__, deep - 1)
        yield from _parts(value.__self__, deep - 1)
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, sorted(value.keywords.items())), deep - 1)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _parts([getattr(value, one.name) for one in fields(value)], deep - 1)
    elif (wrapped := getattr(value, "__wrapped__", None)) is not None:  # of jax.jit
        yield from _parts(wrapped, deep - 1)
    else:
        yield str(getattr(value, "__name__", "")).encode()
        if callable(value):
            yield from _parts(getattr(type(value).__call__, "__code__", None), deep - 1)
        held = getattr(value, "__dict__", {})
        yield from _parts([one for one in sorted(held.items()) if _plain(one[1])], deep - 1)


def _plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | np.ndarray)


def _is_users(value: Any) -> bool:
    """Whether it is a function of the user's own, and of no library."""
    return isinstance(value, FunctionType) and not of_library(value.__globals__.get("__name__"))


def _of_function(function: FunctionType, deep: int) -> Iterator[bytes]:
    yield from _parts(function.__code__, deep)
    yield from _parts(function.__defaults__, deep)
    keywords = function.__kwdefaults__ or {}
    yield from _parts(sorted(keywords.items()), deep)
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not set yet
            continue
        yield from _parts(held, deep)
    for name in function.__code__.co_names:
        held = function.__globals__.get(name)
        if _plain(held):
            yield from _parts(held, deep)
        elif held is not function and _is_users(held):
            yield from _parts(held, deep - CALLED)
