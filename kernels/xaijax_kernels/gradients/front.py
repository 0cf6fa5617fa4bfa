"""Finds the affine first steps of a model in its trace, and separates them from the rest.

Most networks begin with steps that are affine in a row: columns are scaled, then joined by a matrix
or a convolution. These steps are the front, their outputs are the cut, and the model is
back(front(rows)). Along a straight line between two rows the cut also moves on a straight line, so
the front need not be evaluated along it.

Calls are inlined, except those with a custom derivative.

Letters: M and R rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels.engine.steps import CALLS, Number, Step, bound, opened

OPENED = {name: inner for name, inner in CALLS.items() if not name.startswith("custom")}
SUMS = ("add", "sub", "add_any")
ALONE = ("neg", "copy", "copy_p", "optimization_barrier")
JOINS = ("dot_general", "conv_general_dilated")  # a front without one of them saves nothing


@dataclass(eq=False)
class OpenedTrace:
    """A trace with its calls inlined and the intermediates that depend on rows marked."""

    given: list[Number]  # leaves of the parameters, then the rows
    steps: list[Step]
    out: Number
    moving: set[Number]  # intermediates that depend on the rows
    affine: set[Number]  # those that are affine in each row, with rows as their first axis
    cut: list[Number]  # affine ones that other steps read, in the order of the trace

    @property
    def joins(self) -> bool:
        """Whether the front joins columns."""
        made = (s for s in self.steps if s.outputs[0] in self.affine)
        return any(step.equation.primitive.name in JOINS for step in made)

    def facts(self) -> list[tuple[tuple[int, ...], Any]]:
        """(shape of one row, dtype) of each array of the cut."""
        return [(number.shape[1:], number.dtype) for number in self.cut]


def open_trace(trace: Any, leaves: Sequence[Any]) -> OpenedTrace:
    """Reads a closed trace of (params, rows) -> outputs; leaves: the arrays, or None for the rows
    and for leaves whose values are not needed.
    """
    arguments = [
        Number(v.aval.shape, v.aval.dtype, leaf)
        for v, leaf in zip(trace.jaxpr.invars, leaves, strict=True)
    ]
    steps: list[Step] = []
    (out,) = opened(trace.jaxpr, trace.consts, arguments, steps, OPENED)
    rows = arguments[-1]
    moving, affine, cut = {rows}, {rows}, []
    for step in steps:
        inputs = [number for number in step.inputs if number in moving]
        if not inputs:
            continue
        moving.update(step.outputs)
        if all(number in affine for number in inputs) and _is_affine(step, moving, rows.shape[0]):
            affine.update(step.outputs)
        else:
            cut += [node for node in dict.fromkeys(inputs) if node in affine and node not in cut]
    if out in affine and out not in cut:
        cut.append(out)
    return OpenedTrace(arguments, steps, out, moving, affine, cut)


def has_front(trace: Any, other: Any) -> bool:
    """Whether two traces of one model, for different numbers of rows, have the same front, which
    joins columns, in full precision.
    """
    first, second = (open_trace(t, [None] * len(t.jaxpr.invars)) for t in (trace, other))
    if not (first.joins and second.joins) or first.facts() != second.facts():
        return False
    dtype = first.given[-1].dtype
    return all(other_dtype == dtype for _, other_dtype in first.facts())


def front(trace: Any, params: Any, rows: jax.Array) -> tuple[jax.Array, ...]:
    """The cut [M, ...] of rows [M, ...]; trace: closed, for a block of rows."""
    block, shape = trace.jaxpr.invars[-1].aval.shape[0], rows.shape[1:]
    M = len(rows)
    blocks = jnp.pad(rows, ((0, -M % block), *((0, 0),) * len(shape)))
    leaves = jax.tree.leaves(params)

    def of_block(block_rows: jax.Array) -> tuple[jax.Array, ...]:
        parsed = open_trace(trace, [*leaves, block_rows])
        return tuple(_made(parsed, parsed.cut))

    cut = jax.vmap(of_block)(blocks.reshape(-1, block, *shape))
    return tuple(value.reshape(-1, *value.shape[2:])[:M] for value in cut)


def back(trace: Any, params: Any, cut: Sequence[jax.Array]) -> jax.Array:
    """The model's answers [R] or [R, K] to rows of this cut; trace: closed, for R rows."""
    parsed = open_trace(trace, [*jax.tree.leaves(params), None])
    for number, value in zip(parsed.cut, cut, strict=True):
        number.whole = value
    return _made(parsed, [parsed.out])[0]


def _made(parsed: OpenedTrace, wanted: list[Number]) -> list[Any]:
    """Computes the wanted intermediates from the known ones."""
    needed, taken = {node for node in wanted if node.whole is None}, []
    for step in reversed(parsed.steps):
        if any(number in needed for number in step.outputs):
            taken.append(step)
            needed.update(node for node in step.inputs if node.whole is None)
    for step in reversed(taken):
        outputs = bound(step.equation, [number.whole for number in step.inputs])
        for number, value in zip(step.outputs, outputs, strict=True):
            if number.whole is None:
                number.whole = value
    return [node.whole for node in wanted]


def _is_affine(step: Step, moving: set[Number], R: int) -> bool:
    """Whether the step maps affine inputs to an affine output that keeps rows as its first axis."""
    name, options = step.equation.primitive.name, step.equation.params
    (out, *more), inputs = step.outputs, step.inputs
    moves = [number in moving for number in inputs]
    if more or out.shape[:1] != (R,) or not jnp.issubdtype(out.dtype, jnp.floating):
        return False
    if name in SUMS or name in ALONE:
        return True
    if name == "mul":
        return moves != [True, True]
    if name == "div":
        return not moves[1]
    if name == "convert_element_type":
        return jnp.finfo(out.dtype).bits >= jnp.finfo(inputs[0].dtype).bits
    if name in ("squeeze", "rev"):
        return 0 not in options["dimensions"]
    if name == "reduce_sum":
        return 0 not in options["axes"]
    if name == "transpose":
        return options["permutation"][0] == 0
    if name == "broadcast_in_dim":
        return options["broadcast_dimensions"][:1] == (0,)
    if name == "concatenate":
        return options["dimension"] != 0
    if name == "reshape":
        return inputs[0].shape[0] == R and options["dimensions"] is None
    if name == "slice":
        strides = options["strides"]
        return inputs[0].shape[0] == R and (strides is None or strides[0] == 1)
    if name == "select_n":
        return not moves[0]
    return _joins(name, options, moves)


def _joins(name: str, options: Any, moves: list[bool]) -> bool:
    """`_is_affine` for a product with a matrix and for a convolution."""
    if moves != [True, False]:
        return False
    if name == "dot_general":
        (contracted, _), (batch, _) = options["dimension_numbers"]
        return 0 not in contracted and not batch
    if name == "conv_general_dilated":
        spec = options["dimension_numbers"]
        first = spec.lhs_spec[0] == 0 and spec.out_spec[0] == 0
        return first and options["batch_group_count"] == 1
    return False
