"""Draws of rows that satisfy a rule, by the same hash as on the device.

Letters: Q questions, B donors, R draws.
"""

from __future__ import annotations

import numpy as np

from xaijax_kernels.rules.perturbed_rows import keys_of


def satisfying(
    holds: np.ndarray, weights: np.ndarray, keys: np.ndarray, first: np.ndarray, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(question, a donor that satisfies its rule, any donor) of every draw; int64 [R] each.

    holds bool [Q, B], at least one a question; weights [B]; keys int32 [Q, 2]; first, draws [Q].
    """
    question = np.repeat(np.arange(len(draws)), draws)
    before = np.repeat(np.cumsum(draws) - draws, draws)
    draw = (np.arange(len(question)) - before + first[question]).astype(np.uint64)
    key = np.ascontiguousarray(keys.astype("<i4")).view("<u8").ravel()[question]
    both = [_fraction(keys_of(which, key, draw)) for which in (0, 1)]
    ends = np.cumsum(holds * weights, axis=1)
    total = ends[:, -1]
    # One search in all questions: question q's running shares lie in (q, q + 1].
    shares = ends / total[:, None] + np.arange(len(holds))[:, None]
    flat = np.searchsorted(shares.ravel(), question + both[0], side="right")
    last = holds.shape[1] - 1 - holds[:, ::-1].argmax(axis=1)
    kept = np.minimum(flat - question * holds.shape[1], last[question])
    ends = np.cumsum(weights)
    free = np.searchsorted(ends, both[1] * ends[-1], side="right")
    return question, kept, np.minimum(free, np.flatnonzero(weights)[-1])


def _fraction(words: np.ndarray) -> np.ndarray:
    """Uniform numbers in [0, 1) of int32 [R, 2]."""
    whole = np.ascontiguousarray(words.astype("<i4")).view("<u8").ravel()
    return (whole >> np.uint64(11)) * 2.0**-53
