"""What is taken away before numbers become float32: from columns, and from the answers.

A column of 1e4 +- 1 has three digits of its +- 1 left in float32, answers of 1e6 +- 1 one. Where
that shows in the comparison with the estimator, the translation is made once more for rows and
answers less what they have in common: it is subtracted in float64 from the rows before they are
numbers for JAX, and from the fitted numbers; what was taken from the answers is added on the host,
in float64 (`Model.offset`). Ordinary models never come to this.

Letters: M rows, F columns, K outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Centre:
    """The middle of the columns and of the answers, of the first rows that were compared."""

    columns: np.ndarray  # float64 [F]; 0 where little would be gained, or a column has no numbers
    answer: np.ndarray  # float64 [] or [K]
    taken: bool = False  # whether a translation took `answer` from its own


def middle_of(column: Any) -> float:
    """The mean of a column of numbers [M] where it is large beside what they differ by, else 0."""
    values = np.asarray(column, np.float64)
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0
    mean = float(values.mean())
    return mean if abs(mean) > np.ptp(values) else 0.0
