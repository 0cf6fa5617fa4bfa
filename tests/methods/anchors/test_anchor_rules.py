"""What a person gets: sentences, tables, JSON, HTML, rules that apply, a pick, samplers."""

from __future__ import annotations

import copy
import re

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from anchor_cases import DATA, X, explainer, jax_model

import xaijax as xj
from xaijax.core.html import DOWN, GREY, PALE
from xaijax_kernels.rules.perturbed_rows import keys_of

TITANIC = pd.DataFrame(
    {
        "Sex": ["female", "male"] * 20,
        "Class": ["first", "first", "second", "third"] * 10,
        "Age": np.arange(40.0),
    }
)


def survived(rows):
    return ((rows["Sex"] == "female") & (rows["Class"] == "first")).to_numpy()


def titanic(**options):
    model = xj.as_model(survived, backend="host", output="label")
    return xj.AnchorExplainer(model, TITANIC, target="Survived", **options)


@pytest.mark.slow
def test_the_sentence_of_the_chapter():
    rule = titanic(perturbation="row").explain(TITANIC[:1])[0]
    assert rule.rule == ["Sex = female", "Class = first"]
    assert rule.predicates == [(0, ("female",)), (1, ("first",))] and rule.features == (0, 1)
    assert rule.prediction is True and rule.accepted and rule.coverage == 0.25
    assert str(rule) == (
        "IF Sex = female AND Class = first THEN PREDICT Survived = true WITH PRECISION 100% AND "
        "COVERAGE 25%"
    )


def test_percentages_are_never_rounded_to_all_or_nothing():
    rule = titanic(perturbation="row").explain(TITANIC[:1])[0]
    fields = {**vars(rule), "precision": 0.998, "coverage": 0.0004}
    text = str(xj.Rule(**fields))
    assert "PRECISION 99.8% AND COVERAGE 0.04%" in text


@pytest.mark.slow
def test_bins_in_words():
    model = xj.as_model(lambda r: (r[:, 0] > 2) * 1, output="label")
    data = np.arange(8, dtype=np.float32)[:, None]
    anchors = xj.AnchorExplainer(model, data, feature_names=["temp"], bins={"temp": [2, 5]})
    words = [rule.rule for rule in anchors.explain(data[[0, 4, 7]])]
    assert words == [["temp <= 2"], ["2 < temp <= 5"], ["temp > 5"]]
    predicates = [rule.predicates for rule in anchors.explain(data[[0, 4, 7]])]
    assert predicates == [[(0, -np.inf, 2.0)], [(0, 2.0, 5.0)], [(0, 5.0, np.inf)]]
    row = xj.AnchorExplainer(model, data, bins={0: [2, 5]}, perturbation="row").explain(data[:1])
    assert str(row[0]).endswith("(TESTED AT THE INSTANCE'S OWN VALUES)")
    empty = explainer(perturbation="row").explain(X, max_size=0, threshold=0.01)
    assert str(empty[0]).startswith("IF TRUE THEN PREDICT ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bins", "edges"), [("quartile", [25, 50, 75]), ("decile", range(10, 100, 10))]
)
def test_quantile_bins(bins, edges):
    rows = np.random.default_rng(0).normal(size=(101, 1)).astype(np.float32)
    model = xj.as_model(lambda r: r[:, 0] * 0, output="label")
    cuts = np.percentile(rows[:, 0].astype(np.float64), list(edges))
    anchors = xj.AnchorExplainer(model, rows, bins=bins)
    for x in rows[:20]:
        low, high = anchors.evaluate([0], x).predicates[0][1:]
        inside = np.r_[-np.inf, cuts, np.inf]
        place = np.searchsorted(cuts, x[0], side="left")
        assert (low, high) == (inside[place], inside[place + 1])


@pytest.mark.slow
def test_equal_quantiles_become_one():
    rows = np.zeros((9, 1), np.float32)
    model = xj.as_model(lambda r: r[:, 0], output="label")
    rule = xj.AnchorExplainer(model, rows).evaluate([0], rows[0])
    assert rule.predicates == [(0, -np.inf, 0.0)] and rule.coverage == 1.0


@pytest.mark.slow
def test_categories_have_names():
    data = np.array([[0, 1], [1, 1], [2, 0], [1, 0]], np.float32)
    model = xj.as_model(lambda r: (r[:, 0] == 1) * 1, output="label")
    for names in (["red", "green", "blue"], {0: "red", 1: "green", 2: "blue"}):
        anchors = xj.AnchorExplainer(
            model, data, ["colour", "b"], {"colour": names}, perturbation="row"
        )
        rule = anchors.explain(data[1:2])[0]
        assert rule.rule == ["colour = green"] and rule.predicates == [(0, (1.0,))]
        own = anchors.evaluate([("colour", "green")], data[1])
        assert own.rule == rule.rule and own.precision == 1.0


