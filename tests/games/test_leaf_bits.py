"""Listed coalitions of trees by bits of their leaves, compared with the library's own answers.

The oracle asks scikit-learn for hybrids that NumPy makes.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import listed
import numpy as np
import pytest
from loops import count_turns
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import xaijax as xj
from xaijax.games import queries
from xaijax.games.strategies import by_parts
from xaijax_kernels import sizes
from xaijax_kernels.structures import listed_means

# A margin of 8 trees is a sum of 8 float32 leaves below 4 in size, and a chance has at most a
# quarter of its slope; the mean over donors carries twice the digits.
CLOSE = {"rtol": 0, "atol": 8 * 4 * 2.0**-24}
ROWS = 300


@pytest.fixture(params=["cpu", "gpu", "tpu"])
def layout(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lists are laid out as on this platform, and run here; of leaves a few at a time."""
    for one in (by_parts, listed_means):
        monkeypatch.setattr(one, "platform_of", lambda mesh: request.param)
    monkeypatch.setattr(sizes, "LEAVES", 8)
    count_turns(request.param == "gpu", monkeypatch)
    return request.param


def table(F: int, gaps: bool) -> np.ndarray:
    """Rows of few values, so that they stand on thresholds; the last two columns are categories."""
    rng = np.random.default_rng(F)
    X = rng.integers(-3, 4, (ROWS, F)).astype(np.float64) / 2
    X[:, -2:] = rng.integers(0, 5, (ROWS, 2))
    if gaps:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X


def classes(X: np.ndarray, K: int) -> np.ndarray:
    Z = np.nan_to_num(X, nan=1.3)
    score = Z[:, 0] * Z[:, 1] + np.sin(3 * Z[:, -3]) + (Z[:, -1] == 2) - 2 * (Z[:, -2] == 1)
    return np.digitize(score, np.quantile(score, np.arange(1, K) / K))


def boosted(X: np.ndarray, K: int, categories: bool) -> Any:
    chosen = [X.shape[1] - 2, X.shape[1] - 1] if categories else None
    made = HistGradientBoostingClassifier(
        max_iter=8, max_leaf_nodes=12, categorical_features=chosen, random_state=0
    )
    return made.fit(X, classes(X, K))


def means(
    predict: Any, X: np.ndarray, donors: np.ndarray, masks: np.ndarray,
    weights: Any = None, groups: Any = None,
) -> np.ndarray:  # fmt: skip
    """sum_b w_b predict(x on S, b elsewhere); float64 [N, C] or [N, C, K]."""
    groups = [[j] for j in range(X.shape[1])] if groups is None else groups
    player = np.argmax([np.isin(np.arange(X.shape[1]), own) for own in groups], axis=0)
    hybrids = np.where(masks[:, player][:, None], X[:, None, None], donors)  # [N, C, B, F]
    answers = np.asarray(predict(hybrids.reshape(-1, X.shape[1])), np.float64)
    w = np.ones(len(donors)) if weights is None else weights
    answers = answers.reshape(*hybrids.shape[:3], *answers.shape[1:])
    return np.tensordot(w / w.sum(), answers, axes=(0, 2))


def by_bits(model: Any, X: np.ndarray, donors: np.ndarray, masks: np.ndarray, **given: Any) -> Any:
    """Their values; raises AssertionError if rows were asked."""
    game = listed.game_of(model, X, donors, **given)
    with mock.patch.object(
        by_parts.ByParts, "of", autospec=True, side_effect=by_parts.ByParts.of
    ) as of:
        found = queries.values(game, masks)
    assert of.called and game.structure == "sum of products"
    return found


@pytest.mark.parametrize(
    ("F", "K", "gaps", "categories"),
    [
        (7, 2, True, True),
        pytest.param(40, 2, False, False, marks=pytest.mark.slow),
        pytest.param(40, 3, True, False, marks=pytest.mark.slow),
        pytest.param(7, 3, False, True, marks=pytest.mark.slow),
    ],
)
def test_chances_of_boosted_trees(
    F: int, K: int, gaps: bool, categories: bool, layout: str
) -> None:
    """Gaps in x, in the donor, in both and in neither; two words of bits; categories."""
    X = table(F, gaps)
    estimator, masks = boosted(X, K, categories), listed.coalitions_of(F, 70)
    weights = np.random.default_rng(0).random(9)
    got = by_bits(xj.as_model(estimator), X[:3], X[40:49], masks, weights=weights)
    wanted = means(estimator.predict_proba, X[:3], X[40:49], masks, weights)
    np.testing.assert_allclose(got, wanted, **CLOSE)


