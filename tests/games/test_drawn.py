"""Draws answered by what players add to the first layer, against whole rows; QII's samples=."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import xaijax as xj
from xaijax_kernels.games import sampling

P, DRAWS = 5, 700  # two chunks of draws and part of a third
WEIGHTS = np.random.default_rng(0).normal(size=(P, 3)).astype(np.float32)
MEMBERS = np.arange(90) < 30


def data(seed: int, N: int) -> np.ndarray:
    # Multiples of a quarter: donors agree often, so that hybrids are x itself.
    return np.random.default_rng(seed).integers(-4, 5, (N, P)).astype(np.float32) / 4


def network(X: Any) -> Any:
    return jax.nn.softmax(jnp.tanh(X @ WEIGHTS) @ WEIGHTS[:3, :2])


def asked(structure: Any, way: str, f: Any = network, **options: Any) -> Any:
    model = xj.as_model(f, output="proba", classes=[0, 1], structure=structure)
    qii = xj.QII(model, data(1, 90), samples=DRAWS, **options)
    if way == "unary":
        return qii.unary()
    if way == "set":
        return qii.influence([1, 3])
    return qii.explain(index=way)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["unary", "shapley", "banzhaf", "set"])
@pytest.mark.parametrize(
    "options",
    [
        {"quantity": "average"},
        {"quantity": "rate", "outcome": "score"},
        {"quantity": "disparity", "members": MEMBERS, "signed": True},
        {"quantity": "rate", "pool": data(2, 1)},
    ],
    ids=["average", "scores", "disparity", "one donor"],
)
def test_draws_have_the_values_of_whole_rows(way: str, options: dict[str, Any]) -> None:
    got, wanted = asked(None, way, **options), asked("plain", way, **options)
    # Sums of 5 float32 terms of size 4 in another order, through slopes below 1; of labels one of
    # the draws may have a hybrid within that of its threshold, which moves a mean by 2 / draws.
    strata = 3 if "members" in options else 1
    atol = 300 * 2**-24 if "outcome" in options else 2 * strata / DRAWS + 1e-9
    if way == "set":
        np.testing.assert_allclose(got, wanted, rtol=0, atol=atol)
        return
    np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=atol)
    np.testing.assert_allclose(got.std_errors, wanted.std_errors, rtol=0, atol=atol)
    np.testing.assert_allclose(got.base_values, wanted.base_values, rtol=0, atol=atol)
    assert got.stats["model_calls"] < wanted.stats["model_calls"]


@pytest.mark.slow
def test_individuals_and_the_parts_of_a_disparity() -> None:
    for options in ({"quantity": "actual"}, {"quantity": "disparity", "members": MEMBERS}):
        got, wanted = asked(None, "unary", **options), asked("plain", "unary", **options)
        np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=6 / DRAWS)
        np.testing.assert_allclose(got.std_errors, wanted.std_errors, rtol=0, atol=6 / DRAWS)


@pytest.mark.slow
def test_a_player_without_influence_has_none_to_the_bit() -> None:
    def f(X: Any) -> Any:
        p = jax.nn.sigmoid(X @ (WEIGHTS[:, 0] * jnp.asarray([1, 0, 1, 1, 0], "float32")))
        return jnp.stack([1 - p, p], axis=1)

    for way in ("unary", "shapley"):
        found = asked(None, way, f, quantity="rate", outcome="score")
        assert found.values[0, 1] == 0 and found.values[0, 4] == 0 and found.values[0, 0] != 0


@pytest.mark.slow
def test_an_answer_that_is_not_finite_is_told_with_its_row() -> None:
    def f(X: Any) -> Any:
        p = jnp.sqrt(0.5 - X @ WEIGHTS[:, 0])
        return jnp.stack([1 - p, p], axis=1).clip(0, 1)

    rows = data(1, 90)
    rows = rows[rows @ WEIGHTS[:, 0] < 0.4]  # sound on rows, not on all hybrids
    model = xj.as_model(f, output="proba", classes=[0, 1])
    with pytest.raises(xj.ModelOutputError, match="background row"):
        xj.QII(model, rows, quantity="rate", outcome="score", samples=DRAWS).unary()


@pytest.mark.slow
@pytest.mark.parametrize("last", [LogisticRegression(), SVC()], ids=["linear", "machine"])
def test_the_class_of_a_pipeline_has_the_layer_of_its_scores(last: Any) -> None:
    """Scores and class are traced one beside the other: one layer, not two."""
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(0, 4, 200), rng.normal(size=200)], axis=1).astype(np.float32)
    y = (rows[:, 0] == 2) ^ (rows[:, 1] > 0.3)
    encode = ColumnTransformer([("codes", OneHotEncoder(), [0])], remainder="passthrough")
    fitted = make_pipeline(encode, StandardScaler(), last).fit(rows, y)
    got = xj.QII(xj.as_model(fitted), rows[:60], quantity="average").unary()
    wanted = xj.QII(xj.as_model(fitted, structure="plain"), rows[:60], quantity="average").unary()
    np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=1.5 / 60**2)
    assert got.stats["model_rows"] < wanted.stats["model_rows"] / 4


@pytest.mark.parametrize("B", [1, 2, 7, 1000, 19_537])
def test_equal_weights_are_looked_up_where_they_stand(B: int) -> None:
    wheel = sampling.Wheel(np.full(B, 1 / B))
    ends = np.cumsum(np.full(B, 1 / B))
    turns = sampling.fractions(3, (sampling.ROWS,), 5_000) * ends[-1]
    wanted = np.minimum(np.searchsorted(ends, turns, side="right"), B - 1)
    assert np.array_equal(wheel.places(3, (sampling.ROWS,), 0, 5_000), wanted)
