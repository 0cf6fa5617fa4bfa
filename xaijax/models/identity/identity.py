"""A text that distinguishes a model from any other one, so that a ledger recognises a question.

A text that two models share by mistake would answer the second with the noisy values of the first,
so only what can be read whole has one:

- what JAX traces: its program with every constant, and its parameters; not where the program calls
  back to Python or into a library of somebody's own, whose work is not in it;
- scikit-learn's own estimators, and Pipelines of them (`fitted_state.py`).

Every other model, a function run on the host above all, has none: what a function does depends on
all that it can reach, and no reading of its text finds that. Nothing here asks for an answer.

`mark` is the same for `xaijax.merge`, of what a run has traced anyway. It says under which versions
it was made: marks of other versions say nothing about each other.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import platform
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from xaijax.core.reads import Reads, reads_of
from xaijax.models.identity.patched import SEARCHED, is_own
from xaijax_kernels.engine.tiles import without_places

if TYPE_CHECKING:
    from xaijax.models.model import Model

ROWS = 2  # that a program is traced for
LARGE = 16  # entries of a constant, above which a program's text leaves them out

# What a custom_call of a compiled program may be: parts of XLA and the linear algebra it ships.
_OWN_CALLS = re.compile(r"(Sharding|TopK|mhlo\.|chlo\.|lapack_|cublas_|cusolver_|cu_|hip)")
_CALLED = re.compile(r"custom_call\s+@([^\s(]+)|call_target_name\s*=\s*\"([^\"]+)\"")


def identity(model: Model, shape: tuple[int, ...], dtype: Any) -> str | None:
    """Identity of a model that is given rows [R, *shape] of this dtype (which matter to JAX
    models).

    None if there is none.
    """
    facts = (model.backend, model.output, model.classes, model.threshold, model.precision)
    found = hashlib.sha256(repr(facts).encode())
    try:
        if model.backend == "jax":
            found.update(repr((jax.__version__, jax.default_backend())).encode())
            for function in (model.apply, model.scores):
                found.update(_traced(function, model.params, shape, dtype))
        elif model.estimator is not None:
            found.update(digest_of(model.estimator))
        else:
            return None
    except Unreadable:
        return None
    return found.hexdigest()


def mark(
    model: Model,
    fitted: Model,
    program: bytes | None,
    dtype: str,
    function: Any = None,
    moved: frozenset[str] = frozenset(),
) -> str | None:
    """A text "kind versions: digest", equal for one model however its rows come; None: none.

    Args:
        model: what answers.
        fitted: the estimator that it translates, on the host; else the model itself.
        program: `program_digest` of the run's own trace; None on the host.
        dtype: that of the rows that the program takes.
        function: on the host, what the user gave; None: it is not known.
        moved: names of what that reads, which change when it is asked.
    """
    try:
        if fitted.estimator is not None:
            facts = repr((fitted.output, fitted.classes, fitted.threshold)).encode()
            state = digest_of(fitted.estimator)
            digest = hashlib.sha256(facts + state).hexdigest()
            return f"scikit-learn {library_versions()}: {digest[:32]}"
    except Unreadable:
        pass
    if program is None:
        return None if function is None else _of_function(function, moved)
    found = hashlib.blake2b(program, digest_size=16)
    for leaf in jax.tree.leaves(model.params):
        _add_array(found, leaf)
    versions = f"{jax.__version__} {jax.default_backend()} {model.precision} {dtype}"
    return f"jax {versions}: {found.hexdigest()}"


def portable_reads(function: Any) -> Reads:
    """What a function or object reads, with the same digests in every process."""
    return reads_of(function, portable=True, digest=_fitted)


def _fitted(estimator: Any) -> bytes | None:
    try:
        return digest_of(estimator)
    except Unreadable:
        return None


def _of_function(function: Any, moved: frozenset[str]) -> str | None:
    """Identity of a function on the host; None if nothing of its own code can be read, or not
    all.
    """
    reads = portable_reads(function)
    if not reads.functions or reads.unread - moved:
        return None
    told = sorted(item for item in reads.digests().items() if item[0] not in moved)
    digest = hashlib.blake2b(repr(told).encode(), digest_size=16).hexdigest()
    return f"python {platform.python_version()} {np.__version__}: {digest}"


def program_digest(traced: Any, lowered: Any) -> bytes | None:
    """Digest of a program that is traced and lowered already, with its constants; None: unreadable.

    The text leaves large constants out, which would take seconds to write; their bytes are added.
    """
    found = hashlib.blake2b()
    try:
        constants = list(_constants(traced.jaxpr))
        text = lowered.compiler_ir().operation.get_asm(large_elements_limit=LARGE)
        _refuse_calls(text)
        found.update(text.encode())
        for one in constants:
            _add_array(found, one)
    except (Unreadable, TypeError):  # TypeError: a constant that is no array, as typed keys are
        return None
    return found.digest()


def _add_array(found: Any, leaf: Any) -> None:
    if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.ascontiguousarray(leaf)
    found.update(f"{array.dtype}{array.shape}".encode())
    found.update(array.reshape(-1).view(np.uint8))


def _traced(function: Any, params: Any, shape: tuple[int, ...], dtype: Any) -> bytes:
    """The program, whose text holds its constants, the constants once more, and the parameters."""
    rows = jax.ShapeDtypeStruct((ROWS, *shape), dtype)
    traced = jax.jit(function).trace(without_places(params), rows)
    constants = list(_constants(traced.jaxpr))
    text = traced.lower().as_text()
    _refuse_calls(text)
    parts = [text.encode()]
    for leaf in (*constants, *jax.tree.leaves(params)):
        array = np.asarray(leaf)
        parts += [f"{array.dtype}{array.shape}".encode(), array.tobytes()]
    return hashlib.sha256(b"|".join(hashlib.sha256(one).digest() for one in parts)).digest()


def _refuse_calls(text: str) -> None:
    """Raises Unreadable for a program that calls what is not XLA's own."""
    for named in _CALLED.findall(text):
        if not _OWN_CALLS.match("".join(named)):
            raise Unreadable


