"""Groups of instances beside each other: the mean values of players, and how far they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.core.sequences import half_widths
from xaijax.plots import style
from xaijax.plots.names import shorten
from xaijax.results.explanation import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike


@public
def groups(
    explanation: Explanation,
    groups: ArrayLike | Sequence[Any],
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    output: int | str | None = None,
) -> Axes:
    """One dot for each player and group: the mean value over the group's instances.

    A player's disparity is its largest mean less its smallest, and stands at the right end of its
    row. The players with the largest disparities are shown from the top. Of two groups and values
    that add up to answers less one base value, the differences of all players add up to that of the
    groups' mean answers. A line through a dot is the 95 % interval of the mean, as if the group's
    instances were drawn at random from many (Student's t); a group of one has none.

    Args:
        explanation: `Explanation`, values [N, P], or [N, P, K] with `output`.
        groups: [N], the group of each instance, 2 to 7 different ones: texts, numbers or booleans.
            Numbers stand in their own order, before texts; 1 and "1" are two groups.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        max_display: int, at least 1. Players shown.
        output: name or position of one output. Needed with K outputs.

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
        >>> values = np.array([[3.0, 1.0], [1.0, 1.5], [0.0, 1.0]])
        >>> explanation = xj.Explanation(values, np.zeros(3))
        >>> axes = xj.plots.groups(explanation, ["women", "women", "men"])
        >>> [text.get_text() for text in axes.texts]
        ['2', '0.25']
    """
    style.check(explanation, max_display)
    explanation = style.one_output(explanation, output, "groups")
    names, codes = _groups(groups, len(explanation))
    found = [_mean(explanation.values[codes == g]) for g in range(len(names))]
    means, half = (np.stack(part) for part in zip(*found, strict=True))  # [groups, P] each
    disparity = np.ptp(means, axis=0)
    shown, others = style.split(disparity, max_display)

    axes = style.new_axes(ax, 1.25 * len(shown), 8.6)
    axes.axvline(0, color=style.GREY, linewidth=0.8, zorder=1)
    place = np.arange(len(shown))
    axes.hlines(
        place, means[:, shown].min(axis=0), means[:, shown].max(axis=0), color=style.faint(), lw=4
    )
    apart = min(0.16, 0.6 / len(names))
    for g, name in enumerate(shorten(names, 20)):
        rows = place + apart * (g - (len(names) - 1) / 2)
        label = f"{name} ({int((codes == g).sum()):,})"
        style.dots(axes, means[g, shown], rows, half[g, shown], style.OUTPUTS[g], label)
    style.legend(axes)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high + 0.16 * (high - low))
    for row, j in enumerate(shown):
        style.beside(axes, high, row, style.number(float(disparity[j])))
    xlabel = f"mean {style.value_name(explanation)} of a group; right: disparity"
    if np.isfinite(half).any():
        xlabel += "; lines: 95 % intervals"
    title = style.title_of(explanation)
    style.dress(
        axes, [explanation.feature_names[j] for j in shown], xlabel + style.not_shown(others), title
    )
    return axes


def _groups(groups: Any, N: int) -> tuple[list[str], np.ndarray]:
    """The names of the groups, and the place of each instance's [N]."""
    given = checks.listed(groups, "groups", "the group of each instance")
    if len(given) != N:
        raise InputError(f"groups: got {len(given):,} for {N:,} instances; pass one for each.")
    keys = [_key(one) for one in given]
    kinds = sorted(set(keys))
    place = {key: g for g, key in enumerate(kinds)}
    codes = np.array([place[key] for key in keys])
    plain = [key[2] for key in kinds]
    names = [  # texts that look like another group's number or boolean are quoted
        f"'{name}'" if key[0] == 3 and plain.count(name) > 1 else name
        for key, name in zip(kinds, plain, strict=True)
    ]
    if not 2 <= len(names) <= len(style.OUTPUTS):
        raise InputError(
            f"groups: got {len(names):,} different groups; pass 2 to {len(style.OUTPUTS)}."
        )
    return names, codes


def _key(one: Any) -> tuple[int, float, str]:
    """Sort key of a group, whose last entry is its name.

    Booleans come first, then numbers, values with a left end (pandas intervals), and texts.
    """
    if isinstance(one, bool | np.bool_):
        return 0, float(one), str(bool(one))
    if isinstance(one, int | float | np.integer | np.floating) and one == one:
        return 1, float(one), str(one).removesuffix(".0")
    left = getattr(one, "left", None)
    if isinstance(left, int | float | np.integer | np.floating):
        return 2, float(left), str(one)
    return 3, 0.0, str(one)


def _mean(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean [P] and half its 95 % interval [P] over the instances, NaN of a single one."""
    n = len(values)
    if n < 2:
        return values[0], np.full(values.shape[1], np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(n)
    return values.mean(axis=0), half_widths(error, n - 1)
