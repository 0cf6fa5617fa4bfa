"""All instances side by side: a column each, coloured by the values of the players."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.plots import pixels, style
from xaijax.results.explanation import Explanation
from xaijax.results.summary import mean_abs

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 1_000  # instances: more columns are thinner than a pixel
STRIP = 3.0  # rows that the line of answers takes above


@public
def heatmap(
    explanation: Explanation,
    ax: Axes | None = None,
    *,
    order: str = "similarity",
    max_display: int = 12,
    output: int | str | None = None,
    limit: float | None = None,
) -> Axes:
    """Draws one column per instance and one row per player; the colour is the value.

    Instances with similar values are next to each other, so groups of people who are judged for the
    same reasons appear as blocks. A line above shows the base value plus all values of each
    instance, if that sum is meaningful. The `max_display` players of the largest mean |value| over
    all instances are shown. If there are more than 1,000 instances, 1,000 at even distances are
    drawn, and the axis says so. It also says how wide the widest 95 % interval of sampled values
    is.

    Args:
        explanation: `Explanation` of at least one instance, values [N, P], or [N, P, K] with
            `output`.
        {ax}
        order: "similarity": by hierarchical clustering (average linkage of Euclidean distances
            between the values); "output": by base value plus all values; "given": as they are.
        {max_players}
        {output}
        {limit}

    {axes}

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> values = np.array([[3.0, 1.0], [-3.0, 0.0], [2.9, 1.0]])
        >>> explanation = xj.Explanation(values, np.zeros(3))
        >>> axes = xj.plots.heatmap(explanation, order="output")
        >>> axes.images[0].get_array().tolist()
        [[-3.0, 2.9, 3.0], [0.0, 1.0, 1.0]]
    """
    explanation = style.checked(explanation, output, "heatmap", max_display)
    checks.one_of(order, "order", ("similarity", "output", "given"))
    total = len(explanation)
    shown, others = style.split(mean_abs(explanation), max_display)  # of all instances
    widest = style.widest(explanation)
    explanation = style.at_most(explanation, MOST)
    answers = explanation.base_values + explanation.values.sum(axis=1)
    places = _places(explanation.values, answers, order)
    values = explanation.values[places][:, shown].T  # [rows, N]
    limit = pixels.limit_of(limit, values)

    axes = style.new_axes(ax, len(shown) + STRIP, width=8.6)
    picture = axes.imshow(
        values, cmap=pixels.colour_map(None), vmin=-limit, vmax=limit, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    count = f"{len(places):,} of {total:,}" if total > MOST else f"{total:,}"
    how = {
        "similarity": "similar ones next to each other",
        "output": "by base value + values",
        "given": "as given",
    }
    xlabel = f"{count} instance{'s' if total > 1 else ''}, {how[order]}{style.not_shown(others)}"
    xlabel += widest
    names = [explanation.feature_names[j] for j in shown]
    style.dress(axes, names, xlabel, style.title_of(explanation))
    axes.grid(visible=False)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xticks([])
    style.colour_bar(
        axes, picture, style.value_name(explanation), fraction=0.05, pad=0.02, aspect=30
    )
    if style.named(explanation.kind).steps:
        _strip(axes, answers[places])
    return axes


def _places(values: np.ndarray, answers: np.ndarray, order: str) -> np.ndarray:
    """The positions of the instances from left to right."""
    if order == "given" or len(values) < 3:
        return np.arange(len(values))
    if order == "output":
        return np.argsort(answers, kind="stable")
    # `import xaijax` loads no scipy
    from scipy.cluster.hierarchy import leaves_list, linkage  # noqa: PLC0415

    return leaves_list(linkage(values, "average"))


def _strip(axes: Axes, answers: np.ndarray) -> None:
    """Draws base value plus all values as a line over the columns, above the rows of players."""
    low, high = float(answers.min()), float(answers.max())
    top, bottom = -STRIP - 0.1, -0.9  # rows
    level = (answers - low) / ((high - low) or 1.0)
    edges = np.arange(len(answers) + 1) - 0.5
    axes.stairs(bottom + level * (top - bottom), edges, color=style.ink(), lw=1, baseline=None)
    for row, answer in ((bottom, low), (top, high)) if high > low else ((bottom, low),):
        style.write_at(axes, -0.5, row, style.number(answer), -4, 8)
    style.note(axes, -0.5, (top + bottom) / 2, "base + values  ", ha="right", fontsize=None)
    axes.set_ylim(axes.get_ylim()[0], -STRIP - 0.5)


NUMBERED = 12  # columns up to which the cells have room for their numbers
NAMED = 30  # names on an axis; with more columns cells get smaller, the picture does not grow


def named_each(F: int) -> int:
    """Returns 1 if every column's name is drawn, 2 if every second one is, and so on."""
    return -(-F // NAMED)


@public
def correlation(explanation: Explanation, ax: Axes | None = None, colorbar: bool = True) -> Axes:
    """Draws a heatmap of the correlation matrix, from -1 (blue) over 0 (white) to 1 (orange).

    Up to 12 columns, each cell shows its number. Beyond 30 columns the picture does not grow
    further, and only every second, third, ... name is shown. Constant columns have correlation 0.

    Args:
        explanation: `explanation_` of a fitted `xaijax.AEC`.
        {ax}
        {colorbar}

    {axes}

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 4.0], [4.0, 3.0]])
        >>> aec = xj.AEC().fit(X, y=X[:, 0])
        >>> axes = xj.plots.correlation(aec.explanation_)
        >>> [cell.get_text() for cell in axes.texts]
        ['1.00', '0.60', '0.60', '1.00']
    """
    checks.yes_or_no(colorbar, "colorbar")
    style.check(explanation)
    matrix, names = explanation.stats.get("correlation"), explanation.provenance.get("columns")
    if matrix is None or names is None:
        raise InputError(
            f"explanation of kind {explanation.kind!r} holds no correlations; pass explanation_ of "
            "a fitted AEC."
        )
    F = len(names)
    places = range(0, F, named_each(F))
    shown = style.shorten([names[j] for j in places])
    scale = style.scale(style.DOWN, "#ffffff", style.UP)
    texts = _two_digits if F <= NUMBERED else None
    axes, image = style.cells(ax, matrix, scale, (-1, 1), shown, places, min(F, NAMED), texts, 7)
    if colorbar:
        style.colour_bar(axes, image, "correlation")
    return axes


def _two_digits(value: float) -> str:
    return f"{round(float(value), 2) + 0.0:.2f}".replace("-", "−")
