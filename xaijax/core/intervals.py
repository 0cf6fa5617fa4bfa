"""Confidence intervals from standard errors and their degrees of freedom."""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError


def checked_level(level: Any, name: str = "level") -> float:
    """A number between 0 and 1; raises InputError or InputTypeError for another."""
    if isinstance(level, bool) or not isinstance(level, int | float | np.integer | np.floating):
        raise InputTypeError(f"{name}: got {level!r}; pass a number between 0 and 1.")
    if not 0 < level < 1:
        raise InputError(f"{name}: got {level!r}; pass a number between 0 and 1, 0.95 say.")
    return float(level)


def half_widths_of(
    std_errors: np.ndarray | None, shape: tuple[int, ...], exact: Any, dof: Any, level: Any
) -> np.ndarray:
    """Those of a result's values, of this shape [N, ...]: 0 where exact, NaN where unknown.

    exact: whether all are, or [N]; dof: [N] where it is known, else anything: then the normal
    quantile is taken. Raises what `checked_level` raises.
    """
    chance = checked_level(level)
    if std_errors is None:
        each = np.where(exact, 0.0, np.nan)
        return np.broadcast_to(each.reshape(each.shape + (1,) * (len(shape) - 1)), shape).copy()
    known = isinstance(dof, np.ndarray) and dof.ndim > 0 and len(dof) == shape[0]
    return half_widths(std_errors, dof if known else np.inf, chance)


def half_widths(std_errors: np.ndarray, dof: Any, level: float = 0.95) -> np.ndarray:
    """Half of each interval by Student's t; NaN where there is no degree of freedom.

    Args:
        std_errors: any shape whose first axes are those of dof.
        dof: degrees of freedom, a number or [N]; infinite: the normal quantile.
        level: the interval's coverage, within 0 and 1.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - `import xaijax` does not load scipy

    dof = np.asarray(dof, float)
    t = np.where(dof > 0, stdtrit(np.maximum(dof, 1e-9), (1 + level) / 2), np.nan)
    return std_errors * t.reshape(t.shape + (1,) * (std_errors.ndim - t.ndim))
