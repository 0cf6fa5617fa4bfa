"""Sums of products as functions that a trace shows by their name, and the layer of each.

A model that calls one of them, on columns that are each made of one of its own, is answered by the
layer wherever corners are asked; on whole rows it runs as it is written here.

Letters: R rows, C columns, L terms (support vectors, leaves), A sums, M nodes, T trees.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels.structures.base import Layer
from xaijax_kernels.structures.factors import Boxes, Gaussians
from xaijax_kernels.structures.product import Product

BLOCK = 256  # rows: what is as wide as there are terms stays in the cache


def in_blocks(function: Callable[[jax.Array], jax.Array], rows: jax.Array) -> jax.Array:
    """function of blocks of rows, one after another, the last one filled up."""
    R, C = rows.shape
    if R <= BLOCK:
        return function(rows)
    whole = jnp.pad(rows, ((0, -R % BLOCK), (0, 0))).reshape(-1, BLOCK, C)
    out = jax.lax.map(function, whole)
    return out.reshape(-1, *out.shape[2:])[:R]


@jax.jit
def xaijax_gaussian_sums(
    rows: jax.Array,  # [R, C]
    centres: jax.Array,  # [L, C]
    gamma: jax.Array,  # []
    coefficients: jax.Array,  # [L, A]
    intercept: jax.Array,  # [A]
) -> jax.Array:
    """intercept + sum_l coefficients_l exp(-gamma |z - c_l|^2), [R, A]."""
    # Distances do not change where all is moved; near 0 their square cancels less.
    middle = centres.mean(axis=0)
    centres = centres - middle
    of_centres = (centres * centres).sum(axis=1)

    def few(rows: jax.Array) -> jax.Array:
        rows = rows - middle
        squares = (rows * rows).sum(axis=1)[:, None] + of_centres
        distances = jnp.maximum(squares - 2 * (rows @ centres.T), 0)
        return _sums(jnp.exp(-gamma * distances), coefficients) + intercept

    return in_blocks(few, rows)


def _sums(factors: jax.Array, coefficients: jax.Array) -> jax.Array:
    """factors [R, L] in [0, 1] @ coefficients [L, A], with few of its digits lost in between.

    Both are split into whole multiples of 2^-6 of their largest and what is left. Products of the
    multiples have 12 bits, so that up to 2^12 of float32's 24 bits add up without rounding; what
    is left is 2^-7 as large, and so is what its sums lose.
    """
    _, power = jnp.frexp(jnp.abs(coefficients).max(axis=0, initial=0))
    unit = jnp.ldexp(jnp.ones_like(coefficients, shape=power.shape) / 64, power)
    coarse, whole = jnp.round(factors * 64) / 64, jnp.round(coefficients / unit) * unit
    fine = coarse @ (coefficients - whole) + (factors - coarse) @ coefficients
    return coarse @ whole + fine


@partial(jax.jit, static_argnames=("walk",))
def xaijax_leaf_sums(
    rows: jax.Array,  # [R, C]
    low: jax.Array,  # [L, C]
    high: jax.Array,  # [L, C]
    values: jax.Array,  # [L, A]
    nodes: Any,  # a pytree of arrays
    walk: Callable[[Any, jax.Array], jax.Array],
) -> jax.Array:
    """The sum of the values of the leaves whose bounds hold, low < z <= high, [R, A].

    walk(nodes, rows) reaches the same leaves, which on whole rows is faster.
    """
    return walk(nodes, rows)


def _gaussians(centres: Any, gamma: Any, coefficients: Any, intercept: Any) -> Product:
    return Product(Gaussians(centres, gamma), coefficients, intercept)


def _leaves(low: Any, high: Any, values: Any, *nodes: Any) -> Product:
    return Product(Boxes(low, high), values, jnp.zeros(values.shape[1], values.dtype))


# Arguments after the rows -> the layer.
NAMED: dict[str, Callable[..., Layer]] = {
    "xaijax_gaussian_sums": _gaussians,
    "xaijax_leaf_sums": _leaves,
}
