"""What each party's columns are worth: its part of the answers, beside the model's score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.results.guest_worth import GuestWorth

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def worth(worth: GuestWorth, ax: Axes | None = None) -> Axes:
    """One bar per party: the mean of |value| over the instances.

    The value of the host is the sum of its columns' values. A line shows 1.96 standard errors on
    either side. It means something only if the instances are a sample of many. Beside a guest's bar
    stands the model's score with the guest's columns at the reference, and the score of a model
    refitted without them if one was given. The score with all columns stands in the title.

    Args:
        worth: `GuestWorth`, from `FederatedExplainer.worth`.
        ax: matplotlib `Axes` to draw on. None makes a figure.

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted, or mean values that are not
            finite.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

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
    if not isinstance(worth, GuestWorth):
        raise InputTypeError(
            f"worth: got {type(worth).__name__}; pass what FederatedExplainer.worth returned."
        )
    if not np.isfinite(worth.mean_absolute).all():
        raise InputError("worth: its mean values are not finite, so there is nothing to draw.")
    axes = style.new_axes(ax, len(worth.parties))
    rows = np.arange(len(worth.parties))
    colours = [style.GREY] + [style.DOWN] * (len(rows) - 1)
    half = 1.96 * np.nan_to_num(worth.standard_errors)
    axes.barh(rows, worth.mean_absolute, height=0.6, color=colours)
    drawn: dict[str, Any] = {"fmt": "none", "ecolor": style.ink(), "elinewidth": 1, "capsize": 2.5}
    axes.errorbar(worth.mean_absolute, rows, xerr=half, **drawn)
    for row, end in enumerate(worth.mean_absolute + half):
        style.beside(axes, end, row, _scores(worth, row))
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
