"""Sensitivities: never exceeded in tiny worlds, attained where they are tight."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import oracles_privacy as oracles
import pytest
from often import some_slow
from privacy_cases import before_noise, planned, table_model

import xaijax as xj
from xaijax.players.index import index_weights
from xaijax.privacy import plan as noise_needed
from xaijax.privacy.sensitivity import bound

ROUNDING = 1e-12  # of the oracle's float sums of at most 25 terms

OF_DATA = ("average", "rate")
OF_GROUPS = ("group", "disparity", "signed")


def cases():
    for n in (2, 3, 4, 5):
        for kind in ("individual", "actual", *OF_DATA):
            yield kind, n, None
        for kind in OF_GROUPS:
            for y in range(1, n):
                yield kind, n, y


def member_of(n, y):
    return None if y is None else np.arange(n) < y


def declared(kind, n, y, public=False):
    quantity = "disparity" if kind == "signed" else kind
    return xj.privacy.sensitivity(quantity, n, y, public_pool=public)


@pytest.mark.parametrize(("kind", "n", "y"), list(cases()))
def test_no_world_exceeds_a_declared_bound(kind, n, y):
    Q = oracles.tables(kind, n, member_of(n, y), x=2)
    bounds = declared(kind, n, y)
    before = oracles.largest_move(Q[:, :, :1], n)[0]
    after = oracles.largest_move(Q[:, :, 1:], n)[0]
    v = Q[:, :, :1] - Q
    influence = oracles.largest_move(v, n)[0]
    assert before <= bounds.before + ROUNDING
    assert after <= bounds.after + ROUNDING
    assert influence <= bounds.influence + ROUNDING
    for index in ("shapley", "banzhaf"):
        weights = oracles.weights_of(index, 2)
        phi = v @ oracles.index_matrix(weights)
        single, total = oracles.largest_move(phi, n)
        assert single <= noise_needed.factor_of_one(weights) * bounds.influence + ROUNDING
        assert total <= noise_needed.factor_of_all(weights) * bounds.influence + ROUNDING


def test_bounds_are_attained_where_they_are_tight():
    for n in (2, 3, 4, 5):
        rate = oracles.tables("rate", n)
        assert oracles.largest_move(rate[:, :, :1], n)[0] == pytest.approx(1 / n, abs=ROUNDING)
        assert oracles.largest_move(rate, n)[0] == pytest.approx((2 * n - 1) / n**2, abs=ROUNDING)
        for kind in ("individual", "actual"):
            v = oracles.tables(kind, n, x=1)
            v = v[:, :, :1] - v
            assert oracles.largest_move(v, n)[0] == pytest.approx(1 / n, abs=ROUNDING)
    gap = oracles.tables("disparity", 4, member_of(4, 2))
    # Theorem 12(4) says at most 1/2; the declared bound is 0.875.
    assert oracles.largest_move(gap, 4)[0] == pytest.approx(0.75, abs=ROUNDING)


def test_the_formulas_of_the_reading():
    for n, y in ((7, 3), (20, 10), (100, 1)):
        z, mu = n - y, max(Fraction(1, y), Fraction(1, n - y))
        told = {kind: declared(kind, n, y if kind in OF_GROUPS else None) for kind in KINDS}
        assert told["rate"].before == Fraction(1, n)
        assert told["rate"].after == told["average"].influence == Fraction(2 * n - 1, n * n)
        assert told["rate"].influence == Fraction(3 * n - 1, n * n)
        assert told["individual"].influence == told["actual"].influence == Fraction(1, n)
        assert told["group"].after == Fraction(1, y) + Fraction(1, n) - Fraction(1, n * y)
        assert told["group"].influence == Fraction(2, y) + Fraction(1, n) - Fraction(1, n * y)
        assert told["disparity"].after == mu * (1 - Fraction(1, n)) + Fraction(2, n)
        assert told["disparity"].influence == 2 * mu - mu / n + Fraction(2, n)
        assert told["disparity"].paper == 2 * max(Fraction(1, y), Fraction(1, z))


KINDS = ("individual", "actual", "average", "rate", "group", "disparity")


@pytest.mark.parametrize("kind", ["average", "rate", "group", "disparity"])
def test_a_public_pool_needs_the_outer_term_only(kind):
    n, y = 4, 2 if kind in OF_GROUPS else None
    Q = oracles.tables(kind, n, member_of(n, y), pool=[0, 1, 3])
    v = Q[:, :, :1] - Q
    bounds = declared(kind, n, y, public=True)
    assert oracles.largest_move(v, n)[0] <= bounds.influence + ROUNDING
    # The paper's column, which holds where the pool is public (an average's is half of it).
    assert bounds.influence == (bounds.paper / 2 if kind == "average" else bounds.paper)


@pytest.mark.parametrize("kind", ["average", "rate", "group", "disparity"])
def test_weights_take_the_place_of_equal_shares(kind):
    a, b = np.array([1.0, 2, 5, 2]), np.array([4.0, 1, 1, 3])
    member = np.array([True, True, False, False])
    Q = oracles.weighted_tables(kind, a, b, member)
    v = Q[:, :, :1] - Q
    inside, outside = a * member, a * ~member
    share = (a / a.sum()).max()
    if kind == "group":
        share = (inside / inside.sum()).max()
    if kind == "disparity":
        share = max((inside / inside.sum()).max(), (outside / outside.sum()).max())
    both = bound(kind, Fraction(share), Fraction(b.max() / b.sum()))
    assert oracles.largest_move(v, 4)[0] <= float(sum(both)) + ROUNDING


NORMS = {
    "l1": lambda d: np.abs(d).sum(axis=-1),
    "tv": lambda d: np.abs(d).sum(axis=-1) / 2,
    "linf": lambda d: np.abs(d).max(axis=-1),
    "l2": lambda d: np.sqrt((d * d).sum(axis=-1)),
}


@pytest.mark.parametrize("kind", ["individual", "rate", "disparity"])
def test_vectors_move_no_further_than_declared(kind):
    n = 3
    member = np.array([True, False, False]) if kind == "disparity" else None
    q = oracles.vector_tables(kind, n, member)
    change = q[:, :, :1] - q
    delta = declared(kind, n, 1 if kind == "disparity" else None).influence
    weights = oracles.weights_of("shapley", 2)
    matrix = oracles.index_matrix(weights)
    for name, norm in NORMS.items():
        allowed = delta * noise_needed.OF_VECTORS[name]
        v = norm(change)
        assert oracles.largest_move(v, n)[0] <= float(allowed) + 1e-9
        total = oracles.largest_move(v @ matrix, n)[1]
        assert total <= float(noise_needed.factor_of_all(weights) * allowed) + 1e-9
    # All classes together: the smaller of two bounds.
    phi = np.einsum("cwsk,sp->cwpk", change, matrix).reshape(*change.shape[:2], -1)
    together = (
        min(3 * noise_needed.factor_of_all(weights), 2 * 2 * noise_needed.factor_of_one(weights))
        * delta
    )
    assert oracles.largest_move(phi, n)[1] <= float(together) + 1e-9


# --- constants of indices ------------------------------------------------------------------------


@pytest.mark.parametrize("P", range(1, 8))
@pytest.mark.parametrize("index", ["shapley", "banzhaf", 0, 1, 2])
def test_the_closed_form_is_the_enumeration_of_signs(P, index):
    if isinstance(index, int) and index > P - 1:
        index = P - 1
    weights = oracles.weights_of(index, P)
    assert noise_needed.factor_of_all(weights) == oracles.l1_by_signs(weights)
    subtracted = {"shapley": P, "banzhaf": 2 ** (P - 1)}
    last = subtracted[index] if isinstance(index, str) else index + 1
    assert noise_needed.factor_of_one(weights) == 2 - Fraction(1, last)


def test_the_table_of_constants():
    table = {
        "shapley": {1: 1, 2: 2, 3: 3, 6: 4.6, 13: 7.4786},
        "banzhaf": {1: 1, 2: 2, 3: 2.75, 6: 3.75, 13: 5.865},
    }
    for index, row in table.items():
        for P, printed in row.items():
            weights = noise_needed.exact_weights(index_weights(index, P)[0])
            assert float(noise_needed.factor_of_all(weights)) == pytest.approx(printed, abs=5e-5)
    # A report of 13 players: 3.5 times less noise than 2 for each player.
    assert 26 / float(noise_needed.factor_of_all(oracles.weights_of("shapley", 13))) > 3.47


def test_twenty_players_take_no_time():
    weights = oracles.weights_of("shapley", 20)
    total = noise_needed.factor_of_all(weights)
    assert noise_needed.factor_of_one(weights) < total < 20 * noise_needed.factor_of_one(weights)
    # The weights that travel as floats are the fractions that they stand for.
    assert noise_needed.exact_weights(index_weights("shapley", 20)[0]) == tuple(weights)


@pytest.mark.parametrize("P", [1, 2, 3, 4])
def test_chances_of_sets_by_enumeration(P):
    rng = np.random.default_rng(P)
    chance = rng.dirichlet(np.ones(1 << P))
    one, total = noise_needed.factors_of_chances(chance)
    exact = [Fraction(float(c)) for c in chance]
    best, singles = Fraction(0), [Fraction(0)] * P
    for signs in np.ndindex(*(2,) * P):
        s = [1 - 2 * bit for bit in signs]
        sums = Fraction(0)
        for S in range(1, 1 << P):
            inner = Fraction(0)
            for i in range(P):
                inner += s[i] * (exact[S & ~(1 << i)] if S >> i & 1 else -exact[S])
            sums += abs(inner)
        best = max(best, sums)
    for i in range(P):
        for S in range(1, 1 << P):
            singles[i] += exact[S & ~(1 << i)] if S >> i & 1 else exact[S]
    assert best <= total <= best * (1 + Fraction(1, 10**8))
    assert max(singles) <= one <= max(singles) * (1 + Fraction(1, 10**8))


def test_constants_are_attained_by_a_game():
    """For three players by trying all games of -1, 0 and 1."""
    games = np.array(list(np.ndindex(*(3,) * 7))) - 1.0
    delta = np.concatenate([np.zeros((len(games), 1)), games], axis=1)
    for index, (one, all_players) in {"shapley": (5 / 3, 3), "banzhaf": (1.75, 2.75)}.items():
        moved = np.abs(delta @ oracles.index_matrix(oracles.weights_of(index, 3)))
        assert moved.max() == pytest.approx(one)
        assert moved.sum(axis=1).max() == pytest.approx(all_players)


# --- from worlds to releases ---------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize(
    "kind", some_slow(["individual", "average", "rate", "group", "disparity", "signed"], 3)
)
def test_a_release_of_the_worst_neighbours_moves_no_further_than_its_noise_allows(kind, backend):
    n, y = 4, 2 if kind in OF_GROUPS else None
    Q = oracles.tables(kind, n, member_of(n, y), x=2)
    v = Q[:, :, :1] - Q
    unary = kind == "rate"  # whose Shapley values are 0 for two players, donors being the data
    phi = v[:, :, 1:3] if unary else v @ oracles.index_matrix(oracles.weights_of("shapley", 2))
    labels, one, other, distance = oracles.worst_neighbours(phi, n)
    assert distance > 0.2
    model = table_model(labels, backend)
    found = []
    for rows in (one, other):
        members = member_of(n, y)
        quantity = "disparity" if kind == "signed" else kind
        qii = xj.QII(
            model, oracles.bits(rows), quantity=quantity, members=members, signed=kind == "signed"
        )
        given = oracles.bits([2]) if kind == "individual" else None
        found.append(qii.unary(given) if unary else qii.explain(given))
    a, b = (np.array(before_noise(explanation)) for explanation in found)
    moved = np.abs(a - b).sum()
    assert abs(moved / 2**20 - distance) <= 2 * 2**-20  # these are the oracle's neighbours
    for explanation in found:
        needed = planned(explanation).needed
        assert moved <= needed.sensitivity
        assert needed.scale >= needed.sensitivity / 1.0
        weights = oracles.weights_of(0 if unary else "shapley", 2)  # sets of none: unary
        total = noise_needed.factor_of_all(weights) * declared(kind, n, y).influence
        assert needed.sensitivity == math.ceil(2**20 * total) + 2
        one_by_one = planned(explanation, composition="sequential").needed
        single = noise_needed.factor_of_one(weights) * declared(kind, n, y).influence
        assert one_by_one.sensitivity == math.ceil(2**20 * single) + 1
        assert one_by_one.scale >= 2 * one_by_one.sensitivity


# --- Section VII-D -------------------------------------------------------------------------------

# (group, printed, formula behind it, correct, with half the scale)
TABLE = """
White              2.97e-14 4.94e-21  7.05e-6  4.97e-11
Black              5.41e-14 5.416e-14 4.06e-4  1.65e-7
Asian-Pac-Islander 6.14e-5  6.146e-5  0.0745   0.00554
Amer-Indian-Eskimo 0.08     0.0892    0.460    0.211
Other              0.13     0.1330    0.508    0.258
Male               3.3e-47  3.34e-47  2.02e-12 4.08e-24
Female             3.3e-47  3.34e-47  2.02e-12 4.08e-24
"""


def test_the_table_of_losses():
    found = xj.privacy.loss_table()
    assert len(found) == 7
    for row, line in zip(found, TABLE.strip().splitlines(), strict=True):
        group, *numbers = line.split()
        assert row.group == group
        told = (row.paper, row.behind, row.correct, row.halved)
        np.testing.assert_allclose(told, [float(one) for one in numbers], rtol=6e-3)
    # The White row of the paper: 31,000 rows instead of 32,561.
    assert 2 * math.exp(-2 * 0.005 * (31_000 - 27_816)) == pytest.approx(2.97e-14, rel=5e-3)


def test_loss_in_utility_is_a_tail_of_laplace():
    assert xj.privacy.loss_in_utility(2 / 311) == pytest.approx(math.exp(-0.005 * 311 / 2))
    assert xj.privacy.loss_in_utility(0.1, epsilon=2.0, threshold=0.2) == math.exp(-4)
    for wrong in ({"sensitivity": 0.0}, {"sensitivity": 0.1, "epsilon": math.inf}):
        with pytest.raises(xj.InputError):
            xj.privacy.loss_in_utility(**wrong)
