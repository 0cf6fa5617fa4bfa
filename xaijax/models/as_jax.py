"""`as_jax`: a host model as a JAX function, for composing it with jit, vmap and other functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from xaijax.core.checks import whole_number
from xaijax.core.compiler import without_fused_products
from xaijax.core.errors import InputError, InputTypeError, ModelOutputError
from xaijax.core.process import before_jax
from xaijax.core.public import public
from xaijax.models.base.options import WORDS
from xaijax.models.model import Model
from xaijax.models.queries.comparison import answering
from xaijax.models.queries.host import call_host

_OLDEST = (0, 12)


@public
def as_jax(model: Model, outputs: int | None = None) -> Callable[[Any], jax.Array]:
    """A model as one JAX function, to be composed with `jax.jit`, `jax.vmap` and other functions.

    A JAX model is passed through. For an estimator with a translation this is the translation,
    unless a comparison has found a difference: then it is the estimator, as a host model. `as_jax`
    compares nothing; `model.predict(rows)` does.

    A host model is called back through `jax.pure_callback`, once for a whole batch, with the rows
    as a read-only array in the dtype given. The answer has the dtype of the rows if that is float32
    or float64, else float32. A host model cannot be differentiated.

    If a host model, or the check of its output, fails inside JAX, JAX raises its own runtime error
    with the text inside. Explainers are not affected: they call a host model outside `jax.jit`.

    Args:
        model: a `Model` of `as_model`. A host model that takes frames only cannot be used.
        outputs: int or None. K, the number of columns of a host model's output; 1: one number per
            row. None: read from the model's output and classes, or from output_names; otherwise one
            number per row.

    Returns:
        A function of rows [R, *F] that gives a `jax.Array` [R] or [R, K]. The function of a host
        model also takes more axes in front, rows [..., R, *F]; use `jax.vmap` for a JAX model.

    Raises:
        InputError: `outputs` below 1, or given for a JAX model; a host model with jax older than
            0.12. The function raises it for rows without a row axis, for an estimator that has
            changed, and for one that was found to differ from its translation.
        InputTypeError: `model` is not a `Model`, or `outputs` is not an integer.

    Example:
        >>> import jax
        >>> import numpy as np
        >>> import xaijax as xj
        >>> model = xj.as_model(lambda X: X[:, 0] * X[:, 1])
        >>> twice = jax.jit(lambda rows: 2 * xj.as_jax(model)(rows))
        >>> np.asarray(twice(np.array([[2.0, 3.0]], np.float32)))
        array([12.], dtype=float32)
    """
    if not isinstance(model, Model):
        got = type(model).__name__
        raise InputTypeError(f"model= must be a Model; got {got}. Pass xaijax.as_model(f).")
    before_jax()
    if model.reader is not None and model.original is not None and not model.reader.numbers_only:
        model = model.original  # rows in JAX are numbers, but it takes text
    if model.original is not None and answering(model) is not model:
        model = model.original  # the estimator answers, or another form of its translation
    if model.loop == "jax":
        return _passed_through(model, outputs)
    if jax.__version_info__[:2] < _OLDEST:
        raise InputError(
            "model= is a host model, and calling it from inside JAX needs jax >= 0.12; got jax "
            f"{'.'.join(map(str, jax.__version_info__))}, which can block. Update jax, or explain "
            "the model directly: explainers call it outside jit."
        )
    columns = _columns(model, outputs)

    def function(rows: Any) -> jax.Array:
        before_jax()
        rows = jnp.asarray(rows)
        rank = 1 if model.input_shape is None else len(model.input_shape)
        if rows.ndim <= rank:
            raise InputError(
                f"rows must be [R, *F], with an instance of {rank} axes (input_shape= in "
                f"as_model); got shape {rows.shape}. Pass x[None] for a single instance."
            )
        dtype = rows.dtype if rows.dtype in (jnp.float32, jnp.float64) else jnp.float32
        answer = jax.ShapeDtypeStruct((*rows.shape[:-rank], *columns), dtype)

        def callback(array: Any) -> np.ndarray:
            # vmap adds axes in front (expand_dims), which are further rows for the model.
            array = np.asarray(array)
            batch = array.shape[: array.ndim - rank]
            values = call_host(model, array.reshape(-1, *array.shape[array.ndim - rank :]))
            if values.shape[1:] != columns:
                raise ModelOutputError(
                    f"{model.name} returned shape {values.shape}; as_jax expected "
                    f"{(len(values), *columns)}. Say as_jax(model, "
                    f"outputs={values.shape[1] if values.ndim == 2 else None})."
                )
            return values.astype(dtype).reshape(*batch, *columns)

        @jax.custom_jvp
        def on_host(rows: jax.Array) -> jax.Array:
            return jax.pure_callback(callback, answer, rows, vmap_method="expand_dims")

        @on_host.defjvp
        def derivative(primals: Any, tangents: Any) -> Any:
            raise InputError(
                f"{model.name} is a host model and has no derivative. Take derivatives of a model "
                "that JAX traces: a function of jax.numpy, or a network, given to xaijax.as_model."
            )

        return on_host(rows)

    return function


def _passed_through(model: Model, outputs: int | None) -> Callable[[Any], jax.Array]:
    if outputs is not None:
        raise InputError(f"outputs= is for host models; JAX traces {model.name}. Leave it out.")
    apply = model.apply
    assert apply is not None
    params = jax.tree.map(jnp.asarray, model.params)

    def function(rows: Any) -> jax.Array:
        before_jax()
        model.check_unchanged()
        if answering(model) is not model:
            raise InputError(
                f"{model.name} differs from its translation by more than rounding, as was found "
                "after as_jax made this function of the translation. Say as_jax(model) again."
            )
        run = without_fused_products(apply) if isinstance(rows, Tracer) else apply
        return run(params, jnp.asarray(rows))

    return function


def _columns(model: Model, outputs: int | None) -> tuple[int, ...]:
    """() for [R], (K,) for [R, K]."""
    if outputs is not None:
        count = whole_number(outputs, "outputs=")
        return () if count == 1 else (count,)
    if model.output not in WORDS or model.output == "label":
        return ()
    if model.output_names is not None:
        return () if len(model.output_names) == 1 else (len(model.output_names),)
    # A binary decision is one number; any other output of a classifier has a column per class.
    if model.classes is not None and not (model.output == "decision" and len(model.classes) == 2):
        return (len(model.classes),)
    return ()
