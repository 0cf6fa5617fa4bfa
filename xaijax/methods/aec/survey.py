"""The first pass of AEC over the rows: moments, distinct targets, constant columns, scales.

Letters: F features, D = F or F + 1 columns, the target last, R rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.process import before_jax
from xaijax.methods.aec.rows import Rows
from xaijax.methods.aec.target import DistinctTargets, Target
from xaijax_kernels.collinearity.moments import Moments, block_moments, merge

FAR_APART = 100  # times, between column scales, from which on a warning is given


@dataclass(frozen=True)
class FirstPass:
    """What the first pass found."""

    names: tuple[str, ...]  # [F]
    moments: Moments
    target: Target
    constant: np.ndarray  # bool [F]
    spread: np.ndarray  # float64 [F], population standard deviations, 1 for constant columns
    first: np.ndarray  # intp [F], the first column that each is equal to: itself, if to no other

    @property
    def F(self) -> int:
        """Features."""
        return len(self.names)

    @property
    def fitted(self) -> np.ndarray:
        """Which columns have slopes of their own, bool [F]: not constant, the first of equal ones.

        The slopes of all are those of the first ones, `slopes[..., first]`.
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


def survey(rows: Rows, task: str) -> FirstPass:
    """Read all rows once.

    Raises:
        InputError: fewer than two rows, a single class, spreads that float64 cannot square.
        InputTypeError: labels where numbers are needed.
    """
    before_jax()
    F, distinct = len(rows.names), DistinctTargets(task)
    moments, first = None, np.zeros(F, np.intp)
    with np.errstate(over="ignore", invalid="ignore"):  # looked at below
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
    """The moments with those of the first of equal columns for all of them."""
    D = len(moments.mean)
    places = np.append(first, np.arange(len(first), D))  # the target stays
    return moments._replace(mean=moments.mean[places], products=of_first(moments.products, places))


def tell(found: FirstPass, standardize: bool) -> None:
    """Warn of constant columns, by name, and of scales that are far apart."""
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


# Two equal columns at other places of a matrix product get sums that differ in the last digits,
# since a product is cut into blocks by place. A tie must stay a tie in lists, ranks and the
# movement rate, so what belongs to the first of equal columns is taken for all of them. Letters: F
# features, R rows.

FEW = 64  # rows that tell most columns apart, so that whole blocks are compared for few


def split(first: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The first column [F] that each is equal to, when a block of rows x [F, R] is seen too.

    first: the same of the blocks before; all 0 before any. A column that is like no other any more
    is not looked at again, so blocks after the first cost nothing where no two are equal.
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
