"""The first pass of AEC over the rows: moments, distinct targets, constant columns, scales.

Letters: F features, D = F or F + 1 columns, the target last, R rows, M rows, K classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.process import before_jax
from xaijax.methods.aec.rows import Rows
from xaijax_kernels.collinearity.moments import Moments, block_moments, merge

FAR_APART = 100  # ratio of column scales from which on a warning is given


@dataclass(frozen=True)
class FirstPass:
    """The results of the first pass."""

    names: tuple[str, ...]  # [F]
    moments: Moments
    target: Target
    constant: np.ndarray  # bool [F]
    spread: np.ndarray  # float64 [F], population standard deviations, 1 for constant columns
    first: np.ndarray  # intp [F], the first column that each column equals, or itself

    @property
    def F(self) -> int:
        """Number of features."""
        return len(self.names)

    @property
    def fitted(self) -> np.ndarray:
        """Whether each column has its own slope, bool [F]: it is not constant, and is the first of
        equal ones.

        All columns get the slopes of the first ones, `slopes[..., first]`.
        """
        return ~self.constant & (self.first == np.arange(self.F))

    @property
    def products(self) -> np.ndarray:
        """Sums of products of the features' deviations, [F, F]."""
        return self.moments.products[: self.F, : self.F]

    @property
    def mean(self) -> np.ndarray:
        """Means of the features, [F]."""
        return self.moments.mean[: self.F]


def first_pass(rows: Rows, task: str) -> FirstPass:
    """Reads all rows once.

    Raises:
        InputError: there are fewer than two rows, a single class, or spreads that float64 cannot
            square.
        InputTypeError: y has labels although numbers are needed.
    """
    before_jax()
    F, distinct = len(rows.names), DistinctTargets(task)
    moments, first = None, np.zeros(F, np.intp)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        for block in rows.blocks():
            distinct.add(block.y)
            y = None if block.y.dtype.kind == "O" else block.y.astype(np.float64, copy=False)
            found = block_moments(block.x, y, block.weights)
            moments = found if moments is None else merge(moments, found)
            first = split(first, block.x)
    if moments is None or moments.rows < 2:
        rows_seen = 0 if moments is None else moments.rows
        raise InputError(
            f"X has {checks.count(rows_seen, 'row')} with a positive weight "
            f"(n_samples={rows_seen}); at least 2 are needed."
        )
    target = distinct.target()
    moments = _shared(moments, first)
    constant = (moments.low == moments.high)[:F]
    squares = np.diagonal(moments.products)[:F]
    strange = ~constant & ~((squares > np.finfo(float).tiny) & np.isfinite(squares))
    if strange.any():
        names = [rows.names[j] for j in np.flatnonzero(strange)]
        raise InputError(
            f"X: the spread of {', '.join(map(repr, names))} squared leaves the range of float64. "
            "Rescale the columns (multiply by a power of ten)."
        )
    spread = np.where(constant, 1.0, np.sqrt(squares / moments.weight))
    return FirstPass(tuple(rows.names), moments, target, constant, spread, first)


def _shared(moments: Moments, first: np.ndarray) -> Moments:
    """The moments, in which equal columns have those of the first of them."""
    D = len(moments.mean)
    places = np.append(first, np.arange(len(first), D))  # the target stays
    return moments._replace(mean=moments.mean[places], products=of_first(moments.products, places))


def warn_columns(found: FirstPass, standardize: bool) -> None:
    """Warns of constant columns, by name, and of scales that are far apart."""
    if found.constant.any():
        names = [found.names[j] for j in np.flatnonzero(found.constant)]
        checks.warn(
            f"X has constant columns: {', '.join(map(repr, names))}. Their slopes and effects are "
            "0; leave them out if that is not what you want."
        )
    scales = found.spread[~found.constant]
    if not standardize and len(scales) > 1 and scales.max() > FAR_APART * scales.min():
        checks.warn(
            f"X has columns whose standard deviations differ {scales.max() / scales.min():,.0f} "
            "times, and AEC adds slopes in mixed units: columns of small spread lead the list. Say "
            "standardize=True for a list that does not depend on the units."
        )


# Two equal columns at different positions of a matrix product get sums that differ in the last
# digits, since a product is cut into blocks by position. A tie must stay a tie in lists, ranks and
# the movement rate, so all equal columns use the numbers of the first of them. Letters: F features,
# R rows.

FEW = 64  # rows that distinguish most columns, so that full blocks are compared for few


def split(first: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The first column [F] that each column equals, after another block of rows x [F, R].

    first: the same for the earlier blocks; all 0 before the first. A column that equals no other is
        not checked again, so blocks after the first cost nothing if no two columns are equal.
    """
    return _split(_split(first, x[:, :FEW]), x)


def _split(first: np.ndarray, x: np.ndarray) -> np.ndarray:
    shared = np.bincount(first, minlength=len(first))[first] > 1
    found, seen = first.copy(), {}
    for j in map(int, np.flatnonzero(shared)):
        values = (x[j] + 0.0).tobytes()  # -0.0 + 0.0 is 0.0
        found[j] = seen.setdefault((int(first[j]), values), j)
    return found


def of_first(products: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Products [..., D, D] with the rows and columns of the first of equal ones, D = len(first)."""
    if (first == np.arange(len(first))).all():
        return products
    return products[..., first[:, None], first]


TASKS = ("auto", "regression", "classification")


@dataclass(frozen=True)
class Target:
    """Defines how the values of y are read."""

    classes: np.ndarray | None  # [K], ascending; None: a regression

    @property
    def positives(self) -> tuple[int, ...]:
        """Positions in `classes` that are fitted against the rest; with two classes the second."""
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
        self.values: np.ndarray | None = None  # ascending; None: not needed, or more than two
        self._many = task == "regression"

    def add(self, y: np.ndarray) -> None:
        """Adds the values of a block of y [M]."""
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
        """The target, after all of y has been seen.

        Raises:
            InputError: there is a single class, or the classes are numbers that are not whole.
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
    """The distinct values of y if they are at most two, else three of them; without sorting."""
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
