"""One instance: from the base value, player by player."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.core.typing import Frame
from xaijax.plots import style
from xaijax.results.explanation import Explanation
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.profiles import as_text, profiles_of
from xaijax.results.summary import ranking
from xaijax.results.wording import axis, named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ENTRY_LIMIT = 20  # characters of an entry next to a name
PEOPLE = ("#0072B2", "#E69F00")


@public
def waterfall(
    explanation: Explanation,
    ax: Axes | None = None,
    *,
    instance: int | str | None = None,
    max_display: int = 10,
    output: int | str | None = None,
) -> Axes:
    """Draws steps from the base value (bottom) to the base value plus all values (top).

    The `max_display` players of the largest |value| of one instance are shown from the top. The
    others make one step at the bottom. If that is longer than every other step, it is not drawn as
    a bar: the steps start at the base value plus the sum of the others, which is given as a number,
    not to scale. A player that is one column of the data shows the instance's entry there. If
    standard errors are known, a line at the end of each step shows a 95 % interval. The step of the
    others has none, since its error depends on how the errors of its players are correlated.

    Args:
        explanation: `Explanation` of at least one instance, values [N, P], or [N, P, K] with
            `output`.
        {ax}
        {instance}
        {max_players}
        {output}

    {axes}
        InputError: there are several instances and none is chosen; it is a private copy, which has
            no base value; or values are not steps towards a sum, like unary influences,
            Deegan-Packel indices and effects of an AEC.

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
    explanation = _steps_of(explanation, max_display, output, instance, "waterfall")
    values, base = explanation.values[0], float(explanation.base_values[0])
    shown, others = style.split(np.abs(values), max_display)
    steps = values[shown]
    half = style.half_widths(explanation)
    widths = np.zeros(len(steps)) if half is None else half[0, shown]
    names = _with_entries(explanation, shown)
    rest = float(values[others].sum())
    dwarfs = len(others) > 0 and abs(rest) > np.abs(steps).max()
    if len(others):
        names.append(style.others_name(others))
        if not dwarfs:
            steps, widths = np.append(steps, rest), np.append(widths, 0.0)
    start = base + rest if dwarfs else base
    stops = start + np.cumsum(steps[::-1])[::-1]  # [rows]
    starts = np.append(stops[1:], start)

    axes = style.new_axes(ax, len(names) + 1, style.width_for(names))
    rows = np.arange(len(steps))
    colours = [style.UP if step > 0 else style.DOWN for step in steps]
    axes.barh(rows, steps, left=starts, height=0.62, color=colours, zorder=3)
    axes.vlines(stops[1:], rows[1:] - 1.31, rows[1:] + 0.31, colors=style.GREY, lw=0.8, zorder=2)
    style.whiskers(axes, stops, rows, np.where(widths > 0, widths, np.nan), zorder=4)
    reach = np.nan_to_num(widths)
    # The numbers are past the interval.
    far = np.where(steps >= 0, stops + reach, stops - reach)
    for row, step in enumerate(steps):
        style.write_at(axes, far[row], row, style.signed(step), 5 if step >= 0 else -5, clear=True)
    xlabel = f"base value + {style.value_name(explanation)}s"
    xlabel += style.intervals(explanation, None if half is None else half[0, shown])
    style.dress(axes, names, xlabel, style.title_of_one(explanation), None)
    points = np.concatenate([[start], stops - reach, stops + reach])
    _limits(axes, steps, far, points, len(names))
    below = f"base value {style.number(base, 4)}"
    if dwarfs:
        below += f" and others = {style.number(start, 4)}"
        text = f"{style.signed(rest)}, not to scale"
        style.beyond_scale(axes, start, len(steps), text, start < float(np.mean(axes.get_xlim())))
    _mark(axes, start, (-0.6, len(names) + 0.35), len(names) - 0.1, below)
    above = f"base value + all values = {style.number(stops[0], 4)}"
    _mark(axes, float(stops[0]), (-1.3, len(names) - 0.4), -0.9, above)
    return axes


