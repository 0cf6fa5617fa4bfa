"""Interactions by discrete derivatives: tables, sub-coalitions and pieces, by definition."""

from __future__ import annotations

import math

import numpy as np
import oracles_interactions as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xaijax.players.interaction_index import INTERACTIONS, derivative_weights
from xaijax_kernels.games import semivalues as interactions

INDICES = pytest.mark.parametrize("index", list(oracle.ORACLES))
ORDERS = [(1, 1), (2, 2), (4, 1), (4, 2), (4, 3), (4, 4)]


def tables(P: int, N: int = 2, K: int = 2) -> np.ndarray:
    return np.random.default_rng(P).normal(size=(N, 1 << P, K))


def expected(index: str, given: np.ndarray, P: int, order: int) -> np.ndarray:
    return np.stack([oracle.interactions(index, oracle.game_of(t), P, order) for t in given])


# Sums of at most 2^P numbers of size about 1, by weights that add up to 2^s in a set of s players:
# below 2^4 4 roundings of 2^4. (The oracle's least squares for FSII: a condition of some hundred.)
CLOSE = {"rtol": 0, "atol": 1e-11}


@INDICES
@pytest.mark.parametrize("P, order", ORDERS)
@pytest.mark.parametrize("large", [False, True], ids=["product", "halvings"])
def test_tables_give_the_definition(index, P, order, large, monkeypatch):
    if large:
        monkeypatch.setattr(interactions, "PRODUCT", 0)
        monkeypatch.setattr(interactions, "TABLE_BYTES", 1)  # an instance at a time
    p, given = derivative_weights(INTERACTIONS[index], order, P), tables(P)
    got = interactions.of_tables(given, p)
    np.testing.assert_allclose(got, expected(index, given, P, order), **CLOSE)


@INDICES
@pytest.mark.parametrize("P, low, order", [(4, 2, 2), (4, 3, 3), (4, 1, 4), (3, 0, 2)])
def test_pieces_give_the_definition(index, P, low, order):
    p, given = derivative_weights(INTERACTIONS[index], order, P), tables(P)
    matrices = interactions.split_matrices(p, P, low)
    total = np.zeros((2, 2, interactions.count(P, order)))
    for high in range(1 << (P - low)):
        own = given[:, high << low : (high + 1) << low].swapaxes(1, 2)
        sums = own @ matrices[high.bit_count()]
        total += interactions.of_pieces(sums, np.full(2, high), P, low, order)
    got = total.swapaxes(1, 2)
    np.testing.assert_allclose(got, expected(index, given, P, order), **CLOSE)


@INDICES
@pytest.mark.parametrize("k", [0, 1, 3])
def test_dummies_are_left_out(index, k):
    """Of a game blown up by players who change nothing the sets of the others keep their values."""
    P, order, own = 4, 2, [0, 2, 3][:k]
    small = np.random.default_rng(k).normal(size=1 << k)
    subset = np.zeros(1 << P, np.int64)
    for place, player in enumerate(own):
        subset |= (np.arange(1 << P) >> player & 1) << place
    all_sets = oracle.interactions(index, oracle.game_of(small[subset]), P, order)
    p = derivative_weights(INTERACTIONS[index], order, k)
    at = interactions.places(np.array(own, np.int64), P, order)
    got = np.zeros(len(all_sets))
    got[at] = small @ interactions.subset_matrix(p, k)
    np.testing.assert_allclose(got, all_sets, **CLOSE)


@pytest.mark.parametrize("P, order", [(1, 1), (4, 2), (6, 3), (5, 5)])
def test_places_are_those_of_the_list(P, order):
    sets = oracle.sets_of(P, order)
    own = np.arange(P)[np.arange(P) % 2 == 0]
    at = interactions.places(own, P, order)
    among = [sets.index(tuple(own[list(S)])) for S in oracle.sets_of(len(own), order)]
    assert at.tolist() == among
    assert interactions.count(P, order) == len(sets)


def test_every_index_has_an_oracle():
    assert list(oracle.ORACLES) == list(INTERACTIONS)


def test_weights_stay_small():
    """The sum of |p| over all T, by which rounding may grow: at most 2 for k players of pairs."""
    for one in INTERACTIONS.values():
        for s, p in enumerate(derivative_weights(one, 2, 20), start=1):
            total = math.fsum(math.comb(20 - s, t) * abs(w) for t, w in enumerate(p))
            assert 1 - 1e-9 <= total <= 2 + 1e-9, (one.name, s, total)


games = st.integers(1, 4).flatmap(
    lambda P: st.tuples(
        st.just(P),
        st.integers(1, P),
        st.lists(st.integers(-8, 8), min_size=1 << P, max_size=1 << P),
        st.lists(st.integers(-8, 8), min_size=1 << P, max_size=1 << P),
    )
)


@INDICES
@settings(max_examples=25, deadline=None)
@given(game=games, shift=st.integers(0, 23))
def test_axioms(index, game, shift):
    """Linearity, symmetry (players renamed), efficiency where it holds, and dummies."""
    P, order, first, second = game
    one, p = INTERACTIONS[index], derivative_weights(INTERACTIONS[index], order, P)

    def of(table):
        return interactions.of_tables(np.asarray(table, np.float64)[None, :, None], p)[0, :, 0]

    v, w = np.array(first, float), np.array(second, float)
    close = {"rtol": 0, "atol": 1e-10}  # some hundred roundings of numbers up to 2^7
    np.testing.assert_allclose(of(2 * v - 3 * w), 2 * of(v) - 3 * of(w), **close)
    if one.efficient:
        np.testing.assert_allclose(of(v).sum(), v[-1] - v[0], **close)

    names = np.roll(np.arange(P), shift)
    sets = oracle.sets_of(P, order)
    bits = np.arange(1 << P)
    renamed = sum((bits >> i & 1) << int(names[i]) for i in range(P))
    moved = [sets.index(tuple(sorted(int(names[i]) for i in S))) for S in sets]
    turned = np.empty_like(v)
    turned[renamed] = v
    np.testing.assert_allclose(of(turned)[moved], of(v), **close)

    dummy = v[bits & ~1] + 5.0 * (bits & 1)  # player 0 adds 5 whatever the others do
    alone = of(dummy)
    for S, value in zip(sets, alone, strict=True):
        if 0 in S:
            np.testing.assert_allclose(value, 5.0 if S == (0,) else 0.0, **close)


@pytest.mark.parametrize("index, theirs", [(i, one.shapiq) for i, one in INTERACTIONS.items()])
def test_the_oracles_agree_with_shapiq(index, theirs):
    theory = pytest.importorskip("shapiq.game_theory")
    P, order = 4, 2
    table = tables(P)[0, :, 0]
    computer = theory.ExactComputer(
        lambda c: table[np.asarray(c).astype(int) @ (1 << np.arange(P))], P
    )
    found = computer(theirs, P if theirs == "Moebius" else order)
    own = oracle.interactions(index, oracle.game_of(table), P, order)
    # Their FSII weighs the two ends by a large number where the definition fixes them: 1e-9.
    np.testing.assert_allclose([found[S] for S in oracle.sets_of(P, order)], own, atol=1e-7)
