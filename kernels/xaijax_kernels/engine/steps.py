"""The steps of a trace: which are elementwise, which are calls, how one is evaluated, and how many
operations each takes.

Letters: R rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax.extend.core import Literal

ELEMENTWISE = frozenset(
    "abs add and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy cos cosh "
    "div eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le log log1p "
    "logistic lt max min mul ne neg nextafter not or pow reduce_precision rem reshard round rsqrt "
    "select_n sign sin sinh sqrt square stop_gradient sub tan tanh xor".split()
)
# The parameter that holds the steps of a call.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
}


def bound(equation: Any, inputs: list[Any]) -> list[Any]:
    """Evaluates one equation of a trace, on numbers or on tracers."""
    primitive = equation.primitive
    options = primitive.get_bind_params(equation.params)
    # jax 0.10 gives (functions, options), jax 0.12 the options alone.
    functions, options = options if isinstance(options, tuple) else ((), options)
    out = primitive.bind(*functions, *inputs, **options)
    return list(out) if primitive.multiple_results else [out]


@dataclass(eq=False)
class Number:
    """The inputs or outputs of a step."""

    shape: tuple[int, ...]
    dtype: Any
    whole: Any = None  # the numbers themselves, once they are computed
    one: Any = None  # [R, 1], one column of each row


@dataclass(eq=False)
class Step:
    """An equation of the trace, with calls inlined."""

    equation: Any
    inputs: list[Number]
    outputs: list[Number]


def opened(
    jaxpr: Any,
    consts: Any,
    arguments: list[Number],
    steps: list[Step],
    calls: Mapping[str, str] = CALLS,
) -> list[Number]:
    """The outputs of a trace. Appends its steps to `steps`, with calls inlined."""
    numbers: dict[Any, Number] = dict(zip(jaxpr.invars, arguments, strict=True))
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


# One operation for each number computed, and two for each term of a matrix product. A pure function
# of the trace, so that decisions based on it are the same on every machine.

PRODUCTS = ("dot_general", "conv_general_dilated")
INSIDE = ("jaxpr", "call_jaxpr", "fun_jaxpr", "body_jaxpr")


def operations(jaxpr: Any, rows: int) -> float:
    """Operations per row of a model traced with `rows` rows."""
    return counted(jaxpr, operations_of) / rows


def numbers_made(jaxpr: Any, rows: int) -> float:
    """Numbers per row that all steps compute: what a derivative may have to store."""
    return counted(jaxpr, _made) / rows


def counted(jaxpr: Any, of_step: Callable[[Any], float]) -> float:
    """The sum of `of_step` over all steps of a trace.

    The steps of a `scan` count once per iteration, those of a `while_loop` once, because the trace
    does not tell its iterations. A `cond` counts as its largest branch.
    """
    return math.fsum(_one(equation, of_step) for equation in jaxpr.eqns)


def largest_product(jaxpr: Any) -> int:
    """Bytes of the largest result of a matrix product in a trace. No compiler fuses a product with
    the steps after it, so running the trace needs this memory. A product with one term does not
    count.
    """
    largest = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name in PRODUCTS and operations_of(equation) > 2 * _made(equation):
            made = equation.outvars[0].aval
            largest = max(largest, math.prod(made.shape) * made.dtype.itemsize)
        for value in equation.params.values():
            for item in map(_open, value if isinstance(value, tuple | list) else (value,)):
                if hasattr(item, "eqns"):
                    largest = max(largest, largest_product(item))
    return largest


def _one(equation: Any, of_step: Callable[[Any], float]) -> float:
    name, options = equation.primitive.name, equation.params
    if name == "scan":
        return float(options["length"]) * counted(_open(options["jaxpr"]), of_step)
    if name == "cond":
        branches = map(_open, options["branches"])
        return max((counted(branch, of_step) for branch in branches), default=0.0)
    inner = [_open(options[key]) for key in INSIDE if hasattr(_open(options.get(key)), "eqns")]
    return counted(inner[0], of_step) if inner else of_step(equation)


def operations_of(equation: Any) -> float:
    """Operations of one step."""
    made, options = _made(equation), equation.params
    if equation.primitive.name == "dot_general":
        left = equation.invars[0].aval.shape
        return 2.0 * made * math.prod(left[axis] for axis in options["dimension_numbers"][0][0])
    if equation.primitive.name == "conv_general_dilated":
        kernel, outputs = equation.invars[1].aval.shape, options["dimension_numbers"].rhs_spec[0]
        return 2.0 * made * math.prod(kernel) / max(1, kernel[outputs])
    return float(max([made, *map(_size, equation.invars)]))


def _made(equation: Any) -> float:
    return float(sum(_size(v) for v in equation.outvars))


def _open(jaxpr: Any) -> Any:
    """The jaxpr of a closed trace, without its constants."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def _size(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))
