"""One sentence: its words on backgrounds coloured by their values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.core.public import public
from xaijax.plots import pixels, style
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
    """Draws the players of one instance as words, each on a background coloured by its value.

    The colours run from -limit (blue) over 0 (white) to limit (orange), as the legend shows. Below
    each word is its value, rounded to a hundredth of the limit or finer, and, if it was sampled,
    the half-width of its 95 % interval. A word whose interval contains 0 or is unknown (±?) is
    written in grey. Long sentences have several lines.

    Args:
        explanation: `Explanation` of one instance, values [1, P], or [1, P, K] with `output`.
        words: the P words, or None for the names of the players. A word None is left out, such as
            padding.
        {ax}
        {output}
        {limit}
        {cmap}

    {axes}
        InputError: there are several instances.

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
    explanation = style.checked(explanation, output, "tokens")
    explanation = style.chosen_instance(explanation, None, "tokens")
    values, half = explanation.values[0], style.half_widths(explanation)
    P = len(values)
    shown = read(explanation.feature_names if words is None else words, P)
    limit, colours = pixels.limit_of(limit, values), pixels.colour_map(cmap)
    grounds = [colours(0.5 + value / limit / 2) for value in values]
    known = np.zeros(P) if half is None else half[0]
    unsure = (known != 0) & ~(np.abs(values) > known)
    # At most a hundredth of the limit, such as 0.01 for 1 to 9.99; smaller values show as 0.
    places = 2 - math.floor(math.log10(limit))
    under = [_under(round(v, places), width) for v, width in zip(values, known, strict=True)]
    inks = [_ink(ground, bool(doubt)) for ground, doubt in zip(grounds, unsure, strict=True)]
    axes = draw(ax, shown, grounds, inks, under)
    title = style.title_of_one(explanation)
    total = explanation.base_values[0] + values.sum()
    said = f"base value {style.number(explanation.base_values[0])}, answer {style.number(total)}"
    style.head(axes, said if title is None else f"{style.elide(title, 40)}: {said}")
    _key(axes, explanation, colours, limit)
    return axes


@public
def prompt(
    explanation: Explanation,
    ax: Axes | None = None,
    *,
    output: int | str | None = None,
    limit: float | None = None,
    cmap: str | Colormap | None = None,
) -> Axes:
    """Draws a prompt as running text: each segment on a background coloured by its value.

    The colours run from -limit (blue) over 0 (white) to limit (orange), as the legend says. The
    value of a segment is below its first word, with the half-width of its 95 % interval if it was
    sampled. With K outputs (`outputs="tokens"`), and no `output=`, it is a heat map instead: a row
    for each segment and a column for each token of the target.

    Args:
        explanation: `Explanation` of one prompt by `PromptExplainer`, such as `explanation[0]`.
        {ax}
        {outputs}
        {limit}
        {cmap}

    {axes}
        InputError: there are several prompts, or rows that are not prompts.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explanation = xj.Explanation(
        ...     np.array([[0.5, -2.0]]),
        ...     np.zeros(1),
        ...     data=np.array([["The sun.", " It rained."]]),
        ...     provenance={"segments": "sentence"},
        ... )
        >>> axes = xj.plots.prompt(explanation)
        >>> [text.get_text() for text in axes.texts]
        ['The', '+0.5', 'sun.', '', 'It', '−2', 'rained.', '']
    """
    style.check(explanation)
    several = explanation.values.ndim == 3 and output is None
    explanation = explanation if several else style.checked(explanation, output, "prompt")
    explanation = style.chosen_instance(explanation, None, "prompt")
    if explanation.segments is None:
        raise InputError(
            "explanation: it explains rows that are not prompts. Pass an explanation by "
            "PromptExplainer, or say xaijax.plots.tokens(explanation, words)."
        )
    values = explanation.values[0]
    limit, colours = pixels.limit_of(limit, values), pixels.colour_map(cmap)
    if several:
        return _by_target(explanation, ax, colours, limit)
    half = style.half_widths(explanation)
    known = np.zeros(len(values)) if half is None else half[0]
    places = 2 - math.floor(math.log10(limit))
    words, owner, under = [], [], []
    for p, text in enumerate(explanation.segments[0]):
        parts = text.split() or [repr(text)]
        words += parts
        owner += [p] * len(parts)
        under += [_under(round(values[p], places), known[p]), *[""] * (len(parts) - 1)]
    grounds = [colours(0.5 + values[p] / limit / 2) for p in owner]
    axes = draw(
        ax, style.shorten(words, LONGEST), grounds, [style.on(ground) for ground in grounds], under
    )
    _key(axes, explanation, colours, limit)
    total = explanation.base_values[0] + values.sum()
    said = f"base value {style.number(explanation.base_values[0])}, answer {style.number(total)}"
    target = explanation.stats.get("targets")
    style.head(axes, said if target is None else f"{style.elide(target[0], 40)!r}: {said}")
    return axes


