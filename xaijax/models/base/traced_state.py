"""What a function read when JAX traced it, so that no program of another state is used.

JAX knows a program by the Python object that it traced: the same object is not traced twice. All
programs of a model are of one state: that of its first trace. A later trace in another state is an
error that names what has changed.
"""

from __future__ import annotations

import contextlib
import dis
import hashlib
import types
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.reads import Reads, changed, reads_of, shown

SHOWN = 5  # names in a message
_Known = dict[Hashable, tuple[Hashable, "weakref.ref[Any]"]]
_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()
# By which state each Python function was last traced within a model.
_traced_by: weakref.WeakKeyDictionary[Any, weakref.ref[StateAtTrace]] = weakref.WeakKeyDictionary()
# Under another value of this JAX traces functions anew that it has traced before, those that the
# user compiled or that a loop runs; earlier versions of JAX have none.
_anew = jax.make_user_context(None) if hasattr(jax, "make_user_context") else None


class StateAtTrace:
    """What a model's function read when JAX first traced it; compared at every later trace."""

    def __init__(self, f: Any, name: str) -> None:
        """f: the function or module; name: that of the model, for messages."""
        self._f, self._name = f, name
        self._reads: Reads | None = None
        # What a trace itself changes, a log or a counter: by name the places among its facts, or
        # None for all of them.
        self._moved: dict[str, set[int] | None] = {}
        self._token: object = None  # of `_anew`
        self.strict: Hashable | None = None  # `state_of` at the first trace

    @property
    def taken(self) -> bool:
        """Whether a trace has taken the state."""
        return self._reads is not None

    def refuse_changed(self) -> None:
        """Raises InputError if what the function reads has changed since the first trace."""
        if self._reads is not None:
            self._compare(reads_of(self._f))

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Compares the state around each trace, or takes it at the first one."""
        before = reads_of(self._f)
        strict = None
        if self._reads is None:
            self._refuse_stale(before.arrays)
            strict = state_of(self._f)
            self._token = object() if self._elsewhere(before) else None
        else:
            self._compare(before)
        with contextlib.nullcontext() if _anew is None else _anew(self._token):
            yield
        after = reads_of(self._f)
        for name in changed(before.facts, after.facts):
            places = _places(before.facts.get(name), after.facts.get(name))
            known = self._moved.setdefault(name, set())
            self._moved[name] = None if places is None or known is None else known | places
        if self._reads is None:
            self.strict = strict
            for one in before.functions:  # which JAX may not trace again
                _traced_by[one()] = weakref.ref(self)
        self._reads = Reads(after.facts)

    def _refuse_stale(self, arrays: list[tuple[str, np.ndarray]]) -> None:
        """Raises InputError for an array that was written into after JAX read it.

        JAX keeps what it made of an array of 64-bit numbers by the object, as long as a program
        with it lives, and would give a new trace the old numbers.
        """
        if jax.config.jax_enable_x64:
            return
        for name, array in arrays:
            if array.dtype.itemsize < 8 or array.ndim == 0 or array.dtype.kind not in "iuf":
                continue
            for kept in jax.make_jaxpr(lambda: jnp.asarray(array))().consts:  # noqa: B023
                if not np.array_equal(np.asarray(kept), array.astype(kept.dtype), equal_nan=True):
                    raise InputError(
                        f"f= ({self._name}) reads the array {name}, which was written into after "
                        f"JAX traced it. JAX would go on with the old numbers. Bind the name to a "
                        f"copy ({name} = {name}.copy()), or give the array as params=."
                    )

    def _compare(self, now: Reads) -> None:
        assert self._reads is not None
        old, new = self._reads.facts, now.facts
        names = [one for one in changed(old, new) if not self._is_moved(one, old, new)]
        if not names:
            return
        listed = ", ".join(shown(one) for one in names[:SHOWN])
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise InputError(
            f"f= ({self._name}) reads {listed}{more}, changed since JAX first traced this model. "
            f"All programs of a model are of the state of its first trace. Make the model anew "
            f"with as_model, and explainers of it; or give what changes as params= and use "
            f"model.replace(params=...)."
        )

    def _is_moved(self, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Whether nothing of this name differs but what a trace changes."""
        moved = self._moved.get(name, set())
        places = _places(old.get(name), new.get(name))
        return moved is None or places is not None and places <= moved

    def _elsewhere(self, now: Reads) -> bool:
        """Whether JAX may have traced a function that this one calls in another state."""
        if now.jitted:  # the user's own call may have
            return True
        for one in now.functions:
            last = _traced_by.get(one())
            other = None if last is None else last()
            if last is not None and (other is None or other._differs(now)):
                return True
        return False

    def _differs(self, now: Reads) -> bool:
        return self._reads is None or bool(changed(self._reads.facts, now.facts))


def made_once(f: Any, use: Hashable, make: Callable[[], Any]) -> Any:
    """make(), or what it made of `f` before, where nothing that `f` reads has changed since JAX
    traced that; as long as it was not traced, since it was made.

    It is known as long as a model holds it.

    Args:
        f: the user's function, or any other object: then there is nothing that is known.
        use: what else `make` depends on.
        make: what asks `f` when it is called; its `state` is a `StateAtTrace`.
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


def _places(before: Any, after: Any) -> set[int] | None:
    """Places at which two tuples of facts differ; None: they are not of one length."""
    if not (isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after)):
        return None
    return {i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}


# `jax.jit` takes the same function object for the same program, whatever became of the arrays and
# settings that it closes over. Here a function is taken for the same only where nothing that it
# reads has changed: its code, defaults, closed-over values and globals, and those of the functions
# that it calls. If something cannot be read whole (an object of a class, a module of somebody's
# own), there is no state, and the function is traced again.

# Packages whose functions and settings a model does not change while it lives.
SETTLED = {"jax", "jaxlib", "numpy", "math", "functools", "operator", "itertools", "typing"}
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), np.generic, np.dtype)
READS_ALL = {"globals", "locals", "vars", "eval", "exec", "getattr", "__import__", "open", "input"}
JIT = type(jax.jit(lambda: None))
LARGEST = 1 << 26  # bytes of a NumPy array, above which its digest costs more than a trace


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
