"""One plain HTML page that shows what changed between two explanations."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.public import public
from xaijax.core.typing import ModelLike
from xaijax.plots.convergence import compare
from xaijax.plots.style import figure_size
from xaijax.reports import page
from xaijax.reports.page import cell, lines, model_name
from xaijax.results.comparison import Comparison, ShiftPart, changes_of, moved_of
from xaijax.results.describe_question import meaning
from xaijax.results.summary import ranking

ROWS = 100  # instances
SHOWN = 12  # players in the pictures


@public
def comparison_report(
    comparison: Comparison,
    path: str | os.PathLike[str],
    model: ModelLike | str | None = None,
    *,
    title: str | None = None,
) -> Path:
    """Writes one HTML page that shows a comparison and says how certain it is.

    The page contains the shifts of all players with their intervals, a picture of them, the parts
    of the data and of the model if the comparison has them, and the instances that changed most, by
    position. It loads nothing from elsewhere and shows no data. With several outputs the last is
    shown, and the page says so.

    Args:
        comparison: `Comparison`, from `xaijax.compare`.
        path: the file to write; an existing file is replaced.
        model: the explained model, for the head of the page: a name, or a `Model` from `as_model`.
        title: the page's title, a text. None: a title that says what the page shows.

    {page}

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> a = np.random.default_rng(0).normal(size=(50, 2))
        >>> old, new = (xj.Explanation(v, np.zeros(50)) for v in (a, a + [0.0, 1.0]))
        >>> compared = xj.compare(old, new, paired=True)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     xj.comparison_report(compared, f"{folder}/page.html").name
        'page.html'
    """
    checks.passed(comparison, "comparison", Comparison, "what xaijax.compare returned")
    heading = page.heading(path, title)
    content = _content(comparison, model_name(model)) | heading
    return page.write(path, "comparison.html.j2", content)


def _content(comparison: Comparison, model: str | None) -> dict[str, Any]:
    N, M = comparison.instances
    level = f"{100 * comparison.confidence:.3g} %"
    lead = f"{N:,} instances, the same on both sides"
    lead = lead if comparison.paired else f"{N:,} and {M:,} instances"
    lead += f"; {comparison.kind} values. All intervals of a table hold together at {level}."
    names = comparison.output_names
    if names is not None:
        lead += f" Tables and pictures are of the output {names[-1]!r}, one of {len(names)}."
    elif comparison.provenance.get("selected_output") is not None:
        lead += f" They are of the output {comparison.provenance['selected_output']!r}."
    output = None if names is None else -1
    pictures = []
    for of, what in (("size", "mean |value|"), ("value", "mean value")):
        size = figure_size(min(SHOWN, len(comparison.feature_names)))
        draw = partial(compare, comparison, max_display=SHOWN, of=of, output=output)
        caption = f"Shifts of the {what}. Grey: 0 is inside of the interval."
        alt = f"compare plot: {caption}"
        pictures.append(page.picture(f"Shift of the {what}", size, draw, caption, alt))
    of = "" if model is None else f" of {model}"
    value = f"{meaning(comparison.kind, {})}. A shift is the second minus the first"
    return {
        "title": f"What changed between two explanations{of}",
        "about": lines(model, "that of the two explanations", value),
        "lead": lead,
        "changed": _changed(comparison),
        "tables": _tables(comparison),
        "pictures": pictures,
    }


def _changed(comparison: Comparison) -> str:
    """The players that changed, in the output of the tables and in the others."""
    names = comparison.output_names
    if names is None:
        who = ", ".join(comparison.changed)
        return f"Changed: {who}." if who else "No player's change can be told from chance."
    moved, last = np.flatnonzero(moved_of(comparison)[:, -1]), f"the output {names[-1]!r}"
    who = ", ".join(comparison.feature_names[j] for j in moved)
    text = f"Changed in {last}: {who}."
    if not who:
        text = f"No player's change in {last} can be told from chance."
    others = ", ".join(changes_of(comparison, names[:-1]))
    return f"{text} Changed in other outputs: {others}." if others else text


def _tables(comparison: Comparison) -> list[dict[str, Any]]:
    size = ShiftPart(comparison.size_shift, comparison.size_low, comparison.size_high)
    value = ShiftPart(comparison.shift, comparison.low, comparison.high)
    tables = [_of_players(comparison, "Players", {"mean |value|": size, "mean value": value})]
    if (split := comparison.split) is not None:
        parts = {"of the data": split.size_data, "of the model": split.size_model}
        tables.append(_of_players(comparison, "Shift of mean |value|: what did it", parts))
    if comparison.rows is not None and comparison.row_shift is not None:
        shown = comparison.rows[:ROWS]
        rows = [
            [cell(f"instance {n:,}", head=True), cell(f"{comparison.row_shift[n]:.4g}", True)]
            for n in shown
        ]
        left = len(comparison.rows) - len(shown)
        over = "" if comparison.output_names is None else ", of all outputs"
        note = f"The root of the sum of the squared differences of its values{over}."
        note += f" {left:,} instances that changed less are left out." if left else ""
        heads = [cell("position"), cell("values moved by", True)]
        tables.append(page.table("Instances that changed most", heads, rows, note=note))
    return tables


def _of_players(comparison: Comparison, title: str, parts: dict[str, ShiftPart]) -> dict[str, Any]:
    last = () if comparison.output_names is None else (-1,)
    first, rows = next(iter(parts.values())), []
    for j in ranking(np.abs(first.shift[:, *last])):
        row = [cell(comparison.feature_names[j], head=True)]
        for part in parts.values():
            shift, low, high = (x[j, *last] for x in (part.shift, part.low, part.high))
            row += [cell(f"{shift:+.4g}", True), cell(f"{low:.4g} to {high:.4g}", True)]
        rows.append(row)
    heads = [cell("player")]
    heads += [cell(text, True) for name in parts for text in (name, f"interval, {name}")]
    return page.table(title, heads, rows)
