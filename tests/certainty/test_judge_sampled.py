"""`judge` against a sampled truth: its own variance is taken off, and its draws are its own."""

from __future__ import annotations

import numpy as np
import pytest
from sampled_games import members, random_table, truth

import xaijax as xj

P, RUNS = 8, 250
TABLE = random_table(P)


def f(rows):
    """A game in which every set of columns is a set of players: 1 kept, 0 replaced."""
    place = np.asarray(rows, int) @ (1 << np.arange(P))
    return TABLE[place]


X = np.ones((1, P))
EXPLAINER = xj.Explainer(xj.as_model(f, backend="host"), np.zeros((1, P)))
TRUE = truth(TABLE, "shapley")
VALUES = (TRUE + 0.1 * np.random.default_rng(1).normal(size=P))[None]
BUDGET = 8 * 2 * (P - 1)  # one pair of orders for each of the eight runs


def test_the_game_is_the_table():
    np.testing.assert_array_equal(f(members(P)), TABLE)
    np.testing.assert_allclose(EXPLAINER(X).values[0], TRUE, atol=1e-12)


def estimates(subtracted):
    """[RUNS] estimates of |phi^ - phi|^2."""
    found = []
    for seed in range(RUNS):
        judged = xj.judge(VALUES, EXPLAINER, X, budget=BUDGET, seed=8 * seed)
        assert not judged.truth.exact
        off = VALUES - judged.truth.values
        errors = judged.truth.std_errors
        assert errors is not None
        found.append((off**2).sum() - subtracted * (errors**2).sum())
        if subtracted:
            assert judged.row_errors[0, 0] == pytest.approx(np.sqrt(max(0, found[-1])))
            size = (judged.truth.values**2).sum() - (errors**2).sum()
            if size > 0:  # few draws may leave nothing of it
                assert judged.pooled_error == pytest.approx(found[-1] / size)
    return np.array(found)


@pytest.mark.slow
def test_the_truths_own_variance_is_taken_off():
    """Unbiased: the mean of 250 estimates is within 6 of its standard errors of the exact one.

    By a t of 249 degrees of freedom: false alarms below 1e-8 a run. The broken variant, which keeps
    the sample's own variance, is off by more than 10 of them.
    """
    exact = ((VALUES[0] - TRUE) ** 2).sum()
    right, broken = estimates(1), estimates(0)
    z = [(found.mean() - exact) / (found.std(ddof=1) / np.sqrt(RUNS)) for found in (right, broken)]
    assert abs(z[0]) < 6 and z[1] > 10, z


def test_a_truth_does_not_share_the_draws_of_what_it_judges():
    """By the same seed their errors would go together."""
    options = {"estimator": "permutation", "budget": BUDGET}
    drawn = [
        xj.Explainer(EXPLAINER.model, np.zeros((1, P)), seed=seed, **options)(X) for seed in (0, 8)
    ]
    judged = xj.judge(dict(zip("ab", drawn, strict=True)), EXPLAINER, X, budget=BUDGET)
    assert judged["a"].truth.stats["seed"] == 9
    with pytest.raises(xj.InputError, match="would use seed 8"):
        xj.judge(drawn[1], EXPLAINER, X, budget=BUDGET, seed=2)
    with pytest.raises(xj.InputError, match="Say budget=112"):
        xj.judge(drawn[1], EXPLAINER, X, budget=BUDGET - 1)


def test_the_truth_is_exact_where_it_fits():
    sampled = xj.Explainer(EXPLAINER.model, np.zeros((1, P)), estimator="permutation", budget=28)
    judged = xj.judge(sampled(X), sampled, X)
    assert judged.truth.exact and judged.row_errors[0, 0] == pytest.approx(
        np.sqrt(((sampled(X).values[0] - TRUE) ** 2).sum())
    )
