"""Games cut at a threshold: values equal to it by definition reach it, whatever their last bit."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import xaijax as xj
from xaijax.results.coalition_table import UNIT

POOLS = (10, 20, 30, 50, 60, 90, 100)


def reached(backend, N):
    """v of the last of N rows 0 .. N - 1 whose class is [x >= k]: k / N, for k = 1 .. N - 1."""
    rows = np.arange(N, dtype=np.float64)[:, None]
    found = {}
    for k in range(1, N):
        model = xj.as_model(lambda r, k=k: (r[:, 0] >= k) * 1, backend=backend, output="label",
                            classes=[0, 1])  # fmt: skip
        qii = xj.QII(model, rows, quantity="individual")
        found[k] = (qii, rows[-1:])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("N", POOLS)
def test_every_tie_wins(N):
    """v = k / N and threshold = k / N: both indices have the lone player; a step above nobody."""
    for k, (qii, x) in reached("host", N).items():
        table = qii.game(x)
        assert table.deegan_packel(threshold=k / N) == [[1.0]]
        assert table.responsibility(threshold=k / N) == [[1.0]]
        assert table.deegan_packel(threshold=k / N, absolute=True) == [[1.0]]
        assert table.deegan_packel(threshold=(k + 1e-9) / N) == [[0.0]]
        found = qii.explain(x, index="deegan-packel", threshold=k / N)
        assert found.values == [[1.0]]
        # The margin is not made 0: it is the distance of the numbers as they are.
        v = table.values[0]
        np.testing.assert_array_equal(table.margin(k / N), np.abs(v - k / N).min())
        np.testing.assert_array_equal(found.stats["margin"], table.margin(k / N))


@pytest.mark.slow
def test_ties_of_a_jax_model():
    for k, (qii, x) in reached("jax", 10).items():
        assert qii.game(x).deegan_packel(threshold=k / 10) == [[1.0]]


@pytest.mark.parametrize("quantity", ["rate", "average", "group", "disparity", "signed", "ratio"])
def test_ties_of_the_data(quantity):
    """Every value of the exact table, as a threshold, is reached by the set that has it."""
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 3, (30, 3)).astype(float)
    members = rows[:, 2] + rng.integers(0, 2, 30) > 1
    model = xj.as_model(
        lambda r: (r[:, 0] + 2 * r[:, 1] * r[:, 2] >= 2) * 1, backend="host", output="label",
        classes=[0, 1],
    )  # fmt: skip
    options = {} if quantity in ("rate", "average") else {"members": members}
    name = "disparity" if quantity == "signed" else quantity
    qii = xj.QII(model, rows, quantity=name, signed=quantity == "signed", **options)
    exact = exact_table(rows, members, quantity)
    table = qii.game()
    gap = max(abs(Fraction(float(a)) - b) for a, b in zip(table.values[0], exact, strict=True))
    assert gap <= Fraction(float(table.rounding[0])) < Fraction(1, 10**12)
    for value in exact:
        if abs(value) > 0:
            win = np.array([abs(one) >= abs(value) for one in exact], float)
            expected = xj.CoalitionTable(win).deegan_packel()
            found = table.deegan_packel(threshold=float(abs(value)), absolute=True)
            np.testing.assert_array_equal(found, expected)


def exact_table(rows, members, quantity):
    """v in fractions, by the definition."""
    label = lambda r: int(r[0] + 2 * r[1] * r[2] >= 2)  # noqa: E731
    Q = []
    for S in range(8):
        chosen = [i for i in range(3) if S >> i & 1]
        scores = []
        for x in rows:
            hits = 0
            for u in rows:
                z = x.copy()
                z[chosen] = u[chosen]
                hits += label(z) == label(x) if quantity == "average" else label(z)
            scores.append(Fraction(hits, len(rows)))
        a, b = (
            sum((s for s, own in zip(scores, which, strict=True) if own), Fraction(0)) / which.sum()
            for which in (members, ~members)
        )
        whole = sum(scores, Fraction(0)) / len(rows)
        known = {"group": a, "disparity": abs(a - b), "signed": a - b, "ratio": a / b}
        Q.append(known.get(quantity, whole))
    return [Q[0] - one for one in Q]


@pytest.mark.slow
def test_zeros_and_ones_are_known_in_spite_of_rounded_weights():
    """One row, seven times, with weights whose sum is 1 but for a rounding."""
    rng = np.random.default_rng(0)
    rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], float)
    model = xj.as_model(
        lambda r: (r[:, 0] * r[:, 1] == 1) * 1, backend="host", output="label", classes=[0, 1]
    )
    uneven = 0
    for _ in range(30):
        given = {"pool": np.repeat(rows[:1], 7, 0), "pool_weights": rng.random(7)}
        qii = xj.QII(model, rows, **given)
        table = qii.game(rows[3:])
        uneven += not np.isin(table.values, (0.0, 1.0)).all()
        np.testing.assert_array_equal(table.deegan_packel(), [[0.5, 0.5]])  # {0} and {1} win
        assert abs(table.margin()[0] - 0.5) <= table.rounding[0]
        qii.explain(rows[3:], index="deegan-packel")
    assert uneven  # else it shows nothing


def test_a_table_of_ones_own():
    """Means of up to 2^20 numbers, if nothing else is said; rounding=0.0 is as the bits are."""
    values = [0, 1 - 0.9, 0.1, 0.1]
    table = xj.CoalitionTable(values)
    assert values[1] < 0.1
    np.testing.assert_array_equal(table.rounding, [2.0**20 * UNIT * 0.1])
    np.testing.assert_array_equal(table.deegan_packel(0.1), [[0.5, 0.5]])
    bits = xj.CoalitionTable(values, rounding=0.0)
    np.testing.assert_array_equal(bits.deegan_packel(0.1), [[0.0, 1.0]])
    np.testing.assert_array_equal(bits.margin(0.1), [0.0])
    assert bits.merge(0, 1).rounding == [0.0]


def test_what_one_game_rounds_does_not_reach_another():
    """A game of large values beside it changes nothing in a game of small ones."""
    small = [0, 1e-9, 0, 1e-9]
    both = xj.CoalitionTable([small, [0, 1e6, 0, 1e6]])
    np.testing.assert_array_equal(both.rounding[:1], xj.CoalitionTable(small).rounding)
    assert both.rounding[1] > 1e-9 > both.rounding[0]


@pytest.mark.parametrize("rounding", [-1.0, np.nan, np.inf, [0.1, 0.2], np.ones(3)])
def test_rounding_is_checked(rounding):
    wrong = isinstance(rounding, list)
    with pytest.raises(xj.InputTypeError if wrong else xj.InputError, match="rounding must be"):
        xj.CoalitionTable([0.0, 1.0], rounding=rounding)


def test_a_threshold_that_the_empty_set_would_reach():
    table = xj.CoalitionTable([0.0, 1e6])
    with pytest.raises(xj.InputError, match="within what rounding leaves.*rounding=0.0"):
        table.deegan_packel(1e-9)
    loose = xj.CoalitionTable([0.0, 1e6], rounding=0.0)
    np.testing.assert_array_equal(loose.deegan_packel(1e-9), [[1.0]])


GAPS = {
    "signed": {"quantity": "disparity", "signed": True},
    "absolute": {"quantity": "disparity"},
    "scaled": {"quantity": xj.quantities.Interest("g", whom="members and rest", combine=(9, -9))},
}


def groups_alike(size, level=1.0):
    """Members and others have the same rows but for the order, so that a gap of means is 0."""
    rng = np.random.default_rng(size)
    own = rng.integers(0, 3, (size, 2)).astype(float)
    rows = np.concatenate([own, own[rng.permutation(size)]])
    member = np.repeat([1.0, 0.0], size)

    def f(r):
        return level * (0.1 + 0.2 * r[:, 0] + 0.1 * r[:, 1] * r[:, 0])

    return np.column_stack([rows, member]), f


@pytest.mark.parametrize("backend", ["host", "jax"])
@pytest.mark.parametrize("gap", sorted(GAPS))
def test_a_gap_of_zero_is_no_model_that_does_not_repeat_itself(gap, backend):
    """Equal means differ by rounding of the means, which their gap says nothing of."""
    for size in (3, 7, 13) if backend == "host" else (7,):
        rows, f = groups_alike(size)
        model = xj.as_model(f, backend=backend)
        qii = xj.QII(model, rows, members={2: 1.0}, outcome="score", **GAPS[gap])
        found = qii.explain()
        factor = 9 if gap == "scaled" else 1
        assert abs(found.stats["quantity"][0]) <= factor * 1e-6
        bound = found.stats["efficiency_bound"]
        # Of the size of the means, 0.1 to 0.9, in the model's precision; not of their gap.
        unit = 2.0**-53 if backend == "host" else 2.0**-24
        assert (bound >= 0.1 * factor * unit).all() and (bound <= 1e4 * factor * unit).all()
        assert (found.stats["efficiency_residual"] <= bound).all()


@pytest.mark.parametrize("backend", ["host", "jax"])
@pytest.mark.parametrize("outcome", ["score", "label"])
@pytest.mark.parametrize("gap", sorted(GAPS))
def test_a_gap_of_zero_of_answers_that_never_change(gap, outcome, backend):
    """Nothing changes a score, so that the size of the changes bounds nothing either."""
    for members, others in ((3, 4), (7, 12), (13, 49)) if backend == "host" else ((7, 12),):
        rows = np.repeat([[1.0], [0.0]], [members, others], axis=0)
        model = xj.as_model(lambda r: 0 * r[:, 0] + 0.7, backend=backend, threshold=0.5)
        qii = xj.QII(model, rows, members={0: 1.0}, outcome=outcome, **GAPS[gap])
        found = qii.explain()
        # 49 weights of 1 / 49 make a mean that is off by a few roundings, which a gap shows.
        np.testing.assert_allclose(found.values, 0, atol=9 * 16 * 2.0**-53)
        assert (found.stats["efficiency_residual"] <= found.stats["efficiency_bound"]).all()


@pytest.mark.slow
def test_a_gap_by_a_structure_is_next_to_the_model_s_own():
    """The absolute gap of a linear model's chances, by its first layer and by itself."""
    rows, _ = groups_alike(11)
    model = LogisticRegression().fit(rows, rows[:, 0] > rows[:, 1])
    for signed in (True, False):
        for outcome in ("label", "score"):
            qii = xj.QII(model, rows, quantity="disparity", members={2: 1.0}, outcome=outcome,
                         signed=signed)  # fmt: skip
            qii.explain()


