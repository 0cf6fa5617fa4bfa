"""Axioms of QII's games and indices, as properties of random games and random data."""

from __future__ import annotations

import numpy as np
import oracles_qii as oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xaijax as xj

P = 4
FEW = settings(max_examples=25, deadline=None, derandomize=True)
GAMES = st.lists(
    st.floats(-10, 10, allow_nan=False, width=32), min_size=(1 << P) - 1, max_size=(1 << P) - 1
).map(lambda v: np.array([0.0, *v]))
WINS = st.lists(st.booleans(), min_size=(1 << P) - 1, max_size=(1 << P) - 1).map(
    lambda v: np.array([0.0, *v], float)
)
# 16 values of at most 10, float64: sums of 32 products stay within 32 * 20 * 2^-52.
BOUND = 32 * 20 * 2.0**-52
MASKS = np.arange(1 << P)
SETS = [frozenset(i for i in range(P) if c >> i & 1) for c in MASKS]


@FEW
@given(GAMES)
def test_efficiency_and_size_limits(v):
    table = xj.CoalitionTable(v)
    assert abs(table.shapley().sum() - v[-1]) <= BOUND
    np.testing.assert_allclose(table.size_limited(P - 1), table.shapley(), atol=BOUND)
    np.testing.assert_allclose(table.size_limited(0)[0], v[1 << np.arange(P)], atol=BOUND)
    literal = table.size_limited(2, normalised=False)
    np.testing.assert_allclose(literal, 3 * table.size_limited(2), atol=4 * BOUND)


@FEW
@given(GAMES)
def test_chances_hold_the_other_indices(v):
    """Equal chances of all sets are half of Banzhaf: one set in two holds the player."""
    table = xj.CoalitionTable(v)
    equal = table.weighted(np.full(1 << P, 0.5**P))
    np.testing.assert_allclose(2 * equal, table.banzhaf(), atol=4 * BOUND)
    by_mask = table.weighted(lambda masks: np.full(len(masks), 0.5**P))
    np.testing.assert_array_equal(by_mask, equal)


@FEW
@given(GAMES, st.integers(0, P - 1), st.integers(0, P - 1))
def test_merging_two_players_keeps_their_banzhaf_sum(v, i, j):
    if i == j:
        return
    table = xj.CoalitionTable(v)
    merged = table.merge(i, j)
    own = merged.banzhaf()[0, min(i, j)]
    assert abs(own - table.banzhaf()[0, [i, j]].sum()) <= 8 * BOUND
    assert merged.player_names[min(i, j)] == f"player {min(i, j)}+player {max(i, j)}"


@FEW
@given(GAMES, st.permutations(range(P)))
def test_names_of_players_do_not_matter(v, order):
    moved = sum((MASKS >> j & 1) << order[j] for j in range(P))
    table, renamed = xj.CoalitionTable(v), xj.CoalitionTable(v[moved])
    for ask in (
        lambda t: t.shapley(),
        lambda t: t.size_limited(1),
        lambda t: t.deegan_packel(1.0),
        lambda t: t.responsibility(1.0, absolute=True),
    ):
        np.testing.assert_allclose(ask(renamed)[0], ask(table)[0, list(order)], atol=BOUND)


@FEW
@given(WINS)
def test_simple_games_are_the_definition(win):
    """And so is the monotone closure: it has the same minimal winning sets."""
    table = xj.CoalitionTable(win)
    v = dict(zip(SETS, win, strict=True))
    wins = lambda S: v[S] == 1  # noqa: E731
    found = table.deegan_packel()[0]
    np.testing.assert_allclose(found, oracles.deegan_packel(wins, P), atol=1e-14)
    assert (found >= 0).all() and abs(found.sum() - float(win.any())) <= 1e-14
    np.testing.assert_allclose(table.responsibility()[0], oracles.responsibility(wins, P))
    closed = np.array([float(any(v[T] == 1 for T in oracles.subsets(S))) for S in SETS])
    np.testing.assert_array_equal(xj.CoalitionTable(closed).deegan_packel()[0], found)


ROWS = st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=2, max_size=6).map(
    lambda rows: np.array(rows, np.float64)
)
MODEL = xj.as_model(
    lambda r: np.stack([(r[:, 0] * r[:, 1] > 1) * 1, (r[:, 2] > r[:, 0]) * 2], 1).sum(1) > 1,
    backend="host",
    output="label",
    classes=[False, True],
)
# float64 means of at most 36 zeros and ones.
SMALL = 1e-12


