"""Sums of products over columns at the corners of a pair: sum_l a_l prod_j k_l(z_j).

An RBF machine is one, and so is a tree: a leaf is reached where every column is within its bounds.
For a slot the low bits and the high bits of a corner index give a half table each, and all values
are one product of matrices, [2^h, L] x [L, 2^(s-h)].

Factors are kept as exponents that add up over columns, so that those of a player of many columns
are one product of matrices too; `unit` turns sums of exponents into products of factors.

Letters: S slots of 2^s corners, F columns, L terms (support vectors, leaves), A sums, R rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, final

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.structures.base import Affine, Background, Head, Layer
from xaijax_kernels.structures.closed_forms import Trees
from xaijax_kernels.structures.leaves import leaves_by_players

HIGHEST = jax.lax.Precision.HIGHEST
LARGEST = 1e30  # an exponent: its factor is 0, and 0 times it is 0, as it is not of infinity


class Factors(Protocol):
    """The factors k_l(z_j) of a sum of products."""

    def exponents(self, rows: jax.Array) -> jax.Array:
        """Of rows [R, F]; [R, F, L]."""
        ...

    def of_column(self, rows: jax.Array, column: jax.Array) -> jax.Array:
        """The exponents of one column of rows [R, F]; [R, L]."""
        ...

    def unit(self, exponents: jax.Array) -> jax.Array:
        """The factors; unit(d + e) = unit(d) unit(e)."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gaussians:
    """k_l(z_j) = exp(-gamma (z_j - c_lj)^2)."""

    centres: jax.Array  # [L, F]
    gamma: jax.Array  # [] or [F]

    def exponents(self, rows: jax.Array) -> jax.Array:
        """See `Factors`."""
        far = jnp.square(rows[:, :, None] - self.centres.T) * jnp.reshape(self.gamma, (-1, 1))
        return jnp.minimum(far, LARGEST)

    def of_column(self, rows: jax.Array, column: jax.Array) -> jax.Array:
        """See `Factors`."""
        gamma = jnp.broadcast_to(self.gamma, rows.shape[1:])[column]
        far = jnp.square(rows[:, column, None] - self.centres[:, column]) * gamma
        return jnp.minimum(far, LARGEST)

    def unit(self, exponents: jax.Array) -> jax.Array:
        """See `Factors`."""
        return jnp.exp(-exponents)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Boxes:
    """k_l(z_j) = 1 where low < z_j <= high: the leaves of trees."""

    low: jax.Array  # [L, F]
    high: jax.Array  # [L, F]

    def exponents(self, rows: jax.Array) -> jax.Array:
        """See `Factors`: 1 where a bound is broken."""
        z = rows[:, :, None]
        return (~((z > self.low.T) & (z <= self.high.T))).astype(rows.dtype)

    def of_column(self, rows: jax.Array, column: jax.Array) -> jax.Array:
        """See `Factors`."""
        z = rows[:, column, None]
        inside = (z > self.low[:, column]) & (z <= self.high[:, column])
        return (~inside).astype(rows.dtype)

    def unit(self, exponents: jax.Array) -> jax.Array:
        """See `Factors`."""
        return (exponents == 0).astype(exponents.dtype)


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
        """See `Layer.part`."""

        def one(total: jax.Array, column: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            number, is_own = column[0], column[1][:, None]
            exponents = self.factors.of_column(columns, number)
            return total + jnp.where(is_own, exponents, 0), None

        zero = jnp.zeros((len(columns), self.coefficients.shape[0]), columns.dtype)
        each = (jnp.arange(columns.shape[1]), own.T)
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

    def block(self, rows: int) -> int:
        """See `Layer.block`: all rows of a tile."""
        return rows

    def corners(self, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array) -> jax.Array:
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
        kept_x, kept_donor = self.factors.unit(with_x[:s]), self.factors.unit(with_donor[:s])

        def quarter(start: jax.Array, first: int, last: int) -> jax.Array:
            out = start[None]  # [1, L]
            for t in range(first, last):
                out = jnp.concatenate([out * kept_donor[t], out * kept_x[t]])
            return out

        def table(start: jax.Array, first: int, last: int) -> jax.Array:
            # Twice as fast as doubling all the way: one pass over the whole table.
            middle = (first + last) // 2
            low, high = quarter(start, first, middle), quarter(jnp.ones_like(start), middle, last)
            return (high[:, None] * low).reshape(-1, start.shape[0])

        half = s // 2
        low = table(common, 0, half)  # [2^h, L]
        high = table(jnp.ones_like(common), half, s)  # [2^(s - h), L]
        # [A 2^h, L], rows on both sides: L last is the layout that the product reads fastest.
        weighted = (self.coefficients.T[:, None] * low).reshape(-1, low.shape[1])
        sums = jax.lax.dot_general(high, weighted, (((1,), (1,)), ((), ())), precision=HIGHEST)
        sums = sums.reshape(len(high), -1, len(low)).swapaxes(1, 2)  # [2^(s - h), 2^h, A]
        return sums.reshape(-1, sums.shape[2]) + self.intercept
