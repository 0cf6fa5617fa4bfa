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

from site_build import api, gallery, names, notebooks, outputs, pages
from xaijax import __version__

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


def test_each_page_of_a_method_says_when_to_use_it_what_it_does_not_say_and_its_limits():
    methods = NAV.partition("- Methods:")[2].partition("- Design:")[0]
    pages_of_methods = re.findall(r"docs/(\w+\.md)", methods)
    assert {"shapley.md", "structures.md"} <= set(pages_of_methods)
    for page in pages_of_methods:
        headings = re.findall(r"^##+ (.+)$", (ROOT / "docs" / page).read_text("utf-8"), re.M)
        for wanted in (r"\b(not|neither)\b", r"\b[Ll]imits$"):
            assert any(re.search(wanted, one) for one in headings), f"{page}: {wanted}"
        text = re.sub(r"\s+", " ", (ROOT / "docs" / page).read_text("utf-8"))
        top, _, _ = text.partition(" ## ")
        assert outputs.shows(ROOT / "docs" / page) and "```text" in top.partition("**")[0], page
        for wanted in ("**Use it when**", "**Use something else when**"):
            assert wanted in top, f"{page}: {wanted} is not before the second heading"


def test_the_api_pages_have_every_public_name_once():
    text = "".join(api.pages(EXAMPLES).values())
    documented = re.findall(r"^::: (\S+)\n    options:\n      heading: xj\.(\S+)$", text, re.M)
    assert sorted(name for _, name in documented) == sorted(names.public())
    assert len({path for path, _ in documented}) == len(documented)
    assert {"Explainer", "AEC", "plots.bar", "federated.Guest", "InputError"} <= set(names.public())


def test_a_class_has_a_page_and_stands_first_where_most_examples_use_it():
    written = api.pages(EXAMPLES)
    for name in ("Explainer", "Explanation", "federated.Guest"):
        assert written[f"api/{name}.md"].startswith(f"::: {names.address(name)}\n"), name
        assert written[f"api/{name}.md"].count(":::") == 1
    assert "api/InputError.md" not in written and "api/as_model.md" not in written
    assert written["api/explainers.md"].startswith("# Explainers\n\n- [`xj.Explainer`]")
    plots = re.findall(r"heading: xj\.(\S+)", written["api/plots.md"])
    assert plots[0] == "plots.bar" and "xj.load" in written["api/explainers.md"]


def test_a_name_lists_the_examples_that_use_it():
    entry = api.pages(EXAMPLES)["api/plots.md"].partition("heading: xj.plots.beeswarm\n")[2]
    assert "(../examples/plot_beeswarm.md)" in entry.partition(":::")[0]
    assert names.used(ROOT / "examples" / "plot_worth.py") == {
        "Explanation", "FederatedExplainer", "as_model", "plots.worth",
    }  # fmt: skip


def test_the_example_of_a_docstring_moves_and_no_other_section():
    runtime_text = pytest.importorskip("site_build.runtime_text", reason="needs the extra [docs]")
    text = runtime_text.for_griffe(
        "What it is.\n\nArgs:\n    a: of shape [N, *F].\n\nRaises:\n    InputError: no a.\n\n"
        "Example:\n    >>> 1\n    1\n\n    One.\n\nA remark.\n\nReferences:\n    A paper.\n"
    )
    assert text == (
        "What it is.\n\nExamples:\n    >>> 1\n    1\n\n    One.\n\n"
        "Args:\n    a: of shape [N, \\*F].\n\n"
        "Raises:\n    InputError: no a.\n\nA remark.\n\nReferences:\n    A paper."
    )
    last = runtime_text.for_griffe("What.\n\nArgs:\n    a: b.\n\nExample:\n    >>> 1\n    1")
    assert last == "What.\n\nExamples:\n    >>> 1\n    1\n\nArgs:\n    a: b."


def test_the_gallery_has_every_example():
    written = gallery.pages(EXAMPLES)
    shown = set(re.findall(r"\]\((\w+)\.md\)", written["examples/index.md"]))
    assert shown == {one.stem for one in EXAMPLES} and len(written) == len(EXAMPLES) + 1
    pictures = set(re.findall(r"\(pictures/(\w+)\.png\)", written["examples/index.md"]))
    assert pictures == {one.stem for one in EXAMPLES if one.stem.startswith("plot_")}
    assert len(pictures) >= 6
    page = written["examples/plot_waterfall.md"]
    assert "(pictures/plot_waterfall.png)" in page and "def main(picture" in page
    assert "When to use it:" in page
    assert page.startswith("# plots.waterfall\n\nOne answer, step by step")
    assert written["examples/plot_precision.md"].startswith("# How far values are off")
    headings = re.findall(r"^## (.+)$", written["examples/index.md"], re.MULTILINE)
    assert headings == [*gallery.GROUPS, "Longer examples"]
    assert written["examples/index.md"].index("beeswarm") < written["examples/index.md"].index(
        "bar"
    )


