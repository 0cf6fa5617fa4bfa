"""The Python of the README and of the pages runs as it stands; what the tour says holds."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from repository import ROOT

import xaijax as xj
from site_build import outputs

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
for library in ("pandas", "shap", "shapiq", "opendp"):
    pytest.importorskip(library, reason="needs the extra [dev]")

README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
TOUR = ROOT / "docs" / "tour.md"


def blocks_of(page):
    """Its fenced Python, from the top."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """The namespace after all blocks."""
    matplotlib.use("Agg")
    found: dict = {"__name__": "tour"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("tour"))
        for place, block in enumerate(blocks_of(TOUR)):
            exec(compile(block, f"tour.md, python block {place + 1}", "exec"), found)
        assert Path("report.html").is_file() and Path("explanation.npz").is_file()
    matplotlib.pyplot.close("all")
    return found


@pytest.mark.slow
def test_the_first_explanation_is_what_the_text_says(names):
    explanation, model = names["explanation"], names["model"]
    assert explanation.values.shape == (1000, 4) and explanation.values.dtype == np.float64
    assert explanation.feature_names == ("age", "income", "debt", "savings")
    answers = explanation.base_values + explanation.values.sum(axis=1)
    bound = explanation.stats["efficiency_bound"]
    assert (np.abs(answers - model.predict(names["X"])) <= bound + 1e-7).all()
    assert names["two"].shape == (10, 2) and len(names["frame"]) == 4000
    np.testing.assert_array_equal(names["same"].values, explanation.values)


@pytest.mark.slow
def test_new_parameters_give_other_values(names):
    # f(-outer) = 1 - f(outer): every value turns its sign.
    turned = names["explained_other"].values
    np.testing.assert_allclose(turned, -names["explanation"].values, atol=1e-6)


@pytest.mark.slow
def test_the_pipeline_is_explained_on_its_frame(names):
    yes, by_class = names["yes"], names["by_class"]
    assert by_class.shape == (50, 3, 2) and by_class.output_names == ("no", "yes")
    assert yes.feature_names == ("person", "city", "income") and yes.kind == "banzhaf"
    shapley = names["shapley"]
    answers = names["pipeline"].predict_proba(names["loans"][50:100])[:, 1]
    total = shapley.base_values + shapley.values.sum(axis=1)
    # JAX runs the Pipeline, in float32: sums of some ten terms below 8, and a slope of at most 1/4.
    np.testing.assert_allclose(total, answers, atol=10 * 2**-24)
    np.testing.assert_array_equal(names["for_shap"].values, shapley.values)
    assert len(names["for_shapiq"]) == 50


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [README, *(page for page in PAGES if page != TOUR)], ids=lambda page: page.stem
)
def test_the_python_of_the_pages_runs(page, tmp_path, monkeypatch, capsys, settings_kept):
    """Each page by itself, its blocks in order, where the files that it writes do not stay.

    A page with a picture of its own shows what its code prints until that is drawn.
    """
    monkeypatch.chdir(tmp_path)
    found: dict = {"__name__": page.stem}
    drawn, raises = (
        False,
        page.stem == "resuming",
    )  # its model raises, and the sweep warns about it first
    expected = pytest.warns(xj.XaiWarning, match="row 17 of X") if raises else nullcontext()
    with expected:
        for place, block in enumerate(blocks_of(page)):
            exec(compile(block, f"{page.name}, python block {place + 1}", "exec"), found)
            if outputs.shows(page) and not drawn and Path(f"{page.stem}.png").is_file():
                drawn = True
                printed, shown = capsys.readouterr().out, outputs.PRINTED.search(page.read_text())
                assert words_of(printed) == words_of(shown[1]), printed
                np.testing.assert_allclose(  # digits that another machine's arithmetic may change
                    numbers_of(printed), numbers_of(shown[1]), rtol=0.02, atol=0.02
                )
    assert drawn == outputs.shows(page)


NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def words_of(text):
    return NUMBER.sub("", text).split()


def numbers_of(text):
    return [float(one.replace(",", "")) for one in NUMBER.findall(text)]


@pytest.mark.slow
def test_the_quickstart_prints_what_the_readme_shows(tmp_path, monkeypatch, capsys, settings_kept):
    """All but seconds, and digits that another machine's arithmetic may change."""
    monkeypatch.chdir(tmp_path)
    exec(blocks_of(README)[0], {"__name__": "readme"})
    printed = capsys.readouterr().out.splitlines()
    shown = README.read_text("utf-8").splitlines()
    at = shown.index(printed[0])
    assert shown[at + 1] == printed[1] == "  exact"
    names = [re.findall(r"mean [a-z ]+(?= 0\.)", line) for line in (shown[at + 2], printed[2])]
    assert names[0] == names[1] and len(names[0]) == 6


def test_the_readme_and_the_changelog_are_short():
    for page in (README, ROOT / "CHANGELOG.md"):
        assert len(page.read_text("utf-8").splitlines()) <= 120, page.name


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        path, _, anchor = target.partition("#")
        if path.startswith(("https:", "http:")):
            continue
        file = page if not path else page.parent / path
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in headings(file), target


def headings(page):
    """The anchors of its headings, as GitHub and mkdocs make them."""
    found = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}
