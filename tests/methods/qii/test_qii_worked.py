"""Worked values and hand cases of QII (the spec's 2.9 and section 3)."""

from __future__ import annotations

import numpy as np
import oracles_qii as oracles
import pytest

import xaijax as xj

D = np.array(
    [[0, 0, 1], [0, 1, 1], [1, 0, 2], [1, 1, 0], [0, 1, 2], [1, 1, 2], [0, 0, 0]], np.float32
)
MEMBERS = np.isin(np.arange(7), (0, 1, 4, 6))
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])
# The rates are multiples of 1/49 summed in float32 (JAX): some roundings of numbers up to 1.
ATOL = {"jax": 1e-6, "host": 1e-12}


def classify(r):
    return (r[:, 0] + 2 * r[:, 1] * r[:, 2] + (r[:, 2] == 1) >= 2) * 1.0


def labels(function=classify, backend="jax"):
    return xj.as_model(function, backend=backend, output="label")


def test_the_classes_are_those_of_the_page():
    np.testing.assert_array_equal(classify(D), [0, 1, 0, 0, 1, 1, 0])


@BACKENDS
def test_individual(backend):
    qii = xj.QII(labels(backend=backend), D, quantity="individual")
    shapley = qii.explain(D[5:6])
    np.testing.assert_allclose(shapley.values, [[1 / 21, 1 / 3, 4 / 21]], atol=ATOL[backend])
    banzhaf = qii.explain(D[5:6], index="banzhaf").values
    expected = [[0.0357142857, 0.3214285714, 0.1785714286]]  # the page's ten digits
    np.testing.assert_allclose(banzhaf, expected, rtol=0, atol=max(ATOL[backend], 1e-10))
    whole = shapley.base_values + shapley.values.sum(axis=1)
    np.testing.assert_allclose(whole, [1.0], atol=ATOL[backend])


@BACKENDS
@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("average", (0.0068027211, 0.2925170068, 0.1904761905)),
        ("disparity", (0.0158730159, 0.1170634921, 0.0337301587)),
    ],
)
def test_of_the_data(backend, quantity, expected):
    members = MEMBERS if quantity == "disparity" else None
    qii = xj.QII(labels(backend=backend), D, quantity=quantity, members=members)
    values = qii.explain().values
    assert values.shape == (1, 3)
    np.testing.assert_allclose(values[0], expected, rtol=0, atol=max(ATOL[backend], 1e-10))


TWO = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)


@BACKENDS
def test_and_of_two_fair_bits(backend):
    model = labels(lambda r: (r[:, 0] * r[:, 1] == 1) * 1.0, backend)
    qii = xj.QII(model, TWO, quantity="individual")
    table = qii.game(np.array([[1, 1], [0, 0]], np.float32))
    # (1, 1): one bit replaced is 1/2, both 1/4. (0, 0): nothing, nothing, -1/4.
    np.testing.assert_array_equal(table.values, [[0, 0.5, 0.5, 0.75], [0, 0, 0, -0.25]])
    np.testing.assert_array_equal(table.shapley(), [[0.375, 0.375], [-0.125, -0.125]])


@BACKENDS
def test_exclusive_or(backend):
    model = labels(lambda r: (r[:, 0] != r[:, 1]) * 1.0, backend)
    table = xj.QII(model, TWO).game(TWO[:1])
    np.testing.assert_array_equal(table.values, [[0, 0.5, 0.5, 0.5]])
    np.testing.assert_array_equal(table.shapley(), [[0.25, 0.25]])


@BACKENDS
def test_a_copied_column_is_drawn_jointly(backend):
    """c = [both columns equal]: always so in the data, and for joint draws; apart it is 1/2."""
    data = np.array([[0, 0], [1, 1]], np.float32)
    model = labels(lambda r: (r[:, 0] == r[:, 1]) * 1.0, backend)
    qii = xj.QII(model, data)
    np.testing.assert_array_equal(qii.influence([0, 1]), [0, 0])
    np.testing.assert_array_equal(qii.influence([0]), [0.5, 0.5])


@pytest.mark.slow
@BACKENDS
def test_the_moving_company(backend):
    """Gender goes with lifting and with being hired, and has no influence."""
    gender = np.repeat([1.0, 0.0], 10)
    lifts = np.concatenate([np.ones(8), np.zeros(2), np.ones(2), np.zeros(8)])
    data = np.column_stack([gender, lifts]).astype(np.float32)
    model = labels(lambda r: (r[:, 1] == 1) * 1.0, backend)
    for quantity in ("group", "disparity", "rate"):
        members = None if quantity == "rate" else gender == 0
        qii = xj.QII(model, data, quantity=quantity, members=members)
        assert qii.unary().values[0, 0] == 0.0
        assert qii.explain().values[0, 0] == 0.0


