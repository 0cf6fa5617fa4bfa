"""Proxies: inputs that carry a disparity without being the protected ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xaijax._explanation import Explanation


class Proxy(NamedTuple):
    """One input and its influence on the disparity."""

    name: str
    influence: float
    std_error: float | None  # None: exact


def ranked(found: Explanation, left: np.ndarray) -> tuple[Proxy, ...]:
    """The players left [P] of a disparity's influences [1, P], largest first."""
    values = found.values[0]
    errors = found.std_errors
    order = [i for i in np.argsort(-values, kind="stable") if left[i]]
    return tuple(
        Proxy(
            found.feature_names[i],
            float(values[i]),
            None if errors is None else float(errors[0, i]),
        )
        for i in order
    )
