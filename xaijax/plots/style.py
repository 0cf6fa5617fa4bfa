"""Shared by all pictures: colours, checks, names that fit, the players that are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from os.path import commonprefix
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.html import cut
from xaijax.core.optional import require
from xaijax.results import describe_question
from xaijax.results.describe_question import WORDS, counted_outputs, quantity
from xaijax.results.explanation import Explanation
from xaijax.results.interactions import Interactions
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.profiles import shown_number
from xaijax.results.summary import ranking
from xaijax.results.wording import named as named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME_LIMIT = 30  # characters of a name on an axis
MORE = 8  # characters that are added if two names would look alike


def elide(text: object, limit: int = NAME_LIMIT) -> str:
    """At most `limit` characters on one line; both ends are kept, since names differ at either."""
    return cut(text, limit)


def shorten(names: Sequence[object], limit: int = NAME_LIMIT) -> list[str]:
    """Names of at most `limit` characters, cut in the middle; different names stay different.

    Names that would look alike show the position where they begin to differ, between both ends. If
    that is not enough, more than `limit` characters are kept.
    """
    whole = [_clean(name) for name in names]
    seen: dict[str, set[str]] = {}  # names that look alike without tabs and line ends
    for name, text in zip(names, whole, strict=True):
        seen.setdefault(text, set()).add(str(name))
    texts = [
        text if len(seen[text]) == 1 else f"{text} ({sorted(seen[text]).index(str(name)) + 1})"
        for name, text in zip(names, whole, strict=True)
    ]
    room = dict.fromkeys(texts, limit)
    apart: dict[str, int | None] = dict.fromkeys(texts)
    while True:
        shown = {text: _cut(text, room[text], apart[text]) for text in room}
        alike = list(_alike(shown))
        if not alike:
            return [shown[text] for text in texts]
        for group in alike:
            place = len(commonprefix(group))
            for text in group:
                room[text] += MORE * (apart[text] is not None)
                apart[text] = place


def _clean(text: object) -> str:
    return " ".join(str(text).split())


def _alike(shown: dict[str, str]) -> Iterator[list[str]]:
    """Groups of different texts that are shown alike."""
    groups: dict[str, list[str]] = {}
    for text, drawn in shown.items():
        groups.setdefault(drawn, []).append(text)
    return (group for group in groups.values() if len(group) > 1)


def _cut(text: str, limit: int, place: int | None) -> str:
    """Both ends of a text, and the part around a given position."""
    tail = (limit - 1) // 3
    inside = place is not None and limit - 2 - tail <= place < len(text) - tail
    if place is not None and inside and len(text) > limit:
        part = (limit - 2) // 3
        word = text.rfind(" ", max(place - 6, 0), place) + 1 or place - 2  # its word's beginning
        start = min(max(word, part), len(text) - limit + 2 + part)
        stop = start + limit - 2 - 2 * part
        first, middle, last = text[:part], text[start:stop], text[len(text) - part :]
        return f"{first.rstrip()}…{middle.strip()}…{last.lstrip()}"
    return cut(text, limit)


# Blue and orange differ in every common colour blindness; the outputs are Okabe and Ito's.
DOWN, UP = "#2b6cb0", "#e07b16"
GREY, LINE, TEXT = "#a3a8ad", "#d9dcdf", "#2a2e33"
OUTPUTS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6D31")
LOW_TO_HIGH = ("#2b6cb0", "#9c8fb4", "#e07b16")
FAINT = 0.3  # share of the way from the background to the text colour, on a dark background


def ink() -> str:
    """The colour of texts and of lines that matter."""
    return _rgb("text.color") if dark() else TEXT


def faint() -> str:
    """The colour of a grid and of frames."""
    if not dark():
        return LINE
    colors = require("matplotlib.colors", "xaijax[plots]")
    ground, text = (np.array(colors.to_rgb(name)) for name in (_rgb("axes.facecolor"), ink()))
    return colors.to_hex(ground + FAINT * (text - ground))


def ground() -> str:
    """The background colour of axes."""
    return _rgb("axes.facecolor")


def dark() -> bool:
    """Whether the current style draws on a dark background."""
    return lightness(_rgb("axes.facecolor")) < 0.4


def on(colour: Any) -> str:
    """A text colour that can be read on a background of this colour."""
    return "#ffffff" if lightness(colour) < 0.5 else TEXT


def lightness(colour: Any) -> float:
    """Returns a number from 0, black, to 1, white, by the weights of ITU-R BT.601."""
    colors = require("matplotlib.colors", "xaijax[plots]")
    return float(np.dot(colors.to_rgb(colour), (0.299, 0.587, 0.114)))


def scale(*colours: str) -> Any:
    """A colour map from one colour over the others to the last."""
    colors = require("matplotlib.colors", "xaijax[plots]")
    return colors.LinearSegmentedColormap.from_list("xaijax", colours).with_extremes(bad=GREY)


def _rgb(key: str) -> str:
    colors = require("matplotlib.colors", "xaijax[plots]")
    return colors.to_hex(require("matplotlib", "xaijax[plots]").rcParams[key])


# Results that can be drawn if neither base values nor data are needed.
Shown = Explanation | PrivateExplanation


def check(explanation: Any, max_display: Any = 1, private: bool = False) -> None:
    """Raises for what cannot be drawn.

    private: whether a `PrivateExplanation` can be drawn too.

    Raises:
        InputTypeError: it is not an Explanation, or max_display is not an integer.
        InputError: there is no instance, values are not finite, or max_display is below 1.
    """
    if isinstance(explanation, PrivateExplanation) and not private:
        raise InputError(
            "explanation: a private copy has neither base values nor data, which are needed "
            "here. Draw it with xaijax.plots.bar, profile or beeswarm."
        )
    checks.passed(explanation, "explanation", Shown, "an xaijax Explanation")
    checks.whole_number(max_display, "max_display")
    if len(explanation) == 0:
        raise InputError("explanation: it has no instances, so there is nothing to draw.")
    broken = ~np.isfinite(explanation.values).reshape(len(explanation), -1).all(axis=1)
    if broken.any():
        raise InputError(
            f"explanation: {broken.sum():,} of {len(explanation):,} instances have values that are "
            "not finite; draw the others, explanation[mask]."
        )


def checked(
    explanation: Any,
    output: int | str | None,
    plot: str,
    max_display: Any = 1,
    private: bool = False,
) -> Any:
    """The explanation [N, P] of one output, after `check`."""
    check(explanation, max_display, private)
    return one_output(explanation, output, plot)


def one_output(explanation: Titled, output: int | str | None, plot: str) -> Any:
    """The explanation [N, P] of one output, of the same class.

    Raises:
        InputError: there are K outputs and none is chosen, or the chosen output does not exist.
    """
    if explanation.output_names is None:
        chosen = explanation.provenance.get("selected_output")
        if output is not None and not (isinstance(output, str) and output == chosen):
            raise InputError(f"output: got {output!r}, but there is one output; leave output out.")
        return explanation
    if output is None:
        names = ", ".join(repr(name) for name in explanation.output_names[:6])
        more = ", ..." if len(explanation.output_names) > 6 else ""
        raise InputError(
            f"output: {plot} draws one output of {len(explanation.output_names)}; pass output= "
            f"({names}{more}) or its position."
        )
    chosen = explanation[:, :, output]
    if chosen.output_names is not None:
        raise InputTypeError(f"output: got {output!r}; pass one name or position.")
    return chosen


def lone_output(explanation: Shown, why: str) -> Any:
    """The explanation [N, P], for plots without output=; why: "a profile is of one".

    It raises InputError if there are K outputs.
    """
    if explanation.output_names is not None:
        names = [repr(name) for name in explanation.output_names[:6]]
        raise InputError(
            f"explanation: it has {len(explanation.output_names)} outputs ({', '.join(names)}), "
            f"and {why}. Choose it: explanation[:, :, {names[-1]}]."
        )
    return explanation


def chosen_instance(explanation: Explanation, instance: int | str | None, plot: str) -> Explanation:
    """The explanation of one instance.

    Raises:
        InputError: there are several and none is chosen, or it does not exist.
        InputTypeError: it is a list or slice of several.
    """
    if instance is None:
        if len(explanation) > 1:
            more = "" if plot in ("image", "tokens") else ", or say instance="
            raise InputError(
                f"explanation: {plot} draws one instance and the explanation has "
                f"{len(explanation):,}; choose one, explanation[0]{more}."
            )
        instance = 0
    if not isinstance(instance, str | int | np.integer):
        raise InputTypeError(f"instance: got {instance!r:.60}; pass one position or name.")
    return explanation[instance]


def new_axes(ax: Any, rows: float, width: float = 7.2, height: float | None = None) -> Axes:
    """`ax`, or the axes of a new figure for this number of rows, or of this height in inches.

    Raises:
        InputTypeError: `ax` is not a matplotlib Axes.
        ImportError: matplotlib is not installed.
    """
    axes_type = require("matplotlib.axes", "xaijax[plots]").Axes
    if ax is None:
        pyplot = require("matplotlib.pyplot", "xaijax[plots]")
        size = figure_size(rows, width) if height is None else (width, height)
        return pyplot.subplots(figsize=size, layout="constrained")[1]
    checks.passed(ax, "ax", axes_type, "a matplotlib Axes or None")
    return ax


def figure_size(rows: float, width: float = 7.2) -> tuple[float, float]:
    """The size in inches that gives each row room for its name."""
    return width, 1.2 + 0.34 * rows


def width_for(names: list[str], width: float = 7.2) -> float:
    """Width in inches of a figure that leaves 4.4 next to the longest name, at least `width`."""
    longest = max(len(line) for name in names for line in name.split("\n"))
    return max(width, 4.4 + NAME_INCHES * longest)


def split(size: np.ndarray, max_display: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the shown players, largest of size [P] or [P, K] first, and of the others.

    A single other player is shown, since its row would be there anyway.
    """
    order = ranking(size)
    if len(order) == max_display + 1:
        max_display += 1
    return order[:max_display], order[max_display:]


