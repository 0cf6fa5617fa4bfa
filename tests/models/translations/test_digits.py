"""Answers far from zero keep their digits: in JAX where the offset is taken out, else on the host.

The oracle is the estimator itself, on the host in float64.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import often
import pytest
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeRegressor

import xaijax as xj
from xaijax.models.translations import registry

P = 4
RNG = np.random.default_rng(3)
X = RNG.normal(size=(120, P))
Y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] - X[:, 3]
SHARE = 1e-5  # of the spread, as is promised


def close(model: Any, fitted: Any, background: Any, rows: Any, **options: Any) -> Any:
    """The explanation by `model`, whose values are those of the host."""
    host = xj.as_model(fitted, backend="host")
    found = xj.Explainer(model, background, **options)(rows)
    wanted = xj.Explainer(host, background, **options)(rows)
    spread = np.ptp(host.predict(np.concatenate([background, rows])), axis=0).max()
    np.testing.assert_allclose(found.values, wanted.values, rtol=0, atol=SHARE * spread)
    np.testing.assert_allclose(found.base_values, wanted.base_values, rtol=0, atol=SHARE * spread)
    return found


FORESTS = partial(RandomForestRegressor, 10, max_depth=5, random_state=0)
OFFSET = {
    "forest, 2e5": (FORESTS(), 2e5),
    "SVR, 1e6": (SVR(gamma=0.3), 1e6),
    "MLP, 1e6": (
        MLPRegressor(hidden_layer_sizes=(5,), solver="lbfgs", max_iter=60, random_state=0),
        1e6,
    ),
    "neighbours, 1e6": (KNeighborsRegressor(), 1e6),
    "tree, 1e6": (DecisionTreeRegressor(max_depth=5, random_state=0), 1e6),
    "boosting, 1e6": (GradientBoostingRegressor(n_estimators=8, random_state=0), 1e6),
    "histograms, 1e6": (HistGradientBoostingRegressor(max_iter=8, min_samples_leaf=5), 1e6),
    "least squares, 1e6": (LinearRegression(), 1e6),
    "forest, 1e8": (FORESTS(), 1e8),
    "two targets": (FORESTS(), np.array([1e6, -3e4])),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
@pytest.mark.parametrize(
    "name",
    often.all_but(
        OFFSET,
        slow=["forest, 2e5", "neighbours, 1e6", "boosting, 1e6", "histograms, 1e6", "two targets"],
    ),
)
def test_values_beside_a_large_offset_are_those_of_the_host(name: str) -> None:
    estimator, offset = OFFSET[name]
    y = Y + offset if np.ndim(offset) == 0 else np.stack([Y, X[:, 0]], axis=1) + offset
    fitted = estimator.fit(X, y)
    model = xj.as_model(fitted)
    found = close(model, fitted, X[:30], X[30:36])
    # The offset of a network stands in its hidden units, of which only the last step is known.
    assert found.stats["backend"] == model.backend == ("host" if "MLP" in name else "jax")
    predicted = fitted.predict(X)
    if model.backend == "jax":  # nor does the offset hide an error from the certificate
        residual, bound = found.stats["efficiency_residual"], found.stats["efficiency_bound"]
        assert (residual <= bound).all() and bound.max() <= SHARE * np.ptp(predicted, axis=0).max()
    np.testing.assert_allclose(
        model.predict(X), predicted, rtol=0, atol=SHARE * np.ptp(predicted, axis=0).max()
    )


@pytest.mark.parametrize("rows", [X[:1], np.repeat(X[:1], 3, axis=0)], ids=["one", "equal"])
def test_rows_that_show_no_spread_are_answered_by_the_estimator(rows: np.ndarray) -> None:
    """A float32 of 1e8 is off by 4, and one answer does not show that answers are 8 apart."""
    fitted = FORESTS().fit(X, Y + 1e8)
    model = xj.as_model(fitted)
    np.testing.assert_array_equal(model.predict(rows), fitted.predict(rows))
    assert model.backend == "jax"  # nothing is decided for other rows
    spread = np.ptp(fitted.predict(X))
    np.testing.assert_allclose(model.predict(X), fitted.predict(X), rtol=0, atol=SHARE * spread)
    np.testing.assert_allclose(
        model.predict(rows), fitted.predict(rows), rtol=0, atol=SHARE * spread
    )


@pytest.mark.slow
def test_a_machine_of_thousands_of_vectors_keeps_its_digits_in_jax() -> None:
    """scikit-learn sorts the vectors by class: added up so, the sum rounds far from its end.

    In that order, without splitting, the answers are off by 7e-5 of their spread, ours by 2e-6.
    """
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(4_000, P)).astype("f4")
    noisy = rows[:, 0] + rng.normal(scale=3.0, size=len(rows)) > 0
    fitted = SVC(gamma=0.3).fit(rows, noisy)
    assert len(fitted.support_) > 3_000
    model = xj.as_model(fitted)
    scores = fitted.decision_function(rows)
    np.testing.assert_allclose(model.predict(rows), scores, rtol=0, atol=SHARE / 2 * np.ptp(scores))
    assert model.backend == "jax"


SCALED = {
    "least squares": (LinearRegression(), Y),
    "logistic": (LogisticRegression(), Y > 0),
    "scaled logistic": (make_pipeline(StandardScaler(), LogisticRegression()), Y > 0),
    "scaled SVR": (make_pipeline(StandardScaler(), SVR(gamma=0.3)), Y),
    "neighbours": (KNeighborsRegressor(), Y),
}


# float32 has 1e-4 and 1e-3 of X
@pytest.mark.slow
@often.product({"name": SCALED, "level": [3e3, 1e4]})
def test_values_of_columns_far_from_zero_are_those_of_the_host(name: str, level: float) -> None:
    estimator, y = SCALED[name]
    fitted = estimator.fit(level + X, y)
    model = xj.as_model(fitted)
    found = close(model, fitted, level + X[:30], level + X[30:36])
    assert found.stats["backend"] == model.backend == "jax"
    if hasattr(fitted, "classes_"):
        np.testing.assert_array_equal(model.labels(level + X), fitted.predict(level + X))


@pytest.fixture(scope="module")
def far() -> Any:
    return FORESTS().fit(X, Y + 2e5)


ASKED: dict[str, dict[str, Any]] = {
    "a link": {"link": lambda v: (v - 2e5) ** 2},
    "orders": {"estimator": "permutation", "budget": 12},
    "coalitions": {"estimator": "kernel", "budget": 12},
    "not efficient": {"index": "banzhaf"},
    "groups": {"players": {"a": [0, 2], "b": [1], "c": [3]}},
}


@pytest.mark.slow
@often.product({"structure": [None, "plain"], "name": ASKED})
def test_every_way_to_ask_adds_the_offset(name: str, structure: str | None, far: Any) -> None:
    """Values, and base values, where the offset drops out and where it does not."""
    model = xj.as_model(far, structure=structure)
    found = close(model, far, X[:30], X[30:33], **ASKED[name])
    assert found.stats["backend"] == "jax"


@pytest.mark.slow
def test_orders_that_are_walked_add_the_offset() -> None:
    """By the first layer of a network, whose last step alone holds the offset."""
    fitted = MLPRegressor(hidden_layer_sizes=(5,), max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted.fit(X, Y)
    fitted.intercepts_[-1] = fitted.intercepts_[-1] + 1e6
    model = xj.as_model(fitted)
    found = close(model, fitted, X[:30], X[30:33], estimator="permutation", budget=12)
    assert found.stats["structure"] == "first layer"


@pytest.mark.slow
def test_one_of_several_targets() -> None:
    fitted = FORESTS().fit(X, np.stack([Y, X[:, 0]], axis=1) + [0.0, 1e6])
    model = xj.as_model(fitted, output=1)
    host = xj.as_model(fitted, output=1, backend="host")
    found, wanted = (xj.Explainer(one, X[:30])(X[30:33]) for one in (model, host))
    assert found.stats["backend"] == "jax"
    np.testing.assert_allclose(found.values, wanted.values, rtol=0, atol=SHARE)
    np.testing.assert_allclose(found.base_values, wanted.base_values, rtol=0, atol=SHARE)
    np.testing.assert_allclose(model.predict(X), host.predict(X), rtol=0, atol=SHARE)


@pytest.mark.slow
def test_guests_of_a_federation(far: Any) -> None:
    models = (xj.as_model(far), xj.as_model(far, backend="host"))
    found, wanted = (xj.FederatedExplainer(one, X[:30], {"g": [1, 2]})(X[30:33]) for one in models)
    assert found.stats["backend"] == "jax"
    np.testing.assert_allclose(found.values, wanted.values, rtol=0, atol=SHARE)
    np.testing.assert_allclose(found.base_values, wanted.base_values, rtol=0, atol=SHARE)


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True])
def test_a_decision_by_threshold_is_that_of_the_host(before: bool, far: Any) -> None:
    """What is compared with a threshold inside a program cannot be short of the offset."""
    cut = float(np.median(far.predict(X)))
    model = xj.as_model(far, threshold=cut)
    host = xj.as_model(far, threshold=cut, backend="host")
    if before:  # it is known already that an offset must be taken out
        xj.Explainer(model, X[:30])(X[30:33])
    found, wanted = (xj.QII(one, X[:40]).unary(X[:6]) for one in (model, host))
    assert found.stats["backend"] == "host"
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(model.labels(X), host.labels(X))
    assert xj.Explainer(model, X[:30])(X[30:33]).stats["backend"] == "jax"


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True])
def test_rules_within_a_tolerance_are_those_of_the_host(before: bool, far: Any) -> None:
    model, host = xj.as_model(far), xj.as_model(far, backend="host")
    if before:
        xj.Explainer(model, X[:30])(X[30:33])
    found, wanted = (
        xj.AnchorExplainer(one, X[:60], tolerance=0.5, seed=0).explain(X[:2], search="table")
        for one in (model, host)
    )
    assert [rule.names for rule in found] == [rule.names for rule in wanted]
    assert [rule.precision for rule in found] == [rule.precision for rule in wanted]


@pytest.mark.slow
def test_decided_classes_of_far_columns_stay_in_jax() -> None:
    """Nothing is taken from the scores of classes, so that a program may compare them."""
    fitted = LogisticRegression().fit(1e4 + X, Y > 0)
    models = (xj.as_model(fitted), xj.as_model(fitted, backend="host"))
    found, wanted = (xj.QII(one, 1e4 + X[:40]).unary(1e4 + X[:6]) for one in models)
    assert found.stats["backend"] == "jax"
    # Means of 40 zeros and ones; a share of at most 1 is rounded once in float32.
    np.testing.assert_allclose(found.values, wanted.values, rtol=0, atol=2.0**-24)


@pytest.mark.slow
def test_an_explainer_made_before_another_one_found_the_offset(far: Any) -> None:
    model = xj.as_model(far)
    first, second = xj.Explainer(model, X[:30]), xj.Explainer(model, X[:30])
    second(X[30:33])
    found = first(X[30:33])
    np.testing.assert_array_equal(found.values, second(X[30:33]).values)
    other = close(model, far, X[:20], X[30:33])
    assert other.stats["backend"] == "jax"


def test_rows_that_bring_their_own_offset_after_an_ordinary_background() -> None:
    """The spread is that of background and rows together, so neither hides the other's digits."""
    line = LinearRegression().fit(X, Y)
    line.coef_ = np.array([1.0, -1.0, 0.0, 0.0])
    rows = X[30:36].copy()
    rows[:, :2] += 1e6  # cancels in the answers
    model = xj.as_model(line)
    assert close(model, line, X[:30], rows).stats["backend"] == "host"
    assert "differs from LinearRegression" in model.reason


