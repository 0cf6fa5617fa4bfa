"""How many operations a model takes for a row, by its trace.

Counted as numbers that are made, and two for each product of a sum of products; a pure function of
the trace, so that what is decided by it is the same on every machine.

Letters: R rows.
"""

from __future__ import annotations

import math
from typing import Any

CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr", "body_jaxpr")


def operations(jaxpr: Any, rows: int) -> float:
    """Operations for each row of a model traced with `rows` rows.

    The steps of a `scan` count as often as they are taken; how often those of a `while_loop` are is
    not in the trace, and they count once. Of the branches of a `cond` the longest counts.
    """
    return _all(jaxpr) / rows


def _all(jaxpr: Any) -> float:
    return math.fsum(_one(equation) for equation in jaxpr.eqns)


def _one(equation: Any) -> float:
    name, options = equation.primitive.name, equation.params
    if name == "scan":
        return float(options["length"]) * _all(_open(options["jaxpr"]))
    if name == "cond":
        return max((_all(_open(branch)) for branch in options["branches"]), default=0.0)
    inner = [_open(options[key]) for key in CALLS if hasattr(_open(options.get(key)), "eqns")]
    if inner:
        return _all(inner[0])
    made = sum(_size(v) for v in equation.outvars)
    if name == "dot_general":
        left = equation.invars[0].aval.shape
        return 2.0 * made * math.prod(left[axis] for axis in options["dimension_numbers"][0][0])
    if name == "conv_general_dilated":
        kernel, outputs = equation.invars[1].aval.shape, options["dimension_numbers"].rhs_spec[0]
        return 2.0 * made * math.prod(kernel) / max(1, kernel[outputs])
    return float(max([made, *map(_size, equation.invars)]))


def _open(jaxpr: Any) -> Any:
    """A trace without the constants that it is closed over."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def _size(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))
