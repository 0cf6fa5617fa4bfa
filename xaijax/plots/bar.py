"""The players by their mean absolute value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.groups import by_name, sizes_of
from xaijax.results.background import BackgroundSpread
from xaijax.results.explanation import Explanation
from xaijax.results.guest_worth import GuestWorth
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.summary import mean_abs, ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def bar(
    explanation: Explanation | PrivateExplanation | Mapping[str, Explanation],
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    output: int | str | None = None,
) -> Axes:
    """Draws one bar per player: the mean of |value| over the N instances.

    The `max_display` largest players are shown from the top. The sum of the others is shown below
    as a number, not to scale, since for many players it would be longer than every bar. If a sum is
    meaningless (unary influences, Deegan-Packel indices, effects of an AEC), only their number is
    shown. With K outputs and `output=None`, the bars of the outputs are stacked, each in its
    colour, and the number is their sum. With more than seven outputs, the six largest have colours,
    and the sum of the others is grey.

    If standard errors are known, a line shows a 95 % interval. Its half-width is the mean over the
    instances of the values' half-widths, summed over stacked outputs. This bounds the error of the
    mean, however the errors are correlated. The sum of the others has no line, since that bound,
    summed over many players, would be too wide.

    A dict of explanations, such as `{"women": a, "men": b}`, has a bar for each of them next to
    each other, and a legend.

    Args:
        explanation: `Explanation` of at least one instance, values [N, P] or [N, P, K]; its
            private copy; or a dict of 2 to 7 explanations by name, with the same players, of one
            output each or with `output`.
        {ax}
        {max_players}
        {outputs}

    {axes}

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
    if isinstance(explanation, Mapping):
        return _side_by_side(by_name(explanation, max_display, output, "bar"), ax, max_display)
    style.check(explanation, max_display, private=True)
    drawn: style.Shown = explanation
    if output is not None:
        drawn = style.one_output(explanation, output, "bar")
    size = mean_abs(drawn)
    shown, others = style.split(size, max_display)
    names = [drawn.feature_names[j] for j in shown]
    lengths = size[shown]
    half = _half_widths(drawn, shown)
    summed = len(others) > 0 and style.named(drawn.kind).steps
    if summed:
        names.append(style.others_name(others))

    stacked = drawn.output_names is not None
    axes = style.new_axes(ax, len(names), 9.2 if stacked else 7.2)
    if drawn.output_names is None:
        axes.barh(np.arange(len(lengths)), lengths, height=0.68, color=style.DOWN)
        tips = lengths
    else:
        tips = _stacked(axes, lengths, drawn.output_names)
    reach = tips.copy()
    if half is not None:
        known = style.whiskers(axes, tips, np.arange(len(tips)), half)
        reach[known] += half[known]
    for row, end in enumerate(reach):
        style.write_at(axes, end, row, style.number(tips[row]))
    xlabel = _xlabel(drawn) + style.intervals(drawn, half)
    if summed:
        total = style.number(size[others].sum())
        style.beyond_scale(axes, 0.0, len(shown), f"{total}, not to scale")
    else:
        xlabel += style.not_shown(others)
    style.dress(axes, names, xlabel, style.title_of(drawn))
    axes.set_xlim(0, 1.12 * reach.max() or 1)
    return axes


def _side_by_side(each: Mapping[str, Explanation], ax: Axes | None, max_display: int) -> Axes:
    """Draws for each player the mean |value| of each explanation."""
    first = next(iter(each.values()))
    drawn = [sizes_of(explanation, first.feature_names) for explanation in each.values()]
    sizes, halves = (np.stack(part) for part in zip(*drawn, strict=True))  # [explanations, P] each
    shown, others = style.split(sizes.mean(axis=0), max_display)
    axes = style.new_axes(ax, len(shown) * (0.5 + 0.5 * len(each)), 9.2)
    height = 0.76 / len(each)
    labels = style.shorten(list(each), 24)
    for k, (name, explanation) in enumerate(zip(labels, each.values(), strict=True)):
        at = np.arange(len(shown)) + (k - (len(each) - 1) / 2) * height
        label = f"{name} ({len(explanation):,})"
        axes.barh(at, sizes[k, shown], height=height, color=style.OUTPUTS[k], label=label)
        half = halves[k, shown]
        style.whiskers(axes, sizes[k, shown], at, np.where(half > 0, half, np.nan))
        for row, size, more in zip(at, sizes[k, shown], half, strict=True):
            style.write_at(axes, size + more, row, style.number(size), size=7.5)
    xlabel = f"mean |{style.value_name(first)}| over the instances"
    if any(style.half_widths(explanation) is not None for explanation in each.values()):
        xlabel += style.intervals(first, halves[:, shown])
    names = [first.feature_names[j] for j in shown]
    style.dress(axes, names, xlabel + style.not_shown(others), style.title_of(first))
    style.legend(axes)
    axes.set_xlim(0, 1.12 * (sizes + halves)[:, shown].max() or 1)
    return axes


