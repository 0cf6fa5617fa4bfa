"""The same bits whatever the batch size, the order, the neighbours or the number of devices."""

from __future__ import annotations

import eight_devices
import games
import numpy as np
import often
import pytest

import xaijax as xj
from xaijax.games.engine import setting

P, N, B = 6, 1000, 10
A = games.weights(P)
LINKS = {"identity": "identity", "arctan": np.arctan}


def data(kind: str) -> tuple[np.ndarray, np.ndarray]:
    return games.rows(N, P, kind, 1), games.rows(B, P, kind, 2)


def model_of(backend: str) -> xj.Model:
    if backend == "jax":
        return xj.as_model(games.three_outputs, params=A)
    return xj.as_model(lambda X: games.three_outputs_host(X, A), backend="host")


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.slow
@often.product(
    {
        "backend, kind": [
            ("jax", "continuous"),
            ("host", "few"),
            pytest.param("jax", "few", marks=pytest.mark.slow),
            pytest.param("host", "continuous", marks=pytest.mark.slow),
        ],
        "link": list(LINKS),
    },
    often=lambda backend, kind, link: (backend == "jax") == (link == "arctan"),
)
def test_batch_size_order_and_neighbours_change_no_bit(backend, kind, link):
    X, donors = data(kind)
    model = model_of(backend)
    # A small tile, so that the rows fill many dispatches and pairs fall on every place in a tile.
    options = {"link": LINKS[link], "tile": 256}
    whole = xj.Explainer(model, donors, **options)(X, progress=False)
    for batch_size in (1, 7, 100, 5000):
        got = xj.Explainer(model, donors, batch_size=batch_size, **options)(X, progress=False)
        assert same_bits(got.values, whole.values), batch_size
        assert same_bits(got.base_values, whole.base_values), batch_size

    order = np.random.default_rng(3).permutation(N)
    explainer = xj.Explainer(model, donors, **options)
    shuffled = explainer(X[order], progress=False)
    assert same_bits(shuffled.values, whole.values[order])
    for rows in (slice(0, 1), slice(17, 18), slice(990, 1000)):
        part = explainer(X[rows], progress=False)
        assert same_bits(part.values, whole.values[rows])


@pytest.mark.parametrize("kind", ["continuous", "few"])
def test_one_output_at_the_default_tile_keeps_its_bits(kind):
    X, donors = data(kind)
    model = xj.as_model(games.smooth, params=A)
    whole = xj.Explainer(model, donors)(X, progress=False)
    order = np.random.default_rng(4).permutation(N)
    for batch_size in (1, 7, 100):
        explainer = xj.Explainer(model, donors, batch_size=batch_size)
        assert same_bits(explainer(X, progress=False).values, whole.values)
        assert same_bits(explainer(X[order], progress=False).values, whole.values[order])


@pytest.mark.slow
def test_stretches_planned_together_change_no_bit(monkeypatch):
    X, donors = data("few")
    model = model_of("jax")
    whole = xj.Explainer(model, donors)(X, progress=False)
    monkeypatch.setattr(setting, "instances_at_a_time", lambda *sizes: 37)
    cut = xj.Explainer(model, donors)(X, progress=False)
    assert same_bits(cut.values, whole.values)
    assert cut.stats["model_calls"] >= N // 37


ON_DEVICES = """
import games, xaijax as xj
P = 6
A = games.weights(P)
for kind in ("continuous", "few"):
    X, donors = games.rows(1000, P, kind, 1), games.rows(10, P, kind, 2)
    model = xj.as_model(games.three_outputs, params=A)
    for link, function in (("identity", "identity"), ("arctan", np.arctan)):
        for devices in (None, 1, 3):
            for count in (1000, 3):
                explainer = xj.Explainer(model, donors, tile=256, link=function, devices=devices)
                got = explainer(X[:count], progress=False)
                assert len(got.stats["devices"]) == (devices or 8)
                out[f"{kind} {link} {devices} {count}"] = got.values
    model = xj.as_model(games.smooth, params=A)
    out[f"{kind} one output"] = xj.Explainer(model, donors)(X, progress=False).values
"""


@pytest.mark.slow
def test_eight_devices_give_the_bits_of_one(tmp_path):
    """Uneven tiles (1,000 rows over 8 and 3 devices), and fewer instances than devices."""
    found = eight_devices.outcome(ON_DEVICES, tmp_path)
    for kind in ("continuous", "few"):
        X, donors = data(kind)
        one = xj.Explainer(xj.as_model(games.smooth, params=A), donors, devices=1)
        assert same_bits(found[f"{kind} one output"], one(X, progress=False).values)
        for link, function in LINKS.items():
            here = xj.Explainer(model_of("jax"), donors, tile=256, link=function, devices=1)(
                X, progress=False
            )
            for devices in (None, 1, 3):
                for count in (1000, 3):
                    got = found[f"{kind} {link} {devices} {count}"]
                    assert same_bits(got, here.values[:count]), (kind, link, devices, count)
