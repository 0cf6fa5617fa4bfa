"""One HTML page of the rules that Anchors found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xaijax.core.checks import count
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.core.typing import ModelLike
from xaijax.reports import page
from xaijax.reports.page import cell, checked, lines, model_name, name_of, section
from xaijax.results.result_html import floor, percent, rule_html
from xaijax.results.rules import Rule, Rules, refuse_types

PRECISION = (
    "the share of rows like the instance, in which all that the rule does not name may vary, that "
    "get the instance's prediction. A rule's coverage is the share of all rows that it applies to"
)


@public
def rules_report(
    rules: Rules,
    path: str | os.PathLike[str],
    model: ModelLike | str | None = None,
    instances: int = 200,
    *,
    title: str | None = None,
) -> Path:
    """Writes one HTML page of rules: the different rules, how certain they are, each instance's
    own.

    The page has a table of the different rules, to sort and to search, the rule of each instance
    with bars for precision and coverage, and how the rules were made. It loads nothing from
    elsewhere, and all of it can be read without scripts. Conditions are made of the instances' own
    data: be careful whom you send it to.

    Args:
        rules: `Rules`, from `AnchorExplainer.explain`; at least one.
        path: the file to write; an existing file is replaced.
        model: the model's name for the head of the page, or a `Model` from `as_model`, which has
            one. None: "not named", since rules hold no model.
        instances: int. The number of first instances whose rule can be viewed; 0: none. At most 500
            are shown, and the page says how many are left out.
        title: the page's title, a text. None: a title that says what the page shows.

    {page}
        InputError: there are no rules, or `instances` is negative.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> red = xj.Rule(["c = red"], [(0, ("red",))], "stop", 1.0, None, 0.5, True, 2, "exact")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     xj.rules_report(xj.Rules((red,), ("c",)), f"{folder}/page.html").name
        'page.html'
    """
    refuse_types(rules, "rules")
    heading = page.heading(path, title)
    if not len(rules):
        raise InputError("rules: there are none, so there is nothing to show.")
    content = _content(rules, model_name(model), checked(instances)) | heading
    return page.write(path, "rules.html.j2", content)


def _content(rules: Rules, model: str | None, instances: int) -> dict[str, Any]:
    facts = rules.provenance
    held = sum(rule.accepted for rule in rules)
    lead = f"{count(len(rules), 'instance')}; {held:,} rules accepted"
    if "threshold" in facts:
        lead += f" at a precision of at least {percent(facts['threshold'])}"
    rows = facts.get("data_rows")
    space = "" if rows is None else f"{rows:,} rows, by {facts.get('perturbation')}"
    each = [
        {"title": name_of(None, n), "card": rule_html(rule), "said": "", "rows": []}
        for n, rule in enumerate(rules.rules[:instances])
    ]
    return {
        "title": "Rules" + ("" if model is None else f" of {model}"),
        "lead": f"{lead}.",
        "about": lines(model, space, PRECISION, "Rows are varied by", "Precision"),
        "distinct": _distinct(rules),
        "instances": section("The rule of each instance", each, len(rules)),
        "facts": page.facts((("The run", rules.stats), ("How they were made", facts))),
    }


def _distinct(rules: Rules) -> dict[str, Any]:
    """The table of each different rule once, those of most instances first."""
    same_rules: dict[tuple[Any, ...], list[Rule]] = {}
    for rule in rules:
        same_rules.setdefault((tuple(rule.rule), rule.predicted), []).append(rule)
    heads = [cell("rule"), cell("prediction"), cell("instances", True), cell("precision", True)]
    heads += [cell("at least", True), cell("coverage", True), cell("remarks")]
    rows = []
    for same in sorted(same_rules.values(), key=len, reverse=True):
        worst = min(same, key=lambda rule: rule.precision)  # the worst of several tests of a rule
        bounds = [rule.precision_lower for rule in same if rule.precision_lower is not None]
        # In place of a bound: an exact precision needs none.
        least = "exact" if worst.std_error is None else "unknown"
        least = floor(min(bounds)) if bounds else least
        covered = "unknown" if worst.coverage is None else percent(worst.coverage)
        numbers = (f"{len(same):,}", percent(worst.precision), least, covered)
        row = [cell(" AND ".join(worst.rule) or "TRUE", head=True), cell(worst.predicted)]
        rows.append([*row, *(cell(each, True) for each in numbers), cell("; ".join(worst.remarks))])
    note = "For a rule of several instances, the smallest precision and bound are shown."
    return page.table("The different rules", heads, rows, note=note)
