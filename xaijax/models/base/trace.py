"""A JAX function made ready for the engine: precision set, output checked, failures explained.

All programs of a model are of one state of what its function reads: that of the first trace. A
later trace in another state is an error that names what has changed (`StateAtTrace`).

A function that was traced is not traced again, unless something that it reads has changed
(`made_once`). `jax.jit` takes the same function object for the same program, whatever became of the
arrays and settings that it closes over. Here a function is taken for the same only if nothing that
it reads has changed: its code, defaults, closed-over values and globals, and those of the functions
that it calls. If something cannot be read completely (an object of a class, a module of the user's
own), there is no state, and the function is traced again.
"""

from __future__ import annotations

import contextlib
import dis
import hashlib
import types
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputError, InputTypeError, ModelOutputError, XaiError
from xaijax.core.reads import JIT, Reads, changed, reads_of, shown
from xaijax.models.base.outputs import check_traced_shape
from xaijax.models.base.products import WORD, in_bfloat16

MATMUL = {"float32": "highest", "tf32": "tensorfloat32", "bfloat16": WORD, "float64": "highest"}
PRECISIONS = tuple(MATMUL)
DTYPES = dict.fromkeys(PRECISIONS, np.float32) | {"float64": np.float64}

TracedFunction = Callable[[Any, Any], Any]  # (params, rows [R, *F]) -> [R] or [R, K]


def traced(
    function: TracedFunction, precision: str, name: str, state: StateAtTrace | None = None
) -> TracedFunction:
    """`function` with the wanted matrix precision, its answer checked and [R, 1] made [R].

    state: that of what the function reads, taken at the first trace and compared at every other.

    Raises, while it is traced: InputTypeError if the function cannot be traced,
    ModelOutputError if its answer is not [R] or [R, K] numbers, or if it takes one number of
    rows but not another. Any other exception of the function's own comes through unchanged, with a
    note.
    """
    taken: list[int] = []  # a number of rows that was traced
    asked = in_bfloat16(function, name) if precision == "bfloat16" else function

    # Its name is in the program's text, by which a ledger knows the questions that it has answered.
    def whole(params: Any, rows: Any) -> Any:
        count = jax.tree.leaves(rows)[0].shape[0]
        try:
            with jax.default_matmul_precision(MATMUL[precision]):
                raw = asked(params, rows)
        except Exception as exc:
            failure = explain_trace_failure(exc, name)
            if failure is not exc:
                raise failure from exc
            if taken and taken[0] != count and not isinstance(exc, XaiError):
                raise ModelOutputError(
                    f"{name} takes {taken[0]} rows, but not {count}: {exc}. A model must take any "
                    "number of rows: write X.shape[0], or -1 in a reshape, or ask it in whole "
                    "batches by a function of your own with as_model(f, backend='host')."
                ) from exc
            if not isinstance(exc, XaiError):
                shapes = jax.tree.map(lambda leaf: f"{leaf.shape}, {leaf.dtype}", rows)
                exc.add_note(
                    f"xaijax: raised while JAX traced {name} with rows of shape {shapes}. "
                    f"A function that is not written in jax.numpy needs "
                    f"as_model(f, backend='host'); one that takes batches of one size only must "
                    f"be made to take any number of rows."
                )
            raise
        answer = _checked(raw, count, name)
        taken[:] = taken or [count]
        return answer

    return whole if state is None else state.traced()(whole)


class Selected:
    """`whole` with one column selected and the answer in the dtype of the precision."""

    def __init__(
        self,
        whole: TracedFunction,
        select: Callable[[Any], Any] | None,
        precision: str,
        state: StateAtTrace | None = None,
    ) -> None:
        """state: that of `whole`, if it has one."""
        self.whole, self._select, self._precision = whole, select, precision
        self.state = state
        self.answer_dtype: np.dtype | None = None  # of the function's own answer, once traced

    def __call__(self, params: Any, rows: Any) -> Any:
        """The answer to rows [R, *F], traced: [R] or [R, K]."""
        values = self.whole(params, rows)
        if self._select is not None:
            values = self._select(values)
        self.answer_dtype = np.dtype(values.dtype)
        return values.astype(DTYPES[self._precision])


def explain_trace_failure(exc: Exception, name: str = "the function") -> Exception:
    """The error to raise for `exc`, which came while `name` was traced; `exc` itself if its own.

    JAX's complaints about Python control flow, NumPy calls and in-place writes, and a neural
    library's about its modules, become an InputTypeError that says what to do; raise it `from exc`.
    """
    known = meaning_of(exc)
    if known is not None:
        return InputTypeError(f"f= ({name}): {known.happened} ({type(exc).__name__}). {known.way}")
    untraceable = isinstance(exc, (jax.errors.JAXTypeError, jax.errors.JAXIndexError))
    immutable = isinstance(exc, TypeError) and "JAX arrays are immutable" in str(exc)
    if not (untraceable or immutable):
        return exc
    cause = (
        "it writes into its input"
        if immutable
        else "it uses Python control flow, NumPy or another library on values that JAX only knows "
        "by their shape"
    )
    return InputTypeError(
        f"f= ({name}) cannot be traced by JAX: {cause} ({type(exc).__name__}). Accepted: a "
        f"function written with jax.numpy (jnp.where or jax.lax.cond in place of if), or any "
        f"callable with as_model(f, backend='host')."
    )


