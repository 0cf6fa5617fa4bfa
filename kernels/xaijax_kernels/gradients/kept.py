"""How many numbers a model makes of a row: what its derivative may have to keep.

Letters: R rows.
"""

from __future__ import annotations

import math
from typing import Any

from xaijax_kernels.engine.operations import CALLS


def numbers_made(jaxpr: Any, rows: int) -> float:
    """Numbers of all steps of a model traced with `rows` rows, for each row.

    The steps of a `scan` count as often as they are taken, those of a `while_loop` once; of the
    branches of a `cond` the largest counts.
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
    return float(sum(math.prod(getattr(v.aval, "shape", ())) for v in equation.outvars))


def _open(jaxpr: Any) -> Any:
    return getattr(jaxpr, "jaxpr", jaxpr)
