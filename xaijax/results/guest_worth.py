"""`GuestWorth`: what the parties of a split table contribute to a model.

Letters: N instances, m guests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core.public import public_class
from xaijax.results.convert import frame_of


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class GuestWorth:
    """Holds the worth of each party's columns: for a model's answers, and for its score.

    `FederatedExplainer.worth` makes it, for a table whose columns belong to a host and m guests.
    The value of a party is its Shapley value, or that of another index. For a guest it is the value
    of its columns as one player, for the host the sum of its columns' values.

    Attributes:
        parties: "host", then the names of the guests; [m + 1].
        mean_absolute: float64 [m + 1]. Mean of |value| over the instances.
        mean_value: float64 [m + 1]. Mean of the value, with its sign.
        standard_errors: float64 [m + 1]. Standard errors of `mean_absolute`. They are meaningful
            only if the instances are a sample of many. NaN for one instance.
        metric: name of the score: "accuracy", or that of the function.
        score: float. Score of the model with all columns.
        score_without: float64 [m]. Score of the model with the guest's columns at the reference.
        score_refitted: float64 [m]. Score of a model that was trained without the guest's columns.
            NaN for a guest for which no such model was given.
        instances: N, the number of rows that are averaged.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> def f(X):
        ...     return X[:, 0] + X[:, 1]
        >>> model = xj.as_model(f, threshold=1.5)
        >>> federated = xj.FederatedExplainer(model, np.zeros((1, 2)), guests={"bank": [1]})
        >>> worth = federated.worth(np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), [1, 0, 0])
        >>> worth.mean_absolute.round(3)
        array([0.667, 0.667])
        >>> worth.score, worth.score_without.round(3)
        (1.0, array([0.667]))

        Without the bank's column the model answers 0 for all three rows, which is wrong once.
    """

    parties: tuple[str, ...]
    mean_absolute: np.ndarray
    mean_value: np.ndarray
    standard_errors: np.ndarray
    metric: str
    score: float
    score_without: np.ndarray
    score_refitted: np.ndarray
    instances: int

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
        """Returns a pandas DataFrame, one row per party; needs `pip install "xaijax[data]"`."""
        columns = {
            "mean_absolute": self.mean_absolute,
            "standard_error": self.standard_errors,
            "mean_value": self.mean_value,
            "score_without": np.append(np.nan, self.score_without),
            "score_refitted": np.append(np.nan, self.score_refitted),
        }
        return frame_of(columns, [self.parties], ["party"])
