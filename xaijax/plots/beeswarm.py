"""A dot for every instance, a row for every player."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.optional import require
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.groups import by_name, sizes_of
from xaijax.results.explanation import Explanation
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.shared_fields import as_numbers
from xaijax.results.summary import mean_abs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DOTS = 4_000  # in one row; more cannot be distinguished
MOST_INTERVALS = 60  # in one row
BINS = 90  # over the width, to measure how crowded a position is


@public
def beeswarm(
    explanation: Explanation | PrivateExplanation | Mapping[str, Explanation],
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    output: int | str | None = None,
) -> Axes:
    """Draws one dot per instance and player: its position is the value, its colour the data.

    The `max_display` players of the largest mean |value| are shown from the top. Numbers are
    coloured from low (blue) to high (orange); the ends are the 5th and the 95th percentile of the
    column. Texts, constant columns, missing entries, and players that are not one column of the
    data are grey. If there are more than 4,000 instances, 4,000 at even distances are drawn, and
    the axis says so. For up to 60 instances, 95 % intervals are drawn if standard errors are known.

    A dict of explanations, such as `{"women": a, "men": b}`, has dots of one colour for each of
    them, one below the other, and a legend.

    Args:
        explanation: `Explanation` of at least one instance, values [N, P], or [N, P, K] with
            `output`; its private copy; or a dict of 2 to 7 explanations by name, with the same
            players.
        {shown}

    {axes}

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> values = np.array([[1.0, -2.0], [3.0, 0.0]])
        >>> data = np.array([[20, 5], [40, 6]])
        >>> explanation = xj.Explanation(values, np.zeros(2), data=data)
        >>> axes = xj.plots.beeswarm(explanation)
        >>> axes.get_xlabel()
        'Shapley value (2 instances)'
    """
    if isinstance(explanation, Mapping):
        return _side_by_side(by_name(explanation, max_display, output, "beeswarm"), ax, max_display)
    drawn: style.Shown = style.checked(explanation, output, "beeswarm", max_display, private=True)
    shown, others = style.split(mean_abs(drawn), max_display)
    total = len(drawn)
    drawn = style.at_most(drawn, MOST_DOTS)
    N = len(drawn)

    axes = style.new_axes(ax, len(shown), width=7.8)
    values = drawn.values[:, shown]  # [N, rows]
    half = style.half_widths(drawn)
    data = drawn.player_data()
    levels = [_levels(data[j]) for j in shown]
    colour_map = style.scale(*style.LOW_TO_HIGH)
    edges = np.linspace(values.min(), values.max(), BINS)
    order = np.random.default_rng(0).permutation(N)  # so that dots of similar colour do not line up
    axes.axvline(0, color=style.GREY, linewidth=1, zorder=1)
    lines = half is not None and N <= MOST_INTERVALS
    for row, j in enumerate(shown):
        heights = row + _spread(values[:, row], edges, order)
        if half is not None and lines:
            low, high = values[:, row] - half[:, j], values[:, row] + half[:, j]
            axes.hlines(heights, low, high, colors=style.GREY, linewidth=0.8, zorder=2)
        colours = _colours(levels[row], N, colour_map)
        axes.scatter(values[:, row], heights, c=colours, **style.many_dots(N, 13))
    count = f"{N:,} of {total:,} instances" if N < total else checks.count(total, "instance")
    xlabel = f"{style.value_name(drawn)} ({count})"
    if half is not None and lines:
        xlabel += style.intervals(drawn, half[:, shown])
    notes = [style.not_shown(others).strip()] if len(others) else []
    scaled = any(level is not None for level in levels)
    if scaled and any(level is None or np.isnan(level).any() for level in levels):
        notes.append("grey: no number, or constant")
    if notes:
        xlabel += "\n" + "; ".join(notes)
    names = [drawn.feature_names[j] for j in shown]
    style.dress(axes, names, xlabel, style.title_of(drawn))
    axes.margins(x=0.04)
    if scaled:
        _colour_bar(axes, colour_map)
    return axes


def _side_by_side(each: Mapping[str, Explanation], ax: Axes | None, max_display: int) -> Axes:
    """Draws for each player the dots of each explanation, in a row of their own."""
    first = next(iter(each.values()))
    names = first.feature_names
    size = np.mean([sizes_of(explanation, names)[0] for explanation in each.values()], axis=0)
    shown, others = style.split(size, max_display)
    axes = style.new_axes(ax, len(shown) * (0.5 + 0.5 * len(each)), width=9.2)
    axes.axvline(0, color=style.GREY, linewidth=1, zorder=1)
    drawn = []
    for explanation in each.values():
        few = style.at_most(explanation, MOST_DOTS)
        places = {name: p for p, name in enumerate(explanation.feature_names)}
        drawn.append(few.values[:, [places[names[j]] for j in shown]])  # [N, rows]
    edges = np.linspace(min(map(np.min, drawn)), max(map(np.max, drawn)), BINS)
    labels = style.shorten(list(each), 24)
    for k, (label, explanation) in enumerate(zip(labels, each.values(), strict=True)):
        N = len(drawn[k])
        order = np.random.default_rng(k).permutation(N)
        middle = (k - (len(each) - 1) / 2) * 0.8 / len(each)
        for row, values in enumerate(drawn[k].T):
            heights = row + middle + _spread(values, edges, order) / len(each)
            axes.scatter(
                values, heights, color=style.OUTPUTS[k], **style.many_dots(N, 13),
                label=f"{label} ({len(explanation):,})" if row == 0 else None,
            )  # fmt: skip
    xlabel = style.value_name(first) + style.not_shown(others)
    style.dress(axes, [names[j] for j in shown], xlabel, style.title_of(first))
    axes.margins(x=0.04)
    style.legend(axes)
    return axes


def _levels(column: np.ndarray | None) -> np.ndarray | None:
    """Levels from 0 (low) to 1 (high) [N], NaN if missing; None if a player has no such scale."""
    numbers = None if column is None else as_numbers(column)
    if numbers is None:
        return None
    low, high = style.ends_of(numbers)
    return None if low == high else np.clip((numbers - low) / (high - low), 0, 1)


def _spread(values: np.ndarray, edges: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Heights [N] around 0 that separate dots of similar value, wider where there are more."""
    bins = np.digitize(values, edges)[order]
    by_bin = np.argsort(bins, kind="stable")
    counts = np.bincount(bins, minlength=len(edges) + 1)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    rank = np.arange(len(values)) - first[bins[by_bin]]
    middle = (counts[bins[by_bin]] - 1) / 2
    heights = np.empty(len(values))
    heights[order[by_bin]] = (rank - middle) * min(0.14, 0.8 / counts.max())
    return heights


def _colours(levels: np.ndarray | None, N: int, colour_map: Any) -> np.ndarray:
    """Colours as RGBA [N, 4]."""
    grey = require("matplotlib.colors", "xaijax[plots]").to_rgba(style.GREY)
    if levels is None:
        return np.tile(grey, (N, 1))
    colours = colour_map(np.nan_to_num(levels))
    colours[np.isnan(levels)] = grey
    return colours


def _colour_bar(ax: Axes, colour_map: Any) -> None:
    mappable = require("matplotlib.cm", "xaijax[plots]").ScalarMappable(cmap=colour_map)
    mappable.set_clim(0, 1)
    bar = ax.figure.colorbar(mappable, ax=ax, ticks=[0, 1], aspect=45, pad=0.02, fraction=0.03)
    bar.ax.set_yticklabels(["low", "high"], fontsize=8.5, color=style.ink())
    bar.ax.tick_params(length=0)
    bar.set_label("own value", fontsize=8.5, color=style.ink(), labelpad=-14)
    bar.outline.set_visible(False)
