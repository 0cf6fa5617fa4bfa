"""One page with an AEC list next to a Shapley list, and what AEC means and does not mean."""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.core.typing import ModelLike
from xaijax.plots import style
from xaijax.plots.heatmap import NAMED, NUMBERED, correlation, named_each
from xaijax.reports import page
from xaijax.reports.page import about, cell, model_name
from xaijax.results.explanation import Explanation
from xaijax.results.summary import how_sure, mean_abs, ranking

MOVEMENT = (
    "The top of a list is removed, the list is made anew from the columns that remain, and so on. "
    "The rate is how far the other columns moved, over how far they could have moved: 0 where the "
    "order never changes, 1 where it is turned round each time. A small rate says that the list is "
    "stable when columns go. It does not say that the list is right."
)
SUM = (
    "An effect is b_j, the slope of the target on this column alone, times the sum of the slopes "
    "of all columns on each of the other columns. The sum is a property of the columns; the target "
    "enters by b_j only."
)
SIGN = (
    "The sign is the sign of b_j times the sign of that sum. A positive effect does not say that "
    "the target grows with the column: where the sum is negative it says the opposite."
)
NO_SHARE = (
    "An effect is no share of an answer. Effects do not add up to anything, and where the columns "
    "are uncorrelated all of them are 0, however well a column tells the target."
)
MIXED = (
    "Units: the columns are taken as they are, so slopes in mixed units are added, and an effect "
    "has no unit of its own. The same table in other units gives another list: multiplying one "
    "column by 10 changes the ranks. Columns of small spread lead, since the slopes of others on "
    "them are large. Use standardize=True for a list that does not depend on the units."
)
FREE = (
    "Units: the columns are divided by their standard deviations, so the slopes among them are "
    "correlations and the list does not depend on their units. An effect is in units of the "
    "target (of its log-odds in a classification) per standard deviation of the column, times a "
    "sum of correlations."
)
ACCEPTED = {
    "aec": "a fitted xaijax.AEC or its explanation_",
    "shapley": "an xaijax.Explanation. From a shap.Explanation e of one output: "
    "xaijax.Explanation(values=e.values, base_values=numpy.resize(e.base_values, len(e.values)), "
    "feature_names=e.feature_names)",
}
ERRORS = (
    "Standard errors are from resampled rows: how far the effects would move on other rows of the "
    "same kind. They say nothing of other columns or other units."
)


class FittedAEC(Protocol):
    """The interface of a fitted `xaijax.AEC` that the page uses."""

    explanation_: Explanation


@public
def collinearity_report(
    aec: FittedAEC | Explanation,
    shapley: Explanation,
    path: str | os.PathLike[str],
    aec_nmr: float | None = None,
    shapley_nmr: float | None = None,
    model: ModelLike | str | None = None,
    *,
    title: str | None = None,
) -> Path:
    """Writes one HTML page with an AEC ranking next to a Shapley ranking of the same columns.

    The page shows the correlations of the columns, both rankings and both movement rates. It says
    in plain words what the sign and the units of AEC mean and do not mean, and what a picture of
    many columns leaves out. It loads nothing from elsewhere, and contains no row of the data.

    Args:
        aec: a fitted `xaijax.AEC`, or its `explanation_`. If there are several classes, choose one:
            `aec.explanation_[:, :, "label"]`.
        shapley: an `Explanation` of the same columns, values [N, P], ranked by mean |value|. The
            error for a shap.Explanation says how to make an `Explanation` of it.
        path: the file to write; an existing file is replaced.
        aec_nmr: float from 0 to 1 or None. The rate of the AEC ranking, from
            `xaijax.normalized_movement_rate`. None: the page says "not measured". NaN: undefined.
        shapley_nmr: the same for the Shapley ranking.
        model: the model of the Shapley values, for the head of the page: a name, or a `Model` from
            `as_model`. None: "not named".
        title: the page's title, a text. None: a title that says what the page shows.

    {page}
        InputError: the two have different columns, or several outputs; or a rate is out of range.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 4.0], [4.0, 3.0]])
        >>> aec = xj.AEC().fit(X, X[:, 0])
        >>> shapley = xj.Explainer(xj.as_model(lambda X: X[:, 0]), X)(X)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     xj.collinearity_report(aec, shapley, f"{folder}/page.html").name
        'page.html'
    """
    effects: Any = getattr(aec, "explanation_", aec)
    for name, explanation in (("aec", effects), ("shapley", shapley)):
        if not isinstance(explanation, Explanation):
            raise InputTypeError(f"{name}: got {_named(explanation)}; pass {ACCEPTED[name]}.")
        if (outputs := explanation.output_names) is not None:
            source = "aec.explanation_" if name == "aec" else "shapley"
            raise InputError(
                f"{name}: the page shows one output and the explanation has {len(outputs)}; choose "
                f"one, {source}[:, :, {outputs[0]!r}]."
            )
        style.check(explanation, 1)
    if effects.kind != "aec":
        raise InputError(f"aec: got an explanation of kind {effects.kind!r}, not that of an AEC.")
    if set(shapley.feature_names) != set(effects.feature_names):
        odd = sorted(set(shapley.feature_names) ^ set(effects.feature_names))
        raise InputError(f"shapley has other players than aec: {odd} are in one of them only.")
    rates = [_rate(aec_nmr, "aec_nmr"), _rate(shapley_nmr, "shapley_nmr")]
    heading = page.heading(path, title)
    content = _content(effects, shapley, rates, model_name(model)) | heading
    return page.write(path, "collinearity.html.j2", content)


