"""One plain HTML page that shows an Explanation and how it was made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import count
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.core.typing import ModelLike
from xaijax.plots import bar, beeswarm, network, pairs, style, waterfall
from xaijax.plots import interactions as heatmap
from xaijax.plots.interactions import of_pairs
from xaijax.reports import page
from xaijax.reports.page import about, cell, model_name
from xaijax.results.describe_question import counted_outputs
from xaijax.results.explanation import Explanation
from xaijax.results.interactions import Interactions, value_name
from xaijax.results.same_question import of_the_same, output_of
from xaijax.results.summary import how_sure, mean_abs, ranking
from xaijax.results.wording import named, to_the_right

ROWS = {bar: 12, beeswarm: 12, waterfall: 10}  # players in each picture


@public
def report(
    explanation: Explanation,
    path: str | os.PathLike[str],
    interactions: Interactions | None = None,
    model: ModelLike | str | None = None,
    instances: int = 200,
    *,
    title: str | None = None,
) -> Path:
    """Writes one HTML page that shows an explanation and says how it was made.

    The page contains the question, all players by mean |value| in a table to sort and to search,
    the first instances one at a time, a beeswarm, a bar plot, a waterfall of the first instance (if
    its values add up), and the stats and the provenance as tables. With K outputs the tables and
    the pictures show the last output, except for the bar plot, which shows all; the page says so.
    It loads nothing from elsewhere, and all of it can be read without scripts.

    It writes out the data of the first instance (if there is a waterfall), and names and values of
    the first `instances`. In the beeswarm it shows every instance's values, coloured by its own
    data from low to high: be careful whom you send it to.

    Args:
        explanation: an `Explanation` with values [N, P] or [N, P, K], finite, N at least 1. Use
            `collinearity_report` for one of an `AEC`.
        path: the file to write; an existing file is replaced.
        interactions: `Interactions` of the same players, instances, model and background, or None.
            They add a section: players and feature pairs as a heatmap, a network, and the largest
            interactions as bars, for the output of the other pictures.
        model: the model's name for the head of the page, or a `Model` from `as_model`, which has
            one. None: "not named", since an explanation holds no model.
        instances: int. The number of first instances whose names and values can be viewed; 0: none.
            At most 500 are shown, and the page says how many are left out.
        title: the page's title, a text. None: a title that says what the page shows.

    {page}
        InputError: interactions have no feature pairs, or differ from the explanation in players,
            output, instances, data, background, model or another recorded fact; there is nothing to
            draw; values are not finite; or they are the effects of an AEC.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.array([[1.0, 2.0], [2.0, 1.0]])
        >>> explanation = xj.Explainer(xj.as_model(lambda X: X[:, 0]), X)(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     xj.report(explanation, f"{folder}/page.html").name
        'page.html'
    """
    if isinstance(explanation, Interactions):
        raise InputTypeError(
            "explanation: got Interactions. Say xaijax.report(explainer(X), path, "
            "interactions=pairs)."
        )
    style.check(explanation, 1)
    heading = page.heading(path, title)
    if explanation.kind == "aec":
        raise InputError(
            "explanation is of an AEC. Say xaijax.collinearity_report(aec, shapley, path)."
        )
    name, most = model_name(model), page.checked(instances)
    content = _content(explanation, name, most) | heading
    if interactions is not None:
        content["pictures"] += list(_pairs(explanation, interactions))
    return page.write(path, "report.html.j2", content)


def _pairs(explanation: Explanation, result: Interactions) -> Iterator[dict[str, Any]]:
    """The section of interactions."""
    checks.passed(result, "interactions", Interactions, "what explainer.interactions(X) returned")
    drawn = of_pairs(of_the_same(explanation, result), 1, None, "report")
    output = output_of(drawn)
    what = f"{value_name(drawn)} (index {drawn.index!r}), order {drawn.order}"
    what += "" if output is None else f", output {output}"
    several = len(drawn) > 1
    mean = f", the mean over {len(drawn):,} instances" if several else ""
    P = min(len(drawn.feature_names), 12)
    joined = min(P * (P - 1) // 2, 12)
    for draw, title, caption, size in (
        (heatmap, "Interactions", f"{what}; the players alone on the diagonal.", P + 2),
        (network, "Who acts with whom", f"{what}{mean}: orange above 0, blue below.", 12),
        (pairs, "The largest pairs", f"{what}; sets of two players or more.", joined),
    ):
        alt = f"{draw.__name__} plot: {caption}"
        yield page.picture(title, style.figure_size(size, 6.6), partial(draw, drawn), caption, alt)


def _content(explanation: Explanation, model: str | None, instances: int) -> dict[str, Any]:
    shown, output_note = explanation, None
    if explanation.output_names is not None:
        shown = explanation[:, :, -1]
        output_note = (
            f"The model has {len(explanation.output_names)} outputs; all but the mean sizes is of "
            f"the last, {explanation.output_names[-1]}."
        )
    elif outputs := style.output_of_each(explanation):
        output_note = f"The output that is explained: {counted_outputs(outputs)}."
    facts = explanation.provenance
    # An Explainer is not named as a method: the line below the title says what it made.
    by = "" if facts.get("method") in (None, "Explainer") else f" by {facts['method']}"
    return {
        "title": f"Explanation{by}" + ("" if model is None else f" of {model}"),
        "lead": _lead(explanation),
        "about": about(shown, model),
        "output_note": output_note,
        "players": _players(shown),
        "instances": page.of_explanation(shown, instances),
        "pictures": _pictures(explanation, shown),
        "facts": page.facts((("The run", explanation.stats), ("How it was made", facts))),
    }


def _lead(explanation: Explanation) -> str:
    N, P = explanation.shape[:2]
    name = style.value_name(explanation)
    text = f"{name}s of {count(P, 'player')} for {count(N, 'instance')}"
    if explanation.output_names is not None:
        text += f" and {count(len(explanation.output_names), 'output')}"
    return f"{text}; {how_sure(explanation)}."


def _players(explanation: Explanation) -> dict[str, Any]:
    """The table of all players, from the largest mean |value| down."""
    size, mean = mean_abs(explanation), explanation.values.mean(axis=0)
    heads = [cell("#", True), cell("player"), cell("mean |value|", True), cell("mean value", True)]
    columns = [size, mean]
    if explanation.std_errors is not None:
        heads.append(cell("mean standard error", True))
        columns.append(explanation.std_errors.mean(axis=0))
    rows = []
    for place, j in enumerate(ranking(size), 1):
        numbers = [cell(_number(column[j]), True) for column in columns]
        name = explanation.feature_names[j]
        rows.append([cell(f"{place:,}", True), cell(name, head=True), *numbers])
    return page.table("Players by mean absolute value", heads, rows)


def _number(value: float) -> str:
    return "unknown" if np.isnan(value) else f"{value:.4g}"


def _pictures(explanation: Explanation, shown: Explanation) -> list[dict[str, Any]]:
    first = shown[0]
    name = "the first instance"
    if first.instance_names is not None:
        name += f" ({first.instance_names[0]})"
    every = "" if explanation.output_names is None else ", for all outputs"
    dots = "One dot per instance; to the right: the player raises the output."
    if explanation.provenance.get("method") == "QII":
        dots = f"One dot per instance. {to_the_right(shown)}"
    pictures = [
        _picture(beeswarm, shown, "Every instance", dots),
        _picture(bar, explanation, "Mean size", f"The mean of |value| over the instances{every}."),
    ]
    if named(first.kind).steps:
        steps = f"From the base value, player by player, for {name}."
        pictures.append(_picture(waterfall, first, "One instance", steps))
    return pictures


def _picture(
    draw: Callable[..., Any], explanation: Explanation, title: str, caption: str
) -> dict[str, Any]:
    rows = min(explanation.shape[1], ROWS[draw] + 1)
    size = style.figure_size(rows + (draw is waterfall), 7.8)
    drawn = partial(draw, explanation, max_display=ROWS[draw])
    return page.picture(title, size, drawn, caption, f"{draw.__name__} plot: {caption}")
