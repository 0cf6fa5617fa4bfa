"""Registering translations, comparing them, and estimators that are refused."""

from __future__ import annotations

import copy
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import xaijax as xj
from xaijax.models.queries.comparison import TranslationCheck
from xaijax.models.translations import registry

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 3))
Y = X[:, 0] - X[:, 1] * X[:, 2]


class Squares(RegressorMixin, BaseEstimator):
    """An estimator of a person's own; counts the rows it is asked for."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        self.weight_ = float(np.mean(y))
        self.rows_ = 0
        return self

    def predict(self, X):
        self.rows_ += len(X)
        return self.weight_ + (X**2).sum(axis=1)


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))


def register(function, **options):
    xj.register_translation(Squares, **options)(function)


def squares(estimator, columns):
    params = {"weight": columns.number(estimator.weight_)}
    head = {"value": lambda params, rows: params["weight"] + (rows**2).sum(axis=1)}
    return xj.Translation(params, head)


@pytest.mark.slow
def test_an_estimator_of_ones_own():
    fitted = Squares().fit(X, Y)
    assert "no JAX translation registered for Squares" in repr(xj.as_model(fitted))
    register(squares)
    model = xj.as_model(fitted)
    assert "backend='jax' (the JAX translation of Squares)" in repr(model)
    assert fitted.rows_ == 0  # nothing is asked when it is wrapped
    explanation = xj.Explainer(model, X[:10])(X[10:16])
    assert explanation.stats["backend"] == "jax" and fitted.rows_ == 16  # compared once
    xj.Explainer(model, X[:10])(X[10:13])
    assert fitted.rows_ == 16 + 13
    host = xj.Explainer(xj.as_model(fitted, backend="host"), X[:10])(X[10:16])
    # Sums of four squares of size 10, and weighted sums of eight of them.
    np.testing.assert_allclose(explanation.values, host.values, rtol=0, atol=160 * 2.0**-24)


def test_in_a_pipeline():
    register(squares)
    model = xj.as_model(make_pipeline(StandardScaler(), Squares()).fit(X, Y))
    model.predict(X)
    assert model.backend == "jax"

    class Heir(Squares):
        def predict(self, X):
            return super().predict(X) + 1.0

    assert xj.as_model(Heir().fit(X, Y)).backend == "host"


@pytest.mark.parametrize("background", [X[:10], pd.DataFrame(X[:10], columns=list("abc"))])
def test_a_difference_sends_it_to_the_host(background):
    def wrong(estimator, columns):
        right = squares(estimator, columns)

        def value(params, rows):
            return right.heads["value"](params, rows) + (rows[:, 0] > 0)

        return xj.Translation(right.params, {"value": value})

    register(wrong)
    fitted = Squares().fit(X, Y)
    rows = X[10:30] if isinstance(background, np.ndarray) else pd.DataFrame(
        X[10:30], columns=list("abc"))  # fmt: skip
    model = xj.as_model(fitted)
    assert model.backend == "jax"
    explainer = xj.Explainer(model, background)
    found = explainer(rows)
    assert model.backend == "host" and found.stats["backend"] == "host"
    assert "the JAX translation differs from Squares by up to 1 in" in repr(model)
    wanted = xj.Explainer(xj.as_model(fitted, backend="host"), background)(rows)
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(explainer(rows).values, wanted.values)
    np.testing.assert_array_equal(xj.Explainer(model, background)(rows).values, wanted.values)
    np.testing.assert_array_equal(model.predict(X), fitted.predict(X))
    with pytest.raises(xj.InputError, match=r"backend='jax' .* differs from Squares by up to 1 in"):
        xj.as_model(fitted, backend="jax").predict(X)


def test_another_class_is_a_difference():
    fitted = DecisionTreeClassifier(max_depth=3).fit(X, Y > 0)
    right = registry._BUILT_IN["sklearn", "DecisionTreeClassifier"].translate

    def turned(estimator, columns):
        found = right(estimator, columns)
        heads = dict(found.heads) | {"label": lambda p, rows: 1 - found.heads["label"](p, rows)}
        return xj.Translation(found.params, heads)

    xj.register_translation(DecisionTreeClassifier, override=True)(turned)
    model = xj.as_model(fitted)
    np.testing.assert_array_equal(model.labels(X), fitted.predict(X))
    assert "decides another class than DecisionTreeClassifier in 40 of 40" in repr(model)


@pytest.mark.slow
def test_labels_are_compared_where_labels_are_explained(monkeypatch):
    """A wrong head for labels is no difference to a chance, and one to a decision."""
    fitted = DecisionTreeClassifier(max_depth=3).fit(X, Y > 0)
    right = registry._BUILT_IN["sklearn", "DecisionTreeClassifier"].translate

    def turned(estimator, columns):
        found = right(estimator, columns)
        heads = dict(found.heads) | {"label": lambda p, rows: 1 - found.heads["label"](p, rows)}
        return xj.Translation(found.params, heads)

    xj.register_translation(DecisionTreeClassifier, override=True)(turned)
    model, asked, own = xj.as_model(fitted, output=True), [], TranslationCheck._labels

    def counted(self, kinds):
        asked.append(len(kinds))
        return own(self, kinds)

    monkeypatch.setattr(TranslationCheck, "_labels", counted)
    on_host = xj.as_model(fitted, output=True, backend="host")
    found = xj.Explainer(model, X[:8])(X)
    assert not asked and found.stats["backend"] == "jax"
    wanted = xj.Explainer(on_host, X[:8])(X).values
    np.testing.assert_allclose(found.values, wanted, rtol=0, atol=2**-20)  # shares of at most 1
    influences = xj.QII(model, X[:8], quantity="individual").explain(X)
    assert asked and influences.stats["backend"] == "host"
    wanted = xj.QII(on_host, X[:8], quantity="individual").explain(X).values
    np.testing.assert_array_equal(influences.values, wanted)


@pytest.mark.slow
def test_rows_that_do_not_fit_float32_go_to_the_host():
    fitted = LinearRegression().fit(X, Y)
    for rows, reason in (
        (X * 1e300, "infinite in float32"),
        (np.full((4, 3), 2**40 + 1), "whole numbers of a value change in float32"),
    ):
        model = xj.as_model(fitted)
        np.testing.assert_array_equal(model.predict(rows), fitted.predict(rows))
        assert reason in repr(model)
        with pytest.raises(xj.InputError, match=reason):
            xj.as_model(fitted, backend="jax").predict(rows)
        # Also where the background brings them, and where only later rows do.
        for background, given in ((rows, X[:2].astype(rows.dtype)), (X[:4], rows[:2])):
            model = xj.as_model(fitted)
            explainer = xj.Explainer(model, background.astype(np.float64))
            explainer(X[:2])
            explained = explainer(given.astype(np.float64))
            assert explained.stats["backend"] == model.backend
            host = xj.Explainer(xj.as_model(fitted, backend="host"), background.astype(np.float64))
            wanted = host(given.astype(np.float64))
            scale = np.abs(wanted.values).max()
            np.testing.assert_allclose(explained.values / scale, wanted.values / scale, atol=1e-6)


def test_values_that_an_encoder_refuses():
    frame = pd.DataFrame({"word": ["x", "y"] * 20})
    fitted = make_pipeline(OneHotEncoder(), LinearRegression()).fit(frame, Y)
    model = xj.as_model(fitted)
    with pytest.raises(xj.InputError, match="column 'word', holds 'z', which OneHotEncoder"):
        xj.Explainer(model, frame)(pd.DataFrame({"word": ["z"]}))
    with pytest.raises(xj.InputError, match="was fitted on 1 columns"):
        model.predict(np.ones((2, 2)))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"estimator_type": LinearRegression()}, xj.InputTypeError, "estimator_type must be a cla"),
        ({"estimator_type": LinearRegression}, xj.InputError, "has a translation already.*overrid"),
        ({"estimator_type": LinearRegression, "override": 1}, xj.InputTypeError, "override="),
        ({"estimator_type": Squares, "mixed": "yes"}, xj.InputTypeError, "mixed="),
        ({"estimator_type": Squares, "twice": True}, xj.InputTypeError, "twice"),
    ],
)
def test_registrations_that_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        xj.register_translation(**options)


def test_a_translation_registered_twice():
    register(squares)
    with pytest.raises(xj.InputError, match="Squares has a translation already"):
        register(squares)
    register(lambda estimator, columns: None, override=True)
    with pytest.raises(xj.InputTypeError, match="must return a xaijax.Translation, got NoneType"):
        xj.as_model(Squares().fit(X, Y))
    with pytest.raises(xj.InputTypeError, match="takes a function"):
        xj.register_translation(Squares, override=True)(3)


def other_version(fitted):
    """As an estimator of another version comes back, where loading it did not warn."""
    vars(fitted)["_sklearn_version"] = "0.24.2"
    return fitted


def without_parameter(fitted):
    del vars(fitted)["fit_intercept"]
    return fitted


@pytest.mark.parametrize("backend", ["auto", "jax", "host"])
@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (other_version, "was fitted by 0.24.2"),
        (without_parameter, "lacks its parameter 'fit_intercept', so another version"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_an_estimator_of_another_version(backend, break_it, message, inside):
    fitted = LogisticRegression().fit(X, Y > 0)
    whole = make_pipeline(StandardScaler(), fitted).fit(X, Y > 0) if inside else fitted
    broken = copy.deepcopy(whole)
    break_it(broken.steps[-1][1] if inside else broken)
    with pytest.raises(xj.InputError, match=f"f= must be fitted by the scikit-learn.*{message}"):
        xj.as_model(broken, backend=backend)


def test_an_attribute_that_is_not_there_is_a_reason():
    class Named(Squares):
        pass

    xj.register_translation(Named)(lambda estimator, columns: estimator.gone_)
    model = xj.as_model(Named().fit(X, Y))
    assert model.backend == "host" and "lacks what its translation reads" in model.reason


def test_options_of_host_calls_keep_it_there():
    fitted = LinearRegression().fit(X, Y)
    assert "max_rows= applies to calls on the host" in repr(xj.as_model(fitted, max_rows=7))
    assert "timeout= applies to calls on the host" in repr(xj.as_model(fitted, timeout=7.0))
    with pytest.raises(xj.InputError, match="max_rows= applies to calls on the host"):
        xj.as_model(fitted, max_rows=7, backend="jax")
    with pytest.raises(xj.InputError, match="precision='tf32' is for models that JAX traces"):
        xj.as_model(Squares().fit(X, Y), precision="tf32")
    assert "backend='jax'" in repr(xj.as_model(fitted, precision="tf32"))


@pytest.mark.slow
def test_no_scikit_learn_is_loaded_by_importing_the_translations():
    code = (
        "import sys\nimport xaijax.models.translations.families\n"
        "assert 'sklearn' not in sys.modules and 'pandas' not in sys.modules\n"
    )
    path = ":".join(part for part in sys.path if part)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr


def test_a_memory_map_is_read_in_pieces(tmp_path):
    fitted = LinearRegression().fit(X, Y)
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = xj.as_model(fitted)
    found = xj.Explainer(model, X[:5])(mapped)
    assert model.backend == "jax"
    np.testing.assert_array_equal(found.values, xj.Explainer(model, X[:5])(X).values)
    assert jnp.isfinite(found.values).all()


@pytest.mark.parametrize(
    ("values", "named"), [(["1", "2", "x", "y"], "'x'"), ([1.0, None, "3", b"no"], "b'no'")]
)
def test_a_text_that_is_no_number_is_the_one_that_is_named(values, named) -> None:
    numbers = pd.DataFrame({"a": [1.0, 2, 3, 4], "b": [0.0, 1, 0, 1]})
    model = xj.as_model(LogisticRegression().fit(numbers, [0, 1, 0, 1]))
    rows = numbers.assign(a=pd.Series(values, dtype=object))
    with pytest.raises(xj.InputError, match=f"column 'a', holds {named}, where Logistic"):
        model.predict(rows)
