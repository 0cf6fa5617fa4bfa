"""Steps that only move numbers: NumPy puts each where JAX does."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from xaijax.models.structure.found import (
    ROW_MOVES,
    SMALL_ARRAY,
    evaluated,
    is_small_move,
    moved,
)
from xaijax_kernels.engine.steps import bound

X = np.arange(2 * 3 * 4, dtype=np.int32).reshape(2, 3, 4)

STEPS = {
    "broadcast_in_dim": [
        lambda x: lax.broadcast_in_dim(x, (5, 2, 3, 4), (1, 2, 3)),
        lambda x: lax.broadcast_in_dim(x[:, :1], (2, 7, 4, 2), (0, 1, 2)),
    ],
    "concatenate": [lambda x: lax.concatenate([x, x[:, 1:], x], 1)],
    "dynamic_slice": [
        lambda x: lax.dynamic_slice(x, (0, 1, 2), (2, 2, 2)),
        lambda x: lax.dynamic_slice(x, (0, -5, 9), (2, 2, 3)),  # out of bounds: moved inside
    ],
    "reshape": [lambda x: lax.reshape(x, (4, 6)), lambda x: lax.reshape(x, (12, 2), (2, 0, 1))],
    "rev": [lambda x: lax.rev(x, (1, 2))],
    "slice": [
        lambda x: lax.slice(x, (0, 1, 0), (2, 3, 4)),
        lambda x: lax.slice(x, (0, 0, 1), (2, 3, 4), (1, 2, 2)),
    ],
    "squeeze": [lambda x: lax.squeeze(x[:, 1:2], (1,))],
    "expand_dims": [lambda x: lax.expand_dims(x, (1, 3))],
    "transpose": [lambda x: lax.transpose(x, (2, 0, 1))],
}


@pytest.mark.parametrize("name", ROW_MOVES)
def test_as_jax_moves_them(name: str) -> None:
    compared = 0
    for step in STEPS[name]:
        traced = jax.make_jaxpr(step)(X)
        values = dict(zip(traced.jaxpr.invars, [X], strict=True))
        for equation in traced.jaxpr.eqns:
            inputs = [one.val if hasattr(one, "val") else values[one] for one in equation.invars]
            wanted = np.asarray(bound(equation, [jnp.asarray(one) for one in inputs])[0])
            found = moved(equation, inputs)
            assert found.shape == wanted.shape and found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
            values[equation.outvars[0]] = wanted
            compared += 1
    assert compared


def test_constants_are_moved_while_others_are_traced() -> None:
    """Also in an order of axes that NumPy is not asked for. The broken version left a tracer."""
    for step in (step for steps in STEPS.values() for step in steps):
        equation = jax.make_jaxpr(step)(X).jaxpr.eqns[-1]
        shapes = [one.aval.shape for one in equation.invars]
        if len(shapes) > 1:
            continue

        def traced(number, equation=equation, shape=shapes[0]):
            known = jnp.arange(np.prod(shape), dtype=jnp.int32).reshape(shape)
            return number + jnp.sum(jnp.asarray(evaluated(equation, [known])[0]))

        own = jnp.arange(np.prod(shapes[0]), dtype=jnp.int32).reshape(shapes[0])
        wanted = int(np.asarray(bound(equation, [own])[0]).sum())
        assert int(jax.jit(traced)(jnp.int32(0))) == wanted


def test_a_piece_of_a_large_array_stays_on_its_device() -> None:
    large = jnp.zeros(SMALL_ARRAY, jnp.float32)
    equation = jax.make_jaxpr(lambda x: lax.slice(x, (0,), (3,)))(large).jaxpr.eqns[0]
    assert not is_small_move(equation, [large])
    small = jax.make_jaxpr(lambda x: lax.slice(x, (0,), (3,)))(large[:8]).jaxpr.eqns[0]
    assert is_small_move(small, [large[:8]])