def others_name(others: np.ndarray) -> str:
    """The name of the row for the players that are not shown."""
    return f"sum of {len(others)} others"


def not_shown(others: np.ndarray) -> str:
    """The text below the axis if a sum of the others would be meaningless."""
    return f"\n{len(others)} players of smaller values are not shown" if len(others) else ""


def beyond_scale(
    ax: Axes, at: float, row: float, text: str, to_the_right: bool = True, colour: str = GREY
) -> None:
    """Draws a mark in a row, and next to it a number that is not to scale."""
    ax.plot([at], [row], "D", markersize=5, color=colour, mfc="none", zorder=4, clip_on=False)
    write_at(ax, at, row, text, 8 if to_the_right else -8)


def value_name(explanation: Shown) -> str:
    """The index in words, such as "Shapley value"."""
    return named(explanation.kind).value or f"value ({elide(explanation.kind)})"


def intervals(explanation: Shown | Interactions, half: np.ndarray | None) -> str:
    """The text for the lines at values, and for how many no interval is known; half: as drawn."""
    if half is None:
        return ""
    if isinstance(explanation, PrivateExplanation):
        return f"; lines: 95 % of the noise, epsilon {explanation.epsilon:g}"
    unknown = int(np.isnan(half).sum())
    if unknown == half.size:
        return "; 95 % intervals unknown"
    if not unknown and not (half > 0).any():
        return ""
    return "; lines: 95 % intervals" + (f", unknown for {unknown:,}" if unknown else "")


