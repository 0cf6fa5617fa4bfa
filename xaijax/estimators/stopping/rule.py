"""`Rule`: which instances have been sampled enough; `Look`: what it sees of them at a check.

Letters: n instances that still go on, D pairs drawn, P players or sets of them, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from xaijax.estimators.result import Result

# (instances, pairs) -> what each of these pairs alone says of the values, [n', d, P, K]
Estimates = Callable[[slice, slice], np.ndarray]


@dataclass(frozen=True)
class Look:
    """The state of a run at one check. All instances that go on have the same pairs."""

    number: int  # of the check, from 1
    most: int  # checks that there are if the budget is used up; fixed before the first
    pairs: int  # D
    result: Result  # values and standard errors [n, P, K]
    low: np.ndarray  # [n], the smallest v(S) asked, the two ends among them
    high: np.ndarray  # [n], the largest
    resolution: np.ndarray  # [n], what rounding may add to a value: differences below say nothing
    estimates: Estimates | None  # None: the units drawn are not independent pairs


class Rule(Protocol):
    """Says at each check who stops. Company must change no answer: it is of each instance alone."""

    @property
    def checks(self) -> int:
        """Checks while the number of pairs doubles: 1 or 2."""
        ...

    def bound(self, independent: bool) -> str:
        """By what its claims hold: "asymptotic", "bounded" or "checks"; independent: the pairs."""
        ...

    def met(self, look: Look) -> np.ndarray:
        """Which instances have been sampled enough, bool [n]."""
        ...

    def unmet(self, count: int, of: int, budget: int) -> str:
        """What is said where this many of the sampled instances used their budget up before."""
        ...
