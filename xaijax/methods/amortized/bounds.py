"""How far the values of a row may be off: how difficult it looks, and a conformal quantile.

The error of a row is that of its worst value, e = max over players and outputs of |phi - phi^|.
Rows are not alike: a line in what the network knows of a row is fitted to log e of the validation
rows, and d(x) = exp(line) is the difficulty. Of the n judge rows, which no step before has seen,
the scores e / d are taken. If a further row is drawn as they are, its score is equally likely to
have any of n + 1 places among theirs, so with

    k = ceil((n + 1) confidence),    bound(x) = d(x) times the k-th smallest score,

its values are within +- bound(x) with at least that confidence, and at most 1 / (n + 1) more where
no two scores are equal. That is over the draw of the judge rows too: what share of all rows
one set of them covers is Beta(k, n + 1 - k) distributed, 1.9 points around 90 % of 256 rows.

References: Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World" (2005), section
2.2. Papadopoulos, Gammerman and Vovk, "Normalized nonconformity measures" (2008). Lei et al.,
"Distribution-free predictive inference for regression" (JASA 2018), sections 2 and 5.2.

Letters: n rows, P players, K outputs, D what tells difficulty.
"""

from __future__ import annotations

import math

import numpy as np

FLOOR = 1e-3  # of the values' spread, added to errors before their logarithm is taken
FEWEST = 20  # validation rows from which a difficulty is told; of fewer all rows are alike
STRENGTHS = 10.0 ** np.arange(-1, 7)  # of the ridge, times n


def errors_of(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The error of the worst value of each row, [n], of values [n, P, K]."""
    return np.abs(found - wanted).max(axis=(1, 2))


def fewest_judges(confidence: float) -> int:
    """The smallest n for which the quantile is one of the n scores."""
    return math.ceil(round(confidence / (1 - confidence), 9))


def quantile(scores: np.ndarray, confidence: float) -> float:
    """The k-th smallest of n scores, k = ceil((n + 1) confidence)."""
    k = math.ceil(round((len(scores) + 1) * confidence, 9))
    return float(np.sort(scores)[k - 1])


def difficulty_line(told: np.ndarray, errors: np.ndarray, spread: float) -> np.ndarray:
    """Weights [1 + D] of the line that tells log error of what is known of rows, [n, D].

    Ridge regression; its strength is that of the smallest leave-one-out error, by the residuals
    r_i / (1 - H_ii) of the fit to all rows, H its hat matrix (Golub, Heath and Wahba 1979).
    """
    wanted = np.log(errors + FLOOR * spread + np.finfo(np.float64).tiny)
    out = np.zeros(1 + told.shape[1])
    out[0] = wanted.mean()
    n = len(wanted)
    if n < FEWEST:
        return out
    middle, size = told.mean(axis=0), told.std(axis=0)
    size[size < 1e-9 * (1 + np.abs(middle))] = np.inf  # what never varies tells nothing
    # (told - middle) / size = U s V
    U, s, V = np.linalg.svd((told - middle) / size, full_matrices=False)
    turned = U.T @ (wanted - out[0])
    best, weights = np.inf, turned
    for strength in STRENGTHS:
        share = s**2 / (s**2 + strength)
        left = wanted - out[0] - U @ (share * turned)
        hat = 1 / n + (U**2) @ share
        error = float(np.mean((left / np.maximum(1 - hat, 1e-6)) ** 2))
        if error < best:
            best, weights = error, V.T @ (s / (s**2 + strength) * turned)
    out[1:] = weights / size
    out[0] -= float(middle @ out[1:])
    return out


def difficulty(height: np.ndarray, ends: tuple[float, float]) -> np.ndarray:
    """d [n] of the line's heights [n]; ends: the lowest and the highest of validation rows, beyond
    which a line must not be followed.
    """
    return np.exp(np.clip(height, *ends))
