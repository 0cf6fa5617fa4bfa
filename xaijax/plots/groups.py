"""Compares groups of instances: the mean values of players, and how far they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.core.sequences import half_widths
from xaijax.plots import style
from xaijax.results.explanation import Explanation
from xaijax.results.same_question import refuse_other_numbers

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
    """Draws one dot for each player and group: the mean value over the group's instances.

    A player's disparity is its largest mean minus its smallest, shown at the right end of its row.
    The players with the largest disparities are shown from the top. With two groups, and values
    that add up to answers minus one base value, the differences of all players add up to the
    difference of the groups' mean answers. A line through a dot is the 95 % interval of the mean,
    as if the group's instances were drawn at random from many (Student's t); a group of one has
    none.

    Args:
        explanation: `Explanation`, values [N, P], or [N, P, K] with `output`.
        groups: [N], the group of each instance, 2 to 7 different ones: texts, numbers or booleans.
            Numbers are sorted, before texts; 1 and "1" are two groups.
        {shown}

    {axes}

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
    explanation = style.checked(explanation, output, "groups", max_display)
    names, codes = _groups(groups, len(explanation))
    each = [_mean(explanation.values[codes == g]) for g in range(len(names))]
    means, half = (np.stack(part) for part in zip(*each, strict=True))  # [groups, P] each
    disparity = np.ptp(means, axis=0)
    shown, others = style.split(disparity, max_display)

    sizes = np.bincount(codes)
    labels = zip(style.shorten(names, 20), sizes, strict=True)
    labels = [f"{name} ({size:,})" for name, size in labels]
    axes = style.dot_rows(ax, means[:, shown], half[:, shown], labels)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high + 0.16 * (high - low))
    for row, j in enumerate(shown):
        style.write_at(axes, high, row, style.number(float(disparity[j])))
    xlabel = f"mean {style.value_name(explanation)} of a group; right: disparity"
    if np.isfinite(half).any():
        xlabel += "; lines: 95 % intervals"
    title = style.title_of(explanation)
    style.dress(
        axes, [explanation.feature_names[j] for j in shown], xlabel + style.not_shown(others), title
    )
    return axes


def _groups(groups: Any, N: int) -> tuple[list[str], np.ndarray]:
    """The names of the groups, and the position of each instance's group [N]."""
    labels = checks.listed(groups, "groups", "the group of each instance")
    if len(labels) != N:
        raise InputError(f"groups: got {len(labels):,} for {N:,} instances; pass one for each.")
    keys = [_key(label) for label in labels]
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


def _key(group: Any) -> tuple[int, float, str]:
    """The sort key of a group; its last entry is the name.

    Booleans come first, then numbers, values with a left end (pandas intervals), and texts.
    """
    if isinstance(group, bool | np.bool_):
        return 0, float(group), str(bool(group))
    if isinstance(group, int | float | np.integer | np.floating) and group == group:
        return 1, float(group), str(group).removesuffix(".0")
    left = getattr(group, "left", None)
    if isinstance(left, int | float | np.integer | np.floating):
        return 2, float(left), str(group)
    return 3, 0.0, str(group)


