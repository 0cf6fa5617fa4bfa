"""Means of independent terms, their standard errors, and intervals that hold at every look.

Letters: n games, G strata, D draws, T terms of a draw, K scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Moments:
    """Running means and sums of squares of terms, per stratum, float64."""

    count: np.ndarray  # int64 [G]
    mean: np.ndarray  # [n, G, T, K]
    square: np.ndarray  # [n, G, T, T', K]: products of deviations, T' = T or 1 (the diagonal)

    @classmethod
    def zeros(cls, n: int, G: int, T: int, K: int, joint: bool) -> Moments:
        """Nothing added yet; joint: also the products of different terms."""
        return cls(
            np.zeros(G, np.int64), np.zeros((n, G, T, K)), np.zeros((n, G, T, T if joint else 1, K))
        )

    def add(self, g: int, terms: np.ndarray) -> None:
        """The terms [n, D, T, K] of a chunk of stratum g (Chan, Golub and LeVeque 1979)."""
        D = terms.shape[1]
        if not D:
            return
        mean = terms.mean(axis=1)
        rest = terms - mean[:, None]
        joint = self.square.shape[3] > 1
        if joint:
            by_score = np.moveaxis(rest, 3, 1)  # [n, K, D, T]
            square = np.moveaxis(by_score.swapaxes(2, 3) @ by_score, 1, 3)
        else:
            square = np.square(rest).sum(axis=1)[:, :, None]
        before, gap = self.count[g], mean - self.mean[:, g]
        total = before + D
        share = before * D / total
        across = gap[:, :, None] * gap[:, None] if joint else np.square(gap)[:, :, None]
        self.square[:, g] += square + share * across
        self.mean[:, g] += gap * (D / total)
        self.count[g] = total


def linear(moments: Moments, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(value, standard error) of sum_g factors[g] mean_g; [n, T, K] each.

    NaN errors where a stratum has fewer than two draws.
    """
    value = np.tensordot(factors, moments.mean, axes=(0, 1))
    count = moments.count.astype(float)
    diagonal = moments.square
    if diagonal.shape[3] > 1:
        T = diagonal.shape[2]
        diagonal = diagonal[:, :, np.arange(T), np.arange(T)][:, :, :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(count > 1, factors**2 / (count * (count - 1)), np.nan)
    return value, np.sqrt(np.tensordot(scale, diagonal[:, :, :, 0], axes=(0, 1)))


def smooth(
    moments: Moments, function: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """(value, standard error) of function([n, G, T, K]) -> [n, V, K] of the means.

    By the delta method: the function's slopes, by central differences, and the means' covariance.
    """
    mean, count = moments.mean, moments.count.astype(float)
    n, G, T, K = mean.shape
    value = function(mean)
    variance = np.zeros_like(value)
    h = 1e-6
    for g in range(G):
        slopes = []
        for t in range(T):
            moved = np.zeros_like(mean)
            moved[:, g, t] = h
            slopes.append((function(mean + moved) - function(mean - moved)) / (2 * h))
        slope = np.stack(slopes, axis=1)  # [n, T, V, K]
        scale = 1 / (count[g] * (count[g] - 1)) if count[g] > 1 else np.nan
        variance += scale * np.einsum("ntvk,ntsk,nsvk->nvk", slope, moments.square[:, g], slope)
    return value, np.sqrt(np.maximum(variance, 0.0))


def degrees_of_freedom(moments: Moments) -> float:
    """Of the standard errors: the smallest stratum's draws less one."""
    return float(max(moments.count.min() - 1, 0))


def bernstein_half_width(
    moments: Moments, factors: np.ndarray, width: Any, delta: float
) -> np.ndarray:
    """Half-widths that hold together with chance 1 - delta, float64 [n, T, K].

    Empirical Bernstein (Audibert, Munos and Szepesvari 2009, theorem 1), terms of width `width`,
    each stratum with its share of delta: sqrt(2 V log(3/delta) / n) + 3 width log(3/delta) / n.
    """
    log = math.log(3 * len(factors) / delta)
    out: Any = 0.0
    for g, factor in enumerate(factors):
        n = max(int(moments.count[g]), 1)
        variance = moments.square[:, g, :, 0] / n
        out = out + abs(factor) * (np.sqrt(2 * variance * log / n) + 3 * width * log / n)
    return np.asarray(out)
