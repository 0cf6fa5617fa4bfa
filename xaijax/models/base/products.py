"""Traces a function so that products with its parameters are taken in bfloat16 and added in
float32.

JAX's matrix precisions only permit a lower precision: a CPU still multiplies in float32, and
products of two arrays that depend on rows (attention) get the same precision as those of
parameters. Here both factors of each product with a parameter are rounded to bfloat16 in the trace,
so every device multiplies the same numbers. A product of two bfloat16 numbers is exact in float32.

`WORD` tells a TPU and an NVIDIA GPU to multiply in bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from xaijax.core.errors import InputError
from xaijax_kernels.engine.steps import PRODUCTS, bound
from xaijax_kernels.engine.tiles import traced

WORD = "BF16_BF16_F32"  # JAX's precision for a product whose precision the function does not set
_SAID = jax.lax.DotAlgorithmPreset[WORD]
_FULL = (jax.lax.Precision.HIGHEST,) * 2
BITS = {"exponent_bits": 8, "mantissa_bits": 7}  # of bfloat16
# The parameter that holds the trace of a step with the same inputs, by the step's name. Steps with
# a custom derivative are missing, because the products in that rule would not be rounded.
_INSIDE = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}


def in_bfloat16(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function`(params, rows) with its products rounded; name: the model's name, for messages.

    Products are rounded if one factor depends on no row. Others, and those whose precision the
    function sets, do not change.
    """

    def whole(params: Any, rows: Any) -> Any:
        trees: list[Any] = []

        def listed(params: Any, rows: Any) -> list[Any]:
            leaves, tree = jax.tree.flatten(function(params, rows))
            trees[:] = [tree]
            return leaves

        with jax.default_matmul_precision(WORD):
            closed = traced(listed, params, rows)
        param_leaves, row_leaves = jax.tree.leaves(params), jax.tree.leaves(rows)
        of_rows = [False] * len(param_leaves) + [True] * len(row_leaves)
        out, _ = _run(closed.jaxpr, closed.consts, [*param_leaves, *row_leaves], of_rows, name)
        return jax.tree.unflatten(trees[0], out)

    return whole


def _run(
    jaxpr: Any, consts: Any, inputs: list[Any], of_rows: list[bool], name: str
) -> tuple[list[Any], list[bool]]:
    """(the outputs of a trace, which of them depend on rows); of_rows: which inputs do."""
    values: dict[Any, tuple[Any, bool]] = {}
    values.update((v, (const, False)) for v, const in zip(jaxpr.constvars, consts, strict=True))
    values.update(zip(jaxpr.invars, zip(inputs, of_rows, strict=True), strict=True))

    def read(atom: Any) -> tuple[Any, bool]:
        return (atom.val, False) if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        pairs = [read(atom) for atom in equation.invars]
        numbers, marks = [number for number, _ in pairs], [of_row for _, of_row in pairs]
        depends = [any(marks)] * len(equation.outvars)
        if equation.primitive.name in PRODUCTS:
            equation, numbers = _product(equation, numbers, all(marks))
        elif equation.params.get("precision") == _SAID:
            raise _out_of_reach(name, f"by {equation.primitive.name}", "jax.lax.dot_general")
        elif any(map(_multiplies, _traces(equation))):
            equation, depends = _opened(equation, marks, name)
        made = zip(bound(equation, numbers), depends, strict=True)
        values.update(zip(equation.outvars, made, strict=True))
    outputs = [read(atom) for atom in jaxpr.outvars]
    return [number for number, _ in outputs], [of_row for _, of_row in outputs]


def _product(equation: Any, factors: list[Any], of_rows: bool) -> tuple[Any, list[Any]]:
    """(the step, its factors) of a product; of_rows: whether both factors depend on rows."""
    if equation.params["precision"] != _SAID:
        return equation, factors
    single = all(jnp.result_type(factor) == jnp.float32 for factor in factors)
    if of_rows or not single:
        said = _FULL if all(map(_floats, factors)) else None
        return _with(equation, precision=said), factors
    rounded = [jax.lax.reduce_precision(factor, **BITS) for factor in factors]
    return equation, rounded


def _floats(number: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(number), jnp.floating)


