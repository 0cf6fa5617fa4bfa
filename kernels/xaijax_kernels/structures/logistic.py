"""Heads that begin with a logistic function of one sum: corners without an exponential of each.

    1 / (1 + exp(-(a + c))) = exp(a) / (exp(a) + exp(-c)).

The sums of a slot's corners are those of two tables, a of some players and c of the others. So the
exponentials belong to the tables, and a corner costs an addition and a division. Each exponential
is off by some units in the last place, and so is the answer, as by the sum's own rounding. Where
the terms could leave the range of the exponential, the corners are answered by the sum.

Letters: R rows, T slots, m and n entries of their tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels.engine.steps import Number, Step, bound, opened
from xaijax_kernels.structures.base import Head, Layer

MOVES = frozenset("reshape squeeze broadcast_in_dim copy".split())
SUMS = frozenset("add add_any sub".split())
# What else only moves numbers; a place is a constant, or comes of a step that is none of these.
LATER = MOVES | frozenset("concatenate dynamic_slice gather rev slice stack transpose".split())


@dataclass(frozen=True)
class Logistic:
    """head(hidden [R, 1]) = rest(the logistic function of slope hidden + start)."""

    slope: jax.Array
    start: jax.Array
    rest: Callable[[jax.Array], jax.Array]  # chances [R] -> answers [R, A]

    def __call__(self, hidden: jax.Array) -> jax.Array:
        """Its answers by the sums, as any head's."""
        return self.rest(jax.nn.sigmoid(self.slope * hidden[:, 0] + self.start))

    def reaches(self, size: jax.Array) -> jax.Array:
        """Whether exponentials of sums of terms, and their own sums, keep all their digits; bool.

        size: a bound of |any sum of the terms|, of which a NaN is beyond.
        """
        limit = math.log(float(jnp.finfo(size.dtype).max)) - 4
        return abs(self.slope) * size + abs(self.start) < limit

    def answers(self, first: jax.Array, second: jax.Array) -> jax.Array:
        """To all sums of an entry of second [T, m, 1] and one of first [T, n, 1]; [T m n, A]."""
        a = self.slope * first[:, :, 0] + self.start
        c = self.slope * second[:, :, 0]
        # Written out, or the compiler makes the exponentials again for each corner.
        grown, shrunk = jax.lax.optimization_barrier((jnp.exp(a), jnp.exp(-c)))
        own = grown[:, None]
        return self.rest((own / (own + shrunk[:, :, None])).ravel())


def in_exponentials(known: Layer, head: Head, rows: int, dtype: Any) -> Logistic | None:
    """The head, where its exponentials can be those of tables of the layer's sums; corners are
    asked in tiles of so many rows.
    """
    return logistic(head, known.block(rows), dtype) if known.adds and known.width == 1 else None


def largest_sum(
    known: Layer,  # of one unit, a sum over columns
    x: jax.Array,  # [F]
    donors: jax.Array,  # [D, S, F]
    each: jax.Array,  # bool [P + 1, F], the columns of each player, and those that are x's
) -> jax.Array:
    """A bound of |any sum of terms| of hybrids of x and a donor: sizes of terms added up; []."""
    own = jnp.concatenate([each, ~each.any(axis=0, keepdims=True)])  # the rest is the donor's
    own = known.of_columns(own)

    def terms(rows: jax.Array) -> jax.Array:
        columns = known.columns(rows)
        many = jnp.repeat(columns, len(own), axis=0), jnp.tile(own, (len(rows), 1))
        return abs(known.part(*many)).reshape(len(rows), len(own)).max(axis=0)

    largest = jnp.maximum(terms(x[None]), jax.lax.map(terms, donors).max(axis=0))
    nothing = known.nothing(1, donors.dtype)
    return abs(known.joined(nothing, nothing)).sum() + largest.sum()


def logistic(head: Head, rows: int, dtype: Any) -> Logistic | None:
    """What the head is, where it is that for so many rows; None: it is something else.

    A row's answer is taken to depend on that row alone, as the probe made sure.
    """
    if jnp.dtype(dtype) not in (jnp.float32, jnp.float64):
        return None
    trace = jax.make_jaxpr(head)(jax.ShapeDtypeStruct((rows, 1), dtype))
    hidden, steps = Number((rows, 1), jnp.dtype(dtype)), []
    outputs = opened(trace.jaxpr, trace.consts, [hidden], steps)
    found = _divided(steps, hidden, rows)
    if found is None or len(outputs) != 1:
        return None
    free, before, (middle,), after = found
    made = {number for step in (middle, *after) for number in step.outputs}
    if outputs[0] not in made:  # the chance is not what is answered
        return None

    def chances_to_answers(chances: jax.Array) -> jax.Array:
        known = {middle.outputs[0]: chances.reshape(middle.outputs[0].shape)}
        return _run([*free, *after], known, outputs[0])

    def argument(numbers: jax.Array) -> jax.Array:
        return _run([*free, *before], {hidden: numbers}, middle.inputs[0]).ravel()[0]

    zero = jnp.zeros((rows, 1), dtype)
    start, slope = jax.jvp(argument, (zero,), (jnp.ones_like(zero),))
    return Logistic(slope, start, chances_to_answers)


Divided = tuple[list[Step], list[Step], list[Step], list[Step]]


def _divided(steps: list[Step], hidden: Number, rows: int) -> Divided | None:
    """The steps that do not read the hidden numbers, those before the logistic function, itself,
    and those after; None: another head.
    """
    parts: Divided = ([], [], [], [])
    stage = {hidden: 1}  # of a number: what it is made by
    for step in steps:
        stages = {stage.get(number, 0) for number in step.inputs}
        if step.equation.effects or {1, 3} <= stages:
            return None
        own = max(stages, default=0)
        if own == 1:
            if step.equation.primitive.name == "logistic":
                if parts[2]:
                    return None
                own = 2
            elif not _affine(step, stage, 1, MOVES):
                return None
            if math.prod(step.outputs[0].shape) != rows:
                return None
        elif own > 1 and not _affine(step, stage, 3, LATER):
            # A sum of 0 is a chance of exactly one half, which the exponentials may miss by a last
            # bit: what steps, rounds or divides by a chance could make a whole answer of that.
            return None
        parts[own].append(step)
        stage.update(dict.fromkeys(step.outputs, 3 if own == 2 else own))
    return parts if parts[2] else None


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
