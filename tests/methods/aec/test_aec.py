"""AEC against its definition, against loops of scikit-learn fits, and the published lists."""

from __future__ import annotations

import math
import os
import warnings

import numpy as np
import oracles
import pytest
from aec_data import EPS, collinear, fitted, rounding
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

import xaijax as xj
from xaijax_kernels.collinearity.effects import all_but_one, feature_slopes, sums_of_others

NO_DATA = not os.environ.get("XAIJAX_DATA")

# The lists of the paper's Table 2.
WINE = (
    "density, chlorides, volatile acidity, citric acid, alcohol, sulphates, pH, fixed acidity, "
    "residual sugar, free sulfur dioxide, total sulfur dioxide"
).split(", ")
DIABETES = (
    "CholCheck HighBP HeartDiseaseorAttack HighChol HvyAlcoholConsump DiffWalk Stroke PhysActivity "
    "GenHlth Veggies Education Smoker NoDocbcCost Fruits AnyHealthcare Income Age Sex BMI PhysHlth "
    "MentHlth"
).split()
# The effects behind the wine list, as the reading of the method gives them, to four decimals.
WINE_EFFECTS = (
    [81145.4263, -6263.8878, -1233.5525, 304.2968, 230.2529, 185.4088, 84.7276]
    + [-36.6825, -4.6408, 1.8791, -0.4417]
)  # fmt: skip


def loop_of_sklearn(X, y, target_model):
    """The author's loop: a fit for every feature and pair; [F]."""
    n = X.shape[1]
    effects = []
    for j in range(n):
        total = sum(
            LinearRegression().fit(X[:, [i]], X[:, z]).coef_[0]
            for z in range(n)
            for i in range(n)
            if i != j and z != i
        )
        effects.append(np.ravel(target_model.fit(X[:, [j]], y).coef_)[0] * total)
    return np.array(effects)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("columns", [1, 2, 5, 8])
def test_regression_is_the_definition(columns, standardize):
    X, y = collinear(columns=columns)
    aec = fitted(X, y, standardize=standardize)
    expected = oracles.additive_effects(X, y, standardize=standardize)
    bound = rounding(X, aec.target_slopes_, standardize)
    assert (np.abs(aec.effects_ - expected) <= bound).all()
    if columns > 2:  # the bound tells z = j in the sum from z = j left out, and the sign
        assert (np.abs(expected) > 1e6 * bound).all()
    assert aec.effects_.dtype == np.float64 and aec.effects_.shape == (columns,)


def test_the_slopes_of_one_column_are_not_taken_twice():
    """B[z, j], the slopes on the feature itself, are left out, and z = j is in."""
    X, y = collinear(columns=3)
    b = [oracles.slope(X[:, j], y) for j in range(3)]
    s = [[oracles.slope(X[:, i], X[:, z]) for i in range(3)] for z in range(3)]
    first = b[0] * (s[0][1] + s[2][1] + s[0][2] + s[1][2])
    np.testing.assert_allclose(fitted(X, y).effects_[0], first, rtol=1e3 * EPS)


def test_regression_is_the_loop_of_sklearn_fits():
    X, y = collinear(rows=120, columns=5, seed=3)
    aec = fitted(X, y)
    # LinearRegression solves by singular values: its rounding is that of a few products more.
    expected = loop_of_sklearn(X, y, LinearRegression())
    assert (np.abs(aec.effects_ - expected) <= 8 * rounding(X, aec.target_slopes_)).all()


def test_classification_is_the_loop_of_sklearn_fits():
    X, y = collinear(rows=150, columns=4, seed=4, labels=True)
    aec = fitted(X, y)
    # The same solver on the same numbers, up to the order of sums: 1e-6 is far above what that
    # moves its last step by, and far below the distance of its stopping point from the minimum.
    np.testing.assert_allclose(aec.effects_, loop_of_sklearn(X, y, LogisticRegression()), rtol=1e-6)


@pytest.mark.parametrize("labels", [False, True])
def test_the_first_step_of_the_readme(labels):
    """decimals=4 rounds every slope, b and the product, and nothing else."""
    X, y = collinear(columns=5, labels=labels)
    target = oracles.logistic_slope if labels else oracles.slope
    aec = fitted(X, y, decimals=4, solver="newton")
    expected = oracles.additive_effects(X, y, target, decimals=4)
    # Sums of numbers with four decimals: the products differ in their last place at most.
    np.testing.assert_allclose(aec.effects_, expected, rtol=0, atol=1.01e-4)
    np.testing.assert_array_equal(aec.slopes_, np.round(aec.slopes_, 4))
    assert not np.allclose(aec.effects_, fitted(X, y, solver="newton").effects_, rtol=0, atol=1e-6)


