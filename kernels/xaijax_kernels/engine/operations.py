"""How many operations a model takes for a row, and how many numbers it makes, by its trace.

Counted as numbers that are made, and two for each product of a sum of products; a pure function of
the trace, so that what is decided by it is the same on every machine.

Letters: R rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

PRODUCTS = ("dot_general", "conv_general_dilated")
CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr", "body_jaxpr")


def operations(jaxpr: Any, rows: int) -> float:
    """Operations for each row of a model traced with `rows` rows."""
    return counted(jaxpr, operations_of) / rows


def numbers_made(jaxpr: Any, rows: int) -> float:
    """Numbers of all steps, for each row: what a derivative may have to keep."""
    return counted(jaxpr, _made) / rows


def counted(jaxpr: Any, of_step: Callable[[Any], float]) -> float:
    """The sum of `of_step` over all steps of a trace.

    The steps of a `scan` count as often as they are taken. Those of a `while_loop` count once,
    because the trace does not say how often they are taken. A `cond` counts as its largest branch.
    """
    return math.fsum(_one(equation, of_step) for equation in jaxpr.eqns)


def _one(equation: Any, of_step: Callable[[Any], float]) -> float:
    name, options = equation.primitive.name, equation.params
    if name == "scan":
        return float(options["length"]) * counted(_open(options["jaxpr"]), of_step)
    if name == "cond":
        branches = map(_open, options["branches"])
        return max((counted(branch, of_step) for branch in branches), default=0.0)
    inner = [_open(options[key]) for key in CALLS if hasattr(_open(options.get(key)), "eqns")]
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
    """A trace without the constants that it is closed over."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def _size(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))