def _mean(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean [P] and half its 95 % interval [P] over the instances, NaN for a single one."""
    n = len(values)
    if n < 2:
        return values[0], np.full(values.shape[1], np.nan)
    error = values.std(axis=0, ddof=1) / np.sqrt(n)
    return values.mean(axis=0), half_widths(error, n - 1)


@public
def methods(
    explanations: Mapping[str, Explanation],
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    relative: bool = False,
    output: int | str | None = None,
) -> Axes:
    """Draws one dot for each player and explanation: the mean of |value| over its instances.

    Explanations of one instance each are drawn by their signed values. A grey line joins the dots
    of a player: if it is long, the explanations disagree. The players of the largest mean size,
    over all explanations, are shown from the top. If standard errors are known, a line through a
    dot is a 95 % interval: its half-width is the mean over the instances, which bounds the error of
    the mean. Use `xaijax.compare` to test what changed between two explanations, and `xaijax.judge`
    to find out which is right. All must explain the same quantity, link, output and class.

    Args:
        explanations: dict of 2 to 7 explanations by name, with players of the same names in any
            order; values [N, P], or [N, P, K] with `output`.
        {ax}
        {max_players}
        relative: bool. Whether to divide each explanation's numbers by the sum of their sizes over
            all players, for methods whose units differ.
        {output}

    {axes}
        InputError: players, quantities, links or outputs differ.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> tree, net = (xj.Explanation(np.array([v]), np.zeros(1)) for v in ([3.0, 1], [2.0, -1]))
        >>> axes = xj.plots.methods({"tree": tree, "network": net})
        >>> [line.get_xdata().tolist() for line in axes.lines[1:]]
        [[3.0, 1.0], [2.0, -1.0]]
    """
    checked = by_name(explanations, max_display, output, "methods")
    checks.yes_or_no(relative, "relative")
    first = next(iter(checked.values()))
    names = first.feature_names
    alone = all(len(explanation) == 1 for explanation in checked.values())
    each = [sizes_of(explanation, names, alone) for explanation in checked.values()]
    sizes, halves = (np.stack(part) for part in zip(*each, strict=True))  # [explanations, P] each
    if relative:
        total = np.abs(sizes).sum(axis=1, keepdims=True)
        total[total == 0] = 1.0
        sizes, halves = sizes / total, halves / total
    shown, others = style.split(np.abs(sizes).mean(axis=0), max_display)

    labels = style.shorten(list(checked), 20)
    axes = style.dot_rows(ax, sizes[:, shown], halves[:, shown], labels)
    kinds = {style.value_name(explanation) for explanation in checked.values()}
    what = kinds.pop() if len(kinds) == 1 else "value"
    xlabel = what if alone else f"mean |{what}|"
    xlabel += ", share of each explanation's sum" if relative else ""
    if any(style.half_widths(explanation) is not None for explanation in checked.values()):
        xlabel += style.intervals(first, halves[:, shown])
    titles = {style.title_of(explanation) for explanation in checked.values()}
    title = titles.pop() if len(titles) == 1 else None
    style.dress(axes, [names[j] for j in shown], xlabel + style.not_shown(others), title)
    return axes


def by_name(explanations: Any, max_display: Any, output: Any, plot: str) -> dict[str, Explanation]:
    """The explanations of a dict, each of one output, by name."""
    checks.passed(explanations, "explanations", Mapping, "a dict of explanations by name")
    if not 2 <= len(explanations) <= len(style.OUTPUTS):
        raise InputError(
            f"explanations: got {len(explanations)}; pass 2 to {len(style.OUTPUTS)} of them."
        )
    checked = {}
    for name, explanation in explanations.items():
        style.check(explanation, max_display)
        chosen = None if explanation.output_names is None else output
        checked[str(name)] = style.one_output(explanation, chosen, plot)
    names = set(next(iter(checked.values())).feature_names)
    for name, explanation in checked.items():
        if set(explanation.feature_names) != names:
            odd = sorted(names ^ set(explanation.feature_names))[:3]
            raise InputError(
                f"explanations: {name!r} has other players, {odd} say; pass those of the same ones."
            )
    first = next(iter(checked))
    for name, explanation in checked.items():
        called = f"explanations: {first!r}", repr(name)
        refuse_other_numbers(checked[first], explanation, called)
    if output is not None and all(a.output_names is None for a in explanations.values()):
        raise InputError(f"output: got {output!r}, but each has one output; leave output out.")
    return checked


def sizes_of(
    explanation: Explanation, names: tuple[str, ...], alone: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The number drawn for each player [P], and half its interval [P], 0 if exact."""
    places = {name: p for p, name in enumerate(explanation.feature_names)}
    order = [places[name] for name in names]
    values = explanation.values[0] if alone else np.abs(explanation.values).mean(axis=0)
    half = style.half_widths(explanation)
    half = np.zeros(len(order)) if half is None else half.mean(axis=0)
    return values[order], half[order]