def _opened(equation: Any, marks: list[bool], name: str) -> tuple[Any, list[bool]]:
    """(a step whose traces have their products rounded, which of its outputs depend on rows)."""
    kind, options = equation.primitive.name, equation.params
    depends = [any(marks)] * len(equation.outvars)

    def rounded(inner: Any, marks: list[bool]) -> Any:
        return _rounded(inner, marks, name)

    if kind == "scan":
        first, carried = _of_scan(equation)
        each, carry = list(marks), slice(first, first + carried)
        each[carry] = _carried(options["jaxpr"], marks, carry)
        depends[:carried] = each[carry]
        return _with(equation, jaxpr=rounded(options["jaxpr"], each)), depends
    if kind == "while":
        first, second = options["cond_nconsts"], options["body_nconsts"]
        body_marks = marks[first:]
        body_marks[second:] = _carried(options["body_jaxpr"], body_marks, slice(second, None))
        made = {
            "cond_jaxpr": rounded(options["cond_jaxpr"], [*marks[:first], *body_marks[second:]]),
            "body_jaxpr": rounded(options["body_jaxpr"], body_marks),
        }
        return _with(equation, **made), body_marks[second:]
    if kind == "cond":
        branches = tuple(rounded(branch, marks[1:]) for branch in options["branches"])
        return _with(equation, branches=branches), depends
    place = _INSIDE.get(kind)
    if place is None:
        raise _out_of_reach(name, f"inside {kind}", f"steps without {kind}")
    return _with(equation, **{place: rounded(options[place], marks)}), depends


def _out_of_reach(name: str, where: str, instead: str) -> InputError:
    return InputError(
        f"precision='bfloat16' does not reach the products that {name} takes {where}. Say "
        f"precision='float32' or 'tf32', or write them by {instead}."
    )


def _of_scan(equation: Any) -> tuple[int, int]:
    """(number of constants of a scan, number of carried values).

    They are found by shapes, which are the same inside and outside the trace, because versions of
    JAX name them differently.
    """
    inner = equation.params["jaxpr"].jaxpr

    def same(outside: Any, inside: Any) -> int:
        return sum(a.aval.shape == b.aval.shape for a, b in zip(outside, inside, strict=True))

    carried = same(equation.outvars, inner.outvars)
    return same(equation.invars, inner.invars) - carried, carried


def _carried(inner: Any, marks: list[bool], carry: slice) -> list[bool]:
    """Which carried inputs of a loop's trace depend on rows in any iteration: a counter does
    not."""
    jaxpr, marks = inner.jaxpr, list(marks)
    while True:
        held = dict(zip(jaxpr.invars, marks, strict=True))

        def read(atom: Any, held: dict[Any, bool] = held) -> bool:
            return not isinstance(atom, Literal) and held.get(atom, False)

        for equation in jaxpr.eqns:
            held.update(dict.fromkeys(equation.outvars, any(map(read, equation.invars))))
        before = marks[carry]
        after = [read(atom) for atom in jaxpr.outvars[: len(before)]]
        marks[carry] = [old or new for old, new in zip(before, after, strict=True)]
        if marks[carry] == before:
            return before


def _rounded(inner: Any, marks: list[bool], name: str) -> Any:
    """A trace, closed or not, with its products rounded."""
    jaxpr, consts = getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())

    def run(*inputs: Any) -> list[Any]:
        return _run(jaxpr, consts, list(inputs), marks, name)[0]

    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in jaxpr.invars]
    weak = [getattr(v.aval, "weak_type", False) for v in jaxpr.invars]
    shapes = [shape.update(weak_type=w) for shape, w in zip(shapes, weak, strict=True)]
    made = traced(run, *shapes)
    return made if hasattr(inner, "jaxpr") else made.jaxpr


def _with(equation: Any, **options: Any) -> Any:
    return equation.replace(params={**equation.params, **options})


def _traces(equation: Any) -> Iterator[Any]:
    """The traces in a step."""
    for option in equation.params.values():
        for part in option if isinstance(option, tuple | list) else (option,):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield inner


def _multiplies(jaxpr: Any) -> bool:
    """Whether a trace has a product whose precision the function does not set."""
    for equation in jaxpr.eqns:
        if equation.params.get("precision") == _SAID:
            return True
        if any(map(_multiplies, _traces(equation))):
            return True
    return False
