"""Estimators and Pipelines on mixed frames: values equal the library's own."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    IsolationForest,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.mixture import GaussianMixture
from sklearn.multiclass import OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

import xaijax as xj
from xaijax.core.errors import InputError, InputTypeError, ModelOutputError
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


@pytest.mark.slow
def test_neither_classifier_nor_regressor():
    mixture = GaussianMixture(2, random_state=0).fit(X)
    np.testing.assert_array_equal(as_model(mixture).predict(X), mixture.predict_proba(X))
    np.testing.assert_array_equal(
        as_model(mixture, output="decision").predict(X), mixture.score_samples(X)
    )
    for fitted in (IsolationForest(n_estimators=3, random_state=0).fit(X), OneClassSVM().fit(X)):
        model = as_model(fitted)
        assert model.output == "decision"
        wanted = fitted.decision_function(X)
        np.testing.assert_allclose(model.predict(X), wanted, rtol=0, atol=1e-5 * np.ptp(wanted))
        np.testing.assert_array_equal(model.labels(X), fitted.predict(X))
        np.testing.assert_array_equal(as_model(fitted, output=-1).predict(X), -model.predict(X))
    density = KernelDensity().fit(
        X
    )  # summed by JAX in float32; measured: 1.4e-6 of a spread of 1.6
    wanted = density.score_samples(X)
    np.testing.assert_allclose(
        as_model(density).predict(X), wanted, rtol=0, atol=1e-5 * np.ptp(wanted)
    )
    np.testing.assert_array_equal(on_host(density).predict(X), wanted)


@pytest.mark.parametrize("scaled", [False, True])
def test_numbers_of_clusters_are_no_amounts(scaled):
    means = KMeans(3, n_init="auto", random_state=0)
    fitted = (make_pipeline(StandardScaler(), means) if scaled else means).fit(X)
    with pytest.raises(InputError, match="output=0.*QII or AnchorExplainer"):
        as_model(fitted)
    with pytest.raises(InputError, match="output='value'.*'label'"):
        as_model(fitted, output="value")
    own = as_model(fitted, output=2)
    np.testing.assert_array_equal(own.predict(X), fitted.predict(X) == 2)
    np.testing.assert_array_equal(own.labels(X), fitted.predict(X))
    codes = as_model(fitted, output="label")
    with pytest.raises(ModelOutputError, match="output=2"):
        xj.Explainer(codes, X[:5])(X[:3])
    assert xj.QII(codes, X[:9], quantity="rate", positive=2).unary()


def test_values_do_not_follow_the_numbers_of_clusters():
    """Renumbering the clusters changes the label, and the values of the same cluster not at all."""
    fitted = KMeans(3, n_init="auto", random_state=0).fit(X)
    before = xj.Explainer(as_model(fitted, output=0), X[:5])(X[60:64]).values
    fitted.cluster_centers_ = fitted.cluster_centers_[[2, 1, 0]]
    after = xj.Explainer(as_model(fitted, output=2), X[:5])(X[60:64]).values
    assert np.abs(before).max() > 0.1
    np.testing.assert_array_equal(before, after)


def hard_votes(labels):
    members = [("l", LogisticRegression()), ("t", DecisionTreeClassifier(random_state=0))]
    return VotingClassifier(members).fit(X, labels)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [hard_votes, lambda y: OutputCodeClassifier(LinearSVC()).fit(X, y)]
)
@pytest.mark.parametrize("labels", [NAMES, np.array([10, 15, 30])[TARGET]], ids=["text", "codes"])
def test_a_class_where_there_are_no_scores(make, labels):
    fitted = make(labels)
    one = labels[70]
    model = as_model(fitted, output=one)
    np.testing.assert_array_equal(model.predict(X), fitted.predict(X) == one)
    np.testing.assert_array_equal(model.labels(X), fitted.predict(X))
    explanation = xj.Explainer(model, X[:5])(X[70:72])
    ends = (fitted.predict(X[:5]) == one).mean(), fitted.predict(X[70:72]) == one
    np.testing.assert_allclose(explanation.base_values, ends[0], atol=1e-12)
    np.testing.assert_allclose(explanation.values.sum(1), ends[1] - ends[0], atol=1e-12)
    asked = []

    class Told(type(fitted)):
        def predict(self, rows):
            asked.append(len(rows))
            return super().predict(rows)

    fitted.__class__ = Told
    with pytest.raises(ModelOutputError, match="output=.*QII and AnchorExplainer"):
        xj.Explainer(as_model(fitted), X[:5])(X[70:72])
    assert labels.dtype.kind == "U" or not asked  # classes that are numbers are known before


@pytest.mark.slow
def test_labels_of_zero_and_one_are_amounts():
    for labels in (BINARY, BINARY * 1):
        fitted = hard_votes(labels)
        explanation = xj.Explainer(as_model(fitted), X[:5])(X[70:72])
        np.testing.assert_allclose(
            explanation.base_values + explanation.values.sum(1),
            fitted.predict(X[70:72]),
            atol=1e-12,
        )


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_codes_of_a_function(backend):
    def codes(rows):
        return (rows[:, 0] > 0) * 5 + 10

    with pytest.raises(ModelOutputError, match=r"output=1[05].*classes="):
        xj.Explainer(as_model(codes, backend=backend, output="label"), X[:40])(X[70:72])
    model = as_model(codes, backend=backend, output=15, classes=[10, 15])
    np.testing.assert_array_equal(model.predict(X), X[:, 0] > 0)
    scores = as_model(lambda rows: rows[:, 0], backend=backend, output=15, classes=[10, 15])
    with pytest.raises(InputError, match="one number per row.*column per class"):
        scores.predict(X)


def test_a_text_label_of_a_function():
    model = as_model(
        lambda rows: np.where(rows[:, 0] > 0, "up", "down"),
        backend="host", output="up", classes=["down", "up"],
    )  # fmt: skip
    np.testing.assert_array_equal(model.predict(X), X[:, 0] > 0)


TWO_TARGETS = np.stack([np.array([3, 5, 9])[TARGET], BINARY], axis=1)
COLUMNS = ("0: 3", "0: 5", "0: 9", "1: 0", "1: 1")


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(RandomForestClassifier(3, random_state=0), marks=pytest.mark.slow),
        pytest.param(DecisionTreeClassifier(max_depth=2), marks=pytest.mark.slow),
        KNeighborsClassifier(),
        MultiOutputClassifier(LogisticRegression()),
        pytest.param(
            make_pipeline(StandardScaler(), ExtraTreesClassifier(3)), marks=pytest.mark.slow
        ),
    ],
)
def test_several_targets_are_outputs_by_target_and_class(estimator):
    one: Any = clone(estimator)
    fitted = one.fit(X, TWO_TARGETS)
    model = as_model(fitted)
    expected = np.concatenate(fitted.predict_proba(X), axis=1)
    assert model.output_names == COLUMNS and model.output == "proba"
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-6)  # float32
    explanation = xj.Explainer(model, X[:5])(X[70:72])
    assert explanation.output_names == COLUMNS
    np.testing.assert_allclose(
        explanation.base_values + explanation.values.sum(1), expected[70:72], atol=1e-5
    )
    np.testing.assert_allclose(
        as_model(fitted, output="0: 9").predict(X), expected[:, 2], atol=1e-6
    )
    with pytest.raises(InputError, match=r"several targets.*predict\(X\)\[:, 0\]"):
        model.labels(X)
    with pytest.raises(InputError, match=r"several targets"):
        xj.QII(model, X[:9]).unary()


def test_forests_of_several_targets_run_in_jax():
    forest = RandomForestClassifier(3, class_weight="balanced", random_state=0)
    model = as_model(forest.fit(X, TWO_TARGETS))
    expected = np.concatenate(forest.predict_proba(X), axis=1)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-6)  # float32
    assert model.backend == "jax" and model.output_names == COLUMNS


def test_several_targets_without_scores():
    fitted = MultiOutputClassifier(LinearSVC()).fit(X, TWO_TARGETS)
    with pytest.raises(InputError, match="output='0: 3'"):
        as_model(fitted)
    np.testing.assert_array_equal(
        as_model(fitted, output="0: 9").predict(X), fitted.predict(X)[:, 0] == 9
    )


def test_a_chain_has_a_column_for_each_target():
    labels = np.stack([BINARY, TARGET == 1, TARGET == 2], axis=1) * 1
    fitted = ClassifierChain(LogisticRegression(), order=[2, 0, 1]).fit(X, labels)
    model = as_model(fitted)
    assert model.output_names == ("0: 1", "1: 1", "2: 1")
    np.testing.assert_array_equal(model.predict(X), fitted.predict_proba(X))


@pytest.mark.parametrize(
    "estimator", [RidgeClassifier(), MLPClassifier((3,), tol=0.1, random_state=0)]
)
def test_several_labels_a_row(estimator):
    """A translation that decides by the largest column is no answer for their labels."""
    fitted = estimator.fit(X, np.stack([BINARY, TARGET == 1], axis=1) * 1)
    model = as_model(fitted)
    method: Any = getattr(fitted, "predict_proba", getattr(fitted, "decision_function", None))
    np.testing.assert_allclose(model.predict(X), method(X), atol=1e-5)  # float32
    with pytest.raises(InputError, match="several targets"):
        model.labels(X)


class BoosterLike:
    """The surface of CatBoost's regressors: no scikit-learn class, and classes_ of no class."""

    classes_: Any = np.array([], dtype=object)
    several = False

    def predict(self, rows):
        return np.asarray(rows)[:, :2] if self.several else np.asarray(rows)[:, 0] + 20.0


