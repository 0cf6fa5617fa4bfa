"""The players by their mean absolute value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.names import shorten
from xaijax.results.explanation import Explanation
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.summary import mean_abs, ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def bar(
    explanation: Explanation | PrivateExplanation,
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    output: int | str | None = None,
) -> Axes:
    """One bar per player: the mean of |value| over the N instances.

    The `max_display` largest players are shown from the top. The sum of the others stands below as
    a number, outside of the scale: of many players it would be longer than every bar. Where a sum
    means nothing (unary influences, indices of Deegan and Packel, effects of an AEC), only how many
    they are is told. With K outputs and `output=None`, the bars of the outputs are stacked, each
    in its colour, and the number is their sum. Of more than seven outputs, the six largest have
    colours, and the sum of the others is grey.

    If standard errors are known, a line shows a 95 % interval. Its half-width is the mean over the
    instances of the values' half-widths, summed over stacked outputs. This bounds the error of the
    mean, however the errors are correlated. The sum of the others has no line, since that bound,
    summed over many players, would say nothing.

    Args:
        explanation: `Explanation` of at least one instance, values [N, P] or [N, P, K]; or its
            private copy.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        max_display: int, at least 1. Players shown one by one.
        output: name or position of one output, or None: all.

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> values = np.array([[1.0, -2.0], [3.0, 0.0]])
        >>> explanation = xj.Explanation(values, np.zeros(2), feature_names=("age", "size"))
        >>> axes = xj.plots.bar(explanation)
        >>> axes.get_xlabel()
        'mean |Shapley value| over 2 instances'
        >>> [bar.get_width().item() for bar in axes.patches]
        [2.0, 1.0]
    """
    style.check(explanation, max_display, private=True)
    if output is not None:
        explanation = style.one_output(explanation, output, "bar")
    size = mean_abs(explanation)
    shown, others = style.split(size, max_display)
    names = [explanation.feature_names[j] for j in shown]
    lengths = size[shown]
    half = _half_widths(explanation, shown)
    summed = len(others) > 0 and style.named(explanation.kind).steps
    if summed:
        names.append(style.others_name(others))

    stacked = explanation.output_names is not None
    axes = style.new_axes(ax, len(names), 9.2 if stacked else 7.2)
    if explanation.output_names is None:
        axes.barh(np.arange(len(lengths)), lengths, height=0.68, color=style.DOWN)
        ends = lengths
    else:
        ends = _stacked(axes, lengths, explanation.output_names)
    reach = ends.copy()
    if half is not None:
        known = np.flatnonzero(np.isfinite(half))
        reach[known] += half[known]
        axes.errorbar(
            ends[known],
            known,
            xerr=half[known],
            fmt="none",
            ecolor=style.ink(),
            elinewidth=1,
            capsize=2.5,
        )
    for row, end in enumerate(reach):
        style.beside(axes, end, row, style.number(ends[row]))
    xlabel = _xlabel(explanation) + style.intervals(explanation, half)
    if summed:
        total = style.number(size[others].sum())
        style.beyond_scale(axes, 0.0, len(shown), f"{total}, not to scale")
    else:
        xlabel += style.not_shown(others)
    style.dress(axes, names, xlabel, style.title_of(explanation))
    axes.set_xlim(0, 1.12 * reach.max() or 1)
    return axes


def _half_widths(
    explanation: Explanation | PrivateExplanation, shown: np.ndarray
) -> np.ndarray | None:
    """Half 95 % intervals of the shown players, all outputs together where there are several."""
    half = style.half_widths(explanation)
    if half is None:
        return None
    half = half.mean(axis=0)[shown]
    return half if half.ndim == 1 else half.sum(axis=1)


def _xlabel(explanation: Explanation | PrivateExplanation) -> str:
    N = len(explanation)
    name = style.value_name(explanation)
    text = f"mean |{name}| over {N:,} instances" if N > 1 else f"|{name}| of one instance"
    if explanation.kind == "aec":
        text = f"|{name}|"  # of a data set, which has no instances
    if explanation.output_names is not None:
        text += ", stacked by output"
    return text


def _stacked(ax: Axes, lengths: np.ndarray, output_names: tuple[str, ...]) -> np.ndarray:
    """Draw lengths [rows, K]; returns where the stacks end [rows]."""
    shown = np.arange(len(output_names))
    if len(shown) > len(style.OUTPUTS):
        shown = np.sort(ranking(lengths.sum(axis=0))[: len(style.OUTPUTS) - 1])
    rest = np.setdiff1d(np.arange(len(output_names)), shown)
    layers = [
        (lengths[:, k], style.OUTPUTS[place], output_names[k]) for place, k in enumerate(shown)
    ]
    if len(rest):
        layers.append((lengths[:, rest].sum(axis=1), style.GREY, style.others_name(rest)))
    left = np.zeros(len(lengths))
    labels = shorten([name for _, _, name in layers], 24)
    for (length, colour, _), label in zip(layers, labels, strict=True):
        ax.barh(
            np.arange(len(lengths)),
            length,
            left=left,
            height=0.68,
            color=colour,
            label=label,
        )
        left = left + length
    style.legend(ax)
    return left
