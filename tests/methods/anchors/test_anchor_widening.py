"""Wider rules: what they are by enumeration, that none is wider still, and what is promised."""

from __future__ import annotations

import numpy as np
import oracles_anchors as oracles
import pytest
from anchor_cases import DATA, WEIGHTS, explainer, host_model, jax_model, one_class
from hypothesis import given, settings
from hypothesis import strategies as st
from often import all_but

import xaijax as xj
from xaijax.methods.anchors.search import SearchResult
from xaijax.methods.anchors.search import search as run_search
from xaijax.methods.anchors.settings import settings_of
from xaijax.methods.anchors.widening import widen
from xaijax_kernels.rules.bandits import widening_rate

E, T = xj.InputError, xj.InputTypeError
EQUAL = np.full(len(DATA), 1 / len(DATA))
CUTS = {2: [-1.0, -0.5, 0.0, 0.5], 3: [-0.5, 0.0, 0.5]}
ENDS = {j: np.r_[-np.inf, np.asarray(cuts, np.float32), np.inf] for j, cuts in CUTS.items()}


def definition(predicates):
    """(columns, cuts) by which the oracle knows such a rule: x is in the bin (low, high]."""
    cuts = [None] * 4
    for one in predicates:
        if len(one) == 3:
            cuts[one[0]] = [end for end in one[1:] if np.isfinite(end)]
    return [one[0] for one in predicates], cuts


def measured(space, x, weights, predicates):
    """(precision, coverage) by enumeration."""
    columns, cuts = definition(predicates)
    own = oracles.precision(space, one_class, x, DATA, weights, columns, cuts)
    return min(own, 1.0), oracles.coverage(x, DATA, weights, columns, cuts)


def steps(x, predicates, ranges=True):
    """Every rule by one step: without a predicate, or with a range up to the next row's bin."""
    for k, one in enumerate(predicates):
        others = predicates[:k] + predicates[k + 1 :]
        yield others
        if len(one) != 3 or not ranges:
            continue
        columns, cuts = definition(others)
        rows = [row for row in DATA if oracles.satisfies(row, x, columns, cuts)]
        ends, (j, low, high) = ENDS[one[0]], one
        below = [row[j] for row in rows if row[j] <= low]
        if below:
            wider = float(max(end for end in ends if end < max(below)))
            yield [*others, (j, wider, high)]
        above = [row[j] for row in rows if row[j] > high]
        if above:
            yield [*others, (j, low, float(min(end for end in ends if end >= min(above))))]


WAYS = [("conditional", False), ("conditional", True), ("joint", False), ("row", True)]


@pytest.mark.slow
@pytest.mark.parametrize(("space", "weighted"), WAYS)
def test_known_rules_are_as_wide_as_single_steps_make_them(space, weighted):
    """Against enumeration in float64; in "row" a predicate is dropped, and no range is wider.

    Fresh draws have that precision too: 80 means at 6 standard errors, and 24 draws near 0 and 1.
    """
    weights = WEIGHTS / WEIGHTS.sum() if weighted else EQUAL
    given_ = {"weights": WEIGHTS} if weighted else {}
    anchors = explainer(host_model(), perturbation=space, bins=CUTS, **given_)
    asked = {"threshold": 0.8, "beam_size": 1, "search": "exact"}
    X = DATA if space != "joint" else DATA[:8]
    plain, wide = anchors.explain(X, **asked), anchors.explain(X, widen=True, **asked)
    changed, fresh = 0, anchors.check(wide, X, 4_000)
    for x, before, rule, again in zip(X, plain, wide, fresh, strict=True):
        error = np.sqrt(rule.precision * (1 - rule.precision) / 4_000)
        assert abs(again - rule.precision) <= 6 * error + 24 / 4_000
        assert rule.accepted == before.accepted and rule.applies(x[None])[0]
        changed += rule.coverage > before.coverage
        if not rule.accepted:
            assert rule.predicates == before.predicates
            continue
        found = rule.precision, rule.coverage
        # Sums of at most 576 weights in float64; the model's classes are whole numbers.
        assert found == pytest.approx(measured(space, x, weights, rule.predicates), abs=1e-12)
        assert rule.precision >= 0.8 and rule.coverage >= before.coverage
        if space == "row":
            assert set(rule.predicates) <= set(before.predicates)
        for wider in steps(x, rule.predicates, ranges=space != "row"):
            precision, coverage = measured(space, x, weights, wider)
            if coverage > rule.coverage + 1e-12:
                assert precision < 0.8
    assert changed == wide.stats["widened"] and wide.provenance["widen"]
    if space != "row":  # a beam seldom leaves a predicate that can go
        assert changed >= len(X) / 4


