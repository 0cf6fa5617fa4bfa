"""How many draws a guarantee needs."""

from __future__ import annotations

import math
from typing import Any

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError
from xaijax._public import public


@public
def samples_needed(
    epsilon: float, delta: float, width: float = 2.0, indices: int = 1, rates: int = 1
) -> int:
    """Draws after which |estimate - value| < epsilon with chance at least 1 - delta (Hoeffding).

    n >= width^2 log(2 / delta) / (2 epsilon^2), for independent draws in an interval of this width.
    The QII paper (V-B) has the width unsquared; its 37,000 draws at epsilon = 0.01 leave delta =
    0.31 for width 2.

    Arguments:
        epsilon: above 0. delta: between 0 and 1.
        width: 1 for a rate or a set's influence on one individual (scores in [0, 1], and Q(nothing
            replaced) is known), 2 for marginal influences, Shapley and Banzhaf values.
        indices: values that are to hold at once; each has delta / indices.
        rates: rates that a value is made of, 2 for a disparity: each has epsilon / rates and
            delta / rates.

    Raises InputError and InputTypeError for numbers out of range.
    """
    epsilon, width = _positive(epsilon, "epsilon"), _positive(width, "width")
    delta = _positive(delta, "delta")
    if delta >= 1:
        raise InputError(f"delta must be between 0 and 1, got {delta!r}.")
    indices = _checks.whole_number(indices, "indices")
    rates = _checks.whole_number(rates, "rates")
    try:
        share = delta / (indices * rates)
        return math.ceil(width**2 * math.log(2 / share) / (2 * (epsilon / rates) ** 2))
    except (ArithmeticError, ValueError):  # 0, infinity, or a whole number beyond the floats
        raise InputError(
            f"epsilon={epsilon:g}, delta={delta:g}, width={width:g}: more draws than floats can "
            "count. Give a larger epsilon or delta, or fewer indices or rates."
        ) from None


def _positive(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputTypeError(f"{name} must be a number above 0, got {value!r}.")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond the floats
        number = math.inf
    if not 0 < number < math.inf:
        shown = repr(value) if number == value else "one beyond the floats"
        raise InputError(f"{name} must be a finite number above 0, got {shown}.")
    return number
