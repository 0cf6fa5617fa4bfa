"""Models as people type them first: given to an explainer as they are, of any library."""

import json
import math
import pickle
import sys
import types

import jax.numpy as jnp
import numpy as np
import oracles
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj

rng = np.random.default_rng(0)
X, BACKGROUND = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
ROWS = rng.normal(size=(60, 3))
LABELS = np.array(["lo", "hi"])[(ROWS[:, 0] + ROWS[:, 1] * ROWS[:, 2] > 0).astype(int)]
TARGET = ROWS @ [1.0, -2.0, 0.5] + 0.1 * ROWS[:, 0] * ROWS[:, 1]
CLOSE = 1e-5  # float32 answers of size 1, some tens of roundings of 6e-8


def shapley(f, X, background):
    """Values [N, F] or [N, F, K] of f(rows [M, F]), by the definition, in float64."""
    return oracles.explain(f, X, background, oracles.shapley_weight(X.shape[1]))[0]


class Scales(TransformerMixin, BaseEstimator):
    """A transformer of somebody's own, with attributes named like scikit-learn's."""

    def __init__(self, steps=100):
        self.steps = steps

    def fit(self, X, y=None):
        self.transformers_ = "abc"
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return 2.0 * np.asarray(X)


class Fits(RegressorMixin, BaseEstimator):
    """A regressor of somebody's own, likewise."""

    def __init__(self, steps=100):
        self.steps = steps

    def fit(self, X, y):
        self.estimators_, self.transformers_ = 7, [1]
        self.coef_ = np.linalg.lstsq(X, y, rcond=None)[0]
        return self

    def predict(self, X):
        return np.asarray(X) @ self.coef_


class Loose:
    """No scikit-learn at all."""

    steps, transformers_, estimators_ = 100, ["a"], 3
    feature_names_in_, n_features_in_ = 5, "many"

    def predict(self, X):
        return np.asarray(X) @ [1.0, 2.0, 3.0]


FOREIGN = {
    "a number of steps": Fits(),
    "a list of steps": Fits(steps=[1, 2]),
    "in a pipeline": make_pipeline(Scales(), LinearRegression()),
    "last in a pipeline": make_pipeline(Scales(), Fits()),
    "in a vote": VotingRegressor([("own", Fits()), ("linear", LinearRegression())]),
    "in a bag": BaggingRegressor(Fits(), n_estimators=2, random_state=0),
    "in a stack": StackingRegressor([("own", Fits())], cv=2),
    "in columns": make_pipeline(
        ColumnTransformer([("a", Scales(), [0, 1]), ("b", make_pipeline(Scales()), [2])]),
        LinearRegression(),
    ),
}


@pytest.mark.parametrize("backend", ["auto", "host"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_attributes_are_not_read_as_scikit_learns(kind, backend):
    fitted = FOREIGN[kind].fit(ROWS, TARGET)
    explanation = xj.Explainer(xj.as_model(fitted, backend=backend), BACKGROUND)(X)
    assert np.allclose(explanation.values, shapley(fitted.predict, X, BACKGROUND), atol=CLOSE)


@pytest.mark.parametrize("backend", ["auto", "host"])
def test_an_object_whose_attributes_mean_anything(backend):
    explanation = xj.Explainer(xj.as_model(Loose(), backend=backend), BACKGROUND)(X)
    wanted = (X - BACKGROUND.mean(axis=0)) * [1.0, 2.0, 3.0]  # of a linear function
    assert np.allclose(explanation.values, wanted, atol=CLOSE)


def test_players_of_columns_with_a_foreign_transformer():
    class OneHotEncoder(Scales):  # a name that scikit-learn has too
        pass

    steps = Scales(), make_pipeline(Scales()), OneHotEncoder()
    fitted = ColumnTransformer([(str(j), step, [j]) for j, step in enumerate(steps)]).fit(ROWS)
    assert xj.players_of(fitted) == {"x0": [0], "x1": [1], "x2": [2]}


@pytest.mark.parametrize("given", [Scales().fit(ROWS), Loose(), 3])
def test_players_of_anything_else_is_refused(given):
    if isinstance(given, Loose):
        given.output_indices_ = {"a": slice(0, 1)}
    with pytest.raises(xj.InputTypeError, match="column_transformer must be a fitted sklearn"):
        xj.players_of(given)


def seldom(kinds, *slow):
    """The kinds as parameters of a test; those that take longer are slow."""
    return [pytest.param(k, marks=pytest.mark.slow) if k in slow else k for k in kinds]


class Boosted:
    """An estimator with the surface of a boosted library's."""

    def __init__(self, **params):
        self.params = params

    def get_params(self):
        return self.params

    def predict(self, rows):
        return np.nan_to_num(rows).sum(axis=1)


@pytest.mark.parametrize("module", ["xgboost.sklearn", "lightgbm.sklearn", "catboost.core"])
def test_boosted_trees_take_nan(module):
    kind = type("Boosted", (Boosted,), {"__module__": module})
    assert xj.as_model(kind()).allow_nan
    assert not xj.as_model(kind(nan_mode="Forbidden")).allow_nan
    told = kind()
    told.missing = -1
    assert not xj.as_model(told).allow_nan
    assert not xj.as_model(Boosted()).allow_nan


def searched(kind=GridSearchCV, **options):
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    return kind(scaled, {"logisticregression__C": [0.1, 1.0]}, cv=2, **options).fit(ROWS, LABELS)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "jax", "host"])
def test_a_search_is_explained_as_its_best_estimator(backend):
    fitted = searched()
    model = xj.as_model(fitted, backend=backend)
    explanation = xj.Explainer(model, BACKGROUND)(X)
    wanted = shapley(fitted.best_estimator_.predict_proba, X, BACKGROUND)
    assert np.allclose(explanation.values, wanted, atol=CLOSE)
    assert model.backend == ("host" if backend == "host" else "jax")
    assert model.classes == ("hi", "lo") and list(model.labels(X)) == list(fitted.predict(X))


