"""A layer that is found in the trace of a model: f(X) = head(layer(columns made of X)).

The trace is run with stand-ins for the rows (`column_map`). The first step that joins numbers of
several columns is the layer: a product with a matrix, a convolution, a sum, or a sum of products
that says so by its name (`structures/named.py`); what comes after it no longer sees the rows. A
model that does anything else with its rows has no layer here. What a trace makes twice is made once
(`Repeated`): a decided class comes from the layer of the scores that are looked at with it.

Letters: R rows, F numbers of one instance, flattened, C columns made of them, H units, K outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from xaijax.core.once import shapes_of
from xaijax.models.structure.column_map import (
    MOVES,
    NoLayer,
    Repeated,
    Rows,
    Turned,
    Uniform,
    bare,
    evaluated,
    turned,
    uniform,
    with_rows,
)
from xaijax_kernels.engine.steps import CALLS
from xaijax_kernels.engine.tiles import traced
from xaijax_kernels.structures.base import Affine, Layer
from xaijax_kernels.structures.columnwise import Columnwise
from xaijax_kernels.structures.dense import Dense
from xaijax_kernels.structures.named import NAMED
from xaijax_kernels.structures.summed import Summed

WHOLE = (np.dtype("float32"), np.dtype("float64"))  # a layer of half precision rounds its own way
MOST_SUMMED = 1 << 20  # numbers of the matrix that says which columns a sum adds up
MOST_SPREAD = 1 << 14  # of one that is used as a dense layer; past it columns are added up

# What is done at the layer: (the layer, its columns, the output's shape) -> the output.
AtLayer = Callable[[Layer, Rows, tuple[int, ...]], Any]


class _Made(Exception):
    def __init__(self, columns: Any) -> None:
        self.columns = columns


@dataclass(frozen=True, eq=False)
class FoundLayer:
    """The layer, and the rest of the model, as functions of its parameters."""

    apply: Callable[[Any, Any], Any]  # (params, rows [R, *shape]) -> [R] or [R, K]
    shape: tuple[int, ...]  # of one instance
    dtype: Any
    traces: dict[int, Any] = field(default_factory=dict)  # closed, by R
    look: Callable[[Any, int], None] | None = None  # at every further trace (`asking/row_count.py`)
    programs: dict[Any, Any] = field(default_factory=dict)  # of the head, for all explainers

    @property
    def declared(self) -> bool:
        """See `Structure.declared`."""
        return False

    def of(self, params: Any) -> Columnwise:
        """See `Structure.of`; raises NoLayer."""
        found: list[tuple[Layer, Rows]] = []

        def layer(inner: Layer, rows: Rows, shape: tuple[int, ...]) -> Any:
            found.append((inner, rows))
            return jnp.zeros(shape, self.dtype)

        self._run(params, next(iter(self.traces)), None, layer)
        if len(found) != 1:
            raise NoLayer
        inner, rows = found[0]
        if any(0 in jnp.shape(leaf) for leaf in jax.tree.leaves(inner)):
            raise NoLayer  # a layer of nothing: no support vectors, say
        return Columnwise(inner, params, self.columns, tuple(rows.owner.tolist()))

    def columns(self, params: Any, rows: Any) -> Any:
        """The columns [R, C] that the layer joins, of rows [R, F]."""

        R = len(rows)
        half = R // 2 if R not in self.traces and R // 2 in self.traces and R % 2 == 0 else None
        if half is None:
            return self._columns(params, rows)
        # The probe's rows, filled up to whole vectors: its trace serves both halves.
        halves = jnp.asarray(rows).reshape(2, half, *rows.shape[1:])
        made = jax.vmap(lambda some: self._columns(params, some))(halves)
        return made.reshape(R, -1)

    def _columns(self, params: Any, rows: Any) -> Any:
        def layer(inner: Layer, columns: Rows, shape: tuple[int, ...]) -> Any:
            raise _Made(columns.value)

        try:
            self._run(params, len(rows), rows, layer)
        except _Made as made:
            return made.columns
        raise AssertionError("the layer is gone")

    def head(self, params: Any, hidden: Any) -> Any:
        """See `Structure.head`."""
        return self._run(params, len(hidden), None, lambda _, rows, shape: hidden.reshape(shape))

    def affine(self, params: Any) -> Affine | None:
        """See `Structure.affine`: by the trace."""
        width = shapes_of(self.of, params).width
        return affine(self.head, params, width, self.dtype, self.programs)

    def _run(self, params: Any, R: int, rows: Any, layer: AtLayer) -> Any:
        shape = (R, *self.shape)
        if R not in self.traces:
            self.traces[R] = traced(self.apply, params, jax.ShapeDtypeStruct(shape, self.dtype))
            if self.look is not None:
                self.look(self.traces[R], R)
        trace = self.traces[R]
        owner = np.arange(math.prod(self.shape)).reshape(self.shape)
        value = None if rows is None else jnp.asarray(rows, self.dtype).reshape(shape)
        stand_in = Rows(owner, shape, value)
        # As a program gets them: NumPy's float64 as float32, where it is run step by step.
        given = [x if isinstance(x, jax.Array) else jnp.asarray(x) for x in jax.tree.leaves(params)]
        arguments = [*given, stand_in]
        (out,) = _run(trace.jaxpr, trace.consts, arguments, R, layer, Repeated())
        if isinstance(out, Rows | Turned):
            raise NoLayer
        return bare(out)


def find(
    apply: Callable[..., Any],
    params: Any,
    rows: Any,
    trace: Any,
    look: Callable[[Any, int], None] | None = None,
) -> FoundLayer | None:
    """The model's layer, or None; trace: of the model for rows [R, *shape]; look: at others."""
    layer = FoundLayer(apply, rows.shape[1:], rows.dtype, {len(rows): trace}, look=look)
    try:
        shapes_of(layer.of, params)
    except NoLayer:
        return None
    return layer