def test_an_empty_list_of_classes_is_that_of_a_regressor():
    for classes in (np.array([], dtype=object), [], (), None, 2, "ab", np.array(3), [[0, 1], [2]]):
        fitted = BoosterLike()
        fitted.classes_ = classes
        model = as_model(fitted)
        assert model.output == "value" and model.classes is None
        np.testing.assert_array_equal(model.predict(X), fitted.predict(X))
        with pytest.raises(InputError, match="threshold="):
            model.labels(X)
        with pytest.raises(InputError, match="threshold="):
            xj.QII(model, X[:5]).unary()
        assert as_model(fitted, threshold=20.5).labels(X).tolist() == (X[:, 0] > 0.5).tolist()
    fitted.several = True
    explanation = xj.Explainer(as_model(fitted), X[:5])(X[70:72])
    np.testing.assert_allclose(
        explanation.base_values + explanation.values.sum(1), fitted.predict(X[70:72]), atol=1e-12
    )


def test_what_an_object_says_of_its_kind_goes_before_its_looks():
    class Says(BoosterLike):
        classes_ = np.array([0.0, 1.0])  # of a regressor, whatever they are
        _estimator_type = "regressor"

    assert (as_model(Says()).output, as_model(Says()).classes) == ("value", None)


@pytest.mark.parametrize("loss", ["RMSE", "MultiRMSE"])
def test_catboost_regressors(loss):
    catboost = pytest.importorskip("catboost")
    target = X[:, 0] if loss == "RMSE" else X[:, :2]
    given = {"iterations": 3, "verbose": 0, "allow_writing_files": False}
    fitted = catboost.CatBoostRegressor(loss_function=loss, **given).fit(X, target)
    model = as_model(fitted)
    assert (model.output, model.classes) == ("value", None)
    # Leaves and sums of three trees in float32: four roundings of 2^-24.
    bound = 2**-22 * np.abs(fitted.predict(X)).max()
    np.testing.assert_allclose(model.predict(X), fitted.predict(X), rtol=0, atol=bound)


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
    said = "max_rows= applies to calls on the host, of Pipeline of LogisticRegression"
    assert said in repr(model)


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
