"""One plain HTML page that tells what an Explanation says and how it was made."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.checks import count
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.plots import bar, beeswarm, network, pairs, sets, style, waterfall
from xaijax.plots import interactions as heatmap
from xaijax.reports import page
from xaijax.results.explanation import Explanation
from xaijax.results.interactions import Interactions
from xaijax.results.same_question import of_the_same, output_of
from xaijax.results.summary import how_sure, mean_abs, ranking
from xaijax.results.wording import named, to_the_right

TOP = 20  # players in the table
UNSHOWN = ("fingerprint", "model_fingerprint")  # for `merge`; a page may go to anybody
ROWS = {bar: 12, beeswarm: 12, waterfall: 10}  # players in each picture


@public
def report(
    explanation: Explanation,
    path: str | os.PathLike[str],
    interactions: Interactions | None = None,
) -> Path:
    """Write one HTML page that shows an explanation and says how it was made.

    The page holds what was explained, the players by mean |value|, a beeswarm, a bar plot, a
    waterfall of the first instance (if its values add up), and the stats and the provenance as
    tables. With K outputs the table and the pictures are of the last output, except for the bar
    plot, which shows all; the page says so. It has no script and loads nothing from elsewhere. It
    writes out the data and the name of the first instance (where there is a waterfall). In the
    beeswarm it shows every instance's values, coloured by its own data from low to high: mind whom
    you send it to.

    Args:
        explanation: an `Explanation` with values [N, P] or [N, P, K], finite, N at least 1. For
            one of an `AEC` use `collinearity_report`.
        path: the file to write; an existing file is replaced as a whole.
        interactions: `Interactions` of the same players, instances, model and background, or None.
            A section more: players and pairs as a heatmap, a network, and the largest pairs as
            bars, of the output that the other pictures are of.

    Returns:
        The path.

    Raises:
        InputError: interactions that differ from the explanation in players, output, instances,
            data, background, model or another fact that both know, or that have no pairs; nothing
            to draw, values that are not finite, an AEC's effects, or no such folder.
        InputTypeError: an argument of another type.
        ImportError: matplotlib or jinja2 is not installed (`pip install "xaijax[plots]"`).

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
            "explanation: got Interactions; they are shown beside an Explanation. Say "
            "xaijax.report(explainer(X), path, interactions=pairs), or draw them by xaijax.plots."
        )
    style.check(explanation, 1)
    page.refuse_folder(path)
    if explanation.kind == "aec":
        raise InputError(
            "explanation is of an AEC, whose effects are no shares of an answer, as this page says "
            "of values. Say xaijax.collinearity_report(aec, shapley, path)."
        )
    content = _content(explanation)
    if interactions is not None:
        content["pictures"] += list(_pairs(explanation, interactions))
    return page.write(path, "report.html.j2", content)


