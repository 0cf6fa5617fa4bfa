"""What tells the model of one run from that of another, as JSON: options, digests and answers.

A second call may come from another process, another platform or a function written anew. So what
can be read is compared exactly: code, parameters, what a function closes over, a fitted estimator.
Answers to a few rows, which rounding moves, stand beside it for what cannot.
"""

from __future__ import annotations

import dis
import hashlib
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType
from typing import Any

import jax
import numpy as np

from xaijax.methods.fingerprint import digest_of
from xaijax.models import Model
from xaijax.models.identity.fitted_state import Unreadable
from xaijax.models.identity.fitted_state import digest_of as fitted_digest
from xaijax.tables.rows import rows_of

PROBED = 32  # rows that the model's answers are compared on
PLAIN = bool | int | float | complex | str | bytes
MOVED = "changes when it is asked"
DEEP = 8  # functions within functions that are looked into
# By how much answers may differ, of their spread: as sums in another order do on one platform, and
# as products of fewer digits (TF32 has ten bits) do on another.
NEAR_HERE, NEAR_ELSEWHERE = 1e-5, 1e-3


def of_pair(embed: Any, head: Model, described: Callable[[Any], Any]) -> dict[str, Any]:
    """The fields of a model in two halves: what can be read of both, and no answers."""
    return {**of_model(head, None, described), "embed": held(embed)}


def of_model(model: Model, rows: Any, described: Callable[[Any], Any]) -> dict[str, Any]:
    """The fields of a model; described: a value of its options as JSON has it. rows: that it is
    asked for; None: it is not.
    """
    found = model.recipe
    given = {} if found is None else {**found.given, **found.changes}
    told = {
        name: described(one) for name, one in given.items() if name not in ("f", "params", "state")
    }
    function = given.get("f")
    told["function"] = getattr(function, "__qualname__", type(function).__qualname__)
    told["held"] = held(function)
    code = _code(function)
    if code is not None:
        told["code"] = digest_of(code)
    leaves = jax.tree.leaves(model.params)
    if leaves and model.comparison is None:
        own = hashlib.sha256()
        for leaf in leaves:
            own.update(digest_of(np.asarray(leaf)).encode())
        told["params"] = own.hexdigest()
    if model.deterministic and rows is not None:
        told["platform"] = jax.default_backend() if model.backend == "jax" else "host"
        told["answers"] = _answers(model, rows)
        # What asking changes is a log or a counter of the function's own, and no part of it.
        after = held(function)
        told["held"] = {k: v if after.get(k) == v else MOVED for k, v in told["held"].items()}
    return told


