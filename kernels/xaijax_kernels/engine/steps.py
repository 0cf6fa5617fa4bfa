"""The steps of a trace: which treat each number by itself, which are calls, how one is taken."""

from __future__ import annotations

from typing import Any

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
