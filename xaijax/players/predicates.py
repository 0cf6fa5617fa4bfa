"""Predicates, labels and shares in words, as the sentences of rules have them.

A number is written with at least six digits, and with as many more as it takes to read the sentence
as the rule is meant: a category or a label can be read back exactly, and a cut leaves every row on
its side.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import Any

import numpy as np

Predicate = tuple[Any, ...]  # (column, low, high): low < v <= high; or (column, categories)

FEWEST, MOST = 6, 17  # digits; float64 needs 17 at most
# How far a cut may be from what is written, as a share of the distance to the next cut, and a
# prediction as a share of its tolerance.
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
    """A value under which equal categories are found; None is what is missing.

    mixed: in a column of objects True is another category than 1, which Python takes for equal.
    """
    if missing(value):
        return None
    return (bool, bool(value)) if mixed and isinstance(value, bool | np.bool_) else value


def value_of(key: Any) -> Any:
    """The category of a `category_key`."""
    return key[1] if isinstance(key, tuple) and key[:1] == (bool,) else key


def number_words(value: float, single: bool = False) -> str:
    """A number in the fewest digits, six or more, that read back as it; single: as float32."""
    value = float(value) + 0.0  # no minus before zero
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    for digits in range(FEWEST, MOST):
        text = _text(value, digits)
        if float(text) == value or (single and _as_single(text) == value):
            return text
    return _text(value, MOST)


def about_words(value: float, within: float) -> str:
    """A number in the fewest digits, six or more, that give it within a part of `within`."""
    for digits in range(FEWEST, MOST):
        text = _text(value, digits)
        if abs(float(text) - value) <= VISIBLE * within:
            return text
    return number_words(value)


@lru_cache(maxsize=1 << 12)
def cut_words(cut: float, below: float, above: float, gap: float, single: bool = False) -> str:
    """A cut in the fewest digits, six or more, that leave all values on their side of it.

    Args:
        cut: values up to and including it are on its lower side.
        below: the largest value on the lower side, -inf if there is none.
        above: the smallest value on the upper side, inf if there is none.
        gap: distance to the nearest other cut, inf if there is none.
        single: whether the values are float32, as which a number of the user may have been read.
    """
    if single and _half_step(cut) >= 0.5:  # whole numbers were rounded, dates such as 20230109
        low = _last_rounded_to(below)
        if math.isfinite(low) and (cut < low or _as_single(repr(cut)) >= above):
            cut = low
    if cut.is_integer() and abs(cut) < 1e15:
        return str(int(cut))
    if single:  # what was rounded to `below` or `above` is on the same side
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
    """The largest number that float32 rounds to `value`, or a little less where it would be a tie
    that goes up; -inf of -inf.
    """
    half = _half_step(value)
    with np.errstate(over="ignore"):
        tie_goes_up = np.float32(value + half) != np.float32(value)
    return value + half * (1 - 2**-10) if tie_goes_up else value + half


def _as_single(text: str) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(text))


def _half_step(value: float) -> float:
    """Half the distance of float32 numbers there; 0 of an infinite one."""
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
    """A label or a value as the sentences have it."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating):
        single = isinstance(value, np.floating) and value.dtype.itemsize < 8
        return number_words(float(value), single)
    return str(value)


def percent(share: float) -> str:
    """Whole per cent, never rounded up to all or down to nothing."""
    shown = round(100 * share)
    if (shown == 100 and share < 1) or (shown == 0 and share > 0):
        return f"{100 * share:.3g}%" if share < 0.5 else f"{math.floor(1000 * share) / 10:g}%"
    return f"{shown}%"
