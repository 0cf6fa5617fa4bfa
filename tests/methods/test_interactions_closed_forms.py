"""Interactions in closed form: by default, before a call samples or refuses, of any number of
players.
"""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from often import some_slow
from sklearn.tree import DecisionTreeRegressor

import xaijax as xj

INDICES = ("sii", "k-sii", "stii", "fsii", "banzhaf", "moebius")


def rows(N: int, P: int) -> np.ndarray:
    return np.random.default_rng(P).normal(size=(N, P)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("P", [20, 30])
def test_an_additive_model_is_exact_by_default_and_its_pairs_are_0(P):
    w, X = np.arange(P, dtype=np.float32), rows(4, P)
    found = xj.Explainer(xj.as_model(lambda X: X @ w), X[:2]).interactions(X[2:])
    assert found.exact and found.stats["structure"] == "additive"
    assert found.stats["model_rows"] <= 2 and found.stats["estimator"] == "exact"
    assert (found.values[:, P:] == 0).all()
    wanted = (X[2:] - X[:2].mean(axis=0)) * w
    np.testing.assert_allclose(found.values[:, :P], wanted, rtol=0, atol=1e-5 * P)


@pytest.fixture(scope="module")
def tree():
    """A tree that asks a few of 30 columns, and what unites the others."""
    X = rows(200, 30)
    y = X[:, 0] * X[:, 1] * X[:, 3] + X[:, 2]
    fitted = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, y)
    asked = np.unique(fitted.tree_.feature[fitted.tree_.feature >= 0])
    return fitted, X, asked


@pytest.mark.slow
@pytest.mark.parametrize(
    "index, order", some_slow([*[(one, 2) for one in INDICES], ("fsii", 3)], 4)
)
def test_a_tree_of_30_columns_is_that_of_the_columns_it_asks(tree, index, order):
    """The others are null players; without them the definition is asked, corner by corner."""
    fitted, X, asked = tree
    found = xj.Explainer(xj.as_model(fitted), X[:3]).interactions(X[3:5], order=order, index=index)
    assert found.exact and found.stats["structure"] == "trees" and found.stats["model_rows"] <= 2
    others = [c for c in range(30) if c not in asked]
    plain = xj.as_model(fitted, structure="plain")
    few = xj.Explainer(plain, X[:3], players={"others": others}, estimator="exact")
    wanted = few.interactions(X[3:5], order=order, index=index)
    names = [S for S in wanted.set_names if "others" not in S]
    assert len(names) > len(asked)
    np.testing.assert_allclose(
        found[:, names].values, wanted[:, names].values, rtol=0, atol=1e-5 * 2**order
    )


@pytest.mark.slow
def test_an_explainer_that_must_sample_samples(tree):
    fitted, X, _ = tree
    kernel = xj.Explainer(xj.as_model(fitted), X[:3], estimator="kernel", budget=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XaiWarning)
        assert not kernel.interactions(X[3:4]).exact


def test_players_alone_that_would_be_sampled_are_sent_to_the_call():
    X = rows(3, 20)
    explainer = xj.Explainer(xj.as_model(lambda X: np.tanh(X).prod(axis=1), backend="host"), X[:2])
    with pytest.raises(
        xj.EnumerationLimitError,
        match=r"explainer\(X\) gives the values.*order=2",
    ):
        explainer.interactions(X[2:], order=1)
    with pytest.raises(xj.EnumerationLimitError, match="more than 16,777,216"):
        wide = rows(3, 40)
        other = xj.Explainer(
            xj.as_model(lambda X: np.tanh(X).prod(axis=1), backend="host"), wide[:1]
        )
        other.interactions(wide[2:], order=3)


@pytest.mark.parametrize("index, order", [("k-sii", 1), ("stii", 1), ("sii", 2), ("banzhaf", 2)])
def test_more_players_than_weights_hold_are_refused(index, order):
    """Numbers of sets of 1,100 players are beyond float64; two of the indices would be sampled."""
    w, X = np.full(1_100, 0.1, np.float32), rows(3, 1_100)
    explainer = xj.Explainer(xj.as_model(lambda X: jnp.tanh(X @ w)), X[:2])
    with pytest.raises(xj.EnumerationLimitError, match=r"1,100 players.*Group columns with play"):
        explainer.interactions(X[2:], order=order, index=index)
