"""Translations of scikit-learn's estimators: each answers as the estimator does, or says why not.

The oracle is scikit-learn itself.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from often import some_slow
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor
from translated_kinds import APART, FRAME, KINDS, THREE, TWO, X, asked

import xaijax as xj

TRANSLATED = [name for name, kind in KINDS.items() if kind.backend == "jax"]


@pytest.fixture
def x64():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def answers(fitted, rows):
    """{output: the estimator's own}, of all that it has."""
    words = {"proba": "predict_proba", "decision": "decision_function"}
    found = {word: getattr(fitted, name)(rows) for word, name in words.items()
             if hasattr(fitted, name)}  # fmt: skip
    if hasattr(fitted, "score_samples") and not found:
        scores = fitted.score_samples(rows)
        return {"decision": scores, "density": np.exp(scores)}
    return found if found or hasattr(fitted, "classes_") else {"value": fitted.predict(rows)}


def assert_close(found, wanted, roundings, eps):
    """Within so many roundings at the size of the largest answer."""
    size = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=roundings * eps * max(size, 1e-30))


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_the_repr_of_each_kind_says_where_it_runs(name):
    kind = KINDS[name]
    model, found = asked(name)
    labels = model.labels(kind.rows) if hasattr(kind.fitted, "classes_") else None
    assert f"backend='{kind.backend}'" in repr(model), repr(model)
    if kind.backend == "host":
        assert kind.reason in model.reason
        wanted = xj.as_model(kind.fitted, allow_nan=True, backend="host").predict(kind.rows)
        np.testing.assert_array_equal(found, wanted)
        return
    assert "the JAX translation of" in model.reason
    # Sums of at most 90 terms of either sign, the largest some ten times the answer, and scores
    # behind a kernel or an exponential: 2^9 roundings.
    assert_close(found, answers(kind.fitted, kind.rows)[model.output], 512, 2.0**-24)
    if labels is not None:
        np.testing.assert_array_equal(labels, kind.fitted.predict(kind.rows))


# What may leave JAX on the ordinary data of the table; one more is a fault.
ON_HOST = {
    "SVC of a kernel",
    "spread labels",
    "spread labels behind a scaler",
    "boosting after a model",
    "gaps that are refused",
    "neighbours, ties",
    "own function of distance",
    "process of another kernel",
    "kernel density, blocks",
}


@pytest.mark.slow
def test_no_other_kind_leaves_jax():
    found = {name: asked(name)[0] for name in KINDS}
    host = {name for name, model in found.items() if model.backend == "host"}
    assert host == ON_HOST, {name: found[name].reason for name in host ^ ON_HOST}
    assert len(found) - len(host) == len(TRANSLATED) >= 101
    # Nor is a translation made twice for them (numbers far from zero are another matter).
    again = [name for name, m in found.items() if m.comparison and m.comparison.centred]
    assert not again


@pytest.mark.parametrize("name", some_slow(TRANSLATED, 8))
def test_the_formula_is_the_estimators(name, x64):
    """In float64, where rounding hides nothing, for every output and the labels."""
    kind = KINDS[name]
    for output, wanted in answers(kind.fitted, kind.rows).items():
        model = xj.as_model(
            kind.fitted, output=output, allow_nan=True, precision="float64", backend="jax"
        )
        # 2^14 roundings: libsvm's kernels and scikit-learn's distances cancel as ours do.
        assert_close(model.predict(kind.rows), wanted, 2**14, 2.0**-53)
        if output != "value" and hasattr(kind.fitted, "predict"):
            np.testing.assert_array_equal(model.labels(kind.rows), kind.fitted.predict(kind.rows))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic, 3", "SVC, 2", "random forest, 2"])
def test_columns_and_labels_of_one_class(name):
    kind = KINDS[name]
    fitted = kind.fitted
    first = fitted.classes_[0]
    host = xj.as_model(fitted, output=first, backend="host").predict(X)
    model = xj.as_model(fitted, output=first, backend="jax")
    assert_close(model.predict(X), host, 512, 2.0**-24)
    np.testing.assert_array_equal(model.labels(X), fitted.predict(X))


@pytest.mark.slow
def test_labels_as_numbers():
    numbers = np.unique(THREE, return_inverse=True)[1] * 2 + 1
    fitted = KINDS["tree, 3"].estimator.__class__(max_depth=3, random_state=0).fit(X, numbers)
    model = xj.as_model(fitted, output="label")
    assert model.backend == "jax"
    np.testing.assert_array_equal(model.predict(X), fitted.predict(X))
    assert model.labels(X).dtype == fitted.predict(X).dtype
    text = xj.as_model(KINDS["tree, 3"].fitted, output="label")
    assert text.backend == "host" and "no numbers" in text.reason
    np.testing.assert_array_equal(text.labels(X), KINDS["tree, 3"].fitted.predict(X))


@pytest.mark.filterwarnings("ignore:The `probability` parameter:FutureWarning")
def test_an_output_without_translation_stays_on_the_host():
    fitted = SVC(probability=True, random_state=0).fit(X, TWO)
    model = xj.as_model(fitted)
    assert (model.backend, model.output) == ("host", "proba")
    assert "predict_proba of SVC has no translation" in repr(model)
    np.testing.assert_array_equal(model.predict(X), fitted.predict_proba(X))
    assert xj.as_model(fitted, output="decision").backend == "jax"
    with pytest.raises(xj.InputError, match=r"backend='jax' .* predict_proba of SVC"):
        xj.as_model(fitted, backend="jax")


