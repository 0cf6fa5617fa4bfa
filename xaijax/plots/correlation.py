"""The correlations of the columns that an AEC was fitted on, as a heatmap."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xaijax.core.checks import yes_or_no
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.names import shorten
from xaijax.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NUMBERED = 12  # columns up to which the cells have room for their numbers
NAMED = 30  # names on an axis; with more columns cells get smaller, and not the picture larger


def named_each(F: int) -> int:
    """1 where every column's name is drawn, 2 where every second one is, and so on."""
    return -(-F // NAMED)


@public
def correlation(explanation: Explanation, ax: Axes | None = None, colorbar: bool = True) -> Axes:
    """Heatmap of the correlation matrix, from -1 (blue) over 0 (white) to 1 (orange).

    Up to 12 columns, each cell shows its number. Beyond 30 columns the picture grows no further,
    and only every second, third, ... name stands beside it. Constant columns have correlation 0.

    Args:
        explanation: `explanation_` of a fitted `xaijax.AEC`.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        colorbar: bool. Whether the colour scale stands beside.

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
        >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 4.0], [4.0, 3.0]])
        >>> aec = xj.AEC().fit(X, y=X[:, 0])
        >>> axes = xj.plots.correlation(aec.explanation_)
        >>> [cell.get_text() for cell in axes.texts]
        ['1.00', '0.60', '0.60', '1.00']
    """
    yes_or_no(colorbar, "colorbar")
    style.check(explanation, 1)
    matrix, names = explanation.stats.get("correlation"), explanation.provenance.get("columns")
    if matrix is None or names is None:
        raise InputError(
            f"explanation of kind {explanation.kind!r} holds no correlations; pass explanation_ of "
            "a fitted xaijax.AEC."
        )
    F = len(names)
    places = range(0, F, named_each(F))
    shown = shorten([names[j] for j in places])
    axes = style.matrix_axes(ax, shown, min(F, NAMED))
    scale = style.scale(style.DOWN, "#ffffff", style.UP)
    # Smoothing would blend small cells: of 1,000 columns, nearly three times the bytes for no more.
    image = axes.imshow(matrix, cmap=scale, vmin=-1, vmax=1, interpolation="nearest")
    axes.set_xticks(places, shown, rotation=90, parse_math=False, fontsize=8.5)
    axes.set_yticks(places, shown, parse_math=False, fontsize=8.5)
    axes.tick_params(length=0, colors=style.ink())
    for side in axes.spines.values():
        side.set_visible(False)
    if F <= NUMBERED:
        for z, i in np.ndindex(F, F):
            text = f"{round(float(matrix[z, i]), 2) + 0.0:.2f}".replace("-", "−")
            ink = style.on(scale((matrix[z, i] + 1) / 2))
            axes.text(i, z, text, ha="center", va="center", fontsize=7, color=ink)
    if colorbar:
        style.colour_bar(axes, image, "correlation")
    return axes
