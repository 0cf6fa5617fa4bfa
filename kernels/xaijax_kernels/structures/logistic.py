"""Heads that are affine in a logistic function of one sum, as their traces say.

A softmax of two numbers is the logistic function of their difference, and one less that.
`chances.py` takes the mean of such answers over donors. Letters: R rows, H units, A answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels.engine.steps import Number, Step, bound, opened
from xaijax_kernels.structures.base import Head

MOVES = frozenset("reshape squeeze broadcast_in_dim copy".split())
SUMS = frozenset("add add_any sub".split())
# What else only moves numbers; a place is a constant, or comes of a step that is none of these.
LATER = MOVES | frozenset("concatenate dynamic_slice gather rev slice stack transpose".split())


@dataclass(frozen=True)
class Logistic:
    """head(hidden [R, H]) = offset + gain times the logistic function of hidden slope + start."""

    slope: jax.Array  # [H]
    start: jax.Array  # []
    offset: jax.Array  # [A]
    gain: jax.Array  # [A]

    def sums(self, parts: jax.Array) -> jax.Array:
        """What parts [.., H] of the layer add to the argument of the logistic function; [..]."""
        return (parts * self.slope).sum(axis=-1)

    def answers(self, chances: jax.Array) -> jax.Array:
        """The answers [R, A] to rows of such chances [R]."""
        return self.offset + chances[:, None] * self.gain


def logistic(head: Head, shape: tuple[int, int], dtype: Any) -> Logistic | None:
    """What the head is of hidden numbers of such a shape [R, H]; None: it is something else.

    A row's answer is taken to depend on that row alone, as the probe made sure.
    """
    if jnp.dtype(dtype) not in (jnp.float32, jnp.float64):
        return None
    trace = jax.make_jaxpr(head)(jax.ShapeDtypeStruct(shape, dtype))
    hidden, steps, rows = Number(shape, jnp.dtype(dtype)), [], shape[0]
    outputs = opened(trace.jaxpr, trace.consts, [hidden], steps)
    steps = _softmax_as_one(steps, rows)
    found = _divided(steps, hidden)
    if found is None or len(outputs) != 1:
        return None
    free, before, (middle,), after = found
    made = {number for step in (middle, *after) for number in step.outputs}
    if outputs[0] not in made:  # the chance is not what is answered
        return None

    two = middle.equation is None

    def rest(chances: jax.Array) -> jax.Array:
        both = jnp.stack([1 - chances, chances], axis=1) if two else chances
        known = {middle.outputs[0]: both.reshape(middle.outputs[0].shape)}
        return _run([*free, *after], known, outputs[0]).reshape(rows, -1)[0]

    def argument(numbers: jax.Array) -> jax.Array:
        own = _run([*free, *before], {hidden: numbers}, middle.inputs[0])
        return own[0, 1] - own[0, 0] if two else own.ravel()[0]

    # By derivatives: a difference of two answers would round off what they have in common.
    start, slope = jax.value_and_grad(argument)(jnp.zeros(shape, dtype))
    zero = jnp.zeros((rows,), dtype)
    return Logistic(slope[0], start, *jax.jvp(rest, (zero,), (jnp.ones_like(zero),)))


Divided = tuple[list[Step], list[Step], list[Step], list[Step]]


def _divided(steps: list[Step], hidden: Number) -> Divided | None:
    """The steps that do not read the hidden numbers, those before the logistic function, itself,
    and those after; None: another head.
    """
    parts: Divided = ([], [], [], [])
    stage = {hidden: 1}  # of a number: what it is made by
    for step in steps:
        stages = {stage.get(number, 0) for number in step.inputs}
        two = step.equation is None
        if {1, 3} <= stages or not (two or not step.equation.effects):
            return None
        own = max(stages, default=0)
        if own == 1:
            if math.prod(step.outputs[0].shape) != math.prod(hidden.shape):
                return None
            if two or (step.equation.primitive.name == "logistic" and hidden.shape[1] == 1):
                if parts[2]:
                    return None
                own = 2
            elif not _affine(step, stage, 1, MOVES):
                return None
        elif own > 1 and not _affine(step, stage, 3, LATER):
            # A sum of 0 is a chance of exactly one half, which the exponentials may miss by a last
            # bit: what steps, rounds or divides by a chance could make a whole answer of that.
            return None
        parts[own].append(step)
        stage.update(dict.fromkeys(step.outputs, 3 if own == 2 else own))
    return parts if parts[2] else None


def _softmax_as_one(steps: list[Step], rows: int) -> list[Step]:
    """The steps, those of a softmax [rows, 2] as one step without an equation."""
    maker = {number: step for step in steps for number in step.outputs}

    def made(number: Number, name: str, own: list[Step]) -> Number | None:
        """What the step `name` reads by which a number is made, and moved; these go into own."""
        while (step := maker.get(number)) is not None:
            own.append(step)
            if step.equation.primitive.name == name:
                return step.inputs[0] if step.equation.params.get("axes", (1,)) == (1,) else None
            at = 1 if step.equation.primitive.name == "max" else 0  # of -inf, and what is moved
            if at and (step.inputs[0].whole is None or step.inputs[0].whole != -jnp.inf):
                return None
            if not at and step.equation.primitive.name not in {*MOVES, "stop_gradient"}:
                return None
            number = step.inputs[at]
        return None

    def parts_of(last: Step) -> tuple[Number, list[Step]] | None:
        """(the numbers, all steps) of the softmax of which this is the last step."""
        own = [last]
        if last.equation.primitive.name != "div" or last.outputs[0].shape != (rows, 2):
            return None
        less = made(last.inputs[0], "exp", own)
        if less is None or made(last.inputs[1], "reduce_sum", own) is not last.inputs[0]:
            return None
        numbers = made(less, "sub", own)
        if numbers is None or own[-1].outputs[0] is not less:
            return None
        largest = made(own[-1].inputs[1], "reduce_max", own)
        return (numbers, own) if largest is numbers and numbers.shape == (rows, 2) else None

    for last in steps:
        if found := parts_of(last):
            numbers, own = found
            inner = {number for step in own if step is not last for number in step.outputs}
            rest = [step for step in steps if step not in own]
            if not any(inner & set(step.inputs) for step in rest):
                one = Step(None, [numbers], last.outputs)
                steps = [one if step is last else step for step in steps]
                return [step for step in steps if step is one or step not in own]
    return steps


def _affine(step: Step, stage: dict[Number, int], of: int, moves: frozenset[str]) -> bool:
    """Whether a step is affine in the numbers of the stage `of` that it reads."""
    name = step.equation.primitive.name
    own = [stage.get(number, 0) == of for number in step.inputs]
    same = all(
        number.dtype == step.outputs[0].dtype
        for number, reads in zip(step.inputs, own, strict=True)
        if reads or name not in moves  # places are whole numbers
    )
    if len(step.outputs) != 1 or not same:
        return False
    if name in moves:
        return all(own) if name in ("concatenate", "stack") else own[0] and not any(own[1:])
    if name in SUMS:
        return True
    if name == "neg" or (name == "reduce_sum" and of > 1):
        return True
    if name == "mul" or (name == "dot_general" and of > 1):
        return sum(own) == 1
    return name == "div" and not own[1]


def _run(steps: list[Step], known: dict[Number, Any], wanted: Number) -> Any:
    """The number that is wanted, of those that are known."""

    def read(number: Number) -> Any:
        return known[number] if number in known else number.whole

    for step in steps:
        found = bound(step.equation, [read(number) for number in step.inputs])
        known.update(zip(step.outputs, found, strict=True))
    return read(wanted)
