"""Means and sums of products of deviations, block by block, in float64 NumPy.

Letters: F features, R rows in a block, D = F columns, or F + 1 with the target last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
    """Sums over the rows, from one pass."""

    rows: int
    weight: float  # the sum of the weights; the number of rows if there are none
    mean: np.ndarray  # float64 [D]
    products: np.ndarray  # float64 [D, D], sums of w (x - mean)(x - mean)'
    low: np.ndarray  # float64 [D]
    high: np.ndarray  # float64 [D]; equal to low where a column is constant


def block_moments(
    x: np.ndarray,  # float64 [F, R], a column's values side by side
    y: np.ndarray | None,  # float64 [R]; None: no target
    weights: np.ndarray | None,  # float64 [R], positive; None: all 1
) -> Moments:
    """The moments of one block, with the target as the last column.

    The block's mean is subtracted before multiplying: raw products would lose a factor (m / s)^2 of
    precision for a column of mean m and deviation s. The rounding error of the mean is subtracted
    at the end (Chan, Golub and LeVeque 1983, eq. 1.7).
    """
    F, R = x.shape
    D = F + (y is not None)
    weight = float(R) if weights is None else float(weights.sum())
    mean, low, high, off = (np.empty(D) for _ in range(4))
    deviations = np.empty((D, R))
    for part, values in ((slice(0, F), x), *(() if y is None else ((slice(F, D), y[None]),))):
        low[part], high[part] = values.min(axis=1), values.max(axis=1)
        mean[part] = (values.sum(axis=1) if weights is None else values @ weights) / weight
        np.subtract(values, mean[part, None], out=deviations[part])
    off[:] = deviations.sum(axis=1) if weights is None else deviations @ weights
    if weights is not None:
        deviations *= np.sqrt(weights)
    # The product of a matrix with its own transpose: half the work, and exactly symmetric.
    products = deviations @ deviations.T - np.outer(off, off) / weight
    return Moments(R, weight, mean + off / weight, products, low, high)


def merge(a: Moments, b: Moments) -> Moments:
    """The moments of both together (Chan, Golub and LeVeque 1983, eq. 2.1)."""
    weight = a.weight + b.weight
    apart = b.mean - a.mean
    return Moments(
        a.rows + b.rows,
        weight,
        a.mean + apart * (b.weight / weight),
        a.products + b.products + np.outer(apart, apart) * (a.weight * (b.weight / weight)),
        np.minimum(a.low, b.low),
        np.maximum(a.high, b.high),
    )
