"""A dense first layer, found in the trace of a model: f(X) = head(X W + b).

The trace is run with a stand-in for the rows. What a model may do with them before the layer is a
change of scale and of origin, column by column, and another shape; what comes after the product no
longer sees them. A model that does anything else with its rows has no first layer here.

Letters: R rows, F numbers of one instance, flattened, H units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from xaijax_kernels.structures.dense import Dense

HIGHEST = jax.lax.Precision.HIGHEST
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
}


class NoLayer(Exception):
    """The model does something else with its rows first."""


@dataclass(frozen=True)
class Rows:
    """Stands for the numbers z * scale + shift of the rows z, in the shape [R, ...]."""

    scale: Any  # [F]
    shift: Any  # [F]
    shape: tuple[int, ...]
    dtype: Any


Layer = Callable[[Any, Rows], Any]  # (W [F, H], rows) -> what stands for their product [R, H]


@dataclass(frozen=True, eq=False)
class FoundLayer:
    """W and b, and the rest of the model, as functions of its parameters."""

    apply: Callable[[Any, Any], Any]  # (params, rows [R, *shape]) -> [R] or [R, K]
    shape: tuple[int, ...]  # of one instance
    dtype: Any
    traces: dict[int, Any] = field(default_factory=dict)  # closed, by R
    name = "first layer"

    def weights(self, params: Any) -> tuple[Any, Any]:
        """W [F, H] and b [H]; raises NoLayer."""
        found: list[tuple[Any, Any]] = []

        def layer(weights: Any, rows: Rows) -> Any:
            shift = jnp.dot(rows.shift, weights, precision=HIGHEST)
            found.append((rows.scale[:, None] * weights, shift))
            return jnp.zeros((rows.shape[0], weights.shape[1]), weights.dtype)

        self._run(params, next(iter(self.traces)), layer)
        if len(found) != 1:
            raise NoLayer
        return found[0]

    def head(self, params: Any, hidden: Any) -> Any:
        """The model's answer to rows whose X W + b is hidden [R, H]."""
        return self._run(params, len(hidden), lambda weights, rows: hidden)

    def of(self, params: Any) -> Dense:
        """What the engine asks at the corners of a pair."""
        return Dense(*self.weights(params))

    def _run(self, params: Any, R: int, layer: Layer) -> Any:
        if R not in self.traces:
            rows = jax.ShapeDtypeStruct((R, *self.shape), self.dtype)
            self.traces[R] = jax.make_jaxpr(self.apply)(params, rows)
        trace = self.traces[R]
        F = math.prod(self.shape)
        ones, zeros = jnp.ones(F, self.dtype), jnp.zeros(F, self.dtype)
        rows = Rows(ones, zeros, (R, *self.shape), self.dtype)
        (out,) = _run(trace.jaxpr, trace.consts, [*jax.tree.leaves(params), rows], layer)
        if isinstance(out, Rows):
            raise NoLayer
        return out


def find(apply: Callable[..., Any], params: Any, rows: Any, trace: Any) -> Any:
    """The model's first layer, or None; trace: of the model for rows [R, *shape]."""
    layer = FoundLayer(apply, rows.shape[1:], rows.dtype, {len(rows): trace})
    try:
        jax.eval_shape(layer.weights, params)
    except NoLayer:
        return None
    return layer


def _run(jaxpr: Any, consts: Any, arguments: list[Any], layer: Layer) -> list[Any]:
    """The outputs of a trace, in which arguments may be Rows."""
    values: dict[Any, Any] = {}

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else values[variable]

    values.update(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        inputs = [read(v) for v in equation.invars]
        if any(isinstance(v, Rows) for v in inputs):
            outputs = _with_rows(equation, inputs, layer)
        else:
            outputs = _evaluated(equation, inputs)
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _evaluated(equation: Any, inputs: list[Any]) -> list[Any]:
    """The outputs of one step that does not read the rows."""
    primitive = equation.primitive
    options = primitive.get_bind_params(equation.params)
    # jax 0.10 gives (functions, options), jax 0.12 the options alone.
    functions, options = options if isinstance(options, tuple) else ((), options)
    out = primitive.bind(*functions, *inputs, **options)
    return list(out) if primitive.multiple_results else [out]


def _with_rows(equation: Any, inputs: list[Any], layer: Layer) -> list[Any]:
    """The outputs of one step that reads the rows."""
    name, options = equation.primitive.name, equation.params
    shape, dtype = equation.outvars[0].aval.shape, equation.outvars[0].aval.dtype
    if name in CALLS:
        inner = options[CALLS[name]]
        return _run(inner.jaxpr, inner.consts, inputs, layer)
    if name == "dot_general":
        return [_product(options, inputs, shape, dtype, layer)]
    rows = next(v for v in inputs if isinstance(v, Rows))
    if shape[:1] != rows.shape[:1] or dtype != rows.dtype:
        raise NoLayer
    if name in ("reshape", "squeeze", "expand_dims", "copy", "convert_element_type"):
        return [replace(rows, shape=shape)]
    if name == "neg":
        return [replace(rows, scale=-rows.scale, shift=-rows.shift)]
    if name in ("add", "sub", "mul", "div") and shape == rows.shape:
        left, right = inputs
        return [_scaled(name, left, right, rows)]
    raise NoLayer


def _scaled(name: str, left: Any, right: Any, rows: Rows) -> Rows:
    """rows + c, rows - c, c - rows, rows * c, rows / c with the same c for every row."""
    other = right if left is rows else left
    if isinstance(other, Rows):
        raise NoLayer
    c = jnp.asarray(other, rows.dtype)
    if c.ndim and c.shape[0] != 1:
        raise NoLayer
    c = jnp.broadcast_to(c, (1, *rows.shape[1:])).reshape(-1)
    if name == "mul":
        return replace(rows, scale=rows.scale * c, shift=rows.shift * c)
    if name == "div":
        if left is not rows:
            raise NoLayer
        return replace(rows, scale=rows.scale / c, shift=rows.shift / c)
    if name == "add":
        return replace(rows, shift=rows.shift + c)
    if left is rows:
        return replace(rows, shift=rows.shift - c)
    return replace(rows, scale=-rows.scale, shift=c - rows.shift)


def _product(
    options: Any, inputs: list[Any], shape: tuple[int, ...], dtype: Any, layer: Layer
) -> Any:
    """The layer itself: rows [R, F] times W [F, H], or times w [F]."""
    rows, weights = inputs
    (left, right), batch = options["dimension_numbers"]
    if not isinstance(rows, Rows) or isinstance(weights, Rows) or batch != ((), ()):
        raise NoLayer
    if len(rows.shape) != 2 or tuple(left) != (1,) or len(right) != 1 or dtype != rows.dtype:
        raise NoLayer
    if weights.ndim > 2 or weights.dtype != dtype:
        raise NoLayer
    weights = jnp.moveaxis(weights, right[0], 0)
    return layer(weights.reshape(len(weights), -1), rows).reshape(shape)
