"""Sampled interactions of two players: exact where they must be, intervals, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import sampled_games as games
from often import some_slow

import xaijax as xj
from xaijax.estimators.pairs import PairSampler
from xaijax.players.index import named
from xaijax.players.interaction_index import INTERACTIONS, derivative_weights
from xaijax.results.set_keys import all_of
from xaijax_kernels.games.semivalues import of_tables

SAMPLED = [one for one in INTERACTIONS.values() if one.sampled]


def truth(table: np.ndarray, index) -> np.ndarray:
    """By full tables, which `tests/kernels` holds against the definitions."""
    P = len(table).bit_length() - 1
    return of_tables(table[None, :, None], derivative_weights(index, 2, P))[0, :, 0]


def estimate(table: np.ndarray, index, budget: int, seed: int):
    P = len(table).bit_length() - 1
    own = PairSampler()
    state, new = own.step(own.init(P, index, budget, seed), own.units(P, index, budget))
    values = games.answers(table[None], PairSampler().masks(state, new))
    return PairSampler().result(state, games.with_ends(values, table[None, :1], table[None, -1:]))


@pytest.mark.parametrize("index", some_slow(SAMPLED, 3), ids=lambda one: one.name)
@pytest.mark.parametrize("game", [games.additive, games.pairwise])
def test_games_of_pairs_are_found_exactly(index, game):
    """At 16 P coalitions; jitter lets 1e-9 of the variance go: 3e-5 of the range, and half of it
    was seen."""
    table = game(8)
    found = estimate(table, index, 128, 0)
    span = np.ptp(table)
    np.testing.assert_allclose(found.values[0, :, 0], truth(table, index), atol=1e-4 * span)
    assert (found.std_errors <= 1e-4 * span).all()


@pytest.mark.slow
@pytest.mark.parametrize("index", some_slow(SAMPLED, 3), ids=lambda one: one.name)
@pytest.mark.parametrize("game", [games.triples, games.random_table])
def test_intervals_hold_the_truth(index, game):
    """Of 40 seeds and 36 sets; sets of one run are not independent. Were all 36 of a run one event,
    40 runs of chance .95 had fewer than .7 with chance 1e-7."""
    table, P = game(8), 8
    inside = []
    for seed in range(40):
        found = estimate(table, index, 16 * P, seed)
        off = np.abs(found.values[0, :, 0] - truth(table, index))
        inside.append((off <= 2 * found.std_errors[0, :, 0] + 1e-6).mean())
    assert np.mean(inside) > 0.7


@pytest.mark.parametrize("index", some_slow(SAMPLED, 3), ids=lambda one: one.name)
def test_players_alone_are_the_kernels_and_all_add_up(index):
    table, P, players = games.random_table(8), 8, named(index.singles)
    found = estimate(table, index, 60, 1).values[0, :, 0]
    wanted = games.estimate("kernel", index.singles, 60, 1, table[None]).values[0, :, 0]
    if not index.efficient:
        np.testing.assert_array_equal(found[:P], wanted)
    if players.efficient:
        total = found.sum() if index.efficient else found[:P].sum()
        np.testing.assert_allclose(total, table[-1] - table[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("index", some_slow(SAMPLED, 3), ids=lambda one: one.name)
def test_players_that_change_nothing_have_no_pairs(index):
    """An instance with a dummy beside one without."""
    P, table = 6, games.random_table(6)
    still = table[np.arange(1 << P) & ~0b100]
    moves = np.array([[True] * 6, [True, True, False, True, True, True]])
    state, new = PairSampler().step(PairSampler().init(P, index, 40, 0), 20)
    both = np.stack([table, still])
    values = games.answers(both, new)
    found = PairSampler().result(state, games.with_ends(values, both[:, :1], both[:, -1:]), moves)
    with_it = [m for m, S in enumerate(all_of(P, 2)) if 2 in S and len(S) == 2]
    assert not found.values[1, with_it].any() and not found.std_errors[1, with_it].any()
    assert found.values[0, with_it].all()
    alone = PairSampler().result(state, games.with_ends(values[:1], both[:1, :1], both[:1, -1:]))
    np.testing.assert_array_equal(found.values[0], alone.values[0])


def wide(P: int = 30, N: int = 2, B: int = 2):
    rng = np.random.default_rng(0)
    return (rng.normal(size=(n, P)).astype(np.float32) for n in (N, B))


@pytest.mark.slow
def test_an_explainer_samples_where_it_cannot_enumerate():
    X, donors = wide()

    def f(X):
        return X[:, 0] * X[:, 1] + X.sum(axis=1)

    explainer = xj.Explainer(xj.as_model(f, structure="plain"), donors, budget=1200)
    found = explainer.interactions(X)
    wanted = ((X[:, 0] - donors[:, :1]) * (X[:, 1] - donors[:, 1:2])).mean(axis=0)
    np.testing.assert_allclose(found[:, (0, 1)].values[:, 0], wanted, atol=0.02)
    assert not found.exact and found.stats["estimator"] == "pairs"
    assert found.stats["model_rows"] == 2 * 2 * 1202
    assert found.std_errors.shape == found.values.shape == (2, 465)
    kernel = xj.Explainer(explainer.model, donors, budget=1200, estimator="kernel")(X)
    np.testing.assert_array_equal(found[:, :30].values, kernel.values)
    alone = explainer.interactions(X[1:])
    np.testing.assert_array_equal(alone.values, found[1].values)
    adds = explainer.interactions(X, index="k-sii")
    bound = adds.stats["efficiency_bound"]
    assert (adds.stats["efficiency_residual"] <= bound).all()


@pytest.mark.slow
def test_an_instance_is_exact_whoever_is_beside_it():
    X, donors = wide()
    narrow = donors[:1].repeat(2, axis=0)
    narrow[:, :2] = X[:, :2]  # two players differ from the donor
    f = xj.as_model(lambda X: X[:, 0] * X[:, 1] + X.sum(axis=1), structure="plain")
    explainer = xj.Explainer(f, donors[:1], budget=600)
    alone, mixed = (explainer.interactions(rows) for rows in (narrow, np.concatenate([narrow, X])))
    assert alone.exact and not mixed.exact
    np.testing.assert_array_equal(mixed.stats["exact_rows"], [True, True, False, False])
    np.testing.assert_array_equal(mixed.values[:2], alone.values)
    assert (mixed.std_errors[:2] == 0).all() and (mixed.std_errors[2:] > 0).any()
    sampled = explainer.interactions(X)
    np.testing.assert_array_equal(mixed.values[2:], sampled.values)
    assert mixed.stats["model_rows"] == alone.stats["model_rows"] + sampled.stats["model_rows"]


@pytest.mark.parametrize(
    ("options", "arguments", "error", "words"),
    [
        ({}, {"order": 3}, xj.EnumerationLimitError, "order=3.*order=2"),
        ({}, {"index": "fsii"}, xj.EnumerationLimitError, "'sii', 'k-sii', 'banzhaf'"),
        ({"estimator": "permutation"}, {}, xj.InputError, "samples no interactions"),
        ({"budget": 50}, {}, xj.InputError, "budget=50 is too small"),
        ({"budget": 50, "estimator": "exact"}, {}, xj.InputError, "estimator='exact' takes all"),
        ({"max_memory": 1 << 24}, {}, xj.MemoryPlanError, "Say a smaller budget=, group"),
    ],
)
def test_what_is_not_sampled_is_refused(options, arguments, error, words):
    X, donors = wide()

    def never(X):
        raise AssertionError("the model was asked")

    explainer = xj.Explainer(xj.as_model(never, backend="host"), donors, **options)
    with pytest.raises(error, match=words):
        explainer.interactions(X, **arguments)