@pytest.mark.slow
def test_ties_between_neighbours_are_allowed_where_jax_is_asked_for():
    """Any of the equally near may count: the share of each class lies between the extremes."""
    kind = KINDS["neighbours, ties"]
    found = xj.as_model(kind.fitted, backend="jax").predict(X)
    far = np.linalg.norm(X[:, None] - X, axis=2)
    kth = np.sort(far, axis=1)[:, 4]
    own = np.eye(3)[np.unique(THREE, return_inverse=True)[1]]
    surely = far < kth[:, None] - 1e-9
    perhaps = np.abs(far - kth[:, None]) <= 1e-9
    low = surely @ own
    seats = 5 - surely.sum(axis=1, keepdims=True)
    high = low + np.minimum(perhaps @ own, seats)
    assert (perhaps.sum(axis=1) > seats[:, 0]).any()
    assert (found * 5 >= low - 1e-5).all() and (found * 5 <= high + 1e-5).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)


def test_leaves_are_those_of_the_tree_to_the_bit():
    """Values at thresholds and one float32 beside; each leaf has a whole number of its own."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)).astype(np.float32).astype(np.float64)
    fitted = DecisionTreeRegressor().fit(rows, rng.permutation(400).astype(float))
    cuts = fitted.tree_.threshold[fitted.tree_.children_left >= 0]
    near = cuts.astype(np.float32)
    probes = np.concatenate(
        [near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9))]
    )
    asked = rng.choice(probes, size=(3000, 3)).astype(np.float64)
    model = xj.as_model(fitted)
    np.testing.assert_array_equal(model.predict(asked), fitted.predict(asked))
    assert model.backend == "jax"


@pytest.mark.slow
def test_float64_rows_stay_on_their_side_of_a_histogram_threshold():
    """Thresholds and rows that float32 cannot tell apart: the rows are moved to the right side."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415

    base = 1.0 + np.arange(40)[:, None] * 1e-8  # 12 of them to a float32 step
    y = np.arange(40) % 2 * 8.0
    coarse = np.repeat([1.0, 1.0 + 3e-7], 20)[:, None]
    fitted = HistGradientBoostingRegressor(max_iter=1, learning_rate=1, min_samples_leaf=5)
    fitted.fit(coarse, np.repeat([0.0, 8.0], 20))
    cut = fitted._predictors[0][0].nodes["num_threshold"][0]
    asked = cut + np.array([-1e-7, -1e-9, 0.0, 1e-9, 1e-7])[:, None]
    assert len(np.unique(asked.astype(np.float32))) < 5
    model = xj.as_model(fitted)
    np.testing.assert_array_equal(model.predict(asked) > 4, fitted.predict(asked) > 4)
    assert model.backend == "jax"
    # Several thresholds within one step of float32 cannot be kept apart.
    fine = HistGradientBoostingRegressor(max_iter=3, learning_rate=1, min_samples_leaf=1)
    fine.fit(base, y)
    sent = xj.as_model(fine)
    np.testing.assert_array_equal(sent.predict(base), fine.predict(base))
    assert sent.backend == "host" and "closer together than float32" in sent.reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["scaled logistic", "one-hot logistic", "histogram, categories"])
def test_values_of_an_explanation_are_those_of_the_host(name):
    kind = KINDS[name]
    rows, background = kind.rows[:5], kind.rows[20:32]
    model = xj.as_model(kind.fitted, allow_nan=True)
    host = xj.as_model(kind.fitted, allow_nan=True, backend="host")
    found = xj.Explainer(model, background)(rows)
    wanted = xj.Explainer(host, background)(rows)
    assert found.stats["backend"] == "jax" and wanted.stats["backend"] == "host"
    assert found.feature_names == wanted.feature_names
    # Weighted sums of at most 64 answers of size 10.
    np.testing.assert_allclose(found.values, wanted.values, rtol=0, atol=64 * 10 * 2.0**-24)
    np.testing.assert_allclose(found.base_values, wanted.base_values, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_influences_on_the_decided_class_are_those_of_the_host():
    kind = KINDS["ordinal forest"]
    unary = []
    for backend in ("jax", "host"):
        model = xj.as_model(kind.fitted, backend=backend, allow_nan=True)
        unary.append(xj.QII(model, FRAME.iloc[:30], positive="mid").unary(FRAME.iloc[:6]))
    assert unary[0].stats["backend"] == "jax"
    # Differences of two means of zeros and ones, each rounded once to float32.
    np.testing.assert_allclose(unary[0].values, unary[1].values, rtol=0, atol=2 * 2.0**-24)


def test_a_copy_with_other_parameters_is_not_compared():
    kind = KINDS["least squares"]
    model = xj.as_model(kind.fitted)
    doubled = model.replace(params=jax.tree.map(lambda leaf: 2 * leaf, model.params))
    assert_close(doubled.predict(X), 2 * kind.fitted.predict(X), 512, 2.0**-24)
    assert doubled.backend == "jax"
    named = model.replace(feature_names=[f"c{j}" for j in range(6)])
    assert_close(named.predict(X), kind.fitted.predict(X), 512, 2.0**-24)


def test_as_jax_passes_a_translation_through_and_calls_text_back():
    model = xj.as_model(KINDS["neighbours"].fitted)
    wanted = KINDS["neighbours"].fitted.predict_proba(APART[:3])
    found = jax.jit(xj.as_jax(model))(APART[:3].astype(np.float32))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)