@pytest.mark.slow
@FEW
@given(ROWS)
def test_of_individuals_and_their_mean(data):
    """average is the mean of actual, rate of individual, and their indices are linear."""
    for one, mean in (("actual", "average"), ("individual", "rate")):
        each = xj.QII(MODEL, data, quantity=one)
        whole = xj.QII(MODEL, data, quantity=mean)
        for index in ("shapley", xj.SizeLimited(1)):
            np.testing.assert_allclose(
                whole.explain(index=index).values[0],
                each.explain(index=index).values.mean(axis=0),
                atol=SMALL,
            )
        game = each.game()
        np.testing.assert_allclose(whole.game().values[0], game.values.mean(axis=0), atol=SMALL)
        assert (game.values[:, 0] == 0).all()


@pytest.mark.slow
@FEW
@given(ROWS, st.integers(0, 2))
def test_an_input_that_the_model_does_not_read_gets_exactly_nothing(data, column):
    model = xj.as_model(
        lambda r: np.delete(r, column, axis=1).sum(axis=1) > 2, backend="host", output="label",
        classes=[False, True],
    )  # fmt: skip
    for quantity in ("actual", "average", "rate"):
        assert (xj.QII(model, data, quantity=quantity).unary().values[:, column] == 0).all()


@pytest.mark.parametrize("P", [5, 13])
@pytest.mark.parametrize("rows", [6, 57])
def test_nothing_is_exactly_nothing_wherever_the_input_stands(P, rows):
    """Sums over data rows round all inputs alike, also the last of a block of four or eight."""
    rng = np.random.default_rng(rows)
    data = rng.integers(0, 3, (rows, P)).astype(float)
    model = xj.as_model(
        lambda r: (r[:, 0] + r[:, 1] > 1) * 1, backend="host", output="label", classes=[0, 1]
    )
    for quantity in ("average", "rate", "group", "disparity"):
        members = None if quantity in ("average", "rate") else np.arange(rows) % 3 == 0
        for weights in (None, rng.random(rows)):
            qii = xj.QII(model, data, quantity=quantity, members=members, data_weights=weights)
            found = qii.unary().values[0]
            assert (found[2:] == 0).all()


@pytest.mark.slow
@FEW
@given(ROWS)
def test_a_disparity_is_what_its_groups_say(data):
    members = np.arange(len(data)) % 2 == 0
    a = xj.QII(MODEL, data, quantity="group", members=members)
    b = xj.QII(MODEL, data, quantity="group", members=~members)
    signed = xj.QII(MODEL, data, quantity="disparity", members=members, signed=True)
    np.testing.assert_allclose(signed.game().values, a.game().values - b.game().values, atol=SMALL)
    plain = xj.QII(MODEL, data, quantity="disparity", members=members).explain()
    assert plain.base_values[0] == 0.0
    total = plain.values.sum()
    assert abs(total - plain.stats["quantity"][0]) <= SMALL


@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("seed", range(6))
def test_no_disparity_at_all_is_zero_and_accepted(seed, backend):
    """Two weighted means of ones cancel to a rounding, which is small against the means alone."""
    rng = np.random.default_rng(seed)
    D = np.stack([np.full(7, 0.5), np.arange(7) / 4, np.full(7, 2.0)], axis=1)
    model = xj.as_model(
        lambda rows: (rows[:, 0] + rows[:, 1] * rows[:, 2] > -1) * 1,
        backend=backend,
        output="label",
        classes=[0, 1],
    )
    found = xj.QII(
        model,
        D,
        pool=D[:2],
        pool_weights=[0.11, 0.33],
        data_weights=rng.random(7) + 0.1,
        members=np.arange(7) % 2 == 0,
        quantity="disparity",
        signed=True,
    ).explain()
    # Each mean is 1 but for 7 x 2 roundings of float64 on the host, float32 in JAX.
    eps = np.finfo(np.float32 if backend == "jax" else np.float64).eps
    np.testing.assert_allclose(found.values, 0, rtol=0, atol=14 * eps)
    assert (found.stats["efficiency_residual"] <= found.stats["efficiency_bound"]).all()
