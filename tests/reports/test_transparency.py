"""Transparency reports, the profile picture, and the observational measures."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from html_page import alone

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")

import xaijax as xj  # noqa: E402

FRAME = pd.DataFrame(
    {
        "job": ["clerk", "farmer", "clerk", "<b>chief</b>"] * 5,
        "age": (np.arange(20) * 7) % 23 + 20,
        "hours": np.arange(20) % 5 * 10.0 + 0.5,
    }
)
MODEL = xj.as_model(
    lambda f: np.where((f["job"] != "farmer") & (f["age"] + f["hours"] > 50), "yes", "no"),
    backend="host",
    output="label",
    classes=["no", "yes"],
)


@pytest.fixture
def people():
    return xj.QII(MODEL, FRAME, quantity="individual").explain(FRAME.iloc[[3, 1]])


def test_one_person(people, tmp_path):
    path = xj.transparency_report(people[0], tmp_path / "one.html")
    text = path.read_text("utf-8")
    alone(text)
    assert "<b>chief" not in text and "&lt;b&gt;chief" in text  # data is data, not markup
    assert (
        "the chance of the positive outcome for this person (yes is the positive outcome)" in text
    )
    assert "a random person of 20 in the data" in text and "Shapley value" in text
    value = people.values[0]
    largest = people.feature_names[int(np.abs(value).argmax())]
    way = "raises" if value[np.abs(value).argmax()] > 0 else "lowers"
    found = re.search(rf"<li>{largest} \((.*?)\) {way} it by ([\d.]+)\.</li>", text)
    assert found and float(found[2]) == pytest.approx(np.abs(value).max(), rel=5e-3)
    assert "95 %" not in text  # exact
    quantity, base = people.stats["quantity"][0], people.base_values[0]
    assert f"As it is: {quantity:.3g}. With all inputs replaced: {base:.3g}." in text


def test_two_people_and_intervals(tmp_path):
    drawn = xj.QII(MODEL, FRAME, quantity="individual", samples=400).explain(FRAME.iloc[[3, 1]])
    path = xj.transparency_report(drawn, tmp_path / "two.html")
    text = path.read_text("utf-8")
    assert "Person A" in text and "Where they differ most" in text
    assert "95 % interval" in text and "±" in text and "sampled" in text
    gap = np.abs(drawn.values[0] - drawn.values[1])
    assert f"<li>{drawn.feature_names[int(gap.argmax())]}" in text.split("Where they differ")[1]


def test_how_a_differs_from_b(tmp_path):
    qii = xj.QII(MODEL, FRAME, pool=xj.Baseline(FRAME.iloc[[1]]), quantity="individual")
    text = xj.transparency_report(qii.explain(FRAME.iloc[[3]]), tmp_path / "ab.html").read_text()
    assert "by those of one chosen row, another person or a reference" in text


def test_the_picture_shows_the_numbers(people):
    ax = xj.plots.profile(people)
    widths = sorted(round(bar.get_width(), 12) for bar in ax.patches)
    assert widths == sorted(np.round(people.values.ravel(), 12))
    labels = [tick.get_text() for tick in ax.get_yticklabels()]
    order = np.argsort(-np.abs(people.values).max(axis=0), kind="stable")
    assert [label.split(":")[0] for label in labels] == [people.feature_names[j] for j in order]
    assert any("<b>chief</b> | farmer" in label for label in labels)
    one = xj.plots.profile(people[0], max_display=1)
    assert one.get_yticklabels()[-1].get_text() == "sum of 2 others"
    given = xj.plots.profile(people[1], profile=[{"age": "old"}])
    assert any("age: old" in tick.get_text() for tick in given.get_yticklabels())


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda e: (e[[0, 1, 0]], {}), xj.InputError, "of one person or two"),
        (lambda e: (e, {"profile": 3}), xj.InputTypeError, "profile must be a frame"),
        (lambda e: (e, {"profile": [{"age": 1}]}), xj.InputError, "1 rows for 2 people"),
        (lambda e: (e, {"profile": [{"x": 1}] * 2}), xj.InputError, "none of its columns"),
        (lambda e: ("e", {}), xj.InputTypeError, "explanation"),
    ],
)
def test_what_is_refused(people, tmp_path, change, error, match):
    explanation, options = change(people)
    with pytest.raises(error, match=match):
        xj.transparency_report(explanation, tmp_path / "no.html", **options)
    with pytest.raises(error, match=match):
        xj.plots.profile(explanation, **options)


def test_reports_are_of_people(tmp_path):
    rate = xj.QII(MODEL, FRAME, quantity="rate").explain()
    with pytest.raises(xj.InputError, match="one person or two"):
        xj.transparency_report(rate, tmp_path / "no.html")
    other = xj.Explainer(xj.as_model(lambda r: r[:, 0]), np.zeros((2, 2)))(np.ones((1, 2)))
    with pytest.raises(xj.InputError, match="needs an Explanation of `QII`"):
        xj.transparency_report(other, tmp_path / "no.html")
    with pytest.raises(xj.InputError, match="is a folder"):
        xj.transparency_report(xj.QII(MODEL, FRAME).explain(FRAME.iloc[:1]), tmp_path)


def test_observational_measures_by_hand():
    """4 rows: both 1, members only 1, outcome only 1, neither 1; and one more of both."""
    members = np.array([True, True, False, False, True])
    outcomes = np.array([True, False, True, False, True])
    found = xj.observational.measures(members, outcomes)
    assert found["jaccard"] == 2 / 4 and found["matching"] == 3 / 5
    assert found["disparate_impact"] == pytest.approx((2 / 3) / (1 / 2))
    p = {(1, 1): 2 / 5, (1, 0): 1 / 5, (0, 1): 1 / 5, (0, 0): 1 / 5}
    a, b = {1: 3 / 5, 0: 2 / 5}, {1: 3 / 5, 0: 2 / 5}
    nats = sum(q * math.log(q / (a[i] * b[j])) for (i, j), q in p.items())
    assert found["mutual_information"] == pytest.approx(nats)
    cov = p[1, 1] - a[1] * b[1]
    assert found["correlation"] == pytest.approx(cov / (a[1] * a[0]))


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((["a"], [True]), xj.InputTypeError, "members must be True or False"),
        (([True, False], [0.5, 1]), xj.InputTypeError, "outcomes must be True or False"),
        (([True, True], [True, False]), xj.InputError, "members is the same for all rows"),
        (([True, False], [True, False, True]), xj.InputError, "members has 2 rows, outcomes 3"),
        (([[True, False]], [True, False]), xj.InputError, r"members must be \[N\]"),
    ],
)
def test_observational_measures_refuse(arguments, error, match):
    with pytest.raises(error, match=match):
        xj.observational.measures(*arguments)


def test_a_ratio_of_nothing():
    with pytest.raises(xj.InputError, match="divides by 0"):
        xj.observational.disparate_impact([True, False], [True, False])
