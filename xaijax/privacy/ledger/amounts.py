"""Amounts of privacy, and other numbers above 0, as they are given and as they are added up."""

from __future__ import annotations

import numbers
from fractions import Fraction
from typing import Any

from xaijax.core.errors import InputError, InputTypeError


def positive(value: Any, name: str) -> float:
    """A finite number above 0, for `epsilon` and `budget`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputTypeError(f"{name} must be a number above 0, got {type(value).__name__}.")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not 0 < number < float("inf"):
        shown = repr(value) if number == value else "one beyond the floats"
        raise InputError(f"{name} must be a finite number above 0, got {shown}.")
    return number


def exact(epsilon: float) -> Fraction:
    """An epsilon as it is written, so that ten times 0.1 is 1; sums of fractions are exact."""
    return Fraction(repr(float(epsilon)))
