"""What all pictures share: colours, checks, names that fit, the players that are shown."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.plots.names import NAME_LIMIT, shorten
from xaijax.plots.names import elide as elide
from xaijax.results.explanation import Explanation
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.summary import ranking
from xaijax.results.wording import named as named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Blue against orange stays apart in every common colour blindness; the outputs are Okabe and Ito's.
DOWN, UP = "#2b6cb0", "#e07b16"
GREY, LINE, TEXT = "#a3a8ad", "#d9dcdf", "#2a2e33"
OUTPUTS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6D31")
PEOPLE = ("#0072B2", "#E69F00")
LOW_TO_HIGH = ("#2b6cb0", "#9c8fb4", "#e07b16")

# Inches of an average character of names, of the text below the axis, and of a title.
NAME_INCHES, LABEL_INCHES, TITLE_INCHES = 0.077, 0.070, 0.081

# What is drawn where neither base values nor data are needed.
Shown = Explanation | PrivateExplanation


def check(explanation: Any, max_display: Any, private: bool = False) -> None:
    """Refuse what no picture can be made of.

    private: whether the picture is also drawn of a `PrivateExplanation`.

    Raises:
        InputTypeError: not an Explanation, or max_display is no integer.
        InputError: no instance, values that are not finite, or max_display below 1.
    """
    if isinstance(explanation, PrivateExplanation) and not private:
        raise InputError(
            "explanation: a private copy has neither base values nor data, which are needed "
            "here. Draw it with xaijax.plots.bar, profile or beeswarm."
        )
    if not isinstance(explanation, Shown):
        raise InputTypeError(
            f"explanation: got {type(explanation).__name__}; pass an xaijax Explanation."
        )
    if isinstance(max_display, bool) or not isinstance(max_display, int | np.integer):
        raise InputTypeError(f"max_display: got {max_display!r}; pass an integer of at least 1.")
    if max_display < 1:
        raise InputError(f"max_display: got {max_display}; pass an integer of at least 1.")
    if len(explanation) == 0:
        raise InputError("explanation: it has no instances, so there is nothing to draw.")
    broken = ~np.isfinite(explanation.values).reshape(len(explanation), -1).all(axis=1)
    if broken.any():
        raise InputError(
            f"explanation: {broken.sum():,} of {len(explanation):,} instances have values that are "
            "not finite; draw the others, explanation[mask]."
        )


def one_output(explanation: Shown, output: int | str | None, plot: str) -> Any:
    """The explanation [N, P] of one output, of the class that was given.

    Raises:
        InputError: K outputs and none chosen, one output and another chosen, or an unknown one.
    """
    if explanation.output_names is None:
        if output is not None and output != explanation.provenance.get("selected_output"):
            raise InputError(
                f"output: got {output!r}, but the explanation has one output; leave output out."
            )
        return explanation
    if output is None:
        names = ", ".join(repr(name) for name in explanation.output_names[:6])
        more = ", ..." if len(explanation.output_names) > 6 else ""
        raise InputError(
            f"output: {plot} draws one output and the explanation has "
            f"{len(explanation.output_names)}; pass output= ({names}{more}) or its position."
        )
    chosen = explanation[:, :, output]
    if chosen.output_names is not None:
        raise InputTypeError(f"output: got {output!r}; pass one name or position.")
    return chosen


def lone_output(explanation: Shown, why: str) -> Any:
    """The explanation [N, P], for what takes no output=; why: "a profile is of one".

    Raises InputError: K outputs.
    """
    if explanation.output_names is not None:
        names = [repr(name) for name in explanation.output_names[:6]]
        raise InputError(
            f"explanation: it has {len(explanation.output_names)} outputs ({', '.join(names)}), "
            f"and {why}. Choose it: explanation[:, :, {names[-1]}]."
        )
    return explanation


def new_axes(ax: Any, rows: float, width: float = 7.2, height: float | None = None) -> Axes:
    """`ax`, or the axes of a new figure that fits so many rows, or of this height in inches.

    Raises:
        InputTypeError: `ax` is no matplotlib Axes.
        ImportError: matplotlib is not installed.
    """
    axes_type = require("matplotlib.axes", "xaijax[plots]").Axes
    if ax is None:
        pyplot = require("matplotlib.pyplot", "xaijax[plots]")
        size = figure_size(rows, width) if height is None else (width, height)
        return pyplot.subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, axes_type):
        raise InputTypeError(f"ax: got {type(ax).__name__}; pass a matplotlib Axes or None.")
    return ax


def figure_size(rows: float, width: float = 7.2) -> tuple[float, float]:
    """Inches that give each row room for its name."""
    return width, 1.2 + 0.34 * rows


def width_for(names: list[str], width: float = 7.2) -> float:
    """Inches of a figure that leave 4.4 beside the longest of these names, `width` at least."""
    longest = max(len(line) for name in names for line in name.split("\n"))
    return max(width, 4.4 + NAME_INCHES * longest)


def split(size: np.ndarray, max_display: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the players shown, largest of size [P] or [P, K] first, and of the others.

    A single other is shown: its row would be there anyway.
    """
    order = ranking(size)
    if len(order) == max_display + 1:
        max_display += 1
    return order[:max_display], order[max_display:]