@pytest.mark.slow
def test_labels_of_a_forest_and_players_of_several_columns(layout: str) -> None:
    X = table(9, False)
    y = classes(X, 2)
    forest = RandomForestClassifier(15, max_depth=6, random_state=0).fit(X, y)
    groups = [[0, 8], [1], [2, 4, 6], [3], [5, 7]]
    masks = listed.coalitions_of(5, 12)
    got = by_bits(
        xj.as_model(forest, output="label"), X[:12], X[40:60], masks,
        players={str(g): g for g in groups},
    )  # fmt: skip
    wanted = means(forest.predict, X[:12], X[40:60], masks, groups=groups)
    np.testing.assert_allclose(got[..., 0], wanted, rtol=0, atol=20 * 2.0**-24)


@pytest.mark.slow
def test_one_hot_blocks(layout: str) -> None:
    X = table(6, False)
    fitted = make_pipeline(
        OneHotEncoder(handle_unknown="ignore", sparse_output=False),
        RandomForestClassifier(10, max_depth=5, random_state=0),
    ).fit(X, classes(X, 2))
    masks = listed.coalitions_of(6, 50)
    got = by_bits(xj.as_model(fitted, output="label"), X[:5], X[40:52], masks)
    wanted = means(fitted.predict, X[:5], X[40:52], masks)
    np.testing.assert_allclose(got[..., 0], wanted, rtol=0, atol=12 * 2.0**-24)


@pytest.mark.slow
def test_codes_that_no_training_row_had() -> None:
    """Categories unseen in training, of x and of the donors."""
    X = table(7, False)
    estimator = boosted(X, 2, True)
    rows = X[:30].copy()
    rows[::3, -1], rows[1::3, -2] = 9, np.nan
    masks = listed.coalitions_of(7, 60)
    got = by_bits(xj.as_model(estimator), rows[:6], rows[6:], masks)
    wanted = means(estimator.predict_proba, rows[:6], rows[6:], masks)
    np.testing.assert_allclose(got, wanted, **CLOSE)


@pytest.mark.slow
def test_bits_do_not_depend_on_the_other_instances(layout: str) -> None:
    X = table(7, True)
    model, masks = xj.as_model(boosted(X, 2, True)), listed.coalitions_of(7, 33)
    whole = by_bits(model, X[:37], X[40:60], masks)
    again = by_bits(model, X[:37][::-1], X[40:60], masks)
    alone = by_bits(model, X[5:6], X[40:60], masks)
    assert again[::-1].tobytes() == whole.tobytes()
    assert alone.tobytes() == whole[5:6].tobytes()


@pytest.mark.slow
def test_little_memory_is_asked_by_rows() -> None:
    """Where the bits of the donors do not fit their share."""
    X = table(7, False)
    estimator, masks = boosted(X, 2, False), listed.coalitions_of(7, 40)
    game = listed.game_of(xj.as_model(estimator), X[:3], X[40:60])
    with mock.patch.object(by_parts, "_bits", lambda engine: 1 << 50):
        got = queries.values(game, masks)
    assert game.structure is None
    wanted = means(estimator.predict_proba, X[:3], X[40:60], masks)
    np.testing.assert_allclose(got, wanted, **CLOSE)


@pytest.mark.slow
def test_exact_values_with_categories() -> None:
    """Sub-coalitions of pairs, of leaves that are bounds and codes."""
    X = table(6, True)
    estimator = boosted(X, 2, True)
    got = xj.Explainer(xj.as_model(estimator), X[40:52])(X[:4])
    assert got.exact and got.stats["structure"] == "sum of products"
    host = xj.as_model(estimator, backend="host")
    wanted = xj.Explainer(host, X[40:52])(X[:4])
    np.testing.assert_allclose(got.values, wanted.values, **CLOSE)