@pytest.mark.parametrize("count", [1, 2])
def test_few_rows_to_predict_decide_nothing_by_chance(count: int) -> None:
    """Answers that are alike have no spread: the model stays in JAX, and is compared again."""
    fitted = LogisticRegression().fit(X, Y > 0)
    model = xj.as_model(fitted)
    model.predict(np.repeat(X[:1], count, axis=0))
    assert model.backend == "jax" and not model.comparison.done
    model.predict(X)
    assert model.backend == "jax" and model.comparison.done


@pytest.mark.slow
def test_one_instance_beside_one_row_that_answers_nearly_the_same() -> None:
    """Two answers may be near by chance; what their hybrids span counts too."""
    fitted = LogisticRegression().fit(X, Y > 0)
    row = X[:1].copy()
    w = fitted.coef_[0]
    row[0, 0] += 1.0
    row[0, 1] -= (1.0 * w[0] + 1e-7) / w[1]
    model = xj.as_model(fitted)
    spread = np.ptp(fitted.predict_proba(np.concatenate([row, X[:1]]))[:, 1])
    assert 0 < spread < 1e-6
    assert xj.Explainer(model, X[:1])(row).stats["backend"] == "jax"


def test_no_more_rows_are_asked_where_an_offset_is_found() -> None:
    """Each row of the background and to explain once, whichever translation answers."""
    fitted = LinearRegression().fit(X, Y + 1e6)
    asked, plain = [], fitted.predict

    class Counted(LinearRegression):
        def predict(self, rows: Any) -> Any:
            asked.append(len(rows))
            return plain(rows)

    counted = Counted()
    vars(counted).update(vars(fitted))
    translate = registry._BUILT_IN["sklearn", "LinearRegression"].translate
    registry._REGISTERED[Counted] = registry._Entry(translate, False)
    try:
        many = np.tile(X, (3, 1))
        model = xj.as_model(counted)
        assert xj.Explainer(model, many)(many[:140]).stats["backend"] == "jax"
    finally:
        del registry._REGISTERED[Counted]
    assert "minus what" in model.reason and sum(asked) == len(many) + 140


