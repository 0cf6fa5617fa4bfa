"""Hybrids that several instances share are asked of a host model once."""

from __future__ import annotations

import itertools
from typing import Any

import games
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.games.engine import host as make
from xaijax.games.engine import host as shared_rows
from xaijax_kernels.engine.lattice import Pairs

P, N = 5, 40
A = games.weights(P)


class Recording:
    """A host model that keeps the rows it was asked."""

    def __init__(self):
        self.rows: list[bytes] = []

    def __call__(self, rows):
        self.rows += [row.tobytes() for row in np.ascontiguousarray(rows)]
        return games.smooth_host(rows, A)


def distinct_hybrids(X, donor):
    masks = np.array(list(itertools.product([False, True], repeat=P)))
    return {row.tobytes() for x in X for row in np.where(masks, x, donor)}


@pytest.mark.parametrize("estimator", ["exact", "permutation", "kernel"])
@pytest.mark.parametrize("batch_size", [256, 700])
def test_each_is_asked_once(estimator, batch_size, monkeypatch):
    monkeypatch.setattr(shared_rows, "MULTIPLE", 1)
    X, donors = games.rows(N, P, "few", 1), games.rows(1, P, "few", 2)
    model = Recording()
    options = {} if estimator == "exact" else {"budget": 20}
    explainer = xj.Explainer(
        xj.as_model(model, backend="host"),
        donors,
        estimator=estimator,
        batch_size=batch_size,
        **options,
    )
    explainer(X[:1], progress=False)
    before = len(model.rows)  # probes and the first run
    found = explainer(X, progress=False)
    asked = model.rows[before:]
    if found.stats["model_calls"] > 1:  # then rows of the first call are asked again at the end
        asked, again = asked[:-32], asked[-32:]
        assert set(again) <= set(asked)
    assert len(asked) == found.stats["model_rows"]
    assert set(asked) <= distinct_hybrids(X, donors[0])
    if estimator == "exact":  # the others ask those by list apart from those by sub-coalitions
        assert len(asked) == len(set(asked)) == len(distinct_hybrids(X, donors[0]))


def test_the_same_values_as_without(monkeypatch):
    X, donors = games.rows(N, P, "few", 1), games.rows(1, P, "few", 2)
    model = xj.as_model(lambda rows: games.three_outputs_host(rows, A), backend="host")
    spared = xj.Explainer(model, donors)(X, progress=False)
    monkeypatch.setattr(make, "_sharing", lambda evaluator: None)
    whole = xj.Explainer(model, donors)(X, progress=False)
    assert spared.values.tobytes() == whole.values.tobytes()
    assert spared.stats["model_rows"] < whole.stats["model_rows"]


@pytest.mark.parametrize("kind", ["exact", "listed"])
def test_no_piece_is_lost_where_looking_stops(kind, monkeypatch):
    """Continuous columns share nothing: the first look says so, and the rest is asked as it is.

    With 65,536 rows in the first look, whole calls of more than half a million hybrids came out
    with a piece of zeros.
    """
    monkeypatch.setattr(shared_rows, "FIRST_ROWS", 100)
    monkeypatch.setattr(shared_rows, "MOST_ROWS", 300)
    X, donors = games.rows(N, 9, "continuous", 1), games.rows(1, 9, "continuous", 2)
    weights = games.weights(9)
    model = xj.as_model(lambda rows: games.smooth_host(rows, weights), backend="host")
    options: dict[str, Any] = {"estimator": "exact", "max_memory": 200_000}  # pieces of 256 rows
    if kind == "listed":
        options |= {"estimator": "permutation", "budget": 300}
    whole = xj.Explainer(model, donors, **options)(X, progress=False)
    monkeypatch.setattr(make, "_sharing", lambda evaluator: None)
    without = xj.Explainer(model, donors, **options)(X, progress=False)
    assert whole.values.tobytes() == without.values.tobytes()
    assert 0 <= without.stats["model_rows"] - whole.stats["model_rows"] <= N  # of the first look


