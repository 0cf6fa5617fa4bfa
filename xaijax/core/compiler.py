"""Compiles programs so that a known compiler fault does not reach their answers.

XLA's CPU compiler fuses matrix products with the operations that follow them, for its library YNN.
If an operand of the product is one repeated number or vector (for example a matrix of ones), and a
sum, a mean or a maximum of at least 4,096 numbers is in the same fusion, the compiled program reads
memory outside the operand (jaxlib 0.12.0.1): its answers are wrong.

`compile_sound` checks a program that is compiled here. A function that becomes part of a caller's
program is traced with barriers around its products (`without_fused_products`), which that program
keeps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
from jax.extend.core import Jaxpr, Literal

# Turns off fusions for that library; other products and sums are compiled as before.
WITHOUT_FUSIONS = {"xla_cpu_experimental_ynn_fusion_type": ""}

_FUSION = "__ynn_fusion"
_CALLED = re.compile(r"calls=%?([\w.-]+)[^\n]*" + _FUSION)
_STEP = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = \S+ ([\w-]+)\(([^)]*)\)", re.MULTILINE)
_SAME = ("bitcast", "convert", "copy", "reshape", "transpose")  # the same numbers, elsewhere


_under_way: list[None] = []  # one for each program that a thread compiles now


@contextmanager
def compiling() -> Iterator[None]:
    """Marks a program as traced or compiled inside, for the progress bar."""
    _under_way.append(None)
    try:
        yield
    finally:
        _under_way.pop()


def is_compiling() -> bool:
    """Returns whether some thread of this process compiles a program now."""
    return bool(_under_way)


def compile_sound(lowered: Any) -> Any:
    """Returns `lowered.compile()`; if the program has a wrongly compiled fusion, without
    fusions.
    """
    with compiling():
        program = lowered.compile()
        if repeats_an_operand(program.as_text() or ""):
            return lowered.compile(compiler_options=WITHOUT_FUSIONS)
        return program


def without_fused_products(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the same function of arrays, traced so that XLA's CPU compiler fuses no product of it
    or of its derivative with the operations around it.
    """

    def traced(*args: Any) -> Any:
        closed, out = jax.make_jaxpr(function, return_shape=True)(*args)
        if not _has_products(closed.jaxpr):
            return function(*args)
        answers = _with_barriers(closed.jaxpr, closed.consts, jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(out), answers)

    return traced


def _has_products(jaxpr: Jaxpr) -> bool:
    """Whether a step of the trace, or of a function that it calls, is a matrix product."""
    return any(
        step.primitive.name == "dot_general" or any(map(_has_products, _inner(step.params)))
        for step in jaxpr.eqns
    )


def _inner(params: dict[str, Any]) -> list[Jaxpr]:
    """The traces among the parameters of a step."""
    several = [value if isinstance(value, tuple | list) else (value,) for value in params.values()]
    held = [getattr(value, "jaxpr", value) for values in several for value in values]
    return [value for value in held if isinstance(value, Jaxpr)]


def _with_barriers(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Evaluates the trace on its inputs, with a barrier before and after each product."""
    env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))

    def read(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else env[var]

    for step in jaxpr.eqns:
        inputs, params = [read(var) for var in step.invars], step.params
        product = step.primitive.name == "dot_general"
        if product:
            inputs = [_barrier(value) for value in inputs]
        elif any(map(_has_products, _inner(params))):
            params = {key: _rewritten(value) for key, value in params.items()}
        bound = step.primitive.get_bind_params(params)
        functions, options = bound if isinstance(bound, tuple) else ((), bound)  # JAX before 0.12
        with step.ctx.manager:
            made = step.primitive.bind(*functions, *inputs, **options)
        made = list(made) if step.primitive.multiple_results else [made]
        env.update(zip(step.outvars, map(_barrier, made) if product else made, strict=True))
    return [read(var) for var in jaxpr.outvars]


def _rewritten(option: Any) -> Any:
    """Returns a parameter of a step with barriers in its traces."""
    if isinstance(option, tuple | list):
        return type(option)(map(_rewritten, option)) if any(map(_is_trace, option)) else option
    if not _is_trace(option):
        return option
    jaxpr, consts = getattr(option, "jaxpr", option), getattr(option, "consts", ())
    shapes = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in jaxpr.invars]
    closed = jax.make_jaxpr(lambda *args: _with_barriers(jaxpr, consts, args))(*shapes)
    return closed if hasattr(option, "jaxpr") else closed.jaxpr


def _is_trace(option: Any) -> bool:
    return isinstance(getattr(option, "jaxpr", option), Jaxpr)


def _barrier(array: Any) -> Any:
    """Returns the array; on a CPU the compiler does not optimise across it."""
    return jax.lax.platform_dependent(
        array, cpu=jax.lax.optimization_barrier, default=lambda same: same
    )


def repeats_an_operand(text: str) -> bool:
    """Whether a program, as the compiler prints it, has a fusion of a product with a repeated
    operand.
    """
    if _FUSION not in text:
        return False
    return any(_repeats(text, name) for name in set(_CALLED.findall(text)))


def _repeats(text: str, name: str) -> bool:
    """Whether the fused computation with this name has a repeated operand."""
    start = re.search(rf"^%?{re.escape(name)} \(", text, re.MULTILINE)
    if start is None:
        return True  # not read: compiled without fusions, it is right
    body = text[start.start() : text.find("\n}", start.start())]
    steps = {made: (kind, operands) for made, kind, operands in _STEP.findall(body)}

    def repeated(operand: str) -> bool:
        words = operand.split("%")[-1].split()
        if not words or words[-1] not in steps:
            return True  # not read: compiled without fusions, it is right
        kind, operands = steps[words[-1]]
        return kind == "broadcast" or (kind in _SAME and repeated(operands))

    products = (operands for kind, operands in steps.values() if kind == "dot")
    return any(repeated(operand) for operands in products for operand in operands.split(","))
