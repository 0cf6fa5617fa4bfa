"""The instances of a page one at a time: to be chosen, or, without scripts, to be unfolded."""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.plots import style
from xaijax.reports.page import cell, table
from xaijax.results.explanation import Explanation
from xaijax.results.summary import ranking
from xaijax.results.wording import named

MOST, PLAYERS = 500, 20  # instances of a page, and players of each


def checked(instances: Any) -> int:
    """How many of the instances stand on the page one at a time."""
    found = checks.whole_number(instances, "instances", least=0)
    return min(found, MOST)


def section(title: str, each: list[dict[str, Any]], N: int) -> dict[str, Any] | None:
    """What the template takes; None where there is nothing to choose from."""
    if not each:
        return None
    left = N - len(each)
    note = f"The first {len(each):,} of {N:,}; {left:,} are left out of this page." if left else ""
    return {"title": title, "each": each, "note": note}


def of_explanation(one: Explanation, most: int) -> dict[str, Any] | None:
    """The values [N, P] of the first instances, the largest of each."""
    if len(one) == 1:  # the table above it has the same
        return None
    half = style.half_widths(one)
    shown = range(min(len(one), most))
    each = [_instance(one, n, None if half is None else half[n]) for n in shown]
    return section("One instance at a time", each, len(one))


def name_of(names: tuple[str, ...] | None, n: int) -> str:
    """The place of an instance, with its name where it has one."""
    return f"instance {n:,}" + ("" if names is None else f": {names[n]}")


def _instance(one: Explanation, n: int, half: np.ndarray | None) -> dict[str, Any]:
    values = one.values[n]
    order = ranking(np.abs(values))
    if one.present is not None:
        order = order[one.present[n][order]]
    places, left = order[:PLAYERS], order[PLAYERS:]
    heads = [cell("player"), cell("value", True)]
    if half is not None:
        heads.append(cell("±, 95 %", True))
    rows = []
    for j in places:
        row = [cell(one.feature_names[j], head=True), cell(f"{values[j]:+.4g}", True)]
        if half is not None:
            row.append(cell("unknown" if np.isnan(half[j]) else f"{half[j]:.2g}", True))
        rows.append(row)
    adds = named(one.kind).efficient
    note = ""
    if len(left):
        of_them = f", together {values[left].sum():+.4g}" if adds else ""
        note = f"And {len(left):,} smaller ones{of_them}."
    base, total = one.base_values[n], values.sum()
    said = f"Base value {base:.4g}"
    if adds and len(one.feature_names) == one.provenance.get("players"):
        said += f"; with all values {base + total:.4g}"
    title = name_of(one.instance_names, n)
    if own := style.output_of_each(one):
        title += f", output {own[n]}"
    return {**table(title, heads, rows, note=note, kind=""), "said": f"{said}.", "card": ""}
