"""Predicates, labels and shares in words, as the sentences of rules have them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Predicate = tuple[Any, ...]  # (column, low, high): low < v <= high; or (column, categories)


def predicate_words(predicate: Predicate, name: str, names: Mapping[Any, str] | None = None) -> str:
    """A predicate (column, low, high) or (column, categories) in words."""
    if len(predicate) == 3:
        low, high = predicate[1:]
        if math.isinf(low) and math.isinf(high):
            return f"{name} is any number"
        if math.isinf(low):
            return f"{name} <= {number_words(high)}"
        if math.isinf(high):
            return f"{name} > {number_words(low)}"
        return f"{number_words(low)} < {name} <= {number_words(high)}"
    shown = [_called(value, names) for value in predicate[1]]
    if len(shown) == 1:
        return f"{name} is missing" if shown[0] is None else f"{name} = {shown[0]}"
    return f"{name} in ({', '.join('missing' if s is None else s for s in sorted(shown, key=str))})"


def number_words(value: Any) -> str:
    """Six digits at most."""
    return f"{value:.6g}"


def _called(value: Any, names: Mapping[Any, str] | None) -> str | None:
    if value is None or value != value:
        return None
    if names and value in names:
        return names[value]
    return label_words(value)


def label_words(value: Any) -> str:
    """A label or a value as the sentences have it."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        return number_words(float(value))
    return str(value)


def percent(share: float) -> str:
    """Whole per cent, never rounded up to all or down to nothing."""
    shown = round(100 * share)
    if (shown == 100 and share < 1) or (shown == 0 and share > 0):
        return f"{100 * share:.3g}%" if share < 0.5 else f"{math.floor(1000 * share) / 10:g}%"
    return f"{shown}%"
