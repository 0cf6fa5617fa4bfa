"""The steps of a trace: which treat each number by itself, which are calls, how one is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax.extend.core import Literal

ELEMENTWISE = frozenset(
    "abs add and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy cos cosh "
    "div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le log log1p "
    "logistic lt max min mul ne neg nextafter not or pow rem reshard round rsqrt select_n sign sin "
    "sinh sqrt square stop_gradient sub tan tanh xor".split()
)
# The parameter that holds the steps of a call.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
}


def bound(equation: Any, inputs: list[Any]) -> list[Any]:
    """The outputs of one equation of a trace, of numbers or of what stands for them."""
    primitive = equation.primitive
    options = primitive.get_bind_params(equation.params)
    # jax 0.10 gives (functions, options), jax 0.12 the options alone.
    functions, options = options if isinstance(options, tuple) else ((), options)
    out = primitive.bind(*functions, *inputs, **options)
    return list(out) if primitive.multiple_results else [out]


@dataclass(eq=False)
class Number:
    """What a step makes or takes."""

    shape: tuple[int, ...]
    dtype: Any
    whole: Any = None  # the numbers themselves, once they are made
    one: Any = None  # [R, 1], one column of each row


@dataclass(eq=False)
class Step:
    """An equation of the trace; calls in it are opened."""

    equation: Any
    inputs: list[Number]
    outputs: list[Number]


def opened(
    jaxpr: Any,
    consts: Any,
    given: list[Number],
    steps: list[Step],
    calls: Mapping[str, str] = CALLS,
) -> list[Number]:
    """The outputs of a trace; its steps are added to `steps`, those of calls in their place."""
    numbers: dict[Any, Number] = dict(zip(jaxpr.invars, given, strict=True))
    for variable, value in zip(jaxpr.constvars, consts, strict=True):
        numbers[variable] = Number(jnp.shape(value), jnp.result_type(value), value)

    def read(atom: Any) -> Number:
        if isinstance(atom, Literal):
            return Number(jnp.shape(atom.val), jnp.result_type(atom.val), atom.val)
        return numbers[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        inner = equation.params.get(calls.get(equation.primitive.name, ""))
        if inner is not None:
            outputs = opened(inner.jaxpr, inner.consts, inputs, steps, calls)
        else:
            outputs = [Number(v.aval.shape, v.aval.dtype) for v in equation.outvars]
            steps.append(Step(equation, inputs, outputs))
        numbers.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]
