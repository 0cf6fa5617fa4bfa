"""Makes a text that distinguishes a model from any other one, so that a ledger recognises a
question.

If two models shared a text by mistake, the second would get the noisy values of the first. Only
models that can be read completely therefore have one:

- models that JAX traces: the program with every constant, and the parameters; not if the program
  calls back to Python or into another library, whose work it does not contain;
- scikit-learn's own estimators, and Pipelines of them (`digest_of`).

Other models, above all functions on the host, have none: a function depends on all that it can
reach, and reading its code cannot find all of that. Nothing here calls the model.

`model_fingerprint` is such a text for `xaijax.merge`, made from what a run has traced anyway. It
names the library versions: texts of different versions cannot be compared.
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
from xaijax.models.identity.fit_fingerprint import SEARCH_TREES, FitFingerprint, once_a_fit
from xaijax.models.identity.patched import SEARCHED, is_own
from xaijax_kernels.engine.tiles import without_places

if TYPE_CHECKING:
    from xaijax.models.model import Model

ROWS = 2  # rows that a program is traced for
LARGE = 16  # entries of a constant above which a program's text omits them

# Accepted custom_calls of a compiled program: parts of XLA and its linear algebra.
_OWN_CALLS = re.compile(r"(Sharding|TopK|mhlo\.|chlo\.|lapack_|cublas_|cusolver_|cu_|hip)")
_CALLED = re.compile(r"custom_call\s+@([^\s(]+)|call_target_name\s*=\s*\"([^\"]+)\"")


def identity(model: Model, shape: tuple[int, ...], dtype: Any, platform: str) -> str | None:
    """Identity of a model for rows [R, *shape] of this dtype on devices of this platform (which
    matters for JAX models).

    None if there is none.
    """
    facts = (model.backend, model.output, model.classes, model.threshold, model.precision)
    hasher = hashlib.sha256(repr(facts).encode())
    try:
        if model.backend == "jax":
            hasher.update(repr((jax.__version__, platform)).encode())
            for function in (model.apply, model.scores):
                hasher.update(_traced(function, model.params, shape, dtype))
        elif model.estimator is not None:
            hasher.update(digest_of(model.estimator))
        else:
            return None
    except Unreadable:
        return None
    return hasher.hexdigest()


def model_fingerprint(
    model: Model,
    fitted: Model,
    program: bytes | None,
    dtype: str,
    platform: str,
    function: Any = None,
    moved: frozenset[str] = frozenset(),
) -> str | None:
    """A text "kind versions: digest", equal for one model in any form of its rows; None: there is
    none.

    Args:
        model: the model that runs.
        fitted: the host model of the estimator that it translates, otherwise the model itself.
        program: `program_digest` of the run's own trace; None on the host.
        dtype: the dtype of the program's rows.
        platform: the platform of the devices.
        function: on the host, the user's function; None: unknown.
        moved: names of values that the function reads and changes when it is called.
    """
    state = None if fitted.estimator is None else kept_digest(fitted.estimator)
    if state is not None:
        facts = repr((fitted.output, fitted.classes, fitted.threshold)).encode()
        digest = hashlib.sha256(facts + state).hexdigest()
        return f"scikit-learn {library_versions()}: {digest[:32]}"
    if program is None:
        return None if function is None else _of_function(function, moved)
    hasher = hashlib.blake2b(program, digest_size=16)
    for leaf in jax.tree.leaves(model.params):
        _add_array(hasher, leaf)
    versions = f"{jax.__version__} {platform} {model.precision} {dtype}"
    return f"jax {versions}: {hasher.hexdigest()}"


def portable_reads(function: Any) -> Reads:
    """The values that a function or object reads, with the same digests in every process."""
    return reads_of(function, portable=True, digest=kept_digest)


def kept_digest(estimator: Any, fit: FitFingerprint | None = None) -> bytes | None:
    """Returns `digest_of`, read again only once the estimator has changed; None: it is unreadable.

    fit: its fingerprint of now; None: it is taken here.
    """
    fit = FitFingerprint(estimator) if fit is None else fit
    try:
        return once_a_fit(estimator, fit, "digest", lambda: digest_of(estimator))
    except Unreadable:
        return None


def _of_function(function: Any, moved: frozenset[str]) -> str | None:
    """Identity of a function on the host; None if its code cannot be read completely."""
    reads = portable_reads(function)
    if not reads.functions or reads.unread - moved:
        return None
    facts = sorted(item for item in reads.digests().items() if item[0] not in moved)
    digest = hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()
    return f"python {platform.python_version()} {np.__version__}: {digest}"


def program_digest(traced: Any, lowered: Any) -> bytes | None:
    """Digest of a traced and lowered program with its constants; None: unreadable.

    The text omits large constants, which would take seconds to write; their bytes are added.
    """
    hasher = hashlib.blake2b()
    try:
        constants = list(_constants(traced.jaxpr))
        text = lowered.compiler_ir().operation.get_asm(large_elements_limit=LARGE)
        _refuse_calls(text)
        hasher.update(text.encode())
        for constant in constants:
            _add_array(hasher, constant)
    except (Unreadable, TypeError):  # TypeError: a constant that is no array, as a typed key
        return None
    return hasher.digest()


def _add_array(hasher: Any, leaf: Any) -> None:
    if isinstance(leaf, jax.Array) and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.ascontiguousarray(leaf)
    hasher.update(f"{array.dtype}{array.shape}".encode())
    hasher.update(array.reshape(-1).view(np.uint8))


def _traced(function: Any, params: Any, shape: tuple[int, ...], dtype: Any) -> bytes:
    """(the program with its constants in the text, the constants, the parameters)."""
    rows = jax.ShapeDtypeStruct((ROWS, *shape), dtype)
    traced = jax.jit(function).trace(without_places(params), rows)
    constants = list(_constants(traced.jaxpr))
    text = traced.lower().as_text()
    _refuse_calls(text)
    parts = [text.encode()]
    for leaf in (*constants, *jax.tree.leaves(params)):
        array = np.asarray(leaf)
        parts += [f"{array.dtype}{array.shape}".encode(), array.tobytes()]
    return hashlib.sha256(b"|".join(hashlib.sha256(part).digest() for part in parts)).digest()


def _refuse_calls(text: str) -> None:
    """Raises Unreadable for a program that calls code outside XLA."""
    for named in _CALLED.findall(text):
        if not _OWN_CALLS.match("".join(named)):
            raise Unreadable


def _constants(closed: Any) -> Iterator[Any]:
    """Arrays that a program closes over, at any depth; raises Unreadable for callbacks."""
    yield from getattr(closed, "consts", ())
    for equation in getattr(closed, "jaxpr", closed).eqns:
        name = equation.primitive.name
        if "callback" in name or "ffi" in name or "pallas" in name:
            raise Unreadable
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else (value,):
                if hasattr(inner, "eqns") or hasattr(getattr(inner, "jaxpr", None), "eqns"):
                    yield from _constants(inner)


# Only objects of scikit-learn, NumPy, SciPy and Python itself can be read completely: an estimator
# that contains a function or class of another package has no digest. Only the objects'
# `__reduce_ex__` is called, which pickle uses too, and nothing is built from its result.
#
# Omitted are the visit counts of search trees and the state of random generators, which change
# without a fit, and the scores and times of a parameter search.

# Libraries whose classes and functions are identified by name and version.
ROOTS = ("sklearn", "numpy", "scipy")
DEEPEST = 200  # nesting of objects; this also ends cycles
_VISITS = slice(7, 11)  # of the state of a tree: counts of trims, leaves, splits and distances
_GENERATORS = np.random.RandomState | np.random.Generator


class Unreadable(Exception):
    """Something inside cannot be determined from what can be read."""


def digest_of(estimator: Any) -> bytes:
    """Digest of the whole fitted state; raises Unreadable."""
    if type(estimator).__module__.partition(".")[0] != "sklearn":
        raise Unreadable
    versions = [(root, _version(root)) for root in ROOTS]
    return _joined(b"estimator", [repr(versions).encode(), _of(estimator, 0)])


def library_versions() -> str:
    """Versions of the libraries by which an estimator is read."""
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
        return _joined(b"set", sorted(_all(thing, depth)))  # whose order depends on a random seed
    if type(thing) is dict:
        pairs = (_joined(b"pair", _all(pair, depth)) for pair in thing.items())
        return _joined(b"dict", list(pairs))
    if isinstance(thing, type | types.FunctionType | types.BuiltinFunctionType | np.ufunc):
        return _of_name(thing)
    if isinstance(thing, np.dtype):
        return _joined(b"dtype", [repr(thing.descr if thing.names else thing.str).encode()])
    return _of_object(thing, depth)


def _all(things: Iterable[Any], depth: int) -> list[bytes]:
    return [_of(thing, depth + 1) for thing in things]


def _of_array(array: np.ndarray, depth: int) -> bytes:
    shape = f"{array.dtype.str}{array.shape}".encode()
    if array.dtype.names:  # field by field: padding is undefined
        fields = [_of_array(array[name], depth + 1) for name in array.dtype.names]
        return _joined(b"fields", [repr(array.dtype.names).encode(), *fields])
    if array.dtype.hasobject:
        return _joined(b"objects", [shape, *_all(array.ravel().tolist(), depth)])
    return _joined(b"array", [shape, np.ascontiguousarray(array).tobytes()])


def _of_name(thing: Any) -> bytes:
    """Digest of a class or function of a known library, found there under this very name."""
    module = "numpy" if isinstance(thing, np.ufunc) else getattr(thing, "__module__", None)
    name = getattr(thing, "__qualname__", getattr(thing, "__name__", ""))
    if not isinstance(module, str) or not _known(module):
        raise Unreadable
    try:
        known = functools.reduce(getattr, name.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        raise Unreadable from None
    if known is not thing:
        raise Unreadable
    return _joined(b"name", [module.encode(), name.encode()])


def _known(module: str) -> bool:
    python = (object.__module__, functools.__name__, operator.__name__, "_operator", "copyreg")
    return module.partition(".")[0] in ROOTS or module in (*python, "collections")


def _of_object(thing: Any, depth: int) -> bytes:
    """Digest of an object, by its class and by its pickled state."""
    if isinstance(thing, _GENERATORS):
        return _of_name(type(thing))
    try:
        reduced = thing.__reduce_ex__(4)
    except Exception:
        raise Unreadable from None
    if isinstance(reduced, str):  # pickled by name, such as compiled functions
        return _of_name(thing)
    if is_own(thing, "BaseSearchCV"):
        state = {name: value for name, value in reduced[2].items() if name not in SEARCHED}
        reduced = (*reduced[:2], state, *reduced[3:])
    if type(thing).__module__ in SEARCH_TREES and hasattr(thing, "get_tree_stats"):
        reduced = (*reduced[:2], _without_visits(thing, reduced[2]), *reduced[3:])
    parts = [_of_name(type(thing))]
    for part in reduced[:3]:
        parts.append(_of(part, depth + 1))
    for part in reduced[3:]:
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
    hasher = hashlib.sha256(kind)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little") + part)
    return hasher.digest()
