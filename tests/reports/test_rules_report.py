"""The page of rules: their own words and numbers, escaped, and each instance's rule."""

from __future__ import annotations

import numpy as np
import pytest
from html_page import Page, alone

import xaijax as xj

pytest.importorskip("jinja2", reason="needs the extra [plots]")


def rule(low, precision=0.9, **changes):
    fields = {"coverage": 0.25, "accepted": True, "samples": 9, "search": "sar"}
    fields |= {"precision_lower": 0.8199, "std_error": 0.01, "prediction": "<i>yes"} | changes
    return xj.Rule([f"<b>age</b> > {low}"], [(0, low, np.inf)], precision=precision, **fields)


RULES = xj.Rules(
    (rule(1), rule(2), rule(2, 0.85), rule(3, accepted=False, note="a & b", coverage=None)),
    ("<b>age</b>",),
    {"search": "sar", "model_rows": 1234},
    {"method": "AnchorExplainer", "threshold": 0.8, "perturbation": "row", "data_rows": 70},
)


def page_of(rules, tmp_path, **options):
    path = tmp_path / "rules.html"
    assert xj.rules_report(rules, path, **options) == path
    return alone(path.read_text("utf-8"))


def test_each_different_rule_stands_there_once(tmp_path):
    page = page_of(RULES, tmp_path, model="risk & co")
    assert page.rows[1:4] == [
        ["<b>age</b> > 2", "<i>yes", "2", "85%", "81.9%", "25%", ""],
        ["<b>age</b> > 1", "<i>yes", "1", "90%", "81.9%", "25%", ""],
        ["<b>age</b> > 3", "<i>yes", "1", "90%", "81.9%", "unknown", "not accepted; a & b"],
    ]
    assert "Rules of risk & co" in page.text and "70 rows, by row" in page.text
    assert "4 instances; 3 rules accepted at a precision of at least 80%." in page.text
    assert ["model_rows", "1,234"] in page.rows


def test_each_instance_has_its_rule(tmp_path):
    page = page_of(RULES, tmp_path)
    assert [tag for tag, _ in page.tags].count("details") == 4
    assert page.text.count("THEN PREDICT <i>yes") == 4 and "instance 3" in page.text
    page = page_of(RULES, tmp_path, instances=2)
    assert page.text.count("THEN PREDICT") == 2
    assert "The first 2 of 4; 2 are left out of this page." in page.text
    assert page_of(RULES, tmp_path, instances=0).text.count("THEN PREDICT") == 0


def test_what_is_refused(tmp_path):
    for rules, error, match in (
        (RULES[0], xj.InputTypeError, "rules must be Rules"),
        (xj.Rules(()), xj.InputError, "rules: there are none"),
    ):
        with pytest.raises(error, match=match):
            xj.rules_report(rules, tmp_path / "page.html")
    with pytest.raises(xj.InputError, match="is a folder"):
        xj.rules_report(RULES, tmp_path)
    assert not list(tmp_path.iterdir())


def test_found_rules_make_a_page(tmp_path):
    """Of a real search: what the page needs of provenance is there."""
    data = np.array([[0], [1], [2]], np.float32)
    model = xj.as_model(lambda X: X[:, 0] > 0, output="label", feature_names=["size"])
    rules = xj.AnchorExplainer(model, data, perturbation="row").explain(data)
    path = xj.rules_report(rules, tmp_path / "page.html", model=model)
    assert "3 rows, by row" in Page(path.read_text("utf-8")).text
