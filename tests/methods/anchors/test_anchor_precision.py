"""Precision and coverage of single rules in every space, against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import oracles_anchors as oracles
import pytest
from anchor_cases import DATA, EDGES, WEIGHTS, X, explainer, host_model, jax_model, one_class
from often import some_slow

import xaijax as xj

EQUAL = np.full(len(DATA), 1 / len(DATA))
RULES = [(), (0,), (2,), (0, 2), (1, 3), (0, 2, 3)]
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])


def model_of(backend):
    return jax_model() if backend == "jax" else host_model()


def expected(space, x, rule, weights, edges=EDGES, p=0.5):
    found = oracles.precision(space, one_class, x, DATA, weights, rule, edges, p)
    # Sums of many chances round past 1.
    return min(max(found, 0.0), 1.0), oracles.coverage(x, DATA, weights, rule, edges)


@BACKENDS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("space", some_slow(["row", "conditional", "joint"], 3))
def test_exact_precision_is_the_definition(space, weighted, backend):
    weights = WEIGHTS / WEIGHTS.sum() if weighted else EQUAL
    anchors = explainer(
        model_of(backend), perturbation=space, weights=WEIGHTS if weighted else None
    )
    for x, rule in itertools.product(X, RULES):
        found = anchors.evaluate(list(rule), x, search="exact")
        precision, coverage = expected(space, x, rule, weights)
        # Sums of at most 576 weights in float64; the model's classes are whole numbers.
        np.testing.assert_allclose(found.precision, precision, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.coverage, coverage, rtol=0, atol=1e-12)
        assert found.precision_lower is None and found.search == "exact"


@BACKENDS
@pytest.mark.parametrize("p", [0.5, 0.2, 1.0])
def test_flips_are_enumerated_where_columns_go_by_equality(p, backend):
    anchors = explainer(
        model_of(backend), perturbation="flip", flip_probability=p, bins=None, weights=WEIGHTS
    )
    equality = [None] * 4
    for x, rule in itertools.product(X[:2], RULES):
        found = anchors.evaluate(list(rule), x, search="exact")
        precision, coverage = expected("flip", x, rule, WEIGHTS / WEIGHTS.sum(), equality, p)
        np.testing.assert_allclose(found.precision, precision, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.coverage, coverage, rtol=0, atol=1e-12)


DRAWS = 40_000
# 120 comparisons of a mean with its expectation at 6 standard errors: a false alarm has chance
# 120 x 2e-9 = 2.4e-7 (normal tail; the binomial's is alike at 40,000 draws and n p above 100), and
# 20 / DRAWS where the chance is nearer to 0 or 1. Broken versions that it catches: free columns of
# in-bin draws, kept columns left to the donor, a hash that repeats.


@pytest.mark.slow
@BACKENDS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("space", ["row", "row_bin", "flip", "joint", "conditional"])
def test_draws_have_the_space_s_precision(space, weighted, backend):
    weights = WEIGHTS / WEIGHTS.sum() if weighted else EQUAL
    anchors = explainer(
        model_of(backend), perturbation=space, weights=WEIGHTS if weighted else None
    )
    for x, rule in itertools.product(X[:2], RULES):
        found = anchors.evaluate(list(rule), x, search="kl-lucb", samples=DRAWS)
        precision, _ = expected(space, x, rule, weights)
        error = np.sqrt(precision * (1 - precision) / DRAWS)
        assert abs(found.precision - precision) <= 6 * error + 20 / DRAWS, (rule, precision)
        assert found.samples == DRAWS and found.precision_lower <= found.precision


@pytest.mark.slow
@BACKENDS
@pytest.mark.parametrize("space", ["row_bin", "flip"])
def test_the_table_has_the_space_s_precision(space, backend):
    """A table of as many draws, of which the donors are taken in turn: its spread is less still."""
    anchors = explainer(model_of(backend), perturbation=space, weights=WEIGHTS, table_rows=DRAWS)
    for x, rule in itertools.product(X[:2], RULES):
        found = anchors.evaluate(list(rule), x, search="table")
        precision, _ = expected(space, x, rule, WEIGHTS / WEIGHTS.sum())
        error = np.sqrt(precision * (1 - precision) / DRAWS)
        assert abs(found.precision - precision) <= 6 * error + 24 / DRAWS
        assert (
            abs(found.std_error - np.sqrt(found.precision * (1 - found.precision) / DRAWS)) < 1e-9
        )


@pytest.mark.slow
def test_facts_of_the_reading():
    """7.2: (i) in-bin draws of all columns may miss; (ii) not monotone; (iii) flip inflates."""
    data = np.array([[1.0], [2.0], [3.0]], np.float32)
    model = xj.as_model(lambda r: (r[:, 0] > 1.5) * (r[:, 0] < 2.5) * 1.0, output="label")
    space = xj.AnchorExplainer(model, data, bins={0: [9.0]}, table_rows=3)
    assert abs(space.evaluate([0], data[1], search="kl-lucb").precision - 1 / 3) < 0.03
    row = xj.AnchorExplainer(model, data, bins={0: [9.0]}, perturbation="row")
    assert row.evaluate([0], data[1]).precision == 1.0
    # f = 1 where both columns are equal: fixing the first takes the precision from .75 to .25.
    pairs = np.array([[0, 0], [0, 0], [0, 0], [1, 0]], np.float32)
    equal = xj.as_model(lambda r: (r[:, 0] == r[:, 1]) * 1, output="label")
    row = xj.AnchorExplainer(equal, pairs, bins=None, perturbation="row")
    x = np.array([1, 1], np.float32)
    assert row.evaluate([], x).precision == 0.75 and row.evaluate([0], x).precision == 0.0
    flip = xj.AnchorExplainer(equal, pairs, bins=None, perturbation="flip")
    assert flip.evaluate([0], x).precision == 0.5
    # (iv) on correlated columns spaces differ: .5 against 1.
    same = np.array([[0, 0], [1, 1]] * 4, np.float32)
    both = xj.as_model(lambda r: (r[:, 0] * r[:, 1] == 1) * 1, output="label")
    for space, value in (("row", 0.5), ("conditional", 1.0)):
        anchors = xj.AnchorExplainer(both, same, bins=None, perturbation=space)
        assert anchors.evaluate([0], same[1]).precision == value


@pytest.mark.slow
def test_predicates_of_ones_own():
    """An interval that is no bin, and a set of categories."""
    anchors = explainer(perturbation="row_bin", table_rows=DRAWS)
    x = X[0]
    low, high = (float(np.float32(x[2] + step)) for step in (-0.3, 0.9))
    found = anchors.evaluate([(2, low, high), (1, (0, 1, 2))], x)
    inside = (DATA[:, 2] > low) & (DATA[:, 2] <= high)
    assert abs(found.coverage - inside.mean()) < 1e-12
    assert found.predicates[0] == (2, low, high) or found.predicates[1] == (2, low, high)
    np.testing.assert_array_equal(found.applies(DATA), inside)
    edges = [None, [9.0], [low, high], [0.0]]
    precision, _ = expected("row_bin", x, (1, 2), EQUAL, edges)
    assert abs(found.precision - precision) <= 6 * 0.5 / np.sqrt(DRAWS) + 24 / DRAWS


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("space", some_slow(["row", "row_bin", "flip", "conditional", "joint"]))
def test_a_precision_on_its_threshold_is_accepted(space, weighted):
    """k of n rows reach the threshold k / n, as a ratio of counts and as a sum of weights."""
    for k, n in ((14, 15), (2, 3), (5, 6), (6, 7)):
        data = np.column_stack([np.zeros(n), np.arange(n)])
        answers = np.arange(n) >= n - k

        def f(rows, answers=answers):
            return answers[rows[:, 1].astype(int)] * 1

        model = xj.as_model(f, output="label", backend="host")
        # Unequal weights, of which a first row of weight 0 counts for nothing.
        weights = np.r_[1.0, np.full(n - 1, 2.0)] if weighted else None
        share = 1.0 if weights is None else weights[answers].sum() / weights.sum()
        threshold = share if weighted else k / n
        anchors = xj.AnchorExplainer(
            model, data, bins=None, perturbation=space, weights=weights, flip_probability=1.0
        )
        rule = anchors.evaluate([0], data[-1], threshold=threshold, search="exact")
        assert rule.accepted and rule.precision == pytest.approx(threshold, abs=1e-12)
        if not weighted:
            assert rule.precision == k / n or space == "flip"
        found = anchors.explain(data[-1:], threshold=threshold, max_size=0, search="exact")[0]
        assert found.accepted and found.rule == []
        assert not anchors.evaluate([0], data[-1], np.nextafter(threshold, 1) + 1e-9).accepted
