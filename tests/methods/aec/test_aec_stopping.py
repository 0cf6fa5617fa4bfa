"""Where scikit-learn's solver stops far from the minimum: it is told, and only there."""

from __future__ import annotations

import functools
import os
import warnings

import numpy as np
import oracles
import pytest
from aec_data import collinear
from sklearn.datasets import load_breast_cancer, load_iris

import xaijax as xj
from xaijax.methods.aec import logistic as lbfgs
from xaijax.methods.aec import logistic as stopping

NO_DATA = not os.environ.get("XAIJAX_DATA")
FAR = "stopped far from its minimum"


def told(X, y, weights=None, **options):
    """The fit, and its warnings of the stopping point."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aec = xj.AEC(**options).fit(X, y, weights)
    return aec, [str(one.message) for one in caught if FAR in str(one.message)]


def moved(rows=2000, seed=0):
    """Three columns that share a cause with y; the first has mean 1e6 and spread 1e3."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=rows)
    X = np.column_stack([1e6 + 1e3 * z, z + rng.normal(size=rows), z + rng.normal(size=rows)])
    return X, z + rng.normal(size=rows) > 0


@pytest.mark.parametrize("weighted", [False, True])
def test_a_mean_of_1e6_is_told_with_both_slopes(weighted):
    X, y = moved()
    weights = np.random.default_rng(1).integers(1, 4, len(y)) * 1.0 if weighted else None
    aec, found = told(X, y, weights)
    newton, quiet = told(X, y, weights, solver="newton")
    assert len(found) == 1 and not quiet
    # The premise: the slope has the wrong sign, so the effect has, and the other columns are fine.
    assert aec.target_slopes_[0] < 0 < newton.target_slopes_[0]
    slopes = f"{aec.target_slopes_[0]:.3g}, {newton.target_slopes_[0]:.3g}"
    assert f"'x0' ({slopes})." in found[0] and "'x1'" not in found[0]
    assert "solver='newton'" in found[0] and "standardize=True" in found[0]
    assert not told(X, y, weights, standardize=True)[1]
    assert not told(X - [1e6, 0, 0], y, weights)[1]


def test_a_tiny_unit_is_told():
    X, y = moved()
    X = (X - X.mean(axis=0)) / X.std(axis=0) * [1e-4, 1.0, 1.0]
    aec, found = told(X, y)
    assert len(found) == 1 and "'x0' (" in found[0] and "'x1'" not in found[0]
    assert aec.target_slopes_[0] < 0.01 * oracles.logistic_slope(X[:, 0], y)


def test_tables_of_distinct_values_are_looked_at_too():
    X, y = moved()
    X[:, 0] = np.round(X[:, 0], -3)  # a handful of distinct values
    _, found = told(X, y)
    assert len(found) == 1 and "'x0' (" in found[0]


def test_the_class_is_named_where_there_are_several():
    X, _ = moved()
    _, found = told(X, np.array(["low", "mid", "top"])[np.digitize(X[:, 1], [-1, 1])])
    assert len(found) == 1
    assert "'x0' for class low (" in found[0] and "'x0' for class top (" in found[0]


def test_many_columns_are_counted():
    X, y = moved()
    _, found = told(np.column_stack([X[:, 0] + j for j in range(13)]), y)
    assert found[0].count("'x") == 10 and "and 3 more." in found[0]


@pytest.mark.slow
@pytest.mark.skipif(NO_DATA, reason="needs the diabetes table: XAIJAX_DATA is not set")
def test_the_table_of_the_paper_is_quiet():
    X, y = xj.datasets.diabetes()
    assert told(X, y)[1] == []


@pytest.mark.skipif(NO_DATA, reason="needs the wine table: XAIJAX_DATA is not set")
def test_good_wines_are_quiet():
    X, y = xj.datasets.wine()
    assert told(X, np.asarray(y) >= 6)[1] == []


@pytest.mark.parametrize("offset", [0, 5, 20])
@pytest.mark.parametrize("rows", [60, 2000, 50_000])
def test_ordinary_columns_are_quiet(rows, offset):
    """Columns of about unit spread, some without any slope, near 0 or some spreads away from it."""
    rng = np.random.default_rng(rows + offset)
    X = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, 6)) + rng.normal(size=(rows, 6))
    assert told(X + offset, rng.random(rows) < 1 / (1 + np.exp(-X[:, 0])))[1] == []


def test_measured_tables():
    """Flowers are quiet; of tumours two columns of spread 0.003 are told, and standardised none."""
    assert told(*load_iris(return_X_y=True), task="classification")[1] == []
    X, y = load_breast_cancer(return_X_y=True)
    found = told(X, y)[1][0]
    assert "'x14' (" in found and "'x19' (" in found and found.count("'x") == 2
    assert told(X, y, standardize=True)[1] == []


def test_the_minimum_is_found_from_anywhere():
    X, y = collinear(rows=150, columns=1, labels=True)
    x, spread = X[:, 0], X[:, 0].std()
    expected = oracles.logistic_slope(x, y) * spread
    z, penalty = (x - x.mean()) / spread, 1 / spread**2
    for start in ((0.0, 0.0), (3.0, -8.0), (0.0, expected)):
        found = stopping.minimum(z, y, None, start, penalty)[1]
        assert abs(found - expected) <= stopping.CLOSE**2


def test_far_is_both_a_share_of_the_slope_and_of_its_error():
    """400 rows, half of them in the class: the error of a slope of 0 is 1 / sqrt(100) = 0.1."""
    far = functools.partial(stopping.is_far, positive=200.0, weight=400.0, penalty=0.0)
    assert far(1.06, 1.0) and not far(1.04, 1.0)  # 5 % of the slope
    assert far(0.06, 0.0) and not far(0.04, 0.0)  # half an error
    # A penalty of 300 beside a curvature of 100 leaves a quarter of the error.
    assert stopping.is_far(0.014, 0.0, 200.0, 400.0, 300.0)
    assert not stopping.is_far(0.012, 0.0, 200.0, 400.0, 300.0)


def test_a_slope_that_is_told_as_far_is_not_told_as_stuck(monkeypatch):
    X, y = collinear(rows=200, columns=3, labels=True)
    monkeypatch.setitem(lbfgs.OPTIONS, "maxiter", 3)  # x0 is far yet, x2 is near
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        xj.AEC().fit(X[:, [0, 2]], y)
    found = [str(one.message) for one in caught if "logistic" in str(one.message)]
    assert len(found) == 2
    assert FAR in found[0] and "'x0' (" in found[0] and "'x1'" not in found[0]
    assert "'x1' stopped at scikit-learn's limit" in found[1] and "'x0'" not in found[1]


def test_bootstrap_errors_are_those_of_the_minimum():
    X, y = moved(rows=400)
    stopped, newton = (told(X, y, solver=s, bootstrap=20)[0] for s in ("sklearn", "newton"))
    # Both go on from the minimum, known to 1e-4 of a slope of about 1 and to 1e-15, until a step is
    # below 1e-4: what is left of either is its square.
    np.testing.assert_allclose(stopped.std_errors_, newton.std_errors_, rtol=1e-6)
    np.testing.assert_array_equal(stopped.rank_probabilities_, newton.rank_probabilities_)
