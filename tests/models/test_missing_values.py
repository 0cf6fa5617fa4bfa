"""`allow_nan=None`: which rows and columns of an estimator may hold NaN, as it says itself."""

import numpy as np
import oracles
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingRegressor,
    HistGradientBoostingRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj
from xaijax.core import checks

rng = np.random.default_rng(0)
X, BACKGROUND = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
ROWS = rng.normal(size=(60, 3))
TARGET = ROWS @ [1.0, -2.0, 0.5] + 0.1 * ROWS[:, 0] * ROWS[:, 1]
CLOSE = 1e-5  # float32 answers of size 1, some tens of roundings of 6e-8


def shapley(f, X, background):
    """Values [N, F] or [N, F, K] of f(rows [M, F]), by the definition, in float64."""
    return oracles.explain(f, X, background, oracles.shapley_weight(X.shape[1]))[0]


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
    "another column filled": make_pipeline(
        ColumnTransformer([("fill", SimpleImputer(), [0])], remainder="passthrough"),
        LinearRegression(),
    ),
    "another gap filled": make_pipeline(SimpleImputer(missing_values=-1), LinearRegression()),
    "one of a vote": VotingRegressor([("filled", FILLED), ("line", LinearRegression())]),
    "a stack that sees rows": StackingRegressor([("filled", FILLED)], cv=2, passthrough=True),
    "somebody's own": Fits(),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(k, marks=pytest.mark.slow)
        if k in ("trees", "columns of trees", "a search")
        else k
        for k in TAKING_NAN
    ],
)
def test_a_model_that_says_so_takes_nan(kind):
    fitted = TAKING_NAN[kind].fit(ROWS, TARGET)
    rows, donors = with_gaps(X), with_gaps(BACKGROUND)
    explanation = xj.Explainer(xj.as_model(fitted), donors)(rows)
    assert np.allclose(explanation.values, shapley(fitted.predict, rows, donors), atol=CLOSE)


@pytest.mark.parametrize("kind", REFUSING_NAN)
def test_a_model_that_does_not_say_so_refuses_nan_before_it_is_asked(kind):
    model = xj.as_model(REFUSING_NAN[kind].fit(ROWS, TARGET))
    assert not checks.nan_at(model.allow_nan, 1)
    with pytest.raises(xj.InputError, match="background contains NaN at row 0, column 1"):
        xj.Explainer(model, with_gaps(BACKGROUND))(X)


NESTED = ColumnTransformer([("deep", make_pipeline(BY_COLUMN), [2, 1, 0])])
LATER = make_pipeline(BY_COLUMN, ColumnTransformer([("all", "passthrough", [2, 1, 0])]))
IN_SOME_COLUMNS = {
    "a column transformer": (make_pipeline(BY_COLUMN, LinearRegression()), [1]),
    "one in another": (make_pipeline(NESTED, LinearRegression()), [1]),
    "two, one after the other": (make_pipeline(LATER, LinearRegression()), [1]),
    "a dropped column": (
        make_pipeline(
            ColumnTransformer([("fill", SimpleImputer(), [2]), ("kept", "passthrough", [0])]),
            LinearRegression(),
        ),
        [1, 2],
    ),
    "a column that two read": (
        make_pipeline(
            ColumnTransformer([("fill", SimpleImputer(), [0, 1]), ("kept", "passthrough", [0, 2])]),
            LinearRegression(),
        ),
        [1],
    ),
    "a vote": (VotingRegressor([("a", make_pipeline(BY_COLUMN, LinearRegression()))]), [1]),
    "another target": (
        TransformedTargetRegressor(make_pipeline(BY_COLUMN, LinearRegression())),
        [1],
    ),
}


@pytest.mark.parametrize("backend", ["auto", "host"])
@pytest.mark.parametrize("kind", IN_SOME_COLUMNS)
def test_nan_is_taken_in_the_columns_whose_transformer_takes_it(kind, backend):
    estimator, taken = IN_SOME_COLUMNS[kind]
    fitted = estimator.fit(ROWS, TARGET)
    model = xj.as_model(fitted, backend=backend)
    for column in range(3):
        gaps = X.copy()
        gaps[1, column] = np.nan
        if column in taken:
            found = xj.Explainer(model, BACKGROUND)(gaps)
            wanted = shapley(fitted.predict, gaps, BACKGROUND)
            assert np.allclose(found.values, wanted, atol=CLOSE)
        else:
            with pytest.raises(ValueError, match="NaN"):  # the estimator itself
                fitted.predict(gaps)
            with pytest.raises(xj.InputError, match=f"X contains NaN at row 1, column {column}"):
                xj.Explainer(model, BACKGROUND)(gaps)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_nan_in_a_frame_is_taken_in_the_same_columns(library):
    made_frame = pytest.importorskip(library).DataFrame

    def frame(rows):
        return made_frame({name: rows[:, j] for j, name in enumerate("abc")})

    fill = ColumnTransformer([("fill", SimpleImputer(), ["b"])], remainder="passthrough")
    fitted = make_pipeline(fill, LinearRegression()).fit(frame(ROWS), TARGET)
    gaps = X.copy()
    gaps[1, 1] = np.nan
    model = xj.as_model(fitted, backend="host")
    found = xj.Explainer(model, frame(BACKGROUND))(frame(gaps))
    wanted = shapley(lambda z: fitted.predict(frame(z)), gaps, BACKGROUND)
    assert np.allclose(found.values, wanted, atol=CLOSE)
    median = xj.Baseline("median", frame(gaps))
    assert np.isfinite(xj.Explainer(model, median)(frame(gaps)).values).all()
    gaps[1, 2] = np.nan
    with pytest.raises(xj.InputError, match="column 'c', contains NaN at row 1"):
        xj.Explainer(model, frame(BACKGROUND))(frame(gaps))
    with pytest.raises(xj.InputError, match="column 'c' contains NaN at row 1"):
        xj.Explainer(model, xj.Baseline("median", frame(gaps)))(frame(X))


def test_bags_of_other_columns_are_taken_as_a_whole():
    inner = make_pipeline(BY_COLUMN, LinearRegression())
    bag = BaggingRegressor(inner, n_estimators=2, bootstrap_features=True, random_state=0)
    assert xj.as_model(bag.fit(ROWS, TARGET), backend="host").allow_nan is False


def test_what_is_said_of_nan_is_believed_rather_than_the_model():
    trees = TREES.fit(ROWS, TARGET)
    with pytest.raises(xj.InputError, match="contains NaN"):
        xj.as_model(trees, allow_nan=False).predict(with_gaps(X))
    assert np.isfinite(xj.as_model(FILLED.fit(ROWS, TARGET), allow_nan=True).predict(X)).all()
    for function in (lambda rows: rows[:, 0], np.sum):
        assert not xj.as_model(function, backend="host").allow_nan
