"""Sampled values against exact ones: every estimator, index, model, link, kind of background."""

from __future__ import annotations

from functools import cache

import games
import jax.numpy as jnp
import numpy as np
import oracles
import pandas as pd
import pytest
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import xaijax as xj

P, BUDGET = 12, 1000
A = games.weights(P)
X, DONORS = games.rows(3, P, "continuous", 1), games.rows(4, P, "continuous", 2)
WEIGHTS = [0.4, 0.1, 0.3, 0.2]
METHODS = pytest.mark.parametrize("estimator", ["permutation", "kernel"])
INDICES = pytest.mark.parametrize("index", ["shapley", "banzhaf"])
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])
PAIRS = pytest.mark.parametrize("backend, index", [("jax", "shapley"), ("host", "banzhaf")])
WEIGHT_OF = {"shapley": oracles.shapley_weight, "banzhaf": oracles.banzhaf_weight}


@cache
def model_of(backend: str) -> xj.Model:
    if backend == "jax":
        return xj.as_model(games.three_outputs, params=A)
    return xj.as_model(lambda X: games.three_outputs_host(X, A), backend="host")


@cache
def truth(index: str, link: str = "identity", grouped: bool = False, weighted: bool = True):
    """Values, base values and f(x) by the definition, in float64."""
    function = probability if link == "logit" else lambda X: games.three_outputs_host(X, A)
    groups = [[3, 9], [0, 11, 5], *([j] for j in (1, 2, 4, 6, 7, 8, 10))] if grouped else None
    weight = WEIGHT_OF[index](len(groups) if grouped else P)
    weights = WEIGHTS if weighted else None
    logit = (lambda p: np.log(p / (1 - p))) if link == "logit" else None
    return oracles.explain(function, X, DONORS, weight, groups, weights, logit)


def probability(X):
    return 1 / (1 + np.exp(-games.smooth_host(X, A) / 4))


# Answers are 16 at most; a value is made of means of them, each off by some roundings of float32.
ATOL = 64 * 2.0**-24 * 16


def within_errors(got: xj.Explanation, values: np.ndarray) -> None:
    """No value is further off than Student's t allows for all of them together.

    At a two-sided level of 1e-6 over the number of values (Bonferroni), so that this fails for
    fewer than 1e-6 of the seeds where the errors are right and their units nearly normal; half as
    much is added since they are not quite normal. And the errors must say something.
    """
    errors = got.std_errors
    assert errors is not None and np.isfinite(errors).all() and not got.exact
    dof = got.stats["dof"].reshape(-1, *[1] * (values.ndim - 1))
    reach = 1.5 * stats.t.isf(1e-6 / values.size / 2, dof)
    off = np.abs(got.values - values)
    assert (off <= reach * errors + ATOL).all(), (off / (reach * errors + ATOL)).max()
    spread = np.ptp(values)
    assert (errors <= 0.05 * spread).all() and (off <= 0.1 * spread).all()


@METHODS
@INDICES
@BACKENDS
def test_values_and_errors(backend, index, estimator):
    values, base, full = truth(index)
    got = xj.Explainer(model_of(backend), DONORS, None, index, estimator, BUDGET, weights=WEIGHTS)(
        X, progress=False
    )
    within_errors(got, values)
    np.testing.assert_allclose(got.base_values, base, rtol=0, atol=ATOL)
    assert got.stats["estimator"] == estimator == got.provenance["estimator"]
    assert got.kind == index and got.output_names == ("output 0", "output 1", "output 2")
    if index == "shapley":
        gap = got.base_values + got.values.sum(axis=1) - full
        np.testing.assert_allclose(gap, 0, atol=ATOL)
        assert (got.stats["efficiency_residual"] <= got.stats["efficiency_bound"]).all()


@METHODS
def test_the_seeds_average_out(estimator):
    """Ten seeds: a bias that one seed's error would hide. Their mean has a tenth of the variance,
    by its own spread; Student's t with 9 degrees of freedom, at 1e-6 over the number of values."""
    values = truth("shapley")[0]
    seeds = [
        xj.Explainer(
            model_of("jax"), DONORS, estimator=estimator, budget=400, weights=WEIGHTS, seed=s
        )(X, progress=False).values
        for s in range(10)
    ]
    error = np.std(seeds, axis=0, ddof=1) / np.sqrt(10)
    z = np.abs(np.mean(seeds, axis=0) - values) / np.maximum(error, 1e-6)
    assert z[..., :2].max() <= stats.t.isf(1e-6 / values.size / 2, 9)
    assert (error[..., :2] > 0).all()
    assert error.max() <= 0.02 * np.ptp(values)


