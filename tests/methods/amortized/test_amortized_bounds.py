"""The bounds: their mathematics against definitions, and the share of rows that they cover."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom, binom

import xaijax as xj
from xaijax.methods.amortized import calling as bounds
from xaijax.methods.amortized.calling import (
    difficulty,
    difficulty_line,
    errors_of,
    fewest_judges,
    quantile,
)
from xaijax.methods.amortized.inputs import Inputs

BELOW = "ignore:.*rows have been explained by a network:xaijax.XaiWarning"
quiet = pytest.mark.filterwarnings(BELOW)
FALSE_ALARM = 1e-6  # of each statistical test, both sides together


@given(
    st.lists(st.floats(0, 1e6), min_size=1, max_size=80),
    st.sampled_from([0.5, 0.8, 0.9, 0.95]),
)
def test_the_quantile_is_the_smallest_that_leaves_few_places_above(scores, level):
    if len(scores) < fewest_judges(level):
        return
    found = quantile(np.array(scores), level)

    # A new score is as likely to stand in each of n + 1 places: of these (n + 1) level are below.
    def places(q):
        return sum(s <= q for s in scores) >= (len(scores) + 1) * level - 1e-9

    assert found in scores and places(found)
    assert not any(places(s) for s in scores if s < found)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_the_fewest_judges_are_those_whose_largest_score_says_enough(level):
    n = fewest_judges(level)
    assert math.ceil(round((n + 1) * level, 9)) <= n
    assert math.ceil(round(n * level, 9)) > n - 1
    assert fewest_judges(0.9) == 9


OUTSIDE = np.random.default_rng(8).normal(size=(260, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def product_of_two():
    model = xj.as_model(lambda X: X[:, 0] * X[:, 1] + X[:, 2])
    taught = xj.AmortizedExplainer(xj.Explainer(model, OUTSIDE[:5]), hidden=(16,))
    return taught.fit(OUTSIDE, judge=60, steps=60, progress=False)


@pytest.mark.slow
@quiet
def test_a_row_far_from_the_fit_has_no_bound(product_of_two):
    rows = OUTSIDE[:24].copy()
    rows[3, 0], rows[7, 1], rows[20, 2] = 60.0, -60.0, np.float32(1e30)
    with pytest.warns(xj.XaiWarning, match="3 of 24 rows are outside .* other 3 have .* 0.125"):
        found = product_of_two(rows, fallback=0.0, progress=False)
    assert np.flatnonzero(np.isinf(found.bounds)).tolist() == [3, 7, 20]
    assert np.flatnonzero(found.stats["outside_rows"]).tolist() == [3, 7, 20]
    assert found[2:8].stats["outside_rows"].tolist() == [False, True, False, False, False, True]
    with pytest.warns(xj.XaiWarning, match="The explainer answered 2 of them .* other 1 have"):
        two = product_of_two(rows, fallback=0.1, progress=False)
    assert (two.stats["fallback_rows"] <= two.stats["outside_rows"]).all()
    assert np.isinf(two.bounds).sum() == 1 and (two.bounds == 0).sum() == 2
    with pytest.warns(xj.XaiWarning, match=r"The explainer answered 3 of them \(fallback=0.125\)"):
        assert np.isfinite(product_of_two(rows, fallback=0.125, progress=False).bounds).all()


@pytest.mark.slow
@quiet
@pytest.mark.filterwarnings("error::xaijax.XaiWarning")
def test_a_row_like_those_of_the_fit_has_a_bound(product_of_two):
    top = OUTSIDE.max(axis=0)
    rows = np.concatenate([OUTSIDE[:30], [top + 0.05 * (top - OUTSIDE.min(axis=0))]])
    found = product_of_two(rows.astype(np.float32), fallback=0.0, progress=False)
    assert np.isfinite(found.bounds).all() and not found.stats["outside_rows"].any()


def test_texts_and_gaps_that_no_fitted_row_has_are_outside():
    fitted = pd.DataFrame({"a": [0.0, 1.0] * 10, "b": ["x", "y"] * 10, "c": [1.0, np.nan] * 10})
    known = Inputs.of(fitted)
    known = known.reaching(known.read(fitted))
    asked = pd.DataFrame(
        {"a": [0.5, np.nan, 1.2, 1.05], "b": ["x", "y", "z", "x"], "c": [1.0, np.nan, 1.0, 2.0]}
    )
    assert known.outside(known.read(asked)).astype(int).tolist() == [
        [0, 0, 0],
        [1, 0, 0],  # a gap where none was
        [1, 1, 0],  # beyond a tenth of the range, and an unknown text
        [0, 0, 1],  # a column that was one number
    ]


def coverage(quantile, draws=20_000, n=19):
    """How often a further score is below the quantile of n: each draw anew."""
    rng = np.random.default_rng(5)
    scores = rng.exponential(size=(draws, n + 1))
    return sum(one[-1] <= quantile(one[:-1], 0.9) for one in scores)


def outside(hits, draws=20_000, share=18 / 20):
    """Whether so many hits are what a share of `share` gives less often than FALSE_ALARM."""
    low, high = binom.interval(1 - FALSE_ALARM, draws, share)
    return not low <= hits <= high


def test_a_further_score_is_covered_as_often_as_is_claimed():
    """k = ceil(20 * 0.9) = 18 of 20 places. Caught: the plain empirical quantile of 19 scores."""
    assert not outside(coverage(quantile))
    plain = coverage(lambda scores, level: np.sort(scores)[math.ceil(len(scores) * level) - 2])
    assert outside(plain)


def left_out(A, y, strength):
    """The sum of squared errors of leaving one row out, by as many fits; the mean is not shrunk."""
    G = np.concatenate([np.ones((len(A), 1)), A], axis=1)
    penalty = strength * np.diag([0.0] + [1.0] * A.shape[1])
    total = 0.0
    for i in range(len(A)):
        H, z = np.delete(G, i, axis=0), np.delete(y, i)
        total += (y[i] - G[i] @ np.linalg.solve(H.T @ H + penalty, H.T @ z)) ** 2
    return total, G @ np.linalg.solve(G.T @ G + penalty, G.T @ y)


def test_the_ridge_is_that_of_the_smallest_error_of_leaving_one_out():
    """Of columns that all rows standardise, as the line's are."""
    strengths = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        told = rng.normal(size=(24, 8)) * [1, 10, 0.1, 1, 1, 1, 1, 0] + 3
        errors = np.exp(0.05 * seed * told[:, 0] + rng.normal(size=24))
        y, A = np.log(errors + bounds.FLOOR), (told - told.mean(0))[:, :7] / told.std(0)[:7]
        fits = [(*left_out(A, y, strength), strength) for strength in bounds.STRENGTHS]
        _, wanted, strength = min(fits, key=lambda fit: fit[0])
        line = difficulty_line(told, errors, 1.0)
        # float64 sums of 24 terms of about 10.
        np.testing.assert_allclose(line[0] + told @ line[1:], wanted, atol=1e-9)
        assert line[8] == 0  # what never varies tells nothing
        strengths.add(strength)
    assert len(strengths) > 2  # each of several was the best once


