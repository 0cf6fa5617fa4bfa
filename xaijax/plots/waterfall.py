"""One instance: from the base value, player by player."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.names import with_entries
from xaijax.results.explanation import Explanation
from xaijax.results.profiles import as_text
from xaijax.results.wording import named

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def waterfall(
    explanation: Explanation,
    ax: Axes | None = None,
    *,
    instance: int | str | None = None,
    max_display: int = 10,
    output: int | str | None = None,
) -> Axes:
    """Steps from the base value (bottom) to the base value plus all values (top), of one instance.

    The `max_display` players of the largest |value| are shown from the top. The others make one
    step at the bottom. Where that is longer than every other step, it is no bar: the steps start at
    the base value and the sum of the others, whose number is given outside of the scale. A player
    that is one column of the data shows the instance's entry there. If standard errors are known, a
    line at the end of each step shows a 95 % interval. The step of the others has none, since its
    error depends on how the errors of its players are correlated.

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
            chosen; a private copy, which has no base value; unary influences, indices of Deegan and
            Packel and effects of an AEC, which are no steps towards a sum.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explanation = xj.Explanation(
        ...     np.array([[3.0, -1.0]]), np.array([0.5]), feature_names=("age", "size")
        ... )
        >>> axes = xj.plots.waterfall(explanation)
        >>> axes.texts[-1].get_text()
        'base value + all values = 2.5'
    """
    style.check(explanation, max_display)
    refuse_no_sum(explanation)
    explanation = style.one_output(explanation, output, "waterfall")
    one = chosen_instance(explanation, instance, "waterfall")
    values, base = one.values[0], float(one.base_values[0])
    shown, others = style.split(np.abs(values), max_display)
    steps = values[shown]
    half = style.half_widths(one)
    widths = np.zeros(len(steps)) if half is None else half[0, shown]
    data = one.player_data()
    entries = [data[j] for j in shown]
    names = with_entries(
        [one.feature_names[j] for j in shown],
        [[None if column is None else entry_of(column[0])] for column in entries],
        " = ",
    )
    rest = float(values[others].sum())
    dwarfs = len(others) > 0 and abs(rest) > np.abs(steps).max()
    if len(others):
        names.append(style.others_name(others))
        if not dwarfs:
            steps, widths = np.append(steps, rest), np.append(widths, 0.0)
    start = base + rest if dwarfs else base
    ends = start + np.cumsum(steps[::-1])[::-1]  # [rows]
    starts = np.append(ends[1:], start)

    axes = style.new_axes(ax, len(names) + 1, style.width_for(names))
    rows = np.arange(len(steps))
    colours = [style.UP if step > 0 else style.DOWN for step in steps]
    axes.barh(rows, steps, left=starts, height=0.62, color=colours, zorder=3)
    axes.vlines(ends[1:], rows[1:] - 1.31, rows[1:] + 0.31, colors=style.GREY, lw=0.8, zorder=2)
    known = np.isfinite(widths) & (widths > 0)
    if known.any():
        axes.errorbar(
            ends[known],
            rows[known],
            xerr=widths[known],
            fmt="none",
            ecolor=style.ink(),
            elinewidth=1,
            capsize=2.5,
            zorder=4,
        )
    reach = np.nan_to_num(widths)
    # The numbers stand past the interval.
    far = np.where(steps >= 0, ends + reach, ends - reach)
    _step_texts(axes, steps, far)
    xlabel = f"base value + {style.value_name(one)}s"
    xlabel += style.intervals(one, None if half is None else half[0, shown])
    style.dress(axes, names, xlabel, style.title_of_one(one), None)
    points = np.concatenate([[start], ends - reach, ends + reach])
    _limits(axes, steps, far, points, len(names))
    below = f"base value {style.number(base, 4)}"
    if dwarfs:
        below += f" and others = {style.number(start, 4)}"
        text = f"{style.signed(rest)}, not to scale"
        style.beyond_scale(axes, start, len(steps), text, start < float(np.mean(axes.get_xlim())))
    _mark(axes, start, (-0.6, len(names) + 0.35), len(names) - 0.1, below)
    _mark(
        axes,
        float(ends[0]),
        (-1.3, len(names) - 0.4),
        -0.9,
        f"base value + all values = {style.number(ends[0], 4)}",
    )
    return axes


def chosen_instance(explanation: Explanation, instance: int | str | None, plot: str) -> Explanation:
    """The explanation of one instance.

    Raises:
        InputError: several and none chosen, or no such one.
        InputTypeError: a list or slice of several.
    """
    if instance is None:
        if len(explanation) > 1:
            raise InputError(
                f"explanation: {plot} draws one instance and the explanation has "
                f"{len(explanation):,}; choose one, explanation[0], or say instance=."
            )
        instance = 0
    if not isinstance(instance, str | int | np.integer):
        raise InputTypeError(f"instance: got {instance!r:.60}; pass one position or name.")
    return explanation[instance]


def refuse_no_sum(explanation: Explanation) -> None:
    """Raise InputError for values that are no steps from one number to another."""
    if not named(explanation.kind).steps:
        raise InputError(
            f"explanation: a {style.value_name(explanation)} is no step towards a sum, so there "
            "is no waterfall or force of it. Say xaijax.plots.profile (one person or two), bar or "
            "beeswarm."
        )


def entry_of(value: Any) -> str:
    """An instance's entry as a text."""
    if value is None or value != value:
        return "missing"
    return str(value) if isinstance(value, bool | np.bool_) else as_text(value)


def _step_texts(ax: Axes, steps: np.ndarray, far: np.ndarray) -> None:
    for row, step in enumerate(steps):
        ax.annotate(
            style.signed(step),
            (far[row], row),
            xytext=(5 if step >= 0 else -5, 0),
            textcoords="offset points",
            ha="left" if step >= 0 else "right",
            va="center",
            fontsize=8.5,
            color=style.ink(),
        )


def _limits(ax: Axes, steps: np.ndarray, far: np.ndarray, points: np.ndarray, rows: int) -> None:
    """Room for all points, and on either side for the numbers that stick out there."""
    low, high = points.min(), points.max()
    width = (high - low) or max(abs(high), 1.0) * 0.1
    number = 0.3 * width  # what a number takes where long names leave little to the axes
    left = (far - number)[steps < 0].min(initial=low - 0.05 * width)
    right = (far + number)[steps >= 0].max(initial=high + 0.05 * width)
    ax.set_xlim(left, right)
    ax.set_ylim(rows + 0.35, -1.3)


def _mark(ax: Axes, x: float, span: tuple[float, float], row: float, text: str) -> None:
    """A dashed line at x over the rows of span, and a text on the side where there is room."""
    left, right = ax.get_xlim()
    to_the_right = x < (left + right) / 2
    ax.plot([x, x], span, color=style.GREY, linewidth=0.9, linestyle="--", zorder=1)
    ax.annotate(
        text,
        (x, row),
        xytext=(4 if to_the_right else -4, 0),
        textcoords="offset points",
        ha="left" if to_the_right else "right",
        va="center",
        fontsize=9,
        color=style.ink(),
    )
