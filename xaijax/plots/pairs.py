"""The largest interactions as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xaijax.core import checks
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.names import shorten
from xaijax.plots.sets import (
    name_of,
    of_one_output,
    picture_title,
    refuse_single_players,
    shown_number,
)
from xaijax.results.interactions import Interactions
from xaijax.results.set_keys import named

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def pairs(
    interactions: Interactions,
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    output: int | str | None = None,
) -> Axes:
    """One bar for each of the largest sets of two players or more.

    Of one instance a bar is its value; of several the mean of |value|. If standard errors are
    known, a line shows a 95 % interval. Its half-width is the mean over the instances of the
    values' half-widths, which bounds the error of the mean.

    Args:
        interactions: `Interactions` of at least one instance.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        max_display: int, at least 1. Sets shown.
        output: name or position of one output. Needed where there are several.

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted; single players only.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import xaijax as xj
        >>> table = xj.CoalitionTable([0, 1, 1, 4, 0, 1, 1, 4], ["age", "pay", "sex"])
        >>> axes = xj.plots.pairs(table.interactions(), max_display=1)
        >>> axes.get_yticklabels()[0].get_text()
        'age & pay'
    """
    checks.whole_number(max_display, "max_display")
    found = of_one_output(interactions, output, "pairs")
    refuse_single_players(found)
    joined = [m for m, S in enumerate(found.sets) if len(S) > 1]
    one = len(found) == 1
    value = found.values[0] if one else np.abs(found.values).mean(axis=0)
    order = sorted(joined, key=lambda m: -abs(value[m]))[:max_display]
    length, rows = value[order], np.arange(len(order))
    half = found.half_widths().mean(axis=0)[order]
    axes = style.new_axes(ax, len(order))
    colours = [style.UP if v > 0 and one else style.DOWN for v in length]
    axes.barh(rows, length, height=0.68, color=colours)
    known = np.isfinite(half) & (half > 0)
    if known.any():
        axes.errorbar(
            length[known], rows[known], xerr=half[known], fmt="none", ecolor=style.ink(),
            elinewidth=1, capsize=2.5,
        )  # fmt: skip
    for row, end in enumerate(length):
        reach = end + (half[row] if known[row] else 0.0)
        text = shown_number(float(end), float(np.abs(length).max()), one)
        style.beside(axes, max(reach, 0.0), row, text)
    name = name_of(found)
    label = name if one else f"mean |{name}| over {len(found):,} instances"
    label += style.intervals(found, half)
    names = shorten(found.feature_names, 44 // max(len(found.sets[m]) for m in order))
    sets = [named(tuple(names[p] for p in found.sets[m])) for m in order]
    style.dress(axes, sets, label, None, limit=None)
    reach = np.where(known, half, 0.0)
    low, high = min(0.0, (length - reach).min()), max(0.0, (length + reach).max())
    room = 0.16 * ((high - low) or 1.0)
    axes.set_xlim(low - (room / 2 if low < 0 else 0), high + room)
    axes.axvline(0, color=style.faint(), linewidth=0.8)
    picture_title(axes, found)
    return axes