@pytest.mark.slow
@BACKENDS
def test_single_deciding_input(backend):
    """avg iota = P(u_i != x_i); the rate stays as it is."""
    data = np.array([[0, 5], [0, 7], [1, 5], [0, 6]], np.float32)
    model = labels(lambda r: (r[:, 0] == 1) * 1.0, backend)
    average = xj.QII(model, data, quantity="average").influence(["x0"])
    np.testing.assert_allclose(average, [2 * 0.25 * 0.75], atol=ATOL[backend])
    rate = xj.QII(model, data, quantity="rate").influence(["x0"])
    np.testing.assert_allclose(rate, [0.0], atol=ATOL[backend])


@BACKENDS
def test_everything_replaced(backend):
    """Q of a disparity is 0 to the last bit then; `actual`: v(all) = P(c(u) != c(x))."""
    model = labels(backend=backend)
    everything = [0, 1, 2]
    disparity = xj.QII(model, D, quantity="disparity", members=MEMBERS)
    rate = classify(D)
    gap = abs(rate[MEMBERS].mean() - rate[~MEMBERS].mean())
    explained = disparity.explain()
    assert explained.base_values[0] == 0.0
    np.testing.assert_allclose(disparity.influence(everything), [gap], atol=ATOL[backend])
    other = [np.mean(rate != one) for one in rate]
    actual = xj.QII(model, D)
    np.testing.assert_allclose(actual.influence(everything), other, atol=ATOL[backend])
    np.testing.assert_allclose(actual.explain().values.sum(1), other, atol=2 * ATOL[backend])


@pytest.mark.slow
@BACKENDS
@pytest.mark.parametrize("signed", [False, True])
def test_a_disparity_ends_at_zero_to_the_last_bit(backend, signed):
    """Unequal weights, so that the groups' means of one and the same number round apart."""
    rng = np.random.default_rng(1)
    data = rng.normal(size=(50, 3)).astype(np.float32)
    model = labels(lambda r: (r[:, 0] + r[:, 1] * r[:, 2] > 0) * 1.0, backend)
    given = {"quantity": "disparity", "members": data[:, 0] > 0, "signed": signed}
    qii = xj.QII(model, data, data_weights=rng.random(50), **given)
    explained = qii.explain()
    assert explained.base_values[0] == 0.0 and qii.unary().base_values[0] == 0.0
    whole = qii.influence([0, 1, 2])
    np.testing.assert_allclose(qii.game().values[0, -1:], whole, atol=ATOL[backend])
    assert whole[0] != 0


def test_scores_that_look_at_x_differ_between_groups_with_nothing_kept():
    agrees = xj.quantities.Interest("kept", "members and rest", agrees=True, combine=(1, -1))
    qii = xj.QII(labels(), D, quantity=agrees, members=MEMBERS)
    rate = classify(D)
    kept = np.array([np.mean(rate == one) for one in rate])
    expected = kept[MEMBERS].mean() - kept[~MEMBERS].mean()
    np.testing.assert_allclose(qii.explain().base_values, [expected], atol=1e-6)


@BACKENDS
def test_constant_intervention_is_a_simple_game(backend):
    """How does row 5 differ from row 0: every v is 0 or 1, and no threshold is needed."""
    qii = xj.QII(labels(backend=backend), D, pool=xj.Baseline(D[0]))
    table = qii.game(D[5:6])
    assert set(np.unique(table.values)) <= {0.0, 1.0}
    v = dict(zip(oracle_sets(3), table.values[0], strict=True))
    expected = oracles.deegan_packel(lambda S: v[S] == 1, 3)
    np.testing.assert_allclose(table.deegan_packel(), expected[None], atol=1e-15)
    explained = qii.explain(D[5:6], index="deegan-packel")
    np.testing.assert_allclose(explained.values, expected[None], atol=1e-15)
    np.testing.assert_array_equal(explained.stats["margin"], [0.5])


def oracle_sets(P):
    """The sets in the order of a table."""
    return [frozenset(i for i in range(P) if c >> i & 1) for c in range(1 << P)]


def test_deegan_packel_of_a_game_that_is_not_monotone():
    """win = {{0}, {0, 1, 2}}: only {0} is minimal, since every strict subset must lose."""
    values = np.zeros(8)
    values[[0b001, 0b111]] = 1
    table = xj.CoalitionTable(values)
    np.testing.assert_array_equal(table.deegan_packel(), [[1.0, 0.0, 0.0]])


@pytest.mark.parametrize("k", [1, 2, 3])
def test_deegan_packel_of_majority(k):
    """Example 16, corrected: 1 / n, not 1 / (k + 1)."""
    n = 2 * k + 1
    values = np.array([float(int(c).bit_count() > k) for c in range(1 << n)])
    table = xj.CoalitionTable(values)
    np.testing.assert_allclose(table.deegan_packel(), np.full((1, n), 1 / n), atol=1e-15)
    np.testing.assert_array_equal(table.responsibility(), np.full((1, n), 1 / (k + 1)))


def test_samples_needed():
    assert xj.samples_needed(0.01, 0.05, width=1) == 18_445
    assert xj.samples_needed(0.01, 0.05) == 73_778
    assert xj.samples_needed(0.01, 0.05, indices=13) == oracles.hoeffding(0.01, 0.05 / 13, 2)
    assert xj.samples_needed(0.01, 0.05, rates=2) == oracles.hoeffding(0.005, 0.025, 2)
