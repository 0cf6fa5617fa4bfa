"""Figures have one source: the table and the pages say what `bench/results.json` says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench import report
from bench.cases import CASES
from bench.frame import Figure

ROWS = report.read()
PAGES = list(report.pages())
BLOCK = re.compile(r"\n\s*\n|\n(?=\||\s*(?:[-*]|\d+\.) )")  # paragraphs, items, lines of tables
NUMBER = re.compile(r"(?<![\w.,-])(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?! ?x \d)")
TIMES = re.compile(r" ?(?:x|times|-fold)\b(?! (?:the|as many)\b)")
PEER = re.compile(r"\b(?:shap|shapiq|alibi|captum|woodelf|authors'|anchor-exp)\b|scikit-learn's")
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")


def typed(page: str, rows: list[report.Row]) -> list[str]:
    """Numbers of a page that are a bench row's and have no mark.

    They stand in a paragraph that names a case, and are equal to one of its figures; or they say
    how many times faster something is than a peer, or than what the named case measures, without
    the date of a measurement.
    """
    page = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(f"{report.BEGIN}.*?{report.END}", "", page, flags=re.DOTALL)
    figures = {one.case: one.figures for one in rows}
    found = []
    for block in BLOCK.split(page):
        text = report.MARKED.sub("", block)
        cases = set(re.findall(r"\bT\d+(?:-\w+)?\b", text)) & set(figures)
        values = [one.value for case in cases for one in figures[case]]
        for number in NUMBER.finditer(text):
            digits = re.sub(r"[,.]", "", number[0]).lstrip("0")
            shown = {report.rounded(value, len(digits) or 1) for value in values}
            equal = len(digits) > 1 and f"{number[0]:0>2}".replace("0.", ".", 1) in {
                f"{one:0>2}".replace("0.", ".", 1) for one in shown
            }
            ratio = TIMES.match(text, number.end()) and (cases or PEER.search(text))
            if equal or (ratio and not DATE.search(text)):
                found.append(text[max(0, number.start() - 30) : number.end() + 20])
    return found


def test_the_table_is_made_from_the_results() -> None:
    page = report.HERE / "README.md"
    assert report.with_table(page.read_text(), ROWS) == page.read_text()
    assert len(page.read_text().splitlines()) <= 150


def test_the_results_have_a_row_for_each_target() -> None:
    assert {f"T{number}" for number in range(1, 73)} <= {one.case for one in ROWS}
    for one in ROWS:
        if one.verdict == report.NOT_YET:
            assert (one.machine, one.figures) == ({}, ()), one.case
            continue
        assert re.fullmatch(r"[0-9a-f]{10}\+?", one.commit), one.case
        assert one.machine["date"] >= "2026-11", one.case
        if one.verdict == "missed":
            assert one.reason == CASES[one.case].missed != "", one.case
        else:
            assert not any(figure.verdict == "missed" for figure in one.figures), one.case
            assert bool(one.reason) == (one.verdict == report.NOT_RUN), one.case


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(report.ROOT).as_posix())
def test_figures_of_pages_are_those_of_the_results(page: Path) -> None:
    text = page.read_text()
    assert report.with_figures(text, ROWS) == text
    assert typed(text, ROWS) == []


def test_pages_have_marks() -> None:
    marks = [found["key"] for page in PAGES for found in report.MARKED.finditer(page.read_text())]
    assert len(marks) >= 25 and len({one.partition(":")[0] for one in marks}) >= 10


MACHINE = {"platform": "cpu", "device": "cpu", "commit": "c", "date": "2026-11-01"}
PLANTED = report.Row(
    "T3",
    "met",
    figures=(Figure("a: peer / ours", 84.66), Figure("b: c: peer / ours", 0.0421, 0.1, unit=" %")),
    machine=MACHINE,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("12.3x<!-- T3: peer / ours (a) -->", "84.7x<!-- T3: peer / ours (a) -->"),
        ("12<!-- T3: peer / ours (a) --> times", "85<!-- T3: peer / ours (a) --> times"),
        ("3<!-- T3: peer / ours (a) --> times", "85<!-- T3: peer / ours (a) --> times"),
        ("some 0.5 %<!-- T3: peer / ours (b, c) -->", "some 0.04 %<!-- T3: peer / ours (b, c) -->"),
        ("0.50 %<!-- T3: peer / ours (b, c) -->", "0.042 %<!-- T3: peer / ours (b, c) -->"),
        ("12x<!-- another comment -->, 7<!-- T9: other -->", None),
    ],
)
def test_a_marked_number_is_written_anew_with_its_digits(before: str, after: str | None) -> None:
    written = report.with_figures(before, [PLANTED])
    assert written == (after or before)
    assert report.with_figures(written, [PLANTED]) == written


def test_a_mark_without_a_figure_is_named() -> None:
    with pytest.raises(
        KeyError, match=r"T3 has no figure 'peer / ours'; it has peer / ours \(a\), "
    ):
        report.with_figures("1x<!-- T3: peer / ours -->", [PLANTED])


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It is 84.7x (T3).", 1),  # a row's number
        ("It is 85 % (T3).", 1),
        ("It takes .042 of it (T3).", 1),
        ("It is 3 times as fast as shap.", 1),
        ("It is 3 times as fast as shap (2026-11-01).", 0),
        ("In T3 it is 3x.", 1),
        ("In T3 there are 2 x 64 units and 1,000 rows, 85<!-- T3: peer / ours (a) --> times.", 0),
        ("It is 85 %.\n\nT3 is another paragraph.", 0),
    ],
)
def test_a_number_that_is_typed_is_found(text: str, count: int) -> None:
    assert len(typed(text, [PLANTED])) == count


def test_a_run_writes_results_table_and_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "HERE", tmp_path / "bench")
    monkeypatch.setattr(report, "ROOT", tmp_path)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "README.md").write_text(f"{report.BEGIN}\n{report.END}\n")
    (tmp_path / "README.md").write_text("1.0x<!-- T3: peer / ours (a) -->")
    report.write([])
    report.keep(PLANTED)
    assert report.read() == [PLANTED]
    assert (
        "| T3 | cpu | c | 2026-11-01 | peer / ours <= 0.1 %: 0.0421 % (b, c) | met |  |"
        in (tmp_path / "bench" / "README.md").read_text()
    )
    assert (tmp_path / "README.md").read_text() == "85x<!-- T3: peer / ours (a) -->"
