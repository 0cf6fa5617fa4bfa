"""Models as people type them first: given to an explainer as they are, of any library."""

import itertools
import math

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingRegressor,
    HistGradientBoostingRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
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
    N, F = X.shape
    subsets = [frozenset(s) for r in range(F + 1) for s in itertools.combinations(range(F), r)]
    v = {}
    for kept in subsets:
        mask = np.isin(np.arange(F), list(kept))
        hybrids = np.where(mask, X[:, None], background[None]).reshape(-1, F)
        answers = np.asarray(f(hybrids), np.float64)
        v[kept] = answers.reshape(N, len(background), *answers.shape[1:]).mean(axis=1)
    values = []
    for i in range(F):
        share = 0.0
        for kept in subsets:
            if i not in kept:
                s = len(kept)
                weight = math.factorial(s) * math.factorial(F - s - 1) / math.factorial(F)
                share = share + weight * (v[kept | {i}] - v[kept])
        values.append(share)
    return np.stack(values, axis=1)


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


def with_gaps(rows):
    found = rows.copy()
    found[::3, 1] = np.nan
    return found


FILLED = make_pipeline(SimpleImputer(), LinearRegression())
TREES = HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=5)
BY_COLUMN = ColumnTransformer([("fill", SimpleImputer(), [1])], remainder="passthrough")
TAKING_NAN = {
    "trees": TREES,
    "an imputer": FILLED,
    "scaled, then filled": make_pipeline(StandardScaler(), SimpleImputer(), LinearRegression()),
    "scaled trees": make_pipeline(StandardScaler(), TREES),
    "columns of trees": make_pipeline(BY_COLUMN, TREES),
    "one filled column of trees": make_pipeline(
        ColumnTransformer([("fill", SimpleImputer(), [0, 1, 2])]), LinearRegression()
    ),
    "a vote": VotingRegressor([("filled", FILLED), ("trees", TREES)]),
    "a stack": StackingRegressor([("filled", FILLED)], cv=2),
    "a bag": BaggingRegressor(FILLED, n_estimators=2, random_state=0),
    "a search": GridSearchCV(FILLED, {"simpleimputer__strategy": ["mean", "median"]}, cv=2),
    "another target": TransformedTargetRegressor(FILLED),
}
REFUSING_NAN = {
    "a line": LinearRegression(),
    "scaled": make_pipeline(StandardScaler(), LinearRegression()),
    "filled too late": make_pipeline(PCA(2), SimpleImputer(), LinearRegression()),
    "another column filled": make_pipeline(BY_COLUMN, LinearRegression()),
    "another gap filled": make_pipeline(SimpleImputer(missing_values=-1), LinearRegression()),
    "one of a vote": VotingRegressor([("filled", FILLED), ("line", LinearRegression())]),
    "a stack that sees rows": StackingRegressor([("filled", FILLED)], cv=2, passthrough=True),
    "somebody's own": Fits(),
}


@pytest.mark.parametrize("kind", TAKING_NAN)
def test_a_model_that_says_so_takes_nan(kind):
    fitted = TAKING_NAN[kind].fit(ROWS, TARGET)
    rows, donors = with_gaps(X), with_gaps(BACKGROUND)
    explanation = xj.Explainer(xj.as_model(fitted), donors)(rows)
    assert np.allclose(explanation.values, shapley(fitted.predict, rows, donors), atol=CLOSE)


@pytest.mark.parametrize("kind", REFUSING_NAN)
def test_a_model_that_does_not_say_so_refuses_nan_before_it_is_asked(kind):
    model = xj.as_model(REFUSING_NAN[kind].fit(ROWS, TARGET))
    assert not model.allow_nan
    with pytest.raises(xj.InputError, match="background contains NaN at row 0, column 1"):
        xj.Explainer(model, with_gaps(BACKGROUND))(X)


def test_what_is_said_of_nan_is_believed_rather_than_the_model():
    trees = TREES.fit(ROWS, TARGET)
    with pytest.raises(xj.InputError, match="contains NaN"):
        xj.as_model(trees, allow_nan=False).predict(with_gaps(X))
    assert np.isfinite(xj.as_model(FILLED.fit(ROWS, TARGET), allow_nan=True).predict(X)).all()
    for function in (lambda rows: rows[:, 0], np.sum):
        assert not xj.as_model(function, backend="host").allow_nan


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


@pytest.mark.parametrize("backend", ["auto", "jax", "host"])
def test_a_search_is_explained_as_its_best_estimator(backend):
    fitted = searched()
    model = xj.as_model(fitted, backend=backend)
    explanation = xj.Explainer(model, BACKGROUND)(X)
    wanted = shapley(fitted.best_estimator_.predict_proba, X, BACKGROUND)
    assert np.allclose(explanation.values, wanted, atol=CLOSE)
    assert model.backend == ("host" if backend == "host" else "jax")
    assert model.classes == ("hi", "lo") and list(model.labels(X)) == list(fitted.predict(X))


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
        return xj.as_model(fitted, backend="host").identity((3,), np.dtype(np.float64))

    other = GridSearchCV(LogisticRegression(), {"C": [0.5]}, cv=2).fit(ROWS, LABELS)
    assert known(searched()) == known(searched()) != known(other)
    assert known(other) is not None