def _steps_of(
    explanation: Explanation, max_display: int, output: Any, instance: Any, plot: str
) -> Explanation:
    """One instance of one output; refuses values that are no steps from one number to another."""
    style.check(explanation, max_display)
    if not named(explanation.kind).steps:
        raise InputError(
            f"explanation: a {style.value_name(explanation)} is no step towards a sum. Say "
            "xaijax.plots.profile (one person or two), bar or beeswarm."
        )
    return style.chosen_instance(style.one_output(explanation, output, plot), instance, plot)


def _with_entries(single: Explanation, shown: Any, limit: int = style.NAME_LIMIT) -> list[str]:
    """Names of the shown players of one instance, each with the instance's own entry."""
    columns = single.player_data()
    entries = [None if (column := columns[j]) is None else entry_of(column[0]) for j in shown]
    names = [single.feature_names[j] for j in shown]
    return with_entries(names, [[entry] for entry in entries], " = ", limit)


def entry_of(value: Any) -> str:
    """An instance's entry as a text."""
    if value is None or value != value:
        return "missing"
    return str(value) if isinstance(value, bool | np.bool_) else as_text(value)


def _limits(ax: Axes, steps: np.ndarray, far: np.ndarray, points: np.ndarray, rows: int) -> None:
    """Makes room for all points, and on either side for the numbers that stick out there."""
    low, high = points.min(), points.max()
    width = (high - low) or max(abs(high), 1.0) * 0.1
    number = 0.3 * width  # room for a number if long names leave little to the axes
    left = (far - number)[steps < 0].min(initial=low - 0.05 * width)
    right = (far + number)[steps >= 0].max(initial=high + 0.05 * width)
    ax.set_xlim(left, right)
    ax.set_ylim(rows + 0.35, -1.3)


def _mark(ax: Axes, x: float, span: tuple[float, float], row: float, text: str) -> None:
    """Draws a dashed line at x over the rows of span, and a text on the side with more room."""
    left, right = ax.get_xlim()
    to_the_right = x < (left + right) / 2
    ax.plot([x, x], span, color=style.GREY, linewidth=0.9, linestyle="--", zorder=1)
    style.write_at(ax, x, row, text, 4 if to_the_right else -4, size=9, clear=True)


NAME = 24  # characters of a name: two columns of names share the width
LEAST = 1e-9  # share of the largest |value|: smaller ones have no part of the bar


