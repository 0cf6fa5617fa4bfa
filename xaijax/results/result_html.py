"""Shows an Explanation, Interactions and a private copy in a notebook.

All numbers are read from the result; none is computed. One instance is shown with signed
values and intervals, several with the mean |value|.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import html
from xaijax.core.errors import InputError
from xaijax.players.predicates import percent as percent
from xaijax.results.describe_question import describe_question
from xaijax.results.set_keys import named
from xaijax.results.summary import finite_instances, headline, how_sure, ranking, sure_of

if TYPE_CHECKING:
    from xaijax.results.explanation import Explanation
    from xaijax.results.interactions import Interactions
    from xaijax.results.private_explanation import PrivateExplanation

TOP = 10  # players, or sets of them
MADE = "How it was made"
LEVEL = 0.95  # confidence level of intervals
OUTPUTS = 4  # outputs that have their own columns


def explanation_html(result: Explanation) -> str:
    """The question, how certain it is, the largest players, and how it was made."""
    lines = [how_sure(result), describe_question(result.provenance)]
    if result.values.shape[0] == 1 and result.base_values.ndim == 1:
        lines.append(f"base value {result.base_values[0] + 0.0:.4g}")
    if result.provenance.get("meaning") is not None:
        lines.append(str(result.provenance["meaning"]))
    if result.present is not None and len(result.values) > 1:
        # One number is a different player in each instance, so a mean over them is meaningless.
        counts = result.present.sum(axis=1)
        body = _said(f"players of each instance: {counts.min():,} to {counts.max():,}")
    else:
        shown = None if result.present is None else np.flatnonzero(result.present.any(axis=0))
        inputs = _data_of(result) if len(result.values) == 1 else None
        half, level = _half_widths(result), _level(result)
        names, outputs = result.feature_names, result.output_names
        body = _ranked(result.values, half, names, outputs, "player", shown, inputs, level)
    facts = {**result.provenance, **result.stats}
    alone = result.values.shape[::2] == (1,)
    said = [_prompt(result), body] if result.segments and alone else [body]
    return html.card(headline(result), filter(None, lines), said, MADE, facts)


COLOURS = "230,126,22", "43,108,176"  # orange above 0, blue below, which all eyes tell apart


def _prompt(result: Explanation) -> str:
    """The text of one prompt, each segment on its colour, with its value as a title."""
    values, texts = result.values[0], (result.segments or ((),))[0]
    limit = float(np.abs(values).max()) or 1.0
    parts = [
        f'<span title="{value:+.4g}" style="background:rgba({COLOURS[int(value < 0)]},'
        f'{0.8 * abs(value) / limit:.2f})">{html.text(text, len(text) + 1)}</span>'
        for value, text in zip(values, texts, strict=True)
    ]
    legend = f"orange raises the answer, blue lowers it, by {limit:.3g} at most"
    return f"<div>{' '.join(parts)}</div>{_said(legend)}"


def interactions_html(result: Interactions, head: str) -> str:
    """The largest sets of several players; single players if there are no others."""
    joined = np.array([m for m, S in enumerate(result.sets) if len(S) > 1], int)
    names = [named(S) for S in result.set_names]
    shown = joined if len(joined) else None
    half = _half_widths(result)
    body = _ranked(result.values, half, names, result.output_names, "players", shown)
    lines = filter(None, [sure_of(result), describe_question(result.provenance)])
    return html.card(head, lines, [body], MADE, {**result.provenance, **result.stats})


def private_html(result: PrivateExplanation, lines: list[str]) -> str:
    """Values with noise and intervals of the noise: what the copy holds, and no more."""
    half = result.half_widths() if {"lattice", "scale"} <= set(result.mechanism) else None
    body = _ranked(result.values, half, result.feature_names, result.output_names, "player")
    facts = {**result.mechanism, **result.provenance}
    return html.card(lines[0], [line.strip() for line in lines[1:]], [body], MADE, facts)


def _half_widths(result: Any) -> np.ndarray | None:
    """Half-widths [N, P] or [N, P, K] at 95 %; None without errors, or if none are known."""
    bounds, shape = getattr(result, "bounds", None), result.values.shape
    if bounds is not None:
        return np.broadcast_to(bounds.reshape(-1, *[1] * (len(shape) - 1)), shape)
    return None if result.std_errors is None else result.half_widths(LEVEL)


def _level(result: Any) -> float | None:
    """Confidence level of the half-widths; amortised values store their own. None if unknown."""
    bounded = getattr(result, "bounds", None) is not None
    return result.provenance.get("confidence") if bounded else LEVEL


def _data_of(result: Explanation) -> Callable[[int], str] | None:
    """A function that gives the instance's own input of a player, as text."""
    try:
        columns = result.player_data()
    except InputError:  # columns do not fit the data; only the values are shown
        return None
    if all(column is None for column in columns):
        return None

    def input_of(j: int) -> str:
        column = columns[j]
        return "" if column is None else html.text(_plain(column[0]), html.INPUT)

    return input_of


