"""Sampled values of one instance over the budget, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.core.public import public
from xaijax.plots import style
from xaijax.results.comparison import Comparison
from xaijax.results.explanation import Explanation
from xaijax.results.judgement import Judgement, Judgements
from xaijax.results.same_question import refuse_other_numbers
from xaijax.results.selection import resolve
from xaijax.results.summary import ranking

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@public
def convergence(
    explanations: Sequence[Explanation],
    ax: Axes | None = None,
    *,
    instance: int | str | None = None,
    max_display: int = 5,
    output: int | str | None = None,
) -> Axes:
    """Draws one line per player: its value at each budget, with a band of 95 % intervals.

    If bands still move or are wide, the budget is too small for the use of the values. The band is
    interrupted if a standard error is unknown, and the axis says for how many. A dashed line is the
    exact value, if one of the explanations is exact. Each interval is for one value at one budget.

    Args:
        explanations: explanations of the same question, instances and players at different budgets,
            at least 2 sampled ones, in any order; the budget is `stats["budget"]`. One may be
            exact.
        {ax}
        {instance}
        {max_players}
            At most 7. They are those of the largest |value|, exact or at the largest budget.
        {output}

    {axes}
        InputError: there is no budget, or budgets are equal, or players or questions differ
            (another index, quantity, link or output).

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> few, many = (
        ...     xj.Explanation(np.array([[v]]), np.zeros(1), np.array([[e]]), exact=False,
        ...                    stats={"budget": budget})
        ...     for v, e, budget in ((1.2, 0.5, 100), (1.0, 0.1, 1000))
        ... )
        >>> axes = xj.plots.convergence([few, many])
        >>> axes.lines[0].get_xydata().tolist()
        [[100.0, 1.2], [1000.0, 1.0]]
    """
    plot = "convergence"
    checked = [style.checked(run, output, plot, max_display) for run in _checked(explanations)]
    checked = [style.chosen_instance(run, instance, plot) for run in checked]
    names = checked[0].feature_names
    if any(run.feature_names != names for run in checked):
        raise InputError("explanations: their players differ; pass those of the same players.")
    for run in checked[1:]:
        _refuse_another(checked[0], run)
    exact = [run for run in checked if run.exact]
    sampled = sorted((run for run in checked if not run.exact), key=_budget)
    budgets = np.array([_budget(run) for run in sampled])
    if len(sampled) < 2 or len(exact) > 1 or len(np.unique(budgets)) < len(budgets):
        raise InputError(
            f"explanations: got budgets {budgets.tolist()} and {len(exact)} exact; pass sampled "
            "ones of 2 different budgets at least, and one exact one at most."
        )
    if max_display > len(style.OUTPUTS):
        raise InputError(f"max_display: got {max_display}; there are {len(style.OUTPUTS)} colours.")
    last = (exact or sampled[-1:])[0].values[0]
    shown = np.argsort(-np.abs(last), kind="stable")[:max_display]
    shown = shown[np.argsort(-last[shown], kind="stable")]  # the legend is in the lines' order
    values = np.stack([run.values[0] for run in sampled])[:, shown]  # [budgets, rows]
    half = np.stack([run.half_widths()[0] for run in sampled])[:, shown]

    axes = style.new_axes(ax, 9, width=8.6)
    for row, name in enumerate(style.shorten([names[j] for j in shown], 24)):
        colour, y, width = style.OUTPUTS[row], values[:, row], half[:, row]
        axes.plot(budgets, y, "o-", color=colour, markersize=4, linewidth=1.2, label=name)
        axes.fill_between(budgets, y - width, y + width, color=colour, alpha=0.18, linewidth=0)
        if exact:
            axes.axhline(last[shown[row]], color=colour, linewidth=1, linestyle="--")
    axes.set_xscale("log")
    axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets], minor=False)
    axes.set_xticks([], minor=True)
    style.legend(axes)
    note = style.intervals(sampled[0], half).replace("lines", "bands") if half.any() else ""
    note += "; dashed: exact" if exact else ""
    if len(names) > len(shown):
        note += f"\n{len(names) - len(shown)} players of smaller values are not shown"
    style.plain(axes, f"budget: coalitions of the instance{note}", style.value_name(checked[0]))
    style.write_title(axes, style.title_of_one(checked[0]))
    return axes


def _checked(explanations: Any) -> list[Any]:
    if isinstance(explanations, Explanation) or not isinstance(explanations, Sequence):
        raise InputTypeError(
            f"explanations: got {type(explanations).__name__}; pass a list of explanations."
        )
    if not len(explanations):
        raise InputError("explanations: got none; pass those of 2 different budgets at least.")
    return list(explanations)


def _refuse_another(first: Explanation, second: Explanation) -> None:
    """Raises unless both answer one question: the same row, model and background, if known."""
    for field, what in (("rows", "backgrounds"), ("model", "models")):
        a, b = (getattr(each.fingerprint, field) for each in (first, second))
        if a and b and a != b:
            raise InputError(f"explanations: their {what} differ; pass those of one question.")
    if first.kind != second.kind:
        raise InputError(
            f"explanations: got the indices {first.kind!r} and {second.kind!r}; pass those of one "
            "question."
        )
    called = "explanations: the first", "another"
    refuse_other_numbers(first, second, called, paired=True)
    for column, other in zip(first.player_data(), second.player_data(), strict=True):
        if column is not None and other is not None and not np.array_equal(column, other):
            raise InputError("explanations: their instances differ; pass those of the same row.")


def _budget(explanation: Explanation) -> int:
    budget = explanation.stats.get("budget")
    if isinstance(budget, bool) or not isinstance(budget, int | np.integer) or budget < 1:
        raise InputError(
            f"explanations: one has the budget {budget!r}; pass those of Explainer(budget=...)."
        )
    return int(budget)


@public
def compare(
    comparison: Comparison,
    ax: Axes | None = None,
    *,
    max_display: int = 12,
    of: str = "size",
    output: int | str | None = None,
) -> Axes:
    """Draws one row per player: how far its mean moved, with the interval; 0 is no change.

    Players whose interval does not contain 0 are coloured, orange above and blue below; the others
    are grey. All intervals hold simultaneously. The title names the output that is drawn. The
    players that moved most are shown from the top.

    Args:
        comparison: `Comparison`, from `xaijax.compare`.
        {ax}
        {max_players}
        of: "size": the shift of mean |value|; "value": the shift of the mean value, with its sign.
        {output}

    {axes}

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> a = np.random.default_rng(0).normal(size=(50, 2))
        >>> old, new = (xj.Explanation(v, np.zeros(50)) for v in (a, a + [0.0, 1.0]))
        >>> axes = xj.plots.compare(xj.compare(old, new, paired=True), of="value")
        >>> [label.get_text() for label in axes.get_yticklabels()]
        ['player 1', 'player 0']
    """
    checks.passed(comparison, "comparison", Comparison, "what xaijax.compare returned")
    max_display = checks.whole_number(max_display, "max_display")
    checks.one_of(of, "of", ("size", "value"))
    start = "size_" if of == "size" else ""
    shift, low, high = (getattr(comparison, start + name) for name in ("shift", "low", "high"))
    chosen = None
    if comparison.output_names is not None:
        names, k = comparison.output_names, None
        known = output in names if isinstance(output, str) else isinstance(output, int | np.integer)
        if known and not isinstance(output, bool):
            k = resolve(output, len(names), names, "output")[1]
        if k is None:
            raise InputError(
                f"output: got {output!r}; there are {len(names)}: {', '.join(names[:6])}."
            )
        shift, low, high = (array[:, k] for array in (shift, low, high))
        chosen = style.elide(names[k])
    elif output is not None:
        raise InputError(f"output: got {output!r}, but there is one output; leave output out.")
    shown = ranking(np.abs(shift))[:max_display]
    axes = style.new_axes(ax, len(shown))
    axes.axvline(0, color=style.faint(), linewidth=1)
    for row, j in enumerate(shown):
        colour = style.UP if low[j] > 0 else style.DOWN if high[j] < 0 else style.GREY
        axes.plot([low[j], high[j]], [row, row], color=colour, linewidth=2)
        axes.plot([shift[j]], [row], "o", color=colour, markersize=5)
    what = "mean |value|" if of == "size" else "mean value"
    label = f"shift of {what}; lines hold together at {100 * comparison.confidence:.3g} %"
    names = [comparison.feature_names[j] for j in shown]
    title = style.title_of_facts(comparison.provenance, chosen)
    parts = [title, "paired instances" if comparison.paired else None]
    style.dress(axes, names, label, ", ".join(filter(None, parts)) or None)
    return axes


@public
def faithfulness(
    judged: Judgement | Judgements, ax: Axes | None = None, *, which: str = "insertion"
) -> Axes:
    """Draws the model's mean answer as players are inserted or deleted, largest value first.

    The higher an insertion curve and the lower a deletion curve, the better an attribution
    identifies the players that move the answer up. The legend gives the area under each curve, with
    its standard error over the instances. With several outputs the mean is drawn.

    Args:
        judged: the result of `xaijax.judge(..., curves=True)`.
        {ax}
        which: "insertion" or "deletion".

    {axes}
        InputError: there are no curves.

    Example:
        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.array([[1.0, 2.0], [3.0, 1.0]])
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] + X[:, 1]), np.zeros((1, 2)))
        >>> judged = xj.judge({"right": X, "turned": -X}, explainer, X, curves=True)
        >>> len(xj.plots.faithfulness(judged).lines)
        2
    """
    if isinstance(judged, Judgement):
        judged = Judgements({judged.name: judged})
    checks.passed(judged, "judged", Judgements, "what xaijax.judge returned")
    checks.one_of(which, "which", ("insertion", "deletion"))
    axes = style.new_axes(ax, 8)
    names = style.shorten(list(judged))
    for place, (name, judgement) in enumerate(zip(names, judged.values(), strict=True)):
        if (curves := judgement.curves) is None:
            raise InputError("judged: it has no curves. Say xaijax.judge(..., curves=True).")
        curve = (getattr(curves, which) - curves.insertion[:, :1]).mean(axis=(0, 2))
        area, error = curves.area(which)
        colour = style.OUTPUTS[place % len(style.OUTPUTS)]
        label = f"{name}: {style.number(area)} ± {style.number(error, 1)}"
        axes.plot(np.arange(len(curve)), curve, color=colour, label=label)
    state = "kept" if which == "insertion" else "replaced"
    axes.set_xlabel(f"players {state}, largest value first", color=style.ink(), fontsize=9.5)
    ticker = require("matplotlib.ticker", "xaijax[plots]")
    axes.xaxis.set_major_locator(ticker.MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    axes.set_ylabel("v minus its base value", color=style.ink(), fontsize=9.5)
    style.head(axes, f"{which}: area ± standard error", 10.5)
    style.legend(axes)
    return axes
