"""Estimators that change after they were wrapped, and such as are not what their class says."""

import copy
import functools
import warnings

import numpy as np
import pandas as pd
import pytest
from often import some_slow
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from translated_kinds import KINDS

import xaijax as xj
from xaijax.models.identity.fit_fingerprint import FitFingerprint
from xaijax.models.identity.patched import patched

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)).astype(np.float32)
Y = X[:, 0] * X[:, 1] + X[:, 2]
CHANGED = r"has changed since as_model translated it.*Wrap it anew with as_model"


@functools.cache
def fitted():
    return LogisticRegression().fit(X, Y > 0)


def refitted(estimator):
    estimator.fit(X, Y > 0.5)


def assigned(estimator):
    estimator.coef_ = estimator.coef_ * 2


def in_place(estimator):
    estimator.coef_[0, 0] += 1.0


USES = {
    "explainer": lambda m: functools.partial(xj.Explainer(m, X[:5]), X[:2]),
    "sampled": lambda m: functools.partial(
        xj.Explainer(m, X[:5], estimator="permutation", budget=4), X[:2]
    ),
    "QII of labels": lambda m: xj.QII(m, X[:8]).unary,
    "QII of scores": lambda m: xj.QII(m, X[:8], outcome="score", quantity="individual").explain,
    "QII game": lambda m: xj.QII(m, X[:8]).game,
    "Anchors": lambda m: functools.partial(xj.AnchorExplainer(m, X).explain, X[:2]),
    "federated": lambda m: functools.partial(xj.FederatedExplainer(m, X, {"g": [0]}), X[:2]),
    "predict": lambda m: functools.partial(m.predict, X[:2]),
    "labels": lambda m: functools.partial(m.labels, X[:2]),
    "decided": lambda m: functools.partial(m.decided()[0].predict, X[:2]),
    "unselected": lambda m: functools.partial(m.unselected().predict, X[:2]),
    "replace": lambda m: functools.partial(m.replace(allow_nan=True).predict, X[:2]),
    "replace of parameters": lambda m: lambda: m.replace(params=m.params),
    "as_jax": lambda m: functools.partial(xj.as_jax(m), X[:2]),
    "another explainer": lambda m: lambda: xj.Explainer(m, X[:5]),
}


@pytest.mark.slow
@pytest.mark.parametrize("use", some_slow(USES, 5))
def test_row_63_an_estimator_fitted_again_is_refused_after_use(use):
    estimator = copy.deepcopy(fitted())
    asked = USES[use](xj.as_model(estimator, output=True))
    asked()
    refitted(estimator)
    with pytest.raises(xj.InputError, match=CHANGED):
        asked()


@pytest.mark.parametrize("change", [refitted, assigned, in_place])
@pytest.mark.parametrize("used", [True, False])
def test_row_63_every_kind_of_change(change, used):
    estimator = copy.deepcopy(fitted())
    model = xj.as_model(estimator)
    if used:
        model.predict(X)
    change(estimator)
    with pytest.raises(xj.InputError, match=CHANGED):
        model.predict(X)
    np.testing.assert_allclose(
        xj.as_model(estimator).predict(X), estimator.predict_proba(X), rtol=0, atol=1e-6
    )  # the way out; some 2^-20, the rounding of a chance in float32


def test_row_63_parts_of_an_estimator():
    forest = RandomForestRegressor(3, random_state=0).fit(X, Y)
    model = xj.as_model(make_pipeline(StandardScaler(), forest).fit(X, Y))
    model.predict(X)
    forest.estimators_[1].tree_.value[0] += 1.0
    with pytest.raises(xj.InputError, match=CHANGED):
        model.predict(X)


