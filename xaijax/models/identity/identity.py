"""A text that tells a model from any other one, so that a ledger knows a question again.

A text that two models share by mistake would answer the second with the noisy values of the first,
so only what can be read whole has one:

- what JAX traces: its program with every constant, and its parameters; not where the program calls
  back to Python or into a library of somebody's own, whose work is not in it;
- scikit-learn's own estimators, and Pipelines of them (`fitted_state.py`).

Every other model, a function run on the host above all, has none: what a function does depends on
all that it can reach, and no reading of its text finds that. Nothing here asks for an answer.

`mark` is the same for `xaijax.merge`, of what a run has traced anyway. It says under which versions
it was made: marks of other versions tell nothing about each other.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import jax
import numpy as np

from xaijax.core.reads import Reads, reads_of
from xaijax.models.identity.fitted_state import Unreadable, digest_of, library_versions
from xaijax_kernels.engine.tiles import without_places

ROWS = 2  # that a program is traced for
LARGE = 16  # entries of a constant, above which a program's text leaves them out

# What a custom_call of a compiled program may be: parts of XLA and the linear algebra it ships.
_OWN_CALLS = re.compile(r"(Sharding|TopK|mhlo\.|chlo\.|lapack_|cublas_|cusolver_|cu_|hip)")
_CALLED = re.compile(r"custom_call\s+@([^\s(]+)|call_target_name\s*=\s*\"([^\"]+)\"")


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
    def scores(self) -> Callable[..., Any] | None: ...
    @property
    def estimator(self) -> Any: ...
    @property
    def classes(self) -> tuple[Any, ...] | None: ...
    @property
    def threshold(self) -> float | None: ...
    @property
    def precision(self) -> str: ...


def identity(model: Identified, shape: tuple[int, ...], dtype: Any) -> str | None:
    """Of a model that is given rows [R, *shape] of this dtype (which matter to JAX models).

    None: there is none.
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
    model: Identified,
    fitted: Identified,
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
        dtype: of the rows that the program takes.
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
    """Of a function on the host; None where nothing of its own code can be read, or not all."""
    reads = portable_reads(function)
    if not reads.functions or reads.unread - moved:
        return None
    told = sorted(item for item in reads.digests().items() if item[0] not in moved)
    digest = hashlib.blake2b(repr(told).encode(), digest_size=16).hexdigest()
    return f"python {platform.python_version()} {np.__version__}: {digest}"


def program_digest(traced: Any, lowered: Any) -> bytes | None:
    """Of a program that is traced and lowered already, with its constants; None: unreadable.

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
    """Raise Unreadable for a program that calls what is not XLA's own."""
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