def test_rules_apply_where_their_predicates_hold():
    rules = explainer(perturbation="row").explain(DATA)
    for rule, x in zip(rules, DATA, strict=True):
        assert rule.applies(x[None])[0]
        assert rule.applies(DATA).mean() == pytest.approx(rule.coverage, abs=1e-12)


@pytest.mark.slow
def test_a_missing_value_is_a_bin_of_its_own():
    data = np.array([[np.nan], [1], [2], [3], [np.nan]], np.float32)
    model = xj.as_model(
        lambda r: jnp.isnan(r[:, 0]) * 1, output="label", allow_nan=True, nonfinite="raise"
    )
    rule = xj.AnchorExplainer(model, data, perturbation="row").explain(data[:1])[0]
    assert rule.rule == ["x0 is missing"] and rule.coverage == 0.4 and rule.accepted
    np.testing.assert_array_equal(rule.applies(data), np.isnan(data[:, 0]))


def test_json_and_files_bring_back_the_rules(tmp_path):
    rules = explainer(perturbation="row").explain(DATA, threshold=0.9)
    again = xj.Rules.load(rules.save(tmp_path / "rules.json"))
    assert [str(r) for r in again] == [str(r) for r in rules]
    assert [r.predicates for r in again] == [r.predicates for r in rules]
    assert [r.as_dict() for r in copy.deepcopy(rules)] == [r.as_dict() for r in again]
    for rule, other in zip(rules, again, strict=True):
        np.testing.assert_array_equal(rule.applies(DATA), other.applies(DATA))
    with pytest.raises(xj.InputError, match="no text of Rules"):
        xj.Rules.from_json('{"format": "other"}')


def test_tables_pages_and_the_repr():
    rules = titanic(perturbation="row").explain(TITANIC[:4])
    frame = rules.to_dataframe()
    assert list(frame["precision"]) == [rule.precision for rule in rules]
    assert frame.loc[0, "rule"] == "Sex = female AND Class = first"
    page = rules.to_html()
    assert (
        page.count("THEN PREDICT") == 4 and "<b>Sex = female</b> AND <b>Class = first</b>" in page
    )
    assert "<b>Survived = true</b>" in page
    shown = rules._repr_html_()
    assert shown.count("THEN PREDICT") == 4 and "4 instances" in shown and "more</p>" not in shown
    assert "4 instances" in repr(rules) and "precision" not in repr(rules[0]).split("WITH")[0]
    assert rules[1:3].rules == rules.rules[1:3] and rules[[0, 2]].rules[1] is rules[2]


def test_names_are_escaped():
    data = np.array([[0], [1]], np.float32)
    model = xj.as_model(lambda r: r[:, 0], output="label")
    anchors = xj.AnchorExplainer(model, data, ["<b>x</b>"], [0], perturbation="row")
    page = anchors.explain(data).to_html()
    assert "<b>x</b>" not in page and "&lt;b&gt;x&lt;/b&gt; = 0" in page


def test_a_notebook_shows_sentences_with_bars():
    """The widths of the bars are precision, its lower bound and coverage; the bound never rises."""
    fields = {"prediction": "<i>", "coverage": 0.15, "samples": 9, "search": "kl-lucb"}
    fields |= {"accepted": False, "note": "a & b", "target": "y", "std_error": 0.01}
    rule = xj.Rule(["x > 1"], [(0, 1.0, np.inf)], precision=0.97, precision_lower=0.9199, **fields)
    page = rule._repr_html_()
    bars = re.findall(r"(#\w{6}) ([\d.]+)% ([\d.]+)%", page)
    expected = [(DOWN, "0.0", "92.0"), (PALE, "92.0", "97.0"), (GREY, "0.0", "15.0")]
    assert bars == expected
    assert "97%, at least 91.9%" in page and "15%</td>" in page
    assert "IF <b>x &gt; 1</b> THEN PREDICT <b>y = &lt;i&gt;</b>" in page
    assert "(not accepted; a &amp; b)" in page
    assert not re.search(r"https?:|src=|<script|<i>\W*y", page)
    many = xj.Rules((rule,) * 25)
    assert many._repr_html_().count("THEN PREDICT") == 10 and "and 15 more" in many._repr_html_()
    fields |= {"coverage": None, "std_error": None}
    exact = xj.Rule([], [], precision=1.0, precision_lower=None, **fields)._repr_html_()
    assert "exact for the data given" in exact and "coverage" not in exact and "IF TRUE" in exact