@pytest.mark.slow
def test_a_random_search_in_jax():
    fitted = searched(RandomizedSearchCV, n_iter=1, random_state=0)
    explanation = xj.Explainer(xj.as_model(fitted, output="lo", backend="jax"), BACKGROUND)(X)
    wanted = shapley(lambda rows: fitted.predict_proba(rows)[:, 1], X, BACKGROUND)
    assert np.allclose(explanation.values, wanted, atol=CLOSE)


@pytest.mark.parametrize("backend", ["auto", "host"])
def test_a_search_without_a_best_estimator_is_refused(backend):
    with pytest.raises(xj.InputError, match="refit=False.*Say refit=True"):
        xj.as_model(searched(refit=False), backend=backend)


def test_a_search_that_is_fitted_again_is_another_model():
    fitted = searched()
    in_jax, on_host = xj.as_model(fitted), xj.as_model(fitted, backend="host")
    in_jax.predict(X)
    fitted.fit(ROWS, LABELS[::-1])
    with pytest.raises(xj.InputError, match="has changed since"):
        in_jax.predict(X)
    assert np.array_equal(on_host.predict(X), fitted.best_estimator_.predict_proba(X))


def test_times_of_a_search_are_no_part_of_the_model():
    def known(fitted):
        return xj.as_model(fitted, backend="host").identity((3,), np.dtype(np.float64), "cpu")

    other = GridSearchCV(LogisticRegression(), {"C": [0.5]}, cv=2).fit(ROWS, LABELS)
    assert known(searched()) == known(searched()) != known(other)
    assert known(other) is not None


