"""How far values are from the truth, by each measure.

Letters: N instances, P players, K outputs. A row is an instance with one output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.certainty.truth import Truth

LARGE = 0.1  # of a row's span: values whose sign is looked at
CLEAR = 3.0  # standard errors of a sampled truth, from which on its own sign is taken for known
TIE = 1e-6  # of a row's largest |value|; float32 sums of equal values differ by less


def measures(values: np.ndarray, truth: Truth) -> dict[str, Any]:
    """The fields of a `Judgement` that say how far; values float64 [N, P, K]."""
    true, off = truth.values, values - truth.values
    noise = truth.variances.sum(axis=1)  # [N, K]
    squared = (off**2).sum(axis=1) - noise
    size = (true**2).sum(axis=1) - noise
    rows = squared.reshape(-1)
    known = size.reshape(-1) > 0
    relative = rows[known] / size.reshape(-1)[known]
    flips, large = _flips(values, truth)
    residual = np.abs(values.sum(axis=1) - truth.change)
    return {
        "relative_error": float(relative.mean()) if len(relative) else np.nan,
        "relative_std_error": _std_error(relative),
        "pooled_error": float(rows.sum() / size.sum()) if size.sum() > 0 else np.nan,
        "p95": float(np.quantile(np.sqrt(np.maximum(rows, 0)), 0.95)),
        "top1": _overlap(values, true, 1),
        "top3": _overlap(values, true, 3),
        "sign_flips": float(flips / large) if large else np.nan,
        "efficiency": float(residual.mean()) if truth.efficient else np.nan,
        "row_errors": np.sqrt(np.maximum(squared, 0)),
    }


def _std_error(parts: np.ndarray) -> float:
    """Of the mean of independent parts; NaN for fewer than two."""
    return float(parts.std(ddof=1) / np.sqrt(len(parts))) if len(parts) > 1 else np.nan


def _overlap(values: np.ndarray, true: np.ndarray, k: int) -> float:
    """Which share of the k largest |values| is among the k largest true ones, mean over rows.

    Players that tie with the k-th true one count too.
    """
    P = values.shape[1]
    k = min(k, P)
    largest = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :k]
    size = np.sort(np.abs(true), axis=1)
    least = size[:, [P - k]] - TIE * size[:, [-1]]
    return float((np.take_along_axis(np.abs(true), largest, axis=1) >= least).mean())


def _flips(values: np.ndarray, truth: Truth) -> tuple[int, int]:
    """(large true values that have the other sign, large true values)."""
    true = truth.values
    span = np.maximum(true.max(axis=1), 0) - np.minimum(true.min(axis=1), 0)  # [N, K]
    least = np.maximum(LARGE * span[:, None], CLEAR * np.sqrt(truth.variances))
    large = (np.abs(true) >= least) & (true != 0)
    return int((large & (np.sign(values) == -np.sign(true))).sum()), int(large.sum())
