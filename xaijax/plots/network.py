"""Players on a ring, joined by their interactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.names import shorten
from xaijax.plots.sets import name_of, of_pairs, picture_title
from xaijax.results.interactions import Interactions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDEST, LARGEST = 9.0, 900.0  # points of a line, square points of a dot
LEAST = 0.02  # of the largest: thinner lines are left out


@public
def network(
    interactions: Interactions,
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    output: int | str | None = None,
) -> Axes:
    """The players on a ring; a line between two is as wide as their interaction is large.

    The mean over the instances is drawn, orange above 0 and blue below; a dot is as large as the
    player's mean alone. The players with the largest lines are shown, and lines below 2 % of the
    largest one that is shown are left out.

    Args:
        interactions: `Interactions` of at least one instance, with all players and pairs.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        max_display: int, at least 1. Players shown.
        output: name or position of one output. Needed where there are several.

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted; sets of more than two players;
            pairs that are missing.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import xaijax as xj
        >>> table = xj.CoalitionTable([0, 1, 1, 4, 0, 1, 1, 4], ["age", "pay", "sex"])
        >>> axes = xj.plots.network(table.interactions())
        >>> len(axes.lines), [name.get_text() for name in axes.texts[:3]]
        (1, ['age', 'pay', 'sex'])
    """
    found = of_pairs(interactions, max_display, output, "network")
    matrix = found.matrix.mean(axis=0)
    alone, off = np.diag(matrix), matrix * ~np.eye(len(matrix), dtype=bool)
    order = np.argsort(-np.abs(off).sum(axis=1), kind="stable")[:max_display]
    shown = np.sort(order)
    off, alone = off[np.ix_(shown, shown)], alone[shown]  # lines and dots that are drawn
    n, most = len(shown), np.abs(off).max() or 1.0
    names = shorten([found.feature_names[p] for p in shown])
    longest = max(map(len, names)) * 0.9 * style.NAME_INCHES
    axes = style.new_axes(ax, 0, width=4.2 + 2 * longest, height=5.3)
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    x, y = np.cos(angle), np.sin(angle)
    for a in range(n):
        for b in range(a + 1, n):
            share = off[a, b] / most
            if abs(share) >= LEAST:
                axes.plot(
                    x[[a, b]], y[[a, b]], linewidth=WIDEST * abs(share), solid_capstyle="round",
                    color=style.UP if share > 0 else style.DOWN, alpha=0.35 + 0.6 * abs(share),
                    zorder=abs(share),
                )  # fmt: skip
    largest = np.abs(alone).max() or 1.0
    sizes = 40 + LARGEST * np.abs(alone) / largest
    colours = [style.UP if own > 0 else style.DOWN for own in alone]
    axes.scatter(x, y, s=sizes, c=colours, edgecolors=style.ground(), linewidths=1.2, zorder=3)
    for a in range(n):
        side = "left" if x[a] > 0.15 else "right" if x[a] < -0.15 else "center"
        height = "center" if side != "center" else "bottom" if y[a] > 0 else "top"
        away = np.sqrt(sizes[a]) / 2 + 5  # points from the dot's middle, past its edge
        axes.annotate(
            names[a], (x[a], y[a]), xytext=(away * x[a], away * y[a]),
            textcoords="offset points", ha=side, va=height, fontsize=9, color=style.ink(),
            parse_math=False,
        )  # fmt: skip
    reach = 1.3 * (2.1 + longest) / 2.1  # where a radius is 1.6 inches, and names stand beside it
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-1.55, 1.45)
    axes.set_aspect("equal")
    axes.set_axis_off()
    lines = "no lines"
    if off.any():
        lines = f"widest line {style.signed(float(off.flat[np.abs(off).argmax()]))}"
    what = "" if len(found) == 1 else f", mean over {len(found):,} instances"
    axes.text(
        0, -1.53, f"{name_of(found)}{what}; {lines}",
        ha="center", fontsize=8.5, color=style.ink(), parse_math=False,
    )  # fmt: skip
    picture_title(axes, found)
    return axes