def _half_widths(
    explanation: Explanation | PrivateExplanation, shown: np.ndarray
) -> np.ndarray | None:
    """Half 95 % intervals of the shown players, summed over several outputs."""
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
    """Draws lengths [rows, K]; returns the ends of the stacks [rows]."""
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
    labels = style.shorten([name for _, _, name in layers], 24)
    for (length, colour, _), label in zip(layers, labels, strict=True):
        rows = np.arange(len(lengths))
        ax.barh(rows, length, left=left, height=0.68, color=colour, label=label)
        left = left + length
    style.legend(ax)
    return left


@public
def worth(worth: GuestWorth, ax: Axes | None = None) -> Axes:
    """Draws one bar per party: the mean of |value| over the instances.

    The value of the host is the sum of its columns' values. A line shows 1.96 standard errors on
    either side. It is meaningful only if the instances are a sample of many. Next to a guest's bar
    is the model's score with the guest's columns at the reference, and the score of a model
    refitted without them if one was given. The score with all columns is in the title.

    Args:
        worth: `GuestWorth`, from `FederatedExplainer.worth`.
        {ax}

    {axes}
        InputError: mean values are not finite.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> worth = xj.GuestWorth(
        ...     parties=("host", "bank"), mean_absolute=np.array([0.5, 0.25]),
        ...     mean_value=np.array([0.5, 0.25]), standard_errors=np.array([0.1, 0.1]),
        ...     metric="accuracy", score=0.75, score_without=np.array([0.5]),
        ...     score_refitted=np.array([np.nan]), instances=4,
        ... )
        >>> xj.plots.worth(worth).get_title(loc="left")
        'accuracy with all columns 0.7500'
    """
    checks.passed(worth, "worth", GuestWorth, "what FederatedExplainer.worth returned")
    if not np.isfinite(worth.mean_absolute).all():
        raise InputError("worth: its mean values are not finite, so there is nothing to draw.")
    axes = style.new_axes(ax, len(worth.parties))
    rows = np.arange(len(worth.parties))
    colours = [style.GREY] + [style.DOWN] * (len(rows) - 1)
    half = 1.96 * np.nan_to_num(worth.standard_errors)
    axes.barh(rows, worth.mean_absolute, height=0.6, color=colours)
    style.whiskers(axes, worth.mean_absolute, rows, half)
    for row, end in enumerate(worth.mean_absolute + half):
        style.write_at(axes, end, row, _scores(worth, row))
    title = f"{worth.metric} with all columns {worth.score:.4f}"
    label = f"mean |value| over {worth.instances:,} instances; lines: 1.96 standard errors"
    style.dress(axes, list(worth.parties), label, title)
    # Room for the text, which is longer than the longest bar's own label.
    axes.set_xlim(0, 1.9 * (worth.mean_absolute + half).max() or 1)
    return axes


def _scores(worth: GuestWorth, row: int) -> str:
    text = style.number(worth.mean_absolute[row])
    if row == 0:
        return text
    text += f";  {worth.metric} without it {worth.score_without[row - 1]:.4f}"
    refitted = worth.score_refitted[row - 1]
    return text if np.isnan(refitted) else f"{text}, refitted {refitted:.4f}"


@public
def background_spread(found: BackgroundSpread, ax: Axes | None = None) -> Axes:
    """Draws the spread of the values over draws of the background, for each size.

    Each size has a bar: the distance of an instance's values from their mean over the draws, in
    units of the model's output. Next to it is the corresponding relative squared error.

    Args:
        found: `BackgroundSpread`, from `xaijax.background_spread`.
        {ax}

    {axes}

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.random.default_rng(0).normal(size=(200, 2))
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), rows)
        >>> found = xj.background_spread(explainer, rows[:5], sizes=(5, 50))
        >>> len(xj.plots.background_spread(found).patches)
        2
    """
    checks.passed(found, "found", BackgroundSpread, "what xaijax.background_spread returned")
    axes = style.new_axes(ax, len(found.sizes))
    axes.barh(range(len(found.sizes)), found.spread, height=0.6, color=style.DOWN)
    for row, end in enumerate(found.spread):
        share = style.number(100 * found.relative[row])
        style.write_at(axes, end, row, f"{style.number(end)} ({share} % squared)")
    label = f"how far values move, over {found.draws} draws of the background"
    style.dress(axes, [f"{size:,} rows" for size in found.sizes], label, found.method)
    axes.set_xlim(0, 1.5 * found.spread.max() or 1)
    return axes