DRAWS = 20_000
# 12 comparisons of a mean with its expectation at 6 standard errors, and 24 draws where the chance
# is near to 0 or 1: a false alarm has chance 12 x 2e-9 (normal tail). A kernel that draws from x's
# bin alone, or lets the free columns follow, is off by some per cent.


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("space", ["row_bin", "flip"])
def test_a_wider_rule_s_table_has_the_space_s_precision(space, backend):
    model = jax_model() if backend == "jax" else host_model()
    anchors = explainer(model, perturbation=space, bins=CUTS, table_rows=DRAWS)
    X = DATA[:6]
    rules = anchors.explain(X, 0.7, max_size=2, beam_size=1, search="table", widen=True)
    assert rules.stats["widened"] > 0
    fresh = anchors.check(xj.Rules.from_json(rules.to_json()), X, DRAWS)
    for x, rule, again in zip(X, rules, fresh, strict=True):
        precision, coverage = measured(space, x, EQUAL, rule.predicates)
        error = 6 * np.sqrt(precision * (1 - precision) / DRAWS) + 24 / DRAWS
        assert abs(rule.precision - precision) <= error and abs(again - precision) <= error
        assert rule.coverage == pytest.approx(coverage, abs=1e-12)


PLANTED = np.random.default_rng(1).normal(size=(400, 3)).astype(np.float32)
QUARTER = float(np.percentile(PLANTED[:, 0].astype(float), 25))


def above_the_quarter():
    return xj.as_model(lambda z: (z[:, 0] > QUARTER) * 1, output="label", classes=[0, 1])


SLOW = [("row_bin", "table"), ("flip", "sar"), ("joint", "kl-lucb")]
PAIRS = [("row_bin", "kl-lucb"), ("conditional", "exact"), *SLOW]


@pytest.mark.slow
@pytest.mark.parametrize(("space", "search"), all_but(PAIRS, slow=SLOW))
def test_a_half_line_is_found_from_any_bin_of_it(space, search):
    """f = (x0 > the first quartile): three quarters of the rows, or the one below."""
    anchors = xj.AnchorExplainer(above_the_quarter(), PLANTED, perturbation=space)
    X = PLANTED[:12]
    rules = anchors.explain(X, 0.95, beam_size=1, search=search, widen=True)
    plain = anchors.explain(X, 0.95, beam_size=1, search=search)
    for x, rule, before in zip(X, rules, plain, strict=True):
        low, high = (QUARTER, np.inf) if x[0] > QUARTER else (-np.inf, QUARTER)
        assert rule.predicates == [(0, pytest.approx(low), pytest.approx(high))]
        assert rule.coverage == (0.75 if x[0] > QUARTER else 0.25) and rule.precision == 1
        assert before.coverage == 0.25 and rule.samples > before.samples
    alone = anchors.explain(X[::-1], 0.95, beam_size=1, search=search, widen=True)
    assert [str(one) for one in alone] == [str(one) for one in rules][::-1]
    assert anchors.evaluate(rules[0].predicates, X[0]).precision == 1
    np.testing.assert_array_equal(anchors.check(rules, X, 200), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("space", "search"), [("row", "exact"), ("row_bin", "kl-lucb")])
def test_predicates_that_are_not_needed_go(space, search):
    """From rules of all columns to those of the one that the model reads."""
    anchors = xj.AnchorExplainer(above_the_quarter(), PLANTED, perturbation=space)
    game = anchors._problem.game(PLANTED[:12], 1)
    found = SearchResult.empty(12, 3)
    found.rules[:], found.accepted[:] = True, True
    found.cover = game.cover.of(np.arange(12), found.rules[:, None])[:, 0]
    widen(game, found, settings_of(3, search, search, widen=True))
    assert (found.rules == [True, False, False]).all() and (found.precision == 1).all()
    if space == "row":  # x's own value is all that is tested there
        assert (found.cover == 0.25).all() and (game.low == game.high).all()


