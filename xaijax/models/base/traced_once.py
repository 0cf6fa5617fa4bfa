"""A function that was traced is not traced again, unless something that it reads has changed.

`jax.jit` takes the same function object for the same program, whatever became of the arrays and
settings that it closes over. Here a function is taken for the same only if nothing that it reads
has changed: its code, defaults, closed-over values and globals, and those of the functions that it
calls. If something cannot be read completely (an object of a class, a module of the user's own),
there is no state, and the function is traced again.
"""

from __future__ import annotations

import dis
import hashlib
import types
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import jax
import numpy as np

from xaijax.core.reads import JIT

# Packages whose functions and settings a model does not change while it lives.
SETTLED = {"jax", "jaxlib", "numpy", "math", "functools", "operator", "itertools", "typing"}
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), np.generic, np.dtype)
READS_ALL = {"globals", "locals", "vars", "eval", "exec", "getattr", "__import__", "open", "input"}
LARGEST = 1 << 26  # bytes of a NumPy array, above which its digest costs more than a trace
_Known = dict[Hashable, tuple[Hashable, "weakref.ref[Any]"]]
_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()


def made_once(f: Any, use: Hashable, make: Callable[[], Any]) -> Any:
    """Returns make(), or its earlier result for `f` if nothing that `f` reads has changed since JAX
    traced that (since it was made, if it was not traced yet).

    Args:
        f: the user's function. Of any other object nothing is known.
        use: what else `make` depends on.
        make: makes what runs `f`; its `state` is a `StateAtTrace`.
    """
    state = state_of(f)
    if state is None:
        return make()
    made = _known.setdefault(f, {})
    before, kept = made.get(use, (None, None))
    found = None if kept is None else kept()
    if found is not None:
        before = found.state.strict if found.state.taken else before
    if found is None or before != state:
        found = make()
        made[use] = state, weakref.ref(found)
    return found


class _Unknown(Exception):
    """Something that cannot be read whole."""


def state_of(function: Callable[..., Any]) -> Hashable | None:
    """What the function refers to; None: not all of it can be read.

    Equal states of one function object mean that a trace of it would be the same.
    """
    try:
        return _of_function(function, frozenset())
    except (_Unknown, RecursionError):  # a list that holds itself
        return None


def _of_function(function: Any, open_: frozenset[int]) -> Hashable:
    """open_: ids of the functions that are being read, so that one that calls itself ends.
    Functions are not known by their code, because all functions that one `def` within another made
    share it.
    """
    # Another object's attributes may be made when they are read, and raise anything.
    inner = getattr(function, "__wrapped__", None) if isinstance(function, JIT) else None
    if isinstance(function, JIT) and inner is not None:
        # Weakly: what is known of a function may not keep it alive.
        return weakref.ref(function), _of_function(inner, open_)
    if not isinstance(function, types.FunctionType) or vars(function):
        raise _Unknown  # attributes: a decorator's, which may hold anything
    code = function.__code__
    if id(function) in open_:
        return code
    open_ = open_ | {id(function)}
    inside = _of(function.__defaults__, open_), _of(function.__kwdefaults__, open_)
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closed = tuple((name, _of(_content(cell), open_)) for name, cell in cells)
    globals_ = tuple(
        (name, _of(function.__globals__[name], open_))
        for name in sorted(set(_globals_read(code)))
        if name in function.__globals__
    )
    return code, inside, closed, globals_


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        raise _Unknown from None


def _globals_read(code: types.CodeType) -> Iterator[str]:
    """Names of globals that a code and those within it read."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if step.argval in READS_ALL:
                raise _Unknown
            yield step.argval
        elif step.opname == "IMPORT_NAME" and not _is_settled(step.argval):
            raise _Unknown
        elif "GLOBALS" in step.opname:  # of a class within a function, from Python 3.13
            raise _Unknown
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _globals_read(inner)


def _of(value: Any, open_: frozenset[int]) -> Hashable:
    """Equal for values that a trace could not tell apart."""
    kind = type(value)
    if _is_plain(value, kind.__module__):
        # -0.0 == 0.0, 1 == True and NaN != NaN, so numbers go by their text.
        return kind, repr(value)
    if kind in (tuple, list):
        return kind, tuple(_of(one, open_) for one in value)
    if kind is dict:
        return kind, tuple((_of(name, open_), _of(one, open_)) for name, one in value.items())
    if isinstance(value, jax.Array):
        return kind, _Same(value)
    if kind is np.ndarray and value.dtype.kind in "biufc" and value.nbytes <= LARGEST:
        content = np.ascontiguousarray(value).tobytes()
        digest = hashlib.blake2b(content, digest_size=16).digest()
        return kind, value.dtype.str, value.shape, digest
    if isinstance(value, types.ModuleType) and _is_settled(value.__name__):
        return kind, value.__name__
    if callable(value) and _is_settled(str(getattr(value, "__module__", ""))):
        return _settled(value)
    return _of_function(value, open_)


def _settled(value: Any) -> Hashable:
    """A function or class of a library, but not one that wraps the user's own, as `jax.jit` does.

    Those say the module of what they wrap; an object such as a partial says that of its class.
    """
    plain = type | types.FunctionType | types.BuiltinFunctionType
    inner = value if isinstance(value, plain) else getattr(value, "__wrapped__", None)
    if not isinstance(inner, plain) or not _is_settled(str(inner.__module__)):
        raise _Unknown
    if isinstance(inner, types.FunctionType):
        # What `jax.vmap` makes of a partial says "functools", and closes over the user's own.
        if inner.__closure__ or not _is_settled(inner.__globals__["__name__"]):
            raise _Unknown
    return type(value), _Same(value)


def _is_plain(value: Any, module: str) -> bool:
    """Whether its text says all of it, which that of a user's own kind of number may not."""
    return isinstance(value, PLAIN) and (module == "builtins" or _is_settled(module))


def _is_settled(module: str) -> bool:
    return module.partition(".")[0] in SETTLED


class _Same:
    """Equal to another of the very same object, which cannot change."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)
