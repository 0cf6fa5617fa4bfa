"""A JAX function made ready for the engine: precision set, output checked, failures explained."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputTypeError, ModelOutputError, XaiError
from xaijax.models.base.outputs import check_traced_shape
from xaijax.models.base.traced_state import StateAtTrace

MATMUL = {"float32": "highest", "tf32": "tensorfloat32", "float64": "highest"}
DTYPES = {"float32": np.float32, "tf32": np.float32, "float64": np.float64}

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

    def whole(params: Any, rows: Any) -> Any:
        with contextlib.nullcontext() if state is None else state.traced():
            return answered(params, rows)

    def answered(params: Any, rows: Any) -> Any:
        count = jax.tree.leaves(rows)[0].shape[0]
        try:
            with jax.default_matmul_precision(MATMUL[precision]):
                raw = function(params, rows)
        except Exception as exc:
            failure = explain_trace_failure(exc, name)
            if failure is not exc:
                raise failure from exc
            if taken and taken[0] != count and not isinstance(exc, XaiError):
                raise ModelOutputError(
                    f"{name} takes {taken[0]} rows, but not {count}: {exc}. A model must take any "
                    f"number of rows: write X.shape[0], or -1 in a reshape, in place of a size of "
                    f"batches, or ask it in whole batches by a function of your own with "
                    f"as_model(f, backend='host')."
                ) from exc
            if not isinstance(exc, XaiError):
                exc.add_note(
                    f"xaijax: raised while JAX traced {name} with rows of shape {_told(rows)}. "
                    f"A function that is not written in jax.numpy needs "
                    f"as_model(f, backend='host'); one that takes batches of one size only must "
                    f"be made to take any number of rows."
                )
            raise
        answer = _checked(raw, count, name)
        taken[:] = taken or [count]
        return answer

    return whole


def _told(rows: Any) -> str:
    if hasattr(rows, "shape"):
        return f"{rows.shape}, {rows.dtype}"
    return str(jax.tree.map(lambda leaf: f"{leaf.shape}, {leaf.dtype}", rows))


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
        found = _MEANINGS.get((".".join(kind.__module__.split(".")[:2]), kind.__name__))
        if found is not None:
            return found
    return None