@public
def force(
    explanation: Explanation,
    ax: Axes | None = None,
    *,
    instance: int | str | None = None,
    max_display: int = 8,
    output: int | str | None = None,
) -> Axes:
    """Draws one bar of parts: orange parts end, blue parts begin, at base value plus values.

    The base value plus values is the model's answer if the values add up to it, as Shapley values
    do. An orange part raises it by its length, a blue one lowers it. The largest parts touch there.
    The `max_display` players of the largest |value| have a part each, with name and entry below it.
    The others that raise, and those that lower, make a grey part at either end; if it is longer
    than the longest part, it is cut, and its number says so. A line marks the base value if the bar
    reaches that far. The axis says how wide the widest 95 % interval of sampled values is.

    Args:
        explanation: `Explanation` of at least one instance, values [N, P], or [N, P, K] with
            `output`.
        {ax}
        {instance}
        {max_players}
        {output}

    {axes}
        InputError: there are several instances and none is chosen; values are not steps towards a
            sum; or all are 0.

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
    explanation = _steps_of(explanation, max_display, output, instance, "force")
    values, base = explanation.values[0], float(explanation.base_values[0])
    answer = base + float(values.sum())
    largest = np.abs(values).max()
    if largest == 0:
        raise InputError("explanation: all values of the instance are 0; there is no bar to draw.")
    shown, others = style.split(np.abs(values), max_display)
    shown = np.array([j for j in shown if abs(values[j]) > LEAST * largest])
    names = _with_entries(explanation, shown, NAME)
    rows = max(int((values[shown] > 0).sum()), int((values[shown] < 0).sum())) + 1
    axes = style.new_axes(ax, rows, width=11.0)
    extent = [answer, answer]
    for side, sign in enumerate((-1, 1)):  # to the left what raises, to the right what lowers
        mine = [place for place, j in enumerate(shown) if values[j] * sign < 0]
        parts = [(abs(values[shown[place]]), names[place]) for place in mine]
        rest = np.abs(values[others][values[others] * sign < 0])
        extent[side] = _side(axes, answer, sign, parts, rest, largest)
    width = extent[1] - extent[0]
    axes.set_xlim(extent[0] - 0.02 * width, extent[1] + 0.02 * width)
    _mark_answer(axes, answer, f"base value + all values = {style.number(answer, 4)}", -1.25, -0.4)
    inside = extent[0] <= base <= extent[1]
    if inside and abs(base - answer) > 1e-3 * width:
        axes.plot([base, base], [-0.4, 0.4], color="#ffffff", linewidth=1.2, linestyle=":")
    note = " (dotted)" if inside else ""
    start = style.number(base, 4)
    xlabel = f"orange raises, blue lowers: {style.value_name(explanation)}s; "
    xlabel += f"base value {start}{note}{style.widest(explanation)}"
    style.dress(axes, [], xlabel, style.title_of_one(explanation))
    axes.grid(visible=False)
    axes.set_ylim(rows + 0.6, -1.7)
    return axes


def _side(
    ax: Axes, answer: float, sign: int, parts: list[tuple[float, str]], rest: Any, largest: float
) -> float:
    """Draws one side's parts, the largest at the answer; returns the end of the bar."""
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
    # From the outermost part down: its line ends before the texts of the inner parts.
    for row, (x, label) in enumerate(zip(middles[::-1], labels[::-1], strict=True), start=1):
        ax.plot([x, x], [0.4, row], color=style.GREY, linewidth=0.8, zorder=1)
        style.write_at(ax, x, row, label, 4 * sign)
    return at


def _mark_answer(ax: Axes, x: float, text: str, top: float, bottom: float) -> None:
    left, right = ax.get_xlim()
    ax.plot([x, x], [top + 0.3, bottom], color=style.ink(), linewidth=1)
    share = (x - left) / (right - left)
    side = "left" if share < 0.25 else "right" if share > 0.75 else "center"
    style.note(ax, x, top, text, ha=side, fontsize=9)


LINE = 44  # characters of name and entries of two people beyond which the entries go below


