"""Simple games, in which a coalition wins or loses: minimal winning coalitions and their indices.

Coalitions are bit masks, player i at bit i; NumPy on the host.

Letters: P players.
"""

from __future__ import annotations

import numpy as np

from xaijax_kernels.games.semivalues import members, sizes


def subset_or(win: np.ndarray) -> np.ndarray:
    """Z[S]: whether some subset of S wins, S itself among them; bool [2^P].

    This is the monotone closure, by one OR along each axis of the view (2,) * P.
    """
    P = _players(win)
    closed = win.reshape((2,) * P).copy()
    for axis in range(P):
        lower, upper = np.split(closed, 2, axis=axis)
        np.logical_or(lower, upper, out=upper)
    return closed.reshape(-1)


def minimal_winning(win: np.ndarray) -> np.ndarray:
    """Coalitions that win while every strict subset loses; bool [2^P].

    All subsets count, not only those with one player less: win = {{0}, {0, 1, 2}} has only {0}.
    """
    P = _players(win)
    closed = subset_or(win)
    below = np.zeros_like(closed)
    mask = np.arange(1 << P)
    for i in range(P):
        below |= ((mask >> i & 1) == 1) & closed[mask & ~(1 << i)]
    return win & ~below


def deegan_packel(win: np.ndarray) -> np.ndarray:
    """Deegan and Packel's index, float64 [P]; zeros where nothing wins.

    delta_i is the mean over the minimal winning coalitions of 1/|S| where i is in S, else 0.
    """
    P = _players(win)
    minimal = minimal_winning(win)
    if not minimal.any():
        return np.zeros(P)
    share = 1.0 / sizes(P)[minimal]
    return share @ members(P)[minimal] / len(share)


def responsibility(win: np.ndarray) -> np.ndarray:
    """Chockler and Halpern's 1 / (1 + smallest |T|), float64 [P].

    T without i loses while T + i wins; 0 if there is no such T.
    """
    P = _players(win)
    mask, size = np.arange(1 << P), sizes(P)
    out = np.zeros(P)
    for i in range(P):
        without = mask[(mask >> i & 1) == 0]
        swings = ~win[without] & win[without | 1 << i]
        if swings.any():
            out[i] = 1.0 / (1.0 + size[without[swings]].min())
    return out


def _players(win: np.ndarray) -> int:
    return len(win).bit_length() - 1
