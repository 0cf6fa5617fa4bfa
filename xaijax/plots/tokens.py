"""One sentence: its words on grounds coloured by their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.plots import pixels, style
from xaijax.plots.words import draw, read
from xaijax.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap


@public
def tokens(
    explanation: Explanation,
    words: Sequence[str | None] | None = None,
    ax: Axes | None = None,
    *,
    output: int | str | None = None,
    limit: float | None = None,
    cmap: str | Colormap | None = None,
) -> Axes:
    """The players of one instance as a line of words, each on a ground coloured by its value.

    The colours run from -limit (blue) over 0 (white) to limit (orange). Under each word stands its
    value, rounded to a hundredth of the limit or finer, and where it was sampled the half-width of
    its 95 % interval. A word whose interval contains 0 or is unknown (±?) is written in grey. Long
    sentences have several lines.

    Args:
        explanation: `Explanation` of one instance, values [1, P], or [1, P, K] with `output`.
        words: the P words, or None: the names of the players. A word None is left out: padding.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        output: name or position of one output. Needed with K outputs.
        limit: positive float or None. The end of the colour scale. None: the largest |value|.
        cmap: a matplotlib colour map or its name, such as "RdBu_r". None: blue, white, orange.

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted; several instances.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explanation = xj.Explanation(np.array([[0.5, -2.0, 0.0]]), np.zeros(1))
        >>> axes = xj.plots.tokens(explanation, ["not", "bad", None])
        >>> [text.get_text() for text in axes.texts]
        ['not', '+0.5', 'bad', '−2']
    """
    style.check(explanation, 1)
    if len(explanation) > 1:
        raise InputError(
            f"explanation: tokens draws one instance and the explanation has {len(explanation):,}; "
            "choose one, explanation[0]."
        )
    one = style.one_output(explanation, output, "tokens")
    values, half = one.values[0], style.half_widths(one)
    P = len(values)
    shown = read(one.feature_names if words is None else words, P)
    limit, colours = pixels.limit_of(limit, values), pixels.colour_map(cmap)
    grounds = [colours(0.5 + value / limit / 2) for value in values]
    known = np.zeros(P) if half is None else half[0]
    unsure = (known != 0) & ~(np.abs(values) > known)
    # At most a hundredth of the limit, as 0.01 of 1 to 9.99; what is less shows as 0.
    places = 2 - math.floor(math.log10(limit))
    under = [_under(round(v, places), width) for v, width in zip(values, known, strict=True)]
    inks = [_ink(ground, bool(one)) for ground, one in zip(grounds, unsure, strict=True)]
    axes = draw(ax, shown, grounds, inks, under)
    title = style.title_of_one(one)
    total = one.base_values[0] + values.sum()
    said = f"base value {style.number(one.base_values[0])}, answer {style.number(total)}"
    axes.set_title(
        said if title is None else f"{style.elide(title, 40)}: {said}",
        loc="left",
        fontsize=9.5,
        color=style.ink(),
        parse_math=False,
    )
    return axes


def _under(value: float, half: float) -> str:
    known = np.isfinite(half) and half > 0
    shown = style.signed(value) if value else "0"
    return shown + (f"\n±{style.number(half, 2)}" if known else "\n±?" if np.isnan(half) else "")


def _ink(ground: tuple[float, ...], unsure: bool) -> str:
    """A colour that can be read on this ground."""
    clear = style.on(ground)
    if not unsure:
        return clear
    return "#70757a" if clear == style.TEXT else style.LINE
