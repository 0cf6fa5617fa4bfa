"""The page with both lists, its words, and the heatmap."""

from __future__ import annotations

import html

import numpy as np
import pandas as pd
import pytest
from aec_data import collinear, fitted
from test_report import Page

import xaijax as xj

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
pytest.importorskip("jinja2", reason="needs the extra [plots]")
matplotlib.use("Agg")

X, Y = collinear(rows=80, columns=4)
AEC = fitted(X, Y)
NAMES = AEC.explanation_.feature_names
VALUES = np.random.default_rng(0).normal(size=(5, 4))
SHAPLEY = xj.Explanation(
    values=VALUES, base_values=np.zeros(5), feature_names=NAMES, stats={"estimator": "exact"}
)


def page_of(tmp_path, *arguments, **options):
    path = tmp_path / "page.html"
    assert xj.collinearity_report(*arguments, path, **options) == path
    text = path.read_text("utf-8")
    return text, Page(text)


def test_both_lists_and_both_rates_stand_side_by_side(tmp_path):
    _, page = page_of(tmp_path, AEC, SHAPLEY, aec_nmr=0.2014, shapley_nmr=0.3370)
    first = [NAMES[j] for j in AEC.ranking_]
    second = [NAMES[j] for j in np.argsort(-np.abs(VALUES).mean(axis=0))]
    lines = [row for row in page.rows if row and row[0].isdigit()]
    assert [row[1] for row in lines] == first and [row[3] for row in lines] == second
    assert [row[2] for row in lines] == [f"{AEC.effects_[j]:.4g}" for j in AEC.ranking_]
    mean = np.sort(np.abs(VALUES).mean(axis=0))[::-1]
    assert [row[4] for row in lines] == [f"{size:.4g}" for size in mean]
    rates = [row for row in page.rows if "movement rate (NMR)" in row]
    assert len(rates) == 1 and rates[0][2] == "0.201" and rates[0][4] == "0.337"
    same = sum(a == b for a, b in zip(first, second, strict=True))
    assert f"agree in {same} of 4 positions" in page.text


@pytest.mark.parametrize("standardize", [False, True])
def test_the_words_are_those_of_the_fit(standardize, tmp_path):
    aec = fitted(X, Y, standardize=standardize, bootstrap=20)
    _, page = page_of(tmp_path, aec.explanation_, SHAPLEY)
    assert "A positive effect does not say that the target grows" in page.text
    assert "no share of an answer" in page.text
    assert ("slopes in mixed units are added" in page.text) == (not standardize)
    assert ("does not depend on their units" in page.text) == standardize
    assert "Standard errors are from resampled rows" in page.text
    assert any("standard error" in row for row in page.rows)
    assert page.text.count("not measured") == 2


def test_the_page_loads_nothing_runs_nothing_and_holds_no_row(tmp_path):
    names = ["a", "<script>alert('x')</script>", "c & d", "e"]
    aec = fitted(pd.DataFrame(X, columns=names), Y)
    shapley = xj.Explanation(values=VALUES, base_values=np.zeros(5), feature_names=tuple(names))
    text, page = page_of(tmp_path, aec, shapley)
    assert "http:" not in text and "https:" not in text
    assert "script" not in {tag for tag, _ in page.tags}
    assert html.escape("c & d") in text
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(pictures) == 1 and pictures[0]["src"].startswith("data:image/png;base64,iVBOR")
    assert repr(float(X[0, 0]))[:8] not in text
    assert not matplotlib.pyplot.get_fignums()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((AEC.effects_, SHAPLEY), {}, xj.InputTypeError, "aec: got ndarray"),
        ((AEC, VALUES), {}, xj.InputTypeError, "shapley: got ndarray"),
        ((xj.AEC(), SHAPLEY), {}, xj.InputTypeError, "aec: got AEC; pass a fitted"),
        ((SHAPLEY, SHAPLEY), {}, xj.InputError, "kind 'shapley'"),
        ((AEC, SHAPLEY[:, ["x0", "x1"]]), {}, xj.InputError, r"\['x2', 'x3'\] are in one"),
        ((AEC, SHAPLEY), {"aec_nmr": 1.5}, xj.InputError, "aec_nmr must be"),
        ((AEC, SHAPLEY), {"shapley_nmr": "0.3"}, xj.InputTypeError, "shapley_nmr must be"),
        ((AEC, SHAPLEY), {"aec_nmr": True}, xj.InputTypeError, "aec_nmr must be"),
    ],
)
def test_refused(arguments, options, error, match, tmp_path):
    with pytest.raises(error, match=match):
        xj.collinearity_report(*arguments, tmp_path / "page.html", **options)
    assert not list(tmp_path.iterdir())


def test_several_classes_are_shown_one_at_a_time(tmp_path):
    aec = fitted(X, np.digitize(Y, [0, 1]).astype(str))
    with pytest.raises(xj.InputError, match="one output and the explanation has 3"):
        xj.collinearity_report(aec, SHAPLEY, tmp_path / "page.html")
    _, page = page_of(tmp_path, aec.explanation_[:, :, "1"], SHAPLEY, aec_nmr=float("nan"))
    assert "undefined (fewer than 3 columns)" in page.text


def test_the_page_of_shapley_values_does_not_take_effects(tmp_path):
    with pytest.raises(xj.InputError, match="collinearity_report"):
        xj.report(AEC.explanation_, tmp_path / "page.html")


def test_heatmap():
    axes = xj.plots.correlation(AEC.explanation_)
    image = axes.images[0]
    np.testing.assert_allclose(image.get_array(), np.corrcoef(X.T), atol=1e-12)
    assert image.get_clim() == (-1, 1)
    assert [one.get_text() for one in axes.get_yticklabels()] == list(NAMES)
    assert [one.get_text() for one in axes.texts[:4]] == [
        f"{value:.2f}".replace("-", "−") for value in np.corrcoef(X.T)[0]
    ]
    wide = fitted(np.random.default_rng(0).normal(size=(50, 13)), np.arange(50.0)).explanation_
    figure, ax = matplotlib.pyplot.subplots()
    assert xj.plots.correlation(wide, ax, colorbar=False) is ax and not ax.texts
    assert figure.axes == [ax]
    matplotlib.pyplot.close("all")
    with pytest.raises(xj.InputError, match="holds no correlations"):
        xj.plots.correlation(SHAPLEY)


def test_the_bar_names_effects():
    axes = xj.plots.bar(fitted(X, Y, bootstrap=10).explanation_)
    assert axes.get_xlabel() == "|AEC effect|; lines: 95 % intervals"
    matplotlib.pyplot.close("all")
