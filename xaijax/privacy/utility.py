"""The cost of privacy: how often the noise is larger than what a report should show.

Section VII-D of the paper prints such shares; no Laplace reading of its text gives them. The
formula that does, to the digits printed, is 2 exp(-2 t m): the scale was inverted and the tail
doubled.

Letters: m rows in the smaller of a group and the rest, t the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public

ADULT = 32561  # rows of the paper's table
THRESHOLD = 0.005

# (group, its rows, the printed share)
PRINTED = (
    ("White", 27816, 2.97e-14),
    ("Black", 3124, 5.41e-14),
    ("Asian-Pac-Islander", 1039, 6.14e-5),
    ("Amer-Indian-Eskimo", 311, 0.08),
    ("Other", 271, 0.13),
    ("Male", 21790, 3.3e-47),
    ("Female", 10771, 3.3e-47),
)


@dataclass(frozen=True)
class LossRow:
    """One group of the paper's table of section VII-D, recomputed; `loss_table` makes it.

    It is about the disparity between the group and the rest. Each share is that of releases at
    epsilon 1 in which the noise alone is larger than the threshold t. The smaller of the group and
    the rest has m rows.

    Attributes:
        group: the group's name.
        rows: int. Its rows.
        paper: the share as printed.
        behind: 2 exp(-2 t m), the formula that the printed shares come from. It is not the tail of
            Laplace noise of the paper's scale: the scale is inverted and the tail doubled.
        correct: exp(-t m / 2), for Laplace noise of scale 2 / m, as the paper's text says.
        halved: exp(-t m), for Laplace noise of scale 1 / m.

    Example:
        >>> import xaijax as xj
        >>> row = xj.privacy.loss_table()[3]
        >>> row.group, row.rows, row.paper, round(row.behind, 3), round(row.correct, 3)
        ('Amer-Indian-Eskimo', 311, 0.08, 0.089, 0.46)

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE S&P
        2016), section VII-D.
    """

    group: str
    rows: int
    paper: float
    behind: float
    correct: float
    halved: float


@public
def loss_in_utility(
    sensitivity: float, epsilon: float = 1.0, threshold: float = THRESHOLD
) -> float:
    """Computes the share of releases in which the noise alone is larger than a threshold.

    It is P(|noise| > threshold) = exp(-threshold epsilon / sensitivity), for Laplace noise of scale
    sensitivity / epsilon.

    Args:
        sensitivity: float above 0. The most that one record can move the value.
        epsilon: float above 0.
        threshold: float above 0, in units of the value.

    Returns:
        A float between 0 and 1.

    Raises:
        InputError, InputTypeError: a number is not finite and above 0.

    Example:
        >>> import xaijax as xj
        >>> round(xj.privacy.loss_in_utility(0.1, epsilon=1.0, threshold=0.2), 3)
        0.135
    """
    size = checks.positive(sensitivity, "sensitivity")
    ratio = checks.positive(threshold, "threshold") * checks.positive(epsilon, "epsilon") / size
    return math.exp(-ratio)


@public
def loss_table(rows: int = ADULT, threshold: float = THRESHOLD) -> tuple[LossRow, ...]:
    """Recomputes the paper's table of the cost of privacy (section VII-D).

    For each group of Adult it gives the share of releases in which the noise of the disparity
    between the group and the rest is larger than the threshold, at epsilon 1: as printed, by the
    formula behind the printed numbers, and correctly. The group sizes are the paper's.

    Args:
        rows: int, above 27,816 (the largest group). Number of records of the whole table.
        threshold: float above 0.

    Returns:
        A `LossRow` for each of seven groups.

    Raises:
        InputError, InputTypeError: an argument is not accepted.

    Example:
        >>> import xaijax as xj
        >>> for row in xj.privacy.loss_table()[2:5]:
        ...     print(f"{row.group:18} {row.paper:.2e} {row.correct:.2e}")
        Asian-Pac-Islander 6.14e-05 7.45e-02
        Amer-Indian-Eskimo 8.00e-02 4.60e-01
        Other              1.30e-01 5.08e-01

    The White row of the paper matches its formula only with 31,000 records in place of 32,561.

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE S&P
        2016), section VII-D.
    """
    n = checks.whole_number(rows, "rows", least=1)
    t = checks.positive(threshold, "threshold")
    if n <= max(count for _, count, _ in PRINTED):
        raise InputError(f"rows must be more than the largest group has, 27816; got {rows}.")
    out = []
    for group, count, printed in PRINTED:
        m = min(count, n - count)
        out.append(
            LossRow(
                group=group,
                rows=count,
                paper=printed,
                behind=2 * math.exp(-2 * t * m),
                correct=loss_in_utility(2 / m, 1.0, t),
                halved=loss_in_utility(1 / m, 1.0, t),
            )
        )
    return tuple(out)
