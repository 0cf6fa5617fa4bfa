"""Interactions as a heatmap, a network, bars, and dots of one player."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.results.interactions import Interactions, value_name
from xaijax.results.set_keys import named
from xaijax.results.shared_fields import as_numbers, player_data

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
    """Draws a heatmap of the interactions of feature pairs, with single players on its diagonal.

    With one instance each cell is its value: blue below 0, orange above. With several it is the
    mean of |value|. The players with the largest rows of interactions are shown.

    Args:
        interactions: `Interactions` of at least one instance, with all players and pairs.
        {shown}
        {colorbar}

    {axes}
        InputError: sets of more than two players, or missing pairs.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import xaijax as xj
        >>> table = xj.CoalitionTable([0, 1, 1, 4], ["age", "pay"])
        >>> axes = xj.plots.interactions(table.interactions())
        >>> [cell.get_text() for cell in axes.texts]
        ['+2', '+2', '+2', '+2']
    """
    checks.yes_or_no(colorbar, "colorbar")
    result = of_pairs(interactions, max_display, output, "interactions")
    single = len(result) == 1
    matrix = result.matrix[0] if single else np.abs(result.matrix).mean(axis=0)
    off = np.abs(matrix) * ~np.eye(len(matrix), dtype=bool)
    shown = np.sort(np.argsort(-off.sum(axis=1), kind="stable")[:max_display])
    matrix = matrix[np.ix_(shown, shown)]
    n = len(shown)
    names = style.shorten([result.feature_names[p] for p in shown])
    colours = [style.DOWN, "#ffffff", style.UP] if single else ["#ffffff", style.UP]
    most = float(np.abs(matrix).max()) or 1.0
    limits = -most if single else 0.0, most
    texts = partial(shown_number, most=most, sign=single) if n <= NUMBERED else None
    axes, image = style.cells(
        ax, matrix, style.scale(*colours), limits, names, range(n), n, texts, 7.5
    )
    if colorbar:
        label = value_name(result) if single else f"mean |{value_name(result)}|"
        style.colour_bar(axes, image, label)
    picture_title(axes, result)
    return axes


def of_one_output(result: Any, output: int | str | None, plot: str) -> Interactions:
    """Interactions [N, M] of one output, finite, of at least one instance.

    Raises:
        InputTypeError: it is not Interactions.
        InputError: there is nothing to draw, or there are several outputs and none is chosen.
    """
    checks.passed(result, "interactions", Interactions, "what explainer.interactions(X) returned")
    if len(result) == 0:
        raise InputError("interactions: there are no instances, so there is nothing to draw.")
    result = style.one_output(result, output, plot)
    if not np.isfinite(result.values).all():
        raise InputError("interactions: some values are not finite; draw the other instances.")
    return result


def of_pairs(every: Any, max_display: Any, output: int | str | None, plot: str) -> Interactions:
    """The same for pictures of feature pairs, without larger sets."""
    checks.whole_number(max_display, "max_display")
    result = of_one_output(every, output, plot)
    largest = max(map(len, result.sets))
    if largest > 2:
        by = "xaijax.report" if plot == "report" else f"plots.{plot}"
        raise InputError(
            f"interactions: {by} draws pairs, but there are sets of {largest} players. "
            "Say explainer.interactions(X, order=2), or draw xaijax.plots.pairs."
        )
    refuse_single_players(result)
    return result


def refuse_single_players(result: Interactions) -> None:
    """Raises InputError if there is no set of two players or more."""
    if max(map(len, result.sets)) < 2:
        raise InputError(
            "interactions: there are single players only, of order 1; say order=2 for pairs."
        )


def shown_number(value: float, most: float, sign: bool) -> str:
    """The number with three digits; 0 if it is only rounding, compared with the largest number."""
    if abs(value) < 1e-5 * most:
        return "0"
    return style.number(value, sign=sign)


def picture_title(ax: Axes, result: Interactions) -> None:
    """Writes the instance and the output, if there is one of each, and the measured quantity."""
    title = style.title_of_one(result) if len(result) == 1 else style.title_of(result)
    style.write_title(ax, title, int(style.room(ax, []) / style.TITLE_INCHES))


@public
def pairs(
    interactions: Interactions,
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    output: int | str | None = None,
) -> Axes:
    """Draws one bar for each of the largest sets of two players or more.

    With one instance a bar is its value; with several it is the mean of |value|. If standard errors
    are known, a line shows a 95 % interval. Its half-width is the mean over the instances of the
    values' half-widths, which bounds the error of the mean.

    Args:
        interactions: `Interactions` of at least one instance.
        {ax}
        {max_sets}
        {output}

    {axes}
        InputError: there are single players only.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import xaijax as xj
        >>> table = xj.CoalitionTable([0, 1, 1, 4, 0, 1, 1, 4], ["age", "pay", "sex"])
        >>> axes = xj.plots.pairs(table.interactions(), max_display=1)
        >>> axes.get_yticklabels()[0].get_text()
        'age & pay'
    """
    checks.whole_number(max_display, "max_display")
    result = of_one_output(interactions, output, "pairs")
    refuse_single_players(result)
    joined = [m for m, S in enumerate(result.sets) if len(S) > 1]
    single = len(result) == 1
    value = result.values[0] if single else np.abs(result.values).mean(axis=0)
    order = sorted(joined, key=lambda m: -abs(value[m]))[:max_display]
    length, rows = value[order], np.arange(len(order))
    half = result.half_widths().mean(axis=0)[order]
    axes = style.new_axes(ax, len(order))
    colours = [style.UP if v > 0 and single else style.DOWN for v in length]
    axes.barh(rows, length, height=0.68, color=colours)
    known = style.whiskers(axes, length, rows, np.where(half > 0, half, np.nan))
    for row, end in enumerate(length):
        reach = end + (half[row] if known[row] else 0.0)
        text = shown_number(float(end), float(np.abs(length).max()), single)
        style.write_at(axes, max(reach, 0.0), row, text)
    name = value_name(result)
    label = name if single else f"mean |{name}| over {len(result):,} instances"
    label += style.intervals(result, half)
    names = style.shorten(result.feature_names, 44 // max(len(result.sets[m]) for m in order))
    sets = [named(tuple(names[p] for p in result.sets[m])) for m in order]
    style.dress(axes, sets, label, None, limit=None)
    reach = np.where(known, half, 0.0)
    low, high = min(0.0, (length - reach).min()), max(0.0, (length + reach).max())
    room = 0.16 * ((high - low) or 1.0)
    axes.set_xlim(low - (room / 2 if low < 0 else 0), high + room)
    axes.axvline(0, color=style.faint(), linewidth=0.8)
    picture_title(axes, result)
    return axes


WIDEST, LARGEST = 9.0, 900.0  # points of a line, square points of a dot
LEAST = 0.02  # share of the largest: thinner lines are left out


@public
def network(
    interactions: Interactions,
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    output: int | str | None = None,
) -> Axes:
    """Draws the players on a ring; a line between two is as wide as their interaction is large.

    The mean over the instances is drawn, orange above 0 and blue below, with a legend; a dot is as
    large as the single player's mean. The players with the largest lines are shown, and lines below
    2 % of the largest one that is shown are left out.

    Args:
        interactions: `Interactions` of at least one instance, with all players and pairs.
        {shown}

    {axes}
        InputError: sets of more than two players, or missing pairs.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import xaijax as xj
        >>> table = xj.CoalitionTable([0, 1, 1, 4, 0, 1, 1, 4], ["age", "pay", "sex"])
        >>> axes = xj.plots.network(table.interactions())
        >>> len(axes.lines), [name.get_text() for name in axes.texts[:3]]
        (1, ['age', 'pay', 'sex'])
    """
    result = of_pairs(interactions, max_display, output, "network")
    matrix = result.matrix.mean(axis=0)
    alone, off = np.diag(matrix), matrix * ~np.eye(len(matrix), dtype=bool)
    order = np.argsort(-np.abs(off).sum(axis=1), kind="stable")[:max_display]
    shown = np.sort(order)
    off, alone = off[np.ix_(shown, shown)], alone[shown]  # lines and dots that are drawn
    n, most = len(shown), np.abs(off).max() or 1.0
    names = style.shorten([result.feature_names[p] for p in shown])
    longest = max(map(len, names)) * 0.9 * style.NAME_INCHES
    axes = style.new_axes(ax, 0, width=4.2 + 2 * longest, height=5.3)
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    x, y = np.cos(angle), np.sin(angle)
    for a in range(n):
        for b in range(a + 1, n):
            share = off[a, b] / most
            if abs(share) >= LEAST:
                axes.plot(
                    x[[a, b]], y[[a, b]], linewidth=WIDEST * abs(share), solid_capstyle="round",
                    color=style.UP if share > 0 else style.DOWN, alpha=0.35 + 0.6 * abs(share),
                    zorder=abs(share),
                )  # fmt: skip
    largest = np.abs(alone).max() or 1.0
    sizes = 40 + LARGEST * np.abs(alone) / largest
    colours = [style.UP if value > 0 else style.DOWN for value in alone]
    axes.scatter(x, y, s=sizes, c=colours, edgecolors=style.ground(), linewidths=1.2, zorder=3)
    for a in range(n):
        side = "left" if x[a] > 0.15 else "right" if x[a] < -0.15 else "center"
        height = "center" if side != "center" else "bottom" if y[a] > 0 else "top"
        away = np.sqrt(sizes[a]) / 2 + 5  # points from the dot's middle, past its edge
        axes.annotate(
            names[a], (x[a], y[a]), xytext=(away * x[a], away * y[a]),
            textcoords="offset points", ha=side, va=height, fontsize=9, color=style.ink(),
            parse_math=False,
        )  # fmt: skip
    reach = 1.3 * (2.1 + longest) / 2.1  # for a radius of 1.6 inches, with names next to it
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-1.55, 1.45)
    axes.set_aspect("equal")
    axes.set_axis_off()
    lines = "no lines"
    if off.any():
        lines = f"widest line {style.signed(float(off.flat[np.abs(off).argmax()]))}"
    what = "" if len(result) == 1 else f", mean over {len(result):,} instances"
    note = f"{value_name(result)}{what}; {lines}"
    style.note(axes, 0, -1.53, note, ha="center", va="baseline")
    style.colour_key(axes, {"above 0": style.UP, "below 0": style.DOWN}, loc="upper right")
    picture_title(axes, result)
    return axes


@public
def dependence(
    interactions: Interactions,
    player: int | str,
    ax: Axes | None = None,
    *,
    partner: int | str | None = None,
    output: int | str | None = None,
) -> Axes:
    """Draws one dot per instance: a player's value alone over its own data.

    Colours are the data of its strongest partner, low in blue and high in orange: if dots at one
    position separate by colour, the interaction separates them.

    Args:
        interactions: `Interactions` of several instances, with their data, all players and pairs.
        player: name or position of the player.
        {ax}
        partner: name or position of the player whose data are the colours. None: the one with the
            largest mean |interaction| with the player.
        {output}

    {axes}
        InputError: there are no data, or a player is not one column of numbers.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.random.default_rng(0).normal(size=(20, 3))
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 2]), X)
        >>> axes = xj.plots.dependence(explainer.interactions(X), 0)
        >>> axes.get_xlabel(), axes.figure.axes[-1].get_ylabel()
        ('x0', 'x2')
    """
    result = of_pairs(interactions, 1, output, "dependence")
    if result.data is None:
        raise InputError(
            "interactions: have no data to draw a player against. Say Interactions.from_shapiq("
            "theirs, data=X) or dataclasses.replace(interactions, data=X)."
        )
    names = result.feature_names
    place = _place(result, player)
    matrix = result.matrix
    strength = np.abs(matrix[:, place]).mean(axis=0)
    strength[place] = -1.0
    other = int(strength.argmax()) if partner is None else _place(result, partner)
    if other == place:
        raise InputError("partner: is the player itself; give another, or leave it out.")
    x, colour = (_column(result, p) for p in (place, other))
    name, partner_name = style.shorten([names[place], names[other]])
    axes = style.new_axes(ax, 9)
    scale = style.scale(*style.LOW_TO_HIGH)
    dots = axes.scatter(x, matrix[:, place, place], c=colour, cmap=scale, s=16, linewidths=0)
    style.colour_bar(axes, dots, partner_name)
    style.plain(axes, name, f"{value_name(result)} of the player alone")
    picture_title(axes, result)
    return axes


def _place(result: Interactions, player: int | str) -> int:
    """A player's position; the key is a set of one, so a position past P is not another set."""
    return result[:, (player,)].sets[0][0]


def _column(result: Interactions, player: int) -> np.ndarray:
    """A player's data as numbers [N]."""
    column = player_data(result)[player]
    numbers = None if column is None else as_numbers(column)
    if numbers is None:
        raise InputError(
            f"player: {result.feature_names[player]!r} has not one column of numbers in data. "
            "Choose one that has."
        )
    return numbers
