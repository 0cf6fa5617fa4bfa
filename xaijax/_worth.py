"""`GuestWorth`: what the parties of a split table contribute to a model.

Letters: N instances, m guests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax._optional import require
from xaijax._public import public_class


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class GuestWorth:
    """For the host and m guests: their part of the answers; for the guests: of the score.

    `score_refitted` is NaN for a guest for which no refitted model was given.
    """

    parties: tuple[str, ...]  # "host", then the guests; [m + 1]
    mean_absolute: np.ndarray  # float64 [m + 1], mean over instances of |value|; host: of its sum
    mean_value: np.ndarray  # float64 [m + 1], the same with the sign
    standard_errors: np.ndarray  # float64 [m + 1], of mean_absolute, the instances being a sample
    metric: str
    score: float  # of the model with all columns
    score_without: np.ndarray  # float64 [m], the guest's columns at the reference
    score_refitted: np.ndarray  # float64 [m], models that never saw the guest's columns
    instances: int  # N

    def __repr__(self) -> str:
        lines = [f"{self.metric} {self.score:.4f} with all columns, {self.instances:,} instances"]
        for g, name in enumerate(self.parties):
            line = f"{name}: mean |value| {self.mean_absolute[g]:.4g}"
            if g:
                line += f"; {self.metric} without it {self.score_without[g - 1]:.4f}"
                if np.isfinite(self.score_refitted[g - 1]):
                    line += f", refitted {self.score_refitted[g - 1]:.4f}"
            lines.append(line)
        return "\n".join(lines)

    def to_dataframe(self) -> Any:
        """A pandas DataFrame, one row per party; needs `pip install "xaijax[data]"`."""
        pandas = require("pandas", "xaijax[data]")
        return pandas.DataFrame(
            {
                "mean_absolute": self.mean_absolute,
                "standard_error": self.standard_errors,
                "mean_value": self.mean_value,
                "score_without": np.append(np.nan, self.score_without),
                "score_refitted": np.append(np.nan, self.score_refitted),
            },
            index=pandas.Index(self.parties, name="party"),
        )
