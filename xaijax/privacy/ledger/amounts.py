"""Amounts of privacy as they are added up."""

from __future__ import annotations

from fractions import Fraction


def exact(epsilon: float) -> Fraction:
    """An epsilon as it is written, so that ten times 0.1 is 1; sums of fractions are exact."""
    return Fraction(repr(float(epsilon)))
