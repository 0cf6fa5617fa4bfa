"""Mean answers over donors where the head is a logistic function of one sum: no exponential of each
coalition.

    1 / (1 + exp(-(a + c))) = exp(a) / (exp(a) + exp(-c)).

The sum of a coalition is a of some players and c of the others. So the exponentials belong to two
half tables, and beside each donor a coalition costs an addition and a division. Each exponential is
off by some units in the last place, and so is the chance, as by the sum's own rounding. Where the
terms could leave the range of the exponential, this way is not taken (`Chances.reach`).

The answers are affine in the chance, and so is their mean: one table of chances serves all outputs.

Letters: F columns, P players, B donors, R rows, K outputs, C = 2^P corners; m and n entries of the
half tables, m n = C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels.engine.reduce import neumaier
from xaijax_kernels.engine.turns import folded
from xaijax_kernels.structures.base import Head, Layer
from xaijax_kernels.structures.logistic import Logistic, logistic
from xaijax_kernels.structures.sums import sums_of_choices

TOGETHER = 16  # donors whose chances are added up before what rounding takes is carried along


@dataclass(frozen=True)
class Chances:
    """The sums of a layer that a head takes the logistic function of, by their terms."""

    known: Layer
    head: Logistic
    each: jax.Array  # bool [P, F], the columns of each player

    def terms(self, rows: jax.Array) -> jax.Array:
        """What each player of rows [R, F] adds; [R, P]."""
        columns, own = self.known.columns(rows), self.known.of_columns(self.each)
        many = jnp.repeat(columns, len(own), axis=0), jnp.tile(own, (len(rows), 1))
        return self.head.sums(self.known.part(*many)).reshape(len(rows), len(own))

    @property
    def start(self) -> jax.Array:
        """The sum without any term; []."""
        nothing = self.known.nothing(1, self.head.slope.dtype)
        return self.head.sums(self.known.joined(nothing, nothing)[0, 0]) + self.head.start

    def reach(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """Whether exponentials of any sum of terms, x's [P] or a donor's [B, P], and their own
        sums keep all their digits; bool []. What a maximum loses, a term that is no number, is in
        the sums themselves, and so in the answers.
        """
        size = jnp.maximum(abs(x), abs(donors).max(axis=0)).sum() + abs(self.start)
        return size < math.log(float(jnp.finfo(size.dtype).max)) - 4

    def means(
        self,
        x: jax.Array,  # [P], of `terms`
        donors: jax.Array,  # [B, P]
        weights: jax.Array,  # [B]
        asked: jax.Array,  # int32 [], how many of the donors, at least one
        known_turns: bool,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Weighted sums of the scores of all corners, less one of them, what rounding took from
        them, both [C, K]; and that score, f(x)'s, the largest and the smallest, [4, K].
        """
        filled = -len(donors) % TOGETHER
        donors = jnp.pad(donors, ((0, filled), (0, 0)), mode="edge")
        weights = jnp.pad(weights, (0, filled))
        half, start = len(x) // 2, jnp.full((len(donors), 1, 1), self.start)
        either = jnp.stack([donors, jnp.broadcast_to(x, donors.shape)], axis=2)[..., None]
        a = sums_of_choices(start, either[:, :half])[..., 0]  # [B, n]
        c = sums_of_choices(jnp.zeros_like(start), either[:, half:])[..., 0]  # [B, m]
        # Written out. With the sums in one loop an exponential takes 7 ns, alone 2; the compiler
        # would also make them again for each corner.
        a, c = jax.lax.optimization_barrier((a, c))
        grown, shrunk = jax.lax.optimization_barrier((jnp.exp(a), jnp.exp(-c)))
        # Of no player, of all, and of those that add most or least to the sum beside a donor.
        most, least = jnp.maximum(donors, x).sum(axis=1), jnp.minimum(donors, x).sum(axis=1)
        sums = jnp.stack([donors[0].sum(), x.sum(), most.max(), least.min()]) + self.start
        nothing = jax.nn.sigmoid(sums[0])

        def some(turn: jax.Array, kept: Any) -> Any:
            def of(table: jax.Array) -> jax.Array:
                return jax.lax.dynamic_slice_in_dim(table, turn * TOGETHER, TOGETHER)

            up, down, w = of(grown), of(shrunk), of(weights)
            part = jnp.zeros_like(kept[0])
            for b in range(TOGETHER):  # written out: one pass over corners, which stay in registers
                chance = up[b] / (up[b] + down[b][:, None])
                part += w[b] * (chance - nothing)  # as large as the changes, not as the level
            return neumaier(kept[0], kept[1], part)

        zero = jnp.zeros((c.shape[1], a.shape[1]), x.dtype)
        turns = (asked + TOGETHER - 1) // TOGETHER
        high, low = folded(some, (zero, zero), turns, len(donors) // TOGETHER, known_turns)
        ends = self.head.answers(jax.nn.sigmoid(sums))
        # The gain may be of any sign.
        ends = jnp.stack([ends[0], ends[1], ends[2:].max(axis=0), ends[2:].min(axis=0)])
        gain = self.head.gain
        return high.reshape(-1, 1) * gain, low.reshape(-1, 1) * gain, ends


def chances_of(known: Layer, head: Head, rows: int, dtype: Any, each: jax.Array) -> Chances | None:
    """Of a layer and what follows it, which takes so many rows at a time, and the columns of each
    player, bool [P, F]; None: they are no such sum and logistic function.
    """
    found = logistic(head, (rows, known.width), dtype) if known.adds else None
    return None if found is None else Chances(known, found, each)
