"""`Estimator`: what a sampled estimator of values is, a module with these functions.

An estimator is named in `driver.METHODS`, one of sets in `SAMPLERS`; `index` is what is known of
the index, an `Index` or an `InteractionIndex`. It knows no game and asks no model. Its state is its
own: what it has drawn so far. It draws in units (pairs of orders, or of coalitions).

Letters: N instances, P players, C coalitions, K outputs.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from xaijax.estimators.result import Result


class Estimator(Protocol):
    """The functions of an estimator's module."""

    def smallest_budget(self, P: int, index: Any) -> int:
        """The fewest coalitions of an instance from which it can tell values."""
        ...

    def units(self, P: int, index: Any, budget: int) -> int:
        """The most units that it draws within the budget."""
        ...

    def count(self, P: int) -> int:
        """How many values an instance has: players, or sets of them."""
        ...

    def first_stop(self, P: int) -> int:
        """Units at the first checkpoint of a run that may stop early."""
        ...

    def independent(self) -> bool:
        """Whether the units are independent draws, each with values of its own, and the values
        their mean. A confidence sequence over them then holds whenever an instance stops; such an
        estimator makes the estimates that `permutation.estimates` does.
        """
        ...

    def drawing(self, P: int, index: Any, budget: int, K: int) -> tuple[float, float]:
        """(bytes on the host of all that is drawn, operations of a core to draw it, once)."""
        ...

    def work(self, P: int, index: Any, budget: int) -> float:
        """Operations of a core at each answer, of an instance and an output, once it is asked."""
        ...

    def walks(self, index: Any) -> bool:
        """Whether it draws orders that a first layer may walk; its state then has `orders`, and
        what `step` returns are the cuts of `permutation.step`.
        """
        ...

    def init(self, P: int, index: Any, budget: int, seed: int) -> Any:
        """The state with nothing drawn yet."""
        ...

    def step(self, state: Any, units: int, /) -> tuple[Any, np.ndarray]:
        """(the state with so many units drawn, what is new in it); steps draw what one would."""
        ...

    def masks(self, state: Any, new: np.ndarray, /) -> np.ndarray:
        """The coalitions of a part of what is new, bool [C, P]."""
        ...

    def result(
        self,
        state: Any,
        values: np.ndarray,
        empty: np.ndarray,
        full: np.ndarray,
        moves: np.ndarray | None = None,
    ) -> Result:
        """Values and standard errors from the values [N, C, K] of all coalitions drawn, in their
        order, and of the empty and the full one, [N, K] each. moves: which players change anything,
        bool [N, P]; None: all.
        """
        ...
