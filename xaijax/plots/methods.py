"""The same players by several explanations: of several methods, or of several models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.plots.names import shorten
from xaijax.results.explanation import Explanation
from xaijax.results.same_question import refuse_other_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def methods(
    explanations: Mapping[str, Explanation],
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    relative: bool = False,
    output: int | str | None = None,
) -> Axes:
    """One dot for each player and explanation: the mean of |value| over its instances.

    Explanations of one instance each are drawn by their values, with the sign. A grey line joins
    the dots of a player: where it is long, the explanations do not agree. The players of the
    largest mean size, over all explanations, are shown from the top. If standard errors are known,
    a line through a dot is a 95 % interval: its half-width is the mean over the instances, which
    bounds the error of the mean. What changed between two explanations, with a test, is
    `xaijax.compare`; which of them is right is `xaijax.judge`. All must be amounts of one thing: of
    the same quantity, link, output and class.

    Args:
        explanations: 2 to 7 of them by their names, of players of the same names in any order;
            values [N, P], or [N, P, K] with `output`.
        ax: matplotlib `Axes` to draw on. None makes a figure.
        max_display: int, at least 1. Players shown.
        relative: bool. Whether to divide each explanation's numbers by the sum of their sizes over
            all players, for methods whose units differ.
        output: name or position of one output, for those that have several.

    Returns:
        The `Axes`.

    Raises:
        InputError, InputTypeError: an argument that is not accepted; other players, quantities,
            links or outputs.
        ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).

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
    found = _checked(explanations, max_display, output)
    checks.yes_or_no(relative, "relative")
    first = next(iter(found.values()))
    names = first.feature_names
    alone = all(len(one) == 1 for one in found.values())
    each = [_of(one, names, alone) for one in found.values()]
    sizes, halves = (np.stack(part) for part in zip(*each, strict=True))  # [explanations, P] each
    if relative:
        total = np.abs(sizes).sum(axis=1, keepdims=True)
        total[total == 0] = 1.0
        sizes, halves = sizes / total, halves / total
    shown, others = style.split(np.abs(sizes).mean(axis=0), max_display)

    axes = style.new_axes(ax, 1.25 * len(shown), 8.6)
    place = np.arange(len(shown))
    axes.axvline(0, color=style.GREY, linewidth=0.8, zorder=1)
    low, high = sizes[:, shown].min(axis=0), sizes[:, shown].max(axis=0)
    axes.hlines(place, low, high, colors=style.faint(), linewidth=4)
    apart = min(0.16, 0.6 / len(found))
    for k, name in enumerate(shorten(list(found), 20)):
        rows = place + apart * (k - (len(found) - 1) / 2)
        style.dots(axes, sizes[k, shown], rows, halves[k, shown], style.OUTPUTS[k], name)
    style.legend(axes)
    kinds = {style.value_name(one) for one in found.values()}
    what = kinds.pop() if len(kinds) == 1 else "value"
    xlabel = what if alone else f"mean |{what}|"
    xlabel += ", share of each explanation's sum" if relative else ""
    if any(style.half_widths(one) is not None for one in found.values()):
        xlabel += style.intervals(first, halves[:, shown])
    titles = {style.title_of(one) for one in found.values()}
    title = titles.pop() if len(titles) == 1 else None
    style.dress(axes, [names[j] for j in shown], xlabel + style.not_shown(others), title)
    return axes


def _checked(explanations: Any, max_display: Any, output: Any) -> dict[str, Explanation]:
    """Each of one output, by its name."""
    if not isinstance(explanations, Mapping):
        raise InputTypeError(
            f"explanations: got {type(explanations).__name__}; pass a dict of explanations by name."
        )
    if not 2 <= len(explanations) <= len(style.OUTPUTS):
        raise InputError(
            f"explanations: got {len(explanations)}; pass 2 to {len(style.OUTPUTS)} of them."
        )
    found = {}
    for name, one in explanations.items():
        style.check(one, max_display)
        chosen = None if one.output_names is None else output
        found[str(name)] = style.one_output(one, chosen, "methods")
    names = set(next(iter(found.values())).feature_names)
    for name, one in found.items():
        if set(one.feature_names) != names:
            odd = sorted(names ^ set(one.feature_names))[:3]
            raise InputError(
                f"explanations: {name!r} has other players, {odd} say; pass explanations of the "
                "same players."
            )
    first = next(iter(found))
    for name, one in found.items():
        called = f"explanations: {first!r}", repr(name)
        refuse_other_numbers(found[first], one, called)
    if output is not None and all(one.output_names is None for one in explanations.values()):
        raise InputError(f"output: got {output!r}, but each has one output; leave output out.")
    return found


def _of(one: Explanation, names: tuple[str, ...], alone: bool) -> tuple[np.ndarray, np.ndarray]:
    """What is drawn of each player [P], and half its interval [P], 0 where exact."""
    places = {name: p for p, name in enumerate(one.feature_names)}
    order = [places[name] for name in names]
    values = one.values[0] if alone else np.abs(one.values).mean(axis=0)
    half = style.half_widths(one)
    half = np.zeros(len(order)) if half is None else half.mean(axis=0)
    return values[order], half[order]
