"""Quantities of interest of QII, by name and as objects; `xaijax.quantities`.

Which score a hybrid has, over whom it is averaged, and what is made of the groups' means (QII
paper, section II, equations 3 to 8; the spec's 2.2). Influence is Q(nothing replaced) - Q(S).

Letters: R rows, A answers, G groups, C coalitions, K scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax._errors import InputError, InputTypeError
from xaijax._public import public_class
from xaijax.games.quantity import RowScore

WHOM = ("individual", "all", "members", "members and rest")


@public_class
@dataclass(frozen=True)
class Interest:
    """A quantity of interest.

    Arguments:
        name: for reports.
        whom: "individual": one person, each row of X by itself; "all": the mean over the data;
            "members": over the members; "members and rest": two means.
        agrees: the score is 1 where the decided class is that of the original row, else 0; False:
            by `outcome=` of `QII`.
        score: a function of its own, in place of both: score(answers [R, A], own [R, A]) -> [R],
            `own` being the answers to the original rows. For outcome="label" an answer is
            the number of the decided class among the model's classes. JAX models trace it.
        combine: two means -> one: a function of [2, C, K] that returns [C, K].
        words: what it is, for a person.
    """

    name: str
    whom: str = "individual"
    agrees: bool = False
    score: RowScore | None = None
    combine: Callable[[np.ndarray], np.ndarray] | None = None
    words: str = ""

    def __post_init__(self) -> None:
        if self.whom not in WHOM:
            raise InputError(f"whom must be one of {list(WHOM)}, got {self.whom!r}.")
        for key in ("score", "combine"):
            given = getattr(self, key)
            if given is not None and not callable(given):
                raise InputTypeError(f"{key} must be a function, got {type(given).__name__}.")

    @property
    def of_members(self) -> bool:
        """Whether members= says whom it is about."""
        return self.whom in ("members", "members and rest")

    @property
    def of_data(self) -> bool:
        """Whether it is one number for the whole data."""
        return self.whom != "individual"


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

_KNOWN = {one.name: one for one in (individual, actual, average, rate, group, disparity, ratio)}


def interest_of(quantity: Any) -> Interest:
    """Read the `quantity=` argument: a name, an `Interest`, or a score of one individual."""
    if isinstance(quantity, Interest):
        return quantity
    if isinstance(quantity, str):
        if quantity not in _KNOWN:
            raise InputError(
                f"quantity must be one of {list(_KNOWN)}, an xaijax.quantities object or a "
                f"callable, got {quantity!r}."
            )
        return _KNOWN[quantity]
    if callable(quantity):
        name = getattr(quantity, "__name__", "custom")
        return Interest(name, score=quantity, words=f"the mean of {name}")
    raise InputTypeError(
        f"quantity must be one of {list(_KNOWN)}, an xaijax.quantities object or a callable, got "
        f"{type(quantity).__name__}."
    )


def signed_gap() -> np.ndarray:
    """The factors of a signed disparity, group less rest: linear, so its semivalues are means."""
    return np.array([1.0, -1.0])
