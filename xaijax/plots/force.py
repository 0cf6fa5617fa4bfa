"""One instance as one bar: what raises the answer from the left meets what lowers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.names import with_entries
from xaijax.plots.waterfall import chosen_instance, entry_of, refuse_no_sum
from xaijax.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = 24  # characters of a name: two columns of names share the width
LEAST = 1e-9  # of the largest |value|: smaller ones have no part of the bar


@public
def force(
    explanation: Explanation,
    ax: Axes | None = None,
    *,
    instance: int | str | None = None,
    max_display: int = 8,
    output: int | str | None = None,
) -> Axes:
    """One bar for one instance: orange parts end, and blue parts begin, at base value plus values.

    That is the model's answer where the values add up to it, as Shapley values do. An orange
    part raises it by its length, a blue one lowers it. The largest parts touch there. The
    `max_display` players of the largest |value| have a part each, with name and entry below it.
    The others that raise, and those that lower, make a grey part at either end; where it is
    longer than the longest part, it is cut, and its number says so. A line marks the base value
    where the bar reaches that far. The axis says how wide the widest 95 % interval of sampled
    values is.

    Args:
        explanation: `Explanation` of at least one instance, values [N, P], or [N, P, K] with
            `output`.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        instance: position or name of the instance. Needed if there are several.
        max_display: int, at least 1. Players shown one by one.
        output: name or position of one output. Needed with K outputs.

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted; several instances and none
            chosen; values that are no steps towards a sum, or all 0.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explanation = xj.Explanation(np.array([[3.0, -1.0]]), np.array([0.5]))
        >>> axes = xj.plots.force(explanation)
        >>> [(float(part.get_x()), float(part.get_width())) for part in axes.patches]
        [(-0.5, 3.0), (2.5, 1.0)]
    """
    style.check(explanation, max_display)
    refuse_no_sum(explanation)
    explanation = style.one_output(explanation, output, "force")
    one = chosen_instance(explanation, instance, "force")
    values, base = one.values[0], float(one.base_values[0])
    answer = base + float(values.sum())
    largest = np.abs(values).max()
    if largest == 0:
        raise InputError("explanation: all values of the instance are 0; there is no bar to draw.")
    shown, others = style.split(np.abs(values), max_display)
    shown = np.array([j for j in shown if abs(values[j]) > LEAST * largest])
    data = one.player_data()
    names = with_entries(
        [one.feature_names[j] for j in shown],
        [[None if (own := data[j]) is None else entry_of(own[0])] for j in shown],
        " = ",
        NAME,
    )
    rows = max(int((values[shown] > 0).sum()), int((values[shown] < 0).sum())) + 1
    axes = style.new_axes(ax, rows, width=11.0)
    ends = [answer, answer]
    for side, sign in enumerate((-1, 1)):  # to the left what raises, to the right what lowers
        mine = [place for place, j in enumerate(shown) if values[j] * sign < 0]
        parts = [(abs(values[shown[place]]), names[place]) for place in mine]
        rest = np.abs(values[others][values[others] * sign < 0])
        ends[side] = _side(axes, answer, sign, parts, rest, largest)
    width = ends[1] - ends[0]
    axes.set_xlim(ends[0] - 0.02 * width, ends[1] + 0.02 * width)
    _mark(axes, answer, f"base value + all values = {style.number(answer, 4)}", -1.25, -0.4)
    inside = ends[0] <= base <= ends[1]
    if inside and abs(base - answer) > 1e-3 * width:
        axes.plot([base, base], [-0.4, 0.4], color="#ffffff", linewidth=1.2, linestyle=":")
    note = " (dotted)" if inside else ""
    start = style.number(base, 4)
    xlabel = f"orange raises, blue lowers: {style.value_name(one)}s; base value {start}{note}"
    xlabel += style.widest(one)
    style.dress(axes, [], xlabel, style.title_of_one(one))
    axes.grid(visible=False)
    axes.set_ylim(rows + 0.6, -1.7)
    return axes


def _side(
    ax: Axes, answer: float, sign: int, parts: list[tuple[float, str]], rest: Any, largest: float
) -> float:
    """Draw one side's parts, the largest at the answer; returns where the bar ends."""
    colour = style.UP if sign < 0 else style.DOWN
    at, middles = answer, []
    for length, _ in parts:
        ax.barh(
            [0], [length], left=[min(at, at + sign * length)], height=0.8, color=colour,
            edgecolor=style.ground(), linewidth=1,
        )  # fmt: skip
        middles.append(at + sign * length / 2)
        at += sign * length
    labels = [f"{text}  {style.signed(-sign * length)}" for length, text in parts]
    if len(rest):
        drawn, whole = min(float(rest.sum()), largest), float(rest.sum())
        ax.barh(
            [0], [drawn], left=[min(at, at + sign * drawn)], height=0.8, color=style.GREY,
            edgecolor=style.ground(), linewidth=1, hatch=None if drawn == whole else "////",
        )  # fmt: skip
        middles.append(at + sign * drawn / 2)
        cut = "" if drawn == whole else ", not to scale"
        count = "1 other" if len(rest) == 1 else f"{len(rest)} others"
        labels.append(f"{count}  {style.signed(-sign * whole)}{cut}")
        at += sign * drawn
    # From the outermost part down: its line ends before the texts of the parts further in.
    for row, (x, label) in enumerate(zip(middles[::-1], labels[::-1], strict=True), start=1):
        ax.plot([x, x], [0.4, row], color=style.GREY, linewidth=0.8, zorder=1)
        ax.annotate(
            label, (x, row), xytext=(4 * sign, 0), textcoords="offset points", va="center",
            ha="right" if sign < 0 else "left", fontsize=8.5, color=style.ink(), parse_math=False,
        )  # fmt: skip
    return at


def _mark(ax: Axes, x: float, text: str, top: float, bottom: float) -> None:
    left, right = ax.get_xlim()
    ax.plot([x, x], [top + 0.3, bottom], color=style.ink(), linewidth=1)
    share = (x - left) / (right - left)
    side = "left" if share < 0.25 else "right" if share > 0.75 else "center"
    ax.text(x, top, text, ha=side, va="center", fontsize=9, color=style.ink())
