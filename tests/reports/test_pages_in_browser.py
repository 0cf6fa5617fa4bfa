"""The pages in a real Chromium: quiet, alone, narrow enough, accessible, and what they do.

Slow, and skipped where there is no browser: `apt-get install chromium`, `pip install playwright`
(its own browser is not needed). With `pip install axe-playwright-python` also held against axe.
"""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
from aec_data import collinear, fitted

import xaijax as xj

pytest.importorskip("matplotlib", reason="needs the extra [plots]")
pytest.importorskip("jinja2", reason="needs the extra [plots]")
playwright = pytest.importorskip("playwright.sync_api", reason="needs `pip install playwright`")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine's PATH"),
]
RNG = np.random.default_rng(0)
LONG = "a name of a column that goes on and on, and on, and without_a_place_to_break_" * 2
KINDS = ("report", "pairs", "sweep", "transparency", "collinearity", "comparison", "rules")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """One page of each kind, with many players, long names and markup in them."""
    folder = tmp_path_factory.mktemp("pages")
    names = ("<script>alert('x')</script>", LONG, *(f"column {j}" for j in range(28)))
    values = RNG.normal(size=(12, 30))
    fields = {"feature_names": names, "std_errors": np.full(values.shape, 0.1), "exact": False}
    many = xj.Explanation(values, np.zeros(12), data=values, **fields)
    xj.report(many, folder / "report.html", model="<b>risk</b>")
    other = xj.Explanation(values + 0.2, np.zeros(12), feature_names=names)
    xj.comparison_report(xj.compare(many, other, paired=True), folder / "comparison.html")
    X, y = collinear(rows=40, columns=4)
    effects = fitted(X, y).explanation_
    xj.collinearity_report(effects, effects, folder / "collinearity.html")
    data = np.array([[0, 0], [0, 1], [1, 1], [1, 1]])
    model = xj.as_model(lambda X: X[:, 1] > 0, output="label", feature_names=[LONG, "b"])
    two = xj.QII(model, data).explain(data[:2])
    xj.transparency_report(two, folder / "transparency.html", model=model)
    rules = tuple(
        xj.Rule([f"{LONG} > {n}"], [(0, n, np.inf)], "yes", n / 20, None, 0.5, True, 2, "exact")
        for n in range(12)
    )
    xj.rules_report(xj.Rules(rules, (LONG,)), folder / "rules.html")
    rows = RNG.normal(size=(30, 3))
    product = xj.as_model(lambda X: X[:, 0] * X[:, 1] + X[:, 2], feature_names=[LONG, "b", "c"])
    explainer = xj.Explainer(product, rows[:4])
    pairs = explainer.interactions(rows[:6])
    xj.report(explainer(rows[:6]), folder / "pairs.html", interactions=pairs, model=product)
    run = xj.sweep(explainer, rows, folder / "run", rows_per_part=10)
    xj.report(run.explanation(lazy=True), folder / "sweep.html", model=product)
    return folder


@pytest.fixture(scope="module")
def browser():
    options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=options)
        yield chromium
        chromium.close()


def opened(browser, path, **options):
    """The page, what it said in the console, and what it asked for besides itself."""
    page = browser.new_context(**options).new_page()
    said, asked = [], []
    page.on("console", lambda one: said.append(one.text))
    page.on("pageerror", lambda one: said.append(str(one)))
    page.on("request", lambda one: asked.append(one.url))
    page.goto(path.as_uri())
    return page, said, [one for one in asked if one != path.as_uri() and one[:5] != "data:"]


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_quiet_alone_and_fits_a_phone(kind, scripts, pages, browser):
    size = {"width": 390, "height": 800}
    for scheme in ("light", "dark"):
        options = {"viewport": size, "color_scheme": scheme, "java_script_enabled": scripts}
        page, said, asked = opened(browser, pages / f"{kind}.html", **options)
        assert not said and not asked
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{width} pixels wide"
        assert page.locator("thead button").count() == 0 or scripts
        assert page.locator("table tbody tr").first.is_visible()
        page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(kind, scheme, pages, browser):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="needs `pip install axe-playwright-python`"
    )
    options = {"viewport": {"width": 390, "height": 800}, "color_scheme": scheme}
    page, *_ = opened(browser, pages / f"{kind}.html", bypass_csp=True, **options)
    found = axe.Axe().run(page)
    page.context.close()
    assert found.violations_count == 0, found.generate_report()


def test_a_table_is_sorted_and_searched(pages, browser):
    page, said, _ = opened(browser, pages / "report.html")
    rows = page.locator("table.searchable tbody tr")
    assert rows.count() == 30
    head = page.locator("table.searchable thead button", has_text="mean value")
    head.click()
    column = [float(one) for one in page.locator("tbody tr td:nth-child(4)").all_inner_texts()]
    assert column[:30] == sorted(column[:30], reverse=True)
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("mean value")
    head.click()
    assert float(rows.first.locator("td").nth(2).inner_text()) == min(column[:30])
    page.get_by_label("Search").fill("COLUMN 2")
    assert [row.is_visible() for row in rows.all()].count(True) == 9
    assert page.get_by_role("status").inner_text() == "9 of 30"
    assert not said
    page.context.close()


def test_an_instance_is_chosen(pages, browser):
    page, said, _ = opened(browser, pages / "report.html")
    choice, each = page.get_by_role("combobox"), page.locator(".instances details")
    assert choice.locator("option").count() == each.count() == 12
    for n in (0, 7):
        choice.select_option(index=n)
        assert [one.is_visible() for one in each.all()] == [i == n for i in range(12)]
        assert each.nth(n).locator("table").is_visible()
    page.context.close()
    page, *_ = opened(browser, pages / "report.html", java_script_enabled=False)
    each = page.locator(".instances details")
    assert [one.is_visible() for one in each.all()] == [True] * 12
    each.nth(3).locator("summary").click()
    assert each.nth(3).locator("table").is_visible() and not said
    page.context.close()


def test_paper_is_white_and_shows_whole_tables(pages, browser):
    page, *_ = opened(browser, pages / "report.html", color_scheme="dark")
    told = "[getComputedStyle(document.body).backgroundColor, box.scrollHeight - box.clientHeight]"
    measure = f"() => {{ const box = document.querySelector('.box'); return {told} }}"
    colour, hidden = page.evaluate(measure)
    assert colour == "rgb(21, 24, 27)" and hidden > 0
    page.emulate_media(media="print")
    assert page.evaluate(measure) == ["rgb(255, 255, 255)", 0]
    assert not page.get_by_label("Search").is_visible()
    page.context.close()