def test_the_host_follows_its_estimator():
    estimator = copy.deepcopy(fitted())
    model = xj.as_model(estimator, backend="host")
    explainer = xj.Explainer(model, X[:5])
    explainer(X[:2])
    refitted(estimator)
    new = xj.Explainer(xj.as_model(estimator, backend="host"), X[:5])(X[:2])
    np.testing.assert_array_equal(explainer(X[:2]).values, new.values)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"perturbation": "conditional"}, {}),
        ({"perturbation": "row", "weights": "balanced"}, {}),
        ({}, {"search": "kl-lucb"}),
    ],
)
def test_anchors_on_the_host_follow_its_estimator(options, asked):
    """Its answers to the data, and the weights that they make, are those of the new fit."""
    rows = np.random.default_rng(1).normal(size=(120, 3))
    labels = rows[:, 0] + rows[:, 1] * rows[:, 2] > 0
    estimator = DecisionTreeClassifier(max_depth=4, random_state=0).fit(rows, labels)

    def explainer():
        return xj.AnchorExplainer(xj.as_model(estimator, backend="host"), rows[:60], **options)

    first = explainer()
    before = first.explain(rows[60:64], **asked)
    estimator.fit(rows, rows[:, 1] > rows[:, 0])
    after = first.explain(rows[60:64], **asked)
    assert list(map(str, after)) == list(map(str, explainer().explain(rows[60:64], **asked)))
    assert list(map(str, after)) != list(map(str, before))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [VotingClassifier, StackingClassifier, VotingRegressor, StackingRegressor]
)
def test_an_ensemble_of_an_ensemble_is_read(kind):
    """NumPy takes a forest for a sequence of trees."""
    one, other = (LinearRegression(), RandomForestRegressor(3, max_depth=2, random_state=0))
    labels = Y
    if kind in (VotingClassifier, StackingClassifier):
        one, other = (
            make_pipeline(StandardScaler(), LogisticRegression()),
            RandomForestClassifier(3, max_depth=2, random_state=0),
        )
        labels = Y > 0
    estimator = kind([("one", one), ("other", other)]).fit(X, labels)
    got = xj.Explainer(xj.as_model(estimator), X[:5])(X[:2])
    assert got.stats["backend"] == "jax"


@pytest.mark.parametrize("name", KINDS)
def test_using_an_estimator_does_not_change_it(name):
    """Else a model would refuse itself: after the host was asked, or only looked at."""
    kind = KINDS[name]
    before = FitFingerprint(kind.fitted)
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(kind.fitted, method):
            getattr(kind.fitted, method)(kind.rows)
    kind.fitted.set_params(**({"n_jobs": 2} if "n_jobs" in kind.fitted.get_params() else {}))
    assert FitFingerprint(kind.fitted) == before
    assert patched(kind.fitted) is None


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.backend == "jax"])
def test_a_fit_on_other_rows_is_seen(name):
    kind = KINDS[name]
    estimator, half = copy.deepcopy(kind.fitted), np.arange(len(kind.rows)) % 3 > 0
    before = FitFingerprint(estimator)
    rows = kind.rows.loc[half] if isinstance(kind.rows, pd.DataFrame) else kind.rows[half]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(rows, kind.y[half])
    assert FitFingerprint(estimator) != before


# What was put over a method.


def test_row_64_a_method_patched_on_the_estimator_goes_to_the_host():
    """Where the two agree on the first rows, no comparison would show it."""
    estimator = copy.deepcopy(fitted())
    own = estimator.predict_proba
    estimator.predict_proba = lambda rows: np.where(rows[:, :1] > 9, 0.5, own(rows))
    model = xj.as_model(estimator)
    assert model.backend == "host" and "predict_proba was replaced" in repr(model)
    far = np.array([[10.0, 0.0, 0.0]], np.float32)
    np.testing.assert_array_equal(model.predict(far), [[0.5, 0.5]])
    with pytest.raises(xj.InputError, match="predict_proba was replaced"):
        xj.as_model(estimator, backend="jax")