@pytest.mark.parametrize(
    ("body", "error"), [("raise KeyError('planted')", KeyError), ("pass", RuntimeError)]
)
def test_an_example_that_fails_or_draws_nothing_ends_the_build(body, error, tmp_path):
    script = tmp_path / "plot_planted.py"
    script.write_text(f'"""A planted one."""\n\n\ndef main(picture):\n    {body}\n')
    with pytest.raises(error, match="planted"):
        gallery.draw([script], tmp_path / "pictures")


def test_a_page_shows_what_its_code_draws_and_prints(tmp_path):
    page, picture = tmp_path / "planted.md", tmp_path / "picture.png"
    code = "import pathlib\nprint(1)\npathlib.Path('planted.png').write_bytes(b'drawn')\n"
    text = f"![a](pictures/planted.png)\n\n```text\nold\n```\n\n```python\n{code}```\n"
    page.write_text(text + "\n```python\nprint(2)\n```\n```text\nkept\n```\n")
    assert outputs.shows(page)
    made = outputs.run(page, picture)
    assert made == page.read_text().replace("old", "1") and picture.read_bytes() == b"drawn"
    page.write_text(text.replace("planted.png')", "other.png')"))
    with pytest.raises(RuntimeError, match=r"planted\.md shows pictures/planted\.png, and none"):
        outputs.run(page, picture)


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


def test_names_of_the_library_lead_to_the_api():
    text = "## `xj.QII`\n`xj.QII`, `xj.nothing` and [`xj.QII`](qii.md)\n```\n`xj.QII`\n```"
    link = f"[`xj.QII`][{names.address('QII')}]"
    assert pages.with_links(text) == text.replace("\n`xj.QII`,", f"\n{link},")


def test_a_page_of_a_method_names_its_api_and_its_pictures():
    shown = {"plots.bar": ROOT / "examples" / "plot_bar_of_outputs.py"}
    text = "# A\n\n**Use it when** so.\nElse not.\n\n`xj.QII(model)`, `xj.XaiWarning`"
    added = "**API:** `xj.QII`. **Gallery:** {}.\n\n"
    before, after = text.split("`xj.QII", 1)
    wanted = before + added.format("[all pictures](../examples/index.md)") + "`xj.QII" + after
    assert pages.see_also(text, shown) == wanted
    drawn = pages.see_also(f"{text} `xj.plots.bar(values)`", shown)
    assert added.format("[plots.bar](../examples/plot_bar_of_outputs.md)") in drawn
    assert pages.see_also("# A\n\nNo method.\n", shown) == "# A\n\nNo method.\n"


def test_formulas_become_mathml_and_no_name_of_latex_is_left():
    hooks = pytest.importorskip("site_build.hooks", reason="needs the extra [docs]")
    made = hooks.on_page_content(r'<p>a <span class="arithmatex">\(x_1 &lt; |S|\)</span></p>')
    assert "<msub><mi>x</mi><mn>1</mn></msub><mo>&#x0003C;</mo>" in made
    assert made.endswith(
        '<mo stretchy="false" lspace="0" rspace="0">|</mo></mrow></math></span></p>'
    )
    found = 0
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text("utf-8")
        formulas = re.findall(r"^```math\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        text = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
        for formula in [*formulas, *re.findall(r"\$([^$\n]+)\$", text)]:
            found += 1
            plain = re.sub(r"<[^>]+>", "", hooks.convert(formula.strip()))
            assert "\\" not in plain, f"{page.name}: {formula}"
            # On GitHub a backslash before punctuation is taken for an escape.
            assert not re.search(r"\\[,;!{}\\]", formula), f"{page.name}: {formula}"
    assert found > 50


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
    explainer = (site / "api" / "Explainer.html").read_text("utf-8")
    assert f'id="{names.address("Explainer")}"' in explainer
    assert "{memory}" not in explainer and "max_memory" in explainer
    order = [explainer.index(one) for one in ("Examples:", "<h2", "Parameters:", "Raises:")]
    assert order[0] < order[2] < order[3] < order[1]  # of the class, before its first method
    for entry in (site / "api").glob("*.html"):
        assert "<p>Args:" not in entry.read_text("utf-8"), f"{entry.name}: a section is not read"
    assert "https://github.com/xaijax/xaijax" in explainer and __version__ in explainer
    shapley = (site / "docs" / "shapley.html").read_text("utf-8")
    assert "<math" in shapley and "arithmatex" in shapley and "\\frac" not in shapley
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