@METHODS
@INDICES
@pytest.mark.parametrize("pairwise", [False, True])
def test_additive_and_pairwise_games_are_exact(pairwise, index, estimator):
    """Promise: error and standard error are at most 1e-5 of the game's range."""
    P = 20
    rng = np.random.default_rng(3)
    w = rng.normal(size=P).astype(np.float32)
    Q = np.triu(rng.normal(size=(P, P)), 1).astype(np.float32) * pairwise

    def f(X):
        return X @ w + ((X @ Q) * X).sum(axis=1) + 3.0

    x, donors = games.rows(4, P, "continuous", 1), games.rows(3, P, "continuous", 2)
    got = xj.Explainer(xj.as_model(f), donors, None, index, estimator, 400)(x, progress=False)
    # Both indices of a pairwise game: each pair's change with the other half here, half absent.
    x64, d64 = x.astype(float)[:, None], donors.astype(float)[None]
    expected = (x64 - d64) * (w + (x64 + d64) / 2 @ (Q + Q.T).astype(float))
    expected = expected.mean(axis=1)
    spread = np.abs(expected).sum(axis=1).max()  # no more than the game's range
    np.testing.assert_allclose(got.values, expected, rtol=0, atol=1e-5 * spread)
    assert got.std_errors.max() <= 1e-5 * spread
    assert (got.std_errors >= 0).all()


@METHODS
@BACKENDS
def test_groups(backend, estimator):
    values, base, _ = truth("shapley", grouped=True)
    groups = {"two": [3, 9], "three": [0, 11, 5]}
    got = xj.Explainer(
        model_of(backend), DONORS, groups, estimator=estimator, budget=300, weights=WEIGHTS
    )(X, progress=False)
    within_errors(got, values)
    assert got.feature_names[:3] == ("two", "three", "x1")
    np.testing.assert_allclose(got.base_values, base, rtol=0, atol=ATOL)


@pytest.mark.slow
@METHODS
@PAIRS
def test_values_are_of_the_logit_of_the_mean(backend, index, estimator):
    def traced(params, X):
        return 1 / (1 + jnp.exp(-games.smooth(params, X) / 4))

    if backend == "jax":
        model = xj.as_model(traced, params=A)
    else:
        model = xj.as_model(probability, backend="host")
    explainer = xj.Explainer(model, DONORS, None, index, estimator, BUDGET, link="logit")
    got = explainer(X, progress=False)
    values, base, full = truth(index, "logit", weighted=False)
    within_errors(got, values)
    # d logit / dp is at most 1 / (p (1 - p)), below 20 at these values; 64 roundings of 1.
    assert max(np.abs(base).max(), np.abs(full).max()) < 2.8
    atol = 20 * 64 * 2.0**-24
    np.testing.assert_allclose(got.base_values, base, rtol=0, atol=atol)
    if index == "shapley":
        gap = got.base_values + got.values.sum(axis=1) - full
        np.testing.assert_allclose(gap, 0, atol=atol)
        assert (got.stats["efficiency_residual"] <= got.stats["efficiency_bound"]).all()


@pytest.mark.slow
@METHODS
@pytest.mark.parametrize("word", ["row", "median"])
def test_a_baseline_in_place_of_background_rows(word, estimator):
    row = DONORS[0] if word == "row" else np.median(DONORS, axis=0)
    baseline = xj.Baseline(row) if word == "row" else xj.Baseline(word, DONORS)
    f = lambda X: games.smooth_host(X, A)  # noqa: E731
    values, base, _ = oracles.explain(f, X, row[None], oracles.shapley_weight(P))
    model = xj.as_model(games.smooth, params=A)
    got = xj.Explainer(model, baseline, estimator=estimator, budget=BUDGET)(X, progress=False)
    within_errors(got, values)
    assert got.stats["model_rows"] <= len(X) * (BUDGET + 2)
    np.testing.assert_allclose(got.base_values, base, rtol=0, atol=ATOL)


@METHODS
def test_a_frame_through_a_pipeline(estimator):
    """Words and numbers, dummies inside the model; against the exact values of the same model."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 9)), columns=list("abcdefghi"))
    frame["town"] = rng.choice(["here", "there", "away"], 80)
    frame["sex"] = pd.Categorical(rng.choice(["m", "f"], 80))
    frame["count"] = rng.integers(0, 40, 80)
    label = (frame["a"] * frame["b"] + (frame["town"] == "here") + frame["count"] / 20 > 1) * 1
    encoder = make_column_transformer((OneHotEncoder(), ["town", "sex"]), remainder="passthrough")
    fitted = make_pipeline(encoder, LogisticRegression(max_iter=5000)).fit(frame, label)
    model = xj.as_model(fitted, backend="host")
    background, rows = frame[:5], frame[40:43]
    exact = xj.Explainer(model, background, estimator="exact")(rows, progress=False)
    got = xj.Explainer(model, background, estimator=estimator, budget=BUDGET)(rows, progress=False)
    within_errors(got, exact.values)
    np.testing.assert_allclose(got.base_values, exact.base_values, rtol=0, atol=1e-12)
    pd.testing.assert_frame_equal(got.data, rows)
    assert got.feature_names == tuple(frame.columns)


@pytest.mark.parametrize("players, asked", [(20, 100), (13, 66)])
def test_auto_takes_the_kernel_from_five_coalitions_a_player(players: int, asked: int) -> None:
    """Of 13 players 2 P + 40 is more than 5 P: the standard errors need as many."""
    rows, background = (
        games.rows(1, players, "continuous", 1),
        games.rows(2, players, "continuous", 2),
    )
    model = xj.as_model(lambda Z: jnp.sin(Z).sum(axis=1) * Z[:, 0])
    for budget, sampler in ((asked - 1, "permutation"), (asked, "kernel")):
        got = xj.Explainer(model, background, budget=budget)(rows, progress=False)
        assert got.stats["estimator"] == sampler and not got.exact
