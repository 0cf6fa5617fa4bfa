"""The page of a comparison holds its numbers, and escapes what it shows."""

from __future__ import annotations

import numpy as np
import pytest
from html_page import alone

import xaijax as xj

pytest.importorskip("matplotlib", reason="needs the extra [plots]")
pytest.importorskip("jinja2", reason="needs the extra [plots]")
RNG = np.random.default_rng(0)


def explainer(weights):
    w = np.array(weights)
    return xj.Explainer(xj.as_model(lambda X: X @ w, backend="host"), np.zeros((1, 3)))


def test_the_page_tells_what_changed(tmp_path):
    X, Y = RNG.normal(size=(80, 3)), RNG.normal(size=(90, 3)) + [0, 0, 1]
    old, new = explainer([1.0, 2, 3]), explainer([1.0, 5, 3])
    compared = xj.compare(old(X), new(Y), explainers=(old, new))
    page = xj.comparison_report(compared, tmp_path / "page.html").read_text("utf-8")
    assert f"{compared.size_shift[1]:+.4g}" in page and "what did it" in page
    assert "80 and 90 instances" in page and page.count("<img") == 2
    alone(page)
    assert compared.split is not None
    assert f"{compared.split.size_model.shift[1]:+.4g}" in page


def test_rows_outputs_and_names(tmp_path):
    values = RNG.normal(size=(20, 2, 2))
    names = {"feature_names": ("<b>", "b"), "output_names": ("no", "yes")}
    sides = [xj.Explanation(v, np.zeros((20, 2)), **names) for v in (values, values + 1)]
    compared = xj.compare(*sides, paired=True)
    page = xj.comparison_report(compared, tmp_path / "page.html").read_text("utf-8")
    assert compared.rows is not None and f"instance {compared.rows[0]}" in page
    assert "&lt;b&gt;" in page and "<b>" not in page and "&#39;yes&#39;, one of 2" in page


def test_the_page_says_in_which_output_a_player_changed(tmp_path):
    """Tables and pictures are of the last output; what changed in another is said so."""
    values = RNG.normal(size=(60, 2, 2))
    names = {"feature_names": ("age", "pay"), "output_names": ("no", "yes")}

    def of(shift):
        sides = [xj.Explanation(v, np.zeros((60, 2)), **names) for v in (values, values + shift)]
        compared = xj.compare(*sides, paired=True)
        return alone(xj.comparison_report(compared, tmp_path / "page.html").read_text("utf-8")).text

    text = of(np.array([[5.0, 0.0], [0.0, 0.0]]))  # age, of the output "no"
    assert "No player's change in the output 'yes' can be told from chance." in text
    assert "Changed in other outputs: age (no)." in text and "Changed: age" not in text
    text = of(np.array([[5.0, 0.0], [0.0, 5.0]]))
    assert "Changed in the output 'yes': pay. Changed in other outputs: age (no)." in text
    assert "values, of all outputs." in text


def test_the_page_names_the_output_that_was_chosen(tmp_path):
    facts = {"provenance": {"quantity": "proba", "selected_output": "yes"}}
    one = xj.Explanation(RNG.normal(size=(9, 2)), np.zeros(9), **facts)
    page = xj.comparison_report(xj.compare(one, one, paired=True), tmp_path / "page.html")
    assert "They are of the output 'yes'." in alone(page.read_text("utf-8")).text


def test_other_things_are_refused(tmp_path):
    with pytest.raises(xj.InputTypeError, match="pass what xaijax"):
        xj.comparison_report(1, tmp_path / "page.html")
