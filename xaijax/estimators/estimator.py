"""`Estimator`: the base of the sampled estimators; `Result`: their results.

A new estimator is a subclass in its own file, and an entry of `METHODS` in `driver.py`. It uses
neither a game nor a model. It draws units: antithetic pairs of permutations, or of coalitions.

Letters: N instances, P players, C coalitions, K outputs, D draws.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

SHARE = 0.01  # share of the draws, the largest
CARRIED = 0.5  # share of the variance
FEWEST = 20  # draws: with fewer normal draws a single one is often half of the sum of squares


class Result(NamedTuple):
    """Values with their standard errors, float64."""

    values: np.ndarray  # [N, P, K]
    std_errors: np.ndarray  # [N, P, K]; NaN if the draws leave no degree of freedom
    dof: np.ndarray  # [N, K], degrees of freedom of the standard errors, for t quantiles
    heavy: np.ndarray | None = None  # bool [N], see `heavy_tail`; None: not computed


class SamplingCost(NamedTuple):
    """The cost of a budget, without that of the model."""

    held: float  # bytes on the host of all draws
    once: float  # operations of a core to draw it
    each: float  # operations of a core per instance and output


class Estimator(ABC):
    """A sampled estimator. Its state holds the draws so far: any object with `pairs`, the number of
    units, and with `drawn`, the orders, if a first layer may scan them.

    `index` is an `Index`, or an `InteractionIndex` if the estimator samples pairs of players.
    """

    # Whether the units are independent draws with their own values; the results are their means. A
    # confidence sequence over them then holds whenever an instance stops.
    independent: ClassVar[bool] = False
    # The reason why this estimator does not sample interactions; None: it does.
    no_interactions: ClassVar[str | None] = None
    reports_tails: ClassVar[bool] = False  # whether `Result.heavy` is computed

    @abstractmethod
    def smallest_budget(self, P: int, index: Any) -> int:
        """The smallest number of coalitions that determines an instance's values."""

    @abstractmethod
    def units(self, P: int, index: Any, budget: int) -> int:
        """The largest number of units within the budget."""

    @abstractmethod
    def first_stop(self, P: int) -> int:
        """Units at the first checkpoint of a run that may stop early."""

    @abstractmethod
    def cost(self, P: int, index: Any, budget: int, K: int) -> SamplingCost:
        """The cost of a budget, without that of the model; K outputs."""

    @abstractmethod
    def init(self, P: int, index: Any, budget: int, seed: int) -> Any:
        """The state with nothing drawn yet."""

    @abstractmethod
    def step(self, state: Any, units: int, /) -> tuple[Any, np.ndarray]:
        """(the state with `units` units drawn, its new units); several steps draw the same as
        one."""

    @abstractmethod
    def result(self, state: Any, answers: np.ndarray, moves: np.ndarray | None = None) -> Result:
        """Values and standard errors.

        answers: v of the empty and of the full coalition, then of all drawn ones in order; [N, 2 +
        C, K]. moves: players that change anything, bool [N, P]; None: all.
        """

    def estimates(self, state: Any, answers: np.ndarray, units: slice, /) -> np.ndarray:
        """The values [N, D, P, K] from each of the independent units alone.

        answers: as for `result`, minus v of the empty coalition.
        """
        raise NotImplementedError

    def masks(self, state: Any, new: np.ndarray, /) -> np.ndarray:
        """The coalitions of a part of the new units, bool [C, P]; `new` itself unless
        overridden."""
        return new

    def count(self, P: int) -> int:
        """Number of values of an instance: one per player unless overridden."""
        return P

    def scans_orders(self, index: Any) -> bool:
        """Whether a first layer may scan the drawn orders: `step` then returns cuts like
        `Permutation.step`.
        """
        return False


def heavy_tail(terms: np.ndarray) -> np.ndarray:
    """Whether the largest hundredth of the draws, at least one, makes up more than half of the sum
    of squares that estimates an instance's variance; bool [N].

    terms: [N, D], each draw's contribution to the sum of squares of all values. If a few rare draws
    dominate, a run without them has standard errors that are far too small. The largest of D = 20
    squares of a normal variable is more than half of their sum in at most D P(F(1, D - 1) > D - 1)
    = .7 % of cases, for sums over several values less often.
    """
    N, D = terms.shape
    if D < FEWEST:
        return np.zeros(N, bool)
    largest = np.sort(terms, axis=1)[:, D - math.ceil(SHARE * D) :].sum(axis=1)
    return largest > CARRIED * terms.sum(axis=1)


def chunks(N: int, numbers: int) -> list[slice]:
    """Cuts N instances into chunks that fit the cache with `numbers` numbers per instance.

    An instance's results never depend on the cuts.
    """
    step = max(1, (1 << 20) // max(1, numbers))
    return [slice(first, min(first + step, N)) for first in range(0, N, step)]