@pytest.mark.parametrize("cuts", [[0.0], [0.0, 1.0]], ids=["two bins", "an empty one above"])
def test_no_range_is_of_all_rows(cuts):
    """In "joint" it would hold: x0 comes of the same row as x1, by which the model reads it.

    But "x0 is any number" applies to all rows, and says nothing to a reader.
    """
    data = np.repeat(np.array([[-1, 0.5], [1, 1.5], [1, -0.5]], np.float32), 8, axis=0)
    model = xj.as_model(
        lambda z: ((z[:, 1] > 1) == (z[:, 0] > 0)) * 1, output="label", classes=[0, 1]
    )
    anchors = xj.AnchorExplainer(model, data, bins={0: cuts, 1: [0.0]}, perturbation="joint")
    game = anchors._problem.game(data[8:9], 1)
    found = SearchResult.empty(1, 2)
    found.rules[:], found.accepted[:], found.cover[:] = True, True, 1 / 3
    widen(game, found, settings_of(2, "exact", "exact", widen=True))
    assert found.rules.all() and found.widened == 0
    assert (game.low == [[1, 1]]).all() and (game.high == [[1, 1]]).all()
    assert anchors.evaluate([(0, -np.inf, np.inf), 1], data[8]).precision == 1


@pytest.mark.slow
def test_values_drawn_by_weight_are_of_one_bin():
    """There a rule may lose predicates, and keeps x's bin of the others."""
    anchors = xj.AnchorExplainer(above_the_quarter(), PLANTED, weights="balanced")
    X = PLANTED[:12]
    asked = {"beam_size": 1, "search": "table"}
    plain, wide = anchors.explain(X, **asked), anchors.explain(X, widen=True, **asked)
    assert [rule.predicates for rule in wide] == [rule.predicates for rule in plain]
    wrong = xj.AnchorExplainer(above_the_quarter(), PLANTED).explain(X, widen=True)
    with pytest.raises(E, match="cannot draw: its weights= draw within one bin"):
        anchors.check(wrong, X, 50)


@pytest.mark.slow
def test_check_looks_at_bins_only_where_draws_read_them():
    """In "row" a kept column has x's own value, whatever the cuts are."""
    X, model = PLANTED[:12], above_the_quarter()
    made = xj.AnchorExplainer(model, PLANTED, perturbation="row")
    rules = made.explain(X, beam_size=1)
    for bins in ("decile", None):
        other = xj.AnchorExplainer(model, PLANTED, bins=bins, perturbation="row")
        np.testing.assert_array_equal(other.check(rules, X, 200), made.check(rules, X, 200))
    other = xj.AnchorExplainer(model, PLANTED, bins={0: [0.123]})
    with pytest.raises(E, match="cannot draw: its bins have other edges"):
        other.check(xj.AnchorExplainer(model, PLANTED).explain(X), X, 200)


@pytest.mark.slow
@pytest.mark.parametrize("search", ["table", "kl-lucb"])
def test_each_instance_is_told_once(search):
    """When its rule is as wide as it gets, not when the search has found it."""
    anchors = xj.AnchorExplainer(above_the_quarter(), PLANTED)
    asked = settings_of(PLANTED.shape[1], search, search, widen=True)
    told: list[int] = []
    run_search(anchors._problem.game(PLANTED[:12], 1), asked, 0, told.append)
    assert sum(told) == 12 and min(told) >= 0


