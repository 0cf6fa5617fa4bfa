"""The HTML report: self-contained, escaped, and its numbers are the explanation's."""

from __future__ import annotations

import base64
import io
import os

import numpy as np
import pytest
from html_page import Page

from xaijax.core.errors import InputError, InputTypeError
from xaijax.reports.report import report
from xaijax.results.explanation import Explanation

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def make(K=None, **changes):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 3) if K is None else (6, 3, K))
    fields = {
        "values": values,
        "base_values": np.zeros((6,) if K is None else (6, K)),
        "feature_names": ("age", "<script>alert('x')</script>", "a & b"),
        "stats": {"model_rows": 1234567, "seconds": 0.5, "residual": np.array([0.0, 1e-8] * 3)},
        "provenance": {"method": "QII", "versions": {"jax": "0.12"}, "note": "<img src='//x.y/z'>"},
    }
    if K is not None:
        fields["output_names"] = tuple(f"class {k}" for k in range(K))
    return Explanation(**(fields | changes))


def page_of(explanation, tmp_path):
    path = tmp_path / "report.html"
    assert report(explanation, path) == path
    text = path.read_text("utf-8")
    return text, Page(text)


def test_the_page_loads_nothing_and_runs_nothing(tmp_path):
    text, page = page_of(make(), tmp_path)
    assert "http:" not in text and "https:" not in text
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "link", "iframe", "object", "embed", "base"}
    assert "@import" not in text and "url(" not in text
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert "href" not in attributes
        if "src" in attributes:
            assert tag == "img" and attributes["src"].startswith("data:image/png;base64,")


def test_texts_are_escaped_and_whole(tmp_path):
    _, page = page_of(make(), tmp_path)
    cells = [cell for row in page.rows for cell in row]
    assert "<script>alert('x')</script>" in cells and "a & b" in cells
    assert "<img src='//x.y/z'>" in cells


def test_the_pictures_are_three_whole_pngs(tmp_path):
    image = pytest.importorskip("matplotlib.image")
    _, page = page_of(make(), tmp_path)
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    assert [a["alt"].split()[0] for a in images] == ["beeswarm", "bar", "waterfall"]
    for attributes in images:
        content = base64.b64decode(attributes["src"].partition(",")[2], validate=True)
        pixels = image.imread(io.BytesIO(content), format="png")
        assert pixels.shape[1] > 600 and pixels[..., :3].std() > 0.05


def test_the_tables_hold_the_numbers(tmp_path):
    explanation = make(std_errors=np.full((6, 3), 0.125), exact=False)
    _, page = page_of(explanation, tmp_path)
    size = np.abs(explanation.values).mean(axis=0)
    mean = explanation.values.mean(axis=0)
    order = np.argsort(-size)
    names = explanation.feature_names
    expected = [
        [str(n + 1), names[j], f"{size[j]:.4g}", f"{mean[j]:.4g}", "0.125"]
        for n, j in enumerate(order)
    ]
    assert page.rows[0][2:] == ["mean |value|", "mean value", "mean standard error"]
    assert page.rows[1:4] == expected
    assert ["model_rows", "1,234,567"] in page.rows
    assert ["versions.jax", "0.12"] in page.rows
    assert ["residual", "array [6], 0 to 1e-08"] in page.rows
    assert "3 players for 6 instances; sampled, largest standard error 0.12" in page.text
    assert "Explanation by QII" in page.text


def test_with_several_outputs_it_says_which_is_drawn(tmp_path):
    explanation = make(K=2)
    _, page = page_of(explanation, tmp_path)
    assert "2 outputs" in page.text and "of the last, class 1" in page.text
    top = np.abs(explanation.values[..., 1]).mean(axis=0).max()
    assert page.rows[1][2] == f"{top:.4g}"


def test_many_players_are_counted_not_listed(tmp_path):
    values = np.ones((1, 60))
    _, page = page_of(
        Explanation(values=values, base_values=np.zeros(1), instance_names=("Ada",)), tmp_path
    )
    assert "and 40 more players" in page.text
    assert "60 players for 1 instance;" in page.text and "Ada" in page.text
    assert "The run" not in page.text  # no stats, no table of them


def test_no_figure_is_left_open(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    matplotlib.use("Agg")
    page_of(make(), tmp_path)
    assert plt.get_fignums() == []


def test_refusals_leave_the_old_page(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(InputError, match="not finite"):
        report(make(values=np.full((6, 3), np.nan)), path)
    with pytest.raises(InputTypeError, match="explanation"):
        report("x", path)  # pyright: ignore[reportArgumentType]
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["report.html"]
    with pytest.raises(InputError, match="does not exist"):
        report(make(), tmp_path / "nowhere" / "report.html")
    with pytest.raises(InputError, match="folder"):
        report(make(), tmp_path)
    with pytest.raises(InputTypeError, match="path"):
        report(make(), 3)  # pyright: ignore[reportArgumentType]
