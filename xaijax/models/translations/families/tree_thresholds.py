"""Thresholds of trees behind scalers and imputers, as thresholds of the rows' own numbers.

A tree sees a column only through x <= t. Where a step before it maps a column by a function g that
never falls, g(x) <= t is x <= b for the largest b with g(b) <= t. So g need not be computed in
JAX, where its rounding would turn rows that lie on a threshold (a mean that fills gaps does): b is
found from g as scikit-learn computes it, in float64, and the tree reads the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.models.translations.columns import Columns, Map


def folded(
    columns: Columns, feature: np.ndarray, cuts: np.ndarray, left: np.ndarray, seen: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(thresholds of the rows' own numbers float64 [m], where NaN goes bool [m]).

    For all m splits of all trees: `feature` [m] is compared as `seen` (float32 or float64, to which
    the tree casts) with `cuts` [m]; left: where NaN goes that reaches the node.
    """
    thresholds, left = np.array(cuts, np.float64), left.copy()
    exact = np.dtype(seen) == columns.dtype  # JAX sees what the tree does
    for j in np.unique(feature):
        own = feature == j
        source, mapped = columns[int(j)], columns.maps[int(j)]
        step = _identity if mapped is None else mapped

        def goes(x: np.ndarray, cuts: np.ndarray, step: Map = step) -> np.ndarray:
            with np.errstate(all="ignore"):
                return step(x).astype(seen) <= cuts

        if mapped is not None or (seen == np.float32 and not exact):
            distinct, place = np.unique(cuts[own], return_inverse=True)
            thresholds[own] = _largest(goes, distinct)[place]
        if mapped is not None:
            filled = step(np.array([np.nan]))
            if not np.isnan(filled[0]):
                left[own] = filled.astype(seen) <= cuts[own]
        # Rounding to the nearest float32 is what a tree does itself, before it compares.
        if source is not None and (mapped is not None or not exact):
            source.cuts.append(np.unique(thresholds[own]))
    return thresholds, left


def _identity(x: np.ndarray) -> np.ndarray:
    return x


def _largest(goes: Callable[[np.ndarray, np.ndarray], np.ndarray], cuts: np.ndarray) -> np.ndarray:
    """The largest float64 that goes left, by halving the numbers in their order; -inf: none."""
    low = np.full(len(cuts), _order(np.array([-np.inf]))[0])  # goes left, or nothing does
    high = np.full(len(cuts), _order(np.array([np.inf]))[0])  # does not
    for _ in range(64):  # as many as a number has bits
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        left = goes(_number(middle), cuts)
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return _number(low)


def _order(x: np.ndarray) -> np.ndarray:
    """Whole numbers in the order of float64 numbers."""
    bits = x.view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits - 1, bits)


def _number(order: np.ndarray) -> np.ndarray:
    return np.where(order < 0, np.int64(-(2**63)) - order - 1, order).view(np.float64)
