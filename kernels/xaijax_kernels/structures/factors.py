"""Factors of sums of products, for RBF machines and for the leaves of trees.

Factors are stored as exponents that add over columns, so that a player of many columns takes one
matrix product too; `unit` turns sums of exponents into products of factors.

Letters: R rows, F columns, L terms (support vectors, leaves), A sums, P players, S or B donors, s
players whose 2^s sub-coalitions are evaluated, C sets of players, W = ceil(P / 32) words of bits.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels import sizes
from xaijax_kernels.engine import tiles
from xaijax_kernels.structures.base import whole_vectors
from xaijax_kernels.structures.nodes import Nodes

HIGHEST = jax.lax.Precision.HIGHEST
LARGEST = 1e30  # an exponent with factor 0; finite, so that 0 times it is 0


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
        """The argument of `of_column` for each column; a pytree [F, ..]."""
        return self.centres.T, jnp.broadcast_to(self.gamma, self.centres.shape[1:])

    def of_column(self, factor: Any, values: jax.Array) -> jax.Array:
        """The exponents of one column with values [R]; [R, L]. factor: an entry of `by_column`."""
        centres, gamma = factor
        return jnp.minimum(jnp.square(values[:, None] - centres) * gamma, LARGEST)

    def unit(self, exponents: jax.Array) -> jax.Array:
        """The factors; unit(d + e) = unit(d) unit(e). Results are identical bit for bit for any
        number of others.
        """
        whole = whole_vectors(-exponents, -1)
        return jax.lax.optimization_barrier(jnp.exp(whole))[..., : exponents.shape[-1]]

    def pairs(
        self, coefficients: jax.Array, players: int, x: jax.Array, donors: jax.Array, platform: str
    ) -> jax.Array:
        """sum_l coefficients_l prod_j k_l at all sub-coalitions of x against donors; [S, 2^P, A].

        x [.., L], donors [S, .., L]: factors [P, L] of the players of a row; for boxes, results of
        `prepared`. platform: the platform of the compiled program.
        """
        del players, platform
        ones = jnp.ones_like(x[0])
        return jax.vmap(lambda donor: sums_at_subsets(coefficients, ones, x, donor))(donors)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Boxes:
    """k_l(z_j) = 1 where low < z_j <= high, or the code z_j passes: the leaves of trees."""

    low: jax.Array  # [L, F]
    high: jax.Array  # [L, F]
    missing: jax.Array | None = None  # bool [L, F], whether NaN passes too; None: nowhere
    codes: jax.Array | None = None  # uint32 [c, n, L], codes of categories that pass, as bits
    kind: jax.Array | None = None  # int32 [F], the entry of `codes` of each column; -1: numbers
    nodes: Nodes | None = None  # of the trees, for the closed form

    def exponents(self, rows: jax.Array) -> jax.Array:
        """See `Gaussians`: 1 if a bound is violated."""
        return jax.vmap(self.of_column, in_axes=(0, 1), out_axes=1)(self.by_column(), rows)

    def by_column(self) -> Any:
        """See `Gaussians`."""
        arrays = {"low": self.low, "high": self.high, "missing": self.missing}
        made = {name: array.T for name, array in arrays.items() if array is not None}
        return made if self.kind is None else made | {"kind": self.kind}

    def of_column(self, box: Any, values: jax.Array) -> jax.Array:
        """See `Gaussians`."""
        z = values[:, None]
        within = (z > box["low"]) & (z <= box["high"])
        if self.codes is not None:  # the last code means unknown
            last = 32 * self.codes.shape[1] - 1
            code = jnp.where((values >= 0) & (values < last), values, last).astype(jnp.int32)
            words = self.codes[jnp.maximum(box["kind"], 0), code // 32]  # [R, L]
            passes = (words >> (code % 32).astype(jnp.uint32)[:, None]) & 1 == 1
            within &= passes | (box["kind"] < 0)
        if self.missing is not None:
            within |= jnp.isnan(z) & box["missing"]
        return (~within).astype(values.dtype)

    def unit(self, exponents: jax.Array) -> jax.Array:
        """See `Gaussians`."""
        return (exponents == 0).astype(exponents.dtype)

    def prepared(self, row: jax.Array, mask: jax.Array) -> jax.Array:
        """The players whose bounds a row [F] violates, as bits; uint32 [W, L].

        mask: bool [P, F], the columns of each player. Bit p % 32 of word p // 32 is that of player
        p.
        """
        place = jnp.arange(len(mask), dtype=jnp.uint32)[:, None]
        bits = jnp.where(mask, jnp.uint32(1) << place % 32, jnp.uint32(0))
        bits = jnp.pad(bits, ((0, -len(mask) % 32), (0, 0))).reshape(-1, 32, mask.shape[1])
        bits = bits.sum(axis=1, dtype=jnp.uint32)  # [W, F]: no column has two players

        def add(words: jax.Array, column: Any) -> tuple[jax.Array, None]:
            value, of_player, bounds = column
            broken = self.of_column(bounds, value[None])[0] > 0
            return words | jnp.where(broken, of_player[:, None], 0), None

        none = jnp.zeros((len(bits), len(self.low)), jnp.uint32)
        return jax.lax.scan(add, none, (row, bits.T, self.by_column()))[0]

    def pairs(
        self, coefficients: jax.Array, players: int, x: jax.Array, donors: jax.Array, platform: str
    ) -> jax.Array:
        """See `Gaussians`. On a CPU it sums only leaves that some sub-coalition reaches: those
        where no player's bounds are violated by both x and the donor. Elsewhere all leaves are
        one product.
        """
        A, bit = coefficients.shape[1], jnp.arange(players, dtype=jnp.uint32)[:, None]
        x, donors = x[0], donors[:, 0]

        def subsets(weights: jax.Array, x: jax.Array, donor: jax.Array) -> jax.Array:
            of_x, of_donor = (((~row >> bit) & 1).astype(weights.dtype) for row in (x, donor))
            return sums_at_subsets(weights, jnp.ones_like(weights[:, 0]), of_x, of_donor)

        if platform != "cpu":
            return jax.vmap(lambda donor: subsets(coefficients, x, donor))(donors)
        reached = Reached.of((x & donors) == 0)

        def add(t: jax.Array, sums: jax.Array) -> jax.Array:
            def of_donor(reached: Reached, donor: jax.Array) -> jax.Array:
                leaf, there = reached.some(t)
                weights = jnp.where(there[:, None], coefficients[leaf], 0)
                return subsets(weights, x[leaf], donor[leaf])

            return sums + jax.vmap(of_donor)(reached, donors)

        zero = jnp.zeros((len(donors), 1 << players, A), coefficients.dtype)
        known = tiles.counted(platform)
        return tiles.folded(add, zero, reached.turns().max(), reached.most, known)

    def at_sets(
        self, coefficients: jax.Array, x: jax.Array, donors: jax.Array, sets: jax.Array,
        platform: str,
    ) -> jax.Array:  # fmt: skip
        """Sums of coefficients_l over the leaves reached by the hybrids of x and each donor that
        keep the players of `sets`; [B, C, A].

        x [W, L], donors [B, W, L]: results of `prepared`; sets: uint32 [C, W], as bits.

        A hybrid reaches a leaf if it keeps all players whose bounds the donor violates, and none
        whose bounds x violates. On a CPU only leaves without a player in both sets are checked.
        """
        alive = ((x & donors) == 0).all(axis=1)  # [B, L]

        def same(broken: jax.Array, donor: jax.Array) -> jax.Array:
            """Whether hybrids keep, among the players with a violated bound, words [W, ..],
            exactly those of the donor; bool [C, ..].
            """
            tests = [
                (sets[:, w].reshape(-1, *[1] * (broken.ndim - 1)) & broken[w]) == donor[w]
                for w in range(sets.shape[1])
            ]
            return functools.reduce(jnp.logical_and, tests)

        if platform != "cpu":

            def of_donor(alive: jax.Array, donor: jax.Array) -> jax.Array:
                reached = same(x | donor, donor) & alive
                return jnp.where(reached[:, :, None], coefficients, 0).sum(axis=1)

            return jax.vmap(of_donor)(alive, donors)

        known = tiles.counted(platform)

        def of_row(pair: tuple[Reached, jax.Array]) -> jax.Array:
            reached, donor = pair

            def add(t: jax.Array, sums: jax.Array) -> jax.Array:
                leaf, there = reached.some(t)
                leaf_weights, b = coefficients[leaf], donor[:, leaf]
                broken = x[:, leaf] | b

                # One leaf after another: a hybrid's leaves are summed in the trees' order.
                def add_leaf(i: jax.Array, sums: jax.Array) -> jax.Array:
                    hit = same(broken[:, i], b[:, i])
                    return sums + jnp.where(hit, leaf_weights[i][:, None], 0)

                trip_count = there.sum(dtype=jnp.int32)
                return tiles.folded(add_leaf, sums, trip_count, len(there), known)

            zero = jnp.zeros((coefficients.shape[1], len(sets)), coefficients.dtype)
            return tiles.folded(add, zero, reached.turns(), reached.most, known).T

        return jax.lax.map(of_row, (Reached.of(alive), donors))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Reached:
    """Leaves that some hybrid of a pair reaches, a few per step."""

    upto: jax.Array  # int32 [.., L], number of reached leaves up to each leaf

    @classmethod
    def of(cls, reached: jax.Array) -> Reached:
        """The marked leaves, bool [.., L]."""
        return cls(jnp.cumsum(reached.astype(jnp.int32), axis=-1))

    @property
    def _together(self) -> int:
        return min(sizes.LEAVES, self.upto.shape[-1])

    @property
    def most(self) -> int:
        """Steps that take all leaves."""
        return -(-self.upto.shape[-1] // self._together)

    def turns(self) -> jax.Array:
        """Steps that take the reached leaves; int32 [..]."""
        return -(-self.upto[..., -1] // self._together)

    def some(self, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(the leaves of step t of one pair, whether each exists), by binary search."""
        wanted = t * self._together + jnp.arange(1, self._together + 1, dtype=jnp.int32)
        return jnp.searchsorted(self.upto, wanted), wanted <= self.upto[-1]


Factors = Gaussians | Boxes  # the factors k_l(z_j) of a sum of products


def sums_at_subsets(
    coefficients: jax.Array,  # [L, A]
    common: jax.Array,  # [L], a factor common to all sub-coalitions
    of_x: jax.Array,  # [s, L], factors if the sub-coalition keeps the player
    of_donor: jax.Array,  # [s, L], and if it does not
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
        # Twice as fast as repeated doubling: one pass over the whole table.
        middle = (first + last) // 2
        low, high = doubled(start, first, middle), doubled(ones, middle, last)
        return (high[0, :, None] * low[:, None]).reshape(-1, start.shape[1])

    ones = jnp.ones_like(common)[None]
    low = table(coefficients.T * common, 0, half)  # [A 2^h, L]
    high = table(ones, half, s)  # [2^(s - h), L]
    # L is last on both sides: the layout that the product reads fastest.
    sums = jax.lax.dot_general(high, low, (((1,), (1,)), ((), ())), precision=HIGHEST)
    sums = sums.reshape(len(high), coefficients.shape[1], -1).swapaxes(1, 2)  # [.., 2^h, A]
    return sums.reshape(-1, sums.shape[2])
