"""Pairs without bias: the mean over seeds is the interaction, and its errors are what they say."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import sampled_games as games

import xaijax as xj
from xaijax.estimators.pairs import PairSampler, UnbiasedPairSampler
from xaijax.players.interaction_index import INTERACTIONS, derivative_weights
from xaijax_kernels.games.semivalues import of_tables

SII, K_SII = INTERACTIONS["sii"], INTERACTIONS["k-sii"]
P = 8
UNBIASED = UnbiasedPairSampler()
TABLE = games.random_table(P)


def truth(table: np.ndarray, index) -> np.ndarray:
    """By full tables, which `tests/kernels` holds against the definitions."""
    return of_tables(table[None, :, None], derivative_weights(index, 2, P))[0, :, 0]


def estimate(table: np.ndarray, index, budget: int, seed: int, method=UNBIASED):
    state, new = method.step(method.init(P, index, budget, seed), method.units(P, index, budget))
    values = games.answers(table[None], new)
    found = method.result(state, games.with_ends(values, table[None, :1], table[None, -1:]))
    return found.values[0, :, 0], found.std_errors[0, :, 0]


@functools.cache
def drawn(method, seeds: int = 150, budget: int = 120):
    """(errors, standard errors) of all pairs, [seeds, pairs]."""
    off = truth(TABLE, SII)[P:]
    found = [estimate(TABLE, SII, budget, seed, method) for seed in range(seeds)]
    return np.stack([v[P:] - off for v, _ in found]), np.stack([e[P:] for _, e in found])


@pytest.mark.slow
def test_the_mean_over_seeds_is_the_interaction():
    """Of 150 seeds and 28 pairs of a game of all orders, the largest mean error in units of its own
    error: by chance beyond 6 with 28 * 1.5e-8 (t of 149 degrees), 4e-7 a run. The process alone,
    which is drawn towards 0, is past 15 there.
    """
    for method, biased in ((UNBIASED, False), (PairSampler(), True)):
        errors, _ = drawn(method)
        z = np.abs(errors.mean(axis=0)) / (errors.std(axis=0, ddof=1) / math.sqrt(len(errors)))
        assert (z.max() > 6) == biased, z.max()


@pytest.mark.slow
def test_standard_errors_are_the_deviations_over_seeds():
    """The mean over pairs of squares told less squares seen, of each of 150 seeds: 0 in the mean,
    in units of its own error; by chance beyond 6 with 1.5e-8. Without the correction for halves
    that are both known it is beyond (the squares told are then 0.76 of those seen).
    """
    errors, told = drawn(UNBIASED)
    more = (told**2 - errors**2).mean(axis=1)
    assert abs(more.mean()) / (more.std(ddof=1) / math.sqrt(len(more))) < 6
    less = (0.76 * told**2 - errors**2).mean(axis=1)
    assert abs(less.mean()) / (less.std(ddof=1) / math.sqrt(len(less))) > 6


@pytest.mark.parametrize("index", [SII, K_SII], ids=lambda one: one.name)
def test_all_coalitions_give_the_exact_values(index):
    values, errors = estimate(TABLE, index, 2**P, 1)
    # The process gives the answers it was given back to its jitter, 1e-9 of the variance.
    np.testing.assert_allclose(values, truth(TABLE, index), rtol=0, atol=1e-4)
    assert (errors[P:] == 0).all() or index is K_SII


def test_an_answer_is_the_same_whoever_is_beside_it():
    tables = np.random.default_rng(1).normal(size=(4, 1 << P))
    state = UNBIASED.init(P, SII, 120, 0)
    state, new = UNBIASED.step(state, UNBIASED.units(P, SII, 120))
    values, empty, full = games.answers(tables, new), tables[:, :1], tables[:, -1:]
    together = UNBIASED.result(state, games.with_ends(values, empty, full))
    for n in range(len(tables)):
        one = slice(n, n + 1)
        alone = UNBIASED.result(state, games.with_ends(values[one], empty[one], full[one]))
        np.testing.assert_array_equal(together.values[n], alone.values[0])
        np.testing.assert_array_equal(together.std_errors[n], alone.std_errors[0])


@pytest.mark.slow
def test_an_explainer_says_which_it_was_and_refuses_what_has_none():
    rng = np.random.default_rng(0)
    X, donors = (rng.normal(size=(n, 26)).astype(np.float32) for n in (2, 2))
    donors[:, 3] = X[:, 3] = 0.5  # changes nothing

    def f(X):
        return X[:, 0] * X[:, 1] + X[:, 3] * X[:, 2] + X.sum(axis=1)

    explainer = xj.Explainer(xj.as_model(f, structure="plain"), donors, budget=600)
    found = explainer.interactions(X, unbiased=True)
    wanted = ((X[:, 0] - donors[:, :1]) * (X[:, 1] - donors[:, 1:2])).mean(axis=0)
    pair = found[:, (0, 1)]
    assert (np.abs(pair.values[:, 0] - wanted) <= 8 * pair.std_errors[:, 0] + 1e-3).all()
    assert found.stats["estimator"] == "unbiased-pairs" and not found.exact
    still = found[:, (2, 3)]
    assert (still.values == 0).all() and (still.std_errors == 0).all()
    alone = explainer.interactions(X[1:], unbiased=True)
    np.testing.assert_array_equal(alone.values, found[1].values)
    with pytest.raises(xj.InputError, match="unbiased=True needs coalitions of every size"):
        explainer.interactions(X, index="banzhaf", unbiased=True)
    with pytest.raises(xj.InputTypeError, match="unbiased"):
        explainer.interactions(X, unbiased="yes")
    few = xj.Explainer(explainer.model, donors, budget=200)
    with pytest.raises(xj.InputError, match="at least 260"):
        few.interactions(X, unbiased=True)