@public
def profile(
    explanation: Explanation | PrivateExplanation,
    ax: Axes | None = None,
    *,
    profile: Frame | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    max_display: int = 14,
) -> Axes:
    """Draws one signed bar per player, next to the person's data; two people side by side.

    A person is an instance. Players are sorted by the largest |value| of either person. The sum of
    the others is shown below as a number, not to scale; if a sum is meaningless (unary influences,
    Deegan-Packel indices), only their number is shown. If standard errors are known, the players
    that are shown one by one have 95 % intervals.

    Args:
        explanation: `Explanation` of one or two instances with one output, values [1, P] or [2, P];
            or its private copy.
        {ax}
        profile: the people's data to write: a frame, or a list of dicts, with one row per person
            and columns named like players; or one dict. A player without a column there, and every
            player with None, shows `explanation.data`.
        {max_players}

    {axes}

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> values = np.array([[1.0, -2.0]])
        >>> explanation = xj.Explanation(values, np.zeros(1), feature_names=("age", "size"))
        >>> axes = xj.plots.profile(explanation, profile=[{"age": 20, "size": "small"}])
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['size: small', 'age: 20']
    """
    style.check(explanation, max_display, private=True)
    explanation = style.lone_output(explanation, "a profile is of one")
    N = len(explanation)
    if N > 2:
        raise InputError(
            f"explanation: a profile is of one person or two, got {N:,}; say explanation[[3, 8]]."
        )
    texts = profiles_of(explanation, profile)
    size = np.abs(explanation.values).max(axis=0)
    shown, others = style.split(size, max_display)
    values = explanation.values[:, shown]
    half = style.half_widths(explanation)
    names = [explanation.feature_names[j] for j in shown]
    entries = [[person[j] for person in texts] for j in shown]
    names = with_entries(names, entries, ": ", line=None if N == 1 else LINE)
    summed = len(others) > 0 and style.named(explanation.kind).steps
    if summed:
        names.append(style.others_name(others))
    axes = style.new_axes(ax, len(names) * (1 if N == 1 else 1.5), style.width_for(names, 8.2))
    place = np.arange(len(shown))
    height = 0.68 if N == 1 else 0.36
    for n in range(N):
        at = place if N == 1 else place + (n - 0.5) * height
        colours: Any = PEOPLE[n]
        if N == 1:
            colours = [style.UP if v >= 0 else style.DOWN for v in values[0]]
        axes.barh(at, values[n], height=height, color=colours, label=_person(explanation, n))
        if half is not None:
            style.whiskers(axes, values[n], at, half[n, shown])
    if summed:
        middle = float(np.mean(axes.get_xlim()))
        for n, total in enumerate(explanation.values[:, others].sum(axis=1)):
            row = len(shown) + (0 if N == 1 else (n - 0.5) * 1.2 * height)
            colour = style.GREY if N == 1 else PEOPLE[n]
            text = f"{style.signed(total)}, not to scale"
            style.beyond_scale(axes, 0.0, row, text, 0 < middle, colour)
    axes.axvline(0, color=style.ink(), linewidth=0.8)
    kind = style.value_name(explanation)
    note = style.intervals(explanation, None if half is None else half[:, shown])
    title = style.title_of_one(explanation) if N == 1 else style.title_of(explanation)
    left_out = "" if summed else style.not_shown(others)
    style.dress(axes, names, f"{kind}{axis(explanation)}{note}{left_out}", title, None)
    if N == 2:
        legend = axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=8.5
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        if title is not None:  # above the legend
            style.head(axes, axes.get_title(loc="left"), 10.5, pad=30)
    return axes


def _person(explanation: Explanation | PrivateExplanation, n: int) -> str:
    names, outputs = explanation.instance_names, style.output_of_each(explanation)
    person = style.elide(names[n]) if names is not None else f"person {'AB'[n]}"
    return f"{person} (output: {style.elide(outputs[n])})" if outputs else person


def largest(explanation: Explanation | PrivateExplanation, count: int) -> np.ndarray:
    """The positions of the players with the largest |value| of either person."""
    return ranking(np.abs(explanation.values).max(axis=0))[:count]


def with_entries(
    names: Sequence[str],
    entries: Sequence[Sequence[str | None]],
    between: str,
    limit: int = style.NAME_LIMIT,
    line: int | None = None,
) -> list[str]:
    """Name and entry of each row, cut separately; entries of one row stay different.

    entries: for each name people's entries, one text per person; None: there is none to show.
    between: the text between the two, such as " = ".
    line: number of characters beyond which the entries go below the name; None: never.
    """
    rows = []
    for name, row in zip(style.shorten(names, limit), entries, strict=True):
        known = [" ".join(entry.split()) for entry in row if entry is not None]
        if len(set(known)) == 1:
            known = known[:1]
        text = " | ".join(style.shorten(known, ENTRY_LIMIT))
        if not known:
            rows.append(name)
        elif line is not None and len(name) + len(between) + len(text) > line:
            rows.append(f"{name}{between.rstrip()}\n{text}")
        else:
            rows.append(f"{name}{between}{text}")
    return rows
