"""Words in a line, and in the lines below it, each on a ground of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.plots import style
from xaijax.plots.names import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 64  # characters of a line of words
TITLE, WORD, VALUED = 0.45, 0.42, 0.7  # inches of the title, of a line, of one with values below
LONGEST = 24  # characters of a word


def read(words: Any, count: int) -> list[str | None]:
    """The words of so many players, each cut to what can be drawn; None is left out."""
    words = checks.listed(words, "words", f"{count} words")
    if len(words) != count:
        raise InputError(f"words: got {len(words):,} for {count:,} players; pass one for each.")
    short = iter(shorten([" ".join(str(one).split()) for one in words if one is not None], LONGEST))
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
    """Draw words on their grounds, each with what stands under it; returns the axes."""
    places, lines = _places(shown, under)
    axes = style.new_axes(ax, 0, height=TITLE + lines * (WORD if under is None else VALUED))
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
        _write(axes, middle, line + (low + high) / 2, shown[p] or "", size, inks[p], weight)
        if under is not None:
            _write(axes, middle, line + 0.69, under[p], 0.72 * size, style.ink(), "normal")
    return axes


def _places(
    shown: Sequence[str | None], under: Sequence[str] | None
) -> tuple[dict[int, tuple[int, float, float]], int]:
    """({player: (line, first character, characters)}, lines)."""
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


def _write(
    axes: Axes, x: float, y: float, text: str, size: float, colour: str, weight: str
) -> None:
    axes.text(
        x,
        y,
        text,
        ha="center",
        va="center",
        fontsize=size,
        family="monospace",
        weight=weight,
        color=colour,
        parse_math=False,
    )
