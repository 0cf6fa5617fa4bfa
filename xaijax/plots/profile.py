"""The profile of one person, or of two, beside signed bars of influence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.core.typing import Frame
from xaijax.plots import style
from xaijax.plots.names import with_entries
from xaijax.results.explanation import Explanation
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.profiles import profiles_of
from xaijax.results.summary import ranking
from xaijax.results.wording import axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 44  # characters of name and entries of two people beyond which the entries stand below


@public
def profile(
    explanation: Explanation | PrivateExplanation,
    ax: Axes | None = None,
    *,
    profile: Frame | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    max_display: int = 14,
) -> Axes:
    """One signed bar per player, beside the person's data; two people side by side.

    A person is an instance. Players come from the largest |value| of either person down. The sum of
    those that are not shown stands below as a number, outside of the scale; where a sum means
    nothing (unary influences, indices of Deegan and Packel), only how many they are is told. If
    standard errors are known, the players that are shown one by one have 95 % intervals.

    Args:
        explanation: `Explanation` of one or two instances with one output, values [1, P] or [2, P];
            or its private copy.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        profile: what to write as the people's data: a frame, or a list of dicts, with one row per
            person and columns named like players; or one dict. A player without a column there, and
            with None every player, shows `explanation.data`.
        max_display: int, at least 1. Players shown one by one.

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
        >>> values = np.array([[1.0, -2.0]])
        >>> explanation = xj.Explanation(values, np.zeros(1), feature_names=("age", "size"))
        >>> axes = xj.plots.profile(explanation, profile=[{"age": 20, "size": "small"}])
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['size: small', 'age: 20']
    """
    style.check(explanation, max_display, private=True)
    explanation = style.lone_output(explanation, "a profile is of one")
    N = len(explanation)
    if N > 2:
        raise InputError(
            f"explanation: a profile is of one person or two, got {N:,} instances. Choose them, "
            "explanation[[3, 8]]."
        )
    texts = profiles_of(explanation, profile)
    size = np.abs(explanation.values).max(axis=0)
    shown, others = style.split(size, max_display)
    values = explanation.values[:, shown]
    half = style.half_widths(explanation)
    names = with_entries(
        [explanation.feature_names[j] for j in shown],
        [[person[j] for person in texts] for j in shown],
        ": ",
        line=None if N == 1 else LINE,
    )
    summed = len(others) > 0 and style.named(explanation.kind).steps
    if summed:
        names.append(style.others_name(others))
    axes = style.new_axes(ax, len(names) * (1 if N == 1 else 1.5), style.width_for(names, 8.2))
    place = np.arange(len(shown))
    height = 0.68 if N == 1 else 0.36
    for n in range(N):
        at = place if N == 1 else place + (n - 0.5) * height
        colours: Any = style.PEOPLE[n]
        if N == 1:
            colours = [style.UP if v >= 0 else style.DOWN for v in values[0]]
        axes.barh(at, values[n], height=height, color=colours, label=_person(explanation, n))
        if half is not None:
            axes.errorbar(
                values[n],
                at,
                xerr=half[n, shown],
                fmt="none",
                ecolor=style.ink(),
                elinewidth=1,
                capsize=2.5,
            )
    if summed:
        middle = float(np.mean(axes.get_xlim()))
        for n, total in enumerate(explanation.values[:, others].sum(axis=1)):
            row = len(shown) + (0 if N == 1 else (n - 0.5) * 1.2 * height)
            colour = style.GREY if N == 1 else style.PEOPLE[n]
            text = f"{style.signed(total)}, not to scale"
            style.beyond_scale(axes, 0.0, row, text, 0 < middle, colour)
    axes.axvline(0, color=style.ink(), linewidth=0.8)
    kind = style.value_name(explanation)
    note = style.intervals(explanation, None if half is None else half[:, shown])
    title = style.title_of_one(explanation) if N == 1 else style.title_of(explanation)
    left_out = "" if summed else style.not_shown(others)
    style.dress(axes, names, f"{kind}{axis(explanation)}{note}{left_out}", title, None)
    if N == 2:
        legend = axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=8.5
        )
        for text in legend.get_texts():
            text.set_parse_math(False)
        if title is not None:  # above the legend
            told = axes.get_title(loc="left")
            axes.set_title(
                told, loc="left", pad=30, fontsize=10.5, color=style.ink(), parse_math=False
            )
    return axes


def _person(explanation: Explanation | PrivateExplanation, n: int) -> str:
    names, own = explanation.instance_names, style.output_of_each(explanation)
    person = style.elide(names[n]) if names is not None else f"person {'AB'[n]}"
    return f"{person} (output: {style.elide(own[n])})" if own else person


def largest(explanation: Explanation | PrivateExplanation, count: int) -> np.ndarray:
    """The places of the players with the largest |value| of either person."""
    return ranking(np.abs(explanation.values).max(axis=0))[:count]
