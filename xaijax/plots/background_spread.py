"""How far values move with the background, by its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xaijax.core.errors import InputTypeError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.results.background import BackgroundSpread

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def background_spread(found: BackgroundSpread, ax: Axes | None = None) -> Axes:
    """The spread of the values over draws of the background, over its size.

    A bar for each size: how far an instance's values are from their mean over the draws, in units
    of the model's output. Beside it stands the relative squared error that this is.

    Args:
        found: `BackgroundSpread`, from `xaijax.background_spread`.
        ax: matplotlib `Axes` to draw on. None makes a figure.

    Returns:
        The `Axes`.

    Raises:
        InputTypeError: an argument that is not accepted.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

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
    if not isinstance(found, BackgroundSpread):
        raise InputTypeError(
            f"found: got {type(found).__name__}; pass what xaijax.background_spread returned."
        )
    axes = style.new_axes(ax, len(found.sizes))
    axes.barh(range(len(found.sizes)), found.spread, height=0.6, color=style.DOWN)
    for row, end in enumerate(found.spread):
        share = style.number(100 * found.relative[row])
        style.beside(axes, end, row, f"{style.number(end)} ({share} % squared)")
    label = f"how far values move, over {found.draws} draws of the background"
    style.dress(axes, [f"{size:,} rows" for size in found.sizes], label, found.method)
    axes.set_xlim(0, 1.5 * found.spread.max() or 1)
    return axes