@pytest.mark.skipif(NO_DATA, reason="needs the wine table: XAIJAX_DATA is not set")
@pytest.mark.parametrize("decimals", [None, 4])
def test_wine_list_and_effects_of_the_paper(decimals):
    X, y = xj.datasets.wine()
    with pytest.warns(xj.XaiWarning, match="standard deviations differ 18,849 times"):
        aec = xj.AEC(decimals=decimals).fit(X, y)
    assert [aec.feature_names_in_[j] for j in aec.ranking_] == WINE
    if decimals is None:
        found = aec.effects_[aec.ranking_]
        np.testing.assert_array_equal(np.round(found, 4), WINE_EFFECTS)


@pytest.mark.slow
@pytest.mark.skipif(NO_DATA, reason="needs the diabetes table: XAIJAX_DATA is not set")
@pytest.mark.parametrize("solver", ["sklearn", "newton"])
def test_diabetes_list_of_the_paper(solver):
    X, y = xj.datasets.diabetes()
    aec = fitted(X, y, solver=solver)
    assert [aec.feature_names_in_[j] for j in aec.ranking_] == DIABETES
    assert aec.classes_.tolist() == [0, 1]
    same = (np.round(aec.target_slopes_, 4) == four_decimals_of_sklearn(X, y)).all()
    assert same == (solver == "sklearn")


def four_decimals_of_sklearn(X, y):
    """The slopes of scikit-learn's own fit of each column."""
    fits = [LogisticRegression().fit(x[:, None], y) for x in np.asarray(X, float).T]
    return np.round([fit.coef_[0, 0] for fit in fits], 4)


@pytest.mark.slow
def test_slopes_are_those_of_scikit_learn_to_four_decimals():
    """Of a table that scikit-learn brings; Newton's minimum is elsewhere, so that this can fail."""
    X, y = load_breast_cancer(return_X_y=True)
    wanted = four_decimals_of_sklearn(X, y)
    with pytest.warns(xj.XaiWarning, match="stopped far from its minimum"):
        slopes = fitted(X, y, solver="sklearn").target_slopes_
    np.testing.assert_array_equal(np.round(slopes, 4), wanted)
    assert (np.round(fitted(X, y, solver="newton").target_slopes_, 4) != wanted).any()


def test_ties_keep_the_column_order():
    X, y = collinear(columns=3)
    X = np.column_stack([X[:, 0], X[:, 1], X[:, 0], X[:, 2]])
    aec = fitted(X, y)
    assert aec.effects_[0] == aec.effects_[2]
    order = aec.ranking_.tolist()
    assert order.index(0) < order.index(2) and sorted(order) == [0, 1, 2, 3]


