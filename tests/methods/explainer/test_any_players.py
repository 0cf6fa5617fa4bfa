"""Models with a closed form: exact by "auto" and "exact" at any number of players."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeRegressor

import xaijax as xj

RNG = np.random.default_rng(30)


def rows(N: int, P: int) -> np.ndarray:
    return RNG.normal(size=(N, P)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(("P", "given"), [(30, {"budget": 9}), (500, {"estimator": "exact"})])
def test_a_linear_margin_is_exact_whatever_the_budget(P: int, given: dict) -> None:
    X = rows(60, P)
    fitted = LogisticRegression().fit(X, X[:, 0] > 0)
    explainer = xj.Explainer(xj.as_model(fitted, output="decision"), X[:20], **given)
    plan = explainer.plan(X[20:24])
    assert set(plan.estimator) == {"exact"} and plan.structure == "additive"
    assert (plan.model_rows == 1).all() and plan.model_calls == 0 and "pairs" not in plan.shares
    found = explainer(X[20:24])
    assert found.exact and found.stats["estimator"] == "exact"
    wanted = (X[20:24] - X[:20].mean(axis=0, dtype=np.float64)) * fitted.coef_[0]
    np.testing.assert_allclose(found.values, wanted, rtol=0, atol=1e-5 * abs(wanted).max())


@pytest.mark.slow
def test_a_tree_of_30_columns_is_exact_by_its_definition() -> None:
    """The columns that no node asks are null players: the others are enumerated without them."""
    X = rows(200, 30)
    y = X[:, 0] * X[:, 1] + X[:, 2]
    tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(X, y)
    asked = np.unique(tree.tree_.feature[tree.tree_.feature >= 0])
    x, donors, groups = X[7], X[:3], [[j] for j in asked]
    v = oracles.coalition_values(tree.predict, x, donors, np.full(3, 1 / 3), groups)
    wanted = np.zeros(30)
    wanted[asked] = oracles.semivalue(v, len(asked), oracles.shapley_weight(len(asked)))
    found = xj.Explainer(xj.as_model(tree), donors)(x[None])
    assert found.exact and found.stats["structure"] == "trees" and found.stats["model_rows"] == 1
    np.testing.assert_allclose(found.values[0], wanted, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_function_is_asked_by_auto_and_refused_unasked_by_exact() -> None:
    X, w = rows(6, 30), np.arange(30, dtype=np.float32)
    times = 0

    def additive(rows):
        nonlocal times
        times += 1
        return rows @ w

    exact = xj.Explainer(xj.as_model(additive), X[:4], estimator="exact")
    for asked in (exact, exact.interactions):
        with pytest.raises(xj.EnumerationLimitError, match=r"estimator='auto' finds a closed form"):
            asked(X[4:])
    assert times == 0
    found = xj.Explainer(xj.as_model(additive), X[:4])(X[4:])
    assert found.exact and found.stats["structure"] == "additive"
    named = xj.Explainer(xj.as_model(additive), X[:4], estimator="permutation", budget=200)
    assert not named(X[4:]).exact


def test_no_closed_form_and_an_index_that_is_not_sampled_is_refused_by_auto() -> None:
    model = xj.as_model(lambda rows: jnp.tanh(rows).prod(axis=1))
    X = rows(2, 17)
    explainer = xj.Explainer(model, X[:1], index=xj.SizeLimited(2))
    with pytest.raises(xj.EnumerationLimitError, match="needs 131,072.*closed form .*additive"):
        explainer(X[1:])
    linear = xj.as_model(lambda rows: rows.sum(axis=1))
    assert xj.Explainer(linear, X[:1], index=xj.SizeLimited(2))(X[1:]).exact