def widest(explanation: Shown) -> str:
    """The text for the width of intervals that are not drawn; empty if all are exact."""
    half = half_widths(explanation)
    if half is None:
        return ""
    if np.isnan(half).all():
        return intervals(explanation, half)
    unknown = int(np.isnan(half).sum())
    unknown_text = f", unknown for {unknown:,}" if unknown else ""
    return f"; 95 % intervals: ±{number(np.nanmax(half), 2)} or less{unknown_text}"


def write_at(
    ax: Axes,
    end: float,
    row: float,
    text: str,
    points: float = 5,
    size: float = 8.5,
    clear: bool = False,
) -> None:
    """Writes a text this many points right of a bar's end, left if below 0; without TeX. clear:
    whether lines stop at the text instead of crossing it.
    """
    side = "left" if points > 0 else "right"
    look = {"va": "center", "ha": side, "fontsize": size, "color": ink(), "parse_math": False}
    if clear:
        look["bbox"] = {"facecolor": ground(), "edgecolor": "none", "pad": 0.6}
    ax.annotate(text, (end, row), xytext=(points, 0), textcoords="offset points", **look)


def note(ax: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """Writes a text at a position, without TeX."""
    usual: dict[str, Any] = {"va": "center", "fontsize": 8.5, "color": ink(), "parse_math": False}
    ax.text(x, y, text, **(usual | look))


def head(ax: Axes, text: str, size: float = 9.5, **layout: Any) -> None:
    """Writes a title of one line above the left end, without TeX."""
    ax.set_title(text, loc="left", fontsize=size, color=ink(), parse_math=False, **layout)


def whiskers(ax: Axes, tips: Any, rows: Any, half: Any, **layout: float) -> np.ndarray:
    """Draws intervals around the ends of bars where `half` is known; returns where it is known."""
    known = np.isfinite(half)
    if known.any():
        look: dict[str, Any] = {"fmt": "none", "elinewidth": 1, "capsize": 2.5, **layout}
        ax.errorbar(tips[known], rows[known], xerr=half[known], ecolor=ink(), **look)
    return known


def dress(
    ax: Axes, names: list[str], xlabel: str, title: str | None, limit: int | None = NAME_LIMIT
) -> None:
    """Draws rows from the top with their names, a light grid, no frame.

    limit: characters of a name; names are shortened together; None: they stay as they are.

    Names are not read as TeX: a dollar sign in a column name is a dollar sign.
    """
    ax.set_yticks(range(len(names)))
    shown = names if limit is None else shorten(names, limit)
    ax.set_yticklabels(shown, color=ink(), parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", colors=ink(), labelsize=9)
    ax.grid(axis="x", color=faint(), linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(faint())
    inches = room(ax, shown)
    if len(xlabel) > inches / LABEL_INCHES:
        xlabel = xlabel.replace("; ", ";\n")
    ax.set_xlabel(xlabel, color=ink(), fontsize=9.5)
    write_title(ax, title, int(inches / TITLE_INCHES))


def plain(ax: Axes, xlabel: str, ylabel: str) -> None:
    """Draws two axes of numbers: a light grid, and a frame on two sides."""
    ax.set_xlabel(xlabel, color=ink(), fontsize=9.5, parse_math=False)
    ax.set_ylabel(ylabel, color=ink(), fontsize=9.5, parse_math=False)
    ax.grid(color=faint(), linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(colors=ink(), labelsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        ax.spines[side].set_color(faint())


def colour_bar(axes: Any, picture: Any, label: str, **layout: float) -> None:
    """Draws the colour scale next to axes, one or several."""
    layout = layout or {"fraction": 0.05, "pad": 0.02}
    bar = picture.axes.figure.colorbar(picture, ax=axes, **layout)
    bar.ax.tick_params(labelsize=8.5, colors=ink(), length=2)
    bar.set_label(label, fontsize=9, color=ink(), parse_math=False)
    bar.outline.set_visible(False)


def dot_rows(ax: Any, x: np.ndarray, half: np.ndarray, labels: list[str]) -> Axes:
    """Draws x [series, rows] as dots, a colour for each series, with lines where `half` is known.

    A grey line joins the dots of a row.
    """
    series, rows = x.shape
    axes, place = new_axes(ax, 1.25 * rows, 8.6), np.arange(rows)
    axes.axvline(0, color=GREY, linewidth=0.8, zorder=1)
    axes.hlines(place, x.min(axis=0), x.max(axis=0), colors=faint(), linewidth=4)
    lines = np.where(np.isfinite(half) & (half > 0), half, 0.0)
    for k, label in enumerate(labels):
        at = place + min(0.16, 0.6 / series) * (k - (series - 1) / 2)
        axes.hlines(at, x[k] - lines[k], x[k] + lines[k], colors=OUTPUTS[k], lw=1.2, zorder=3)
        axes.plot(x[k], at, "o", color=OUTPUTS[k], markersize=5.5, label=label, zorder=4)
    legend(axes)
    return axes


def cells(
    ax: Any, matrix: np.ndarray, scale: Any, limits: tuple[float, float], names: list[str],
    places: range, side: int, texts: Callable[[float], str] | None, size: float,
) -> tuple[Axes, Any]:  # fmt: skip
    """Draws a matrix as squares with names on both sides; returns the axes and the image.

    limits: those of the colour scale; places: those of the names; side: number of cells with room;
        texts: the text of a cell, or None.
    """
    inches = max(0.36 * side, 2.4)  # few cells have room for numbers
    beside = 0.9 * NAME_INCHES * max(map(len, names)) + 0.3
    axes = new_axes(ax, 0, width=inches + beside + 1.0, height=inches + beside + 0.2)
    # Smoothing would blend small cells: with 1,000 columns, nearly three times the bytes for no
    # gain.
    image = axes.imshow(matrix, cmap=scale, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    axes.set_xticks(places, names, rotation=90, parse_math=False, fontsize=8.5)
    axes.set_yticks(places, names, parse_math=False, fontsize=8.5)
    axes.tick_params(length=0, colors=ink())
    for spine in axes.spines.values():
        spine.set_visible(False)
    if texts is not None:
        for (z, i), value in np.ndenumerate(matrix):
            colour = on(image.to_rgba(value))
            axes.text(i, z, texts(value), ha="center", va="center", fontsize=size, color=colour)
    return axes, image


def at_most(explanation: Any, most: int) -> Any:
    """The explanation; if it has more than `most` instances, those at even distances."""
    total = len(explanation)
    if total <= most:
        return explanation
    return explanation[np.linspace(0, total - 1, most).astype(int)]


def many_dots(N: int, size: int) -> dict[str, Any]:
    """The style of N dots; size: square points of each if there are 61 to 1,000."""
    size = 26 if N <= 60 else size if N <= 1_000 else 7
    return {"s": size, "linewidths": 0, "alpha": 0.9, "zorder": 3, "rasterized": N > 500}


def ends_of(numbers: np.ndarray) -> tuple[float, float]:
    """The 5th and the 95th percentile; all numbers if these are equal, as for a rare flag."""
    finite = numbers[np.isfinite(numbers)]
    if finite.size == 0:
        return 0.0, 0.0
    low, high = np.percentile(finite, [5, 95])
    return (low, high) if low < high else (float(finite.min()), float(finite.max()))


def legend(ax: Axes, title: str | None = None, **look: Any) -> None:
    """Explains the colours, to the right of the axes unless `look` has another place."""
    look = {"loc": "upper left", "bbox_to_anchor": (1, 1), "title": title, **look}
    drawn = ax.legend(frameon=False, fontsize=8.5, **look)
    for text in [*drawn.get_texts(), drawn.get_title()]:
        text.set_parse_math(False)
        text.set_color(ink())


def colour_key(ax: Axes, colours: dict[str, Any], **look: Any) -> None:
    """Explains colours that belong to no artist with a label: {meaning: colour}."""
    patch = require("matplotlib.patches", "xaijax[plots]").Patch
    handles = [patch(fc=colour, ec=faint(), label=text) for text, colour in colours.items()]
    legend(ax, handles=handles, **look)


def number(value: float, digits: int = 3, sign: bool = False) -> str:
    """A number as all pictures write it, with the minus sign of the axes."""
    return shown_number(value, digits, sign).replace("-", "−")


def signed(value: float) -> str:
    """A number of three digits with its sign."""
    return number(value, sign=True)


def half_widths(explanation: Shown) -> np.ndarray | None:
    """Half 95 % intervals, shaped like values, NaN if unknown; None if all are exact.

    For a private copy they are intervals of the noise.
    """
    errors = getattr(explanation, "std_errors", None)
    if not isinstance(explanation, PrivateExplanation):
        if errors is None or not (np.isnan(errors) | (errors > 0)).any():
            return None
    return explanation.half_widths()


# Inches of an average character of names, of the text below the axis, and of a title.
NAME_INCHES, LABEL_INCHES, TITLE_INCHES = 0.077, 0.070, 0.081
PART = 40  # characters of an instance's or an output's name
Titled = Explanation | Interactions | PrivateExplanation
OF_CLASS, EACH_OWN = "the output of class", "each instance's own"  # of describe_question
ASKED = ("quantity", "quantity_words", "link")  # the chosen output is shown next to it


def write_title(ax: Axes, title: str | None, width: int = 60) -> None:
    """Writes a title of at most two lines, each with at most `width` characters; None: no title."""
    if title is not None:
        lines = wrap(elide(title, 2 * width - 8), width) or [""]
        text = "\n".join([*lines[:1], " ".join(lines[1:])]).strip()
        head(ax, text, 10.5, pad=10)


def room(ax: Axes, names: list[str]) -> float:
    """Inches from the end of the names to the right end of the axes' part of the figure."""
    figure: Any = ax.get_figure(root=True)
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    share = min(ax.get_position().width / 0.775, 1.0)  # 0.775: for axes that have a figure alone
    return max(figure.get_figwidth() * share - NAME_INCHES * longest - 0.2, 2.0)


def title_of(explanation: Titled) -> str | None:
    """The chosen output, if there were several, and the measured quantity."""
    facts, outputs = explanation.provenance, output_of_each(explanation)
    output = counted_outputs([elide(name, PART // 2) for name in outputs]) if outputs else None
    return title_of_facts(facts, output)


def title_of_facts(facts: Mapping[str, Any], selected: str | None = None) -> str | None:
    """The same from the facts of a provenance; selected: the output, None: as in the facts.

    It names the class of a probability: "probability of >50K".
    """
    what = _quantity(facts)
    if facts.get("column_of") == "proba" and what is not None and OF_CLASS in what:
        return what.replace(OF_CLASS, "the probability of").removeprefix("the ")
    if selected is None and facts.get("selected_output") is not None:
        selected = elide(facts["selected_output"], PART)
    if selected is not None and what is not None and what.endswith(WORDS["proba"]):
        if not selected.startswith(EACH_OWN):
            return f"{what.removeprefix('the ')} of {selected}"
    if selected is None:
        return None if what is None else f"explained: {what}"
    return f"output: {selected}" + ("" if what is None else f" ({what})")


def _quantity(provenance: Mapping[str, Any]) -> str | None:
    facts = {name: value for name, value in provenance.items() if name in ASKED}
    text = quantity(facts)
    return text if text not in ("", WORDS["model output"]) else None


def output_of_each(explanation: Titled) -> list[str]:
    """The output of each instance, [N], if each has its own (`outputs=`); else empty."""
    return list(
        describe_question.output_of_each(getattr(explanation, "stats", {}), len(explanation.values))
    )


def title_of_one(explanation: Titled) -> str | None:
    """The name of the only instance, and the output that was chosen."""
    parts = [title_of(explanation)]
    if explanation.instance_names is not None:
        parts.insert(0, f"instance: {elide(explanation.instance_names[0], PART)}")
    return ", ".join(part for part in parts if part is not None) or None
