"""What goes to the devices is as large as the question: few rows that are large are not padded.

The broken version sent 8,192 rows with each call, 4.9 GB for one image of 224 x 224 x 3.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.games.engine import plan
from xaijax.games.run import RunCost

SIDE, PATCH = 224, 16
MOST = 2.0  # times the bytes of the image and of its baseline


def pictures(count: int, side: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=(count, side, side, 3)).astype(np.float32)


def patches(side: int, patch: int) -> np.ndarray:
    row = np.arange(side) // patch
    numbers = row[:, None] * (side // patch) + row
    return np.broadcast_to(numbers[..., None], (side, side, 3)).copy()


def brightest(images: Any) -> Any:
    return jnp.tanh(images).max(axis=(1, 2, 3))


def recipes(explainer: Any, X: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Of all programs that a run of these rows has."""
    found: dict[Any, Any] = {}
    add = RunCost.add_calls

    def noted(self: RunCost, calls: int, *given: Any) -> None:
        add(self, calls, *given)
        found.update(self.recipes)

    monkeypatch.setattr(RunCost, "add_calls", noted)
    explainer.plan(X)
    return list(found.values())


def size(recipe: Any) -> int:
    leaves = jax.tree.leaves(recipe.arguments)
    return sum(int(np.prod(a.shape)) * np.dtype(a.dtype).itemsize for a in leaves)


@pytest.mark.parametrize("estimator", ["kernel", "permutation"])
def test_one_image_sends_no_more_than_twice_its_bytes(estimator, monkeypatch) -> None:
    X, baseline = pictures(1, SIDE), pictures(2, SIDE)[:1]
    players = patches(SIDE, PATCH)
    options = {"players": players, "estimator": estimator, "budget": 400, "max_memory": 8 << 30}
    explainer = xj.Explainer(xj.as_model(brightest), baseline, **options)
    found = recipes(explainer, X, monkeypatch)
    runs = [one for one in found if one.key[0] == "run"]
    assert runs
    assert max(map(size, runs)) <= MOST * (X.nbytes + baseline.nbytes)


def peak_of(call: Any) -> int:
    """The most bytes of NumPy's arrays at one time."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
def test_single_pixels_are_planned_without_an_array_of_players_by_coalitions() -> None:
    """The broken version asked NumPy for 84 GB."""
    X = pictures(1, SIDE)
    options = {"estimator": "permutation", "budget": 2 * X.size + 2, "max_memory": 8 << 30}
    explainer = xj.Explainer(xj.as_model(brightest), 0 * X, **options)
    found: list[Any] = []
    peak = peak_of(lambda: found.append(explainer.plan(X)))
    assert found[0].model_rows.sum() >= 2 * X.size and peak < X.size**2 / 64


@pytest.mark.slow
def test_single_pixels_are_explained() -> None:
    X, P = pictures(1, 40), 3 * 40**2
    options = {"estimator": "permutation", "budget": 2 * P + 2, "max_memory": 64 << 20}
    explainer = xj.Explainer(xj.as_model(brightest), 0 * X, **options)
    found: list[Any] = []
    peak = peak_of(lambda: found.append(explainer(X, progress=False)))
    assert found[0].stats["model_rows"] >= 2 * P and peak < P**2
    np.testing.assert_allclose(
        found[0].values.sum(), brightest(X)[0] - brightest(0 * X)[0], atol=1e-5
    )


def test_rows_held_are_few_sizes() -> None:
    row = 600_000
    assert [plan.rows_held(n, row, 100) for n in (1, 2, 3, 5, 64, 65, 99)] == [
        *(1, 2, 4, 8, 64, 100, 100)
    ]
    assert {plan.rows_held(n, 48, 8_192) for n in (1, 100, 8_192, 10**6)} == {8_192}
    assert [plan.donors_held(n, row) for n in (1, 3, 17)] == [1, 3, 18]
    assert [plan.donors_held(n, 48) for n in (1, 3, 17)] == [16, 16, 18]
    assert {plan.capacity(n, 1 << 20, 196) for n in (1, 8_192)} == {8_192}
    assert plan.capacity(1, 1 << 20, 150_528) == 256


@pytest.mark.slow
def test_a_similar_number_of_images_compiles_nothing(compiled: Counter[str]) -> None:
    """Rows of 300 kB: 3 in room for 4, 5 and more in room for 8; the values stay the same bits."""
    side = 160
    X, baseline = pictures(6, side), pictures(1, side)
    options = {"players": patches(side, 40), "estimator": "kernel", "budget": 40}
    explainer = xj.Explainer(xj.as_model(brightest), baseline, tile=32, **options)
    three = explainer(X[:3], progress=False)
    compiled.clear()
    for count in (4, 2, 1):
        explainer(X[:count], progress=False)
    assert not compiled, compiled
    six = explainer(X, progress=False)
    assert compiled.total() == 1, compiled  # the program that holds the model
    compiled.clear()
    again = explainer(X[:3], progress=False)
    assert not compiled, compiled
    assert np.array_equal(three.values, six.values[:3])
    assert np.array_equal(three.values, again.values)


def test_walks_have_room_for_the_question(monkeypatch) -> None:
    """A first layer of 4,000 columns, walked along orders; the broken version held 8,192 rows."""
    rng, P = np.random.default_rng(0), 4_000
    weights = rng.normal(size=(P, 2)).astype(np.float32)
    X, donors = (rng.normal(size=(n, P)).astype(np.float32) for n in (70, 2))
    model = xj.as_model(lambda w, rows: jnp.tanh(rows @ w).sum(axis=1), weights)
    options = {"estimator": "permutation", "budget": 4 * P, "max_memory": 8 << 30}
    explainer = xj.Explainer(model, donors, **options)
    for count, room in ((40, 64), (70, 128), (3, 128)):
        walks = [one for one in recipes(explainer, X[:count], monkeypatch) if one.key[0] == "walk"]
        assert [one.arguments[1].shape for one in walks] == [(room, P)]
