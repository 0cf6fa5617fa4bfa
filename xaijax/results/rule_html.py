"""Rules as a notebook shows them: the sentence, and bars for precision and coverage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xaijax.core import html
from xaijax.core.facts import fact_rows
from xaijax.players.predicates import percent as percent

SHOWN, CONDITIONS = 10, 8  # rules of a card, and conditions of each that it writes out
_LEFT = 'style="text-align:left"'
WHOLE = 1 << 20  # characters of a condition where nothing is to be cut


def rule_html(rule: Any, most: int = WHOLE) -> str:
    """The sentence with its conditions in bold, and under it a bar a number.

    most: characters of a condition, and of the rule's other texts; `CONDITIONS` of them are
    written out where that is less than `WHOLE`.
    """
    written = rule.rule if most == WHOLE else rule.rule[:CONDITIONS]
    conditions = " AND ".join(f"<b>{html.text(one, most)}</b>" for one in written) or "TRUE"
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
    lines = [_line("precision", parts, shown)]
    if rule.coverage is not None:
        lines.append(_line("coverage", [(0.0, rule.coverage, html.GREY)], percent(rule.coverage)))
    bars = f'<table style="font-size:90%;color:inherit">{"".join(lines)}</table>'
    return f'<div style="margin:.5em 0 1em"><div>{sentence}</div>{bars}</div>'


def rules_html(rules: Iterable[Any]) -> str:
    """All rules, one under the other, with the number of its instance."""
    return f'<div style="max-width:60em">{"".join(_entries(rules, WHOLE))}</div>'


def rules_card(rules: Any, head: str) -> str:
    """The first rules, as many as a notebook should hold, and how they were made."""
    entries = list(html.within(_entries(rules.rules[:SHOWN], html.NAME), html.LIMIT - 9_000))
    left = len(rules) - len(entries)
    more = f"<p>and {left:,} more</p>" if left else ""
    facts = fact_rows({**rules.provenance, **rules.stats})
    return html.card(head, [], [*entries, more], "How they were made", facts)


def _entries(rules: Iterable[Any], most: int) -> Iterable[str]:
    return (
        f'<div style="display:flex;gap:1em"><div style="min-width:3em;margin:.5em 0">{n}</div>'
        f"{rule_html(rule, most)}</div>"
        for n, rule in enumerate(rules)
    )


def _line(name: str, parts: list[tuple[float, float, str]], shown: str) -> str:
    """A bar of parts beside each other; with its text."""
    cells = "".join(f"<td {_LEFT}>{one}</td>" for one in (name, html.bar(parts), shown))
    return f"<tr>{cells}</tr>"


def floor(share: float) -> str:
    """A lower bound in tenths of a per cent, never rounded up."""
    return f"{int(1000 * share + 1e-9) / 10:g}%"
