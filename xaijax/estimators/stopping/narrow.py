"""Every value of an instance is known to within a tolerance, each by itself.

Letters: n instances, P players or sets of them, K outputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from xaijax.core.intervals import half_widths
from xaijax.core.sequences import time_uniform_quantile
from xaijax.estimators.stopping.rule import Look


def narrow(tolerance: float | None) -> Narrow | None:
    """The rule of `tolerance=`; None: there is none."""
    return None if tolerance is None else Narrow(tolerance)


@dataclass(frozen=True)
class Narrow:
    """Stops an instance where no value may be further off than the tolerance.

    Each value is within it with the chance `confidence` at least, whenever its instance stops: by a
    confidence sequence over independent pairs; else by an interval at each check, whose misses add
    up to 1 - confidence over all the checks that there may be.
    """

    tolerance: float
    confidence: float = 0.95

    @property
    def checks(self) -> int:
        """One: where the misses are shared out, each further check makes all of them wider."""
        return 1

    def bound(self, independent: bool) -> str:
        """By what it holds."""
        return "asymptotic" if independent else "checks"

    def met(self, look: Look) -> np.ndarray:
        """Where all half-widths are within the tolerance, bool [n]."""
        return ~self.undecided(look).any(axis=1)

    def undecided(self, look: Look) -> np.ndarray:
        """The players whose half-widths [n, P, K] are not within the tolerance, bool [n, P]."""
        errors, missed = look.result.std_errors, 1 - self.confidence
        if look.estimates is not None:
            quantile = time_uniform_quantile(look.pairs, missed)
            if math.isinf(quantile):  # nothing is known of so few pairs, also if they are all equal
                return np.ones(errors.shape[:2], bool)
            wide = errors * quantile
        else:
            level = 1 - missed / look.most
            wide = half_widths(errors, look.result.dof.min(axis=1), level)
        return ~(wide <= self.tolerance).all(axis=2)

    def contest(self, look: Look, rows: np.ndarray, undecided: np.ndarray) -> None:
        """None: all players are asked to the end."""

    def unmet(self, count: int, of: int, budget: int) -> str:
        """What is said where the budget ended first."""
        return (
            f"tolerance={self.tolerance:g} is not met by {count:,} of {of:,} sampled instances "
            f"within budget={budget:,}; their std_errors say how far. Raise budget= or tolerance=."
        )
