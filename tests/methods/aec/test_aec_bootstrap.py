"""Bootstrap of AEC: each replicate is the fit on its rows; spread, ranks and seeds."""

from __future__ import annotations

import warnings

import numpy as np
import oracles
import pytest
from aec_data import collinear, fitted
from sklearn.linear_model import LinearRegression, Ridge

import xaijax as xj
from xaijax.methods.aec import aec as estimator
from xaijax.methods.aec import bootstrap, rows
from xaijax.methods.aec import bootstrap as draws
from xaijax.methods.aec import bootstrap as replicates


def effects_of(X, y, S, weights=None, **options):
    """Replicates [S, K', F], and the times [S, M] that their rows are drawn."""
    kept = {}
    original = bootstrap.replicate_effects

    def keep(plan, count):
        kept["effects"] = original(plan, count)
        kept["times"] = np.stack([plan.draws.of_rows(s) for s in range(count)])
        return kept["effects"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimator, "replicate_effects", keep)
        aec = fitted(X, y, weights, bootstrap=S, **options)
    return aec, kept["effects"], kept["times"]


@pytest.mark.parametrize("options", [{}, {"standardize": True}, {"decimals": 3}])
def test_a_replicate_of_a_regression_is_the_fit_on_its_rows(options):
    X, y = collinear(rows=90, columns=4)
    _, found, times = effects_of(X, y, 5, **options)
    for s in range(5):
        again = np.repeat(X, times[s].astype(int), 0), np.repeat(y, times[s].astype(int))
        expected = oracles.additive_effects(*again, **options)
        atol = 1.01e-3 if "decimals" in options else 0
        np.testing.assert_allclose(found[s, 0], expected, rtol=1e-9, atol=atol)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("few", [0, 128])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_replicate_of_a_classification_is_the_fit_on_its_rows(
    wide, few, standardize, weighted, monkeypatch
):
    monkeypatch.setattr(bootstrap, "WIDE", 1 if wide else 64)
    monkeypatch.setattr(replicates, "FEW", few)
    X, y = collinear(rows=160, columns=3, labels=True)
    X[:, 1] = np.round(X[:, 1] / X[:, 1].std())
    weights = np.random.default_rng(0).random(160) + 0.5 if weighted else None
    _, found, times = effects_of(X, y, 3, weights, standardize=standardize)
    for s in range(3):
        w = times[s] if weights is None else times[s] * weights
        some = w > 0
        again = fitted(X[some], y[some], w[some], solver="newton", standardize=standardize)
        # Replicates end with a Newton step below 1e-4, whose square is what is left of the error.
        np.testing.assert_allclose(found[s, 0], again.effects_, rtol=1e-6)


@pytest.mark.parametrize("learner", [LinearRegression(), Ridge(2.0), oracles.slope])
@pytest.mark.parametrize("standardize", [False, True])
def test_a_replicate_with_a_learner_is_the_fit_on_its_rows(learner, standardize):
    X, y = collinear(rows=70, columns=3)
    _, found, times = effects_of(X, y, 2, learner=learner, standardize=standardize)
    for s in range(2):
        times_s = times[s].astype(int)
        again = fitted(
            np.repeat(X, times_s, 0),
            np.repeat(y, times_s),
            learner=learner,
            standardize=standardize,
        )
        np.testing.assert_allclose(found[s, 0], again.effects_, rtol=1e-8)


def test_errors_and_ranks_are_those_of_the_replicates():
    X, y = collinear(rows=50, columns=4)
    aec, found, _ = effects_of(X, y, 40)
    np.testing.assert_allclose(aec.std_errors_, found[:, 0].std(axis=0, ddof=1), rtol=1e-12)
    place = (-np.abs(found[:, 0])).argsort(axis=1).argsort(axis=1)
    expected = [[(place[:, j] == r).mean() for r in range(4)] for j in range(4)]
    np.testing.assert_allclose(aec.rank_probabilities_, expected, atol=1e-15)
    np.testing.assert_array_equal(aec.explanation_.std_errors[0], aec.std_errors_)
    assert aec.explanation_.exact and "bootstrap standard error" in repr(aec.explanation_)


def test_rows_are_drawn_with_replacement_and_equally():
    """Sizes are exact; counts are binomial(M, 1/M) each.

    The mean square of M S counts about their mean 1 is 1 - 1/M with a standard error of sqrt(2/(M
    S)) about (the fourth moment of Poisson(1) is 4, so the variance of (n - 1)^2 is 3): 6 of those
    at sqrt(3 / (M S)) fail one run in 5e8. Drawing without replacement gives 0, drawing each row
    with a chance of one half 1/4, drawing whole pieces far more.
    """
    M, S = 20_000, 60
    plan = draws.Draws(rows.InMemoryRows(("a",), np.zeros((1, M)), np.zeros(M), None), M, seed=3)
    times = np.stack([plan.of_rows(s) for s in range(S)])
    assert (times.sum(axis=1) == M).all() and len(plan.sizes) == 3
    spread = ((times - 1) ** 2).mean()
    assert abs(spread - (1 - 1 / M)) <= 6 * np.sqrt(3 / (M * S))
    # A piece gets binomial(M, share) rows: its mean over S replicates stays within 6 of its errors,
    # one run in 5e8 for each of the three pieces.
    first = 0
    for size in plan.sizes:
        share = size / M
        error = np.sqrt(M * share * (1 - share) / S)
        assert abs(times[:, first : first + size].sum(axis=1).mean() - size) <= 6 * error
        first += size
    assert not np.array_equal(times[0], times[1])


