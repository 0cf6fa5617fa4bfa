"""The factors of sums of products: of RBF machines, and of the leaves of trees.

Factors are kept as exponents that add up over columns, so that those of a player of many columns
are one product of matrices too; `unit` turns sums of exponents into products of factors.

Letters: R rows, F columns, L terms (support vectors, leaves), A sums, P players, S donors,
s players whose 2^s sub-coalitions are asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels import sizes
from xaijax_kernels.engine import tiles
from xaijax_kernels.structures.base import whole_vectors

HIGHEST = jax.lax.Precision.HIGHEST
LARGEST = 1e30  # an exponent: its factor is 0, and 0 times it is 0, as it is not of infinity


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Gaussians:
    """k_l(z_j) = exp(-gamma (z_j - c_lj)^2)."""

    centres: jax.Array  # [L, F]
    gamma: jax.Array  # [] or [F]

    def exponents(self, rows: jax.Array) -> jax.Array:
        """Exponents of rows [R, F]; [R, F, L]."""
        far = jnp.square(rows[:, :, None] - self.centres.T) * jnp.reshape(self.gamma, (-1, 1))
        return jnp.minimum(far, LARGEST)

    def by_column(self) -> Any:
        """What `of_column` takes, of each column; a pytree [F, ..]."""
        return self.centres.T, jnp.broadcast_to(self.gamma, self.centres.shape[1:])

    def of_column(self, one: Any, values: jax.Array) -> jax.Array:
        """The exponents of one column with values [R]; [R, L]. one: of `by_column`."""
        centres, gamma = one
        return jnp.minimum(jnp.square(values[:, None] - centres) * gamma, LARGEST)

    def unit(self, exponents: jax.Array) -> jax.Array:
        """The factors; unit(d + e) = unit(d) unit(e). Results are identical bit for bit, however
        many others are computed with them.
        """
        whole = whole_vectors(-exponents, -1)
        return jax.lax.optimization_barrier(jnp.exp(whole))[..., : exponents.shape[-1]]

    def kept(self, factors: jax.Array) -> jax.Array:
        """Factors [P, L] of the players of a row, as `pairs` takes them; [P, L]."""
        return factors

    def pairs(
        self, coefficients: jax.Array, players: int, x: jax.Array, donors: jax.Array, platform: str
    ) -> jax.Array:
        """sum_l coefficients_l prod_j k_l at all sub-coalitions of x against donors; [S, 2^P, A].

        x [.., L], donors [S, .., L]: results of `kept`. platform: that of the devices that the
        program is compiled for.
        """
        del players, platform
        one = jnp.ones_like(x[0])
        return jax.vmap(lambda donor: sums_at_subsets(coefficients, one, x, donor))(donors)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Boxes:
    """k_l(z_j) = 1 where low < z_j <= high: the leaves of trees."""

    low: jax.Array  # [L, F]
    high: jax.Array  # [L, F]

    def exponents(self, rows: jax.Array) -> jax.Array:
        """See `Gaussians`: 1 where a bound is broken."""
        z = rows[:, :, None]
        return (~((z > self.low.T) & (z <= self.high.T))).astype(rows.dtype)

    def by_column(self) -> Any:
        """See `Gaussians`."""
        return self.low.T, self.high.T

    def of_column(self, one: Any, values: jax.Array) -> jax.Array:
        """See `Gaussians`."""
        (low, high), z = one, values[:, None]
        return (~((z > low) & (z <= high))).astype(values.dtype)

    def unit(self, exponents: jax.Array) -> jax.Array:
        """See `Gaussians`."""
        return (exponents == 0).astype(exponents.dtype)

    def kept(self, factors: jax.Array) -> jax.Array:
        """See `Gaussians`: a bit for each player, uint32 [L]."""
        place = jnp.arange(len(factors), dtype=jnp.uint32)[:, None]
        bits = (factors > 0).astype(jnp.uint32) << place
        return bits.sum(axis=0, dtype=jnp.uint32)

    def pairs(
        self, coefficients: jax.Array, players: int, x: jax.Array, donors: jax.Array, platform: str
    ) -> jax.Array:
        """See `Gaussians`. On a CPU it sums only leaves that some sub-coalition reaches: for each
        player x or the donor is within their bounds. They are found by halving, in the numbers of
        such leaves up to each. Elsewhere all leaves are one product.
        """
        (L, A), bit = coefficients.shape, jnp.arange(players, dtype=jnp.uint32)[:, None]

        def subsets(own: jax.Array, x: jax.Array, donor: jax.Array) -> jax.Array:
            of_x, of_donor = (((row >> bit) & 1).astype(own.dtype) for row in (x, donor))
            return sums_at_subsets(own, jnp.ones_like(own[:, 0]), of_x, of_donor)

        if platform != "cpu":
            return jax.vmap(lambda donor: subsets(coefficients, x, donor))(donors)
        reached = (x | donors) == jnp.uint32((1 << players) - 1)
        upto = jnp.cumsum(reached.astype(jnp.int32), axis=1)  # [S, L]
        together = min(sizes.LEAVES, L)

        def add(t: jax.Array, sums: jax.Array) -> jax.Array:
            wanted = t * together + jnp.arange(1, together + 1, dtype=jnp.int32)

            def of_donor(upto: jax.Array, donor: jax.Array) -> jax.Array:
                leaf = jnp.searchsorted(upto, wanted)
                own = jnp.where((wanted <= upto[-1])[:, None], coefficients[leaf], 0)
                return subsets(own, x[leaf], donor[leaf])

            return sums + jax.vmap(of_donor)(upto, donors)

        zero = jnp.zeros((len(donors), 1 << players, A), coefficients.dtype)
        turns = -(-upto[:, -1].max() // together)
        known = tiles.counted(platform)
        return tiles.folded(add, zero, turns, -(-L // together), known)


Factors = Gaussians | Boxes  # the factors k_l(z_j) of a sum of products


def sums_at_subsets(
    coefficients: jax.Array,  # [L, A]
    common: jax.Array,  # [L], a factor of all sub-coalitions
    of_x: jax.Array,  # [s, L], factors where a sub-coalition keeps the player
    of_donor: jax.Array,  # [s, L], and where it does not
) -> jax.Array:
    """sum_l coefficients_l common_l prod_t factor_tl of all sub-coalitions, one product of half
    tables; [2^s, A], bit t of a sub-coalition: player t is kept.
    """
    s, half = len(of_x), len(of_x) // 2

    def doubled(start: jax.Array, first: int, last: int) -> jax.Array:
        out = start[:, None]  # [A, 1, L]
        for t in range(first, last):
            out = jnp.concatenate([out * of_donor[t], out * of_x[t]], axis=1)
        return out

    def table(start: jax.Array, first: int, last: int) -> jax.Array:
        """[A 2^(last - first), L] of start [A, L]."""
        # Twice as fast as doubling all the way: one pass over the whole table.
        middle = (first + last) // 2
        low, high = doubled(start, first, middle), doubled(one, middle, last)
        return (high[0, :, None] * low[:, None]).reshape(-1, start.shape[1])

    one = jnp.ones_like(common)[None]
    low = table(coefficients.T * common, 0, half)  # [A 2^h, L]
    high = table(one, half, s)  # [2^(s - h), L]
    # Rows on both sides: L last is the layout that the product reads fastest.
    sums = jax.lax.dot_general(high, low, (((1,), (1,)), ((), ())), precision=HIGHEST)
    sums = sums.reshape(len(high), coefficients.shape[1], -1).swapaxes(1, 2)  # [.., 2^h, A]
    return sums.reshape(-1, sums.shape[2])
