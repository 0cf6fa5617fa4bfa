"""Budgets below which no large pairs are looked for: whoever asks with one is told."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import xaijax as xj
from xaijax.estimators import pairs
from xaijax.estimators.pairs import PairSampler
from xaijax.players.interaction_index import INTERACTIONS

SII = INTERACTIONS["sii"]
P = 30


def f(X):
    return X[:, 0] * X[:, 1] + X.sum(axis=1)


def explainer(**options):
    X = np.ones((3, P))
    model = xj.as_model(f, backend="host")
    return X, xj.Explainer(model, np.zeros((1, P)), estimator="kernel", **options)


@pytest.mark.slow
def test_a_small_budget_is_told_once_with_the_one_that_is_enough():
    X, small = explainer(budget=90)
    with pytest.warns(xj.XaiWarning, match="no pair that is far larger") as told:
        found = small.interactions(X)
    assert len(told) == 1
    text = str(told[0].message)
    assert "3 of 3 instances were asked 90 coalitions of 30 players" in text
    assert "towards 0" in text and "unbiased=True, which needs budget=300" in text
    assert not found.stats["large_pairs_sought"].any()
    assert "too small to look for large pairs, of 3 of 3 instances" in repr(found)
    assert "of 1 of 1 instances" in repr(found[1])
    budget = int(text.split("budget= to about ")[1].split(",")[0])
    assert 100 <= budget <= 160
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = explainer(budget=budget)[1].interactions(X)
    assert found.stats["large_pairs_sought"].all() and "too small" not in repr(found)
    np.testing.assert_allclose(found[:, (0, 1)].values, 1.0, atol=1e-6)


def test_each_instance_is_judged_by_what_it_was_asked():
    """It may have stopped early, or be exact."""
    sought = pairs.looked_for(SII, P, 90, 0, np.array([0, 90, 0]))
    np.testing.assert_array_equal(sought, [True, False, True])
    assert pairs.looked_for(SII, P, 2000, 0, np.array([200, 2000])).all()


@pytest.mark.slow
def test_unbiased_estimates_do_not_hang_on_it():
    X, unbiased = explainer(budget=300)
    assert "large_pairs_sought" not in unbiased.interactions(X, unbiased=True).stats


@pytest.mark.parametrize("index", ["sii", "banzhaf"])
@pytest.mark.parametrize("players", [8, 100, 300])
def test_what_is_not_tried_is_sure(index, players):
    """From `SURELY` on nothing is drawn again to know."""
    own, budget = INTERACTIONS[index], pairs.SURELY[0] * players + pairs.SURELY[1]
    sampler = PairSampler()
    budget = min(budget, (1 << players) - 4)
    units = sampler.units(players, own, budget)
    state, _ = sampler.step(sampler.init(players, own, budget, 0), units)
    assert state.process.tells_apart
