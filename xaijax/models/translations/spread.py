"""How far a translation may be from its estimator: a share of the spread of the answers.

An explanation is made of differences between answers, so what counts is not how large they are but
how far they are apart: beside 1e6 a float32 is right to 0.06, which is nothing to an answer and
everything to the difference of two.

Letters: M rows, F columns, K outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SHARE = 1e-5  # of the spread; float32 leaves 1e-7 to 1e-6 of it where no digits are lost
FEW = 16  # rows, of which some are like each other by chance: hybrids of them count too
# The same sum of n terms differs by about sqrt(n) roundings of its largest partial sum when it is
# taken in another order or precision: 2**10 roundings allow for sums of 2**20 terms. In float64
# that is less than the share of any spread that float32 could show.
ROUNDINGS = 2.0**10


def spread_of(answers: np.ndarray, together: bool) -> np.ndarray:
    """The largest less the smallest of finite answers [M] or [M, K]; [] or [K].

    together: one spread for all columns, the largest, since they are made of the same sums (the
    chances of classes: of a class that these rows do not show there is no spread to speak of).
    """
    spread = np.ptp(_finite(answers), axis=0) if len(_finite(answers)) else np.zeros(1)
    return np.full_like(spread, spread.max()) if together else spread


def rounding_of(answers: np.ndarray, dtype: Any) -> float:
    """What two roundings in the dtype may differ by, at the size of the largest answer."""
    return ROUNDINGS * float(np.finfo(dtype).eps) * np.abs(_finite(answers)).max(initial=0.0)


def tolerance_of(
    answers: np.ndarray, spread: np.ndarray, dtype: Any, alone: bool = False
) -> np.ndarray:
    """How far a translation may be from the answers [M] or [M, K]; [] or [K].

    The share of the spread; where there is none, a few roundings of float64, in which the estimator
    answers. alone: rows without a spread say nothing yet, and roundings of the dtype are accepted.
    """
    few = 4 * np.finfo(np.float64).eps * np.abs(_finite(answers)).max(initial=0.0)
    rounding = rounding_of(answers, dtype)
    nothing = rounding if alone else few
    return np.where(spread > 0, np.minimum(np.maximum(SHARE * spread, few), rounding), nothing)


def hybrids(codes: np.ndarray, count: int) -> np.ndarray:
    """Rows [count, F] of which each column is taken from any row of codes [M, F]."""
    rng = np.random.default_rng(0)
    return codes[rng.integers(0, len(codes), (count, codes.shape[1])), np.arange(codes.shape[1])]


def _finite(answers: np.ndarray) -> np.ndarray:
    return answers[np.isfinite(answers).reshape(len(answers), -1).all(axis=1)]
