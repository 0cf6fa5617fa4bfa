"""Players that are the same in every donor: their sampled values are 0, and known to be."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj
from xaijax.estimators.permutation import _borrowed

RNG = np.random.default_rng(12)
P, STILL = 16, (3, 11)
WEIGHTS = RNG.normal(size=(P, 5)).astype("f4")
DONORS = RNG.normal(size=(3, P)).astype("f4")
X = RNG.normal(size=(4, P)).astype("f4")
DONORS[:, STILL] = DONORS[0, STILL]
X[:3, STILL] = DONORS[0, STILL]  # the last row differs there too
X[1, 5] = DONORS[1, 5]  # as in one donor only: it plays


def answer(z):
    return np.tanh(z @ WEIGHTS).prod(axis=1)


@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_a_player_that_changes_nothing_has_no_error(index):
    """Errors are drawn towards their mean over players; a value that is known borrows nothing."""
    model = xj.as_model(answer, backend="host")
    options = {"estimator": "permutation", "index": index, "budget": 400}
    found = xj.Explainer(model, DONORS, **options)(X)
    still = np.zeros(X.shape, bool)
    still[:3, STILL] = True
    assert (found.values[still] == 0).all() and (found.std_errors[still] == 0).all()
    assert (found.std_errors[~still] > 0).all()


def test_the_errors_of_the_others_are_those_of_a_game_without_such_players():
    """By definition: the same pairs of estimates with and without columns of zeros."""
    D, N, K = 9, 2, 2
    each = RNG.normal(size=(N, D, 5, K)) * np.array([3.0, 1, 1, 0.2, 0.1])[:, None]
    squares = (each - each.mean(axis=1, keepdims=True)) ** 2
    second, fourth = squares.sum(axis=1), (squares**2).sum(axis=1)
    alone = _borrowed(second, fourth, D, np.ones((N, 5), bool))
    none = np.zeros((N, 2, K))
    moves = np.array([[True] * 5 + [False] * 2] * N)
    with_still = _borrowed(
        np.concatenate([second, none], axis=1), np.concatenate([fourth, none], axis=1), D, moves
    )
    np.testing.assert_array_equal(with_still[0][:, :5], alone[0])
    np.testing.assert_array_equal(with_still[0][:, 5:], 0)
    np.testing.assert_array_equal(with_still[1], alone[1])


def test_an_instance_that_is_its_only_donor():
    """No player changes anything, so all is 0 and known."""
    model = xj.as_model(answer, backend="host")
    explainer = xj.Explainer(model, DONORS[:1], estimator="permutation", budget=200)
    found = explainer(np.concatenate([DONORS[:1], X[3:]]))
    assert (found.values[0] == 0).all() and (found.std_errors[0] == 0).all()
    assert (found.std_errors[1] > 0).all()
