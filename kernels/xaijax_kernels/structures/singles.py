"""Each player replaced by itself: every instance with the distinct values that a player has.

The layer without one player is put together once for an instance, and each value that the player
has in some donor is joined to it. QII of all data therefore asks as many hybrids of an instance as
the players have values, however many donors there are, and a hybrid costs an addition a unit, or a
share of a product of matrices, and the head.

Letters: V rows of the table of values, P players, N instances, n of a block, b blocks of D values
of one player, G blocks of a step, L numbers of a part, H of the layer, K scores, A answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels.engine.reduce import any_bad
from xaijax_kernels.structures.base import Layer
from xaijax_kernels.structures.crossed import INSTANCES

NUMBERS = 1 << 17  # of the layer, that a step makes of an instance block
TERMS = 256  # of a product, taken together: parts of all players of a block stay in the cache


def all_but_one(known: Layer, table: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """([P, n, L] of rows int32 [n, P] without each player, [n, L] of all players).

    The others are the players before it and those after it: three steps a player in place of P.
    """

    def add(part: jax.Array, term: jax.Array) -> tuple[jax.Array, jax.Array]:
        return known.both(part, term), part

    terms, start = table[rows.T], known.nothing(len(rows), table.dtype)
    everything, before = jax.lax.scan(add, start, terms)
    _, after = jax.lax.scan(add, start, terms, reverse=True)
    return known.both(before, after), everything


def single_means(
    structure: Callable[[Any], Layer],
    head: Callable[[Any, jax.Array], jax.Array],
    own_head: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, jax.Array], jax.Array],
    kept_scores: Callable[[jax.Array], jax.Array],
    outputs: int,
    params: Any,
    table: jax.Array,  # [V, L]
    x: jax.Array,  # int32 [N, P], rows of the table; N whole blocks
    players: jax.Array,  # int32 [steps, G], of each block
    values: jax.Array,  # int32 [steps, G, D], rows of the table
    weights: jax.Array,  # [steps, G, D], of the donors with this value; 0 for what fills up
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(scores of x [N, K], means over donors of those with each player replaced [N, P, K], whether
    one is bad, int32 []).

    head(params, hidden [G n D, H]) -> [.., A], own_head the same of n rows; score(answers, own
    answers) -> [.., K]. A player without given values keeps the score of x.

    What is averaged is the change of the score. If the layer adds, it is the change from the score
    of x with the player put back in the same way; in a sum of products a value that has x's own
    number changes nothing. A player without influence therefore has x's own score for its mean, bit
    for bit; with products this needs values that multiply alike to have one number.
    """
    known = structure(params)
    P, steps = x.shape[1], (players, values, weights)
    hidden_of = _added(known, table) if known.adds else _multiplied(known, table, players, values)

    def of_block(rows: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        n = len(rows)
        everything, again, hidden = hidden_of(rows)
        own = own_head(params, everything)  # [n, A]

        def scores(answers: jax.Array) -> jax.Array:
            flat, beside = (-1, own.shape[1]), jnp.broadcast_to(own[:, None], answers.shape)
            found = score(answers.reshape(flat), beside.reshape(flat))
            return found.reshape(*answers.shape[:-1], -1)

        start = scores(own[:, None])[:, 0]  # [n, K]
        back = jax.lax.map(lambda h: scores(own_head(params, h)[:, None])[:, 0], again)  # [P, n, K]

        def step(carry: tuple[jax.Array, jax.Array], one: Any) -> tuple[Any, None]:
            (total, bad), ((player, value, weight), place) = carry, one
            made = hidden(place, player, value)  # [G, n, D, H]
            answers = head(params, made.reshape(-1, made.shape[-1]))
            found = jax.vmap(scores)(answers.reshape(*made.shape[:3], -1))
            same = rows.T[player][:, :, None] == value[:, None]
            meant = (weight > 0)[:, None, :] & ~same
            change = jnp.where(meant[..., None], found - back[player][:, :, None], 0)
            mean = (weight[:, None, :, None] * change).sum(axis=2)  # [G, n, K]
            of = (player == jnp.arange(P, dtype=player.dtype)[:, None]).astype(mean.dtype)  # [P, G]
            total += jnp.einsum("pg,gnk->pnk", of, mean, precision=jax.lax.Precision.HIGHEST)
            good = kept_scores(found.reshape(-1, found.shape[-1])).reshape(found.shape)
            bad = jnp.maximum(bad, any_bad(good | ~meant[..., None]))
            return (total, bad), None

        zero = jnp.zeros((P, n, outputs), table.dtype)
        first = any_bad(kept_scores(start)), any_bad(kept_scores(back.reshape(-1, outputs)))
        each = steps, jnp.arange(len(players), dtype=jnp.int32)
        (total, bad), _ = jax.lax.scan(step, (zero, jnp.maximum(*first)), each)
        return start, (start + total).swapaxes(0, 1), bad

    own, means, bad = jax.lax.map(of_block, x.reshape(-1, INSTANCES, P))
    return own.reshape(len(x), outputs), means.reshape(len(x), P, outputs), bad.max()


def _added(known: Layer, table: jax.Array) -> Any:
    """For a layer that adds: what a step asks is made in the step."""
    nothing = known.nothing(1, table.dtype)

    def of_rows(rows: jax.Array) -> Any:
        without, everything = all_but_one(known, table, rows)
        paired = jax.vmap(lambda one, other: known.joined(one[None], other[None])[0, 0])

        def hidden(place: jax.Array, player: jax.Array, value: jax.Array) -> jax.Array:
            del place
            return jax.vmap(known.joined)(without[player], table[value])

        return (
            known.joined(everything, nothing)[:, 0],
            jax.vmap(paired)(without, table[rows.T]),
            hidden,
        )

    return of_rows


def _multiplied(known: Layer, table: jax.Array, players: jax.Array, values: jax.Array) -> Any:
    """For sums of products: some terms after the others, of all blocks of values at once."""
    L = known.parts
    count = min(TERMS, L)
    firsts = [min(t, L - count) for t in range(0, L, count)]
    # Written out once for all instances: the terms that are taken together are next to each other.
    parts = jnp.stack([table[:, t : t + count] for t in firsts])  # [chunks, V, count]
    theirs = jax.lax.optimization_barrier(parts[:, values.reshape(-1, values.shape[-1])])
    starts = jnp.arange(len(firsts), dtype=jnp.int32) * count
    flat = players.reshape(-1)

    def of_rows(rows: jax.Array) -> Any:
        def add(sums: tuple[jax.Array, jax.Array], chunk: Any) -> tuple[Any, None]:
            part, other, first = chunk
            some = known.some(first, count)
            without, everything = all_but_one(some, part, rows)
            # There are as many rows as values, because a product of another shape is rounded in
            # another way.
            nothing = some.nothing(values.shape[-1], table.dtype)
            own = some.joined(everything, nothing)[:, 0]
            crossed = jax.lax.map(lambda one: some.joined(without[one[0]], one[1]), (flat, other))
            return (sums[0] + own, sums[1] + crossed), None

        H = known.width
        zero = (
            jnp.zeros((len(rows), H), table.dtype),
            jnp.zeros((len(flat), len(rows), values.shape[-1], H), table.dtype),
        )
        (own, crossed), _ = jax.lax.scan(add, zero, (parts, theirs, starts))
        crossed = crossed.reshape(*players.shape, *crossed.shape[1:])
        again = jnp.broadcast_to(own, (rows.shape[1], *own.shape))
        return own, again, lambda place, player, value: crossed[place]

    return of_rows
