"""Ensembles around anything that is translated, and isolation forests. The oracle of the first is
scikit-learn; that of the second is the definition of a path's length.
"""

from __future__ import annotations

import numpy as np
import pytest
from often import some_slow
from sklearn import calibration, ensemble, linear_model, multiclass, multioutput, svm, tree
from sklearn.frozen import FrozenEstimator

import xaijax as xj

RNG = np.random.default_rng(4)
X = np.round(RNG.normal(size=(120, 4)), 1)
VALUE = X[:, 0] * X[:, 1] + X[:, 2] + 50
TWO, THREE = np.where(VALUE > 50, "yes", "no"), np.digitize(VALUE, [49.5, 50.5])
TARGETS = np.stack([VALUE, -VALUE], axis=1)
TREE, STUMP = tree.DecisionTreeClassifier(max_depth=3), tree.DecisionTreeRegressor(max_depth=3)
FOREST = ensemble.RandomForestClassifier(3, max_depth=3, random_state=0)
LINE, LOGIT = linear_model.Ridge(), linear_model.LogisticRegression()

ENSEMBLES = {
    "bag": (ensemble.BaggingRegressor(STUMP, 4, max_features=0.6, random_state=0), VALUE),
    "bag, 3": (ensemble.BaggingClassifier(TREE, 4, bootstrap_features=True), THREE),
    "bag of few rows": (ensemble.BaggingClassifier(TREE, 4, max_samples=4), THREE),
    "bag of lines": (ensemble.BaggingRegressor(LINE, 3, max_features=0.6), VALUE),
    "bag of decisions": (ensemble.BaggingClassifier(svm.LinearSVC(), 3), THREE),
    "vote": (ensemble.VotingRegressor([("a", STUMP), ("b", LINE)], weights=[1, 3]), VALUE),
    "soft vote": (ensemble.VotingClassifier([("a", TREE), ("b", LOGIT)], voting="soft"), THREE),
    "targets": (multioutput.MultiOutputRegressor(STUMP), TARGETS),
    "target classes": (multioutput.MultiOutputClassifier(FOREST), np.stack([TWO, TWO], axis=1)),
    "one for each": (multiclass.OneVsRestClassifier(FOREST), THREE),
    "one of two": (multiclass.OneVsRestClassifier(LOGIT), TWO),
    "stack": (ensemble.StackingRegressor([("a", STUMP), ("b", LINE)], LINE, cv=2), VALUE),
    "stack, 2": (ensemble.StackingClassifier([("a", TREE), ("b", FOREST)], LOGIT, cv=2), TWO),
    "calibrated": (calibration.CalibratedClassifierCV(FOREST, cv=2), THREE),
    "isotonic": (calibration.CalibratedClassifierCV(FOREST, cv=2, method="isotonic"), TWO),
    "votes, 2": (ensemble.AdaBoostClassifier(n_estimators=5, random_state=0), TWO),
    "votes, 3": (ensemble.AdaBoostClassifier(n_estimators=5, random_state=0), THREE),
    "median": (ensemble.AdaBoostRegressor(n_estimators=5, random_state=0), VALUE),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", some_slow(list(ENSEMBLES), 8))
def test_an_ensemble_answers_as_scikit_learn_does(name):
    estimator, target = ENSEMBLES[name]
    fitted = estimator.fit(X, target)
    words = {"proba": "predict_proba", "decision": "decision_function", "value": "predict"}
    for word, method in words.items():
        if not hasattr(fitted, method) or (word == "value" and hasattr(fitted, "classes_")):
            continue
        wanted = getattr(fitted, method)(X)
        wanted = np.concatenate(wanted, axis=1) if isinstance(wanted, list) else wanted
        model = xj.as_model(fitted, output=word, backend="jax")
        # As all translations: 1e-5 of what the answers differ by.
        np.testing.assert_allclose(model.predict(X), wanted, rtol=0, atol=1e-5 * np.ptp(wanted))
        if hasattr(fitted, "classes_") and np.ndim(target) == 1:
            np.testing.assert_array_equal(model.labels(X), fitted.predict(X))


def test_a_frozen_estimator_is_the_one_in_it():
    inner = ensemble.RandomForestClassifier(3, random_state=0).fit(X, TWO)
    model = xj.as_model(calibration.CalibratedClassifierCV(FrozenEstimator(inner)).fit(X, TWO))
    assert model.backend == "jax", model.reason


def c(n: float) -> float:
    """Mean length of a path in a tree of n rows (Liu, Ting and Zhou 2008)."""
    if n <= 2:
        return float(n == 2)
    return 2 * (np.log(n - 1) + np.euler_gamma) - 2 * (n - 1) / n


def length_of_path(fitted: ensemble.IsolationForest, row: np.ndarray) -> float:
    """Mean over trees of a leaf's depth, and of the length that its rows stand for."""
    total = 0.0
    for one, columns in zip(fitted.estimators_, fitted.estimators_features_, strict=True):
        inner, node, depth = one.tree_, 0, 0
        x = row[columns].astype(np.float32)
        while inner.children_left[node] >= 0:
            left = x[inner.feature[node]] <= inner.threshold[node]
            node = int((inner.children_left if left else inner.children_right)[node])
            depth += 1
        total += depth + c(inner.n_node_samples[node])
    return total / len(fitted.estimators_)


@pytest.mark.slow
@pytest.mark.parametrize("features", [1.0, 0.5])
def test_the_path_length_of_an_isolation_forest(features):
    fitted = ensemble.IsolationForest(
        n_estimators=5, max_samples=60, max_features=features, random_state=0
    ).fit(X)
    if features == 1.0:
        fitted.estimators_features_ = [np.arange(4)] * 5
    wanted = [length_of_path(fitted, row) for row in X[:40]]
    for backend in ("jax", "host"):
        model = xj.as_model(fitted, output="path-length", backend=backend)
        np.testing.assert_allclose(model.predict(X[:40]), wanted, rtol=0, atol=1e-5)
    decided = xj.as_model(fitted, backend="jax")
    np.testing.assert_allclose(decided.predict(X), fitted.decision_function(X), atol=1e-6)
    np.testing.assert_array_equal(decided.labels(X), fitted.predict(X))


def test_path_lengths_are_of_isolation_forests_only():
    with pytest.raises(xj.InputError, match="output='path-length' is not available"):
        xj.as_model(STUMP.fit(X, VALUE), output="path-length")
