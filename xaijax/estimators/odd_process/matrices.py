"""Factors and inverses of positive definite matrices, in place where LAPACK can."""

from __future__ import annotations

from typing import Any

import numpy as np


def factor(K: np.ndarray) -> np.ndarray:
    """L of K = L L^T, of a matrix in C order that is overwritten; above L stands anything."""
    (potrf,) = _functions("potrf")
    lower, failed = potrf(K.T, lower=1, overwrite_a=1, clean=0)  # K.T is K, as LAPACK lays it out
    if failed:
        raise np.linalg.LinAlgError(f"minor {failed} of {len(K)} is not positive")
    return lower


def inverse_of(lower: np.ndarray) -> np.ndarray:
    """(L L^T)^-1."""
    (potri,) = _functions("potri")
    found, _ = potri(lower, lower=1)
    found = np.tril(found)
    found += np.tril(found, -1).T
    return found


def _functions(name: str) -> Any:
    from scipy.linalg import get_lapack_funcs  # noqa: PLC0415 - `import xaijax` loads no scipy

    return get_lapack_funcs((name,), dtype=np.float64)
