"""The QII notebook keeps its promises: a verdict ends every caption, checks run in both sizes."""

from __future__ import annotations

import ast
import json
import re

import pytest
from repository import ROOT

CELLS = json.loads((ROOT / "notebooks" / "qii.ipynb").read_text("utf-8"))["cells"]
TEXTS = ["".join(one["source"]) for one in CELLS if one["cell_type"] == "markdown"]
CODE = ["".join(one["source"]) for one in CELLS if one["cell_type"] == "code"]
CAPTIONS = [
    " ".join(paragraph.split())
    for text in TEXTS
    for paragraph in text.split("\n\n")
    if re.match(r"\s*\*\*(Fig|Table)", paragraph)
]
# Every figure and table of the paper that the notebook repeats.
NAMED = {"Figure 1", "Figure 2a", "Figure 2b", "Figure 2c", "Figure 2d", "Table II", "Figure 3",
         "Figures 4 and 5", "Figure 6"}  # fmt: skip
# What is asserted of the paper's numbers.
CHECKS = (
    "0.02 <= logistic <= 0.05",
    "order[:3] == ['Drug History', 'Gender', 'Smoking History']",
    "0.16 <= gaps['adult'].stats['quantity'][0] <= 0.2",
    "slope > 0 and 1 - rest > 0.95",
)


def ends_with_verdict(caption):
    """Its last sentence: "... agrees." or "Differs because ..."."""
    last = re.split(r"(?<=[.]) (?=[A-Z])", caption)[-1]
    return last.endswith("agrees.") or re.search(r"\b[Dd]iffers because ", last) is not None


@pytest.mark.parametrize("caption", CAPTIONS, ids=lambda text: text[2:14])
def test_captions_end_with_the_verdict(caption):
    assert ends_with_verdict(caption), caption[-200:]


def test_every_figure_has_a_caption():
    found = {re.match(r"\*\*([^.,*]+)", caption)[1] for caption in CAPTIONS}
    assert found == NAMED


def test_a_verdict_is_told_from_none():
    assert ends_with_verdict("It is .3 (paper .4). Differs because of a split, as .2 shows.")
    assert ends_with_verdict("The order is the paper's: agrees.")
    assert not ends_with_verdict("Agrees. The paper says more.")
    assert not ends_with_verdict("Differs because of a split. The rest is as printed.")


def test_the_four_checks_run_in_both_sizes():
    tree = [node for code in CODE for node in ast.walk(ast.parse(code))]
    asserts = [ast.unparse(node.test) for node in tree if isinstance(node, ast.Assert)]
    assert sorted(asserts) == sorted(CHECKS)
    by_size = [
        ast.unparse(one)
        for node in tree
        if isinstance(node, ast.If) and "SIZE" in ast.unparse(node.test)
        for one in ast.walk(node)
        if isinstance(one, ast.Assert)
    ]
    assert by_size == []


def test_both_kernels_of_the_support_vector_machine():
    assert "SVC()" in "".join(CODE) and 'SVC(kernel="linear")' in "".join(CODE)
    shown = json.dumps([one.get("outputs", []) for one in CELLS])
    assert "linear svm A" in shown and "kernel svm A" in shown
    assert "19,537 rows" in shown  # what is stored is the full run, of which the text speaks
