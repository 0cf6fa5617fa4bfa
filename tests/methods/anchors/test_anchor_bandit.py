"""Identification and validation on arms whose means are known."""

from __future__ import annotations

import numpy as np
import pytest

from xaijax_kernels.rules.bandits import (
    Arms,
    KlLucb,
    Rejects,
    Validation,
    top_arms,
    validation_rate,
)

REPLAYS = 10_000
# P(Binomial(10,000, 0.1) > 1,150) < 4e-7 (normal tail at 5.0 standard deviations of 30, one-sided).
MOST_FAILURES = 1_150


def play(identify, means, wanted, replays=REPLAYS, seed=0):
    """The best arms bool [N, A] and the draws of each arm; all replays in lockstep."""
    rng = np.random.default_rng(seed)
    arms = Arms.new(np.ones((replays, len(means)), bool))
    state, best = identify.init(arms.valid), np.zeros(arms.valid.shape, bool)
    left = np.arange(replays)
    while len(left):
        state[left], draws, best[left] = identify.step(state[left], arms.take(left), wanted)
        arms.hits[left] += rng.binomial(draws, means)
        arms.draws[left] += draws
        left = left[draws.any(axis=1)]
    return best, arms.draws


MEANS = np.array([0.9, 0.72, 0.7, 0.7, 0.5])


def failures(best, means, wanted, epsilon):
    """Replays in which a chosen arm is more than epsilon below the last of the best."""
    worst = np.sort(means)[-wanted]
    return int((best & (means < worst - epsilon)).any(axis=1).sum())


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [1, 2])
def test_kl_lucb_keeps_its_promise(wanted):
    """Within epsilon of the best with chance 1 - delta. False alarm at most 4e-7.

    Broken: a search that stops after the first pull of each arm (below) fails far more often.
    """
    best, draws = play(KlLucb(0.1, 0.1, 50, 5), MEANS, wanted)
    assert (best.sum(axis=1) == wanted).all()
    assert failures(best, MEANS, wanted, 0.1) <= MOST_FAILURES
    # What is clearly out of it is not asked much: the point of a bandit.
    assert draws[:, 4].mean() < draws[:, :2].mean() / 2


def test_a_search_that_stops_at_once_breaks_the_promise():
    best, _ = play(KlLucb(1.0, 0.1, 50, 5), MEANS, 1)
    assert failures(best, MEANS, 1, 0.1) > MOST_FAILURES


def test_uncontested_arms_are_not_drawn():
    best, draws = play(KlLucb(0.1, 0.1, 50, 5), MEANS[:2], 2, replays=3)
    assert best.all() and not draws.any()


def test_top_arms_are_those_of_a_stable_sort():
    means = np.array([[0.5, 0.9, 0.5, 0.9], [0.1, 0.1, 0.1, 0.1]])
    found = top_arms(means, np.array([3, 1]))
    assert found.tolist() == [[False, True, True, True], [False, False, False, True]]


def test_a_bandit_does_not_see_its_neighbours():
    rng = np.random.default_rng(1)
    hits, draws = rng.integers(0, 50, (6, 8)), np.full((6, 8), 50)
    arms = Arms(rng.random((6, 8)) < 0.8, hits, draws)
    for identify in (KlLucb(0.05, 0.1, 20, 5), Rejects(40)):
        state = identify.init(arms.valid)
        state, wants, best = identify.step(state, arms, 3)
        for n in range(6):
            one = arms.take(np.array([n]))
            own, alone, chosen = identify.step(identify.init(one.valid), one, 3)
            np.testing.assert_array_equal(own[0], state[n])
            np.testing.assert_array_equal(alone[0], wants[n])
            np.testing.assert_array_equal(chosen[0], best[n])


@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_successive_rejects_keep_the_budget_and_find_the_best(wanted):
    """Arms far apart at 200 draws each: Hoeffding's bound on a wrong order is 2 exp(-2 100 0.04).

    That is 7e-4 a comparison; 2,000 replays with more than 5 % of failures have chance 1e-60.
    Broken: rejecting the best arm instead of the worst fails always.
    """
    means = np.array([0.95, 0.7, 0.45, 0.2, 0.05])
    best, draws = play(Rejects(200), means, wanted, replays=2_000)
    assert (best.sum(axis=1) == wanted).all()
    assert (best[:, :wanted].all(axis=1)).mean() > 0.95
    # The budget, and a draw an arm that rounding up may add in each phase.
    assert draws.sum(axis=1).max() <= 200 * 5 + 25


def test_validation_keeps_its_promise():
    """Rules of precision tau - stop are accepted with chance delta at most. False alarm 4e-7.

    Broken: accepting by the mean alone (stop_epsilon of 1) accepts more.
    """
    rng = np.random.default_rng(2)

    def accepted(validate):
        arms = Arms.new(np.ones((REPLAYS, 1), bool))
        left, holds = np.arange(REPLAYS), np.zeros(REPLAYS, bool)
        while len(left):
            rate = np.full(len(left), validation_rate(1, 12, 0.1))
            draws, yes, _ = validate.step(arms.take(left), rate)
            holds[left] = yes[:, 0]
            arms.hits[left] += rng.binomial(draws, 0.85)
            arms.draws[left] += draws
            left = left[draws.any(axis=1)]
        return int(holds.sum())

    assert accepted(Validation(0.9, 0.05, 20)) <= MOST_FAILURES
    assert accepted(Validation(0.9, 0.999, 20)) > 1.5 * MOST_FAILURES


@pytest.mark.parametrize(
    ("hits", "draws", "accepted"),
    [(101, 101, True), (100, 101, True), (99, 101, True), (95, 101, False), (29, 29, True)],
)
def test_the_empty_rule_is_validated_like_any_other(hits, draws, accepted):
    """tau = .95, delta = .1: 99 of 101 have a lower bound of .9349 > .90, which must do."""
    arms = Arms(np.ones((1, 1), bool), np.array([[hits]]), np.array([[draws]]))
    wants, yes, floor = Validation(0.95, 0.05, 100).step(arms, np.array([np.log(10)]))
    assert yes[0, 0] == accepted and (not accepted or wants[0, 0] == 0)
    if (hits, draws) == (99, 101):
        assert abs(floor[0, 0] - 0.9349) < 5e-5


def test_all_successes_are_accepted_when_the_rate_says_so():
    """n > beta / -ln(tau - stop): 29 for tau = .95, delta = .05, a beam of 1."""
    for n, enough in ((28, False), (29, True)):
        arms = Arms(np.ones((1, 1), bool), np.array([[n]]), np.array([[n]]))
        _, yes, _ = Validation(0.95, 0.05, 10).step(arms, np.array([np.log(1 / 0.05)]))
        assert yes[0, 0] == enough


def test_one_failure_rejects_at_a_threshold_of_one():
    arms = Arms(np.ones((1, 1), bool), np.array([[99]]), np.array([[100]]))
    wants, yes, _ = Validation(1.0, 0.05, 10).step(arms, np.array([2.3]))
    assert not yes.any() and not wants.any()


def test_padding_is_never_among_the_best():
    """As many arms as places: all are the answer, wherever they stand."""
    valid = np.array([[True, False, True, False, False]])
    for identify in (KlLucb(0.1, 0.1, 50, 5), Rejects(40)):
        _, draws, best = identify.step(identify.init(valid), Arms.new(valid), 2)
        np.testing.assert_array_equal(best, valid)
        assert not draws.any()
