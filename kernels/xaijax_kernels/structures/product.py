"""Sums of products over columns at the corners of a pair: sum_l a_l prod_j k_l(z_j).

An RBF machine is one, and so is a tree: a leaf is reached where every column is within its bounds.
The corners of a slot are one product of two half tables (`factors.sums_at_corners`).

Letters: S slots of 2^s corners, F columns, L terms (support vectors, leaves), A sums, R rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.structures.base import Affine, Background, Head, Layer
from xaijax_kernels.structures.closed_forms import Trees
from xaijax_kernels.structures.factors import Boxes, Factors, sums_at_corners
from xaijax_kernels.structures.leaves import leaves_by_players

HIGHEST = jax.lax.Precision.HIGHEST
TOGETHER = 2  # pairs whose products are one call: two cores of a CPU share them
FEW, CACHED = 16, 1 << 20  # rows at a time; numbers of a part


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
        """See `Layer.slot_bits`. Every second size: the factors that a slot needs once cost as much
        as its own product of half tables at some 2^8 rows. With 842 support vectors on Adult's
        codes a call takes a tenth longer than with every size, with two sizes a third, with one two
        and a half times as long.
        """
        return (6, 8, 10, 12)

    def work(self) -> float:
        """See `Layer.work`: a corner is a share of one product of tables."""
        return math.inf

    def part(self, columns: jax.Array, own: jax.Array) -> jax.Array:
        """See `Layer.part`. A few rows at a time, where all of them would leave a core's cache."""
        R, L = len(columns), self.parts
        if R * L > CACHED and R % FEW == 0:
            blocks = (a.reshape(-1, FEW, a.shape[1]) for a in (columns, own))
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

    def some(self, first: jax.Array, count: int) -> Layer:
        """See `Layer.some`; the intercept goes with the first."""
        start = jnp.minimum(first, self.parts - count)
        own = jax.lax.dynamic_slice_in_dim(self.coefficients, start, count)
        own = jnp.where((start + jnp.arange(count, dtype=start.dtype) >= first)[:, None], own, 0)
        return Product(self.factors, own, jnp.where(first == 0, self.intercept, 0))

    def block(self, rows: int, platform: str) -> int:
        """See `Layer.block`: all rows of a tile."""
        return rows

    def corners(
        self, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.corners`."""
        sums = jax.lax.map(self._slot, (x, donors, kept))
        return head(sums.reshape(-1, sums.shape[-1]))

    def closed_form(self, background: Background, head: Affine) -> Trees | None:
        """See `Layer.closed_form`: of boxes, unless a leaf has too many players."""
        if not isinstance(self.factors, Boxes):
            return None
        low, high = np.asarray(self.factors.low), np.asarray(self.factors.high)
        values, intercept = (np.asarray(a, np.float64) for a in (self.coefficients, self.intercept))
        groups = leaves_by_players(low, high, values, background.players)
        if groups is None:
            return None
        return Trees(groups, background, (head[0], head[1] + intercept @ head[0]))

    @property
    def prepares(self) -> bool:
        """See `Layer.prepares`: the factors of a pair take as long as its product."""
        return True

    def prepared(self, columns: jax.Array, own: jax.Array) -> jax.Array:
        """See `Layer.prepared`."""

        def one(row: jax.Array) -> jax.Array:
            return self.factors.kept(self.part(jnp.broadcast_to(row, own.shape), own))

        return jax.lax.map(one, columns)

    def prepared_corners(
        self, head: Head, players: int, x: jax.Array, donors: jax.Array, known: bool
    ) -> jax.Array:
        """See `Layer.prepared_corners`."""
        few = donors.reshape(-1, TOGETHER if len(donors) % TOGETHER == 0 else 1, *donors.shape[1:])
        sums = jax.lax.map(
            lambda some: self.factors.pairs(self.coefficients, players, x, some, known), few
        )
        return head(sums.reshape(-1, sums.shape[-1]) + self.intercept)

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
        return sums_at_corners(self.coefficients, common, of_x, of_donor) + self.intercept
