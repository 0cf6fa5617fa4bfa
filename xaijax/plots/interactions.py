"""Players and pairs of them as a heatmap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xaijax.core.checks import yes_or_no
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.names import shorten
from xaijax.plots.sets import name_of, of_pairs, picture_title, shown_number
from xaijax.results.interactions import Interactions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBERED = 8  # players up to which the cells have room for their numbers


@public
def interactions(
    interactions: Interactions,
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    output: int | str | None = None,
    colorbar: bool = True,
) -> Axes:
    """Heatmap of the interactions of pairs, with the players alone on its diagonal.

    Of one instance each cell is its value: blue below 0, orange above. Of several it is the mean of
    |value|. The players whose row of pairs is largest are shown.

    Args:
        interactions: `Interactions` of at least one instance, with all players and pairs.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        max_display: int, at least 1. Players shown.
        output: name or position of one output. Needed where there are several.
        colorbar: bool. Whether the colour scale stands beside.

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
        >>> table = xj.CoalitionTable([0, 1, 1, 4], ["age", "pay"])
        >>> axes = xj.plots.interactions(table.interactions())
        >>> [cell.get_text() for cell in axes.texts]
        ['+2', '+2', '+2', '+2']
    """
    yes_or_no(colorbar, "colorbar")
    found = of_pairs(interactions, max_display, output, "interactions")
    one = len(found) == 1
    matrix = found.matrix[0] if one else np.abs(found.matrix).mean(axis=0)
    off = np.abs(matrix) * ~np.eye(len(matrix), dtype=bool)
    shown = np.sort(np.argsort(-off.sum(axis=1), kind="stable")[:max_display])
    matrix = matrix[np.ix_(shown, shown)]
    n = len(shown)
    names = shorten([found.feature_names[p] for p in shown])
    axes = style.matrix_axes(ax, names, n)
    ends = [style.DOWN, "#ffffff", style.UP] if one else ["#ffffff", style.UP]
    scale = style.scale(*ends)
    most = np.abs(matrix).max() or 1.0
    image = axes.imshow(
        matrix, cmap=scale, vmin=-most if one else 0, vmax=most, interpolation="nearest"
    )
    axes.set_xticks(range(n), names, rotation=90, parse_math=False, fontsize=8.5)
    axes.set_yticks(range(n), names, parse_math=False, fontsize=8.5)
    axes.tick_params(length=0, colors=style.ink())
    for side in axes.spines.values():
        side.set_visible(False)
    if n <= NUMBERED:
        for z, i in np.ndindex(n, n):
            text = shown_number(float(matrix[z, i]), float(most), one)
            ink = style.on(image.to_rgba(matrix[z, i]))
            axes.text(i, z, text, ha="center", va="center", fontsize=7.5, color=ink)
    if colorbar:
        label = name_of(found) if one else f"mean |{name_of(found)}|"
        style.colour_bar(axes, image, label)
    picture_title(axes, found)
    return axes
