"""Writes predicates, labels and shares in words, for the sentences of rules.

A number is written with at least six digits, and with more if the rule needs them: a category or a
label can be read back exactly, and a rounded cut keeps every row on its side.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import Any

import numpy as np

Predicate = tuple[Any, ...]  # (column, low, high): low < v <= high; or (column, categories)

FEWEST, MOST = 6, 17  # digits; float64 needs 17 at most
# Allowed rounding of a cut, as a share of the distance to the next cut, and of a prediction, as a
# share of its tolerance.
VISIBLE = 1e-3


def missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas.NA, which cannot be compared."""
    if value is None:
        return True
    differs = value != value
    if isinstance(differs, bool | np.bool_):
        return bool(differs)
    return type(differs).__name__ == "NAType"


def category_key(value: Any, mixed: bool) -> Any:
    """A key that is equal for equal categories; None for missing values.

    mixed: in a column of objects, True and 1 are different categories, although Python treats them
    as equal.
    """
    if missing(value):
        return None
    return (bool, bool(value)) if mixed and isinstance(value, bool | np.bool_) else value


def value_of(key: Any) -> Any:
    """The category of a `category_key`."""
    return key[1] if isinstance(key, tuple) and key[:1] == (bool,) else key


def number_words(value: float, single: bool = False) -> str:
    """A number in the fewest digits, six or more, that can be read back exactly; single: as
    float32."""
    value = float(value) + 0.0  # no minus before zero
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    for digits in range(FEWEST, MOST):
        text = _text(value, digits)
        if float(text) == value or (single and _as_single(text) == value):
            return text
    return _text(value, MOST)


def about_words(value: float, within: float) -> str:
    """A number in the fewest digits, six or more, with an error below a share of `within`."""
    for digits in range(FEWEST, MOST):
        text = _text(value, digits)
        if abs(float(text) - value) <= VISIBLE * within:
            return text
    return number_words(value)


@lru_cache(maxsize=1 << 12)
def cut_words(cut: float, below: float, above: float, gap: float, single: bool = False) -> str:
    """A cut in the fewest digits, six or more, that keep all values on their side.

    Args:
        cut: values up to and including it are on its lower side.
        below: the largest value on the lower side, -inf if there is none.
        above: the smallest value on the upper side, inf if there is none.
        gap: distance to the nearest other cut, inf if there is none.
        single: whether the values are float32, to which the user's numbers may have been rounded.
    """
    if single and _half_step(cut) >= 0.5:  # integers were rounded, such as the date 20230109
        low = _last_rounded_to(below)
        if math.isfinite(low) and (cut < low or _as_single(repr(cut)) >= above):
            cut = low
    if cut.is_integer() and abs(cut) < 1e15:
        return str(int(cut))
    if single:  # numbers rounded to `below` or `above` stay on the same side
        below += _half_step(below)
        above -= _half_step(above)
    exact = Decimal(cut)
    for digits in range(FEWEST, MOST):
        unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
        for rounding in (ROUND_HALF_EVEN, ROUND_CEILING, ROUND_FLOOR):
            text = _text(float(exact.quantize(unit, rounding)), digits)
            shown = float(text)
            if shown == cut or (single and _as_single(text) == cut):
                return text
            if below <= shown < above and abs(shown - cut) <= VISIBLE * gap:
                return text
    return _text(cut, MOST)


def _last_rounded_to(value: float) -> float:
    """The largest number that float32 rounds to `value`, or slightly less if that is a tie that
    rounds up; -inf for -inf.
    """
    half = _half_step(value)
    with np.errstate(over="ignore"):
        tie_goes_up = np.float32(value + half) != np.float32(value)
    return value + half * (1 - 2**-10) if tie_goes_up else value + half


def _as_single(text: str) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(text))


def _half_step(value: float) -> float:
    """Half the distance of float32 numbers at this value; 0 if it is infinite."""
    with np.errstate(over="ignore"):
        step = float(np.spacing(np.float32(abs(value))))
    return step / 2 if math.isfinite(step) else 0.0


def _text(value: float, digits: int) -> str:
    """The value with `digits` significant digits; without an exponent if that is no longer than 16
    digits.
    """
    text = f"{value:.{digits}g}"
    return f"{Decimal(text):f}" if "e+" in text and abs(value) < 1e16 else text


def label_words(value: Any) -> str:
    """A label or value as text for a sentence."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        single = isinstance(value, np.floating) and value.dtype.itemsize < 8
        return number_words(float(value), single)
    return str(value)


def percent(share: float) -> str:
    """A whole percentage, never rounded up to 100 or down to 0."""
    shown = round(100 * share)
    if (shown == 100 and share < 1) or (shown == 0 and share > 0):
        return f"{100 * share:.3g}%" if share < 0.5 else f"{math.floor(1000 * share) / 10:g}%"
    return f"{shown}%"
