"""The HTML report: self-contained, escaped, and its numbers are the explanation's."""

from __future__ import annotations

import base64
import io
import os

import numpy as np
import pytest
from html_page import Page, alone

import xaijax as xj
from xaijax.core.errors import InputError, InputTypeError
from xaijax.models import as_model
from xaijax.reports import page as pages
from xaijax.reports.page import checked, of_explanation
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


def test_the_page_loads_nothing_and_runs_its_own_script_alone(tmp_path):
    page = alone(page_of(make(), tmp_path)[0])
    assert "alert" not in page.script


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


def test_all_players_are_reachable(tmp_path):
    values = np.arange(60.0)[None]
    _, page = page_of(
        Explanation(values=values, base_values=np.zeros(1), instance_names=("Ada",)), tmp_path
    )
    assert [row[1] for row in page.rows[1:61]] == [f"player {j}" for j in range(59, -1, -1)]
    kinds = [attributes.get("class") for tag, attributes in page.tags if tag == "table"]
    assert kinds == ["sortable searchable"]
    assert "60 players for 1 instance;" in page.text and "Ada" in page.text
    assert "The run" not in page.text  # no stats, no table of them


def test_more_rows_than_a_browser_bears_are_left_out_and_counted(monkeypatch):
    monkeypatch.setattr(pages, "MOST", 2)
    rows = [[pages.cell(str(n))] for n in range(5)]
    short = pages.table("title", [pages.cell("n")], rows)
    assert short["rows"] == rows[:2] and short["note"].startswith("And 3 more")


def details_of(page):
    return [tag for tag, _ in page.tags].count("details")


def test_cards_say_the_output_of_each_instance(tmp_path):
    one = make(stats={"output_names": np.array(["no", "yes", "no", "maybe", "no", "no"])})
    report(one, tmp_path / "page.html", instances=4)
    text = alone((tmp_path / "page.html").read_text("utf-8")).text
    for n, word in enumerate(("no", "yes", "no", "maybe")):
        assert f"instance {n}, output {word}" in text
    assert "each instance's own (no 4, yes 1, maybe 1)" in text


def test_instances_can_be_chosen_and_hold_their_values(tmp_path):
    """Three of six, by their places and names; their base values and sums as they add up."""
    one = make(instance_names=tuple("abcdef"), provenance={"players": 3})
    report(one, tmp_path / "page.html", instances=3)
    page = alone((tmp_path / "page.html").read_text("utf-8"))
    assert details_of(page) == 3 and "instance 2: c" in page.text and "instance 3" not in page.text
    assert "The first 3 of 6; 3 are left out of this page." in page.text
    order = np.argsort(-np.abs(one.values[2]))
    at = [n for n, row in enumerate(page.rows) if row == ["player", "value"]][2]
    expected = [[one.feature_names[j], f"{one.values[2, j]:+.4g}"] for j in order]
    assert page.rows[at + 1 : at + 4] == expected
    assert f"Base value 0; with all values {one.values[2].sum():.4g}." in page.text
    report(one, tmp_path / "page.html", instances=0)
    assert details_of(Page((tmp_path / "page.html").read_text("utf-8"))) == 0
    for wrong, error in ((-1, InputError), ("all", InputTypeError)):
        with pytest.raises(error, match="instances"):
            report(one, tmp_path / "page.html", instances=wrong)  # pyright: ignore[reportArgumentType]


def test_a_sweep_has_some_instances_with_their_largest_players():
    values = np.random.default_rng(0).normal(size=(1000, 30))
    errors = np.full(values.shape, 0.1)
    one = Explanation(values, np.zeros(1000), std_errors=errors, exact=False)
    found = of_explanation(one, checked(10**6))
    assert found is not None and len(found["each"]) == 500 and "500 are left out" in found["note"]
    first = found["each"][0]
    assert len(first["rows"]) == 20 and first["rows"][0][2]["text"] == "0.2"
    left = np.sort(np.abs(values[0]))[:10]
    assert first["note"].startswith("And 10 smaller ones, together ")
    rest = [v for v in values[0] if abs(v) in left]
    assert first["note"].endswith(f" {sum(rest):+.4g}.")


@pytest.mark.slow
def test_the_head_tells_model_date_background_and_meaning(tmp_path):
    model = as_model(lambda X: X[:, 0], output="value")
    facts = {"quantity": "proba", "selected_output": "yes", "replacement": "rows"}
    one = make(provenance={**facts, "background_rows": 7, "weights": "given"})
    for named, shown in ((None, "not named"), ("risk <b>", "risk <b>"), (model, model.name)):
        report(one, tmp_path / "page.html", model=named)
        text = Page((tmp_path / "page.html").read_text("utf-8")).text
        assert f"Model{shown}" in text and "Background7 rows, weighted" in text
        assert f"Page written{pages.today()}" in text
        assert "what the player adds to the probability of yes, on top of other players" in text
        assert ("Explanation of" in text) == (named is not None)
    with pytest.raises(InputTypeError, match="model: got int"):
        report(one, tmp_path / "page.html", model=3)  # pyright: ignore[reportArgumentType]


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


@pytest.mark.slow
def test_every_page_may_have_a_title_of_its_own(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    found = xj.Explainer(xj.as_model(lambda X: X[:, 0]), X[:3])(X)
    rule = xj.Rule(["c = red"], [(0, ("red",))], "a", 1.0, None, 0.5, True, 2, "exact")
    red = xj.Rules((rule,), ("c",))
    hired = xj.as_model(lambda X: X[:, 1] > 0, output="label")
    write = {
        "report": lambda **told: xj.report(found, tmp_path / "page.html", **told),
        "comparison": lambda **told: xj.comparison_report(
            xj.compare(found, found), tmp_path / "page.html", **told
        ),
        "rules": lambda **told: xj.rules_report(red, tmp_path / "page.html", **told),
        "collinearity": lambda **told: xj.collinearity_report(
            xj.AEC().fit(X, X[:, 0]), found, tmp_path / "page.html", **told
        ),
        "transparency": lambda **told: xj.transparency_report(
            xj.QII(hired, X).explain(X[:1]), tmp_path / "page.html", **told
        ),
    }
    for one in write.values():
        for wrong, error in ((" ", xj.InputError), (3, xj.InputTypeError)):
            with pytest.raises(error, match="title"):
                one(title=wrong)
        assert not (tmp_path / "page.html").exists()
        text = one(title="Loans <2026>").read_text(encoding="utf-8")
        assert "<title>Loans &lt;2026&gt; · " in text and "<h1>Loans &lt;2026&gt;</h1>" in text
        (tmp_path / "page.html").unlink()
