"""The site: every page is in it, what is made is whole, and links lead where they led."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

pytest.importorskip("matplotlib", reason="needs the extra [plots]")

from site_build import api, gallery, names, notebooks, pages

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NAV = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
IN_NAV = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", NAV, re.MULTILINE)


def test_every_page_is_in_the_nav_once_and_the_reverse():
    written = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    written |= {f"bench/{path.name}" for path in (ROOT / "bench").glob("*.md")}
    written |= {path.name for path in ROOT.glob("*.md")}
    written |= {f"notebooks/{path.stem}.md" for path in (ROOT / "notebooks").glob("*.ipynb")}
    written |= {path for path in api.pages([])}
    assert sorted(IN_NAV) == sorted({*written, "examples/index.md"})


def test_each_page_of_a_method_has_what_it_does_not_say_and_its_limits():
    methods = NAV.partition("- Methods:")[2].partition("- Design:")[0]
    pages_of_methods = re.findall(r"docs/(\w+\.md)", methods)
    assert {"shapley.md", "structures.md"} <= set(pages_of_methods)
    for page in pages_of_methods:
        headings = re.findall(r"^##+ (.+)$", (ROOT / "docs" / page).read_text("utf-8"), re.M)
        for wanted in (r"\b(not|neither)\b", r"\b[Ll]imits$"):
            assert any(re.search(wanted, one) for one in headings), f"{page}: {wanted}"


def test_the_api_pages_have_every_public_name_once():
    text = "".join(api.pages(EXAMPLES).values())
    documented = re.findall(r"^::: (\S+)\n    options:\n      heading: xj\.(\S+)$", text, re.M)
    assert sorted(name for _, name in documented) == sorted(names.public())
    assert len({path for path, _ in documented}) == len(documented)
    assert {"Explainer", "AEC", "plots.bar", "federated.Guest", "InputError"} <= set(names.public())


def test_a_name_lists_the_examples_that_use_it():
    entry = api.pages(EXAMPLES)["api/plots.md"].partition("heading: xj.plots.beeswarm\n")[2]
    assert "(../examples/plot_beeswarm.md)" in entry.partition(":::")[0]
    assert names.used(ROOT / "examples" / "plot_worth.py") == {
        "Explanation", "FederatedExplainer", "as_model", "plots.worth",
    }  # fmt: skip


def test_the_gallery_has_every_example():
    written = gallery.pages(EXAMPLES)
    shown = set(re.findall(r"\]\((\w+)\.md\)", written["examples/index.md"]))
    assert shown == {one.stem for one in EXAMPLES} and len(written) == len(EXAMPLES) + 1
    pictures = set(re.findall(r"\(pictures/(\w+)\.png\)", written["examples/index.md"]))
    assert pictures == {one.stem for one in EXAMPLES if one.stem.startswith("plot_")}
    assert len(pictures) >= 6
    page = written["examples/plot_waterfall.md"]
    assert "(pictures/plot_waterfall.png)" in page and "def main(picture" in page
    assert "When to use it:" in page and page.startswith("# One answer, step by step")


@pytest.mark.parametrize(
    ("body", "error"), [("raise KeyError('planted')", KeyError), ("pass", RuntimeError)]
)
def test_an_example_that_fails_or_draws_nothing_ends_the_build(body, error, tmp_path):
    script = tmp_path / "plot_planted.py"
    script.write_text(f'"""A planted one."""\n\n\ndef main(picture):\n    {body}\n')
    with pytest.raises(error, match="planted"):
        gallery.draw([script], tmp_path / "pictures")


def test_links_to_notebooks_and_examples_lead_to_their_pages():
    text = (
        "[a](../notebooks/qii.ipynb), [b](examples/anchors.py)\n"
        "[c](https://host/x.ipynb) and [d](structures.md#what-is-found)\n"
        "- an item\n  that goes on\n- another\n\n```python\nx[0](y.py)\n- 1\n```"
    )
    assert pages.for_mkdocs(text) == (
        "[a](../notebooks/qii.md), [b](examples/anchors.md)\n"
        "[c](https://host/x.ipynb) and [d](structures.md#what-is-found)\n\n"
        "- an item\n  that goes on\n- another\n\n```python\nx[0](y.py)\n- 1\n```"
    )


def test_a_notebook_becomes_a_page_with_all_it_put_out(tmp_path):
    file = ROOT / "notebooks" / "networks.ipynb"
    notebooks.write(file, tmp_path)
    text = (tmp_path / "networks.md").read_text("utf-8")
    cells = json.loads(file.read_text("utf-8"))["cells"]
    for cell in cells:
        assert "".join(cell["source"]) in text
    drawn = [one for cell in cells for one in cell.get("outputs", []) if "image/png" in str(one)]
    shown = re.findall(r"!\[.*\]\((networks/\d+\.png)\)", text)
    assert len(shown) == len(set(shown)) == len(drawn) > 1
    assert all((tmp_path / one).read_bytes().startswith(b"\x89PNG") for one in shown)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built strictly."""
    for library in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(library) is None:
            pytest.skip("needs the extra [docs]: `make docs` installs it")
    made, built = tmp_path_factory.mktemp("pages"), tmp_path_factory.mktemp("site")
    run("site_build", str(made))
    run("mkdocs", "build", "--strict", "--site-dir", str(built), XAIJAX_PAGES=str(made))
    return built


def run(*command: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env={**os.environ, **environment},
        capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_site_is_built_strictly_and_whole(site):
    for page in IN_NAV:
        html = site / re.sub(r"(^|/)README\.md$", r"\1index.md", page).replace(".md", ".html")
        assert html.is_file(), page
    explainers = (site / "api" / "explainers.html").read_text("utf-8")
    assert f'id="{names.address("Explainer")}"' in explainers
    assert "{limits}" not in explainers and "max_memory" in explainers
    pictures = list((site / "examples" / "pictures").glob("plot_*.png"))
    assert len(pictures) == sum(map(gallery.draws, EXAMPLES))


@pytest.mark.slow
def test_pages_and_pictures_that_the_site_names_are_there(site):
    """Also those in HTML, of which mkdocs does not know; and nothing is loaded from elsewhere."""
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        for target in re.findall(r'(?:src|href)="([^"#?]+)[^"]*"', text):
            if not re.match(r"https?:|mailto:|data:|/", target):
                assert (page.parent / target).exists(), f"{page.relative_to(site)}: {target}"
        loaded = re.findall(r'<(?:script|img)[^>]* src="(https?:[^"]+)"', text)
        loaded += re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="(https?:[^"]+)"', text)
        assert not loaded, f"{page.relative_to(site)} loads {loaded}"
