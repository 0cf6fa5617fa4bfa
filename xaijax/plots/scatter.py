"""One player's value against its own data, coloured by the data of another player."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.results.explanation import Explanation
from xaijax.results.selection import resolve
from xaijax.results.shared_fields import as_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_TEXTS = 12  # different texts that have a position on the axis
MOST_DOTS = 4_000
MOST_INTERVALS = 200
FEWEST_COUNTED = 30  # instances from which a histogram is drawn
TALLEST = 0.15  # of the histogram's bars, as a share of the height


@public
def scatter(
    explanation: Explanation,
    player: int | str,
    ax: Axes | None = None,
    *,
    by: int | str | None = None,
    output: int | str | None = None,
) -> Axes:
    """Draws one dot for each instance: a player's value over the player's own data.

    Each text has its own position, in the order of mean values, and its dots are spread a little to
    the side. If there are more than 12 texts, the 11 most frequent have a position, and the axis
    says how many share the position "other". The value is the full one, with the player's part of
    interactions: `dependence` draws the value without them, from `Interactions`. If dots at one
    position differ in height, other players interact with this one; `by` colours the dots by one of
    them. If there are more than 4,000 instances, 4,000 at even distances are drawn, and the axis
    says so. For up to 200 instances, 95 % intervals are drawn if standard errors are known. From 30
    instances on, grey bars at the bottom are the histogram of the data.

    Args:
        explanation: `Explanation` of at least one instance with its data, values [N, P], or
            [N, P, K] with `output`.
        player: name or position of a player that is one column of the data.
        {ax}
        by: name or position of a player, one column, whose data are the colours. Numbers: low in
            blue and high in orange; grey if missing. Texts: a colour each; if there are more than
            7, the 6 most frequent have colours, and the others are grey. None: one colour.
        {output}

    {axes}
        InputError: there are no data, or a player is not one column.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> data = np.array([[20.0, 5.0], [40.0, 6.0]])
        >>> explanation = xj.Explanation(data - 30, np.zeros(2), data=data)
        >>> axes = xj.plots.scatter(explanation, 0, by=1)
        >>> axes.collections[0].get_offsets().tolist()
        [[20.0, -10.0], [40.0, 10.0]]
    """
    explanation = style.checked(explanation, output, "scatter")
    drawn, total = _place(explanation, player), len(explanation)
    explanation = style.at_most(explanation, MOST_DOTS)
    columns = explanation.player_data()
    column, names = columns[drawn], explanation.feature_names
    if column is None:
        raise InputError(
            f"player: {names[drawn]!r} is not one column of the data. Choose one that is."
        )
    y, numbers = explanation.values[:, drawn], as_numbers(column)
    x, texts = (numbers, []) if numbers is not None else _texts(column, y)
    place = None if by is None else _place(explanation, by, "by")
    other = None if place is None else _of(columns, place, names)
    colour = None if other is None else as_numbers(other)
    shown = style.shorten([names[j] for j in (drawn, place) if j is not None])

    axes = style.new_axes(ax, 10)
    axes.axhline(0, color=style.GREY, linewidth=0.8, zorder=1)
    if len(y) >= FEWEST_COUNTED:
        bins = np.arange(len(texts) + 1) - 0.5 if texts else 30
        counts, edges = np.histogram(x[np.isfinite(x)], bins)
        height, widths = TALLEST * counts / max(counts.max(), 1), np.diff(edges)
        look = {"align": "edge", "color": style.faint(), "transform": axes.get_xaxis_transform()}
        axes.bar(edges[:-1], height, widths, zorder=0, **look)
    half = style.half_widths(explanation)
    half = None if half is None or len(y) > MOST_INTERVALS else half[:, drawn]
    if half is not None:
        axes.vlines(x, y - half, y + half, colors=style.GREY, linewidth=0.8, zorder=2)
    look = style.many_dots(len(y), 14)
    if other is None:
        axes.scatter(x, y, color=style.OUTPUTS[0], **look)
    elif colour is None:
        kinds, codes, rest = _kinds(other, len(style.OUTPUTS))
        for place, name in enumerate(style.shorten(kinds, 20)):
            shade = style.GREY if place == rest else style.OUTPUTS[place]
            axes.scatter(x[codes == place], y[codes == place], color=shade, label=name, **look)
        style.legend(axes, shown[1])
    else:
        low, high = style.ends_of(colour) if np.isfinite(colour).any() else (0.0, 1.0)
        dots = axes.scatter(
            x, y, c=np.ma.masked_invalid(colour), cmap=style.scale(*style.LOW_TO_HIGH),
            vmin=low, vmax=high, plotnonfinite=True, **look,
        )  # fmt: skip
        style.colour_bar(axes, dots, shown[1])
    if texts:
        turned = {"rotation": 30, "ha": "right"} if len(texts) > 4 else {}
        axes.set_xticks(range(len(texts)), style.shorten(texts, 16), parse_math=False, **turned)
        axes.set_xlim(-0.6, len(texts) - 0.4)
    lines = style.intervals(explanation, half).replace("; ", "\n")
    missing = int(np.isnan(x).sum())
    note = f"\n{MOST_DOTS:,} of {total:,} instances are drawn" if total > MOST_DOTS else ""
    note += f"\n{missing:,} instances without an entry are not drawn" if missing else ""
    style.plain(axes, shown[0] + note, f"{style.value_name(explanation)}{lines}")
    style.write_title(axes, style.title_of(explanation))
    return axes


def _place(explanation: Explanation, player: int | str, argument: str = "player") -> int:
    _, place = resolve(player, explanation.shape[1], explanation.feature_names, "player")
    if place is None:
        raise InputTypeError(f"{argument}: got {player!r}; pass one name or position.")
    return place


def _of(columns: list[np.ndarray | None], place: int, names: tuple[str, ...]) -> np.ndarray:
    column = columns[place]
    if column is None:
        raise InputError(f"by: {names[place]!r} is not one column of the data; choose another.")
    return column


def _texts(column: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Positions [N] of texts, spread to the sides, and the texts in the order of their mean
    value.
    """
    kinds, codes, rest = _kinds(column, MOST_TEXTS)
    mean = np.bincount(codes, y) / np.bincount(codes)
    mean[rest:] = np.inf  # others come at the end
    order = np.argsort(mean, kind="stable")
    spread = np.random.default_rng(0).uniform(-0.22, 0.22, len(codes))
    return np.argsort(order)[codes] + spread, [kinds[place] for place in order]


def _kinds(column: np.ndarray, most: int) -> tuple[list[str], np.ndarray, int]:
    """(different texts of a column, the text of each entry [N], the position of the others).

    If there are more than `most` texts, they are the most frequent, and one for all others.
    """
    words = np.array(["missing" if v is None or v != v else str(v) for v in column])
    kinds, codes, count = np.unique(words, return_inverse=True, return_counts=True)
    if len(kinds) <= most:
        return [str(kind) for kind in kinds], codes, len(kinds)
    largest = np.sort(np.argsort(-count, kind="stable")[: most - 1])
    place = np.full(len(kinds), most - 1)
    place[largest] = np.arange(most - 1)
    others = f"other ({len(kinds) - len(largest):,} texts)"
    return [*map(str, kinds[largest]), others], place[codes], most - 1
