"""Antithetic sampling: what is asked, how it nests, and that the values are what they should be."""

from __future__ import annotations

import itertools
import math

import jax.numpy as jnp
import numpy as np
import oracles
import pytest
import sampled_games as games
from hypothesis import given, settings
from hypothesis import strategies as st

import xaijax as xj
from xaijax.estimators.permutation import Permutation
from xaijax.players.index import named
from xaijax_kernels.games import sampling

INDICES = games.INDICES


def drawn(P: int, index: str, budget: int, seed: int):
    state = Permutation().init(P, named(index), budget, seed)
    state, cuts = Permutation().step(state, Permutation().units(P, named(index), budget))
    return state, Permutation().masks(state, cuts)


def packed(masks: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(masks, axis=1)]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(0, 600), st.integers(0, 2**63), st.sampled_from(INDICES))
def test_coalitions_are_distinct_and_within_the_budget(P, spare, seed, index):
    budget = Permutation().smallest_budget(P, named(index)) + spare
    state, masks = drawn(P, index, budget, seed)
    assert masks.dtype == bool and masks.shape == (len(state.seen) - 2, P)
    assert len(masks) <= budget
    assert len(set(packed(masks))) == len(masks)
    assert not masks.all(axis=1).any() and masks.any(axis=1).all()
    assert 1 <= state.pairs <= Permutation().units(P, named(index), budget)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("P", [4, 9, 130])
def test_steps_and_budgets_nest(P, index):
    """Many steps ask what one step asks; a smaller budget asks the beginning of it."""
    whole, masks = drawn(P, index, 12 * P, seed=3)
    state, parts = Permutation().init(P, named(index), 12 * P, 3), []
    for pairs in (1, 2, 2, 5, 1000):
        state, new = Permutation().step(state, pairs)
        parts.append(Permutation().masks(state, new))
    np.testing.assert_array_equal(np.concatenate(parts), masks)
    np.testing.assert_array_equal(state.places, whole.places)
    smaller, fewer = drawn(P, index, 8 * P, seed=3)
    np.testing.assert_array_equal(fewer, masks[: len(fewer)])
    np.testing.assert_array_equal(smaller.places, whole.places[: smaller.pairs])
    _, other = drawn(P, index, 12 * P, seed=4)
    assert not np.array_equal(other, masks)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("P", [3, 6, 9])
def test_values_are_the_mean_over_pairs_by_definition(P, index):
    """Loops over orders and coalitions in the oracle's form, for the pairs that were drawn."""
    table = games.random_table(P)
    v = {frozenset(S): table[sum(1 << i for i in S)] for S in subsets(P)}
    state, masks = drawn(P, index, 10 * P, seed=1)
    got = Permutation().result(
        state, games.with_ends(games.answers(table[None], masks), table[None, :1], table[None, -1:])
    )
    if index == "shapley":
        each = [oracles.antithetic_pair(v, order.tolist()) for order in state.drawn]
    else:
        each = [oracles.coalition_pair(v, frozenset(np.flatnonzero(S)), P) for S in state.drawn]
    np.testing.assert_allclose(got.values[0, :, 0], np.mean(each, axis=0), rtol=0, atol=1e-12)
    own = np.std(each, axis=0, ddof=1) / math.sqrt(len(each))
    # What is borrowed from other players may raise an error, never lower it.
    assert (got.std_errors[0, :, 0] >= own * (1 - 1e-12)).all()


def subsets(P: int):
    return itertools.chain.from_iterable(itertools.combinations(range(P), s) for s in range(P + 1))


def test_cuts_and_keys_give_the_masks():
    """Prefixes, or neighbours, one by one; also above 128 players, where keys are hashes."""
    for P, index in itertools.product((7, 150), INDICES):
        state, masks = drawn(P, index, 6 * P, seed=0)
        _, cuts = Permutation().step(Permutation().init(P, named(index), 6 * P, 0), 100)
        for (pair, half, cut), mask in zip(cuts, masks, strict=True):
            if index == "shapley":
                order = state.drawn[pair][:: -1 if half else 1]
                expected = np.isin(np.arange(P), order[:cut])
            else:
                expected = state.drawn[pair] ^ bool(half)
                expected[cut - 1] ^= cut > 0
            np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize("index", INDICES)
def test_bits_do_not_depend_on_the_other_rows(index):
    tables = np.random.default_rng(0).normal(size=(300, 1 << 8))
    state, masks = drawn(8, index, 120, seed=0)
    values = np.concatenate([games.answers(tables, masks)] * 3, axis=2) * [1, 2, -3]
    empty, full = tables[:, :1] * [1, 2, -3], tables[:, -1:] * [1, 2, -3]
    whole = Permutation().result(state, games.with_ends(values, empty, full))
    for rows in ([17], [250, 3], list(range(290))):
        part = Permutation().result(state, games.with_ends(values[rows], empty[rows], full[rows]))
        for a, b in zip(part, whole, strict=True):
            assert np.array_equal(a, b[rows])