def test_a_model_that_does_not_repeat_itself_is_still_found():
    rows, f = groups_alike(7)
    calls = []

    def drifting(r):
        calls.append(len(r))
        return f(r) + 1e-3 * len(calls)

    model = xj.as_model(drifting, backend="host")
    qii = xj.QII(model, rows, quantity="disparity", signed=True, members={2: 1.0}, outcome="score",
                 bounds=(0, 2), batch_size=16)  # fmt: skip
    with pytest.raises((xj.ModelOutputError, xj.NonDeterministicModelError)):
        qii.explain()


def test_ties_of_a_gap_allow_for_the_rounding_of_the_means():
    """v(S) of equal means is 0 within the rounding of a table, for scores of one's own too."""
    rows, f = groups_alike(13, level=1e6)
    score = xj.quantities.Interest(
        "gap", whom="members and rest", combine=(1, -1), score=lambda answers, own: answers[:, 0]
    )
    model = xj.as_model(f, backend="host")
    table = xj.QII(
        model, rows, quantity=score, members={2: 1.0}, outcome="score", bounds=(0, 1e7)
    ).game()
    level = f(rows).max()
    assert np.abs(table.values[:, 4]).max() <= table.rounding[0]  # the group's column alone
    assert 2.0**-53 * level <= table.rounding[0] <= 1e3 * 2.0**-53 * level
