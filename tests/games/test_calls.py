"""Traces, dispatches and calls are the cost, so they are counted. N = 1,000."""

from __future__ import annotations

import math

import games
import numpy as np
import often
import pytest

import xaijax as xj
from xaijax.games.engine import evaluator as setting
from xaijax_kernels.sizes import TILES_PER_DISPATCH

P, N, B = 6, 1000, 10
A = games.weights(P)


class Counted:
    """A model that counts how often it is entered and how many rows it is given."""

    def __init__(self, function):
        self.function, self.calls, self.rows = function, 0, []

    def __call__(self, *arguments):
        self.calls += 1
        self.rows.append(len(arguments[-1]))
        return self.function(*arguments)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["identity", np.arctan])
@pytest.mark.parametrize("kind", ["continuous", "few"])
def test_a_jax_model_is_traced_twice_per_explainer(kind, link):
    f = Counted(games.smooth)
    X, donors = games.rows(N, P, kind, 1), games.rows(B, P, kind, 2)
    model = xj.as_model(f, params=A)
    explainer = xj.Explainer(model, donors, link=link)
    assert f.calls == 0
    explainer(X, progress=False)
    assert f.calls == 2  # the probe and the run
    explainer(X[:7], progress=False)
    explainer(np.concatenate([X, X]), progress=False)
    assert f.calls == 2
    other = xj.Explainer(model.replace(params=A * 2), donors, link=link)
    new = other(X[:5], progress=False)
    assert f.calls == 2, "new parameters must be served by the same trace"
    fresh = xj.Explainer(xj.as_model(games.smooth, params=A * 2), donors, link=link)
    np.testing.assert_array_equal(new.values, fresh(X[:5], progress=False).values)


@pytest.mark.slow
@often.product({"kind": ["continuous", "few"], "batch_size": ["auto", 1, 1000, 5000]})
def test_dispatches_of_a_jax_model(kind, batch_size):
    X, donors = games.rows(N, P, kind, 1), games.rows(B, P, kind, 2)
    explainer = xj.Explainer(
        xj.as_model(games.smooth, params=A), donors, tile=512, batch_size=batch_size, devices=1
    )
    stats = explainer(X, progress=False).stats
    tiles = TILES_PER_DISPATCH if batch_size == "auto" else math.ceil(batch_size / 512)
    rows = stats["model_rows"] + stats["padded_rows"]
    assert rows % 512 == 0  # whole tiles, the last one padded
    assert stats["model_calls"] == math.ceil(rows / (512 * tiles))
    assert stats["tile"] == 512


@pytest.mark.parametrize("batch_size, rows_per_call", [("auto", 512), (700, 1024), (1, 512)])
@pytest.mark.parametrize("kind", ["continuous", "few"])
def test_calls_of_a_host_model(kind, batch_size, rows_per_call):
    X, donors = games.rows(N, P, kind, 1), games.rows(B, P, kind, 2)
    f = Counted(lambda X: games.smooth_host(X, A))
    explainer = xj.Explainer(
        xj.as_model(f, backend="host"), donors, batch_size=batch_size, tile=512
    )
    assert f.calls == 0
    stats = explainer(X, progress=False).stats
    # Two for determinism, two for neighbours. Where most rows have the largest number, no half is
    # without it: the row with the smallest is then asked beside its copy.
    probes = 4 if kind == "continuous" else 5
    assert stats["padded_rows"] == 0
    differ = (X[:, None] != donors[None]).sum(axis=2)
    assert stats["model_rows"] == int((2.0**differ).sum()) == sum(f.rows[probes:-1])
    assert f.rows[-1] == 32  # of the first call, once more: does the model repeat itself?
    assert f.calls - probes - 1 == stats["model_calls"]
    assert stats["model_calls"] == math.ceil(stats["model_rows"] / rows_per_call)


def test_max_rows_bounds_every_host_call():
    X, donors = games.rows(30, P, "continuous", 1), games.rows(B, P, "continuous", 2)
    f = Counted(lambda X: games.smooth_host(X, A))
    model = xj.as_model(f, backend="host", max_rows=1000)
    stats = xj.Explainer(model, donors)(X, progress=False).stats
    assert max(f.rows) == 512  # the largest power of two up to max_rows
    assert stats["model_calls"] == math.ceil(30 * B * 2**P / 512)


def test_where_x_is_the_donor_nothing_but_f_of_x_is_asked():
    donors = games.rows(B, P, "continuous", 2)
    f = Counted(lambda X: games.smooth_host(X, A))
    explainer = xj.Explainer(xj.as_model(f, backend="host"), xj.Baseline(donors[0]))
    got = explainer(donors[:1], progress=False)
    assert got.stats["model_rows"] == 1
    assert (got.values == 0).all()
    assert got.base_values[0] == games.smooth_host(donors[:1], A)[0]


@pytest.mark.slow
def test_memory_maps_are_read_part_by_part(tmp_path, monkeypatch):
    X, donors = games.rows(N, P, "continuous", 1), games.rows(B, P, "continuous", 2)
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    readonly = np.memmap(tmp_path / "x", np.float32, "r", shape=X.shape)
    monkeypatch.setattr(setting, "instances_at_a_time", lambda *sizes: 100)
    model = xj.as_model(games.smooth, params=A)
    got = xj.Explainer(model, donors)(readonly, progress=False)
    np.testing.assert_array_equal(got.values, xj.Explainer(model, donors)(X, progress=False).values)