def _named(value: Any) -> str:
    """The type, with its library: a shap.Explanation is not one of ours."""
    library, kind = type(value).__module__.partition(".")[0], type(value).__name__
    return kind if library in ("builtins", "__main__") else f"{library}.{kind}"


def _rate(value: Any, name: str) -> str:
    if value is None:
        return "not measured"
    what = "a number from 0 to 1 or None"
    rate = checks.number(value, name, what, lambda r: math.isnan(r) or 0 <= r <= 1)
    return "undefined (fewer than 3 columns)" if math.isnan(rate) else f"{rate:.3f}"


def _content(
    effects: Explanation, shapley: Explanation, rates: list[str], model: str | None
) -> dict[str, Any]:
    errors = effects.std_errors
    first, second = ranking(mean_abs(effects)), ranking(mean_abs(shapley))
    name = style.value_name(shapley)
    heads = [cell("#", True), cell("AEC"), cell("effect", True)]
    if errors is not None:
        heads.append(cell("standard error", True))
    heads += [cell(f"{name}s"), cell(f"mean |{name}|", True)]
    lines = []
    for place, (i, j) in enumerate(zip(first, second, strict=True), 1):
        line = [cell(f"{place:,}", True), cell(effects.feature_names[i])]
        line += [cell(_number(effects.values[0, i]), True)]
        if errors is not None:
            line.append(cell(_number(errors[0, i]), True))
        size = mean_abs(shapley)[j]
        lines.append([*line, cell(shapley.feature_names[j]), cell(_number(float(size)), True)])
    gap = [cell("")] if errors is not None else []
    foot = [cell(""), cell("movement rate (NMR)"), cell(rates[0], True), *gap]
    foot += [cell("movement rate (NMR)"), cell(rates[1], True)]
    same = sum(
        effects.feature_names[i] == shapley.feature_names[j]
        for i, j in zip(first, second, strict=True)
    )
    provenance = effects.provenance
    free = provenance.get("standardize")
    unit = FREE if free else MIXED
    meanings = [SUM, SIGN, NO_SHARE, unit] + ([] if errors is None else [ERRORS])
    rows = f"{provenance['rows']:,} rows" if "rows" in provenance else "the rows"
    return {
        "title": "Additive effects of collinearity beside " + f"{name}s",
        "lead": f"{checks.count(len(first), 'column')}, {rows}, "
        f"{provenance.get('task', 'AEC')}, columns "
        f"{'standardised' if free else 'in their raw units'}; {name}s of "
        f"{checks.count(len(shapley), 'instance')}, {how_sure(shapley)}.",
        "picture": _heatmap(effects),
        "about": about(shapley, model),
        "lists": page.table("The two lists", heads, lines, foot, kind=""),
        "agreement": f"The lists agree in {same} of {len(first)} positions. They answer different "
        "questions: the one is of the columns and a target, the other of a model's answers.",
        "movement": MOVEMENT,
        "meanings": meanings,
        "facts": page.facts(
            (
                ("How the AEC list was made", provenance),
                (f"How the {name}s were made", shapley.provenance),
            )
        ),
    }


def _heatmap(effects: Explanation) -> dict[str, Any]:
    F = len(effects.provenance["columns"])
    size = 3.4 + 0.42 * min(F, NAMED), 2.2 + 0.36 * min(F, NAMED)
    caption = (
        "Correlation of each column with each other: AEC works with the slopes behind these "
        "numbers."
    )
    if F > NUMBERED:
        caption += f" Left out for lack of room: the numbers, of {F:,} x {F:,} cells"
        caption += "." if F <= NAMED else f", and all names but every {_ordinal(named_each(F))}."
        caption += " xaijax.AEC has the numbers in correlation_."
    alt = f"heatmap of the correlations of {checks.count(F, 'column')}"
    return page.picture(
        "How the columns correlate", size, partial(correlation, effects), caption, alt
    )


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}" + ("th" if number % 100 in (11, 12, 13) else ending)


def _number(value: float) -> str:
    return f"{value:.4g}"