@pytest.mark.parametrize("place", ["tree", "step"])
def test_row_64_a_patched_part_goes_to_the_host(place):
    forest = RandomForestClassifier(3, random_state=0).fit(X, Y > 0)
    whole = make_pipeline(StandardScaler(), forest).fit(X, Y > 0)
    part = forest.estimators_[2] if place == "tree" else whole[0]
    method = "predict_proba" if place == "tree" else "transform"
    own = getattr(part, method)
    setattr(part, method, lambda rows, *more, **named: own(rows, *more, **named))
    assert f"{method} was replaced" in repr(xj.as_model(whole))


def test_row_64_a_method_patched_on_the_class_goes_to_the_host(monkeypatch):
    own = LinearRegression.predict
    estimator = LinearRegression().fit(X, Y)

    @functools.wraps(own)
    def mine(self, rows):
        return np.where(rows[:, 0] > 9, 0.0, own(self, rows))

    monkeypatch.setattr(LinearRegression, "predict", mine)
    model = xj.as_model(estimator)
    assert model.backend == "host"
    assert "predict of the class LinearRegression was replaced" in repr(model)


@pytest.mark.parametrize("kind", [GradientBoostingRegressor, RandomForestRegressor])
def test_numbers_drawn_elsewhere_are_no_change(kind):
    # Without random_state= boosting keeps NumPy's own generator, of which everybody draws.
    fitted = kind(n_estimators=3).fit(X, Y)
    model = xj.as_model(fitted)
    before = model.predict(X)
    np.random.standard_normal(5)
    assert FitFingerprint(fitted) == model.comparison.fingerprint
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("part", [LogisticRegression, StandardScaler])
def test_a_method_replaced_on_the_class_after_wrapping_is_a_change(part, monkeypatch):
    model = xj.as_model(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y > 0))
    before = model.predict(X)
    name = "transform" if part is StandardScaler else "predict_proba"
    own = getattr(part, name)
    monkeypatch.setattr(part, name, lambda self, rows: own(self, rows + 1))
    with pytest.raises(xj.InputError, match=CHANGED):
        model.predict(X)
    monkeypatch.undo()
    np.testing.assert_array_equal(model.predict(X), before)


def test_row_64_a_class_of_a_borrowed_name_goes_to_the_host():
    def predict(self, rows):
        return np.where(rows[:, 0] > 9, 0.0, LinearRegression.predict(self, rows))

    borrowed = type("LinearRegression", (LinearRegression,), {"predict": predict})
    borrowed.__module__ = LinearRegression.__module__
    model = xj.as_model(borrowed().fit(X, Y))
    assert "not the class that scikit-learn has by this name" in repr(model)
    assert model.predict(np.array([[10.0, 0, 0]], np.float32)) == 0


def test_row_64_no_estimator_at_all_under_such_a_name():
    class Ridge:
        coef_ = np.ones(3)
        n_features_in_ = 3

        def predict(self, rows):
            return rows.sum(axis=1)

    Ridge.__module__ = "sklearn.linear_model._ridge"
    model = xj.as_model(Ridge())
    assert model.backend == "host"
    np.testing.assert_array_equal(model.predict(X), X.sum(axis=1).astype(np.float64))


def test_a_patch_after_the_translation_is_a_change():
    estimator = DecisionTreeRegressor(max_depth=2).fit(X, Y)
    model = xj.as_model(estimator)
    model.predict(X)
    estimator.predict = lambda rows: np.zeros(len(rows))
    with pytest.raises(xj.InputError, match=CHANGED):
        model.predict(X)


def test_neighbours_count_their_visitors_and_stay_the_same():
    estimator = KNeighborsRegressor(3).fit(X, Y)
    model = xj.as_model(estimator)
    first = model.predict(X)
    estimator.predict(X)
    np.testing.assert_array_equal(model.predict(X), first)


class Recording(LinearRegression):
    """Keeps what it was asked."""

    def predict(self, X):
        self.asked = getattr(self, "asked", 0) + len(X)
        return super().predict(X)