def _by_target(explanation: Explanation, ax: Any, colours: Any, limit: float) -> Axes:
    """The heat map of segments and the target's tokens."""
    values, names = explanation.values[0], explanation.output_names or ()
    axes = style.new_axes(ax, len(values))
    drawn = axes.pcolormesh(values, cmap=colours, vmin=-limit, vmax=limit)
    axes.invert_yaxis()
    axes.set_yticks(np.arange(len(values)) + 0.5, style.shorten(explanation.feature_names))
    axes.set_xticks(np.arange(len(names)) + 0.5, style.shorten(names, LONGEST))
    axes.set_xlabel("token of the target")
    figure: Any = axes.get_figure(root=True)
    figure.colorbar(drawn, ax=axes, label="value")
    return axes


def _key(axes: Axes, explanation: Explanation, colours: Any, limit: float) -> None:
    """The legend of the colours, below the words."""
    entries = {style.number(end): colours(0.5 + end / limit / 2) for end in (-limit, 0.0, limit)}
    key = {"loc": "upper left", "bbox_to_anchor": (0, 0), "ncols": 3}
    style.colour_key(axes, entries, title=style.value_name(explanation), **key)


def _under(value: float, half: float) -> str:
    known = np.isfinite(half) and half > 0
    shown = style.signed(value) if value else "0"
    return shown + (f"\n±{style.number(half, 2)}" if known else "\n±?" if np.isnan(half) else "")


def _ink(ground: tuple[float, ...], unsure: bool) -> str:
    """A colour that can be read on this background."""
    clear = style.on(ground)
    if not unsure:
        return clear
    return "#70757a" if clear == style.TEXT else style.LINE


LINE = 64  # characters of a line of words
# Inches of the title, of a line, of one with values below, and of the legend.
TITLE, WORD, VALUED, KEY = 0.45, 0.42, 0.7, 0.45
LONGEST = 24  # characters of a word


def read(words: Any, count: int) -> list[str | None]:
    """The words of `count` players, each cut to what can be drawn; None is left out."""
    words = checks.listed(words, "words", f"{count} words")
    if len(words) != count:
        raise InputError(f"words: got {len(words):,} for {count:,} players; pass one for each.")
    short = iter(
        style.shorten([" ".join(str(word).split()) for word in words if word is not None], LONGEST)
    )
    shown = [None if word is None else next(short) for word in words]
    if all(word is None for word in shown):
        raise InputError("words: all of them are None, so there is nothing to draw.")
    return shown


def draw(
    ax: Any,
    shown: Sequence[str | None],
    grounds: Sequence[Any],
    inks: Sequence[str],
    under: Sequence[str] | None = None,
    bold: Sequence[bool] | None = None,
) -> Axes:
    """Draws words on their backgrounds, each with the text below it; returns the axes."""
    places, lines = _places(shown, under)
    height = TITLE + (lines * WORD if under is None else lines * VALUED + KEY)
    axes = style.new_axes(ax, 0, height=height)
    axes.set_xlim(0, LINE)
    axes.set_ylim(lines, 0)
    axes.axis("off")
    patches = require("matplotlib.patches", "xaijax[plots]")
    figure: Any = axes.get_figure(root=True)
    points = 72 * axes.get_window_extent().width / figure.dpi
    size = min(10.5, points / LINE / 0.62)  # of characters 0.62 times as wide
    low, high = (0.1, 0.9) if under is None else (0.04, 0.44)
    for p, (line, first, width) in places.items():
        corner = (first, line + low)
        axes.add_patch(
            patches.Rectangle(corner, width - 0.4, high - low, color=grounds[p], linewidth=0)
        )
        middle = first + (width - 0.4) / 2
        weight = "bold" if bold is not None and bold[p] else "normal"
        look: dict[str, Any] = {"ha": "center", "family": "monospace"}
        word = {"fontsize": size, "color": inks[p], "weight": weight}
        style.note(axes, middle, line + (low + high) / 2, shown[p] or "", **look, **word)
        if under is not None:
            style.note(axes, middle, line + 0.69, under[p], **look, fontsize=0.72 * size)
    return axes


def _places(
    shown: Sequence[str | None], under: Sequence[str] | None
) -> tuple[dict[int, tuple[int, float, float]], int]:
    """({player: (line, first character, number of characters)}, number of lines)."""
    places: dict[int, tuple[int, float, float]] = {}
    line, first = 0, 0.0
    for p, word in enumerate(shown):
        if word is None:
            continue
        below = [] if under is None else [0.8 * len(part) for part in under[p].split("\n")]
        width = max(len(word), *below, 0) + 1.4
        if first and first + width > LINE:
            line, first = line + 1, 0.0
        places[p] = (line, first, width)
        first += width
    return places, line + 1
