"""Pairs far larger than the others: seen, measured by themselves, and none where none is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from xaijax.estimators import pairs
from xaijax.estimators.process import choice
from xaijax.estimators.process.choice import choose
from xaijax.estimators.process.posterior import interactions
from xaijax.estimators.process.turned import Process
from xaijax.players.interaction_index import INTERACTIONS

SII = INTERACTIONS["sii"]


def game(P: int, large: dict[tuple[int, int], float], others: float, seed: int = 0):
    """(v of masks [C, P], its pairs [P (P - 1) / 2]): pairs and single players alone, so that the
    interaction of a pair is its weight.
    """
    rng = np.random.default_rng(seed)
    weights = np.triu(others * rng.normal(size=(P, P)), 1)
    for pair, weight in large.items():
        weights[pair] = weight
    alone = rng.normal(size=P)

    def v(masks: np.ndarray) -> np.ndarray:
        m = masks.astype(float)
        return m @ alone + ((m @ weights) * m).sum(axis=1)

    return v, weights[np.triu_indices(P, 1)]


def estimate(games, P: int, budget: int):
    """Of several games, each an instance."""
    state, new = pairs.step(pairs.init(P, SII, budget, 0), pairs.units(P, SII, budget))
    ends = np.array([[False] * P, [True] * P])
    values = np.stack([v(np.concatenate([ends, new])) for v, _ in games])[..., None]
    return pairs.result(state, values[:, 2:], values[:, 0], values[:, 1])


@pytest.mark.parametrize(("P", "budget"), [(30, 300), (100, 2248)])
def test_a_lone_pair_is_found_among_many(P, budget):
    """Of x0 x1 and a sum, by fewer pairs of coalitions than there are pairs of players. With one
    scale for all pairs it is drawn to 0.2 at P = 100, and its interval ends at 0.25.
    """
    lone = game(P, {(0, 1): 1.0}, 0.0)
    found = estimate([lone], P, budget)
    # The answers are P numbers of size 1, added in float64; white space multiplies by 1e4.5.
    np.testing.assert_allclose(found.values[0, P:, 0], lone[1], rtol=0, atol=1e-8)
    assert (found.std_errors[0, P:] < 1e-8).all()


def test_large_pairs_among_small_ones_are_inside_their_intervals():
    """Three pairs of size 1 among 435 of size 0.01, by 150 pairs of coalitions.

    Of 20 games the error of a large pair, in units of its own: beyond 7 with 60 * 1e-11.
    """
    large = {(0, 1): 1.0, (5, 9): -1.0, (5, 20): 1.0}
    games = [game(30, large, 0.01, seed) for seed in range(20)]
    found = estimate(games, 30, 300)
    truth = np.stack([pairs for _, pairs in games])
    off = np.abs(found.values[:, 30:, 0] - truth) / found.std_errors[:, 30:, 0]
    of_large = np.abs(truth) > 0.5
    assert off[of_large].max() < 7
    # The others are as the process says: 432 intervals of 95 % in each of 20 games. Were those of a
    # game held as often as .95 +- .05 from game to game, their mean was below .88 with chance 1e-9;
    # errors of half the size hold .67.
    assert (off[~of_large] < 1.96).mean() > 0.88
    assert (off[~of_large] < 0.98).mean() < 0.88
    sure = found.std_errors[:, 30:, 0][of_large]
    assert sure.max() < 0.05  # of a size of 1


def test_an_answer_is_the_same_whoever_is_beside_it():
    """Of answers with none, one, three and forty large pairs."""
    rng = np.random.default_rng(1)
    many = {(i, j): rng.normal() for i, j in itertools.combinations(range(10), 2)}
    few = {(0, 1): 1.0, (5, 9): -1.0, (5, 20): 1.0}
    games = [game(30, large, 0.01) for large in ({}, {(0, 1): 1.0}, few, many)]
    together = estimate(games, 30, 400)
    for n, one in enumerate(games):
        alone = estimate([one], 30, 400)
        np.testing.assert_array_equal(together.values[n], alone.values[0])
        np.testing.assert_array_equal(together.std_errors[n], alone.std_errors[0])


def drawn(rho: float, games: int, D: int = 100, P: int = 11) -> tuple[Process, np.ndarray]:
    """Answers that follow the process: each coefficient drawn, none large."""
    rng = np.random.default_rng(2)
    signs = np.where(rng.random((D, P)) < 0.5, -1.0, 1.0)
    sets = [R for r in range(2, P + 1, 2) for R in itertools.combinations(range(P), r)]
    products = np.stack([signs[:, R].prod(axis=1) for R in sets])
    sizes = rho ** (np.array([len(R) for R in sets]) / 2)
    return Process(signs, True), 3.0 + rng.normal(size=(games, len(sets))) * sizes @ products


@pytest.mark.parametrize("rho", [0.03, 0.3])
def test_none_is_found_where_none_is(rho, monkeypatch):
    """With chance .05 a game, or less: 17 or more of 60 with 4e-9."""
    process, y = drawn(rho, 60)
    with_some = (choose(process, y).pairs >= 0).any(axis=1)
    assert with_some.sum() < 17
    monkeypatch.setattr(choice, "BY_CHANCE", 1.0)  # a bound of any one pair's: scores above 2
    assert (choose(process, y).pairs >= 0).any(axis=1).sum() >= 17


def test_columns_turned_once_are_those_turned_each_time():
    """Of many answers all pairs' columns are kept; where they are too large, none."""
    process, y = drawn(0.1, 3)
    y[1] += 9 * process.signs[:, 2] * process.signs[:, 3]
    again, _ = drawn(0.1, 0)
    again._keeps = False
    kept, anew = choose(process, y), choose(again, y)
    np.testing.assert_array_equal(kept.rates, anew.rates)
    np.testing.assert_array_equal(kept.pairs, anew.pairs)
    assert (kept.pairs[1] >= 0).any()
    for one, other in zip(
        interactions(process, y, kept), interactions(again, y, anew), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_pairs_that_few_coalitions_do_not_tell_apart_share_what_they_have():
    """Of 40 coalitions in which players 0 and 2 are always together: two pairs with one column."""
    rng = np.random.default_rng(3)
    signs = np.where(rng.random((40, 8)) < 0.5, -1.0, 1.0)
    signs[:, 2] = signs[:, 0]
    process, y = Process(signs, True), (signs[:, 0] * signs[:, 1])[None]
    found = interactions(process, y, choose(process, y))
    place = {tuple(pair): 8 + m for m, pair in enumerate(process.pairs.tolist())}
    both = found.means[0, [place[0, 1], place[1, 2]]]
    np.testing.assert_allclose(both, 2.0, atol=1e-3)  # of 4, which z0 z1 alone would have
    assert np.isfinite(found.deviations).all()


@pytest.mark.parametrize("budget", [66, 80, 120])
def test_two_pairs_are_not_taken_for_two_others(budget):
    """Of few coalitions z0 z1 + z2 z3 is z0 z3 + z1 z2 in all that were drawn: then flat priors
    would give either, or half of each, and be sure. None is given, and all can be solved.
    """
    large = {(0, 1): 1.0, (2, 3): 1.0, (4, 5): -1.0}
    for seed in range(20):
        v, truth = game(22, large, 0.0)
        state = pairs.init(22, SII, budget, seed)
        state, new = pairs.step(state, pairs.units(22, SII, budget))
        ends = np.array([[False] * 22, [True] * 22])
        values = v(np.concatenate([ends, new]))[None, :, None]
        found = pairs.result(state, values[:, 2:], values[:, 0], values[:, 1])
        off = np.abs(found.values[0, 22:, 0] - truth)
        assert np.isfinite(found.std_errors[:, 22:]).all() and off.max() < 1.1


def test_columns_that_hold_each_other_are_not_taken_together():
    """z0 z1 + z2 z3 - z0 z3 = z1 z2 in all of 120 coalitions, as z0 = z2 or z1 = z3 there; answers
    of all four alike. Together their products have no inverse.
    """
    rng = np.random.default_rng(4)
    signs = np.where(rng.random((120, 9)) < 0.5, -1.0, 1.0)
    same = rng.random(120) < 0.5
    signs[same, 2], signs[~same, 3] = signs[same, 0], signs[~same, 1]
    process = Process(signs, True)
    assert process.tells_apart  # by sizes alone
    four = [(0, 1), (2, 3), (0, 3), (1, 2)]
    y = sum(signs[:, i] * signs[:, j] for i, j in four)[None] * np.array([[1.0], [1.0]])
    chosen = choose(process, y)
    found = interactions(process, y, chosen)
    taken = process.pairs[chosen.pairs[0][chosen.pairs[0] >= 0]]
    assert 0 < len(taken) <= 3
    assert np.isfinite(found.means).all() and np.abs(found.means[0, 9:]).max() < 20
    np.testing.assert_array_equal(found.means[0], found.means[1])


@pytest.mark.parametrize(("P", "budget"), [(8, 250), (10, 1000), (12, 2500)])
@pytest.mark.parametrize("index", ["sii", "banzhaf"])
def test_nearly_all_coalitions_of_a_game_of_pairs(P, budget, index):
    """The covariance of all coalitions has far fewer directions than rows at a small rate."""
    v, truth = game(P, {(0, 1): 1.0}, 0.1)
    own = INTERACTIONS[index]
    state, new = pairs.step(pairs.init(P, own, budget, 0), pairs.units(P, own, budget))
    ends = np.array([[False] * P, [True] * P])
    values = v(np.concatenate([ends, new]))[None, :, None]
    found = pairs.result(state, values[:, 2:], values[:, 0], values[:, 1])
    # Jitter lets 1e-9 of the variance go, 3e-5 of a size of 1.
    np.testing.assert_allclose(found.values[0, P:, 0], truth, rtol=0, atol=1e-4)
