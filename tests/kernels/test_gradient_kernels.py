"""The affine front of a model: found where there is one, and the same model in two halves."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xaijax_kernels.engine.steps import numbers_made
from xaijax_kernels.gradients.front import back, front, has_front

FEW, R, F = 4, 12, 6
RNG = np.random.default_rng(0)
W, V = (RNG.normal(size=size).astype(np.float32) for size in ((F, 5), (5, 2)))
KERNEL = RNG.normal(size=(2, 2, 1, 3)).astype(np.float32)
SPEC = ("NHWC", "HWIO", "NHWC")
PARAMS = {"W": W, "V": V, "k": KERNEL, "shift": np.arange(F, dtype=np.float32)}


def dense(p: Any, rows: Any) -> Any:
    return jnp.tanh((rows - p["shift"]) / 2 @ p["W"] + 1) @ p["V"]


def convolutional(p: Any, rows: Any) -> Any:
    images = rows.reshape(-1, 2, 3, 1)
    made = jax.lax.conv_general_dilated(images, p["k"], (1, 1), "SAME", dimension_numbers=SPEC)
    return jax.nn.relu(made).reshape(len(rows), -1).sum(axis=1)


def called(p: Any, rows: Any) -> Any:
    return jax.jit(dense)(p, rows)


def mapped(p: Any, rows: Any) -> Any:
    return jax.vmap(lambda row: jnp.tanh(p["W"].T @ row).sum())(rows)


def skipped(p: Any, rows: Any) -> Any:
    """The rows themselves leave the front too."""
    return jnp.tanh(rows @ p["W"]).sum(axis=1) + jnp.sin(rows).sum(axis=1)


def linear(p: Any, rows: Any) -> Any:
    return (rows - p["shift"]) @ p["W"] @ p["V"]


FRONTS = {"dense": dense, "convolutional": convolutional, "called": called, "skipped": skipped}
FRONTS |= {"linear": linear}


def squared(p: Any, rows: Any) -> Any:
    return rows**2 @ p["W"]


def crossed(p: Any, rows: Any) -> Any:
    """Affine steps only, but for a product of two numbers of the row."""
    return (rows[:, :3] * rows[:, 3:]) @ p["W"][:3]


def scaled(p: Any, rows: Any) -> Any:
    """Nothing is joined before it bends."""
    return jnp.tanh((rows - p["shift"]) / 2).sum(axis=1)


def halved(p: Any, rows: Any) -> Any:
    """Of half precision: rounded on the line in another way than whole rows."""
    return jnp.tanh(rows.astype(jnp.bfloat16) @ p["W"].astype(jnp.bfloat16)).astype(jnp.float32)


NONE = {"squared": squared, "crossed": crossed, "scaled": scaled, "halved": halved}


def traces(model: Any) -> tuple[Any, Any]:
    made = partial(jax.make_jaxpr(model), PARAMS)
    return tuple(made(jax.ShapeDtypeStruct((rows, F), np.float32)) for rows in (FEW, R))


def rows(count: int) -> Any:
    return RNG.normal(size=(count, F)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("name", FRONTS)
def test_the_halves_are_the_model_and_the_front_is_affine(name: str) -> None:
    model = FRONTS[name]
    few, whole = traces(model)
    assert has_front(few, whole)
    x, b = rows(R), rows(R)
    ends, starts = front(few, PARAMS, x), front(few, PARAMS, b)
    np.testing.assert_allclose(back(whole, PARAMS, ends), model(PARAMS, x), rtol=1e-5, atol=1e-5)
    middle = [s + 0.25 * (e - s) for e, s in zip(ends, starts, strict=True)]
    # Sums of six terms up to 10, in float32.
    wanted = model(PARAMS, b + np.float32(0.25) * (x - b))
    np.testing.assert_allclose(back(whole, PARAMS, middle), wanted, rtol=1e-5, atol=2e-5)
    # Of more rows than a block, the last of which is filled up.
    assert len(front(few, PARAMS, rows(FEW + 1))[0]) == FEW + 1


@pytest.mark.parametrize("name", NONE)
def test_no_front_is_found_where_there_is_none(name: str) -> None:
    assert not has_front(*traces(NONE[name]))


def test_a_matrix_whose_rows_come_last_is_no_front() -> None:
    """Or it is found with the rows first: either way it is the same model."""
    few, whole = traces(mapped)
    if has_front(few, whole):
        x = rows(R)
        found = back(whole, PARAMS, front(few, PARAMS, x))
        np.testing.assert_allclose(found, mapped(PARAMS, x), rtol=1e-5, atol=1e-5)


def test_a_derivative_of_the_models_own_is_kept() -> None:
    """jax.nn.relu has the slope 0 at 0; of the steps inside, the larger of two, it would be 1/2."""
    few, whole = (
        jax.make_jaxpr(lambda p, z: jax.nn.relu(z @ p["W"]).sum(axis=1))(
            PARAMS, jax.ShapeDtypeStruct((count, F), np.float32)
        )
        for count in (FEW, R)
    )
    assert has_front(few, whole)
    cut = front(few, PARAMS, np.zeros((R, F), np.float32))
    slopes = jax.grad(lambda cut: back(whole, PARAMS, cut).sum())(cut)
    assert (np.asarray(slopes[0]) == 0).all()


def test_numbers_made() -> None:
    def twice(rows: Any) -> Any:
        return jax.lax.scan(lambda z, _: (jnp.tanh(z), None), rows, None, 3)[0]

    few = jax.make_jaxpr(twice)(jax.ShapeDtypeStruct((FEW, F), np.float32))
    assert numbers_made(few.jaxpr, FEW) == 3 * F
    relu = jax.make_jaxpr(jax.nn.relu)(jax.ShapeDtypeStruct((FEW, F), np.float32))
    assert F <= numbers_made(relu.jaxpr, FEW) <= 2 * F
