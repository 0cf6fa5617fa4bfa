"""Integrated and expected gradients from their definitions, in float64, by loops.

The integral over a line is taken by Simpson's rule on many small steps: no Gauss-Legendre, so that
a mistake in places or weights cannot be shared. Derivatives are written by hand, or differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Slope = Callable[[np.ndarray], np.ndarray]  # a row z -> df/dz, of one output, shaped like z

STEPS = 400  # of Simpson's rule: off by (1/400)^4 of a fourth derivative, 4e-11


def simpson(of: Callable[[float], np.ndarray], steps: int = STEPS) -> np.ndarray:
    """The integral over [0, 1]."""
    total = of(0.0) + of(1.0)
    for k in range(1, steps):
        total = total + (4 if k % 2 else 2) * of(k / steps)
    return total / (3 * steps)


def integrated(slope: Slope, x: np.ndarray, baseline: np.ndarray) -> np.ndarray:
    """(x - b) times the integral of the slopes on the line from b to x; shaped like x."""
    x, b = np.asarray(x, np.float64), np.asarray(baseline, np.float64)
    return (x - b) * simpson(lambda t: slope(b + t * (x - b)))


def expected(
    slope: Slope, x: np.ndarray, background: np.ndarray, weights: Sequence[float] | None = None
) -> np.ndarray:
    """The weighted mean of these over the rows of a background."""
    w = np.ones(len(background)) if weights is None else np.asarray(weights, np.float64)
    w = w / w.sum()
    total = np.zeros(np.shape(x))
    for weight, b in zip(w, background, strict=True):
        total = total + weight * integrated(slope, x, b)
    return total


def slope_of_tanh(W: np.ndarray, V: np.ndarray, k: int) -> Slope:
    """df_k/dz of f(z) = tanh(z W) V: W ((1 - tanh^2) V_k)."""
    W, V = np.asarray(W, np.float64), np.asarray(V, np.float64)

    def slope(z: np.ndarray) -> np.ndarray:
        return W @ ((1 - np.tanh(z @ W) ** 2) * V[:, k])

    return slope


def slope_by_differences(f: Callable[[np.ndarray], float], step: float = 1e-5) -> Slope:
    """Of any f of one row, by central differences: off by step^2 of a third derivative."""

    def slope(z: np.ndarray) -> np.ndarray:
        out = np.zeros(z.shape)
        for place in np.ndindex(*z.shape):
            up, down = z.copy(), z.copy()
            up[place] += step
            down[place] -= step
            out[place] = (f(up) - f(down)) / (2 * step)
        return out

    return slope


def by_player(entries: np.ndarray, players: np.ndarray) -> np.ndarray:
    """Sums of the entries of each player; those numbered -1 are nobody's."""
    flat, owner = np.ravel(entries), np.ravel(players)
    out = np.zeros(int(owner.max()) + 1)
    for value, p in zip(flat, owner, strict=True):
        if p >= 0:
            out[p] += value
    return out