@pytest.mark.slow
def test_standard_errors_are_right_for_a_slope_of_normal_data():
    """Against repeated samples: 200 tables of 400 rows, 100 replicates each.

    The spread of an effect over 200 tables is known to 1 / sqrt(400) = 5 % (normal), the mean of
    200 bootstrap errors far better. 0.7 and 1.35 are 6 or more of these 5 % away from 1: less than
    1e-8 a run and column. Errors taken from half of the rows (1.41), or divided by the root of the
    number of replicates (0.1), are outside.
    """
    effects, found = [], []
    for seed in range(200):
        X, y = collinear(rows=400, columns=3, seed=0)  # the same mixture of causes ...
        rng = np.random.default_rng(seed + 1)
        mixing = np.linalg.cholesky(np.cov(X.T) / np.outer(X.std(0), X.std(0)))
        X = rng.normal(size=(400, 3)) @ mixing.T  # ... and new rows each time
        y = X @ [1.0, 0.5, -0.5] + rng.normal(size=400)
        aec = fitted(X, y, bootstrap=100, seed=seed)
        effects.append(aec.effects_)
        found.append(aec.std_errors_)
    ratio = np.mean(found, axis=0) / np.std(effects, axis=0, ddof=1)
    assert (ratio > 0.7).all() and (ratio < 1.35).all(), ratio


@pytest.mark.slow
def test_the_same_seed_draws_the_same_rows(monkeypatch):
    X, y = collinear(rows=700, columns=3, labels=True)
    first = fitted(X, y, bootstrap=9, solver="newton", seed=5)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X has columns")
        parts = [(X[a : a + 111], y[a : a + 111]) for a in range(0, 700, 111)]
        chunked = xj.AEC(bootstrap=9, solver="newton", seed=5).fit_chunks(parts)
    np.testing.assert_allclose(chunked.std_errors_, first.std_errors_, rtol=1e-6)
    monkeypatch.setattr(bootstrap, "HELD", 2 * (bootstrap.PIECE + 15))  # two replicates at a time
    batched = fitted(X, y, bootstrap=9, solver="newton", seed=5)
    np.testing.assert_allclose(batched.std_errors_, first.std_errors_, rtol=1e-9)
    other = fitted(X, y, bootstrap=9, solver="newton", seed=6)
    assert (other.std_errors_ != first.std_errors_).all()


def test_more_than_two_classes():
    X, y = collinear(rows=120, columns=3)
    labels = np.digitize(y, [-0.5, 0.6]).astype(str)
    aec = fitted(X, labels, bootstrap=20)
    assert aec.std_errors_.shape == (3, 3) and aec.rank_probabilities_.shape == (3, 3, 3)
    np.testing.assert_allclose(aec.rank_probabilities_.sum(axis=-1), 1.0, rtol=1e-12)
    assert aec.explanation_.std_errors.shape == (1, 3, 3)
    one = fitted(X, labels == "1", bootstrap=20)
    np.testing.assert_allclose(aec.std_errors_[1], one.std_errors_, rtol=1e-6)


def test_replicates_without_a_class_are_left_out_and_told_of():
    X, y = collinear(rows=40, columns=3)
    rare = np.arange(40) < 2  # a replicate misses both with a chance of e^-2
    with pytest.warns(xj.XaiWarning, match=r"In \d+ of 100 replicates a class has no row"):
        aec = fitted(X, rare, bootstrap=100)
    assert np.isfinite(aec.std_errors_).all()
    np.testing.assert_allclose(aec.rank_probabilities_.sum(axis=1), 1.0, rtol=1e-12)


def test_a_column_that_is_constant_in_a_replicate_has_no_effect_there():
    X, y = collinear(rows=40, columns=3)
    X[:, 1] = np.arange(40) == 7
    _, found, times = effects_of(X, y, 60)
    without = times[:, 7] == 0
    assert 5 < without.sum() < 55
    assert (found[without, 0, 1] == 0).all() and (found[~without, 0, 1] != 0).all()


def test_a_function_of_three_arguments_gets_three_in_every_fit():
    counts = []

    def learner(x, y, weights):
        counts.append(len(weights))
        return float((weights * x * y).sum() / (weights * x * x).sum())

    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    aec = xj.AEC(task="regression", learner=learner, bootstrap=2).fit(X, X[:, 0])
    assert set(counts) == {30} and aec.std_errors_.shape == (2,)