def near(there: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether the answers of two runs are those of one model, as far as they show it."""
    a, b = there.get("answers"), here.get("answers")
    if a == b:
        return True
    try:
        first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    except (TypeError, ValueError):  # labels
        return False
    if first.shape != second.shape or not first.size:
        return False
    spread = np.ptp(first[np.isfinite(first)]) if np.isfinite(first).any() else 0.0
    same = there.get("platform") == here.get("platform")
    most = NEAR_HERE if same else NEAR_ELSEWHERE
    return bool(np.allclose(first, second, most, most * spread, equal_nan=True))


def _code(function: Any) -> Any:
    while not hasattr(function, "__code__"):
        inner = getattr(function, "func", None) or getattr(function, "__wrapped__", None)
        if inner is None:
            return None
        function = inner
    return function.__code__


def held(value: Any) -> dict[str, str]:
    """The digests of what a function's answers come from, by name: numbers, arrays, lists of them,
    estimators, other functions. Not what it assigns itself: a counter is no part of the question.
    """
    found: dict[str, Any] = {}
    for name, part in _held(value, DEEP, ""):
        found.setdefault(name, hashlib.blake2b(digest_size=8)).update(part)
    return {name: digest.hexdigest() for name, digest in found.items()}


def _held(value: Any, deep: int, path: str) -> Iterator[tuple[str, bytes]]:
    """(name, what can be read) of a function or an object."""
    if deep == 0:
        return
    if isinstance(value, FunctionType):
        yield path, digest_of(value.__code__).encode()
        written = _written(value.__code__)
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        for name, cell in cells:
            if name not in written:
                yield from _cell(name, cell, deep, path)
        for name in _names(value.__code__):
            if name in value.__globals__ and name not in written:
                yield from _named(name, value.__globals__[name], deep, path)
        keywords = value.__kwdefaults__ or {}
        for default in (*(value.__defaults__ or ()), *keywords.values()):
            yield from _named("default", default, deep, path)
    elif isinstance(value, MethodType):
        yield path, value.__func__.__qualname__.encode()
        yield from _held(value.__self__, deep - 1, path)
    elif _is_fitted(value):
        try:
            yield path, fitted_digest(value)
        except Unreadable:
            yield path, type(value).__qualname__.encode()
    elif callable(state := getattr(value, "state_dict", None)):  # a module of PyTorch
        tensors: Any = state()
        for name, one in sorted(tensors.items()):
            yield path, f"{name} {digest_of(np.asarray(one.detach().cpu()))}".encode()
    elif hasattr(value, "func") and hasattr(value, "keywords"):  # functools.partial
        yield from _held(value.func, deep - 1, path)
        for one in (*value.args, *value.keywords.values()):
            yield from _named("argument", one, deep, path)
    elif (wrapped := getattr(value, "__wrapped__", None)) is not None:  # of jax.jit
        yield from _held(wrapped, deep - 1, path)
    else:
        yield path, type(value).__qualname__.encode()
        for name, one in sorted(getattr(value, "__dict__", {}).items()):
            yield from _named(name, one, deep, path)


def _cell(name: str, cell: Any, deep: int, path: str) -> Iterator[tuple[str, bytes]]:
    try:
        yield from _named(name, cell.cell_contents, deep, path)
    except ValueError:  # not set yet
        return


def _named(name: str, value: Any, deep: int, path: str) -> Iterator[tuple[str, bytes]]:
    path = f"{path}.{name}" if path else name
    if isinstance(value, PLAIN) or _is_array(value):
        yield path, digest_of(value).encode()
    elif isinstance(value, FunctionType | MethodType) or _is_fitted(value):
        yield from _held(value, deep - 1, path)
    elif isinstance(value, list | tuple | dict):
        yield path, " ".join(_within(value, DEEP)).encode()


def _within(value: Any, deep: int) -> Iterator[str]:
    """What can be read of a list or a dict, and nothing that another process would write otherwise
    (an object's place in memory); a list that holds itself ends.
    """
    if isinstance(value, PLAIN) or _is_array(value):
        yield digest_of(value)
    elif deep and isinstance(value, list | tuple | dict):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        yield f"{type(value).__qualname__} of {len(value)}"
        for key, one in pairs:
            yield repr(key) if isinstance(key, PLAIN) else type(key).__qualname__
            yield from _within(one, deep - 1)
    elif deep:  # of a module, say: its arrays
        yield from (digest_of(one) for one in jax.tree.leaves(value) if _is_array(one))


def _names(code: CodeType) -> list[str]:
    """Of the globals that a function reads, and those within it."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return sorted({*code.co_names, *(name for one in inner for name in _names(one))})


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | jax.Array)


def _is_fitted(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "sklearn" and hasattr(value, "get_params")


def _written(code: CodeType) -> set[str]:
    """Names of outer and global variables that a function, or one within it, assigns to."""
    names = {
        str(step.argval)
        for step in dis.get_instructions(code)
        if step.opname in ("STORE_DEREF", "STORE_GLOBAL")
    }
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            names |= _written(inner)
    return names


def _answers(model: Model, rows: Any) -> Any:
    some = rows_of(rows).part(0, PROBED)
    if model.output == "label":
        return [str(one) for one in model.labels(some)]
    if model.loop == "jax" and model.reader is None and rows_of(some).is_frame:
        some = rows_of(some).matrix()
    # Fewer digits than float64 has: a file of numbers, read by people too.
    return [float(f"{one:.9g}") for one in np.ravel(model.predict(some))]
