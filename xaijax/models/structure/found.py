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

from xaijax.models.structure.column_map import (
    MOVES,
    AtLayer,
    ColumnwiseArray,
    NoLayer,
    Turned,
    bare,
    run_trace,
)
from xaijax_kernels.engine.tiles import traced
from xaijax_kernels.structures.base import Affine, Layer, shapes_of
from xaijax_kernels.structures.columnwise import Columnwise


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
    look: Callable[[Any, int], None] | None = None  # at every further trace (`queries/probe.py`)
    programs: dict[Any, Any] = field(default_factory=dict)  # of the head, for all explainers
    declared = False

    def of(self, params: Any) -> Columnwise:
        """See `Structure.of`; raises NoLayer."""
        found: list[tuple[Layer, ColumnwiseArray]] = []

        def layer(inner: Layer, rows: ColumnwiseArray, shape: tuple[int, ...]) -> Any:
            found.append((inner, rows))
            return jnp.zeros(shape, self.dtype)

        self._run(params, next(iter(self.traces)), None, layer)
        if len(found) != 1:
            raise NoLayer
        inner, rows = found[0]
        if any(0 in jnp.shape(leaf) for leaf in jax.tree.leaves(inner)):
            raise NoLayer  # a layer of nothing: no support vectors, say
        # pyright does not see the members that Columnwise takes over from the inner layer.
        own = tuple(rows.owner.tolist())
        return Columnwise(inner, params, self.columns, own)  # pyright: ignore[reportAbstractUsage]

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
        def layer(inner: Layer, columns: ColumnwiseArray, shape: tuple[int, ...]) -> Any:
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
        width = shapes_of(self, params).width
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
        stand_in = ColumnwiseArray(owner, shape, value)
        # As a program gets them: NumPy's float64 as float32, where it is run step by step.
        flat = [x if isinstance(x, jax.Array) else jnp.asarray(x) for x in jax.tree.leaves(params)]
        arguments = [*flat, stand_in]
        (out,) = run_trace(trace.jaxpr, trace.consts, arguments, R, layer, {})
        if isinstance(out, ColumnwiseArray | Turned):
            raise NoLayer
        return bare(out)


def find(
    apply: Callable[..., Any],
    params: Any,
    rows: Any,
    trace: Any,
    look: Callable[[Any, int], None] | None = None,
) -> FoundLayer | None:
    """The model's layer, or None; trace: that of the model for rows [R, *shape]; look: at
    others.
    """
    layer = FoundLayer(apply, rows.shape[1:], rows.dtype, {len(rows): trace}, look=look)
    try:
        shapes_of(layer, params)
    except NoLayer:
        return None
    return layer


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
    """(A float64 [H, K], c [K]) if head(params, hidden [R, H]) is hidden A + c, else None.

    The trace decides. programs: those of the head; what is compiled here is put there.

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
        marks = [marked(v) for v in equation.invars]
        out = [any(marks)] * len(equation.outvars)
        if any(marks):
            if name in AFFINE_CALLS:
                inner = _outputs(equation.params[AFFINE_CALLS[name]].jaxpr, marks)
                if inner is None:
                    return None
                out = inner
            elif not _is_affine(equation, name, marks):
                return None
        depends.update(zip(equation.outvars, out, strict=True))
    return [marked(v) for v in jaxpr.outvars]


def _is_affine(equation: Any, name: str, marks: list[bool]) -> bool:
    floats = all(jnp.issubdtype(v.aval.dtype, jnp.floating) for v in equation.outvars)
    if not floats:
        return False
    if name == "convert_element_type":  # to fewer digits it is a rounding
        before, after = equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
        return bool(jnp.finfo(after).bits >= jnp.finfo(before).bits)
    if name in SUMS or name in ("concatenate", "stack"):
        return True
    if name in KEPT:
        return not any(marks[1:])
    if name in ("mul", "dot_general"):
        return sum(marks) == 1
    return name == "div" and not marks[1]
