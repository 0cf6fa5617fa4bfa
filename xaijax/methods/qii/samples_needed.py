"""How many draws a guarantee needs."""

from __future__ import annotations

import math

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public


@public
def samples_needed(
    epsilon: float, delta: float, width: float = 2.0, indices: int = 1, rates: int = 1
) -> int:
    """How many draws make |estimate - value| < epsilon with chance at least 1 - delta.

    By Hoeffding's inequality, for n independent draws in an interval of this width,

        n >= width^2 log(2 / delta) / (2 epsilon^2).

    Args:
        epsilon: float above 0. The largest error that is wanted.
        delta: float between 0 and 1. The chance that the error may be larger.
        width: float above 0. 1 for a rate, or for the influence of a set on one individual: scores
            lie in [0, 1], and Q(nothing replaced) is known. 2 for marginal influences and for
            Shapley and Banzhaf values, whose draws lie in [-1, 1].
        indices: int. Values that are to hold at once; each gets delta / indices.
        rates: int. Rates that a value is made of, 2 for a disparity. Each gets epsilon / rates and
            delta / rates.

    Returns:
        The number of draws, for `samples` of `QII`.

    Raises:
        InputError, InputTypeError: a number that is not accepted, or more draws than float64
            can count.

    Example:
        >>> import xaijax as xj
        >>> xj.samples_needed(epsilon=0.01, delta=0.05)
        73778
        >>> xj.samples_needed(epsilon=0.01, delta=0.05, width=1)
        18445

    The QII paper (V-B) writes the width without its square. Its 37,000 draws at epsilon = 0.01
    leave delta = 0.31 for width 2.

    References:
        Hoeffding, "Probability inequalities for sums of bounded random variables" (1963). Datta,
        Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE S&P 2016),
        section V-B.
    """
    epsilon, width = checks.positive(epsilon, "epsilon"), checks.positive(width, "width")
    delta = checks.positive(delta, "delta")
    if delta >= 1:
        raise InputError(f"delta must be between 0 and 1, got {delta!r}.")
    indices = checks.whole_number(indices, "indices")
    rates = checks.whole_number(rates, "rates")
    try:
        share = delta / (indices * rates)
        return math.ceil(width**2 * math.log(2 / share) / (2 * (epsilon / rates) ** 2))
    except (ArithmeticError, ValueError):  # 0, infinity, or a whole number beyond the floats
        raise InputError(
            f"epsilon={epsilon:g}, delta={delta:g}, width={width:g}: more draws than floats can "
            "count. Give a larger epsilon or delta, or fewer indices or rates."
        ) from None
