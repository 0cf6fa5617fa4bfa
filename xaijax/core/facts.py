"""Formats the facts of a record, such as stats and provenance, as names and short texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

# Digests by which `merge` distinguishes models and backgrounds; a page may go to anybody.
FUNCTIONS = ("link_fingerprint", "quantity_fingerprint", "difference_fingerprint")
UNSHOWN = ("fingerprint", "model_fingerprint", *FUNCTIONS)


def fact_rows(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields names and texts, one level of nesting at a time as "versions.jax", without digests."""
    for key, value in facts.items():
        name = f"{prefix}{key}"
        if name in UNSHOWN:
            continue
        if isinstance(value, Mapping) and value:
            yield from fact_rows(value, f"{name}.")
        else:
            yield name, fact_text(value)


def fact_text(value: Any) -> str:
    """Text of a fact, at most 400 characters."""
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
        value = ", ".join(map(fact_text, value[:20])) + (", …" if len(value) > 20 else "")
    text = str(value)
    return text if len(text) <= 400 else text[:399] + "…"