def test_the_pick_covers_most():
    """Greedy by hand: 5 rows, then 3 more, then 1; a rule that adds nothing is not taken."""
    rows = np.arange(10, dtype=np.float32)[:, None]

    def rule(low, high, accepted=True):
        fields = {"prediction": 1, "precision": 1.0, "precision_lower": None, "coverage": 0.1}
        fields |= {"accepted": accepted, "samples": 1, "search": "exact"}
        return xj.Rule(rule=["x"], predicates=[(0, low, high)], **fields)

    rules = xj.Rules((rule(6, 8), rule(0, 5), rule(3, 8), rule(-1, 0), rule(-9, 99, False)))
    picked = rules.pick(5, rows)
    assert picked.stats["picked"] == (1, 2, 3)
    assert picked.stats["covered"] == (0.5, 0.8, 0.9)
    assert len(rules.pick(1, rows)) == 1


def test_regression_by_a_band():
    """f = column 0: within 1 of 5 are the values 4, 5 and 6 of eleven."""
    data = np.column_stack([np.arange(11), np.zeros(11)]).astype(np.float32)
    model = xj.as_model(lambda r: r[:, 0])
    anchors = xj.AnchorExplainer(
        model, data, bins={0: [3, 6]}, perturbation="conditional", tolerance=1.0, target="y"
    )
    x = data[5]
    assert anchors.evaluate([], x).precision == pytest.approx(3 / 11)
    rule = anchors.explain(x[None])[0]
    assert rule.precision == 1.0 and rule.prediction == 5.0 and rule.rule == ["3 < x0 <= 6"]
    assert "THEN PREDICT y = 5 +- 1 WITH" in str(rule)


def test_classes_by_name():
    rules = explainer(perturbation="row").explain(DATA)
    labels = jax_model().labels(DATA)
    assert [rule.prediction for rule in rules] == labels.tolist()
    assert len(set(labels)) == 3


def normal(X, kept, u):
    """The chapter's normal distribution: around x, one standard deviation wide."""
    radius = np.sqrt(-2 * np.log(u[:, 0]))
    z = np.stack([radius * np.cos(2 * np.pi * u[:, 1]), radius * np.sin(2 * np.pi * u[:, 1])], 1)
    return np.where(kept, X, X + z).astype(np.float32)


@pytest.mark.slow
def test_a_sampler_of_ones_own():
    """P(z_0 > 0) for z_0 ~ N(1, 1) is 0.8413; 5 standard errors of 40,000 draws: 6e-7."""
    data = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    x = np.array([1.0, 0.0], np.float32)
    for model in (
        xj.as_model(lambda r: (r[:, 0] > 0) * 1, output="label"),
        xj.as_model(lambda r: (r[:, 0] > 0) * 1, backend="host", output="label"),
    ):
        anchors = xj.AnchorExplainer(model, data, bins={0: [0.0], 1: [0.0]}, perturbation=normal)
        found = anchors.evaluate([], x, samples=40_000)
        assert abs(found.precision - 0.841345) < 5 * np.sqrt(0.134 / 40_000)
        rules = anchors.explain(np.stack([x, -x]), threshold=0.95, coverage_samples=2_000)
        assert [rule.features for rule in rules] == [(0,), (0,)]
        assert abs(rules[0].coverage - 0.841345) < 5 * np.sqrt(0.134 / 2_000)
        alone = anchors.explain(x[None], threshold=0.95, coverage_samples=2_000)
        assert alone[0].as_dict() == rules[0].as_dict()


@pytest.mark.slow
def test_superpixels_have_no_coverage():
    """Four segments of an image; the class is decided by the first, which must be in the rule."""
    segments = np.repeat(np.repeat([[0, 1], [2, 3]], 2, axis=0), 2, axis=1)
    images = np.random.default_rng(0).random((3, 4, 4)).astype(np.float32) + 0.5

    def grey(X, kept, u):
        shown = (kept | (u < 0.5))[:, segments]
        return np.where(shown, X, 0.0).astype(np.float32)

    model = xj.as_model(
        lambda r: (r[:, :2, :2].sum((1, 2)) > 1) * 1, output="label", input_shape=(4, 4)
    )
    anchors = xj.AnchorExplainer(model, images, perturbation=grey, players=segments)
    rules = anchors.explain(images, threshold=0.95)
    for rule in rules:
        assert rule.features == (0,) and rule.coverage is None and rule.accepted
        assert "COVERAGE" not in str(rule)


def test_keys_tell_instances_rules_and_seeds_apart():
    prints = np.arange(50, dtype=np.uint64)
    keys = {tuple(k) for s in (0, 1) for r in (0, 5) for k in keys_of(s, prints, np.uint64(r))}
    assert len(keys) == 200
