"""Few coalitions by a structure: instances crossed with distinct donors, against whole rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

import xaijax as xj
from xaijax.games import certify as ends
from xaijax.games.engine import player_values

P = 5
WEIGHTS = np.random.default_rng(0).normal(size=(P, 3)).astype(np.float32)


def data(seed: int, N: int) -> np.ndarray:
    # Multiples of a quarter: donors agree often, and sums of three terms are exact.
    return np.random.default_rng(seed).integers(-4, 5, (N, P)).astype(np.float32) / 4


ROWS = data(0, 300)
CLASS = (np.sin(3 * ROWS[:, 0]) + ROWS[:, 1] * ROWS[:, 2] > 0).astype(int)


def network(X: Any) -> Any:
    return jax.nn.softmax(jnp.tanh(X @ WEIGHTS) @ WEIGHTS[:3, :2])


MODELS: dict[str, Any] = {
    "network": lambda how: xj.as_model(network, output="proba", classes=[0, 1], structure=how),
    "machine": lambda how: xj.as_model(
        SVC(gamma=0.4).fit(ROWS, CLASS), output="label", structure=how
    ),
    "forest": lambda how: xj.as_model(
        RandomForestClassifier(9, max_depth=4, random_state=0).fit(ROWS, CLASS), structure=how
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize(
    "options",
    [
        {"quantity": "average"},
        {"quantity": "actual"},
        {"quantity": "rate"},
        {"quantity": "disparity", "members": np.arange(90) < 30},
        {"quantity": "rate", "outcome": "score"},
    ],
    ids=lambda options: "-".join(map(str, list(options.values())[:1] + list(options)[1:])),
)
def test_unary_influences_are_those_of_whole_rows(name: str, options: dict[str, Any]) -> None:
    if name == "machine" and "outcome" in options:
        pytest.skip("labels have no score")
    rows, given = data(1, 90), dict(options)
    got = xj.QII(MODELS[name](None), rows, **given).unary()
    wanted = xj.QII(MODELS[name]("plain"), rows, **given).unary()
    # Labels may turn where a score is within rounding of its threshold: one of 90 x 90 pairs.
    atol = 300 * 2**-24 if "outcome" in options else 1.5 / 90**2
    np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=atol)


@pytest.mark.slow
def test_a_column_without_influence_has_none_to_the_bit() -> None:
    def f(X: Any) -> Any:
        return jax.nn.sigmoid(X @ (WEIGHTS[:, 0] * jnp.asarray([1, 0, 1, 1, 0], "float32")))

    model = xj.as_model(f, output="proba", classes=[0, 1])
    rows = np.random.default_rng(3).normal(size=(300, P)).astype(np.float32)
    unary = xj.QII(model, rows, quantity="rate", outcome="score").unary()
    assert unary.values[0, 1] == 0 and unary.values[0, 4] == 0 and unary.values[0, 0] != 0


@pytest.mark.slow
@pytest.mark.parametrize("N", [7, 300])  # calls beside each other; the last one is filled up
def test_a_column_that_no_tree_reads_has_no_influence_to_the_bit(N: int) -> None:
    read = ROWS.copy()
    read[:, 2] = 0
    forest = RandomForestClassifier(9, max_depth=4, random_state=0).fit(read, CLASS)
    rows = np.random.default_rng(3).normal(size=(300, P)).astype(np.float32)
    qii = xj.QII(xj.as_model(forest), rows, quantity="individual", outcome="proba")
    unary = qii.unary(rows[:N])
    np.testing.assert_array_equal(unary.values[:, 2], 0)
    assert (unary.values[:, 0] != 0).any()
    assert unary.stats["structure"] == "sum of products"


@pytest.mark.slow
def test_less_memory_asks_the_same() -> None:
    rows = np.random.default_rng(0).normal(size=(2000, 10)).astype(np.float32)
    machine = SVC().fit(rows[:40], np.arange(40) % 5)  # several sums, of all vectors
    model = xj.as_model(machine, output="label")
    found = [
        xj.QII(model, rows, quantity="average", max_memory=memory).unary().values
        for memory in (2**33, 90 * 2**20)
    ]
    # Labels may turn where two scores are within rounding: one pair of 2000 x 2000.
    np.testing.assert_allclose(*found, rtol=0, atol=1.5 / 2000**2)


@pytest.mark.slow
def test_rows_themselves_are_answered_once_and_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, whole = [], player_values.whole

    def counted(*arguments: Any) -> Any:
        asked.append(len(arguments[2]))
        return whole(*arguments)

    monkeypatch.setattr(ends, "whole", counted)
    rows = data(1, 300)
    model = MODELS["network"](None)

    def found(pool: np.ndarray, quantity: Any = "average") -> xj.Explanation:
        asked.clear()
        return xj.QII(model, rows, pool=pool, quantity=quantity).unary()

    found(rows)
    assert asked == [300]  # of the rows, which are the pool
    pool = data(2, 40)
    found(pool)
    assert sorted(asked) == [40, 300]
    monkeypatch.setattr(player_values, "TOGETHER", 128)
    rate = found(pool, "rate")
    # Shares of 300 and of 40 labels, added up in float64.
    np.testing.assert_allclose(rate.stats["quantity"], model.labels(rows).mean(), rtol=1e-12)
    np.testing.assert_allclose(rate.base_values, model.labels(pool).mean(), rtol=1e-12)


@pytest.mark.slow
def test_an_answer_that_is_not_finite_is_told_with_its_row() -> None:
    def f(X: Any) -> Any:
        p = jnp.sqrt(0.5 - X @ WEIGHTS[:, 0])
        return jnp.stack([1 - p, p], axis=1).clip(0, 1)

    rows = data(1, 40)
    rows = rows[rows @ WEIGHTS[:, 0] < 0.4]  # sound on rows, not on all hybrids
    model = xj.as_model(f, output="proba", classes=[0, 1])
    with pytest.raises(xj.ModelOutputError, match="background row"):
        xj.QII(model, rows, quantity="rate", outcome="score").unary()