def test_efficiency_dummies_and_one_pair():
    table = games.random_table(9)
    table = np.concatenate([table, table])  # the last player changes nothing
    got = games.estimate("permutation", "shapley", 200, 0, table[None])
    assert abs(got.values.sum() - (table[-1] - table[0])) < 1e-12
    assert got.values[0, 9, 0] == 0
    one = games.estimate("permutation", "shapley", 18, 0, table[None])
    assert np.isfinite(one.values).all() and np.isnan(one.std_errors).all()


def test_few_players():
    for index in INDICES:
        table = np.array([[1.0, 4.0]])
        got = games.estimate("permutation", index, 5, 0, table)
        assert got.values.ravel().tolist() == [3.0] and got.std_errors.ravel().tolist() == [0.0]
        table = np.array([[0.0, 1.0, 5.0, 7.0]])  # two players: every pair is exact
        got = games.estimate("permutation", index, 2, 0, table)
        np.testing.assert_allclose(got.values.ravel(), [1.5, 5.5])


@pytest.mark.slow
def test_orders_are_uniform():
    """720 orders of six in 72,000 draws: chi^2 / 719 within 6 sd = 1.32; false alarms 1e-8."""
    orders = sampling.orders(5, 6, 0, 72_000)
    code = orders @ 6 ** np.arange(6)
    counts = np.unique(code, return_counts=True)[1]
    assert len(counts) == 720
    assert abs(((counts - 100) ** 2 / 100).sum() / 719 - 1) < 6 * math.sqrt(2 / 719)


def test_wide_inputs_need_no_masks():
    P = 20_000
    state = Permutation().init(P, named("shapley"), 4 * P, 0)
    state, cuts = Permutation().step(state, 2)
    assert state.pairs == 2 and 2 * (P - 1) < len(cuts) <= 4 * (P - 1)
    weight = np.random.default_rng(0).normal(size=P)
    values = (Permutation().masks(state, cuts[:50]) @ weight)[None, :, None]
    prefix = np.stack([np.cumsum(weight[order]) for order in state.drawn])
    back = weight.sum() - prefix
    pair, half, cut = cuts.T
    asked = np.where(half == 0, prefix[pair, cut - 1], back[pair, P - 1 - cut])[None, :, None]
    np.testing.assert_allclose(values, asked[:, :50], atol=1e-10)
    got = Permutation().result(
        state, games.with_ends(asked, np.zeros((1, 1)), np.full((1, 1), weight.sum()))
    )
    np.testing.assert_allclose(got.values[0, :, 0], weight, atol=1e-9)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("P", [3, 4, 5])
def test_an_error_of_zero_is_never_claimed_for_wrong_values(P, index):
    """With few players the pairs of a small budget may repeat one another: no spread, no error."""
    table = games.random_table(P)
    truth = games.truth(table, index)
    for budget in range(Permutation().smallest_budget(P, named(index)), 2**P - 2):
        for seed in range(60):
            got = games.estimate("permutation", index, budget, seed, table[None])
            wrong = np.abs(got.values[0, :, 0] - truth) > 1e-9
            assert not (wrong & (got.std_errors[0, :, 0] == 0)).any(), (budget, seed)


@pytest.mark.slow
def test_a_model_that_reads_some_of_its_columns_is_not_walked():
    """Its first layer has fewer columns than there are players; the broken version raised."""
    rows = np.random.default_rng(3).normal(size=(7, 12)).astype(np.float32)
    options = {"estimator": "permutation", "budget": 200}

    def model(z):
        return jnp.sin(z[:, :9].sum(axis=1))

    def explained(structure):
        wrapped = xj.as_model(model, structure=structure)
        return xj.Explainer(wrapped, rows[:3], **options)(rows[3:]).values

    found = explained(None)
    # The same orders of answers below 1: some roundings of 2^-24 of sums of 9 terms.
    np.testing.assert_allclose(found, explained("plain"), rtol=0, atol=2e-6)
    assert (found[:, 9:] == 0).all()


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**70 + 5])
@pytest.mark.parametrize("P", [1, 4, 5, 64, 300])
def test_words_of_draws_are_those_of_a_generator_for_each(seed, P):
    """NumPy's own Philox and SeedSequence, one draw at a time."""
    for first, stop in ((0, 20), (3, 3), (1000, 1030), (2**32 - 2, 2**32 + 1)):
        draws = [
            np.random.Philox(np.random.SeedSequence([seed, sampling.ORDERS, d])).random_raw(P)
            for d in range(first, stop)
        ]
        wanted = np.array(draws, np.uint64).reshape(stop - first, P)
        found = sampling.words_of_draws(seed, sampling.ORDERS, P, first, stop)
        np.testing.assert_array_equal(found, wanted)
        orders = sampling.orders(seed, P, first, stop)
        np.testing.assert_array_equal(orders, np.argsort(wanted, axis=1, kind="stable"))


def test_draws_share_a_generator(monkeypatch):
    made = []
    real = np.random.Philox
    monkeypatch.setattr(sampling.np.random, "Philox", lambda *a: made.append(1) or real(*a))
    sampling.orders(0, 9, 0, 3000)
    sampling.coalitions(0, 9, 0, 3000)
    assert not made
