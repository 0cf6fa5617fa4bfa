"""One output of each row, by a model's trace of which the other outputs are not made.

A network ends in a product of rows [R, H] and a matrix [H, K], and in steps that treat each column
by itself. One column of a row then takes one column of the matrix: H multiplications, not H K.
What needs all columns (a softmax) is made of all of them, and the one is taken after it.

Two passes over the trace. The first goes backward from the answers, and marks which numbers are
needed whole and of which one column is enough. The second goes forward and makes these.

Letters: R rows, H units, K columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels.engine.steps import ELEMENTWISE, Number, Step, bound, opened

LEAST_COLUMNS = 64  # below, the product of all columns is as fast as taking one of them


@dataclass
class Needed:
    """Which numbers are needed whole, and of which one column."""

    whole: set[Number] = field(default_factory=set)
    one: dict[Number, int] = field(default_factory=dict)  # the axis of its columns, 0 or 1

    def add(self, number: Number, axis: int) -> None:
        """One column of the number, along this axis."""
        if self.one.setdefault(number, axis) != axis:
            self.whole.add(number)


def one_output(trace: Any, params: Any, rows: jax.Array, column: jax.Array) -> jax.Array:
    """The answers in `column` [R] to rows [R, ...]; [R, 1].

    trace: closed, of the model (params, rows) -> [R, K].
    """
    given = [Number(jnp.shape(x), jnp.result_type(x), x) for x in jax.tree.leaves((params, rows))]
    steps: list[Step] = []
    (answers,) = opened(trace.jaxpr, trace.consts, given, steps)
    needed = Needed(one={answers: 1})
    taken = list(_taken(steps, needed))
    for step, one in reversed(taken):
        if one:
            step.outputs[0].one = _one(step, needed.one[step.outputs[0]], column)
            continue
        found = bound(step.equation, [number.whole for number in step.inputs])
        for number, value in zip(step.outputs, found, strict=True):
            number.whole = value
    return _column(answers, needed.one[answers], column)


def _taken(steps: list[Step], needed: Needed) -> Iterator[tuple[Step, bool]]:
    """(step, whether one column of it is enough) of those that are taken, the last first."""
    for step in reversed(steps):
        whole = any(number in needed.whole for number in step.outputs) or step.equation.effects
        if not whole and step.outputs[:1] and step.outputs[0] in needed.one:
            inputs = _inputs_of_one(step, needed.one[step.outputs[0]])
            if inputs is not None:
                for number, axis in inputs:
                    if axis is None:
                        needed.whole.add(number)
                    else:
                        needed.add(number, axis)
                yield step, True
                continue
        if whole or any(number in needed.one for number in step.outputs):
            needed.whole.update(step.outputs)
            needed.whole.update(step.inputs)
            yield step, False


def _inputs_of_one(step: Step, axis: int) -> list[tuple[Number, int | None]] | None:
    """What one column of the step's output is made of: (number, axis of its columns, or None where
    it is needed whole); None: all columns are needed.
    """
    name, options, (out, *more) = step.equation.primitive.name, step.equation.params, step.outputs
    if more or len(out.shape) != 2:
        return None
    if name in ELEMENTWISE:
        return [(x, axis if x.shape == out.shape else None) for x in step.inputs]
    if name == "transpose":
        return [(step.inputs[0], 1 - axis)]
    if name == "broadcast_in_dim":
        return [(x, None) for x in step.inputs] if len(step.inputs[0].shape) < 2 else None
    if name == "dot_general":
        contracted, batch = options["dimension_numbers"]
        plain = batch == ((), ()) and all(len(places) == 1 for places in contracted)
        worth = plain and out.shape[axis] >= LEAST_COLUMNS
        return [(x, None) for x in step.inputs] if worth else None
    return None


def _one(step: Step, axis: int, column: jax.Array) -> Any:
    """One column of the step's output, [R, 1]."""
    equation, inputs = step.equation, step.inputs
    name, options, out = equation.primitive.name, equation.params, step.outputs[0]
    if name in ELEMENTWISE:
        return bound(equation, [_column(x, axis, column) for x in inputs])[0]
    if name == "transpose":
        return _column(inputs[0], 1 - axis, column)
    R = len(column)
    if name == "broadcast_in_dim":
        (x,), places = inputs, options["broadcast_dimensions"]
        own = places == (axis,) and x.shape[0] == out.shape[axis]
        numbers = jnp.take(x.whole, column, mode="clip") if own else jnp.ravel(x.whole)
        return jnp.broadcast_to(numbers[:, None], (R, 1))
    # The first operand makes the output's first axis, the second its second.
    matrix, rows = inputs[axis].whole, inputs[1 - axis].whole
    contracted = options["dimension_numbers"][0]
    along, across = contracted[axis][0], contracted[1 - axis][0]
    columns = jnp.take(jnp.moveaxis(matrix, along, 1), column, axis=0, mode="clip")  # [R, H]
    narrow = jnp.issubdtype(out.dtype, jnp.floating) and out.dtype.itemsize < 4
    kind = jnp.float32 if narrow else out.dtype  # narrow terms are added up in float32
    terms = jnp.moveaxis(rows, across, 1).astype(kind) * columns.astype(kind)
    return terms.sum(axis=1, keepdims=True).astype(out.dtype)


def _column(number: Number, axis: int, column: jax.Array) -> Any:
    """One column of a number [R, K], [1, K], [R, 1] or of a single one; axis: along which its
    columns are.
    """
    if number.one is not None:
        return number.one
    if not number.shape:
        return number.whole
    whole = number.whole if axis == 1 else number.whole.T
    if number.shape[axis] == 1:
        return whole
    if number.shape[1 - axis] == 1:
        return jnp.take(whole[0], column, mode="clip")[:, None]
    return jnp.take_along_axis(whole, column[:, None], axis=1, mode="clip")
