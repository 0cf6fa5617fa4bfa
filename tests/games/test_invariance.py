"""The same bits whatever the batch size, the order, the neighbours or the number of devices."""

from __future__ import annotations

import eight_devices
import games
import jax.numpy as jnp
import numpy as np
import often
import pytest

import xaijax as xj
from xaijax.games.engine import evaluator as setting

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


@pytest.mark.slow
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
@pytest.mark.parametrize(("H", "F", "donors"), [(4, 30, 5), (3, 12, 11), (7, 12, 50)])
def test_walks_by_a_narrow_layer_change_no_bit(H, F, donors):
    """A compiled loop over few units is one over pairs, whose last few it rounds in another way."""
    rng = np.random.default_rng(100 * H + F)
    W = jnp.asarray(rng.normal(size=(F, H)) / np.sqrt(F), jnp.float32)
    V = jnp.asarray(rng.normal(size=H), jnp.float32)
    B, X = (rng.normal(size=(n, F)).astype(np.float32) for n in (donors, 40))
    options = {"estimator": "permutation", "budget": 4 * F}
    model = xj.as_model(lambda X: jnp.tanh(X @ W) @ V)
    explainer = xj.Explainer(model, B, **options)
    whole = explainer(X, progress=False)
    assert whole.stats["structure"] == "first layer"
    for rows in (slice(20, 40), slice(3, 31), slice(39, 40)):
        assert same_bits(explainer(X[rows], progress=False).values, whole.values[rows])
    fewer = xj.Explainer(model, B, batch_size=256, **options)
    assert same_bits(fewer(X, progress=False).values, whole.values)


WALKED = {"estimator": "permutation", "budget": 4 * (64 - 1)}
BASES = {
    "walks of a linear function": (64, lambda X: X @ jnp.sin(jnp.arange(64.0)), WALKED),
    "subsets of a layer": (6, lambda X: jnp.tanh(X @ A[:6, :3]).sum(1), {}),
    "tables of a layer": (6, lambda X: jnp.tanh(X @ A[:6, :3]).sum(1), {"link": np.cbrt}),
    "subsets of rows": (6, lambda X: games.smooth(A, X), {}),
    "tables of rows": (6, lambda X: games.smooth(A, X), {"link": np.cbrt}),
    "a list": (6, lambda X: games.smooth(A, X), {"estimator": "kernel", "budget": 40}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BASES)
def test_a_base_value_is_one_number(name):
    """The mean over the background, in float64 from float32 answers, whatever x is."""
    F, f, options = BASES[name]
    rng = np.random.default_rng(5)
    donors = (rng.integers(0, 3, (23, F)) * 0.3 + 1).astype(np.float32)
    X = (rng.integers(0, 3, (40, F)) * 0.3 + 1).astype(np.float32)
    X[:5] = rng.random((5, F)) + 1  # differ from every donor in every column
    X[7] = donors[4]
    weights = rng.random(23)
    explainer = xj.Explainer(xj.as_model(f), donors, weights=weights, **options)
    base = explainer(X, progress=False).base_values
    assert len(np.unique(base)) == 1
    assert explainer(X[-1:], progress=False).base_values[0] == base[0]
    link = options.get("link", lambda v: v)
    answers = np.asarray(f(jnp.asarray(donors)), np.float64)
    wanted = link(weights @ answers / weights.sum())
    # A float32 sum of F terms: all but one in 1e13 are within 8 sqrt(F) roundings of their size.
    assert abs(base[0] - wanted) < 8 * np.sqrt(F) * 2**-24 * np.abs(donors).sum(axis=1).max()


def test_a_base_value_of_one_output_is_that_of_every_row_with_this_output():
    X, donors = data("few")
    X, weights = X[:40], np.random.default_rng(5).random(B)
    explainer = xj.Explainer(model_of("jax"), donors, weights=weights)
    columns = np.arange(40) % 3
    base = explainer(X, progress=False, outputs=columns).base_values
    assert [len(np.unique(base[columns == k])) for k in range(3)] == [1, 1, 1]


@pytest.mark.slow
def test_a_base_value_is_one_number_of_exact_and_sampled_rows():
    """The sums of sampled rows take weights in float32, those of exact ones in float64."""
    rng, few = np.random.default_rng(5), 8
    donors = rng.random((few, 14)).astype(np.float32)
    X = rng.random((6, 14)).astype(np.float32)
    donors[:, 4:] = 0.5
    X[:3, 4:] = 0.5  # 16 sub-coalitions of a pair, and all of the others
    model = xj.as_model(games.smooth, params=games.weights(14), structure="plain")
    explainer = xj.Explainer(model, donors, weights=rng.random(few), budget=120)
    got = explainer(X, progress=False)
    assert got.stats["exact_rows"].tolist() == [True] * 3 + [False] * 3
    assert len(np.unique(got.base_values)) == 1
    assert (got.stats["efficiency_residual"] <= got.stats["efficiency_bound"]).all()


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
