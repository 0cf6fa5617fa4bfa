"""What the sampled estimators share.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Result(NamedTuple):
    """Values with their standard errors, float64."""

    values: np.ndarray  # [N, P, K]
    std_errors: np.ndarray  # [N, P, K]; NaN where the draws leave no degree of freedom
    dof: np.ndarray  # [N, K], degrees of freedom of the standard errors, for t quantiles


def stretches(N: int, numbers: int) -> list[slice]:
    """N instances cut so that a stretch at `numbers` per instance stays within the cache.

    What is computed for an instance never depends on where the cuts are.
    """
    step = max(1, (1 << 20) // max(1, numbers))
    return [slice(first, min(first + step, N)) for first in range(0, N, step)]
