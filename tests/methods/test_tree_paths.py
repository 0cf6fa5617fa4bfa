"""`TreePaths`: values by the covers of trees, compared with the definition and other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import oracles
import oracles_paths
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import xaijax as xj

P = 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, P)).astype(np.float32).astype(float)
Y = X[:, 0] * X[:, 1] + np.abs(X[:, 2]) + 0.1 * RNG.normal(size=len(X))
THREE = np.digitize(Y, [0.2, 1.0])
# Leaves and covers are float32: 2^-24 of each of the numbers that are added up.
CLOSE = {"rtol": 0, "atol": 3e-6}


def explained(model: Any, rows: Any, **options: Any) -> xj.Explanation:
    return xj.Explainer(model, xj.TreePaths(), **options)(rows, progress=False)


def nodes_of(tree: Any, values: np.ndarray) -> dict[str, Any]:
    """The nodes of a fitted scikit-learn tree, with other values [m, K]."""
    inner = tree.tree_
    leaf = inner.children_left < 0
    return {
        "left": np.where(leaf, np.arange(len(leaf)), inner.children_left),
        "right": inner.children_right,
        "feature": inner.feature,
        "threshold": inner.threshold,
        "missing_left": np.zeros(len(leaf), bool),
        "value": values,
        "cover": inner.weighted_n_node_samples,
        "roots": [0],
    }


def held(found: xj.Explanation, trees: list[dict[str, Any]], rows: np.ndarray, first: Any) -> None:
    """Asserts that values and base values are those of the sum of trees and a first guess."""
    groups = [list(own) for own in found.provenance["player_columns"]]
    assert found.exact and found.stats["structure"] == "trees"
    assert found.stats["model_rows"] <= len(rows) + 1
    for n, x in enumerate(rows):
        v = [oracles_paths.coalition_values(tree, x, groups) for tree in trees]
        whole = {S: sum(one[S] for one in v) + first for S in v[0]}
        wanted = oracles.semivalue(whole, len(groups), oracles.shapley_weight(len(groups)))
        np.testing.assert_allclose(found.values[n].reshape(wanted.shape), wanted, **CLOSE)
        np.testing.assert_allclose(found.base_values[n], whole[frozenset()].squeeze(), **CLOSE)


@pytest.mark.slow
def test_a_weighted_forest_of_three_classes_is_that_of_the_definition():
    weights = RNG.integers(0, 3, len(X))
    fitted = RandomForestClassifier(6, max_depth=4, random_state=0)
    fitted.fit(X, THREE, sample_weight=weights)
    found = explained(xj.as_model(fitted, output="proba"), X[:3])
    trees = [nodes_of(one, one.tree_.value[:, 0] / 6) for one in fitted.estimators_]
    held(found, trees, X[:3], 0.0)


@pytest.mark.slow
def test_a_boosted_margin_behind_a_scaler_with_groups_of_columns():
    fitted = GradientBoostingClassifier(n_estimators=8, random_state=0)
    whole = make_pipeline(StandardScaler(), fitted).fit(X, Y > 0.5)
    model = xj.as_model(whole, output="decision")
    found = explained(model, X[:3], players={"a": [0, 3], "b": [4]})
    trees = [nodes_of(one, 0.1 * one.tree_.value[:, 0]) for one in fitted.estimators_[:, 0]]
    first = fitted._raw_predict_init(X[:1])[0]
    held(found, trees, whole[0].transform(X[:3]).astype(np.float32), first)


KINDS = {
    "forest": RandomForestRegressor(8, random_state=0),
    "histograms": HistGradientBoostingRegressor(max_iter=15, min_samples_leaf=5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_values_are_those_of_shap(name):
    shap = pytest.importorskip("shap")
    fitted = KINDS[name].fit(X, Y)
    found = explained(fitted, X[:30])
    by_shap = shap.TreeExplainer(fitted, feature_perturbation="tree_path_dependent")
    wanted = by_shap.shap_values(X[:30], check_additivity=False)
    np.testing.assert_allclose(found.values, wanted, **CLOSE)
    np.testing.assert_allclose(found.base_values, np.ravel(by_shap.expected_value)[0], **CLOSE)


def histogram_nodes(predictor: Any) -> dict[str, Any]:
    """The nodes of a tree of histogram boosting."""
    nodes = predictor.nodes
    leaf, categorical = nodes["is_leaf"] != 0, nodes["is_categorical"] != 0
    bits = predictor.raw_left_cat_bitsets.view(np.uint8)
    table = np.unpackbits(bits, axis=1, bitorder="little").astype(bool).reshape(-1, 256)
    split = np.where(categorical & ~leaf, nodes["bitset_idx"].astype(int), -1)
    table = np.concatenate([table, np.zeros((len(table), 1), bool)], axis=1)
    return {
        "left": np.where(leaf, np.arange(len(leaf)), nodes["left"]),
        "right": nodes["right"],
        "feature": nodes["feature_idx"],
        "threshold": nodes["num_threshold"],
        "missing_left": nodes["missing_go_to_left"] != 0,
        "value": nodes["value"][:, None],
        "cover": nodes["count"],
        "category_split": split,
        "goes_left": table,
        "roots": [0],
    }


# Until layers of trees with categories and missing values are found in a trace.
@pytest.mark.slow
def test_missing_values_and_categories_are_those_of_the_definition():
    rows = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
    rows[:, 1] = RNG.integers(0, 6, len(X))
    y = np.where(rows[:, 1] % 2, 1, -1) + np.nan_to_num(rows[:, 0], nan=2.0)
    kind = HistGradientBoostingRegressor(
        max_iter=6, min_samples_leaf=5, max_leaf_nodes=12, categorical_features=[1]
    )
    fitted = kind.fit(rows, y)
    found = explained(fitted, rows[:3])
    trees = [histogram_nodes(stage[0]) for stage in fitted._predictors]
    # The encoder in front puts categories first.
    at = rows[:3][:, [1, 0, 2, 3, 4]]
    groups = [[1], [0], [2], [3], [4]]
    for n, x in enumerate(at):
        v = [oracles_paths.coalition_values(tree, x, groups) for tree in trees]
        whole = {S: sum(one[S] for one in v) for S in v[0]}
        wanted = oracles.semivalue(whole, P, oracles.shapley_weight(P))[:, 0]
        np.testing.assert_allclose(found.values[n], wanted, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_values_are_those_of_the_library(library):
    """pred_contribs of a booster whose first guess is among the base value."""
    booster: Any = pytest.importorskip(library)
    rows = np.where(RNG.random(X.shape) < 0.1, np.nan, X).astype(np.float32)
    if library == "xgboost":
        data = booster.DMatrix(rows, Y)
        fitted = booster.train({"max_depth": 5, "nthread": 1}, data, 20)
        wanted = fitted.predict(data, pred_contribs=True)
    else:
        quiet = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 5}
        fitted = booster.train(quiet, booster.Dataset(rows, Y), 20)
        wanted = fitted.predict(rows, pred_contrib=True)
    found = explained(xj.as_model(fitted), rows)
    np.testing.assert_allclose(found.values, wanted[:, :-1], rtol=0, atol=1e-5)
    np.testing.assert_allclose(found.base_values, wanted[:, -1], rtol=0, atol=1e-5)


@pytest.mark.slow
def test_many_columns_of_deep_trees_are_exact_by_default():
    """60 columns, more than can be enumerated; values add up within the certificate."""
    rows = RNG.normal(size=(200, 60))
    fitted = DecisionTreeRegressor(random_state=0).fit(rows, rows @ np.arange(60))
    explainer = xj.Explainer(fitted, xj.TreePaths())
    plan = explainer.plan(rows[:9])
    assert (plan.model_rows == 1).all() and (plan.estimator == "exact").all()
    found = explainer(rows[:9], progress=False)
    assert (found.stats["efficiency_residual"] <= found.stats["efficiency_bound"]).all()
    np.testing.assert_allclose(
        found.base_values + found.values.sum(axis=1), fitted.predict(rows[:9]), rtol=1e-6, atol=1e-4
    )
    assert explainer.fingerprint(rows[:1]) == found.fingerprint
    assert "TreePaths()" in repr(explainer)
    banzhaf = explained(fitted, rows[:2], index="banzhaf")
    assert np.abs(banzhaf.values - found.values[:2]).max() > 1e-3
    single = explainer.interactions(rows[:2], order=1, progress=False)
    np.testing.assert_array_equal(single.values, found.values[:2])


TREE = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X, Y)
CLASSES = GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, Y > 0.5)
REFUSED = {
    "no trees": (LinearRegression().fit(X, Y), {}, "is no sum of trees"),
    "a function": (xj.as_model(lambda X: X[:, 0]), {}, "is no sum of trees"),
    "on the host": (xj.as_model(TREE, backend="host"), {}, r"JAX knows \(.*host.*\)\. Give"),
    "probabilities": (xj.as_model(CLASSES, output="proba"), {}, "output='decision'"),
    "a sampler": (TREE, {"estimator": "kernel"}, "estimator='kernel' samples"),
    "a link": (TREE, {"link": np.exp}, "has no closed form"),
    "weights": (TREE, {"weights": [1.0]}, "TreePaths has none"),
    "kept columns": (TREE, {"players": [-1, 0, 1, 2, 3]}, "Make them players"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_models_and_questions_are_refused(name):
    model, options, said = REFUSED[name]
    with pytest.raises(xj.InputError, match=said):
        explained(model, X[:2], **options)


@pytest.mark.slow
def test_trees_without_covers_are_refused():
    """A model whose nodes are read without them: a histogram tree of its library, say."""
    model = xj.as_model(HistGradientBoostingClassifier(max_iter=2).fit(X, Y > 0), output="decision")
    del model.params["cover"]
    with pytest.raises(xj.InputError, match="store no covers"):
        explained(model, X[:2])


@pytest.mark.slow
def test_one_row_is_answered_though_it_differs_from_no_other():
    model = xj.as_model(CLASSES, output="decision")
    found = explained(model, X[:1])
    np.testing.assert_array_equal(found.values, explained(model, X[:4]).values[:1])


@pytest.mark.slow
def test_outputs_and_pairs_are_refused():
    fitted = RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, THREE)
    explainer = xj.Explainer(xj.as_model(fitted, output="proba"), xj.TreePaths())
    with pytest.raises(xj.InputError, match="Leave it out, and take one output"):
        explainer(X[:2], outputs="predicted")
    with pytest.raises(xj.InputError, match="order=2 has no closed form"):
        explainer.interactions(X[:2])
    with pytest.raises(xj.InputError, match="Give rows X"):
        xj.Explainer(TREE, xj.TreePaths()).fingerprint()


WRONG = {
    "QII": lambda: xj.QII(TREE, X, pool=xj.TreePaths()),
    "AnchorExplainer": lambda: xj.AnchorExplainer(CLASSES, xj.TreePaths()),
    "GradientExplainer": lambda: xj.GradientExplainer(lambda X: X[:, 0], xj.TreePaths())(X),
    "AmortizedExplainer": lambda: xj.AmortizedExplainer(xj.Explainer(TREE, xj.TreePaths())),
    "judge": lambda: xj.judge(explained(TREE, X[:3]), xj.Explainer(TREE, xj.TreePaths()), X[:3]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_methods_that_need_hybrids_refuse_it(name):
    with pytest.raises((xj.InputError, xj.InputTypeError), match="TreePaths|rows"):
        WRONG[name]()
