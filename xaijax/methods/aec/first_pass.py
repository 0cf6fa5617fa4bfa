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
    F, regression = len(rows.names), task == "regression"
    moments, first, classes = None, np.zeros(F, np.intp), None
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        for block in rows.blocks():
            if regression and block.y.dtype.kind == "O":
                raise InputTypeError(
                    f"y holds labels ({checks.shown(block.y[0])}, say), but task='regression' "
                    "needs numbers. Say task='classification', or encode y."
                )
            if not regression and not (classes is not None and np.isin(block.y, classes).all()):
                values = _unique(block.y)
                classes = values if classes is None else _unique(np.append(classes, values))
                numbers = classes.dtype.kind not in "bO"
                regression = task == "auto" and numbers and len(classes) > 2
            y = None if block.y.dtype.kind == "O" else block.y.astype(np.float64, copy=False)
            of_block = block_moments(block.x, y, block.weights)
            moments = of_block if moments is None else merge(moments, of_block)
            first = split(first, block.x)
    if moments is None or moments.rows < 2:
        rows_seen = 0 if moments is None else moments.rows
        raise InputError(
            f"X has {checks.count(rows_seen, 'row')} with a positive weight "
            f"(n_samples={rows_seen}); at least 2 are needed."
        )
    target = Target(None) if regression or classes is None else _of_classes(classes)
    places = np.append(first, np.arange(F, len(moments.mean)))  # the target stays
    products = of_first(moments.products, places)
    moments = moments._replace(mean=moments.mean[places], products=products)
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


def warn_columns(facts: FirstPass, standardize: bool) -> None:
    """Warns of constant columns, by name, and of scales that are far apart."""
    if facts.constant.any():
        names = [facts.names[j] for j in np.flatnonzero(facts.constant)]
        listed = ", ".join(map(repr, names))
        checks.warn(f"X has constant columns: {listed}. Their slopes and effects are 0.")
    scales = facts.spread[~facts.constant]
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
    for part in (x[:, :FEW], x):
        shared = np.bincount(first, minlength=len(first))[first] > 1
        firsts, seen = first.copy(), {}
        for j in map(int, np.flatnonzero(shared)):
            values = (part[j] + 0.0).tobytes()  # -0.0 + 0.0 is 0.0
            firsts[j] = seen.setdefault((int(first[j]), values), j)
        first = firsts
    return first


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


def _of_classes(classes: np.ndarray) -> Target:
    """Raises InputError for a single class, and for classes that are numbers but not whole."""
    if len(classes) < 2:
        raise InputError(
            f"y has a single class, {checks.shown(classes[0])} (1 class): at least two are needed. "
            "Say task='regression' for a constant target, whose effects are 0."
        )
    if classes.dtype.kind == "f" and len(classes) > 2 and (classes != np.rint(classes)).any():
        raise InputError(
            f"y has {len(classes):,} distinct values that are not whole numbers, hence no classes. "
            "Say task='regression', or bin y."
        )
    return Target(classes)


def _unique(y: Any) -> np.ndarray:
    try:
        return np.unique(y)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in y})
        raise InputTypeError(
            f"y holds labels of several types ({', '.join(kinds)}): make them all texts or numbers."
        ) from None
