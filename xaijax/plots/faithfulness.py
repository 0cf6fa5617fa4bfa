"""Deletion and insertion curves of judged attributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.names import shorten
from xaijax.results.judgement import Judgement, Judgements

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def faithfulness(
    judged: Judgement | Judgements, ax: Axes | None = None, *, which: str = "insertion"
) -> Axes:
    """What the model answers as players come or go, largest value first: the mean over instances.

    The higher an insertion curve and the lower a deletion curve, the better does an attribution
    know which players move the answer up. The legend gives the area under each, with its standard
    error over the instances. Of several outputs the mean is drawn.

    Args:
        judged: what `xaijax.judge(..., curves=True)` returned.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        which: "insertion" or "deletion".

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted, or no curves.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.array([[1.0, 2.0], [3.0, 1.0]])
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] + X[:, 1]), np.zeros((1, 2)))
        >>> judged = xj.judge({"right": X, "turned": -X}, explainer, X, curves=True)
        >>> len(xj.plots.faithfulness(judged).lines)
        2
    """
    if isinstance(judged, Judgement):
        judged = Judgements({judged.name: judged})
    if not isinstance(judged, Judgements):
        raise InputTypeError(
            f"judged: got {type(judged).__name__}; pass what xaijax.judge returned."
        )
    checks.one_of(which, "which", ("insertion", "deletion"))
    axes = style.new_axes(ax, 8)
    names = shorten(list(judged))
    for place, (name, one) in enumerate(zip(names, judged.values(), strict=True)):
        if one.curves is None:
            raise InputError("judged: it has no curves. Say xaijax.judge(..., curves=True).")
        curve = (getattr(one.curves, which) - one.curves.insertion[:, :1]).mean(axis=(0, 2))
        area, error = one.curves.area(which)
        colour = style.OUTPUTS[place % len(style.OUTPUTS)]
        label = f"{name}: {style.number(area)} ± {style.number(error, 1)}"
        axes.plot(np.arange(len(curve)), curve, color=colour, label=label)
    kept = "kept" if which == "insertion" else "replaced"
    axes.set_xlabel(f"players {kept}, largest value first", color=style.ink(), fontsize=9.5)
    ticker = require("matplotlib.ticker", "xaijax[plots]")
    axes.xaxis.set_major_locator(ticker.MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    axes.set_ylabel("v less its base value", color=style.ink(), fontsize=9.5)
    axes.set_title(f"{which}: area ± standard error", loc="left", fontsize=10.5, color=style.ink())
    style.legend(axes)
    return axes
