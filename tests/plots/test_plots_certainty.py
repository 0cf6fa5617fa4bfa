"""Pictures of comparisons, curves and backgrounds: what is drawn is what was found."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
matplotlib.use("Agg")
RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(60, 3))


def explained(values):
    return xj.Explanation(values, np.zeros(values.shape[:1] + values.shape[2:]))


COMPARED = xj.compare(explained(VALUES), explained(VALUES + [0, 1, -2]), paired=True)
MIXED = xj.compare(
    explained(VALUES), explained(RNG.normal(size=(60, 3)) + [0, 2, -3]), paired=False
)


def test_shifts_and_intervals_are_drawn_in_order():
    axes = xj.plots.compare(MIXED, of="value")
    lines = axes.lines[1:]
    order = [2, 1, 0]
    assert [t.get_text() for t in axes.get_yticklabels()] == [f"player {j}" for j in order]
    for row, j in enumerate(order):
        interval, point = lines[2 * row], lines[2 * row + 1]
        np.testing.assert_array_equal(interval.get_xdata(), [MIXED.low[j], MIXED.high[j]])
        assert point.get_xdata()[0] == MIXED.shift[j]
    colours = [line.get_color() for line in lines[::2]]
    assert len(set(colours)) == 3 and "95 %" in axes.get_xlabel()
    assert len(xj.plots.compare(COMPARED, max_display=1).get_yticklabels()) == 1


def test_one_of_several_outputs_is_drawn():
    two = np.stack([VALUES, VALUES], axis=2)
    after = two + [0.0, 1.0]
    compared = xj.compare(explained(two), explained(after), paired=True)
    axes = xj.plots.compare(compared, output="output 1", of="value")
    assert axes.lines[2].get_xdata()[0] == pytest.approx(1)
    with pytest.raises(xj.InputError, match="there are 2"):
        xj.plots.compare(compared)
    with pytest.raises(xj.InputError, match="leave output out"):
        xj.plots.compare(COMPARED, output=0)


def test_shifts_are_of_an_output_that_is_named():
    sides = [
        xj.Explanation(
            np.stack([VALUES, VALUES + shift], axis=2), np.zeros((len(VALUES), 2)),
            output_names=("no", "yes"), provenance={"quantity": "proba", "link": "logit"},
        )
        for shift in (0.0, 5.0)
    ]  # fmt: skip
    both = xj.compare(*sides, paired=True)
    for compared, output in [
        (both, "no"),
        (xj.compare(*(one[:, :, "no"] for one in sides), paired=True), None),
    ]:
        title = xj.plots.compare(compared, output=output).get_title(loc="left")
        told = "logit of the probability of no, paired instances"
        assert " ".join(title.split()) == told
    assert xj.plots.compare(COMPARED).get_title(loc="left") == "paired instances"


@pytest.mark.slow
def test_curves_and_areas_are_drawn():
    explainer = xj.Explainer(xj.as_model(lambda X: X.sum(axis=1)), np.zeros((1, 3)))
    judged = xj.judge({"a": VALUES, "b": -VALUES}, explainer, VALUES, curves=True)
    axes = xj.plots.faithfulness(judged, which="deletion")
    curves = judged["a"].curves
    assert curves is not None and len(axes.lines) == 2
    mean = (curves.deletion - curves.insertion[:, :1]).mean(axis=(0, 2))
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), mean)
    plain = xj.judge(VALUES, explainer, VALUES)
    with pytest.raises(xj.InputError, match="curves=True"):
        xj.plots.faithfulness(plain)


def test_the_spread_is_drawn():
    explainer = xj.Explainer(xj.as_model(lambda X: X.sum(axis=1)), VALUES)
    found = xj.background_spread(explainer, VALUES[:3], sizes=(5, 20), draws=2)
    axes = xj.plots.background_spread(found)
    assert [bar.get_width() for bar in axes.patches] == list(found.spread)


@pytest.mark.parametrize("draw", ["compare", "faithfulness", "background_spread"])
def test_other_things_are_refused(draw):
    with pytest.raises(xj.InputTypeError, match="pass what xaijax"):
        getattr(xj.plots, draw)(VALUES)
