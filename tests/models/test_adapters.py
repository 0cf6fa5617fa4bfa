"""Estimators and Pipelines on mixed frames: values equal the library's own."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.mixture import GaussianMixture
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models import as_model

X, TARGET = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)  # centred, so that the solvers converge
BINARY = TARGET > 0
NAMES = np.array(["setosa", "versicolor", "virginica"])[TARGET]


def on_host(f, **options):
    """The estimator itself, whose answers are those of the model to the bit."""
    return as_model(f, backend="host", **options)


@pytest.fixture(scope="module")
def forest():
    return RandomForestClassifier(n_estimators=5, random_state=0).fit(X, NAMES)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, size=60),
            "job": pd.Categorical(rng.choice(["clerk", "cook", "judge"], size=60)),
            "hours": rng.normal(40, 5, size=60),
            "city": rng.choice(["Oslo", "Rome"], size=60),
        }
    )


def pipeline(frame):
    label = np.where((frame["age"] > 40) | (frame["city"] == "Rome"), "yes", "no")
    columns = ColumnTransformer(
        [("n", StandardScaler(), ["age", "hours"]), ("c", OneHotEncoder(), ["job", "city"])]
    )
    return make_pipeline(columns, LogisticRegression()).fit(frame, label)


def test_a_classifier_gives_probabilities_of_all_classes(forest):
    model = on_host(forest)
    assert (model.backend, model.output) == ("host", "proba")
    assert model.classes == ("setosa", "versicolor", "virginica") == model.output_names
    np.testing.assert_array_equal(model.predict(X), forest.predict_proba(X))
    np.testing.assert_array_equal(model.labels(X), forest.predict(X))
    assert "backend='host' was said" in repr(model)


def test_a_binary_classifier_keeps_two_columns():
    fitted = LogisticRegression().fit(X, BINARY)
    model = on_host(fitted)
    np.testing.assert_array_equal(model.predict(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(on_host(fitted, output=True).predict(X), model.predict(X)[:, 1])
    decision = on_host(fitted, output="decision")
    np.testing.assert_array_equal(decision.predict(X), fitted.decision_function(X))
    np.testing.assert_array_equal(decision.labels(X), fitted.predict(X))


def test_a_class_label_selects_its_column(forest):
    model = on_host(forest, output="virginica")
    np.testing.assert_array_equal(model.predict(X), forest.predict_proba(X)[:, 2])
    np.testing.assert_array_equal(model.labels(X), forest.predict(X))
    numbers = RandomForestClassifier(n_estimators=3, random_state=0)
    numbers.fit(X, np.array([1, 2, 5])[TARGET])
    np.testing.assert_array_equal(
        on_host(numbers, output=2).predict(X), numbers.predict_proba(X)[:, 1]
    )
    with pytest.raises(InputError, match="output=0"):
        on_host(numbers, output=0)


def test_a_classifier_without_probabilities_gives_its_decision():
    fitted = LinearSVC().fit(X, NAMES)
    model = on_host(fitted)
    assert model.output == "decision" and "without predict_proba" in as_model(fitted).reason
    np.testing.assert_array_equal(model.predict(X), fitted.decision_function(X))
    np.testing.assert_array_equal(
        on_host(fitted, output="versicolor").predict(X), fitted.decision_function(X)[:, 1]
    )
    binary = RidgeClassifier().fit(X, np.where(BINARY, "b", "a"))
    np.testing.assert_array_equal(on_host(binary).predict(X), binary.decision_function(X))
    np.testing.assert_array_equal(
        on_host(binary, output="a").predict(X), -binary.decision_function(X)
    )
    with pytest.raises(InputError, match="output='proba'.*'decision', 'label'"):
        as_model(SVC().fit(X, NAMES), output="proba")


def test_labels_of_an_estimator_as_output():
    fitted = LogisticRegression().fit(X, TARGET)
    model = on_host(fitted, output="label")
    np.testing.assert_array_equal(model.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(model.labels(X), fitted.predict(X))


def test_regressors():
    fitted = LinearRegression().fit(X[:, :2], X[:, 2:])
    model = on_host(fitted)
    assert model.output == "value" and model.classes is None
    np.testing.assert_array_equal(model.predict(X[:, :2]), fitted.predict(X[:, :2]))
    second = on_host(fitted, output=1, threshold=1.0)
    np.testing.assert_array_equal(second.predict(X[:, :2]), fitted.predict(X[:, :2])[:, 1])
    np.testing.assert_array_equal(second.labels(X[:, :2]), fitted.predict(X[:, :2])[:, 1] > 1.0)
    for options in ({"output": "proba"}, {"output": "label"}, {"classes": ["a", "b"]}):
        with pytest.raises(InputError, match=next(iter(options))):
            on_host(fitted, **options)


def test_neither_classifier_nor_regressor():
    mixture = GaussianMixture(2, random_state=0).fit(X)
    assert as_model(mixture).output == "value"
    np.testing.assert_array_equal(
        as_model(mixture, output="proba").predict(X), mixture.predict_proba(X)
    )


def test_an_object_that_looks_like_a_classifier():
    class Looks:
        classes_ = np.array(["a", "b"])

        def predict(self, rows):
            return self.classes_[(rows[:, 0] > 0).astype(int)]

        def predict_proba(self, rows):
            return np.stack([rows[:, 0] <= 0, rows[:, 0] > 0], axis=1)

    model = as_model(Looks())
    assert model.classes == ("a", "b") and model.output == "proba"
    np.testing.assert_array_equal(model.predict(X)[:, 1], X[:, 0] > 0)
    np.testing.assert_array_equal(model.labels(X), Looks().predict(X))


@pytest.mark.parametrize(
    ("f", "options", "error", "message"),
    [
        (LogisticRegression(), {}, InputError, "fit"),
        (make_pipeline(StandardScaler(), LogisticRegression()), {}, InputError, "fit"),
        (LogisticRegression, {}, InputTypeError, "instance"),
        (StandardScaler().fit(X), {}, InputTypeError, "predict"),
        (GaussianMixture(2).fit(X), {"backend": "jax"}, InputError, "no JAX translation"),
        (LinearRegression().fit(X, TARGET), {"params": 1.0}, InputError, "params="),
        (LogisticRegression().fit(X, TARGET), {"threshold": 0.3}, InputError, "threshold="),
        (LogisticRegression().fit(X, TARGET), {"classes": ["a", "b", "c"]}, InputError, "classes="),
        (
            MultiOutputClassifier(LogisticRegression()).fit(X, np.stack([TARGET, BINARY], axis=1)),
            {},
            InputError,
            "one target",
        ),
    ],
)
def test_estimators_that_are_refused(f, options, error, message):
    with pytest.raises(error, match=message):
        as_model(f, **options)


def test_a_pipeline_gets_the_frame_as_it_is(frame):
    fitted = pipeline(frame)
    model = as_model(fitted, max_rows=7)
    assert model.feature_names == ("age", "job", "hours", "city")
    np.testing.assert_array_equal(model.predict(frame), fitted.predict_proba(frame))
    np.testing.assert_array_equal(model.labels(frame), fitted.predict(frame))
    assert "max_rows= is of calls on the host, of Pipeline of LogisticRegression" in repr(model)


def test_frames_keep_names_order_and_dtypes(frame):
    seen = []

    def f(rows):
        seen.append(rows)
        rows["age"] = 0
        return np.zeros(len(rows))

    before = frame.copy()
    as_model(f, backend="host").predict(frame)
    assert list(seen[0].columns) == list(frame.columns)
    assert seen[0]["job"].dtype == frame["job"].dtype
    pd.testing.assert_frame_equal(frame, before)  # the model wrote into a copy


def test_polars_frames(frame):
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({name: frame[name].to_list() for name in frame})
    seen = []
    host = as_model(lambda rows: seen.append(rows) or rows["age"], backend="host", max_rows=13)
    np.testing.assert_array_equal(host.predict(table), frame["age"])
    assert {type(part) for part in seen} == {pl.DataFrame} and len(seen) == 5
    assert seen[0].schema == table.schema
    fitted = pipeline(table)
    np.testing.assert_array_equal(on_host(fitted).predict(table), fitted.predict_proba(table))


def test_traced_models_take_frames_of_numbers():
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    model = as_model(lambda rows: rows[:, 0] - rows[:, 1], feature_names=["a", "b"])
    assert model.predict(frame).tolist() == [0.5, 0.5]
    with pytest.raises(InputError, match="another order"):
        model.predict(frame[["b", "a"]])
    with pytest.raises(InputTypeError, match="takes numbers"):
        model.predict(frame.assign(b=["x", "y"]))


@pytest.mark.slow
def test_no_model_library_is_loaded_and_no_device_touched():
    code = (
        "import sys, numpy as np\n"
        "from xaijax.models import as_model\n"
        "as_model(lambda x: x[:, 0])\n"
        "from jax._src import xla_bridge\n"
        "assert not xla_bridge._backends\n"
        "as_model(lambda x: x[:, 0], backend='host').predict(np.ones((2, 2)))\n"
        "names = 'sklearn pandas flax equinox haiku keras torch onnxruntime matplotlib'\n"
        "found = set(names.split()) & set(sys.modules)\n"
        "assert not found, found\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stderr
