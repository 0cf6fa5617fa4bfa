"""What a way would ask for, told before it does.

Letters: n instances.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xaijax.games.engine.compiled import Recipe


@dataclass(frozen=True)
class Coming:
    """Of some instances."""

    rows: np.ndarray  # int64 [n], model rows of each
    calls: int  # of the model, for all of them
    recipes: list[Recipe] = field(default_factory=list)  # programs that they run
