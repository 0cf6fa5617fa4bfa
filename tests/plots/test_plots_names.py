"""Names of one picture: shortened together, and still different where the names are."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj
from xaijax.plots.style import elide, shorten
from xaijax.plots.waterfall import with_entries

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
matplotlib.use("Agg")
LONG = [f"the quantity that is measured, number {j} of the census of the year" for j in range(60)]


def test_short_names_stay_and_long_ones_keep_both_ends():
    assert shorten(["age", "pay"]) == ["age", "pay"]
    (one,) = shorten(["a very long name of a measured quantity"])
    assert one == elide("a very long name of a measured quantity") and len(one) <= 30
    assert one.startswith("a very") and one.endswith("quantity")


@pytest.mark.parametrize(
    "names",
    [
        LONG,
        [f"{'x' * 300}{j}{'y' * 300}" for j in range(12)],
        ["x" * 300 + p + "y" * 200 + q + "z" * 90 for p in "ab" for q in "cd"],
        ["a" * n for n in range(20, 60)],
        ["tab\tx", "tab x", "tab  x"],
        ["x" * 50 + "ab" + "y" * 50, "x" * 50 + "ba" + "y" * 50, "x" * 9 + "…" + "x" * 9],
    ],
)
def test_what_differs_is_drawn_differently(names):
    shown = shorten(names)
    assert len(set(shown)) == len(names)
    assert shorten(names[::-1]) == shown[::-1]  # whatever the order


def test_the_place_where_they_differ_is_shown_within_the_limit():
    shown = shorten(LONG)
    assert all(str(j) in one and len(one) <= 30 for j, one in enumerate(shown))
    assert shorten(["same" * 20] * 2) == [elide("same" * 20)] * 2  # words of a sentence repeat


def test_name_and_entry_are_cut_apart():
    kinds = ["Married-civ-spouse of long standing", "Married-AF-spouse of long standing"]
    names = ["Marital status", LONG[0]]
    rows = with_entries(names, [kinds, ["3", "3"]], ": ")
    assert rows[0].startswith("Marital status: Married-civ")
    first, second = rows[0].partition(": ")[2].split(" | ")
    assert first != second and max(len(first), len(second)) <= 20
    assert rows[1] == f"{elide(LONG[0])}: 3"
    below = with_entries(names, [kinds, [None, None]], ": ", line=44)
    assert below[0].split("\n")[0] == "Marital status:" and below[1] == elide(LONG[0])


@pytest.mark.parametrize("P", [3, 60])
def test_every_row_of_two_people_has_its_own_name(P):
    pd = pytest.importorskip("pandas", reason="needs the extra [data]")
    values = np.arange(2 * P).reshape(2, P) + 1.0
    same = ["Married-civ-spouse, living together", "Married-civ-spouse, living apart"]
    data = pd.DataFrame(dict.fromkeys(LONG[:P], same))
    people = xj.Explanation(values, np.zeros(2), data=data, feature_names=tuple(LONG[:P]))
    ax = xj.plots.profile(people)
    labels = [tick.get_text() for tick in ax.get_yticklabels()]
    shown = [f"number {j}" for j in range(P - 1, max(P - 15, -1), -1)]
    for label, name in zip(labels, shown, strict=False):
        assert name.split()[1] in label.split(":")[0] and "gether |" in label and "apart" in label
    ax.figure.canvas.draw()
    boxes = [tick.get_window_extent() for tick in ax.get_yticklabels()]
    assert all(lower.y1 <= upper.y0 for upper, lower in zip(boxes, boxes[1:], strict=False))


def test_a_long_title_has_two_lines_within_the_picture():
    named = {"instance_names": ("word " * 60,), "provenance": {"selected_output": "class " * 60}}
    ax = xj.plots.waterfall(xj.Explanation(np.ones((1, 3)), np.zeros(1), **named))
    ax.figure.canvas.draw()
    title = ax.get_title(loc="left")
    assert title.count("\n") == 1 and title.startswith("instance: word")
    assert ax._left_title.get_window_extent().x1 <= ax.figure.bbox.x1
