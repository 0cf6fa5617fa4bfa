"""Whether what follows a layer is affine: f(X) = layer(X) A + c.

Letters: R rows, H units of the layer, K outputs.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.models.structure.column_map import MOVES
from xaijax_kernels.engine.tiles import traced
from xaijax_kernels.structures.base import Affine

# Affine in what is moved or converted; the indices of moves must be constants. Not what has another
# derivative than its numbers have (stop_gradient), since the matrix is read from the derivative.
KEPT = MOVES | {"copy", "neg", "reduce_sum", "reshard"}
SUMS = {"add", "sub", "add_any"}
CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}
R = 32  # as many as the probe asks: for these the model is traced already
ROUNDINGS = 16


def affine(
    head: Any, params: Any, width: int, dtype: Any, programs: dict[Any, Any]
) -> Affine | None:
    """(A float64 [H, K], c [K]) where head(params, hidden [R, H]) is hidden A + c, else None.

    It is told by the trace. programs: of the head; what is compiled here is put there.

    A row's answer is taken to depend on that row alone, as the probe made sure.
    """
    jaxpr = traced(head, params, jax.ShapeDtypeStruct((R, width), dtype)).jaxpr
    inputs = [False] * (len(jaxpr.invars) - 1) + [True]
    if not all(_outputs(jaxpr, inputs) or [False]):
        return None
    some = np.random.default_rng(0).normal(size=(R, width)).astype(dtype)

    # Step by step, each of its steps would be a program of its own.
    def numbers(params: Any, some: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        def answer(hidden: jax.Array) -> jax.Array:
            return head(params, hidden).reshape(R, -1)

        # By the derivative: differences of answers would drown in a large c.
        constant, change = jax.linearize(answer, jnp.zeros((R, width), dtype))
        units = jnp.pad(jnp.eye(width, dtype=dtype), ((0, -width % R), (0, 0)))
        return constant[0], jax.lax.map(change, units.reshape(-1, R, width)), answer(some)

    run = programs.setdefault("affine", jax.jit(numbers))
    c, found, answer = (np.asarray(one, np.float64) for one in run(params, some))
    A = found.reshape(-1, found.shape[-1])[:width]
    return (A, c) if _agrees(answer, some, A, c, dtype) else None


def _agrees(
    answer: np.ndarray, hidden: np.ndarray, A: np.ndarray, c: np.ndarray, dtype: Any
) -> bool:
    """Whether the answer to some hidden numbers is hidden A + c, not only by the derivative.

    A sum of H products rounds by a few times sqrt(H) units at the size of its terms.
    """
    sizes = np.abs(hidden) @ np.abs(A) + np.abs(c)
    accepted = ROUNDINGS * float(jnp.finfo(dtype).eps) * sizes
    return bool((np.abs(hidden @ A + c - answer) <= accepted).all())


def _outputs(jaxpr: Any, inputs: list[bool]) -> list[bool] | None:
    """Which outputs depend on the inputs that are marked; None: not by sums and moves alone."""
    depends = dict(zip(jaxpr.invars, inputs, strict=True))

    def marked(variable: Any) -> bool:
        return not hasattr(variable, "val") and depends.get(variable, False)

    for equation in jaxpr.eqns:
        name = equation.primitive.name
        own = [marked(v) for v in equation.invars]
        out = [any(own)] * len(equation.outvars)
        if any(own):
            if name in CALLS:
                inner = _outputs(equation.params[CALLS[name]].jaxpr, own)
                if inner is None:
                    return None
                out = inner
            elif not _is_affine(equation, name, own):
                return None
        depends.update(zip(equation.outvars, out, strict=True))
    return [marked(v) for v in jaxpr.outvars]


def _is_affine(equation: Any, name: str, own: list[bool]) -> bool:
    floats = all(jnp.issubdtype(v.aval.dtype, jnp.floating) for v in equation.outvars)
    if not floats:
        return False
    if name == "convert_element_type":  # to fewer digits it is a rounding
        before, after = equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
        return bool(jnp.finfo(after).bits >= jnp.finfo(before).bits)
    if name in SUMS or name in ("concatenate", "stack"):
        return True
    if name in KEPT:
        return not any(own[1:])
    if name in ("mul", "dot_general"):
        return sum(own) == 1
    return name == "div" and not own[1]