def _plain(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def _said(line: str) -> str:
    return f"<div>{html.text(line)}</div>"


def _ranked(
    values: np.ndarray,
    half: np.ndarray | None,
    names: Sequence[str],
    outputs: Sequence[str] | None,
    what: str,
    among: np.ndarray | None = None,
    inputs: Callable[[int], str] | None = None,
    level: float | None = LEVEL,
) -> str:
    """The table of the largest values [N, P] or [N, P, K], with half-widths at a level.

    among: positions that may be shown, or None; inputs: for one instance, a player's input.
    """
    N = len(values)
    finite = finite_instances(values)
    if not finite.any():
        return _said("no instances" if N == 0 else "no instance has finite values")
    shown = values[finite].mean(axis=0) if N == 1 else np.abs(values[finite]).mean(axis=0)
    error = None if half is None else _median(half[finite])
    size = np.abs(shown) if shown.ndim == 1 else np.abs(shown).mean(axis=1)
    order = ranking(size)
    order = order if among is None else order[np.isin(order, among)]
    places, left = order[:TOP], len(order) - len(order[:TOP])
    signed = N == 1 and shown.ndim == 1
    drawn = shown if shown.ndim == 1 else size
    sure = error if signed else None
    number = "value" if N == 1 else "mean |value|"
    heads = [what, "", *_columns(number, outputs)]
    heads += ["input"] * (inputs is not None)
    if error is not None:
        heads.append(_interval_head(level, signed, N, shown.ndim))
    bars = _bars(drawn[places], None if sure is None else sure[places], signed)
    rows = []
    for j, drawing in zip(places, bars, strict=True):
        numbers = np.atleast_1d(shown[j])[:OUTPUTS]
        row = [html.text(names[j], html.NAME), drawing, *(f"{v + 0.0:.4g}" for v in numbers)]
        row += [] if inputs is None else [inputs(j)]
        if error is not None:
            row.append(_interval(shown[j], error[j], signed))
        rows.append(row)
    more = _said(f"and {left:,} more") if left else ""
    K = 1 if shown.ndim == 1 else shown.shape[1]
    more += _said(f"bars: the mean over {K:,} outputs") if K > 1 else ""
    return html.table(heads, rows) + more


def _median(half: np.ndarray) -> np.ndarray:
    """The median over the instances; NaN if no error is known."""
    known = np.where(np.isfinite(half), half, np.nan)
    lacking = np.isnan(known).all(axis=0)
    return np.where(lacking, np.nan, np.nanmedian(np.where(lacking, 0.0, known), axis=0))


def _columns(number: str, outputs: Sequence[str] | None) -> list[str]:
    if outputs is None:
        return [number]
    more = f" (and {len(outputs) - OUTPUTS:,} more outputs)" if len(outputs) > OUTPUTS else ""
    heads = [f"{number} of {html.cut(name, 16)}" for name in outputs[:OUTPUTS]]
    return [*heads[:-1], heads[-1] + more]


def _interval_head(level: float | None, signed: bool, instances: int, ndim: int) -> str:
    confidence = "" if level is None else f"{100 * level:g} % "
    if signed:
        return f"{confidence}interval"
    of = f"{confidence}± of a value"
    return ("median " if instances > 1 else "") + of + (", widest output" if ndim > 1 else "")


def _interval(value: Any, error: Any, signed: bool) -> str:
    if signed:
        if np.isnan(error):
            return "unknown"
        return f"{value - error:.4g} to {value + error:.4g}" if error else "exact"
    worst = float(np.max(error))  # the widest of several outputs; NaN stays NaN
    return "unknown" if np.isnan(worst) else f"{worst:.2g}"


def _bars(values: np.ndarray, half: np.ndarray | None, signed: bool) -> Iterator[str]:
    """Yields one bar each on one axis, which contains 0, all values and all known intervals.

    Bars are coloured by sign, or grey if they are sizes.
    """
    wide = np.zeros(len(values)) if half is None else np.nan_to_num(half, posinf=0.0)
    low = min(0.0, float((values - wide).min(initial=0.0)))
    high = max(0.0, float((values + wide).max(initial=0.0)))
    span = (high - low) or 1.0
    zero = -low / span
    for value, error in zip(values, wide, strict=True):
        end = (value - low) / span
        colour = (html.UP if value > 0 else html.DOWN) if signed else html.GREY
        whisker = ((value - error - low) / span, (value + error - low) / span) if error else None
        yield html.bar([(zero, end, colour)], zero, whisker)


SHOWN, CONDITIONS = 10, 8  # rules of a card, and conditions of each that are written out
WHOLE = 1 << 20  # characters of a condition if nothing is to be cut


def rule_html(rule: Any, most: int = WHOLE) -> str:
    """The sentence with its conditions in bold, and below it one bar per number.

    most: characters of a condition, and of the rule's other texts; if it is less than `WHOLE`, only
        `CONDITIONS` conditions are written out.
    """
    written = rule.rule if most == WHOLE else rule.rule[:CONDITIONS]
    conditions = " AND ".join(f"<b>{html.text(text, most)}</b>" for text in written) or "TRUE"
    left = len(rule.rule) - len(written)
    conditions += f" AND {left:,} more" if left else ""
    remarks = f" <i>({html.text('; '.join(rule.remarks), most)})</i>" if rule.remarks else ""
    sentence = f"IF {conditions} THEN PREDICT <b>{html.text(rule.predicted, most)}</b>{remarks}"
    bound = rule.precision_lower
    shown = percent(rule.precision)
    if bound is not None:
        shown += f", at least {floor(bound)}"
    elif rule.std_error is None:
        shown += ", exact for the data given"
    sure = rule.precision if bound is None else bound
    parts = [(0.0, sure, html.DOWN), (sure, rule.precision, html.PALE)]
    lines = [html.row(["precision", html.bar(parts), shown])]
    if rule.coverage is not None:
        covered = html.bar([(0.0, rule.coverage, html.GREY)])
        lines.append(html.row(["coverage", covered, percent(rule.coverage)]))
    bars = f'<table style="font-size:90%;color:inherit">{"".join(lines)}</table>'
    return f'<div style="margin:.5em 0 1em"><div>{sentence}</div>{bars}</div>'


def rules_html(rules: Iterable[Any]) -> str:
    """All rules, one below the other, each with the number of its instance."""
    return f'<div style="max-width:60em">{"".join(_entries(rules, WHOLE))}</div>'


def rules_card(rules: Any, head: str) -> str:
    """The first rules, as many as a notebook should hold, and how they were made."""
    entries = list(html.within(_entries(rules.rules[:SHOWN], html.NAME), html.LIMIT - 9_000))
    left = len(rules) - len(entries)
    more = f"<p>and {left:,} more</p>" if left else ""
    facts = {**rules.provenance, **rules.stats}
    return html.card(head, [], [*entries, more], "How they were made", facts)


def _entries(rules: Iterable[Any], most: int) -> Iterable[str]:
    return (
        f'<div style="display:flex;gap:1em"><div style="min-width:3em;margin:.5em 0">{n}</div>'
        f"{rule_html(rule, most)}</div>"
        for n, rule in enumerate(rules)
    )


def floor(share: float) -> str:
    """A lower bound in tenths of a per cent, never rounded up."""
    return f"{int(1000 * share + 1e-9) / 10:g}%"
