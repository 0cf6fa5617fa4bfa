"""What a way would ask for, told before it does; and the form of what it finds.

Letters: n instances, C coalitions, K scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xaijax.games.engine.compiled import Recipe

Means = tuple[np.ndarray, np.ndarray]  # (instances int [n], means over donors float64 [n, C, K])


@dataclass(frozen=True)
class Coming:
    """Of some instances."""

    rows: np.ndarray  # int64 [n], model rows of each
    calls: int  # of the model, for all of them
    recipes: list[Recipe] = field(default_factory=list)  # programs that they run
