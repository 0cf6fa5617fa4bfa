"""AEC in closed form: from sums of products to slopes, and from slopes to effects.

The method fits x_z ~ 1 + x_i for every pair and multiplies (Salih 2024, eq. 7)

    effect_j = b_j * sum_{i != j} sum_{z != i} B[z, i],    B[z, i] = cov(x_z, x_i) / var(x_i).

The inner sum C_i does not depend on j, so effect_j = b_j * sum_{i != j} C_i. Float64 NumPy.
Letters: F features; "..." stands for leading axes, of bootstrap replicates say.
"""

from __future__ import annotations

import numpy as np


def feature_slopes(
    products: np.ndarray,  # [..., F, F], sums of products of deviations
    constant: np.ndarray,  # bool [..., F]
    standardize: bool,
) -> np.ndarray:
    """B [..., F, F]: B[z, i] is the slope of x_z on x_i; 1 on the diagonal, 0 for constant columns.

    Standardised columns have the correlations as slopes.
    """
    squares = np.where(constant, 1.0, np.diagonal(products, axis1=-2, axis2=-1))
    if standardize:
        # Two divisions: the product of two tiny or two huge spreads may leave float64's range.
        spread = np.sqrt(squares)
        slopes = products / spread[..., :, None] / spread[..., None, :]
    else:
        slopes = products / squares[..., None, :]
    off = constant[..., :, None] | constant[..., None, :]
    slopes = np.where(off, 0.0, slopes)
    same = np.arange(slopes.shape[-1])
    slopes[..., same, same] = np.where(constant, 0.0, 1.0)
    return slopes


def sums_of_others(slopes: np.ndarray) -> np.ndarray:
    """C [..., F]: C_i = sum over z != i of B[z, i].

    Terms are sorted first, so that equal columns have bit-for-bit equal sums at any position: ties
    stay ties.
    """
    off = np.array(slopes)
    same = np.arange(off.shape[-1])
    off[..., same, same] = 0.0
    return np.sort(off, axis=-2).sum(axis=-2)


def all_but_one(terms: np.ndarray) -> np.ndarray:
    """Sum of all other entries, for each entry [..., F]; equal entries get identical sums.

    The sums are accumulated from both ends. The total minus the entry itself would lose all digits
    if one entry dwarfs the others, which happens with columns of very different scale.
    """
    order = np.argsort(terms, axis=-1, kind="stable")
    ascending = np.take_along_axis(terms, order, axis=-1)
    sums = np.zeros_like(ascending)
    sums[..., 1:] += np.cumsum(ascending, axis=-1)[..., :-1]
    sums[..., :-1] += np.cumsum(ascending[..., ::-1], axis=-1)[..., -2::-1]
    first = np.zeros(order.shape, np.intp)  # position of the first of equal entries
    place = np.arange(1, terms.shape[-1])
    first[..., 1:] = np.where(ascending[..., 1:] > ascending[..., :-1], place, 0)
    sums = np.take_along_axis(sums, np.maximum.accumulate(first, axis=-1), axis=-1)
    out = np.empty_like(sums)
    np.put_along_axis(out, order, sums, axis=-1)
    return out


def effects(target_slopes: np.ndarray, sums: np.ndarray, decimals: int | None) -> np.ndarray:
    """effect [..., F] from b [..., F] and C [..., F]; `decimals` rounds the product."""
    product = target_slopes * all_but_one(sums)
    return product if decimals is None else np.round(product, decimals)


def ranking(importance: np.ndarray) -> np.ndarray:
    """Positions [..., F] from the largest |importance| down, ties in column order."""
    return np.argsort(-np.abs(importance), axis=-1, kind="stable")


def ranks(importance: np.ndarray) -> np.ndarray:
    """The rank [..., F] of each column, 0 for the largest |importance|."""
    return np.argsort(ranking(importance), axis=-1)


class RemainingEffects:
    """The effects among the columns that remain, as columns are removed one by one.

    Each slope is of one column on one other column, so it does not change when a third is removed:
    removing column t subtracts B[t, i] from every C_i. A removal costs O(F) additions, and all
    removals together cost one pass over B. The subtractions are compensated (Neumaier), so that a
    removed column with huge slopes leaves no rounding error behind.
    """

    def __init__(
        self,
        slopes: np.ndarray,  # [F, F]
        target_slopes: np.ndarray,  # [F]
        decimals: int | None = None,
        first: np.ndarray | None = None,  # intp [F], the first column that each is equal to
    ) -> None:
        self._slopes, self._target, self._decimals = slopes, target_slopes, decimals
        self._first = np.arange(len(slopes)) if first is None else first
        self._alive = np.arange(len(slopes))
        self._sums = np.zeros(len(slopes))
        self._lost = np.zeros(len(slopes))
        for z in range(len(slopes)):
            self._add(z, 1.0)

    def __call__(self, alive: np.ndarray) -> np.ndarray:
        """Effects [m] of the columns `alive`, ascending; they are among those of the last call."""
        for gone in np.setdiff1d(self._alive, alive, assume_unique=True):
            self._add(int(gone), -1.0)
        self._alive = alive
        # Sums of equal columns skip different positions of the same terms, which changes the last
        # digit: all of them take the sum of the first that is alive.
        _, leader, group = np.unique(self._first[alive], return_index=True, return_inverse=True)
        sums = (self._sums + self._lost)[alive[leader]][group]
        return effects(self._target[alive], sums, self._decimals)

    def _add(self, z: int, sign: float) -> None:
        term = sign * self._slopes[z]
        term[z] = 0.0
        total = self._sums + term
        larger = np.abs(self._sums) >= np.abs(term)
        self._lost += np.where(larger, (self._sums - total) + term, (term - total) + self._sums)
        self._sums = total
