"""`Explanation`: values, base values, errors, and how they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Influence of P players on N instances (and K outputs), frozen.

    Holds no model and no game.
    """

    values: np.ndarray  # float64 [N, P] or [N, P, K]
    base_values: np.ndarray  # float64 [N] or [N, K]
    std_errors: np.ndarray | None = None  # like values; None when exact; NaN: no degree of freedom
    data: Any = None  # what was explained: array [N, *F], or the frame as given
    feature_names: tuple[str, ...] = ()  # [P], the players
    output_names: tuple[str, ...] | None = None  # [K]; None when values are [N, P]
    instance_names: tuple[str, ...] | None = None  # [N]
    exact: bool = True
    kind: str = "shapley"  # the index: "shapley" | "banzhaf" | ...
    stats: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