def _run(
    jaxpr: Any, consts: Any, arguments: list[Any], R: int, layer: AtLayer, made: Repeated
) -> list[Any]:
    """The outputs of a trace, in which arguments may stand for rows; made: its steps so far."""
    values: dict[Any, Any] = {}

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else values[variable]

    values.update(zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        inputs = [read(v) for v in equation.invars]
        key = made.key(equation, inputs)
        outputs = made.outputs(key)
        if outputs is None:
            if any(isinstance(v, Rows | Turned) for v in inputs):
                outputs = _with_rows(equation, inputs, R, layer, made)
            else:
                outputs = evaluated(equation, [bare(v) for v in inputs])
                if uniform(equation, inputs, R):
                    outputs = [Uniform(one) for one in outputs]
            made.keep(key, inputs, outputs)
        values.update(zip(equation.outvars, outputs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _with_rows(
    equation: Any, inputs: list[Any], R: int, layer: AtLayer, made: Repeated
) -> list[Any]:
    """The outputs of one step that reads the rows."""
    name, options = equation.primitive.name, equation.params
    shape, dtype = equation.outvars[0].aval.shape, equation.outvars[0].aval.dtype
    if name in CALLS:
        if options.get("name") in NAMED:
            rows, *others = inputs
            if not isinstance(rows, Rows) or any(isinstance(x, Rows) for x in others):
                raise NoLayer
            return [layer(NAMED[options["name"]](*map(bare, others)), rows, shape)]
        inner = options[CALLS[name]]
        return _run(inner.jaxpr, inner.consts, inputs, R, layer, made)
    if (moved := turned(equation, inputs[0])) is not None:
        return [moved]
    if any(isinstance(x, Turned) for x in inputs):
        if name == "dot_general":
            return [_product(options, inputs, shape, dtype, layer)]
        raise NoLayer
    try:
        return [with_rows(equation, inputs)]
    except NoLayer:
        if name == "dot_general":
            return [_product(options, inputs, shape, dtype, layer)]
        if name == "conv_general_dilated" and dtype in WHOLE:
            inner, flat = convolution(equation, inputs, dtype)
            return [layer(inner, flat, shape)]
        if name == "reduce_sum" and dtype in WHOLE:
            return [_sum(inputs[0], options["axes"], shape, dtype, layer)]
        raise


def _product(
    options: Any, inputs: list[Any], shape: tuple[int, ...], dtype: Any, layer: AtLayer
) -> Any:
    """Columns [R, C] times W [C, H], or times w [C]; or W [H, C] times [C, R], which is what `vmap`
    makes of W @ row. The columns may have further axes of one, as W @ row[:, None] makes them.
    """
    first = isinstance(inputs[0], Rows | Turned)
    (own, other), batch = options["dimension_numbers"]
    own, other = (own, other) if first else (other, own)
    given, weights = inputs if first else inputs[::-1]
    if isinstance(weights, Rows | Turned) or batch != ((), ()):
        raise NoLayer
    if isinstance(given, Rows) and len(given.shape) > 2 and len(own) == 1 and own[0] > 0:
        if math.prod(given.shape[1:]) != given.shape[own[0]]:
            raise NoLayer
        given, own = flattened(given)[0], (1,)
    if len(given.shape) != 2:
        raise NoLayer
    rows, column = (given.rows, 0) if isinstance(given, Turned) else (given, 1)
    weights = bare(weights)
    if tuple(own) != (column,) or len(other) != 1:
        raise NoLayer
    if weights.ndim > 2 or weights.dtype != dtype or dtype not in WHOLE:
        raise NoLayer
    units = [n for axis, n in enumerate(weights.shape) if axis not in other]
    weights = jnp.moveaxis(weights, other[0], 0).reshape(rows.shape[1], -1)
    dense = Dense(weights, jnp.zeros(weights.shape[1], dtype))
    out = layer(dense, rows, (rows.shape[0], *units))
    return (out if first or not units else out.T).reshape(shape)


def _sum(
    rows: Rows, axes: tuple[int, ...], shape: tuple[int, ...], dtype: Any, layer: AtLayer
) -> Any:
    """Columns [R, ...] added up over axes that hold several of them."""
    if 0 in axes:
        raise NoLayer
    C, H = math.prod(rows.shape[1:]), math.prod(shape[1:])
    if C * H > MOST_SUMMED:
        raise NoLayer
    if C * H > MOST_SPREAD:
        return layer(*sum_over(rows, axes, H, dtype), shape)
    inner = tuple(1 if axis in axes else n for axis, n in enumerate(rows.shape) if axis)
    unit = np.broadcast_to(np.arange(H).reshape(inner), rows.shape[1:]).ravel()
    weights = np.zeros((C, H), dtype)
    weights[np.arange(C), unit] = 1
    flat, _ = flattened(rows)
    return layer(Dense(jnp.asarray(weights), jnp.zeros(H, dtype)), flat, shape)


# Affine in what is moved or converted; the indices of moves must be constants. Not what has another
# derivative than its numbers have (stop_gradient), since the matrix is read from the derivative.
KEPT = MOVES | {"copy", "neg", "reduce_sum", "reshard"}
SUMS = {"add", "sub", "add_any"}
AFFINE_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}
R = 32  # as many as the probe asks: for these the model is traced already
ROUNDINGS = 16


def affine(
    head: Any, params: Any, width: int, dtype: Any, programs: dict[Any, Any]
) -> Affine | None:
    """(A float64 [H, K], c [K]) where head(params, hidden [R, H]) is hidden A + c, else None.

    It is told by the trace. programs: of the head; what is compiled here is put there.

    A row's answer is taken to depend on that row alone, as the probe made sure.
    """
    jaxpr = traced(head, params, jax.ShapeDtypeStruct((R, width), dtype)).jaxpr
    inputs = [False] * (len(jaxpr.invars) - 1) + [True]
    if not all(_outputs(jaxpr, inputs) or [False]):
        return None
    some = np.random.default_rng(0).normal(size=(R, width)).astype(dtype)

    # Step by step, each of its steps would be a program of its own.
    def numbers(params: Any, some: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        def answer(hidden: jax.Array) -> jax.Array:
            return head(params, hidden).reshape(R, -1)

        # By the derivative: differences of answers would drown in a large c.
        constant, change = jax.linearize(answer, jnp.zeros((R, width), dtype))
        units = jnp.pad(jnp.eye(width, dtype=dtype), ((0, -width % R), (0, 0)))
        return constant[0], jax.lax.map(change, units.reshape(-1, R, width)), answer(some)

    run = programs.setdefault("affine", jax.jit(numbers))
    c, found, answer = (np.asarray(one, np.float64) for one in run(params, some))
    A = found.reshape(-1, found.shape[-1])[:width]
    return (A, c) if _agrees(answer, some, A, c, dtype) else None


def _agrees(
    answer: np.ndarray, hidden: np.ndarray, A: np.ndarray, c: np.ndarray, dtype: Any
) -> bool:
    """Whether the answer to some hidden numbers is hidden A + c, not only by the derivative.

    A sum of H products rounds by a few times sqrt(H) units at the size of its terms.
    """
    sizes = np.abs(hidden) @ np.abs(A) + np.abs(c)
    accepted = ROUNDINGS * float(jnp.finfo(dtype).eps) * sizes
    return bool((np.abs(hidden @ A + c - answer) <= accepted).all())


def _outputs(jaxpr: Any, inputs: list[bool]) -> list[bool] | None:
    """Which outputs depend on the inputs that are marked; None: not by sums and moves alone."""
    depends = dict(zip(jaxpr.invars, inputs, strict=True))

    def marked(variable: Any) -> bool:
        return not hasattr(variable, "val") and depends.get(variable, False)

    for equation in jaxpr.eqns:
        name = equation.primitive.name
        own = [marked(v) for v in equation.invars]
        out = [any(own)] * len(equation.outvars)
        if any(own):
            if name in AFFINE_CALLS:
                inner = _outputs(equation.params[AFFINE_CALLS[name]].jaxpr, own)
                if inner is None:
                    return None
                out = inner
            elif not _is_affine(equation, name, own):
                return None
        depends.update(zip(equation.outvars, out, strict=True))
    return [marked(v) for v in jaxpr.outvars]


def _is_affine(equation: Any, name: str, own: list[bool]) -> bool:
    floats = all(jnp.issubdtype(v.aval.dtype, jnp.floating) for v in equation.outvars)
    if not floats:
        return False
    if name == "convert_element_type":  # to fewer digits it is a rounding
        before, after = equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
        return bool(jnp.finfo(after).bits >= jnp.finfo(before).bits)
    if name in SUMS or name in ("concatenate", "stack"):
        return True
    if name in KEPT:
        return not any(own[1:])
    if name in ("mul", "dot_general"):
        return sum(own) == 1
    return name == "div" and not own[1]


# Both are linear in their rows, so that what some columns give is what the step makes of a row
# that has 0 in the others. A convolution may have any stride, dilation, padding or groups.

# A corner's layer is added up in float32 numbers, 32 rows at a time: past this they leave the
# caches, and the memory of a tile would be planned for a layer that is wider than all others.
MOST_UNITS = 1 << 15


@dataclass(frozen=True)
class Convolved:
    """A convolution of rows, flattened."""

    shape: tuple[int, ...]  # of one row as it reads it
    options: tuple[tuple[str, Any], ...]

    def __call__(self, kernel: jax.Array, columns: jax.Array) -> jax.Array:
        """Columns [R, C] -> [R, H]."""
        rows = columns.reshape(len(columns), *self.shape)
        options: dict[str, Any] = dict(self.options)
        options["precision"] = jax.lax.Precision.HIGHEST
        return jax.lax.conv_general_dilated(rows, kernel, **options).reshape(len(columns), -1)


@dataclass(frozen=True)
class AddedUp:
    """A sum over axes of rows, flattened."""

    shape: tuple[int, ...]  # of one row
    axes: tuple[int, ...]  # of the rows

    def __call__(self, arrays: Any, columns: jax.Array) -> jax.Array:
        """Columns [R, C] -> [R, H]."""
        del arrays
        rows = columns.reshape(len(columns), *self.shape)
        return rows.sum(axis=self.axes).reshape(len(columns), -1)


def convolution(equation: Any, inputs: list[Any], dtype: Any) -> tuple[Summed, Rows]:
    """(the layer, its columns) of a convolution of rows; raises NoLayer."""
    options, (rows, kernel) = dict(equation.params), inputs
    numbers = options["dimension_numbers"]
    if not isinstance(rows, Rows) or isinstance(kernel, Rows) or options["batch_group_count"] != 1:
        raise NoLayer
    shape = equation.outvars[0].aval.shape
    H, kernel = math.prod(shape[1:]), bare(kernel)
    if numbers.lhs_spec[0] or numbers.out_spec[0] or H > MOST_UNITS or kernel.dtype != dtype:
        raise NoLayer
    each = math.prod(kernel.shape) / max(1, kernel.shape[numbers.rhs_spec[0]])
    flat, own = flattened(rows)
    apply = Convolved(own, tuple(sorted(options.items())))
    zero = jnp.zeros(H, dtype)
    return Summed(kernel, zero, apply, H * each, "first convolution", linear=True), flat


def sum_over(rows: Rows, axes: tuple[int, ...], H: int, dtype: Any) -> tuple[Summed, Rows]:
    """(the layer, its columns) of a sum of rows over axes."""
    flat, own = flattened(rows)
    size, zero = float(math.prod(own)), jnp.zeros(H, dtype)
    return Summed((), zero, AddedUp(own, axes), size, "first layer", linear=True), flat


def flattened(rows: Rows) -> tuple[Rows, tuple[int, ...]]:
    """(rows [R, C], the shape that each had)."""
    own = rows.shape[1:]
    value = None if rows.value is None else rows.value.reshape(rows.shape[0], -1)
    return Rows(rows.owner.ravel(), (rows.shape[0], math.prod(own)), value), own
