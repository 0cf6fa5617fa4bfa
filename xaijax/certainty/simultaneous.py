"""Simultaneous intervals for many means: one quantile, of the largest of their t statistics.

Single-step max-t intervals (Hothorn, Bretz and Westfall 2008, "Simultaneous inference in general
parametric models", section 3): the statistics are taken as a multivariate t with the correlations
that the rows show, and c is the quantile of the largest |t|. estimate +- c standard errors then
hold all at once. Intervals at 1.96 standard errors each would fail somewhere in 26 % of runs with
ten players and not in 5 %.

Letters: n rows, S statistics, D draws.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

DRAWS = 20_000  # the quantile's own coverage has a standard deviation of 0.15 % at 95 %
STEP = 1 << 22  # numbers drawn at a time


def intervals(
    samples: Sequence[np.ndarray], known: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """(sum of the samples' means [S], half-widths [S]) that hold together at this confidence.

    samples: independent ones, float64 [n, S] each, of at least 2 rows; known: variances [S] that
    rows do not show, as of coalitions that all rows share. A statistic that does not vary has a
    half-width of 0.
    """
    means = [one.mean(axis=0) for one in samples]
    parts = [one.var(axis=0, ddof=1) / len(one) for one in samples]
    variance = np.sum(parts, axis=0) + known
    live = variance > 0
    half = np.zeros(len(variance))
    if live.any():
        error = np.sqrt(variance[live])
        away = [
            (one[:, live] - mean[live]) / np.sqrt(len(one) * (len(one) - 1.0)) / error
            for one, mean in zip(samples, means, strict=True)
        ]
        spread = np.sqrt(known[live]) / error
        dof = _least_dof([part[live] for part in parts], variance[live], samples)
        half[live] = error * _quantile(np.concatenate(away), spread, dof, confidence)
    return np.sum(means, axis=0), half


def _least_dof(
    parts: Sequence[np.ndarray], variance: np.ndarray, samples: Sequence[np.ndarray]
) -> float:
    """Degrees of freedom by Welch and Satterthwaite, the fewest of all statistics."""
    shares = sum(part**2 / (len(one) - 1) for part, one in zip(parts, samples, strict=True))
    with np.errstate(divide="ignore"):
        return float((variance**2 / shares).min())


def _quantile(away: np.ndarray, spread: np.ndarray, dof: float, confidence: float) -> float:
    """Of the largest |t|.

    away: [n, S], whose products with independent normal numbers have the statistics' correlations;
    spread: [S], standard deviations of what else each has for itself.
    """
    n, S = away.shape
    if n > S:  # the same correlations from fewer numbers
        size, turned = np.linalg.eigh(away.T @ away)
        away = (turned * np.sqrt(np.maximum(size, 0))).T
    rng = np.random.default_rng(0)
    step = max(1, STEP // (len(away) + S))
    largest = []
    for first in range(0, DRAWS, step):
        D = min(step, DRAWS - first)
        t = rng.standard_normal((D, len(away))) @ away
        if spread.any():
            t += rng.standard_normal((D, S)) * spread
        largest.append(np.abs(t).max(axis=1))
    found = np.concatenate(largest)
    if np.isfinite(dof):
        found = found / np.sqrt(rng.chisquare(dof, DRAWS) / dof)
    return float(np.quantile(found, confidence, method="higher"))