@pytest.mark.parametrize("lost", [1, -1])
def test_a_lost_piece_is_told(lost, monkeypatch):
    """Of either loop: base value and values would still add up to the f(x) that is lost with it."""
    X, donors = games.rows(N, 9, "continuous", 1), games.rows(1, 9, "continuous", 2)
    weights = games.weights(9)
    host = xj.as_model(lambda rows: games.smooth_host(rows, weights), backend="host")
    traced = xj.as_model(lambda rows: jnp.tanh(rows @ weights), structure="plain")
    explainers = [
        xj.Explainer(host, donors, estimator="exact", max_memory=200_000),
        xj.Explainer(traced, donors, estimator="exact", batch_size=256),
    ]
    whole = Pairs.dispatches

    def without_one(pairs, rows_each):
        pieces = list(whole(pairs, rows_each))
        assert len(pieces) > 1
        del pieces[lost]
        yield from pieces

    monkeypatch.setattr(Pairs, "dispatches", without_one)
    for explainer in explainers:
        with pytest.raises(RuntimeError, match="go on elsewhere after .* please report it"):
            explainer(X, progress=False)


def test_a_random_model_is_asked_each_time():
    X, donors = games.rows(N, P, "few", 1), games.rows(1, P, "few", 2)
    rng = np.random.default_rng(0)

    def noisy(rows):
        return games.smooth_host(rows, A) + 0.1 * rng.normal(size=len(rows))

    model = xj.as_model(noisy, backend="host", deterministic=False)
    found = xj.Explainer(model, donors, estimator="exact")(X, progress=False)
    assert found.stats["model_rows"] == N << P


@pytest.mark.parametrize("kind", ["few", "continuous"])
def test_calls_are_full(kind):
    """ceil(rows / rows per call) calls, whether rows are shared or not."""
    X, donors = games.rows(1000, P, kind, 1), games.rows(1, P, kind, 2)
    calls: list[int] = []

    def model(rows):
        calls.append(len(rows))
        return games.smooth_host(rows, A)

    explainer = xj.Explainer(xj.as_model(model, backend="host"), donors, tile=4096)
    explainer(X[:2], progress=False)
    calls.clear()
    found = explainer(X, progress=False)
    asked = found.stats["model_rows"] + found.stats["padded_rows"]
    if found.stats["model_calls"] > 1:
        assert calls.pop() == 32  # rows of the first call, asked again at the end
    assert sum(calls) == asked
    assert len(calls) == found.stats["model_calls"] == -(-asked // 4096)
    assert (found.stats["model_rows"] < 0.9 * (1000 << P)) == (kind == "few")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_has_the_same_bits_in_any_company(dtype):
    """Products by a linear algebra library, which rounds the last rows of a call in another way.

    One that rounds a row by its place in the call (OpenBLAS in float32 with AVX2) gives no bits
    that could be the same in any company; the values then are, but for such roundings.
    """
    rng = np.random.default_rng(0)
    inner, outer = rng.normal(size=(8, 20)).astype(dtype), rng.normal(size=20).astype(dtype)
    X = rng.integers(0, 3, (60, 8)).astype(dtype)
    model = xj.as_model(lambda rows: np.tanh(rows @ inner) @ outer, backend="host")
    explainer = xj.Explainer(model, xj.Baseline("median", X))
    steady = len(np.unique(np.repeat(X[:1], 4096, axis=0) @ inner, axis=0)) == 1
    # A value is 2 differences of answers below 20, each of which has 28 roundings at most.
    atol = 4 * 20 * 28 * np.finfo(dtype).eps / 2
    whole = explainer(X, progress=False).values
    order = rng.permutation(60)
    for rows in (order, slice(0, 1), slice(7, 9), slice(20, 60), slice(1, 60, 7)):
        found = explainer(X[rows], progress=False).values
        if steady:
            assert found.tobytes() == whole[rows].tobytes()
        np.testing.assert_allclose(found, whole[rows], rtol=0, atol=atol)


def codes(seed, rows=200):
    return np.random.default_rng(seed).integers(0, 3, (rows, 4))


@pytest.mark.parametrize("collide", [False, True])
def test_places(collide, monkeypatch):
    """Where all hashes are one of two, rows are still told apart."""
    if collide:
        monkeypatch.setattr(
            shared_rows, "hashes", lambda words: (words[:, 0] % 2).astype(np.uint64)
        )
    sharing = shared_rows.Sharing(1000)
    rows = codes(0)
    asked, place = sharing.places(rows)
    np.testing.assert_array_equal(rows[asked][place], rows)
    if not collide:
        assert len(asked) == len(np.unique(rows, axis=0))
        assert sharing.worth
    sharing.places(np.arange(400).reshape(100, 4))
    assert not sharing.worth


def test_filled():
    for count in (1, 63, 64, 65):
        rows = codes(0, count)
        whole = shared_rows.filled(rows)
        assert len(whole) % 64 == 0 and len(whole) - count < 64
        np.testing.assert_array_equal(whole[:count], rows)
        assert (whole[count:] == rows[-1]).all()