def product(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


CLASSIFIER = make_pipeline(StandardScaler(), LogisticRegression()).fit(ROWS, LABELS)
GIVEN = {
    "a function": product,
    "an estimator": CLASSIFIER,
    "its chances": CLASSIFIER.predict_proba,
    "its decision": CLASSIFIER.decision_function,
}
ASKED = {
    "Explainer": lambda f: xj.Explainer(f, BACKGROUND)(X).values,
    "QII": lambda f: xj.QII(f, ROWS, pool=BACKGROUND).unary(X).values,
    "FederatedExplainer": lambda f: xj.FederatedExplainer(f, BACKGROUND, {"a": [1]})(X).values,
    "GradientExplainer": lambda f: xj.GradientExplainer(f, BACKGROUND)(X).values,
}


@pytest.mark.parametrize("given", seldom(GIVEN, "its decision"))
@pytest.mark.parametrize("method", ASKED)
def test_an_explainer_takes_what_as_model_takes(method, given):
    f, ask = GIVEN[given], ASKED[method]
    if method == "QII" and given == "a function":  # a number, of which no class is decided
        with pytest.raises(xj.InputError) as wanted:
            ask(xj.as_model(f))
        with pytest.raises(xj.InputError) as found:
            ask(f)
        assert str(found.value) == str(wanted.value)
        return
    assert np.array_equal(ask(f), ask(xj.as_model(f)))


def test_the_first_line_of_a_shap_user():
    found = xj.Explainer(CLASSIFIER.predict_proba, BACKGROUND)
    assert found.model.backend == "jax" and found.model.classes == ("hi", "lo")
    wanted = shapley(CLASSIFIER.predict_proba, X, BACKGROUND)
    assert np.allclose(found(X).values, wanted, atol=CLOSE)
    wanted = shapley(product, X, BACKGROUND)
    assert np.allclose(xj.Explainer(product, BACKGROUND)(X).values, wanted, atol=CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("given", seldom(["an estimator", "its labels"], "an estimator"))
def test_rules_of_what_as_model_takes(given):
    f = CLASSIFIER if given == "an estimator" else CLASSIFIER.predict
    found, wanted = (xj.AnchorExplainer(g, ROWS).explain(X[:1]) for g in (f, xj.as_model(f)))
    assert repr(found[0]) == repr(wanted[0])


def test_a_network_of_ones_own_for_learned_values():
    explainer = xj.Explainer(CLASSIFIER, BACKGROUND)
    assert xj.AmortizedExplainer(explainer, network=jnp.tanh).network.name == "tanh"


def test_an_embedding_and_a_function():
    pair = xj.GradientExplainer((lambda rows: 2 * rows, product), BACKGROUND)(X)
    wanted = xj.GradientExplainer((lambda rows: 2 * rows, xj.as_model(product)), BACKGROUND)(X)
    assert np.array_equal(pair.values, wanted.values)


WRONG = {
    "a number": 3,
    "nothing": None,
    "rows": X,
    "text": "clf",
    "a module": math,
    "pairs": [(1,)],
}


@pytest.mark.parametrize("given", WRONG)
@pytest.mark.parametrize(
    "explainer",
    [
        lambda f: xj.Explainer(f, BACKGROUND),
        lambda f: xj.QII(f, BACKGROUND),
        lambda f: xj.AnchorExplainer(f, BACKGROUND),
        lambda f: xj.GradientExplainer(f, BACKGROUND),
        lambda f: xj.FederatedExplainer(f, BACKGROUND, {"a": [1]}),
        lambda f: xj.federated.SplitModel(f, columns=1, widths={"a": 1}),
        lambda f: xj.federated.Arbiter(f, 3, {"a": [1]}, {}),
    ],
)
def test_what_is_no_model_gets_an_error_that_names_what_is_one(explainer, given):
    with pytest.raises(xj.InputTypeError, match="model must be a Model of xaijax.as_model, a func"):
        explainer(WRONG[given])


def test_errors_of_as_model_name_the_argument():
    with pytest.raises(xj.InputError, match="model must be fitted; LogisticRegression is not"):
        xj.Explainer(LogisticRegression(), BACKGROUND)
    with pytest.raises(xj.InputTypeError, match="model must be an instance of a model; got the cl"):
        xj.Explainer(LogisticRegression, BACKGROUND)
    with pytest.raises(xj.InputTypeError, match=r"model is called as f\(X\).*params= to as_model"):
        xj.Explainer(lambda params, rows: rows @ params, BACKGROUND)


def test_an_explainer_of_a_bare_model_travels():
    explainer = xj.Explainer(CLASSIFIER.predict_proba, BACKGROUND)
    assert np.array_equal(pickle.loads(pickle.dumps(explainer))(X).values, explainer(X).values)


def test_a_sweep_of_a_bare_model(tmp_path):
    explainer = xj.Explainer(CLASSIFIER, BACKGROUND)
    run = xj.sweep(explainer, X, tmp_path / "run")
    assert np.array_equal(run.explanation().values, explainer(X).values)


WORDS = {"predict_proba": "proba", "decision_function": "decision", "predict": "label"}


@pytest.mark.parametrize("backend", ["auto", "host"])
@pytest.mark.parametrize("method", WORDS)
def test_a_method_is_the_estimator_with_that_output(method, backend):
    numbers = make_pipeline(StandardScaler(), LogisticRegression()).fit(ROWS, LABELS == "hi")
    found = xj.as_model(getattr(numbers, method), backend=backend)
    wanted = xj.as_model(numbers, output=WORDS[method], backend=backend)
    assert repr(found) == repr(wanted)
    assert np.array_equal(found.predict(X), wanted.predict(X))
    assert np.array_equal(found.labels(X), wanted.labels(X))
    assert found.backend == ("host" if backend == "host" else "jax")


def test_predict_of_a_regressor_and_of_classes_that_are_text():
    fitted = LinearRegression().fit(ROWS, TARGET)
    assert repr(xj.as_model(fitted.predict)) == repr(xj.as_model(fitted))
    model = xj.as_model(CLASSIFIER.predict)
    assert list(model.labels(X)) == list(CLASSIFIER.predict(X))
    with pytest.raises(xj.ModelOutputError, match="class labels that are no numbers"):
        xj.Explainer(model, BACKGROUND)(X)


def test_an_answer_that_a_method_does_not_give():
    with pytest.raises(xj.InputError, match="not available for Pipeline.predict_proba; accepted"):
        xj.as_model(CLASSIFIER.predict_proba, output="decision")
    assert np.allclose(
        xj.as_model(CLASSIFIER.predict_proba, output="lo").predict(X),
        CLASSIFIER.predict_proba(X)[:, 1],
        atol=CLOSE,
    )


OTHERS = {
    "densities": GaussianMixture(2, random_state=0).fit(ROWS).score_samples,
    "components": PCA(2).fit(ROWS).transform,
    "logarithms": CLASSIFIER.predict_log_proba,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_methods_without_a_word_are_called_on_the_host(kind):
    method = OTHERS[kind]
    model = xj.as_model(method)
    assert model.backend == "host" and method.__name__ in model.name
    # float64 on both sides, sums of some 40 answers of size 10
    wanted = shapley(method, X, BACKGROUND)
    assert np.allclose(xj.Explainer(method, BACKGROUND)(X).values, wanted, atol=1e-12)
    with pytest.raises(xj.InputError, match="backend='jax' is not available for"):
        xj.as_model(method, backend="jax")
    with pytest.raises(xj.InputError, match="output='proba' is not available for"):
        xj.as_model(method, output="proba")


def test_a_method_of_a_base_class_is_that_one():
    class Squared(LogisticRegression):
        def predict_proba(self, rows):
            return super().predict_proba(rows) ** 2

        @property
        def plain(self):
            return super().predict_proba

    fitted = Squared().fit(ROWS, LABELS)
    wanted = LogisticRegression().fit(ROWS, LABELS).predict_proba(X)
    assert np.array_equal(xj.as_model(fitted.plain).predict(X), wanted)
    assert np.array_equal(xj.as_model(fitted.predict_proba).predict(X), wanted**2)


def test_a_method_of_anything_else_is_a_function():
    class Network:
        def predict(self, rows):
            return jnp.tanh(rows[:, 0])

    assert xj.as_model(Network().predict).backend == "jax"


def test_a_method_of_an_estimator_that_is_not_fitted():
    with pytest.raises(xj.InputError, match="must be fitted; PCA is not"):
        xj.as_model(PCA(2).transform)


def test_answers_in_a_frame_name_the_outputs():
    def answers(rows):
        return pd.DataFrame({"low": rows[:, 0], "high": rows[:, 1]})

    model = xj.as_model(answers, backend="host")
    assert xj.Explainer(model, BACKGROUND)(X).output_names == ("low", "high")
    named = xj.as_model(answers, backend="host", output_names=["a", "b"])
    assert xj.Explainer(named, BACKGROUND)(X).output_names == ("a", "b")
    framed = PCA(2).set_output(transform="pandas").fit(ROWS)
    assert xj.Explainer(framed.transform, BACKGROUND)(X).output_names == ("pca0", "pca1")
    same = xj.as_model(lambda rows: answers(rows).set_axis(["a", "a"], axis=1), backend="host")
    assert xj.Explainer(same, BACKGROUND)(X).output_names == ("output 0", "output 1")


class Tensor:
    """What PyTorch's tensors have of NumPy's arrays, and of their own."""

    __module__ = "torch"

    def __init__(self, array, dtype="torch.float64", attached=True):
        self.array, self.dtype, self.shape, self.attached = array, dtype, array.shape, attached

    def __len__(self):
        return len(self.array)

    def detach(self):
        return Tensor(self.array, self.dtype, False)

    cpu = detach

    def float(self):
        return Tensor(self.array.astype(np.float32), "torch.float32", self.attached)

    def numpy(self):
        if self.attached or self.dtype == "torch.bfloat16":
            raise TypeError("Can't call numpy() on it")
        return self.array


@pytest.mark.parametrize("dtype", ["torch.float64", "torch.bfloat16"])
def test_tensors_as_rows(dtype):
    rows, donors = Tensor(X, dtype), Tensor(BACKGROUND, dtype)
    wanted = xj.Explainer(product, BACKGROUND)(X).values
    assert np.allclose(xj.Explainer(product, donors)(rows).values, wanted, atol=CLOSE)
    assert np.allclose(xj.as_model(product).predict(rows), product(X), atol=CLOSE)

    def of_two(given):
        return product(jnp.concatenate([given["a"], given["b"]], axis=1))

    parts = [{"a": Tensor(r[:, :2], dtype), "b": Tensor(r[:, 2:], dtype)} for r in (X, BACKGROUND)]
    assert np.allclose(xj.Explainer(of_two, parts[1])(parts[0]).values, wanted, atol=CLOSE)


class Margins(Boosted):
    """A boosted classifier: margins by a keyword of its predict."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, rows):
        chance = 1 / (1 + np.exp(-product(rows)))
        return np.stack([1 - chance, chance], axis=1)

    def predict(self, rows, **asked):
        if asked:
            assert asked in ({"output_margin": True}, {"raw_score": True}, CATBOOST)
            return product(rows)
        return self.classes_[(product(rows) > 0).astype(int)]


CATBOOST = {"prediction_type": "RawFormulaVal"}


@pytest.mark.parametrize("module", ["xgboost.sklearn", "lightgbm.sklearn", "catboost.core"])
def test_the_decision_of_boosted_trees_is_their_margin(module):
    kind = type("Margins", (Margins,), {"__module__": module})
    model = xj.as_model(kind(), output="decision")
    wanted = shapley(product, X, BACKGROUND)
    assert np.allclose(xj.Explainer(model, BACKGROUND)(X).values, wanted, atol=1e-12)
    assert xj.as_model(kind()).output == "proba"
    assert list(model.labels(X)) == list(kind().predict(X))


@pytest.fixture
def xgboost(monkeypatch):
    """A module with what is used of XGBoost's boosters."""

    def predict(self, data, output_margin=False):
        assert type(data).__name__ == "Matrix"  # arrays are refused there
        margin = product(data.rows)
        return margin if output_margin else 1 / (1 + np.exp(-margin))

    def config(self):
        return json.dumps({"learner": {"learner_train_param": {"objective": self.objective}}})

    own = {"predict": predict, "save_config": config, "objective": "binary:logistic"}
    own |= {"feature_names": ["a", "b", "c"], "feature_types": None, "__module__": "xgboost.core"}

    def make(rows, **options):
        return Matrix(rows)

    class Matrix:
        def __init__(self, rows):
            self.rows = np.asarray(rows)

    module = types.SimpleNamespace(DMatrix=make, Booster=type("Booster", (), own))
    monkeypatch.setitem(sys.modules, "xgboost", module)
    return module


def test_a_booster_of_xgboost(xgboost):
    booster = xgboost.Booster()
    chances = shapley(lambda rows: 1 / (1 + np.exp(-product(rows))), X, BACKGROUND)
    assert np.allclose(xj.Explainer(booster, BACKGROUND)(X).values, chances, atol=1e-12)
    margins = xj.Explainer(xj.as_model(booster, output="decision"), BACKGROUND)(X)
    assert np.allclose(margins.values, shapley(product, X, BACKGROUND), atol=1e-12)
    frame = [pd.DataFrame(rows, columns=list("abc")) for rows in (BACKGROUND, X)]
    assert np.allclose(xj.Explainer(booster, frame[0])(frame[1]).values, chances, atol=1e-12)
    booster.objective = "multi:softmax"
    assert xj.as_model(booster).output == "decision"  # its predict answers with codes


def test_a_network_of_skorch_gets_the_dtype_of_its_module():
    def predict(self, rows):
        assert rows.dtype == np.float32 and rows.flags.writeable
        return product(rows)

    weights = types.SimpleNamespace(dtype="torch.float32")
    module = types.SimpleNamespace(parameters=lambda: iter([weights]))
    net = type("Net", (), {"predict": predict, "module_": module, "__module__": "skorch.net"})()
    found = xj.Explainer(net, BACKGROUND)(X)
    assert np.allclose(found.values, shapley(product, X, BACKGROUND), atol=CLOSE)
