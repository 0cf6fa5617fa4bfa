"""Rows that agreed with the estimator are not compared again; nothing else is taken for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj
from xaijax.models.identity.fit_fingerprint import FitFingerprint
from xaijax.models.queries.comparison import MOST, Agreed, TranslationCheck
from xaijax.models.translations import registry

RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 4))
Y = X[:, 0] ** 2 + X[:, 1]
FITTED = LinearRegression().fit(X, Y)
STAMP, SPREAD = FitFingerprint(FITTED), np.ones(1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each call asks the estimator for, to compare them."""
    found: list[int] = []
    own = TranslationCheck._host

    def counted(self: TranslationCheck, rows: Any) -> Any:
        found.append(len(rows))
        return own(self, rows)

    monkeypatch.setattr(TranslationCheck, "_host", counted)
    return found


def rows_asked(asked: list[int], model: xj.Model, background: Any, explained: Any) -> int:
    asked.clear()
    assert xj.Explainer(model, background)(explained).stats["backend"] == "jax"
    return sum(asked)


@pytest.mark.parametrize("copy", [True, False])  # False: the scaler writes into what it is given
def test_a_background_is_compared_once_for_all_explainers(asked: list[int], copy: bool) -> None:
    model = xj.as_model(make_pipeline(StandardScaler(copy=copy), LinearRegression()).fit(X + 0, Y))
    assert rows_asked(asked, model, X, X[:2]) == 402
    # Other instances are compared, with the first 128 rows of the background.
    assert rows_asked(asked, model, X.copy(), X[2:5]) == 131
    assert rows_asked(asked, model, X, X[:2].copy()) == 0
    assert rows_asked(asked, model, X[1:], X[:2]) == 401


def test_an_estimator_that_writes_into_its_rows_is_given_its_own() -> None:
    """The broken version explained the scaled rows: off by the size of the answers."""
    fitted = make_pipeline(StandardScaler(copy=False), LinearRegression()).fit(3 * X + 1, Y)
    background, rows = 3 * X[:50] + 1, 3 * X[50:55] + 1
    wanted = fitted.predict(rows.copy())
    found = xj.Explainer(xj.as_model(fitted), background)(rows)
    assert found.stats["backend"] == "jax"
    own = found.base_values + found.values.sum(axis=1)
    # 1e-5 of the spread of the answers is what the comparison accepts.
    np.testing.assert_allclose(own, wanted, rtol=0, atol=1e-5 * np.ptp(fitted.predict(3 * X + 1)))
    np.testing.assert_array_equal(rows, 3 * X[50:55] + 1)


class Sum:
    """A sum times a number that no fingerprint sees: of the class, or of how much it was asked."""

    n_features_in_ = 4
    factor = 1.0
    asked = 0

    def predict(self, rows: Any) -> Any:
        type(self).asked += len(rows)
        return np.asarray(rows).sum(axis=1) * self.factor


def assigned() -> None:
    Sum.factor = 3.0


def drifted() -> None:
    Sum.factor = 1.0 + (Sum.asked > 100)


@pytest.fixture
def fresh() -> Iterator[None]:
    @xj.register_translation(Sum)
    def _(estimator: Any, columns: Any) -> Any:
        return xj.Translation((), {"value": lambda params, rows: rows.sum(axis=1)})

    yield
    Sum.factor, Sum.asked = 1.0, 0
    del registry._REGISTERED[Sum]


@pytest.mark.parametrize("change", [assigned, drifted])
def test_a_class_of_ones_own_is_compared_each_time(fresh: None, change: Callable[[], None]) -> None:
    del fresh
    model = xj.as_model(Sum())
    assert xj.Explainer(model, X)(X[:2]).stats["backend"] == "jax"
    change()
    assert xj.Explainer(model, X)(X[:2]).stats["backend"] == "host"


def test_only_the_rows_themselves_are_taken_for_them() -> None:
    known = Agreed()

    def among(rows: Any, centred: bool = False) -> bool:
        return known.key(centred, [rows]) in known

    known.add(known.key(False, [X]), STAMP, SPREAD)
    assert among(X) and among(X.copy()) and among(np.asfortranarray(X))
    assert not among(X, centred=True)
    near = X.copy()
    near[0, 0] = np.nextafter(near[0, 0], 9)
    np.testing.assert_array_equal(near.astype(np.float32), X.astype(np.float32))
    assert not among(near)
    assert not among(X.astype(np.float32)) and not among(X.reshape(800, 2))
    assert not among(X.astype(object)) and not among(X.tolist())
    zero = np.zeros((2, 4))
    known.add(known.key(False, [zero]), STAMP, SPREAD)
    assert among(zero) and not among(-zero)  # which 1 / x tells apart


def test_what_proves_little_is_not_kept() -> None:
    known = Agreed()
    key = known.key(False, [X])
    known.add(key, STAMP, np.zeros(1))  # equal answers: hundreds of roundings pass
    known.add(key, STAMP, None)
    known.add(key, FitFingerprint(Sum()), SPREAD)
    known.add(known.key(False, [X.tolist()]), STAMP, SPREAD)
    assert key not in known and None not in known
    for one in range(MOST + 1):
        known.add(one + 1, STAMP, SPREAD)
    assert [one in known for one in (1, 2, MOST + 1)] == [False, True, True]
    known.clear()
    assert 2 not in known


def test_labels_that_agreed_are_kept_with_their_scores() -> None:
    known = Agreed()
    known.add(known.key(False, [X]), STAMP, SPREAD)
    assert known.key(False, [X], labels=True) not in known
    known.clear()
    known.add(known.key(False, [X], labels=True), STAMP, SPREAD)
    assert known.key(False, [X], labels=True) in known and known.key(False, [X]) in known
    assert known.key(True, [X]) not in known