@pytest.mark.parametrize("columns", [3, 8, 21])
def test_equal_columns_tie_to_the_bit_wherever_they_stand(columns):
    """Their slopes are the same numbers, but are added in another order: sums must not feel it."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.integers(-9, 10, (12, columns)).astype(float)  # products of these are exact
        X[:, -1] = X[:, 0]
        products = X.T @ X
        sums = sums_of_others(feature_slopes(products, np.zeros(columns, bool), False))
        others = all_but_one(sums)
        assert sums[0] == sums[-1] and others[0] == others[-1]
        exact = [math.fsum(np.delete(sums, j)) for j in range(columns)]
        np.testing.assert_allclose(others, exact, rtol=0, atol=columns * EPS * np.abs(sums).sum())


def test_one_column_has_no_effect():
    X, y = collinear(columns=1)
    assert fitted(X, y).effects_.tolist() == [0.0]


def test_constant_columns_are_named_once_and_agree_with_the_loop():
    X, y = collinear(columns=4)
    X = np.insert(X, [1, 3], [7.3, 0.1], axis=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aec = xj.AEC().fit(X, y)
    told = [str(one.message) for one in caught if "constant" in str(one.message)]
    assert len(told) == 1 and "'x1', 'x4'" in told[0]
    assert aec.effects_[1] == aec.effects_[4] == 0.0
    expected = oracles.additive_effects(X, y)
    assert (np.abs(aec.effects_ - expected) <= rounding(X, aec.target_slopes_)).all()


def test_constant_columns_of_a_classification_agree_with_the_loop():
    X, y = collinear(columns=3, labels=True)
    X = np.insert(X, 1, 7.3, axis=1)
    with pytest.warns(xj.XaiWarning, match="constant columns: 'x1'"):
        aec = xj.AEC(solver="newton").fit(X, y)
    expected = oracles.additive_effects(X, y, oracles.logistic_slope)
    np.testing.assert_allclose(aec.effects_, expected, rtol=1e-9)
    assert aec.effects_[1] == 0.0


def test_uncorrelated_columns_have_no_effect():
    """Whatever y is: a full factorial design has exactly uncorrelated columns."""
    X = np.array(np.meshgrid([-1.0, 1.0], [-2.0, 2.0], [-3.0, 3.0])).reshape(3, -1).T
    np.testing.assert_array_equal(fitted(X, X @ [1.0, -2.0, 5.0]).effects_, np.zeros(3))


def test_badly_scaled_columns_keep_their_digits():
    """Scales of 24 orders of magnitude, and offsets of a million spreads."""
    X, y = collinear(rows=300, columns=6, seed=5)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    scales = 10.0 ** np.array([-12, -6, 0, 3, 8, 12])
    plain = np.corrcoef(X.T)
    sums = [sum(plain[z, i] * scales[z] for z in range(6) if z != i) / scales[i] for i in range(6)]
    b = np.array([oracles.slope(X[:, j], y) for j in range(6)]) / scales
    expected = [b[j] * sum(sums[i] for i in range(6) if i != j) for j in range(6)]
    np.testing.assert_allclose(fitted(X * scales, y).effects_, expected, rtol=1e-12)
    # With an offset of 1e6 spreads the data themselves are rounded to 1e6 eps of their spread, and
    # each slope with them; raw sums of squares would be left with 1e12 eps, 2e-4.
    moved = fitted((X + 1e6) * scales, y).effects_
    np.testing.assert_allclose(moved, expected, rtol=300 * 1e6 * EPS)


def test_the_dominant_column_does_not_drown_the_sum_of_the_others():
    """effect_j leaves C_j out: taken from the total, a C_j of 1e24 would leave no digit."""
    X, y = collinear(rows=100, columns=3, seed=6)
    X = (X - X.mean(axis=0)) * [1e-24, 1.0, 1.0]
    b = oracles.slope(X[:, 0], y)
    others = sum(oracles.slope(X[:, i], X[:, z]) for i in (1, 2) for z in range(3) if z != i)
    np.testing.assert_allclose(fitted(X, y).effects_[0], b * others, rtol=1e-12)


@pytest.mark.parametrize("labels", [False, True])
def test_weights_are_repeated_rows(labels):
    X, y = collinear(rows=60, columns=4, labels=labels)
    weights = np.random.default_rng(1).integers(0, 4, 60)
    weighted = fitted(X, y, weights, solver="newton")
    repeated = fitted(np.repeat(X, weights, axis=0), np.repeat(y, weights), solver="newton")
    np.testing.assert_allclose(weighted.effects_, repeated.effects_, rtol=1e-10)
    if not labels:
        expected = oracles.additive_effects(X, y, weights=weights)
        np.testing.assert_allclose(weighted.effects_, expected, rtol=1e-10)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("learner", [Ridge(alpha=3.0), LinearRegression()])
def test_any_learner_with_a_slope(learner, standardize):
    X, y = collinear(columns=4)
    aec = fitted(X, y, learner=learner, standardize=standardize)

    def slope(x, y, weights):
        return learner.fit(x[:, None], y).coef_[0]

    expected = oracles.additive_effects(X, y, slope, standardize=standardize)
    np.testing.assert_allclose(aec.effects_, expected, rtol=1e-9)


def test_a_function_as_learner():
    X, y = collinear(columns=4, labels=True)
    seen = []

    def mean_difference(x, y, weights=None):
        seen.append((x.shape, sorted(set(y.tolist())), weights is None))
        return x[y == 1].mean() - x[y == 0].mean()

    aec = fitted(X, np.where(y, "yes", "no"), learner=mean_difference)
    expected = oracles.additive_effects(X, y, mean_difference)
    np.testing.assert_allclose(aec.effects_, expected, rtol=1e-10)
    assert set(map(str, seen[:4])) == {str(((200,), [0, 1], True))}


@pytest.mark.parametrize("solver", ["sklearn", "newton"])
def test_more_than_two_classes_are_each_against_the_rest(solver):
    X, y = collinear(columns=4)
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 0.6])]
    aec = fitted(X, labels, solver=solver)
    assert aec.classes_.tolist() == ["low", "mid", "top"]
    assert aec.effects_.shape == aec.ranking_.shape == (3, 4)
    for k, label in enumerate(aec.classes_):
        one = fitted(X, labels == label, solver=solver)
        np.testing.assert_allclose(aec.effects_[k], one.effects_, rtol=1e-8)
    explanation = aec.explanation_
    assert explanation.shape == (1, 4, 3) and explanation.output_names == ("low", "mid", "top")
    np.testing.assert_array_equal(explanation.values[0].T, aec.effects_)


def test_the_explanation_says_how_it_was_made(tmp_path):
    X, y = collinear(columns=4)
    aec = fitted(X, y)
    found = aec.explanation_
    assert found.kind == "aec" and found.feature_names == ("x0", "x1", "x2", "x3")
    np.testing.assert_array_equal(found.values, aec.effects_[None])
    assert found.provenance["task"] == "regression" and found.provenance["rows"] == 200
    for text in (repr(aec), repr(found)):
        assert "mixed units" in text and "not the direction" in text
    assert "free of their units" in repr(fitted(X, y, standardize=True))
    assert repr(xj.AEC(decimals=4)) == "AEC(decimals=4)"
    found.save(tmp_path / "aec.npz")
    np.testing.assert_array_equal(xj.load(tmp_path / "aec.npz").values, found.values)