def test_an_estimator_that_keeps_what_it_was_asked_has_not_changed():
    explain = xj.Explainer(xj.as_model(Recording().fit(X, Y)), X[:5])
    for _ in range(3):
        found = explain(X[:8], progress=False)
        assert np.isfinite(found.values).all()


@pytest.mark.slow
def test_a_random_state_that_is_shared_is_no_change():
    """Another estimator draws from it, and no answer of this one does."""
    rng = np.random.default_rng(0)
    rows, state = rng.normal(size=(60, 3)), np.random.RandomState(0)
    forest = RandomForestClassifier(3, random_state=state).fit(rows, rows[:, 0] > 0)
    explain = xj.Explainer(xj.as_model(forest), rows[:5])
    before = explain(rows[:2])
    state.rand()
    forest.set_params(random_state=5)
    np.testing.assert_array_equal(explain(rows[:2]).values, before.values)


@pytest.mark.parametrize("output", ["p", None, "label"])
def test_a_host_estimator_that_knows_other_classes_is_refused(output):
    """Its columns would be those of other classes, and no residual shows it."""
    data = np.random.default_rng(0).normal(size=(60, 2))
    above = data[:, 0] > 0
    fitted = BaggingClassifier(LogisticRegression(), 3, random_state=0)
    model = xj.as_model(fitted.fit(data, np.where(above, "p", "q")), output=output, backend="host")
    before = model.labels(data)
    fitted.fit(data, np.where(above, "p", "q"))
    assert (model.labels(data) == before).all()  # another fit of the same classes
    fitted.fit(data, np.where(above, "p", "a"))
    for asked in (model.labels, xj.Explainer(model, data[:5])):
        with pytest.raises(xj.InputError, match=r"classes were \['p', 'q'\], and are \['a', 'p'\]"):
            asked(data[:3])


def test_parameters_are_those_that_were_given():
    """A model keeps its own copy, whatever its caller does with the arrays."""
    given = {"w": np.ones(2)}
    model = xj.as_model(lambda p, rows: (rows @ p["w"]) ** 2, given, structure="plain")
    explain = xj.Explainer(model, np.zeros((1, 2)))
    rows = np.array([[1.0, 2.0]])
    first = explain(rows).values
    given["w"][:] = [10, 0]
    assert (explain(rows).values == first).all() and model.predict(rows) == 9.0
    with pytest.raises(ValueError, match="read-only"):
        model.params["w"][:] = 0
    other = {"w": np.zeros(2)}
    changed = model.replace(params=other)
    other["w"][:] = 1
    assert changed.predict(rows) == 0.0


@pytest.mark.filterwarnings("ignore:scores of outcome")
@pytest.mark.slow
def test_qii_of_kept_codes_refuses_a_refit():
    fitted_once = GradientBoostingRegressor(n_estimators=3, random_state=0).fit(X, Y)
    qii = xj.QII(xj.as_model(fitted_once), X, quantity="individual", outcome="score")
    qii.explain(X[:5])  # the data are not encoded yet
    fitted_once.fit(X, -Y)
    with pytest.raises(xj.InputError, match=CHANGED):
        qii.explain()


@pytest.mark.filterwarnings("ignore:scores of outcome")
@pytest.mark.slow
def test_qii_of_kept_codes_follows_a_translation_that_is_left():
    estimator = GradientBoostingRegressor(n_estimators=3, random_state=0).fit(X, Y)
    model = xj.as_model(estimator)
    qii = xj.QII(model, X, quantity="individual", outcome="score")
    before = qii.explain()
    model.comparison.fall_back("as a test wants it")
    after = qii.explain()
    assert (before.stats["backend"], after.stats["backend"]) == ("jax", "host")
    np.testing.assert_allclose(after.values, before.values, rtol=0, atol=1e-5)
