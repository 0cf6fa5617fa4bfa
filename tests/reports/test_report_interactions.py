"""Interactions in a report: only those of what the report explains, named by output and index."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

from dataclasses import replace

import numpy as np
import pytest

import xaijax as xj

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
A = np.array([[1.0, -2.0], [0.5, 1.0], [2.0, 1.0]], np.float32)


def two(X):
    return (X @ A) * X[:, :1]


def scaled(X):
    return 2 * (X @ A) * X[:, :1]


def explainer(f=two, background=X[:2], **options):
    return xj.Explainer(xj.as_model(f, output_names=["a", "b"]), background, **options)


@pytest.fixture(scope="module")
def explanation():
    return explainer()(X)


@pytest.fixture(scope="module")
def pairs():
    return explainer().interactions(X)


def refused(explanation, pairs, match, tmp_path):
    with pytest.raises(xj.InputError, match=match):
        xj.report(explanation, tmp_path / "page.html", interactions=pairs)


@pytest.mark.slow
def test_another_output_is_refused_and_the_right_one_is_named(explanation, pairs, tmp_path):
    refused(explanation, pairs[:, :, "a"], r"output.*got 'a', expected 'b'", tmp_path)
    refused(explanation[:, :, "a"], pairs[:, :, "b"], r"output.*got 'b', expected 'a'", tmp_path)
    for one in (explanation, explanation[:, :, "a"]):
        page = xj.report(one, tmp_path / "page.html", interactions=pairs).read_text("utf-8")
        shown = "a" if one.output_names is None else "b"
        assert f"(index &#39;sii&#39;), order 2, output {shown}" in page


@pytest.mark.slow
def test_one_output_for_each_instance(tmp_path):
    predicted = explainer().interactions(X, outputs="predicted")
    of_them = explainer()(X, outputs="predicted")
    xj.report(of_them, tmp_path / "page.html", interactions=predicted)
    others = explainer().interactions(X, outputs=1 - of_them.stats["outputs"])
    refused(of_them, others, r"output \(of instance 0\)", tmp_path)


@pytest.mark.slow
def test_other_rows_and_other_data_are_refused(explanation, pairs, tmp_path):
    refused(explanation, pairs[:3], "number of instances: got 3, expected 5", tmp_path)
    moved = X.copy()
    moved[2, 1] += 1
    refused(explanation, explainer().interactions(moved), r"data \(row 2\)", tmp_path)
    xj.report(explanation, tmp_path / "p.html", interactions=replace(pairs, data=None))
    xj.report(explanation, tmp_path / "p.html", interactions=replace(pairs, data=X.astype(float)))


@pytest.mark.slow
def test_another_background_link_or_model_is_refused(explanation, pairs, tmp_path):
    beside = explainer(background=X[2:4]).interactions(X)
    refused(explanation, beside, "other background rows", tmp_path)
    fewer = explainer(background=X[:1]).interactions(X)
    refused(explanation, fewer, "background_rows", tmp_path)
    refused(explanation, explainer(link=np.arctan).interactions(X), "'link'", tmp_path)
    refused(explanation, explainer(scaled).interactions(X), "another model", tmp_path)


def test_frames_are_compared_entry_by_entry(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"n": [1.0, np.nan, 3.0], "c": ["x", None, "z"]})
    values = {"values": np.zeros((3, 2)), "base_values": np.zeros(3), "feature_names": ("n", "c")}
    explanation = xj.Explanation(**values, data=frame)
    own = {"values": np.ones((3, 3)), "sets": ((0,), (1,), (0, 1))}
    pairs = xj.Interactions(**(values | own), data=frame.copy())
    xj.report(explanation, tmp_path / "page.html", interactions=pairs)
    other = frame.copy()
    other.loc[1, "c"] = "y"
    refused(explanation, replace(pairs, data=other), r"data \(row 1\)", tmp_path)


@pytest.mark.slow
def test_messages_say_where_interactions_belong(explanation, pairs, tmp_path):
    with pytest.raises(xj.InputTypeError, match="interactions=pairs"):
        xj.report(pairs, tmp_path / "page.html")
    three = explainer().interactions(X, order=3)
    with pytest.raises(xj.InputError, match=r"xaijax\.report draws pairs"):
        xj.report(explanation, tmp_path / "page.html", interactions=three)
    with pytest.raises(xj.InputTypeError, match=r"pass what explainer\.interactions"):
        xj.report(explanation, tmp_path / "page.html", interactions=explanation)