def _constants(closed: Any) -> Iterator[Any]:
    """Arrays that a program closes over, also within others; raises Unreadable for callbacks."""
    yield from getattr(closed, "consts", ())
    for equation in getattr(closed, "jaxpr", closed).eqns:
        name = equation.primitive.name
        if "callback" in name or "ffi" in name or "pallas" in name:
            raise Unreadable
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(inner, "eqns") or hasattr(getattr(inner, "jaxpr", None), "eqns"):
                    yield from _constants(inner)


# Only what scikit-learn, NumPy, SciPy and Python itself define can be read whole: an estimator
# with a function or a class of somebody else's in it, wherever, has no digest. Nothing is called
# but the objects' own `__reduce_ex__`, by which pickle takes them apart, and nothing is built from
# it.
#
# Left out are two things that change while nothing is fitted, how often a search tree was visited
# and the state of a generator of random numbers, and the scores and times of a search for
# parameters.

ROOTS = ("sklearn", "numpy", "scipy")  # whose classes and functions are known by name and version
DEEPEST = 200  # objects within objects; also what ends a circle
_TREES = ("sklearn.neighbors._kd_tree", "sklearn.neighbors._ball_tree")
_VISITS = slice(7, 11)  # in the state of a tree: trims, leaves, splits and distances, all counted
_GENERATORS = np.random.RandomState | np.random.Generator


class Unreadable(Exception):
    """Something inside does work that is not known from what can be read."""


def digest_of(estimator: Any) -> bytes:
    """Digest of the whole fitted state; raises Unreadable."""
    if type(estimator).__module__.partition(".")[0] != "sklearn":
        raise Unreadable
    versions = [(root, _version(root)) for root in ROOTS]
    return _joined(b"estimator", [repr(versions).encode(), _of(estimator, 0)])


def library_versions() -> str:
    """Versions of the libraries that an estimator is read by, one after the other."""
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
    """Digest of an object, by its class and by what pickle would keep of it."""
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
    """The rows, nodes and sizes of a search tree; raises Unreadable if this scikit-learn keeps its
    counts elsewhere.
    """
    if state[_VISITS] != (*tree.get_tree_stats(), tree.get_n_calls()):
        raise Unreadable
    return (*state[: _VISITS.start], *state[_VISITS.stop :])


def _joined(kind: bytes, parts: list[bytes]) -> bytes:
    found = hashlib.sha256(kind)
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()
