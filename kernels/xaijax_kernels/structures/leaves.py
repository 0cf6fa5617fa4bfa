"""Values of sums of boxes in closed form: trees with margins or probabilities as output.

A leaf is a game of its own for each pair of a row x and a donor b: it pays its value if every
player of its path is within the bounds. With V the players whose bounds x breaks and U those whose
bounds b breaks, it pays 0 everywhere if the two meet, else v(S) = value [U in S, V not in S]. On
the k = u + v players of U and V that game has the semivalue q_k(u - 1) for players of U and -q_k(u)
for those of V, q_k being the weights induced on k players (Strumbelj and Kononenko 2014 for
interventional Shapley values of trees; `semivalues.induced_weights` for the others). A set S of i
players of U and j of V has one derivative that is not 0, (-1)^j at U without S: it is paid (-1)^j
p_s(u - i). All this depends on the pattern of broken bounds only, so donors are counted by pattern,
once for all rows.

Letters: R rows, B donors, L leaves with d players and D sets of them each, C columns, m bounded
columns of a leaf at most, M sets of all players, A sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.games import semivalues
from xaijax_kernels.structures.base import SizeWeights

HIGHEST = jax.lax.Precision.HIGHEST
MOST_PLAYERS = 8  # of one leaf; patterns number 4^d


@dataclass(frozen=True)
class Leaves:
    """Leaves whose paths ask d players each."""

    players: np.ndarray  # int32 [L, d]
    column: np.ndarray  # int32 [L, m]; filled up by column 0
    slot: np.ndarray  # int32 [L, m], the place of the column's player among the leaf's
    low: np.ndarray  # [L, m]; filled up by -inf
    high: np.ndarray  # [L, m]; filled up by inf
    values: np.ndarray  # float64 [L, A]

    @property
    def d(self) -> int:
        """Players of one leaf."""
        return self.players.shape[1]


def leaves_by_players(
    low: np.ndarray, high: np.ndarray, values: np.ndarray, player: np.ndarray
) -> list[Leaves] | None:
    """Boxes low, high [L, C] in groups by their number of players; player int [C].

    None: a leaf has too many.
    """
    bounded = (low > -np.inf) | (high < np.inf)
    count = player.max(initial=-1) + 1
    asked = np.zeros((len(low), count), bool)
    for c, one in enumerate(player):
        asked[:, one] |= bounded[:, c]
    d = asked.sum(axis=1)
    if d.max(initial=0) > MOST_PLAYERS:
        return None
    groups = []
    for own in np.unique(d):
        here = np.flatnonzero(d == own)
        m = int(bounded[here].sum(axis=1).max(initial=0))
        # The bounded columns first; what fills up has no bounds.
        column = np.argsort(~bounded[here], axis=1, kind="stable")[:, :m]
        rank = np.cumsum(asked[here], axis=1) - 1
        slot = np.take_along_axis(rank, player[column], axis=1)
        is_bounded = np.take_along_axis(bounded[here], column, axis=1)
        players = np.nonzero(asked[here])[1].reshape(len(here), own)
        groups.append(
            Leaves(
                players.astype(np.int32),
                column.astype(np.int32),
                np.where(is_bounded, slot, 0).astype(np.int32),
                np.take_along_axis(low[here], column, axis=1),
                np.take_along_axis(high[here], column, axis=1),
                values[here],
            )
        )
    return groups


def pattern_weights(d: int, of: SizeWeights) -> np.ndarray:
    """What a leaf of value 1 pays each set of its players; float64 [2^d of b, 2^d of x, D].

    Patterns are of broken bounds; of(k) are the weights of k players.
    """
    patterns = np.arange(1 << d)
    u = np.bitwise_count(patterns).astype(np.int64)[:, None]
    v, apart = u.T, (patterns[:, None] & patterns) == 0
    weights = [of(k) for k in range(d + 1)]
    parts = [np.zeros((1 << d, 1 << d, 0))]
    for s in range(1, min(of.order, d) + 1):
        # [u, i, k]: the weight of derivatives at the u - i others of U, of k players
        p = np.zeros((d + 1, d + 1, d + 1))
        for k in range(s, d + 1):
            for i in range(s + 1):
                for own in range(i, k - s + i + 1):
                    p[own, i, k] = weights[k][s - 1][own - i]
        bits = (1 << semivalues.of_size(d, s)).sum(axis=1)
        i = np.bitwise_count(patterns[:, None] & bits).astype(np.int64)  # [2^d, sets]
        of_b, of_x = i[:, None], i[None]
        inside = apart[:, :, None] & (of_b + of_x == s)
        paid = p[u[:, :, None], of_b, np.minimum(u + v, d)[:, :, None]]
        parts.append(np.where(inside, np.where(of_x % 2, -paid, paid), 0.0))
    return np.concatenate(parts, axis=2)


@jax.jit
def broken(
    rows: jax.Array, column: jax.Array, slot: jax.Array, low: jax.Array, high: jax.Array
) -> jax.Array:
    """Patterns of the bounds that rows [R, C] break, bit i for slot i; int32 [R, L]."""
    out = jnp.zeros((len(rows), len(column)), jnp.int32)
    columns = rows.T
    for m in range(column.shape[1]):
        z = columns[column[:, m]].T
        outside = ~((z > low[:, m]) & (z <= high[:, m]))
        out |= outside.astype(jnp.int32) << slot[:, m]
    return out


@partial(jax.jit, static_argnames=("M",))
def paid(
    pattern: jax.Array, table: jax.Array, sets: jax.Array, values: jax.Array, M: int
) -> jax.Array:
    """What the leaves pay; [R, M, A].

    pattern int32 [R, L]; table [L 2^d, D], what a leaf of value 1 pays its sets against all donors;
    sets int32 [L, D], which of all they are.
    """
    L, D = sets.shape
    place = pattern + jnp.arange(L, dtype=jnp.int32) * (table.shape[0] // L)
    total = jnp.zeros((len(pattern), M * values.shape[1]), values.dtype)
    for i in range(D):
        share = table[:, i].at[place].get(mode="promise_in_bounds")  # [R, L]
        to = jax.nn.one_hot(sets[:, i], M, dtype=values.dtype)[:, :, None] * values[:, None]
        total += jnp.dot(share, to.reshape(L, -1), precision=HIGHEST)
    return total.reshape(len(pattern), M, -1)
