"""`Estimator`: the base of the sampled estimators; `Result`: what they return.

A new estimator is a subclass in a file of its own, and an entry of `METHODS` in `driver.py`. It
knows no game and asks no model. It draws in units: antithetic pairs of permutations, or of
coalitions.

Letters: N instances, P players, C coalitions, K outputs, D draws.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

SHARE = 0.01  # of the draws, the largest
CARRIED = 0.5  # of the variance
FEWEST = 20  # draws: of fewer normal ones a single one often is half of the sum of squares


class Result(NamedTuple):
    """Values with their standard errors, float64."""

    values: np.ndarray  # [N, P, K]
    std_errors: np.ndarray  # [N, P, K]; NaN if the draws leave no degree of freedom
    dof: np.ndarray  # [N, K], degrees of freedom of the standard errors, for t quantiles
    heavy: np.ndarray | None = None  # bool [N], see `heavy_tail`; None: not computed


class SamplingCost(NamedTuple):
    """What a budget takes in addition to the model."""

    held: float  # bytes on the host of all that is drawn
    once: float  # operations of a core to draw it
    each: float  # operations of a core at the answers of an instance and an output


class Estimator(ABC):
    """A sampled estimator. Its state is what it has drawn so far: any object with `pairs`, the
    number of units; with `drawn`, orders, if a first layer may scan them.

    `index` is an `Index`, or an `InteractionIndex` if the estimator samples pairs of players.
    """

    # Whether the units are independent draws, each with values of its own, and the values their
    # mean. A confidence sequence over them then holds whenever an instance stops.
    independent: ClassVar[bool] = False
    # Why interactions are not sampled if a user names this estimator; None: they are.
    no_interactions: ClassVar[str | None] = None
    reports_tails: ClassVar[bool] = False  # whether `Result.heavy` is computed

    @abstractmethod
    def smallest_budget(self, P: int, index: Any) -> int:
        """The fewest coalitions of an instance that determine its values."""

    @abstractmethod
    def units(self, P: int, index: Any, budget: int) -> int:
        """The most units that are drawn within the budget."""

    @abstractmethod
    def first_stop(self, P: int) -> int:
        """Units at the first checkpoint of a run that may stop early."""

    @abstractmethod
    def cost(self, P: int, index: Any, budget: int, K: int) -> SamplingCost:
        """What a budget takes in addition to the model; K outputs."""

    @abstractmethod
    def init(self, P: int, index: Any, budget: int, seed: int) -> Any:
        """The state with nothing drawn yet."""

    @abstractmethod
    def step(self, state: Any, units: int, /) -> tuple[Any, np.ndarray]:
        """(the state with `units` units drawn, what is new in it); steps draw what one would."""

    @abstractmethod
    def result(self, state: Any, answers: np.ndarray, moves: np.ndarray | None = None) -> Result:
        """Values and standard errors.

        answers: v of the empty and of the full coalition, then of all that were drawn, in their
        order; [N, 2 + C, K]. moves: which players change anything, bool [N, P]; None: all.
        """

    def estimates(self, state: Any, answers: np.ndarray, units: slice, /) -> np.ndarray:
        """The values [N, D, P, K] that each of some independent units alone gives.

        answers: as for `result`, minus v of the empty coalition.
        """
        raise NotImplementedError

    def masks(self, state: Any, new: np.ndarray, /) -> np.ndarray:
        """The coalitions of a part of what is new, bool [C, P]; `new` itself unless overridden."""
        return new

    def count(self, P: int) -> int:
        """How many values an instance has: one a player unless overridden."""
        return P

    def scans_orders(self, index: Any) -> bool:
        """Whether a first layer may scan the orders drawn: `step` then returns cuts as
        `Permutation.step` does.
        """
        return False


def heavy_tail(terms: np.ndarray) -> np.ndarray:
    """Whether the largest hundredth of the draws, one at least, carries more than half of what the
    variance of an instance is estimated by; bool [N].

    terms: [N, D], what each draw adds to the sum of squares of all values. If few rare draws
    decide, a run that lacks them has errors far too small. The largest of D = 20 squares of one
    normal number is more than half of their sum in D P(F(1, D - 1) > D - 1) = .7 % of cases at
    most, of sums over several values less often.
    """
    N, D = terms.shape
    if D < FEWEST:
        return np.zeros(N, bool)
    largest = np.sort(terms, axis=1)[:, D - math.ceil(SHARE * D) :].sum(axis=1)
    return largest > CARRIED * terms.sum(axis=1)


def chunks(N: int, numbers: int) -> list[slice]:
    """N instances cut so that a chunk at `numbers` per instance stays within the cache.

    What is computed for an instance never depends on where the cuts are.
    """
    step = max(1, (1 << 20) // max(1, numbers))
    return [slice(first, min(first + step, N)) for first in range(0, N, step)]
