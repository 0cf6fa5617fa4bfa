"""How far scikit-learn's stopping point is from the minimum, and when that must be told.

`LogisticRegression()` stops where no entry of the gradient of the mean loss is above 1e-4. For one
column of mean m and standard deviation s the Hessian of the mean loss is about v [[1, m], [m, m^2 +
s^2]], v = p (1 - p) with p the share of the class, so the standardised slope (slope times s) may
still be off by 1e-4 (1 + |m|) / (v s): little for most columns, everything where the mean is large
or the unit tiny. The line search gives up earlier still where the two entries differ in size too
much. Letters: R rows, or distinct values with their weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax.core import checks
from xaijax_kernels.collinearity.newton import newton

# Of the slope at the minimum. In raw units of ordinary tables the solver ends within 3 %.
SHARE = 0.05
# Of the standard error of a slope of 0: a slope this close to 0 has no digit, nor a sign, to lose.
ERRORS = 0.5
# A Newton step of this size leaves an error of about its square, far below both of these.
CLOSE = 1e-2
NAMED = 10  # columns in a warning


@dataclass(frozen=True)
class Far:
    """A slope that is far from the minimum."""

    fit: str  # the column, by name
    stopped: float  # slopes per unit of the column, or of its spread if standardised
    minimum: float


def minimum(
    z: np.ndarray,  # [R], the standardised column
    y: np.ndarray,  # [R], 0 or 1
    weights: np.ndarray | None,  # [R]; None: all 1
    start: tuple[float, float],  # intercept and slope where the solver stopped
    penalty: float,  # of half the squared slope
) -> np.ndarray:
    """Intercept and slope [2] at the minimum, to about `CLOSE` squared.

    The first Newton step is the check: one pass over the rows where it is small, as it mostly is.
    In NumPy: a compiled kernel costs more than this where few rows are fitted, and shapes differ.
    """
    total = np.ones(len(z)) if weights is None else weights

    def sums(theta: np.ndarray) -> np.ndarray:
        """Gradient and Hessian, [1, 5], as `xaijax_kernels.collinearity.newton.fit_sums`."""
        eta = theta[0, 0] + theta[0, 1] * z
        e = np.exp(-np.abs(eta))
        missed = total * (np.where(eta >= 0, 1.0, e) / (1 + e) - y)
        curve = total * e / (1 + e) ** 2
        bent = curve * z
        return np.array([[missed.sum(), missed @ z, curve.sum(), bent.sum(), bent @ z]])

    return newton(sums, np.array([start]), np.array([penalty]), close=CLOSE).theta[0]


def is_far(stopped: float, reached: float, positive: float, weight: float, penalty: float) -> bool:
    """Whether a standardised slope is far from the one at the minimum, `reached`.

    It is where the distance is above `SHARE` of the slope and above `ERRORS` standard errors of a
    slope of 0. There the loss has the curvature J = weight p (1 - p), and J is the variance of its
    gradient too; the penalty adds to the curvature only, so the error is sqrt(J) / (J + penalty).
    That of the slope itself is no measure: it shrinks with the rows, and has no end where the
    classes are separated.

    positive, weight: the weight of the class, and of all rows.
    """
    J = positive * (1 - positive / weight)
    noise = np.sqrt(J) / (J + penalty)
    return bool(abs(reached - stopped) > max(SHARE * abs(reached), ERRORS * noise))


def tell(far: list[Far]) -> None:
    """One warning that names the columns and both slopes."""
    if not far:
        return
    named = [f"{one.fit} ({one.stopped:.3g}, {one.minimum:.3g})" for one in far[:NAMED]]
    more = f" and {len(far) - NAMED:,} more" if len(far) > NAMED else ""
    checks.warn(
        "solver='sklearn': the logistic fit of y stopped far from its minimum on (slope where it "
        f"stopped, slope at the minimum): {', '.join(named)}{more}. The size and the sign of these "
        "effects are those of an unfinished fit; bootstrap errors are of the minimum. Say "
        "solver='newton' for the minimum, or standardize=True for a list that does not depend on "
        "units."
    )
