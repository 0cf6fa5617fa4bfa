"""The profile of one person, or of two, beside signed bars of influence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax._errors import InputError
from xaijax._explanation import Explanation
from xaijax._private_explanation import PrivateExplanation
from xaijax._public import public
from xaijax._summary import ranking
from xaijax.results._profiles import profiles_of
from xaijax.results._wording import axis
from xaijax.results.plots import _style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def profile(
    explanation: Explanation | PrivateExplanation,
    ax: Axes | None = None,
    *,
    profile: Any = None,
    max_display: int = 14,
) -> Axes:
    """One signed bar a player, beside the person's own value; two people side by side.

    From the largest |value| down (of either person); the players that are not shown are one bar,
    their sum. Where standard errors are known, 95 % intervals of the values that are shown.

    Args:
        explanation: values [1, P] or [2, P], of one output; or a private copy.
        ax: where to draw; None makes a figure.
        profile: what to write as the people's values: a frame or a list of dicts, one row a person,
            columns named like the players; None: taken from `explanation.data`.
        max_display: players shown one by one, at least 1.

    Returns:
        The Axes.

    Raises:
        InputError, InputTypeError: an argument that is not accepted.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).
    """
    _style.check(explanation, max_display, private=True)
    explanation = _style.lone_output(explanation, "a profile is of one")
    N = len(explanation)
    if N > 2:
        raise InputError(
            f"explanation: a profile is of one person or two, got {N:,} instances. Choose them, "
            "explanation[[3, 8]]."
        )
    texts = profiles_of(explanation, profile)
    size = np.abs(explanation.values).max(axis=0)
    shown, others = _style.split(size, max_display)
    values = explanation.values[:, shown]
    half = _style.half_widths(explanation)
    names = [
        _row_name(explanation.feature_names[j], [person[j] for person in texts]) for j in shown
    ]
    if len(others):
        values = np.concatenate(
            [values, explanation.values[:, others].sum(axis=1, keepdims=True)], axis=1
        )
        names.append(_style.others_name(others))
    axes = _style.new_axes(ax, len(names) * (1 if N == 1 else 1.5), 8.2)
    place = np.arange(len(names))
    height = 0.68 if N == 1 else 0.36
    for n in range(N):
        at = place if N == 1 else place + (n - 0.5) * height
        colours: Any = _style.PEOPLE[n]
        if N == 1:
            colours = [_style.UP if v >= 0 else _style.DOWN for v in values[0]]
        axes.barh(at, values[n], height=height, color=colours, label=_person(explanation, n))
        if half is not None:
            axes.errorbar(
                values[n, : len(shown)],
                at[: len(shown)],
                xerr=half[n, shown],
                fmt="none",
                ecolor=_style.TEXT,
                elinewidth=1,
                capsize=2.5,
            )
    axes.axvline(0, color=_style.TEXT, linewidth=0.8)
    kind = _style.value_name(explanation)
    note = f"; {_style.interval_words(explanation)}" if half is not None else ""
    title = _style.title_of_one(explanation) if N == 1 else None
    _style.dress(axes, names, f"{kind}{axis(explanation)}{note}", title, 52)
    if N == 2:
        legend = axes.legend(loc="best", frameon=True, framealpha=0.9, fontsize=8.5)
        for text in legend.get_texts():
            text.set_parse_math(False)
    return axes


def _row_name(name: str, values: list[str | None]) -> str:
    known = [one for one in values if one is not None]
    if not known:
        return _style.elide(name)
    if len(known) == 2 and known[0] == known[1]:
        known = known[:1]
    return _style.elide(f"{name}: {' | '.join(_style.elide(one, 18) for one in known)}", 52)


def _person(explanation: Explanation | PrivateExplanation, n: int) -> str:
    names = explanation.instance_names
    return _style.elide(names[n]) if names is not None else f"person {'AB'[n]}"


def largest(explanation: Explanation | PrivateExplanation, count: int) -> np.ndarray:
    """The places of the players with the largest |value| of either person."""
    return ranking(np.abs(explanation.values).max(axis=0))[:count]
