"""One output of each row: it is that column of all of them, and the others are not made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xaijax_kernels.engine.tiles import LEAST_COLUMNS, Traced

pytestmark = pytest.mark.usefixtures("strict_numerics")

R, F, H, K = 37, 5, 8, LEAST_COLUMNS
RNG = np.random.default_rng(0)
ROWS, FIRST, LAST, BIAS = (
    RNG.normal(size=size).astype(np.float32) for size in ((R, F), (F, H), (H, K), (K,))
)
COLUMN = RNG.integers(0, K, (R, 1))


def hidden(params: Any, rows: Any) -> Any:
    return jnp.tanh(rows @ params["first"])


def dense(params: Any, rows: Any) -> Any:
    return hidden(params, rows) @ params["last"] + params["bias"]


def transposed(params: Any, rows: Any) -> Any:
    """As a module of one row that is mapped over them: [K, H] times [H]."""
    return jax.vmap(lambda row: params["last"].T @ row + params["bias"])(hidden(params, rows))


def called(params: Any, rows: Any) -> Any:
    return jax.jit(dense)(params, rows)


def scaled(params: Any, rows: Any) -> Any:
    """By a number of the row, one of the column and a number."""
    own = hidden(params, rows)
    return 0.5 * dense(params, rows) * own[:, :1] - params["bias"][None] * own.sum(1, keepdims=True)


def constant(params: Any, rows: Any) -> Any:
    return hidden(params, rows) @ jnp.asarray(LAST) + jnp.asarray(BIAS)


def activated(params: Any, rows: Any) -> Any:
    out = jax.nn.relu(dense(params, rows)) + jax.nn.sigmoid(dense(params, rows))
    return jnp.where(out > 0.5, out, jax.nn.gelu(out))


def narrow(params: Any, rows: Any) -> Any:
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    return dense(half, rows.astype(jnp.bfloat16)).astype(jnp.float32)


def softmax(params: Any, rows: Any) -> Any:
    return jax.nn.softmax(dense(params, rows))


def two_uses(params: Any, rows: Any) -> Any:
    """The product is taken whole for the largest: the one column comes from the same numbers."""
    out = dense(params, rows)
    return out - out.max(axis=1, keepdims=True)


def few(params: Any, rows: Any) -> Any:
    return dense(params, rows)[:, : K - 1]


def second(params: Any, rows: Any) -> Any:
    """The answer is what a step gives beside something else."""

    def step(carry: Any, _: None) -> Any:
        count, out = carry
        return (count + 1, jnp.tanh(out)), None

    (_, out), _ = jax.lax.scan(step, (0, dense(params, rows)), None, length=2)
    return out


CUT = (dense, transposed, called, scaled, constant, activated, narrow)
WHOLE = (softmax, two_uses, few, second)


def traced(model: Callable[[Any, Any], Any]) -> tuple[Traced, dict[str, Any]]:
    params = {"first": FIRST, "last": LAST, "bias": BIAS}
    return Traced(model, params, jax.ShapeDtypeStruct(ROWS.shape, ROWS.dtype)), params


@pytest.mark.parametrize("model", (*CUT, *WHOLE))
def test_it_is_the_column_of_all(model: Any) -> None:
    trace, params = traced(model)
    column = np.minimum(COLUMN, K - 2)
    found = jax.jit(trace.one_output)(params, ROWS, column.astype(np.float32))
    every = np.asarray(jax.jit(model)(params, ROWS), np.float64)
    assert found.shape == (R, 1)
    # Sums of H products in another order: H roundings of what the terms' sizes come to.
    size = np.abs(np.tanh(ROWS @ FIRST)) @ np.abs(LAST) + np.abs(BIAS)
    rounding = 2.0**-8 if model is narrow else 2.0**-23
    close = 4 * (H + 2) * rounding * (1 + size.max())
    np.testing.assert_allclose(found, np.take_along_axis(every, column, 1), rtol=0, atol=close)


@pytest.mark.parametrize("model", (*CUT, *WHOLE))
def test_the_others_are_not_made(model: Any) -> None:
    trace, params = traced(model)
    steps = str(jax.make_jaxpr(trace.one_output)(params, ROWS, COLUMN))
    made = any(f"{kind}[{shape}]" in steps for kind in ("f32", "bf16") for shape in SHAPES)
    assert made == (model in WHOLE)


SHAPES = (f"{R},{K}", f"{K},{R}")
