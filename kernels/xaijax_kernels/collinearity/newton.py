"""Many logistic fits of one feature each as one Newton iteration.

A fit has two parameters, the intercept and the slope of the standardised feature. The device sums
over rows, for all fits at once. The host takes the steps in float64, so the sums may come from one
array, a stream of blocks or a table of distinct values. The kernel has the dtype of its arguments:
float64 where 64-bit JAX is on.

Letters: F features (fits), R rows, "..." leading axes of fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

TILE = 8192  # rows summed together: they stay in the cache, which halves the time
CLOSE = 1e-8  # of a step: the remaining error is of the order of its square
GIVEN_UP = 2.0**-40  # of a step's length, when no shorter one makes the gradient smaller


def fit_sums(
    theta: jax.Array,  # [2], intercept and slope of z = (x - mean) * scale
    x: jax.Array,  # [R]
    mean: jax.Array,  # []
    scale: jax.Array,  # []
    total: jax.Array,  # [R], weight of the row; 0 pads
    positive: jax.Array,  # [R], the share of it that is positive
) -> jax.Array:
    """Gradient and Hessian of one fit's loss, [5]: g_a, g_b, h_aa, h_ab, h_bb."""
    z = (x - mean) * scale
    eta = theta[0] + theta[1] * z
    e = jnp.exp(-jnp.abs(eta))
    s = 1 / (1 + e)
    missed = total * jnp.where(eta >= 0, s, e * s) - positive
    curve = total * e * s * s
    bent = curve * z
    sums = missed.sum(), (missed * z).sum(), curve.sum(), bent.sum(), (bent * z).sum()
    return jnp.stack(sums)


def logistic_sums(
    theta: jax.Array,  # [F, 2]
    x: jax.Array,  # [F, R]; R a multiple of TILE, or below it
    mean: jax.Array,  # [F]
    scale: jax.Array,  # [F]
    total: jax.Array,  # [R] shared by the features, or [F, R]
    positive: jax.Array,  # like total
) -> jax.Array:
    """`fit_sums` of every feature, [F, 5], tile by tile."""
    F, R = x.shape
    tile = min(R, TILE)
    rows = 0 if total.ndim == 2 else None

    def add(i: jax.Array, sums: jax.Array) -> jax.Array:
        def cut(a: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice_in_dim(a, i * tile, tile, a.ndim - 1)

        each = jax.vmap(fit_sums, (0, 0, 0, 0, rows, rows))
        return sums + each(theta, cut(x), mean, scale, cut(total), cut(positive))

    return jax.lax.fori_loop(0, R // tile, add, jnp.zeros((F, 5), x.dtype))


def replicate_sums(
    theta: jax.Array,  # [S, F, 2], S replicates
    x: jax.Array,  # [F, R]
    mean: jax.Array,  # [F]
    scale: jax.Array,  # [F]
    total: jax.Array,  # [S, R] or [S, F, R]
    positive: jax.Array,  # like total
) -> jax.Array:
    """`logistic_sums` of every replicate's weights, [S, F, 5]."""

    def sums(argument: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return logistic_sums(argument[0], x, mean, scale, argument[1], argument[2])

    return jax.lax.map(sums, (theta, total, positive))


class NewtonFit(NamedTuple):
    """State in which the iteration ended."""

    theta: np.ndarray  # float64 [..., 2]
    passes: int  # over the rows
    converged: np.ndarray  # bool [...]


def newton(
    evaluate: Callable[[np.ndarray], np.ndarray],  # theta [..., 2] -> sums [..., 5], all rows
    start: np.ndarray,  # [..., 2]
    penalty: np.ndarray,  # [...], of half the squared slope of z; 0: none
    *,
    close: float = CLOSE,
    skip: np.ndarray
    | None = None,  # bool [...], fits that have no minimum; they stay where they are
    most: int = 100,  # passes
) -> NewtonFit:
    """Minimises the losses of all fits together.

    A step is halved until the gradient is smaller. Along a Newton step the gradient g starts as (1
    - t) g, so such a length exists. Because the loss is convex, only at its minimum can the
    gradient not be made smaller. A fit whose step is below `close` takes it and is done; the others
    continue.
    """
    theta, trial = np.array(start, np.float64), np.array(start, np.float64)
    step = np.zeros_like(theta)
    length = np.ones(theta.shape[:-1])
    size = np.full(theta.shape[:-1], np.inf)
    done = np.zeros(theta.shape[:-1], bool) if skip is None else np.array(skip)
    converged = np.zeros(theta.shape[:-1], bool)
    passes = 0
    while passes < most and not done.all():
        sums = evaluate(trial)
        passes += 1
        gradient = sums[..., :2] + penalty[..., None] * trial * [0.0, 1.0]
        now = np.hypot(gradient[..., 0], gradient[..., 1])
        better = ~done & ((now <= (1 - length / 4) * size) | np.isinf(size))
        theta = np.where(better[..., None], trial, theta)
        step = np.where(better[..., None], -_solved(sums, penalty, gradient), step)
        size = np.where(better, now, size)
        length = np.where(better, 1.0, length / 2)
        small = (np.abs(step) <= close * (1 + np.abs(theta))).all(axis=-1)
        converged |= ~done & small
        done |= small | (length < GIVEN_UP)
        trial = np.where((done & ~converged)[..., None], theta, theta + length[..., None] * step)
        # A fit that is done keeps its last point: its step and length no longer change.
        theta = np.where(converged[..., None], trial, theta)
        step = np.where(done[..., None], 0.0, step)
    return NewtonFit(theta, passes, converged)


def _solved(sums: np.ndarray, penalty: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The Hessian's inverse times the gradient, [..., 2]."""
    aa, ab, bb = sums[..., 2], sums[..., 3], sums[..., 4] + penalty
    tiny = np.finfo(np.float64).tiny  # for rows that are all separated: no curvature
    det = np.maximum(aa * bb - ab * ab, tiny)
    first = bb * gradient[..., 0] - ab * gradient[..., 1]
    second = aa * gradient[..., 1] - ab * gradient[..., 0]
    return np.stack([first, second], axis=-1) / det[..., None]
