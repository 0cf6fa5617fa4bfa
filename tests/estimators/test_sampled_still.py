"""Players that are the same in every donor: their sampled values are 0, and known to be."""

from __future__ import annotations

import numpy as np
import pytest
from sampled_games import with_ends

import xaijax as xj
from xaijax.estimators.driver import METHODS
from xaijax.estimators.permutation import _borrowed
from xaijax.players.index import named

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


@pytest.mark.parametrize(
    "estimator, index",
    [("permutation", "shapley"), ("kernel", "shapley"), ("kernel", "banzhaf")],
)
def test_a_player_that_changes_nothing_has_no_error(estimator, index):
    """By orders, errors are drawn towards their mean over players; what is known borrows nothing.
    By regression, values depend on each other; what is known is not fitted.
    """
    model = xj.as_model(answer, backend="host")
    options = {"estimator": estimator, "index": index, "budget": 400}
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


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_an_instance_that_is_its_only_donor(estimator):
    """No player changes anything, so all is 0 and known."""
    model = xj.as_model(answer, backend="host")
    explainer = xj.Explainer(model, DONORS[:1], estimator=estimator, budget=200)
    found = explainer(np.concatenate([DONORS[:1], X[3:]]))
    assert (found.values[0] == 0).all() and (found.std_errors[0] == 0).all()
    assert (found.std_errors[1] > 0).all()


def least_squares(sets, y, weight, null, span):
    """min sum w (y - z phi)^2 with phi = 0 for null and, of Shapley values (span), sum phi = span:
    the normal equations with multipliers.
    """
    z = np.where(sets, 1.0, -1.0)
    n = z.shape[1]
    rules = [np.eye(n)[i] for i in null] + ([np.ones(n)] if span is not None else [])
    rules, sides = np.array(rules), np.array([0.0] * len(null) + ([span] if span else []))
    m = len(rules)
    system = np.block([[2 * (z.T * weight) @ z, rules.T], [rules, np.zeros((m, m))]])
    right = np.concatenate([2 * (z.T * weight) @ y, sides])
    return np.linalg.lstsq(system, right, rcond=None)[0][:n]


@pytest.mark.parametrize("null", [(0,), (1, 4), (0, 2, 3, 5), (0, 1, 2, 3, 4)])
def test_the_fit_without_null_players_is_the_fit_with_their_values_held_at_zero(null):
    """P = 6, 12 pairs: fewer than P + 20, so that no columns of sizes are fitted beside."""
    rng, n, index = np.random.default_rng(3), 6, named("shapley")
    kernel = METHODS["kernel"]
    state, masks = kernel.step(kernel.init(n, index, 30, 5), 15)
    values = rng.normal(size=(2, len(masks), 1))
    ends = rng.normal(size=(2, 2, 1))
    moves = np.ones((2, n), bool)
    moves[0, list(null)] = False
    got = kernel.result(state, with_ends(values, ends[0], ends[1]), moves)
    drawn = {s: int((state.sizes == s).sum()) for s in (1, 2, 3)}
    assert min(drawn.values()) > 0
    # Of the kernel's mass, size 1: 1 / 5, 2: 1 / 8, 3: half of 1 / 9 (its pairs have two of it).
    mass = {1: 1 / 5, 2: 1 / 8, 3: 0.5 / 9}
    weight = np.array([mass[s] / drawn[s] for s in state.sizes.tolist()])
    for row, held in ((0, null), (1, ())):
        y = values[row, 0::2, 0] - values[row, 1::2, 0]
        span = float(ends[1, row, 0] - ends[0, row, 0])
        expected = least_squares(state.sets, y, weight, held, span)
        # Equations of some 10 unknowns with condition below 1e3, in float64: 1e-12 with room.
        np.testing.assert_allclose(got.values[row, :, 0], expected, rtol=0, atol=1e-11)
        assert (got.values[row, list(held)] == 0).all()
    alone = kernel.result(state, with_ends(values[1:], ends[0, 1:], ends[1, 1:]))
    np.testing.assert_array_equal(got.values[1:], alone.values)


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_a_model_that_rounds_equal_rows_in_two_ways_adds_up(estimator):
    """As convolutions do, by a row's place in a batch; what still players had of it is not lost."""

    def rounded(z):
        return answer(z) + 1e-7 * (np.arange(len(z)) % 3)

    model = xj.as_model(rounded, backend="host")
    rows = np.concatenate([X, DONORS[:1]])
    found = xj.Explainer(model, DONORS, estimator=estimator, budget=400)(rows)
    total = found.base_values + found.values.sum(axis=1)
    assert (found.values[:3][:, STILL] == 0).all()
    # 16 float64 values of size 1 and below, beside a model whose answers are off by 2e-7.
    assert (found.stats["efficiency_residual"] <= 1e-12).all()
    np.testing.assert_allclose(total, answer(rows), rtol=0, atol=1e-6)
    alone = xj.Explainer(model, DONORS[:1], estimator=estimator, budget=400)(DONORS[:1])
    assert (alone.values == 0).all() and (alone.stats["efficiency_residual"] == 0).all()
