"""What AEC's target is: numbers for a regression, or classes, each against the rest.

Letters: M rows, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError

TASKS = ("auto", "regression", "classification")


@dataclass(frozen=True)
class Target:
    """How the values of y are read."""

    classes: np.ndarray | None  # [K], ascending; None: a regression

    @property
    def positives(self) -> tuple[int, ...]:
        """Places in `classes` that are fitted against the rest: of two classes the second."""
        if self.classes is None:
            return ()
        K = len(self.classes)
        return (1,) if K == 2 else tuple(range(K))

    def encode(self, y: np.ndarray) -> np.ndarray:
        """y as float64 [M], or as places in `classes`, intp [M]."""
        if self.classes is None:
            return y.astype(np.float64)
        return np.searchsorted(self.classes, y)


class DistinctTargets:
    """The distinct values of y, collected block by block, as far as the task needs them."""

    def __init__(self, task: str) -> None:
        self._task = task
        self.values: np.ndarray | None = None  # ascending; None: not asked for, or more than two
        self._many = task == "regression"

    def add(self, y: np.ndarray) -> None:
        """Look at a block of y [M]."""
        labels = y.dtype.kind in "bO"
        if self._task == "regression":
            if y.dtype.kind == "O":
                raise InputTypeError(
                    f"y holds labels ({checks.shown(y[0])}, say), but task='regression' needs "
                    "numbers. Say task='classification', or encode y."
                )
            return
        if self._many:
            return
        if not labels and self._task == "auto":
            found = _up_to_three(y)
        else:
            found = _unique(y)
        self.values = found if self.values is None else _unique(np.append(self.values, found))
        if self._task == "auto" and not labels and len(self.values) > 2:
            self._many, self.values = True, None

    def target(self) -> Target:
        """The target, when all of y has been seen.

        Raises:
            InputError: a single class, or a classification of numbers that are not whole.
        """
        found = self.values
        if found is None:
            return Target(None)
        if len(found) < 2:
            raise InputError(
                f"y has a single class, {checks.shown(found[0])} (1 class): AEC needs at least "
                "two, or numbers that differ. Say task='regression' for a constant target, whose "
                "effects are 0."
            )
        if found.dtype.kind == "f" and len(found) > 2 and (found != np.rint(found)).any():
            raise InputError(
                f"y has {len(found):,} distinct values that are not whole numbers, which are no "
                "classes. Say task='regression', or bin y."
            )
        return Target(found)


def _up_to_three(y: np.ndarray) -> np.ndarray:
    """The distinct values of y where they are at most two, else three of them; no sorting."""
    first = y[0]
    others = y[y != first]
    if not len(others):
        return y[:1]
    rest = others[others != others[0]]
    return np.unique(np.array([first, others[0], *rest[:1]]))


def _unique(y: Any) -> np.ndarray:
    try:
        return np.unique(y)
    except TypeError:
        kinds = sorted({type(one).__name__ for one in y})
        raise InputTypeError(
            f"y holds labels of several types ({', '.join(kinds)}); make them all texts or all "
            "numbers."
        ) from None