def test_few_validation_rows_tell_no_difficulty():
    rng = np.random.default_rng(0)
    line = difficulty_line(rng.normal(size=(bounds.FEWEST - 1, 4)), np.ones(19), 1.0)
    assert not line[1:].any()
    np.testing.assert_allclose(
        difficulty(np.array([-9.0, 0.0, 9.0]), (-1.0, 2.0)), np.exp([-1, 0, 2])
    )


def f(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2] * rows[:, 3]


JUDGES, TESTED = 2_000, 4_000


def problem(rows):
    """(rows, the last TESTED of them fresh; who explains them; what was learned of `rows`)."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(JUDGES + rows + TESTED, 4)).astype(np.float32)
    explainer = xj.Explainer(xj.as_model(f), X[:10])
    amortized = xj.AmortizedExplainer(explainer, hidden=(32,)).fit(
        X[:-TESTED], judge=JUDGES, steps=400, progress=False
    )
    return X, explainer, amortized


@pytest.fixture(scope="module")
def few():
    return problem(120)  # which a network learns by heart


@pytest.fixture(scope="module")
def many():
    return problem(1_500)


def covered(amortized, explainer, X):
    found = amortized(X, fallback=0.0)
    errors = np.abs(found.values - explainer(X, progress=False).values).max(axis=1)
    return int((errors <= found.bounds).sum())


def far(hits):
    """Whether so many of TESTED are covered less often than FALSE_ALARM, over all judges' draws.

    Of one set of n judges the share covered is Beta(k, n + 1 - k), and hits of it are binomial.
    """
    k = math.ceil((JUDGES + 1) * 0.9)
    low, high = betabinom.interval(1 - FALSE_ALARM, TESTED, k, JUDGES + 1 - k)
    return not low <= hits <= high


@pytest.mark.filterwarnings("ignore:.*outside the range of the rows")
@pytest.mark.slow
@quiet
@pytest.mark.parametrize("rows", ["few", "many"])
def test_bounds_cover_fresh_rows_as_they_claim(rows, request):
    X, explainer, amortized = request.getfixturevalue(rows)
    assert not far(covered(amortized, explainer, X[-TESTED:]))


@pytest.mark.filterwarnings("ignore:.*outside the range of the rows")
@pytest.mark.slow
@quiet
def test_bounds_of_the_training_rows_errors_would_be_found_out(few):
    """What the test above is there for: the network has fitted these rows."""
    X, explainer, amortized = few
    known = X[:-TESTED]
    order = np.random.default_rng([0, 0]).permutation(len(known))[JUDGES:]
    trained = known[order[len(order) // 10 :]]
    found = amortized(trained, fallback=0.0)
    errors = errors_of(found.values[:, :, None], explainer(trained).values[:, :, None])
    scores = errors / (found.bounds / amortized._fitted.quantile)
    broken = amortized.with_explainer(explainer)
    broken._fitted = replace(amortized._fitted, quantile=quantile(scores, 0.9))
    assert far(covered(broken, explainer, X[-TESTED:]))


@pytest.mark.slow
@quiet
@pytest.mark.filterwarnings("ignore:.*outside the range of the rows")
def test_difficult_rows_have_wide_bounds(many):
    X, explainer, amortized = many
    fresh = X[-TESTED:]
    found = amortized(fresh, fallback=0.0)
    errors = np.abs(found.values - explainer(fresh).values).max(axis=1)
    wide = found.bounds > np.median(found.bounds)
    assert errors[wide].mean() > 1.5 * errors[~wide].mean()
    flat = float(np.quantile(errors, 0.9))  # the bound that all rows would have alike
    assert np.median(found.bounds) < flat


@pytest.mark.slow
@quiet
def test_another_confidence_has_another_bound(few):
    X, explainer, amortized = few
    narrow = xj.AmortizedExplainer(explainer, hidden=(32,)).fit(
        X[:-TESTED], judge=JUDGES, steps=400, confidence=0.5, progress=False
    )
    assert narrow._fitted.quantile < amortized._fitted.quantile
    assert narrow(X[:3]).provenance["confidence"] == 0.5
