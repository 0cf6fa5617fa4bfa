"""Axioms of the indices, as properties of random games asked through `Explainer`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xaijax as xj

P = 4
GAMES = st.lists(
    st.floats(-10, 10, allow_nan=False, width=32), min_size=1 << P, max_size=1 << P
).map(np.array)
FEW = settings(max_examples=25, deadline=None, derandomize=True)
# 16 values of at most 10, float64: sums of 32 products stay within 32 * 20 * 2^-52.
BOUND = 32 * 20 * 2.0**-52


CURRENT: dict[str, np.ndarray] = {}


def game(rows: np.ndarray) -> np.ndarray:
    """A game given as a table: a row z of zeros and ones has the value table[z]."""
    return CURRENT["table"][(rows @ (1 << np.arange(P))).astype(int)]


MODEL = xj.as_model(game, backend="host")


def values(table: np.ndarray, **options) -> np.ndarray:
    """Index values of the game `table`."""
    CURRENT["table"] = table
    explainer = xj.Explainer(MODEL, xj.Baseline(np.zeros(P)), **options)
    return explainer(np.ones((1, P)), progress=False).values[0]


@FEW
@given(GAMES)
def test_efficiency_of_shapley(table):
    assert abs(values(table).sum() - (table[-1] - table[0])) <= BOUND


@FEW
@given(GAMES, GAMES, st.floats(-3, 3))
def test_linearity(a, b, factor):
    for index in ("shapley", "banzhaf", xj.SizeLimited(1)):
        whole = values(a + factor * b, index=index)
        parts = values(a, index=index) + factor * values(b, index=index)
        np.testing.assert_allclose(whole, parts, rtol=0, atol=8 * BOUND)


@pytest.mark.slow
@FEW
@given(GAMES, st.permutations(range(P)))
def test_names_of_players_do_not_matter(table, order):
    masks = np.arange(1 << P)
    moved = sum(((masks >> j & 1) << order[j]) for j in range(P))
    for index in ("shapley", xj.SizeLimited(1)):
        renamed = values(table[moved], index=index)
        np.testing.assert_allclose(
            renamed, values(table, index=index)[list(order)], rtol=0, atol=BOUND
        )


@FEW
@given(GAMES, st.integers(0, P - 1))
def test_a_player_that_changes_nothing_gets_nothing(table, player):
    masks = np.arange(1 << P)
    null = table[masks & ~(1 << player)]
    for index in ("shapley", "banzhaf", xj.SizeLimited(2)):
        assert abs(values(null, index=index)[player]) <= BOUND


@FEW
@given(GAMES)
def test_merging_two_players_keeps_their_banzhaf_sum(table):
    """2-efficiency (QII spec 2.5: of pairs only)."""
    single = values(table, index="banzhaf")
    merged = values(table, index="banzhaf", players={"both": [0, 1]})
    assert abs(merged[0] - single[0] - single[1]) <= BOUND
