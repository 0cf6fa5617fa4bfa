"""Quantities of interest of `QII`, by name and as objects: `xaijax.quantities`.

A quantity of interest says which score a model row has, over whom the score is averaged, and how
two means become one number. The influence of a set S of players is Q(nothing replaced) - Q(S).
The objects, with the equations of Datta, Sen and Zick (2016), section II:

    individual  the chance of the positive class for one person (3)
    actual      the chance that one person's class stays the same (4)
    average     the mean of `actual` over the data (5)
    rate        the mean of `individual` over the data (11)
    group       the mean of `individual` over the members (6)
    disparity   the absolute difference between the means of the members and of the rest (7, 8)
    ratio       the mean of the members divided by that of the rest

Letters: R rows, A answers, G groups, C coalitions, K scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public_class
from xaijax.games.measure.score import RowScore

WHOM = ("individual", "all", "members", "members and rest")


@public_class
@dataclass(frozen=True)
class Interest:
    """Defines what `QII` measures: a score per model row, its averages, how means are combined.

    Args:
        name: str, for reports.
        whom: "individual": one person for each row of X. "all": the mean over the data.
            "members": the mean over the group. "members and rest": two means, combined into one
            number by `combine`.
        agrees: bool. True: the score is 1 if the decided class is that of the original row, else 0.
            False: `outcome` of `QII` says what the score is.
        score: None, or a function that replaces both: score(answers [R, A], own [R, A]) -> [R],
            with `own` the answers to the original rows. With outcome="label" an answer is the
            number of the decided class among the model's classes. JAX traces the function where the
            model runs in JAX, and it may also be called with NumPy arrays. Scores must lie in
            `bounds` of `QII`.
        combine: needed for "members and rest", and only for it: two factors of the two means, such
            as (1, -1) for the signed difference; or a function of means [2, C, K] that returns [C,
            K].
        words: str. What is measured, as a phrase for reports.

    Attributes:
        name, whom, agrees, score, combine, words: as given; two factors as a tuple of floats.
        of_members: whether `members` of `QII` is needed.
        of_data: whether the quantity is one number for the whole data.

    Raises:
        InputError, InputTypeError: an argument is not accepted or would have no effect.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> gap = xj.quantities.Interest("gap", whom="members and rest", combine=(1, -1))
        >>> data = np.array([[0, 0], [0, 1], [1, 1], [1, 1]])
        >>> model = xj.as_model(lambda X: X[:, 1] > 0, output="label")
        >>> xj.QII(model, data, quantity=gap, members={0: 1}).unary().values
        array([[0. , 0.5]])

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE
        S&P 2016), section II.
    """

    name: str
    whom: Literal["individual", "all", "members", "members and rest"] = "individual"
    agrees: bool = False
    score: RowScore | None = None
    combine: tuple[float, float] | Callable[[np.ndarray], np.ndarray] | None = None
    words: str = ""

    def __post_init__(self) -> None:
        for field in ("name", "words"):
            checks.text(getattr(self, field), field)
        checks.one_of(self.whom, "whom", list(WHOM))
        checks.yes_or_no(self.agrees, "agrees")
        if self.score is not None:
            checks.functions(self, "score")
            if self.agrees:
                raise InputError("score takes the place of agrees=True: leave one of them out.")
        if self.whom != "members and rest":
            if self.combine is not None:
                raise InputError(
                    f"combine makes one of two means, and whom={self.whom!r} has one. Leave it "
                    "out, or say whom='members and rest'."
                )
        elif self.combine is None:
            raise InputError(
                "combine is needed for whom='members and rest': two factors, as (1, -1) for the "
                "gap, or a function of [2, C, K] that returns [C, K]."
            )
        elif not callable(self.combine):
            object.__setattr__(self, "combine", _factors(self.combine))

    @property
    def of_members(self) -> bool:
        """Whether `members` of `QII` is needed."""
        return self.whom in ("members", "members and rest")

    @property
    def of_data(self) -> bool:
        """Whether the quantity is one number for the whole data."""
        return self.whom != "individual"


def _factors(combine: Any) -> tuple[float, float]:
    try:
        first, second = (float(factor) for factor in combine)
    except (TypeError, ValueError):
        raise InputTypeError(
            f"combine must be two numbers or a function of [2, C, K], got {combine!r}."
        ) from None
    if not np.isfinite([first, second]).all():
        raise InputError(f"combine must be finite, got {combine!r}.")
    return first, second


def _ratio(means: np.ndarray) -> np.ndarray:
    return means[0] / means[1]


def _gap(means: np.ndarray) -> np.ndarray:
    return np.abs(means[0] - means[1])


individual = Interest("individual", words="the chance of the positive outcome for this person")
actual = Interest(
    "actual", agrees=True, words="the chance that this person keeps the outcome received"
)
average = Interest(
    "average", "all", agrees=True, words="the share of people who keep the outcome they received"
)
rate = Interest("rate", "all", words="the share of people with the positive outcome")
group = Interest("group", "members", words="the share of the group with the positive outcome")
disparity = Interest(
    "disparity",
    "members and rest",
    combine=_gap,
    words="the difference between the group's and the other people's share of positive outcomes",
)
ratio = Interest(
    "ratio",
    "members and rest",
    combine=_ratio,
    words="the group's share of positive outcomes divided by the other people's",
)

KNOWN = {item.name: item for item in (individual, actual, average, rate, group, disparity, ratio)}


def interest_of(quantity: Any) -> Interest:
    """Reads the `quantity=` argument: a name, an `Interest`, or a score of one individual."""
    if isinstance(quantity, Interest):
        return quantity
    if callable(quantity):
        name = getattr(quantity, "__name__", "custom")
        return Interest(name, score=quantity, words=f"the mean of {name}")
    if isinstance(quantity, str) and quantity in KNOWN:
        return KNOWN[quantity]
    raise (InputError if isinstance(quantity, str) else InputTypeError)(
        f"quantity must be one of {list(KNOWN)}, an xaijax.quantities object or a callable, got "
        f"{checks.shown(quantity):.80}."
    )
