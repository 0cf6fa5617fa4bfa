"""The scheme of Wang (2019): one row at a time, all coalitions, weighted least squares.

After section 4 and the reading of the authors' notebook: every row asks the model for all 2^P
coalitions in one call and solves inv(X'WX) X'Wy with end weight 10,000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np


def explainer(
    predict: Callable[[np.ndarray], np.ndarray],
    reference: np.ndarray,
    groups: Sequence[Sequence[int]],
    end_weight: float = 1e4,
) -> Callable[[np.ndarray], np.ndarray]:
    """Return rows [N, F] -> values [N, P]; groups: the columns of each player."""
    P, F = len(groups), len(reference)
    members = (np.arange(1 << P)[:, None] >> np.arange(P) & 1).astype(bool)  # [2^P, P]
    size = members.sum(axis=1)
    weight = np.full(1 << P, end_weight)
    for s in range(1, P):
        weight[size == s] = (P - 1) / (math.comb(P, s) * s * (P - s))
    design = np.column_stack([members.astype(float), np.ones(1 << P)])
    owner = np.empty(F, int)
    for player, columns in enumerate(groups):
        owner[list(columns)] = player
    kept = members[:, owner]  # [2^P, F]

    def explain(rows: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), P))
        for n, x in enumerate(rows):
            answers = predict(np.where(kept, x, reference))
            normal = design.T * weight @ design
            out[n] = (np.linalg.inv(normal) @ (design.T * weight @ answers))[:P]
        return out

    return explain
