"""A translation is held against its estimator on every row, not on the first ones alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression

import xaijax as xj
from xaijax.models.translations import registry

RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 4))
FAR = 317  # past the rows that are compared at first


class Jumps(RegressorMixin, BaseEstimator):
    """A sum, but for rows that its translation does not know of."""

    def fit(self, rows: Any, y: Any) -> Jumps:
        self.n_features_in_ = rows.shape[1]
        return self

    def predict(self, rows: Any) -> Any:
        rows = np.asarray(rows)
        return np.where(rows[:, 0] > 5, 7.0, rows.sum(axis=1))


@pytest.fixture
def jumps() -> Iterator[Jumps]:
    @xj.register_translation(Jumps)
    def _(estimator: Any, columns: Any) -> Any:
        return xj.Translation((), {"value": lambda params, rows: rows.sum(axis=1)})

    yield Jumps().fit(X, X[:, 0])
    del registry._REGISTERED[Jumps]


@pytest.mark.parametrize("where", ["X", "background"])
def test_a_later_row_sends_the_estimator_to_the_host(jumps: Jumps, where: str) -> None:
    rows = X.copy()
    rows[FAR, 0] = 9.0
    background, explained = (rows, X[:3]) if where == "background" else (X[:5], rows)
    model = xj.as_model(jumps)
    got = xj.Explainer(model, background)(explained)
    assert got.stats["backend"] == "host" and "differs from" in model.reason
    wanted = xj.Explainer(xj.as_model(jumps, backend="host"), background)(explained)
    np.testing.assert_array_equal(got.values, wanted.values)


def test_a_later_call_is_compared_too(jumps: Jumps) -> None:
    explain = xj.Explainer(xj.as_model(jumps), X[:5])
    assert explain(X[:10]).stats["backend"] == "jax"
    assert explain(X[10:300]).stats["backend"] == "jax"
    far = X[:2].copy()
    far[1, 0] = 9.0
    got = explain(far)
    assert got.stats["backend"] == "host"
    own = got.base_values + got.values.sum(axis=1)
    # Float64 sums of a few numbers below 16: some hundred roundings are 2e-13.
    np.testing.assert_allclose(own, jumps.predict(far), rtol=0, atol=2e-13)


def test_a_later_row_is_an_error_where_jax_was_said(jumps: Jumps) -> None:
    rows = X.copy()
    rows[FAR, 0] = 9.0
    with pytest.raises(xj.InputError, match="differs from Jumps by up to .* in 1 of"):
        xj.Explainer(xj.as_model(jumps, backend="jax"), X[:5])(rows)


def test_a_background_row_of_weight_0_is_compared_in_its_place(jumps: Jumps) -> None:
    """The donors that count are fewer than the rows that were given."""
    weights = np.ones(len(X))
    weights[::3] = 0
    got = xj.Explainer(xj.as_model(jumps), X, weights=weights)(X[:2])
    assert got.stats["backend"] == "jax"


def test_columns_that_grow_with_time_keep_their_digits() -> None:
    """The first rows hold small numbers, later ones large ones whose difference counts."""
    start = np.r_[RNG.uniform(0, 500, 200), 2e6 + RNG.uniform(0, 500, 200)]
    rows = np.c_[start, start + RNG.exponential(8, 400), X[:, 0]]
    fitted = LinearRegression().fit(rows, rows[:, 1] - rows[:, 0] + X[:, 0])
    background = rows[:140:10]
    got = xj.Explainer(xj.as_model(fitted), background)(rows)
    wanted = xj.Explainer(xj.as_model(fitted, backend="host"), background)(rows)
    spread = np.ptp(fitted.predict(rows))
    answers = got.base_values + got.values.sum(axis=1)
    # What the comparison allows: 1e-5 of the spread.
    np.testing.assert_allclose(answers, fitted.predict(rows), rtol=0, atol=1e-5 * spread)
    assert got.values.shape == wanted.values.shape


def test_as_jax_of_a_translation_that_was_left_is_the_estimator(jumps: Jumps) -> None:
    model = xj.as_model(jumps)
    before = xj.as_jax(model)
    far = X[:2].copy()
    far[1, 0] = 9.0
    wanted = model.predict(far)  # compares them
    assert wanted[1] == 7.0
    with pytest.raises(xj.InputError, match=r"Say as_jax\(model\) again"):
        before(far)
    if jax.__version_info__[:2] < (0, 12):  # in which as_jax refuses what runs on the host
        with pytest.raises(xj.InputError, match="jax >= 0.12"):
            xj.as_jax(model)
        return
    # as_jax answers in float32.
    np.testing.assert_allclose(xj.as_jax(model)(far), wanted, rtol=2.0**-23)
