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
Estimates = Callable[[slice | np.ndarray, slice], np.ndarray]


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

    def of(self, rows: np.ndarray) -> Look:
        """Of some instances, int [n']."""
        r, own = self.result, self.estimates
        ask = None if own is None else lambda some, pairs: own(rows[some], pairs)
        result = Result(r.values[rows], r.std_errors[rows], r.dof[rows])
        of_each = self.low[rows], self.high[rows], self.resolution[rows]
        return Look(self.number, self.most, self.pairs, result, *of_each, ask)


class Contesting(Protocol):
    """Instances of which a few players alone are asked; see `Contest`."""

    k: int  # players that are claimed to be the largest
    players: np.ndarray  # int [n, E], who may be asked
    place: np.ndarray  # int [n, P], where a player stands among them; -1: nowhere

    @property
    def counts(self) -> np.ndarray:
        """Pairs in which each player was asked, int64 [n, P]."""
        ...

    def add(self, rows: np.ndarray, who: np.ndarray, pairs: np.ndarray) -> None:
        """What pairs say, [n', d, a, K], of `players[rows, who]`; who int [n', a]."""
        ...

    def undecided(self) -> np.ndarray:
        """As of a rule."""
        ...

    def safe(self, undecided: np.ndarray) -> np.ndarray:
        """Which instances hang on nobody who is not asked, whoever of these wins; bool [n]."""
        ...

    def values(self) -> np.ndarray:
        """[n, P, K]"""
        ...

    def std_errors(self) -> np.ndarray:
        """Of these, [n, P, K]."""
        ...


class Rule(Protocol):
    """Says at each check who stops. Company must change no answer: it is of each instance alone."""

    @property
    def checks(self) -> int:
        """Checks while the number of pairs doubles: 1 or 2."""
        ...

    def bound(self, independent: bool) -> str:
        """By what its claims hold: "asymptotic", "bounded" or "checks"; independent: the pairs."""
        ...

    def undecided(self, look: Look) -> np.ndarray:
        """Of which players not enough is known, bool [n, P]; an instance with none stops."""
        ...

    def contest(self, look: Look, rows: np.ndarray, undecided: np.ndarray) -> Contesting | None:
        """How the instances `rows` [n'] go on if only their undecided players, bool [n', P], are
        asked; None: all are, always.
        """
        ...

    def unmet(self, count: int, of: int, budget: int) -> str:
        """What is said where this many of the sampled instances used their budget up before."""
        ...
