"""Semivalues of sums of boxes in closed form: trees with margins or probabilities as output.

A leaf is a game of its own for each pair of a row x and a donor b: it pays its value where every
player of its path is within the bounds. With V the players whose bounds x breaks and U those whose
bounds b breaks, it pays 0 everywhere if the two meet, else v(S) = value [U in S, V not in S]. On
the k = u + v players of U and V that game has the semivalue q_k(u - 1) for players of U and
-q_k(u) for those of V, q_k being the weights induced on k players (Strumbelj and Kononenko 2014
for interventional Shapley values of trees; `semivalues.induced_weights` for the others). It hangs
on the pattern of broken bounds only, so donors are counted by pattern, once for all rows.

Letters: R rows, B donors, L leaves with d players each, C columns, m bounded columns of a leaf at
most, P players, A sums.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

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


def pattern_weights(d: int, induced: Callable[[int], np.ndarray]) -> np.ndarray:
    """What a leaf of value 1 pays each player; float64 [2^d of b, 2^d of x, d].

    Patterns are of broken bounds; induced(k) are the weights q_k [k].
    """
    patterns = np.arange(1 << d)
    bits = ((patterns[:, None] >> np.arange(d)) & 1).astype(bool)
    size = bits.sum(axis=1)
    of_b = np.zeros((d + 1, d + 1))  # [u, v]
    of_x = np.zeros((d + 1, d + 1))
    for u in range(d + 1):
        for v in range(d + 1 - u):
            q = induced(u + v)
            of_b[u, v] = q[u - 1] if u else 0.0
            of_x[u, v] = -q[u] if v else 0.0
    apart = ((patterns[:, None] & patterns) == 0)[:, :, None]
    u, v = size[:, None], size[None, :]
    paid = bits[:, None] * of_b[u, v][:, :, None] + bits[None] * of_x[u, v][:, :, None]
    return apart * paid


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


@partial(jax.jit, static_argnames=("P",))
def paid(
    pattern: jax.Array, table: jax.Array, players: jax.Array, values: jax.Array, P: int
) -> jax.Array:
    """What the leaves pay; [R, P, A].

    pattern int32 [R, L]; table [L 2^d, d], what a leaf of value 1 pays beside all donors.
    """
    L, d = players.shape
    place = pattern + jnp.arange(L, dtype=jnp.int32) * (table.shape[0] // L)
    total = jnp.zeros((len(pattern), P * values.shape[1]), values.dtype)
    for i in range(d):
        share = table[:, i].at[place].get(mode="promise_in_bounds")  # [R, L]
        to = jax.nn.one_hot(players[:, i], P, dtype=values.dtype)[:, :, None] * values[:, None]
        total += jnp.dot(share, to.reshape(L, -1), precision=HIGHEST)
    return total.reshape(len(pattern), P, -1)
