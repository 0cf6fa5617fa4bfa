"""Sums of products as functions that a trace shows by their name, and the layer of each.

A model that calls one of them, on columns that are each made of one of its own, is answered by the
layer wherever sub-coalitions are asked; on full rows it runs as it is written here.

Letters: R rows, C columns, L terms (support vectors, leaves), A sums, M nodes, T trees, S slots
of 2^s sub-coalitions, F columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.sizes import (
    FEW_ROWS,
    NUMBERS_OF_PARTS,
    head_rows,
    pairs_together,
    rows_of_terms,
)
from xaijax_kernels.structures.base import Affine, Head, Layer, WeightedDonors
from xaijax_kernels.structures.closed_forms import Trees
from xaijax_kernels.structures.factors import Boxes, Factors, Gaussians, sums_at_subsets
from xaijax_kernels.structures.leaves import leaves_by_players


def in_blocks(function: Callable[[jax.Array], jax.Array], rows: jax.Array, terms: int) -> jax.Array:
    """function of blocks of rows, one after another, the last one filled up; terms: numbers that it
    makes of a row.
    """
    R, C = rows.shape

    def blocks(size: int, rows: jax.Array) -> jax.Array:
        if R <= size:
            return function(rows)
        whole = jnp.pad(rows, ((0, -R % size), (0, 0))).reshape(-1, size, C)
        out = jax.lax.map(function, whole)
        return out.reshape(-1, *out.shape[2:])[:R]

    here, elsewhere = (rows_of_terms(terms, platform) for platform in ("cpu", "gpu"))
    if R <= here:
        return function(rows)
    return jax.lax.platform_dependent(
        rows, cpu=partial(blocks, here), default=partial(blocks, elsewhere)
    )


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

    return in_blocks(few, rows, len(centres))


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

    walk(nodes, rows) reaches the same leaves, which is faster on full rows.
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


# An RBF machine is one, and so is a tree: a leaf is reached where every column is within its
# bounds. The sub-coalitions of a slot are one product of two half tables
# (`factors.sums_at_subsets`).

HIGHEST = jax.lax.Precision.HIGHEST


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Product(Layer):
    """hidden_a = intercept_a + sum_l coefficients_la prod_j k_l(z_j). A part is L products."""

    factors: Factors
    coefficients: jax.Array  # [L, A]
    intercept: jax.Array  # [A]

    @property
    def name(self) -> str:
        """See `Layer.name`."""
        return "sum of products"

    @property
    def width(self) -> int:
        """A."""
        return self.intercept.shape[0]

    @property
    def parts(self) -> int:
        """L."""
        return self.coefficients.shape[0]

    @property
    def adds(self) -> bool:
        """See `Layer.adds`: factors are multiplied."""
        return False

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """See `Layer.slot_bits`. Every second size is used: the factors that a slot needs once cost
        as much as its own product of half tables at some 2^8 rows. With 842 support vectors on
        Adult's codes a call takes a tenth longer than with every size, with two sizes a third, with
        one two and a half times as long.
        """
        return (6, 8, 10, 12)

    def work(self) -> float:
        """See `Layer.work`: a sub-coalition is a share of one product of tables."""
        return math.inf

    def part(self, columns: jax.Array, own: jax.Array) -> jax.Array:
        """See `Layer.part`. A few rows at a time, where all of them would leave a core's cache."""
        R, L = len(columns), self.parts
        if R * L > NUMBERS_OF_PARTS and R % FEW_ROWS == 0:
            blocks = (a.reshape(-1, FEW_ROWS, a.shape[1]) for a in (columns, own))
            return jax.lax.map(lambda few: self._part(*few), tuple(blocks)).reshape(R, L)
        return self._part(columns, own)

    def _part(self, columns: jax.Array, own: jax.Array) -> jax.Array:
        def one(total: jax.Array, column: Any) -> tuple[jax.Array, None]:
            values, is_own, of_column = column
            exponents = self.factors.of_column(of_column, values)
            return total + jnp.where(is_own[:, None], exponents, 0), None

        zero = jnp.zeros((len(columns), self.coefficients.shape[0]), columns.dtype)
        each = (columns.T, own.T, self.factors.by_column())
        return self.factors.unit(jax.lax.scan(one, zero, each)[0])

    def nothing(self, rows: int, dtype: Any) -> jax.Array:
        """See `Layer.nothing`."""
        return jnp.ones((rows, self.coefficients.shape[0]), dtype)

    def both(self, one: jax.Array, other: jax.Array) -> jax.Array:
        """See `Layer.both`."""
        return one * other

    def joined(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """See `Layer.joined`."""
        weighted = (self.coefficients.T[:, None] * donors).reshape(-1, donors.shape[1])  # [A V, L]
        sums = jax.lax.dot_general(x, weighted, (((1,), (1,)), ((), ())), precision=HIGHEST)
        return sums.reshape(len(x), -1, len(donors)).swapaxes(1, 2) + self.intercept

    def block(self, rows: int, platform: str, bits: int = 0) -> int:
        """See `Layer.block`: all rows of a tile."""
        return rows

    def subsets(
        self, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.subsets`."""
        S, bits = len(kept), kept.shape[1] - 1
        together = pairs_together(self.parts, bits, platform, S)
        together = None if platform == "cpu" else 1 << together.bit_length() - 1
        sums = jax.lax.map(self._slot, (x, donors, kept), batch_size=together)
        return head(sums.reshape(-1, sums.shape[-1]))

    def closed_form(self, background: WeightedDonors, head: Affine) -> Trees | None:
        """See `Layer.closed_form`: of boxes, unless a leaf has too many players."""
        if not isinstance(self.factors, Boxes):
            return None
        low, high = np.asarray(self.factors.low), np.asarray(self.factors.high)
        values, intercept = (np.asarray(a, np.float64) for a in (self.coefficients, self.intercept))
        groups = leaves_by_players(low, high, values, background.players)
        if groups is None:
            return None
        return Trees(groups, background, (head[0], head[1] + intercept @ head[0]))

    def prepares(self, platform: str) -> bool:
        """See `Layer.prepares`: the factors of a pair take as long as its product."""
        return True

    def prepared(self, columns: jax.Array, own: jax.Array, kept: bool, platform: str) -> jax.Array:
        """See `Layer.prepared`."""

        def one(row: jax.Array) -> jax.Array:
            return self.factors.kept(self.part(jnp.broadcast_to(row, own.shape), own))

        together = head_rows(self.parts * len(own), platform, columns.dtype.itemsize)
        together = None if platform == "cpu" else min(together, len(columns))
        return jax.lax.map(one, columns, batch_size=together)

    def prepared_subsets(
        self, head: Head, players: int, x: jax.Array, donors: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.prepared_subsets`."""
        together = pairs_together(self.parts, players, platform, len(donors))
        S = len(donors)
        if S % together:  # the last pairs are filled up, and their answers are left out
            donors = jnp.pad(donors, ((0, -S % together), *((0, 0),) * (donors.ndim - 1)))
        few = donors.reshape(-1, together, *donors.shape[1:])
        sums = jax.lax.map(
            lambda some: self.factors.pairs(self.coefficients, players, x, some, platform), few
        )
        return head(sums.reshape(-1, sums.shape[-1])[: S << players] + self.intercept)

    def _slot(self, slot: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        """The values of one slot; [2^s, A]."""
        x, donor, kept = slot  # [F], [F], bool [s + 1, F]
        s = len(kept) - 1
        of_both = self.factors.exponents(jnp.stack([x, donor]))  # [2, F, L]
        own, always = kept[:s], kept[s]
        never = ~always & ~own.any(axis=0)
        of_x = jnp.concatenate([own, always[None]]).astype(x.dtype)
        of_donor = jnp.concatenate([own, never[None]]).astype(x.dtype)
        with_x = jnp.dot(of_x, of_both[0], precision=HIGHEST)  # [s + 1, L]
        with_donor = jnp.dot(of_donor, of_both[1], precision=HIGHEST)
        common = self.factors.unit(with_x[s] + with_donor[s])
        of_x, of_donor = self.factors.unit(with_x[:s]), self.factors.unit(with_donor[:s])
        return sums_at_subsets(self.coefficients, common, of_x, of_donor) + self.intercept