def _checked(raw: Any, rows: int, name: str) -> Any:
    if raw is None or not (hasattr(raw, "shape") and hasattr(raw, "dtype")):
        if not isinstance(raw, (bool, int, float, complex)):
            raise ModelOutputError(
                f"{name} returned {'None' if raw is None else f'a {type(raw).__name__}'} for "
                f"{rows} rows; expected one array, [R] or [R, K]. Return a single array."
            )
        raw = np.asarray(raw)
    check_traced_shape(raw.shape, raw.dtype, rows, name)
    values = jnp.asarray(raw)
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


# Such errors come from a module that is asked in training mode, or without all that it needs. An
# adapter asks modules in inference form; a function of the user's own may ask them as they are.


class Meaning(NamedTuple):
    """What happened, and the call that works."""

    happened: str
    way: str


_NNX = Meaning(
    "it changes a Flax nnx module when it answers, as batch normalisation and dropout do in "
    "training",
    "Pass the module itself, as_model(module), which is asked by a clone in inference mode; or "
    "call module.eval() before as_model(f).",
)
_LINEN_WRITES = Meaning(
    "it asks a Flax module in training mode, which writes its variables or draws random numbers",
    "Say its inference form: as_model(lambda variables, X: module.apply(variables, X, "
    "train=False), variables), with what your module calls its mode in place of train.",
)
_LINEN_LACKS = Meaning(
    "a Flax module asks for a collection that its variables lack, such as the batch_stats of batch "
    "normalisation",
    "Pass all that module.init returned and training updated: as_model(module, {'params': params, "
    "'batch_stats': batch_stats}) say; a TrainState needs a field batch_stats.",
)
_HAIKU = Meaning(
    "it asks a Haiku function that draws random numbers, as dropout does in training",
    "Let it draw nothing when it is asked, by an argument is_training=False say, as_model(lambda "
    "params, X: transformed.apply(params, None, X, is_training=False), params=params).",
)

# By the module that defines the error, as far as its second dot, and the error's name.
_MEANINGS = {
    ("flax.errors", "TraceContextError"): _NNX,
    ("flax.errors", "ModifyScopeVariableError"): _LINEN_WRITES,
    ("flax.errors", "InvalidRngError"): _LINEN_WRITES,
    ("flax.errors", "ScopeCollectionNotFound"): _LINEN_LACKS,
    ("haiku._src", "MissingRNGError"): _HAIKU,
}
_EQUINOX = Meaning(
    "it asks an Equinox module in training mode, which draws random numbers",
    "Pass the module itself, as_model(module), which is asked in inference mode; or call "
    "equinox.nn.inference_mode(module) before as_model(f).",
)
# Equinox raises a RuntimeError like any other; this is what its text says.
_EQUINOX_TEXT = "requires a key when running in non-deterministic mode"


def meaning_of(exc: Exception) -> Meaning | None:
    """The meaning of an error of Flax, Haiku or Equinox; None: it is not one that is known."""
    if isinstance(exc, RuntimeError) and _EQUINOX_TEXT in str(exc):
        return _EQUINOX
    for kind in type(exc).__mro__:
        meaning = _MEANINGS.get((".".join(kind.__module__.split(".")[:2]), kind.__name__))
        if meaning is not None:
            return meaning
    return None


SHOWN = 5  # names in a message
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
        self.taken = False  # whether a trace has taken the state

    def refuse_changed(self) -> None:
        """Raises InputError if what the function reads has changed since the first trace."""
        if self._reads is not None:
            self._compare(reads_of(self._f))

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Compares the state around each trace, or takes it at the first one."""
        before, strict = reads_of(self._f), None
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
        self._reads, self.taken = Reads(after.facts), True

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
            for const in jax.make_jaxpr(lambda: jnp.asarray(array))().consts:  # noqa: B023
                if not np.array_equal(np.asarray(const), array.astype(const.dtype), equal_nan=True):
                    raise InputError(
                        f"f= ({self._name}) reads the array {name}, which was written into after "
                        f"JAX traced it; JAX would use the old numbers. Say {name} = "
                        f"{name}.copy(), or give the array as params=."
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
            "All its programs are of that state. Make the model anew with as_model, and explainers "
            "of it; or give what changes as params= and use model.replace(params=...)."
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


def _places(before: Any, after: Any) -> set[int] | None:
    """Places at which two tuples of facts differ; None: they are not of one length."""
    if not (isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after)):
        return None
    return {i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}


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
