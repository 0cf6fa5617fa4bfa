"""What privacy costs: how often the noise is larger than what a report should tell.

Section VII-D of the paper prints such shares; no Laplace reading of its text gives them. The
formula that does, to the digits printed, is 2 exp(-2 t m): the scale was inverted and the tail
doubled.

Letters: m rows in the smaller of a group and the rest, t the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xaijax import _checks
from xaijax._errors import InputError
from xaijax._public import public
from xaijax.privacy.amounts import positive

ADULT = 32561  # rows of the paper's table
THRESHOLD = 0.005

# (group, its rows, what the paper prints)
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
    """One group of the table of section VII-D."""

    group: str
    rows: int
    paper: float  # as printed
    behind: float  # 2 exp(-2 t m), which the printed numbers come from
    correct: float  # exp(-t m / 2): Laplace noise of scale 2 / m, as the text says
    halved: float  # exp(-t m): Laplace noise of scale 1 / m


@public
def loss_in_utility(
    sensitivity: float, epsilon: float = 1.0, threshold: float = THRESHOLD
) -> float:
    """P(|noise| > threshold) = exp(-threshold epsilon / sensitivity), of Laplace noise.

    The share of releases in which the noise alone is larger than `threshold`.

    Raises InputError, InputTypeError for numbers that are not finite and above 0.
    """
    size = positive(sensitivity, "sensitivity")
    ratio = positive(threshold, "threshold") * positive(epsilon, "epsilon") / size
    return math.exp(-ratio)


@public
def loss_table(rows: int = ADULT, threshold: float = THRESHOLD) -> tuple[LossRow, ...]:
    """The table of section VII-D: the paper's column, the formula behind it, the correct one.

    For disparity between a group and the rest of `rows` records, epsilon = 1. The White row of the
    paper matches its formula with 31,000 records in place of 32,561 only.
    """
    n = _checks.whole_number(rows, "rows", least=1)
    t = positive(threshold, "threshold")
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
