"""The page with both lists, its words, and the heatmap."""

from __future__ import annotations

import base64
import html

import numpy as np
import pandas as pd
import pytest
from aec_data import collinear, fitted
from html_page import Page, alone

import xaijax as xj

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
pytest.importorskip("jinja2", reason="needs the extra [plots]")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")

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


@pytest.mark.slow
def test_the_page_loads_nothing_and_holds_no_row(tmp_path):
    names = ["a", "<script>alert('x')</script>", "c & d", "e"]
    aec = fitted(pd.DataFrame(X, columns=names), Y)
    shapley = xj.Explanation(values=VALUES, base_values=np.zeros(5), feature_names=tuple(names))
    text, _ = page_of(tmp_path, aec, shapley)
    page = alone(text)
    assert html.escape("c & d") in text
    pictures = [attributes for tag, attributes in page.tags if tag == "img"]
    assert len(pictures) == 1 and pictures[0]["src"].startswith("data:image/png;base64,iVBOR")
    assert repr(float(X[0, 0]))[:8] not in text
    assert pyplot.get_fignums() == []


def wide(F):
    return fitted(np.random.default_rng(0).normal(size=(50, F)), np.arange(50.0))


def picture_of(page):
    """Width and height in dots, from the head of the PNG, and the words below."""
    (attributes,) = (found for tag, found in page.tags if tag == "img")
    png = base64.b64decode(attributes["src"].partition("base64,")[2])
    size = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    return size, page.text[page.text.index("Correlation of each") :].partition("The two lists")[0]


@pytest.mark.slow
def test_the_picture_of_many_columns_grows_no_further_and_says_what_it_lacks(tmp_path):
    pictures = {}
    for F in (12, 13, 30, 61, 250):
        effects = wide(F).explanation_
        pictures[F] = picture_of(page_of(tmp_path, effects, effects)[1])
    sizes = {F: size for F, (size, _) in pictures.items()}
    assert sizes[12] < sizes[13] < sizes[30] == sizes[61] == sizes[250]
    assert max(sizes[250]) < 3000  # 250 columns at the size of 12 were 17,000 dots
    words = {F: text for F, (_, text) in pictures.items()}
    assert "Left out" not in words[12]
    assert "the numbers, of 13 x 13 cells. xaijax.AEC has" in words[13]
    assert "names" not in words[30]
    assert "61 x 61 cells, and all names but every 3rd." in words[61]
    assert "250 x 250 cells, and all names but every 9th." in words[250]


def test_one_column_and_one_instance_are_told_as_such(tmp_path):
    effects = wide(1).explanation_
    assert "1 column, 50 rows" in page_of(tmp_path, effects, effects)[1].text
    assert "AEC effects of 1 instance, " in page_of(tmp_path, effects, effects)[1].text


def test_a_shap_explanation_is_refused_with_the_way_to_make_one_of_ours(tmp_path):
    shap = pytest.importorskip("shap", reason="needs the extra [dev]")
    for base in (0.5, np.zeros(5)):
        e = shap.Explanation(VALUES, base_values=base, feature_names=list(NAMES))
        with pytest.raises(xj.InputTypeError, match="shapley: got shap.Explanation; pass") as told:
            xj.collinearity_report(AEC, e, tmp_path / "page.html")
        code = str(told.value).partition("of one output: ")[2].removesuffix(".")
        made = eval(code, {"xaijax": xj, "numpy": np, "e": e})
        _, page = page_of(tmp_path, AEC, made)
        _, same = page_of(tmp_path, AEC, SHAPLEY)
        rows = [[row for row in one.rows if row and row[0].isdigit()] for one in (page, same)]
        assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "match"),
    [
        ((AEC.effects_, SHAPLEY), {}, xj.InputTypeError, "aec: got numpy.ndarray"),
        ((AEC, VALUES), {}, xj.InputTypeError, "shapley: got numpy.ndarray"),
        ((xj.AEC(), SHAPLEY), {}, xj.InputTypeError, "aec: got xaijax.AEC; pass a fitted"),
        ((SHAPLEY, SHAPLEY), {}, xj.InputError, "kind 'shapley'"),
        ((AEC, SHAPLEY[:, ["x0", "x1"]]), {}, xj.InputError, r"\['x2', 'x3'\] are in one"),
        ((AEC, SHAPLEY), {"aec_nmr": 1.5}, xj.InputError, "aec_nmr must be"),
        ((AEC, SHAPLEY), {"aec_nmr": np.float64(2)}, xj.InputError, "or None, got 2.0."),
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
    with pytest.raises(xj.InputError, match=r"has 3; .* aec.explanation_\[:, :, '0'\]"):
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
    figure, ax = pyplot.subplots()
    assert xj.plots.correlation(wide(13).explanation_, ax, colorbar=False) is ax and not ax.texts
    assert figure.axes == [ax]
    axes = xj.plots.correlation(wide(61).explanation_)
    expected = [f"x{j}" for j in range(0, 61, 3)]  # at most 30 names
    assert [one.get_text() for one in axes.get_xticklabels()] == expected
    assert [one.get_text() for one in axes.get_yticklabels()] == expected
    np.testing.assert_array_equal(axes.get_xticks(), range(0, 61, 3))
    largest = xj.plots.correlation(wide(30).explanation_).figure.get_size_inches()
    np.testing.assert_array_equal(axes.figure.get_size_inches(), largest)
    with pytest.raises(xj.InputError, match="holds no correlations"):
        xj.plots.correlation(SHAPLEY)


def test_the_bar_names_effects():
    axes = xj.plots.bar(fitted(X, Y, bootstrap=10).explanation_)
    assert axes.get_xlabel() == "|AEC effect|; lines: 95 % intervals"
