"""Logistic slopes of bootstrap replicates: Newton steps that start from the full fit.

Letters: S replicates, R rows in a piece, F features, G of them together, D distinct values, K'
classes fitted against the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import jax
import numpy as np

from xaijax.methods.aec.distinct import ValueTable, stacked
from xaijax.methods.aec.draws import Draws
from xaijax.methods.aec.logistic import LogisticFit, over, penalties
from xaijax.methods.aec.survey import Survey
from xaijax_kernels.collinearity.newton import newton, replicate_sums

FEW = 128  # distinct values up to which counting them costs less than Newton passes over the rows
# A Newton step of this size leaves an error of about its square, far below any standard error.
CLOSE = 1e-4

Part = tuple[np.ndarray, np.ndarray, np.ndarray]  # x [G, R], total [S, R] or [S, G, R], positive

_sums = jax.jit(replicate_sums)


def replicate_slopes(
    draws: Draws,
    found: Survey,
    full: LogisticFit,
    replicates: np.ndarray,  # [S]
    spreads: np.ndarray | None,  # [S, F], by which the replicates' columns are standardised
    absent: np.ndarray,  # bool [S, K'], replicates without one of the two sides: not fitted
) -> np.ndarray:
    """Slopes of (x - mean) / spread, the full sample's, [S, K', F]."""
    S, K = len(replicates), len(found.target.positives)
    penalty = np.broadcast_to(penalties(found, spreads is not None), (S, found.F))
    if spreads is not None:
        penalty = penalty * spreads**2
    small = np.array([one is not None and len(one.values) <= FEW for one in full.tables])
    tabled, rest = np.flatnonzero(small), np.flatnonzero(~small & found.fitted)
    beta = np.zeros((S, K, found.F))
    counted: list[Part] = []
    if len(tabled):
        tables = [full.tables[j] for j in tabled]
        counted = _counted(draws, found, replicates, [one for one in tables if one is not None])
    for at in range(K):
        for features in (tabled, rest):
            if not len(features):
                continue

            def parts(features: np.ndarray = features, at: int = at) -> Iterable[Part]:
                if features is tabled:
                    return counted[at : at + 1]
                return _weighted(draws, found, replicates, features, found.target.positives[at])

            start = np.broadcast_to(full.theta[at, features], (S, len(features), 2))
            skip = np.broadcast_to(absent[:, at, None], start.shape[:-1])
            evaluate = over(parts, found, features, _sums)
            ended = newton(evaluate, start, penalty[:, features], close=CLOSE, skip=skip)
            beta[:, at, features] = ended.theta[..., 1]
    return beta[..., found.first]


def _counted(
    draws: Draws, found: Survey, replicates: np.ndarray, tables: list[ValueTable]
) -> list[Part]:
    """For each class the values [G, D], and the weights at each, [S, G, D]."""
    values = stacked(tables, 0)[0]
    (G, D), S = values.shape, len(replicates)
    classes = np.array(found.target.positives)
    firsts = np.cumsum([0, *(len(one.values) for one in tables)])
    width = int(firsts[-1])
    sums = np.zeros((S, 1 + len(classes), width))
    seen = 0
    for block, times in draws.pieces(replicates):
        rows = np.arange(len(block.y))
        # Times drawn are small whole numbers, whose sums float32 holds exactly.
        dtype = np.float64 if block.weights is not None else np.float32
        at = np.zeros((len(rows), 1 + len(classes), width), dtype)
        for g, one in enumerate(tables):
            at[rows, 0, firsts[g] + one.codes[seen + rows]] = 1.0
        of_class = found.target.encode(block.y)[:, None] == classes
        at[:, 1:] = at[:, :1] * of_class[:, :, None]
        sums += (times.astype(dtype) @ at.reshape(len(rows), -1)).reshape(sums.shape)
        seen += len(rows)
    padded = np.zeros((1 + len(classes), S, G, D))
    for g in range(G):
        size = firsts[g + 1] - firsts[g]
        padded[:, :, g, :size] = sums[:, :, firsts[g] : firsts[g + 1]].swapaxes(0, 1)
    return [(values, padded[0], one) for one in padded[1:]]


def _weighted(
    draws: Draws, found: Survey, replicates: np.ndarray, features: np.ndarray, k: int
) -> Iterator[Part]:
    """Each piece of rows; R rounded up to a power of two, with weights 0."""
    for block, times in draws.pieces(replicates):
        R = len(block.y)
        more = (1 << (R - 1).bit_length()) - R
        x = np.pad(block.x[features], ((0, 0), (0, more)), mode="edge")
        total = np.pad(times, ((0, 0), (0, more)))
        yield x, total, total * np.pad(found.target.encode(block.y) == k, (0, more))