def test_a_jax_models_columns_that_float32_runs_together_are_told_of():
    """Seconds since 1970, ten minutes apart: float32 keeps them to 128 s, of 3,000 s of spread."""
    rows = np.column_stack([1.7e9 + np.arange(6) * 600.0, np.arange(6)])
    model = xj.as_model(lambda X: X[:, 0] * 1e-3 + X[:, 1])
    with pytest.warns(xj.XaiWarning, match="background: in 1 of 2 columns the numbers are so near"):
        explain = xj.Explainer(model, rows[:0:-1] * [1, 0])
    with pytest.warns(xj.XaiWarning, match="X: in 1 of 2 columns the numbers are so near"):
        explain(rows)


@pytest.mark.slow
@pytest.mark.parametrize("trees", [1, 7])
def test_an_instance_that_is_the_only_donor_has_values_of_0_far_from_0(trees):
    """All its hybrids have one answer, of which nothing is left once the level is taken out; the
    leaves were rounded at their own size."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4))
    y = 1000 + rows[:, 0] + rows[:, 1] * rows[:, 2]
    forest = RandomForestRegressor(trees, max_depth=1, random_state=0).fit(rows, y)
    got = xj.Explainer(xj.as_model(forest), xj.Baseline(rows[0]))(rows[:3], progress=False)
    np.testing.assert_array_equal(got.values[0], 0.0)
    assert (np.abs(got.stats["efficiency_residual"]) <= got.stats["efficiency_bound"]).all()