def others_name(others: np.ndarray) -> str:
    """The name of the row that stands for the players not shown."""
    return f"sum of {len(others)} others"


def not_shown(others: np.ndarray) -> str:
    """What stands below the axis where a sum of the others would mean nothing."""
    return f"\n{len(others)} players of smaller values are not shown" if len(others) else ""


def beyond_scale(
    ax: Axes, at: float, row: float, text: str, to_the_right: bool = True, colour: str = GREY
) -> None:
    """A mark at a place of a row, and beside it a number that is outside of the scale."""
    ax.plot([at], [row], "D", markersize=5, color=colour, mfc="none", zorder=4, clip_on=False)
    beside(ax, at, row, text, 8 if to_the_right else -8)


def value_name(explanation: Shown) -> str:
    """The index in words: "Shapley value", say."""
    return named(explanation.kind).value or f"value ({elide(explanation.kind)})"


def interval_words(explanation: Shown) -> str:
    """What the lines beside values are."""
    if isinstance(explanation, PrivateExplanation):
        return f"lines: 95 % of the noise, epsilon {explanation.epsilon:g}"
    return "lines: 95 % intervals"


def beside(ax: Axes, end: float, row: float, text: str, points: float = 5) -> None:
    """Write so many points to the right of a bar's end, below 0 to the left; without TeX reading."""
    ax.annotate(
        text,
        (end, row),
        xytext=(points, 0),
        textcoords="offset points",
        va="center",
        ha="left" if points > 0 else "right",
        fontsize=8.5,
        color=TEXT,
        parse_math=False,
    )


def dress(
    ax: Axes, names: list[str], xlabel: str, title: str | None, limit: int | None = NAME_LIMIT
) -> None:
    """Rows from the top with their names, a light grid, no frame.

    limit: characters of a name, which are shortened together; None: they are as they shall be.

    Names are set without TeX reading: a dollar sign in a column name is a dollar sign.
    """
    ax.set_yticks(range(len(names)))
    shown = names if limit is None else shorten(names, limit)
    ax.set_yticklabels(shown, color=TEXT, parse_math=False)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", colors=TEXT, labelsize=9)
    ax.grid(axis="x", color=LINE, linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(LINE)
    room = _room(ax, shown)
    if len(xlabel) > room / LABEL_INCHES:
        xlabel = xlabel.replace("; ", ";\n")
    ax.set_xlabel(xlabel, color=TEXT, fontsize=9.5)
    write_title(ax, title, int(room / TITLE_INCHES))


def write_title(ax: Axes, title: str | None, width: int = 60) -> None:
    """A title of two lines at most, each of so many characters; None: there is none."""
    if title is not None:
        lines = wrap(elide(title, 2 * width - 8), width) or [""]
        text = "\n".join([*lines[:1], " ".join(lines[1:])]).strip()
        ax.set_title(text, loc="left", fontsize=10.5, color=TEXT, pad=10, parse_math=False)


def _room(ax: Axes, names: list[str]) -> float:
    """Inches from the end of the names to the right end of the axes' part of the figure."""
    figure: Any = ax.get_figure(root=True)
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    share = min(ax.get_position().width / 0.775, 1.0)  # 0.775: of axes that have a figure alone
    return max(figure.get_figwidth() * share - NAME_INCHES * longest - 0.2, 2.0)


def title_of(explanation: Shown) -> str | None:
    """The output that was chosen, where there were several."""
    selected = explanation.provenance.get("selected_output")
    if selected is None and len(names := output_of_each(explanation)) == 1:
        selected = names[0]
    return None if selected is None else f"output: {selected}"


def output_of_each(explanation: Shown) -> list[str]:
    """The output of each instance, [N], where each has its own (`outputs=`); else empty."""
    names = getattr(explanation, "stats", {}).get("output_names", ())
    return [str(name) for name in names] if len(names) == len(explanation.values) else []


def title_of_one(one: Shown) -> str | None:
    """The name of the only instance, and the output that was chosen."""
    parts = [] if one.instance_names is None else [f"instance: {one.instance_names[0]}"]
    output = title_of(one)
    return ", ".join(parts + ([] if output is None else [output])) or None


def signed(value: float) -> str:
    """Three digits with the sign, as the axes write it."""
    return f"{value:+.3g}".replace("-", "−")


def half_widths(explanation: Shown) -> np.ndarray | None:
    """Half 95 % intervals like values, NaN where unknown; None where there is nothing to draw.

    Of a private copy: of the noise.
    """
    if isinstance(explanation, PrivateExplanation):
        return explanation.half_widths()
    if explanation.std_errors is None or not np.any(explanation.std_errors > 0):
        return None
    return explanation.half_widths()
