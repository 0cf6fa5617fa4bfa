"""Small models that tests share, each twice: in float64 NumPy for the oracle, and for JAX."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np


def weights(P: int) -> np.ndarray:
    """Coefficients that make no two players alike; float32 [P, P]."""
    return (np.random.default_rng(7).normal(size=(P, P)) / np.sqrt(P)).astype(np.float32)


def smooth_host(X: Any, A: np.ndarray) -> np.ndarray:
    """Interactions of every order, [R]: a sum of tanh times a player, plus a product of three."""
    X = np.asarray(X, np.float64)
    return np.tanh(X @ A.astype(np.float64)).sum(1) * X[:, 0] + X[:, 1] * X[:, 2] * X[:, -1]


def smooth(params: Any, X: Any) -> Any:
    """The same for JAX; params [P, P]."""
    return jnp.tanh(X @ params).sum(1) * X[:, 0] + X[:, 1] * X[:, 2] * X[:, -1]


def three_outputs_host(X: Any, A: np.ndarray) -> np.ndarray:
    """Three outputs, [R, 3]."""
    smoothed = smooth_host(X, A)
    return np.stack([smoothed, np.sin(smoothed), np.asarray(X, np.float64)[:, 1]], axis=1)


def three_outputs(params: Any, X: Any) -> Any:
    """The same for JAX."""
    smoothed = smooth(params, X)
    return jnp.stack([smoothed, jnp.sin(smoothed), X[:, 1]], axis=1)


def rows(count: int, P: int, kind: str, seed: int = 0) -> np.ndarray:
    """float32 [count, P]: "continuous", or "few" distinct values so that most players agree."""
    rng = np.random.default_rng(seed)
    if kind == "continuous":
        return rng.normal(size=(count, P)).astype(np.float32)
    return rng.choice([0.0, 0.0, 0.0, 1.0, 2.5], size=(count, P)).astype(np.float32)
