"""What a search found, array by array.

Letters: N instances, F columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Found:
    """What was found; every array begins with the axis N."""

    rules: np.ndarray  # bool [N, F]
    precision: np.ndarray  # float64 [N]
    lower: np.ndarray  # float64 [N]; NaN: no bound
    error: np.ndarray  # float64 [N], standard error of precision; NaN: exact
    cover: np.ndarray  # float64 [N]
    accepted: np.ndarray  # bool [N]
    samples: np.ndarray  # int64 [N]
    rounds: int = 0
    widened: int = 0  # rules that came out wider

    @classmethod
    def empty(cls, N: int, F: int) -> Found:
        """Nothing yet."""
        lost = np.full(N, np.nan)
        zero = np.zeros(N, np.int64)
        held = np.zeros(N, bool)
        return cls(np.zeros((N, F), bool), lost, lost.copy(), lost.copy(), lost.copy(), held, zero)
