"""What changed between two explanations: each player's shift with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.results.comparison import Comparison
from xaijax.results.summary import ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def compare(
    comparison: Comparison,
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    of: str = "size",
    output: int | str | None = None,
) -> Axes:
    """One row per player: how far its mean moved, with the interval; 0 is no change.

    Players whose interval leaves out 0 are coloured, orange above and blue below; the others are
    grey. All the intervals hold at once. The title names the output that is drawn. The players that
    moved most are shown from the top.

    Args:
        comparison: `Comparison`, from `xaijax.compare`.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        max_display: int, at least 1. Players shown.
        of: "size": the shift of mean |value|; "value": that of the mean value, with its sign.
        output: name or position of the output, where there are several.

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
        >>> a = np.random.default_rng(0).normal(size=(50, 2))
        >>> old, new = (xj.Explanation(v, np.zeros(50)) for v in (a, a + [0.0, 1.0]))
        >>> axes = xj.plots.compare(xj.compare(old, new, paired=True), of="value")
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['player 1', 'player 0']
    """
    if not isinstance(comparison, Comparison):
        raise InputTypeError(
            f"comparison: got {type(comparison).__name__}; pass what xaijax.compare returned."
        )
    max_display = checks.whole_number(max_display, "max_display")
    checks.one_of(of, "of", ("size", "value"))
    start = "size_" if of == "size" else ""
    shift, low, high = (getattr(comparison, f"{start}{one}") for one in ("shift", "low", "high"))
    chosen = None
    if comparison.output_names is not None:
        k = _output(comparison, output)
        shift, low, high = (one[:, k] for one in (shift, low, high))
        chosen = style.elide(comparison.output_names[k])
    elif output is not None:
        raise InputError(f"output: got {output!r}, but there is one output; leave output out.")
    shown = ranking(np.abs(shift))[:max_display]
    axes = style.new_axes(ax, len(shown))
    axes.axvline(0, color=style.faint(), linewidth=1)
    for row, j in enumerate(shown):
        colour = style.UP if low[j] > 0 else style.DOWN if high[j] < 0 else style.GREY
        axes.plot([low[j], high[j]], [row, row], color=colour, linewidth=2)
        axes.plot([shift[j]], [row], "o", color=colour, markersize=5)
    what = "mean |value|" if of == "size" else "mean value"
    label = f"shift of {what}; lines hold together at {100 * comparison.confidence:.3g} %"
    names = [comparison.feature_names[j] for j in shown]
    told = style.title_of_facts(comparison.provenance, chosen)
    parts = [told, "paired instances" if comparison.paired else None]
    style.dress(axes, names, label, ", ".join(filter(None, parts)) or None)
    return axes


def _output(comparison: Comparison, output: int | str | None) -> int:
    """The position of one of the outputs."""
    names = comparison.output_names or ()
    if isinstance(output, str) and output in names:
        return names.index(output)
    if isinstance(output, int | np.integer) and not isinstance(output, bool):
        if -len(names) <= output < len(names):
            return int(output) % len(names)
    raise InputError(f"output: got {output!r}; there are {len(names)}: {', '.join(names[:6])}.")