def _pairs(explanation: Explanation, found: Interactions) -> Iterator[dict[str, Any]]:
    """The section of interactions."""
    if not isinstance(found, Interactions):
        raise InputTypeError(
            f"interactions: got {type(found).__name__}; pass xaijax Interactions, as "
            "explainer.interactions(X) gives them."
        )
    one = sets.of_pairs(of_the_same(explanation, found), 1, None, "report")
    output = output_of(one)
    what = f"{sets.name_of(one)} (index {one.index!r}), order {one.order}"
    what += "" if output is None else f", output {output}"
    several = len(one) > 1
    mean = f", the mean over {len(one):,} instances" if several else ""
    P = min(len(one.feature_names), 12)
    joined = min(P * (P - 1) // 2, 12)
    for draw, title, caption, size in (
        (heatmap, "Interactions", f"{what}; the players alone on the diagonal.", P + 2),
        (network, "Who acts with whom", f"{what}{mean}: orange above 0, blue below.", 12),
        (pairs, "The largest pairs", f"{what}; sets of two players or more.", joined),
    ):
        inches = style.figure_size(size, 6.6)
        figure = page.new_figure(inches)
        draw(one, figure.add_subplot())
        yield {
            "title": title,
            "caption": caption,
            "alt": f"{draw.__name__} plot: {caption}",
            "width": round(inches[0] * 96),
            "png": page.png(figure),
        }


def _content(explanation: Explanation) -> dict[str, Any]:
    one, output_note = explanation, None
    if explanation.output_names is not None:
        one = explanation[:, :, -1]
        output_note = (
            f"The model has {len(explanation.output_names)} outputs; all but the mean sizes is of "
            f"the last, {explanation.output_names[-1]}."
        )
    method = explanation.provenance.get("method")
    heads, players = _players(one)
    return {
        # An Explainer is no method of its own: what it made says the line below the title.
        "title": "Explanation" if method in (None, "Explainer") else f"Explanation by {method}",
        "lead": _lead(explanation),
        "output_note": output_note,
        "heads": heads,
        "players": players[:TOP],
        "players_left": len(players[TOP:]),
        "pictures": _pictures(explanation, one),
        "facts": [
            {"title": title, "rows": list(fact_rows(facts))}
            for title, facts in (
                ("The run", {k: v for k, v in explanation.stats.items() if k not in UNSHOWN}),
                ("How it was made", explanation.provenance),
            )
            if facts
        ],
    }


def _lead(explanation: Explanation) -> str:
    N, P = explanation.shape[:2]
    name = style.value_name(explanation)
    text = f"{name}s of {count(P, 'player')} for {count(N, 'instance')}"
    if explanation.output_names is not None:
        text += f" and {count(len(explanation.output_names), 'output')}"
    return f"{text}; {how_sure(explanation)}."


def _players(one: Explanation) -> tuple[list[str], list[dict[str, Any]]]:
    """The table's heads, and its rows from the largest mean |value| down."""
    size, mean = mean_abs(one), one.values.mean(axis=0)
    heads = ["mean |value|", "mean value"]
    columns = [size, mean]
    if one.std_errors is not None:
        heads.append("mean standard error")
        columns.append(one.std_errors.mean(axis=0))
    rows = [
        {"name": one.feature_names[j], "numbers": [_number(column[j]) for column in columns]}
        for j in ranking(size)
    ]
    return heads, rows


def _number(value: float) -> str:
    return "unknown" if np.isnan(value) else f"{value:.4g}"


def _pictures(explanation: Explanation, one: Explanation) -> list[dict[str, Any]]:
    first = one[0]
    name = "the first instance"
    if first.instance_names is not None:
        name += f" ({first.instance_names[0]})"
    several = explanation.output_names is not None
    dots = "One dot per instance; to the right: the player raises the output."
    if explanation.provenance.get("method") == "QII":
        dots = f"One dot per instance. {to_the_right(one)}"
    pictures = [
        _picture(beeswarm, one, "Every instance", dots),
        _picture(
            bar,
            explanation,
            "Mean size",
            "The mean of |value| over the instances" + (", for all outputs." if several else "."),
        ),
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
    figure = page.new_figure(size)
    draw(explanation, figure.add_subplot(), max_display=ROWS[draw])
    return {
        "title": title,
        "caption": caption,
        "alt": f"{draw.__name__} plot: {caption}",
        "width": round(size[0] * 96),
        "png": page.png(figure),
    }


def fact_rows(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names and texts, one level of nesting at a time as "versions.jax"."""
    for key, value in facts.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from fact_rows(value, f"{name}.")
        else:
            yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        text = f"array {list(value.shape)}"
        if value.size and value.dtype.kind in "iuf":
            text += f", {value.min():.4g} to {value.max():.4g}"
        elif value.size and value.dtype.kind == "b":
            text += f", {int(value.sum()):,} true"
        return text
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        value = ", ".join(map(_text, value[:20])) + (", …" if len(value) > 20 else "")
    text = str(value)
    return text if len(text) <= 400 else text[:399] + "…"
