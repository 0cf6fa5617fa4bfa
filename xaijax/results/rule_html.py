"""Rules as a notebook shows them: the sentence, and bars for precision and coverage.

The page loads nothing; what a person named is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from xaijax.players.predicates import percent

_SURE, _LIKELY, _GREY = "#2b6cb0", "#9dc0e6", "#a3a8ad"
_TRACK = "display:inline-block;width:12em;height:.7em;border:1px solid #a3a8ad;position:relative"
_FILL = "position:absolute;left:0;top:0;height:100%"


def rule_html(rule: Any) -> str:
    """The sentence with its conditions in bold, and under it a bar a number."""
    conditions = " AND ".join(f"<b>{escape(one)}</b>" for one in rule.rule) or "TRUE"
    remarks = f" <i>({escape('; '.join(rule.remarks))})</i>" if rule.remarks else ""
    sentence = f"IF {conditions} THEN PREDICT <b>{escape(rule.predicted)}</b>{remarks}"
    bound = rule.precision_lower
    shown = percent(rule.precision)
    if bound is not None:
        shown += f", at least {_floor(bound)}"
    elif rule.std_error is None:
        shown += ", exact for the data given"
    sure = rule.precision if bound is None else bound
    lines = [_line("precision", ((rule.precision, _LIKELY), (sure, _SURE)), shown)]
    if rule.coverage is not None:
        lines.append(_line("coverage", ((rule.coverage, _GREY),), percent(rule.coverage)))
    return f'<div style="margin:.5em 0 1em"><div>{sentence}</div>{"".join(lines)}</div>'


def rules_html(rules: Iterable[Any]) -> str:
    """One rule under the other, with the number of its instance."""
    entries = "".join(
        f'<div style="display:flex;gap:1em"><div style="min-width:3em;margin:.5em 0">{n}</div>'
        f"{rule_html(rule)}</div>"
        for n, rule in enumerate(rules)
    )
    return f'<div style="max-width:60em">{entries}</div>'


def _line(name: str, fills: tuple[tuple[float, str], ...], shown: str) -> str:
    """A bar of parts that lie on each other, the longest first; with its text."""
    parts = "".join(
        f'<span style="{_FILL};width:{100 * min(max(share, 0.0), 1.0):.1f}%;background:{colour}">'
        "</span>"
        for share, colour in fills
    )
    label = '<span style="display:inline-block;width:6em">'
    bar = f'<span style="{_TRACK}" role="img" aria-label="{name} {shown}">{parts}</span>'
    return f'<div style="font-size:90%">{label}{name}</span>{bar} {shown}</div>'


def _floor(share: float) -> str:
    """A lower bound in tenths of a per cent, never rounded up."""
    return f"{int(1000 * share + 1e-9) / 10:g}%"
