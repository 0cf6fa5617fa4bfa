"""Regression sampling: what is asked, how it nests, and that the values are what they should be."""

from __future__ import annotations

import itertools
import math

import numpy as np
import oracles
import pytest
import sampled_games as games
from hypothesis import given, settings
from hypothesis import strategies as st

from xaijax.estimators.kernel import Kernel, draw
from xaijax.players.index import named
from xaijax_kernels.games import sampling

INDICES = games.INDICES


def drawn(P: int, index: str, budget: int, seed: int):
    state = Kernel().init(P, named(index), budget, seed)
    return Kernel().step(state, Kernel().units(P, named(index), budget))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 150), st.integers(0, 900), st.integers(0, 2**63), st.sampled_from(INDICES))
def test_pairs_are_distinct_within_the_budget_and_determine_the_values(P, spare, seed, index):
    budget = Kernel().smallest_budget(P, named(index)) + spare
    state, masks = drawn(P, index, budget, seed)
    assert masks.dtype == bool and masks.shape == (2 * state.pairs, P)
    assert state.pairs == min(budget // 2, 2 ** (P - 1) - 1)
    assert len({row.tobytes() for row in np.packbits(masks, axis=1)}) == len(masks)
    assert not masks.all(axis=1).any() and masks.any(axis=1).all()
    np.testing.assert_array_equal(masks[0::2], ~masks[1::2])
    weight = np.random.default_rng(0).normal(size=P)  # an additive game comes back
    got = Kernel().result(
        state,
        games.with_ends(
            (masks @ weight)[None, :, None], np.zeros((1, 1)), np.full((1, 1), weight.sum())
        ),
    )
    np.testing.assert_allclose(got.values[0, :, 0], weight, rtol=0, atol=1e-8)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("P, budget", [(5, 30), (9, 150), (40, 150), (40, 600), (100, 1000)])
def test_steps_and_budgets_nest(P, budget, index):
    whole, masks = drawn(P, index, budget, seed=3)
    state, parts = Kernel().init(P, named(index), budget, 3), []
    for pairs in (1, P, 2 * P, 2 * P, 3 * P, 10**6):
        state, new = Kernel().step(state, pairs)
        parts.append(new)
    np.testing.assert_array_equal(np.concatenate(parts), masks)
    np.testing.assert_array_equal(state.sizes, whole.sizes)
    if budget > 8 * P:
        _, more = drawn(P, index, 2 * budget, seed=3)
        np.testing.assert_array_equal(more[: len(masks)], masks)
    _, other = drawn(P, index, budget, seed=4)
    assert P == 5 or not np.array_equal(other, masks)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("P", [1, 2, 3, 4, 5, 8, 11])
def test_all_coalitions_give_the_exact_values(P, index):
    """To rounding, with error 0, and the fit is also what the papers' least squares give."""
    table = games.random_table(P) + 7.0
    got = games.estimate("kernel", index, 2**P, 1, table[None])
    expected = games.truth(table, index)
    np.testing.assert_allclose(got.values[0, :, 0], expected, rtol=0, atol=1e-11)
    assert (got.std_errors == 0).all()
    if P > 1:
        fit = oracles.least_squares(table, index)
        np.testing.assert_allclose(fit, expected, rtol=0, atol=1e-10)


def test_numbers_of_the_sizes():
    """Leverage: as many pairs of each size, up to one, size P/2 half; full sizes leave the rest."""
    sizes, _ = draw(30, named("shapley"), 2000, 0, 0, 1000)
    counts = np.bincount(sizes, minlength=16)[1:]
    assert counts[0] == 30  # all there are
    assert np.ptp(counts[1:14]) <= 1 and abs(counts[14] - counts[1] / 2) <= 1
    sizes, _ = draw(30, named("shapley"), 100, 0, 0, 50)
    assert (sizes[:30] == 1).all()  # small budgets begin with single players
    sizes, _ = draw(12, named("banzhaf"), 1000, 0, 0, 300)
    counts = np.bincount(sizes, minlength=7)[1:]
    expected = 300 * np.array([sampling.pairs_of_size(12, s) for s in range(1, 7)]) / 2047
    assert np.abs(counts - expected).max() < 1.5


@pytest.mark.slow
def test_sets_of_a_size_are_uniform():
    """Each of the 35 pairs of size 4 of 8, and each of 45 sets of 2 of 10, is first equally often.

    Chi^2 / dof within 6 sd of 1 over 7,000 seeds: false alarms 1e-6 in all.
    """
    for P, size in ((8, 4), (10, 2)):
        first = np.concatenate([sampling.sets_of_size(s, P, size, 1) for s in range(7_000)])
        counts = np.unique(first @ (1 << np.arange(P)), return_counts=True)[1]
        total = sampling.pairs_of_size(P, size)
        assert len(counts) == total
        expected = 7_000 / total
        statistic = ((counts - expected) ** 2 / expected).sum() / (total - 1)
        assert abs(statistic - 1) < 6 * math.sqrt(2 / (total - 1))


def test_rejection_draws_sets_of_their_size_once(monkeypatch):
    """By rejection too all sets of a size come, each once, a smaller number first."""
    monkeypatch.setattr(sampling, "ENUMERATED", 0)
    for P, size in ((8, 4), (9, 3)):
        total = sampling.pairs_of_size(P, size)
        every = sampling.sets_of_size(0, P, size, total)
        assert (every.sum(axis=1) == size).all()
        assert len(np.unique(every @ (1 << np.arange(P)))) == total
        half = sampling.sets_of_size(0, P, size, total // 2)
        np.testing.assert_array_equal(half, every[: total // 2])
    with pytest.raises(ValueError, match="sets of size"):
        sampling.sets_of_size(0, 9, 3, 85)


@pytest.mark.parametrize("index", INDICES)
def test_bits_do_not_depend_on_the_other_rows(index):
    tables = np.random.default_rng(0).normal(size=(300, 1 << 9))
    state, masks = drawn(9, index, 200, seed=0)
    for scale in ([1.0], [1.0, 2.0, -3.0]):
        values = games.answers(tables, masks) * scale
        empty, full = tables[:, :1] * scale, tables[:, -1:] * scale
        whole = Kernel().result(state, games.with_ends(values, empty, full))
        for rows in ([17], [250, 3], list(range(290))):
            part = Kernel().result(state, games.with_ends(values[rows], empty[rows], full[rows]))
            for a, b in zip(part, whole, strict=True):
                assert np.array_equal(a, b[rows])


def test_efficiency_and_symmetry():
    table = games.random_table(10)
    got = games.estimate("kernel", "shapley", 160, 0, table[None])
    assert abs(got.values.sum() - (table[-1] - table[0])) < 1e-12
    size = games.members(10).sum(axis=1)
    symmetric = (size >= 6).astype(float)[None]  # nearly a function of the size: nearly exact
    for index, each in (("shapley", 0.1), ("banzhaf", math.comb(9, 5) / 2**9)):
        got = games.estimate("kernel", index, 160, 0, symmetric)
        np.testing.assert_allclose(got.values.ravel(), each, atol=0.02)


@pytest.mark.parametrize("index", INDICES)
def test_errors_are_unknown_with_few_pairs(index):
    table = games.random_table(12)
    for pairs, known in ((31, False), (32, True), (200, True)):
        budget = max(2 * pairs, Kernel().smallest_budget(12, named(index)))
        state, masks = drawn(12, index, budget, 0)
        if state.pairs != pairs:
            continue  # Banzhaf begins where errors are known
        got = Kernel().result(
            state,
            games.with_ends(games.answers(table[None], masks), table[None, :1], table[None, -1:]),
        )
        assert np.isfinite(got.values).all()
        assert np.isfinite(got.std_errors).all() == known and (got.dof >= 1).all()


@pytest.mark.slow
def test_many_players_do_not_overflow():
    for P, index in itertools.product((128, 1030), INDICES):
        budget = Kernel().smallest_budget(P, named(index)) + 2 * P
        state, masks = drawn(P, index, budget, 0)
        weight = np.random.default_rng(0).normal(size=P)
        got = Kernel().result(
            state,
            games.with_ends(
                (masks @ weight)[None, :, None], np.zeros((1, 1)), np.full((1, 1), weight.sum())
            ),
        )
        np.testing.assert_allclose(got.values[0, :, 0], weight, rtol=0, atol=1e-7)
