"""The memory plan, and what happens when it turns out too generous."""

from __future__ import annotations

import games
import numpy as np
import pytest

import xaijax as xj
from xaijax.games.engine import device

P, N, B = 8, 20, 5
A = games.weights(P)
X, DONORS = games.rows(N, P, "continuous", 1), games.rows(B, P, "continuous", 2)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["identity", np.arctan])
def test_a_device_out_of_memory_is_asked_again_with_half_the_tile(monkeypatch, link):
    model = xj.as_model(games.smooth, params=A)
    expected = xj.Explainer(model, DONORS, link=link, tile=256)(X, progress=False)
    launch = device.DeviceBackend._tiles

    def short_of_memory(self, *arguments):
        if self.sizes.tile.rows > 256:
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate")
        return launch(self, *arguments)

    monkeypatch.setattr(device.DeviceBackend, "_tiles", short_of_memory)
    explainer = xj.Explainer(model, DONORS, link=link, tile=1024)
    with pytest.warns(xj.XaiWarning, match="ran out of memory with tile=") as warned:
        got = explainer(X, progress=False)
    assert len(warned) == 2  # 1024, then 512
    assert got.values.tobytes() == expected.values.tobytes()
    assert got.stats["tile_halvings"] == 2 and got.stats["tile"] == 256
    assert got.stats["model_rows"] == expected.stats["model_rows"]

    with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):  # nothing left to halve
        monkeypatch.setattr(
            device.DeviceBackend,
            "_tiles",
            lambda *_: (_ for _ in ()).throw(RuntimeError("RESOURCE_EXHAUSTED: again")),
        )
        xj.Explainer(model, DONORS, link=link, tile=256)(X, progress=False)


def test_the_limit_comes_from_the_environment(monkeypatch):
    model = xj.as_model(games.smooth, params=A)
    monkeypatch.setenv("XAIJAX_MEMORY_LIMIT", "5000")
    with pytest.raises(xj.MemoryPlanError, match="max_memory=5,000"):
        xj.Explainer(model, DONORS)(X, progress=False)
    monkeypatch.setenv("XAIJAX_MEMORY_LIMIT", "a lot")
    with pytest.raises(xj.InputError, match="XAIJAX_MEMORY_LIMIT"):
        xj.Explainer(model, DONORS)(X, progress=False)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model, tile: xj.Explainer(model, DONORS, tile=tile)(X),
        lambda model, tile: xj.FederatedExplainer(model, DONORS, {"g": [0]}, tile=tile)(X),
        lambda model, tile: xj.QII(
            model, DONORS, outcome="score", quantity="individual", bounds=(0, 9), tile=tile
        ).unary(X),
    ],
)
def test_a_large_tile_of_a_host_model_is_refused_before_it_is_asked(ask):
    model = xj.as_model(lambda rows: 1 / 0, backend="host")
    with pytest.raises(xj.MemoryPlanError, match=r"one tile of 1,073,741,824 rows"):
        ask(model, 1 << 30)


@pytest.mark.slow
def test_little_memory_makes_tiles_and_dispatches_small():
    model = xj.as_model(games.smooth, params=A)
    whole = xj.Explainer(model, DONORS)(X, progress=False)
    small = xj.Explainer(model, DONORS, max_memory=1_000_000)(X, progress=False)
    assert small.stats["tile"] < whole.stats["tile"]
    # Another tile: the same values but for rounding, 64 roundings of float32 at their size.
    np.testing.assert_allclose(small.values, whole.values, rtol=0, atol=64 * 2.0**-24 * 4)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_tables_are_cut_to_a_few_instances_and_donors(backend):
    """2^8 entries a table: with little memory one instance at a time, a few donors at a time."""
    if backend == "jax":
        model = xj.as_model(games.smooth, params=A)
    else:
        model = xj.as_model(lambda X: games.smooth_host(X, A), backend="host")
    whole = xj.Explainer(model, DONORS, link=np.arctan)(X, progress=False)
    little = 70_000 if backend == "host" else 400_000
    cut = xj.Explainer(model, DONORS, link=np.arctan, max_memory=little)(X, progress=False)
    assert cut.stats["model_calls"] > whole.stats["model_calls"]
    np.testing.assert_allclose(cut.values, whole.values, rtol=0, atol=64 * 2.0**-24 * 4)
