"""What the sampled estimators share.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Result(NamedTuple):
    """Values with their standard errors, float64."""

    values: np.ndarray  # [N, P, K]
    std_errors: np.ndarray  # [N, P, K]; NaN where the draws leave no degree of freedom
    dof: np.ndarray  # [N, K], degrees of freedom of the standard errors, for t quantiles
    heavy: np.ndarray | None = None  # bool [N], see `heavy_tail`; None: it is not looked at


SHARE = 0.01  # of the draws, the largest
CARRIED = 0.5  # of the variance
FEWEST = 20  # draws: of fewer normal ones a single one often is half of the sum of squares


def heavy_tail(terms: np.ndarray) -> np.ndarray:
    """Whether the largest hundredth of the draws, one at least, carries more than half of what the
    variance of an instance is estimated by; bool [N].

    terms: [N, D], what each draw adds to the sum of squares of all values. Where few rare draws
    decide, a run that lacks them has errors far too small. The largest of D = 20 squares of one
    normal number is more than half of their sum in D P(F(1, D - 1) > D - 1) = .7 % of cases at
    most, of sums over several values less often.
    """
    N, D = terms.shape
    if D < FEWEST:
        return np.zeros(N, bool)
    largest = np.sort(terms, axis=1)[:, D - math.ceil(SHARE * D) :].sum(axis=1)
    return largest > CARRIED * terms.sum(axis=1)


def stretches(N: int, numbers: int) -> list[slice]:
    """N instances cut so that a stretch at `numbers` per instance stays within the cache.

    What is computed for an instance never depends on where the cuts are.
    """
    step = max(1, (1 << 20) // max(1, numbers))
    return [slice(first, min(first + step, N)) for first in range(0, N, step)]