@pytest.mark.slow
def test_missing_values_are_in_no_range():
    """x0 is missing in a part of the rows, and the model says there what it says above 0."""
    data = PLANTED.copy()
    data[::10, 0] = np.nan
    model = xj.as_model(
        lambda z: (~(np.asarray(z)[:, 0] <= 0)) * 1, backend="host", output="label", allow_nan=True
    )
    anchors = xj.AnchorExplainer(model, data, bins={0: [-1.0, 0.0, 1.0]}, perturbation="row_bin")
    X = np.concatenate([data[:1], data[data[:, 0] > 1][:1], data[data[:, 0] <= -1][:1]])
    rules = anchors.explain(X, 0.95, search="table", widen=True)
    assert rules[0].rule == ["x0 is missing"]
    assert [rule.rule for rule in rules[1:]] == [["x0 > 0"], ["x0 <= 0"]]
    for rule, share in zip(rules, (np.isnan, lambda v: v > 0, lambda v: v <= 0), strict=True):
        assert rule.coverage == pytest.approx(share(data[:, 0]).mean(), abs=1e-12)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_wider_rule_holds_its_instance_and_all_that_it_held(seed):
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 6, (30, 3)).astype(np.float32)  # many rows on an edge, some bins empty
    slope = rng.normal(size=3)
    model = xj.as_model(
        lambda z: (np.asarray(z, float) @ slope > 2.5 * slope.sum()) * 1,
        backend="host",
        output="label",
        classes=[0, 1],
    )
    bins = {j: np.unique(rng.integers(0, 6, 4)).astype(float) for j in range(2)}
    anchors = xj.AnchorExplainer(model, data, bins=bins, perturbation="conditional")
    plain = anchors.explain(data, 0.8, beam_size=1)
    wide = anchors.explain(data, 0.8, beam_size=1, widen=True)
    for x, before, rule in zip(data, plain, wide, strict=True):
        assert rule.applies(x[None])[0] and set(rule.features) <= set(before.features)
        assert not (before.applies(data) & ~rule.applies(data)).any()
        assert rule.coverage == pytest.approx(rule.applies(data).mean(), abs=1e-12)
        for one in rule.predicates:
            if len(one) == 3:
                assert {*one[1:]} <= {-np.inf, *bins[one[0]], np.inf} and one[1] < one[2]


STEPS, SHARE = 12, 0.92  # columns that could go, and the precision of the rule without one


@pytest.mark.slow
def test_what_holds_for_a_rule_holds_for_the_one_that_comes_out():
    """Each of twelve steps has a precision of 0.92, below threshold - stop_epsilon = 0.93.

    Of 400 instances at most a share of delta = 0.1 may come out with such a rule: above 76 is a
    false alarm of chance below 9e-7 (the KL bound of a binomial). With delta / 2 at each look at
    each step 109 came out, accepted by their mean alone all.
    """
    B, N = 100, 400
    data = np.ones((B, STEPS + 1), np.float32)
    each = round((1 - SHARE) * B)
    for f in range(STEPS):
        data[f * each : (f + 1) * each, f] = 0
    X = np.ones((N, STEPS + 1), np.float32)
    X[:, -1] = np.arange(N) + 2  # what sets the draws of the instances apart
    model = xj.as_model(lambda z: z[:, :STEPS].all(axis=1) * 1, output="label", classes=[0, 1])
    anchors = xj.AnchorExplainer(model, data, bins=None, perturbation="row")
    asked = settings_of(
        STEPS + 1,
        "kl-lucb",
        "kl-lucb",
        threshold=0.97,
        delta=0.1,
        stop_epsilon=0.04,
        batch_size=5,
        widen=True,
    )
    game = anchors._problem.game(X, 1)
    found = SearchResult.empty(N, STEPS + 1)
    found.rules[:, :STEPS] = True
    found.accepted[:] = True
    every = np.arange(N)
    found.cover = game.cover.of(every, found.rules[:, None])[:, 0]
    widen(game, found, asked)
    assert found.widened == np.count_nonzero(found.rules[:, :STEPS].sum(axis=1) < STEPS)
    assert found.widened <= 76
    assert (found.samples >= STEPS * 5).all()


def test_the_shares_of_all_looks_at_all_steps_are_delta():
    """Summed to 2,000 each way: the rest of sum 1 / i^2 is 1 / 2,000."""
    c, t = np.arange(1, 2001)[:, None], np.arange(1, 2001)[None]
    total = np.exp(-widening_rate(c, t, 0.05)).sum()
    assert 0.05 * (1 - 2e-3) < total < 0.05
    assert widening_rate(1, 1, 0.05) == pytest.approx(np.log(20) + 2 * np.log(np.pi**2 / 6))


def test_what_cannot_be_widened_is_refused():
    anchors = explainer(perturbation="row")
    with pytest.raises(E, match=r"widen=True and confirm=0\.5"):
        anchors.explain(DATA, search="exact", confirm=0.5, widen=True)
    with pytest.raises(T, match="widen must be True or False"):
        anchors.explain(DATA, widen=1)
    sampled = explainer(perturbation=lambda X, kept, u: X)
    with pytest.raises(E, match="widen=True needs a built-in space"):
        sampled.explain(DATA, widen=True)
    grouped = xj.AnchorExplainer(jax_model(), DATA, players=[[0, 1], [2, 3]], perturbation="row")
    with pytest.raises(E, match="players= have no bins"):
        grouped.explain(DATA, widen=True)
