"""Evaluates hybrids of draws by an additive structure: a draw has an instance, a donor and
coalitions.

The layer of a hybrid is the sum of the players' terms, x's for kept players and the donor's for the
others: P additions instead of a row of the model.

Letters: D draws, L coalitions of a draw, P players, H numbers of the layer, A answers, K scores,
N instances, B donors, M lists of coalitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels.engine.reduce import any_bad
from xaijax_kernels.structures.base import Layer

UNROLLED = 16  # players whose additions are unrolled, so that they become one loop


def drawn_scores(
    structure: Callable[[Any], Layer],
    head: Callable[[Any, jax.Array], jax.Array],
    own_head: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, jax.Array], jax.Array],
    kept_scores: Callable[[jax.Array], jax.Array],
    params: Any,
    of_rows: jax.Array,  # [N, P, H], each player's term
    of_donors: jax.Array,  # [B, P, H]
    instance: jax.Array,  # int32 [T, D]
    donor: jax.Array,  # int32 [T, D]
    listed: jax.Array,  # int32 [T, D], the list of each draw; not read if M = 1
    masks: jax.Array,  # bool [M, L, P]
) -> tuple[jax.Array, jax.Array]:
    """Scores of T tiles of draws [T, L, D, K], and whether one is invalid, int32 [].

    head(params, hidden [L D, H]) -> [L D, A], own_head the same of D rows; score(answers, own
    answers) -> [.., K]. A hybrid whose terms equal those of x has x's output, bit for bit. A list
    that all draws share takes two small products.
    """
    known = structure(params)
    (M, L, P), H = masks.shape, of_rows.shape[2]

    def tile(draw: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        instance, donor, which = draw
        x = of_rows.at[instance].get(mode="promise_in_bounds").transpose(1, 0, 2)  # [P, D, H]
        u = of_donors.at[donor].get(mode="promise_in_bounds").transpose(1, 0, 2)
        nothing = known.nothing(1, x.dtype)
        if M == 1:
            of_x = x.sum(axis=0)
            own_kept, replaced = masks[0].astype(x.dtype), (~masks[0]).astype(x.dtype)
            # Not x's layer plus changes u - x, which a large number in x would absorb.
            hidden = _times(own_kept, x.reshape(P, -1)) + _times(replaced, u.reshape(P, -1))
            hidden = hidden.reshape(L, -1, H)
            same = _times(replaced, (x != u).any(axis=2).astype(x.dtype)) == 0
        else:
            of_x, hidden, same = _by_player(masks[which].transpose(2, 1, 0), x, u)
        D = len(instance)
        of_x = own_head(params, known.joined(of_x, nothing)[:, 0])[None]  # [1, D, A]
        answers = head(params, known.joined(hidden.reshape(-1, H), nothing)[:, 0])
        answers = jnp.where(same[:, :, None], of_x, answers.reshape(L, D, -1))
        flat, wide = (-1, answers.shape[2]), jnp.broadcast_to(of_x, answers.shape)
        scored = score(answers.reshape(flat), wide.reshape(flat))
        return scored.reshape(L, D, -1), any_bad(kept_scores(scored))

    scores, bad = jax.lax.map(tile, (instance, donor, listed))
    return scores, bad.max()


def _times(matrix: jax.Array, columns: jax.Array) -> jax.Array:
    return jnp.dot(matrix, columns, precision=jax.lax.Precision.HIGHEST)


def _by_player(
    masks: jax.Array, x: jax.Array, u: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(the layer of x [D, H], the layer of the hybrids [L, D, H], whether they equal x [L, D]).

    masks bool [P, L, D], another list for each draw; x, u [P, D, H].
    """

    def add(carry: Any, player: Any) -> tuple[Any, None]:
        (of_x, hidden, same), (x, u, mask) = carry, player
        alike = (x == u).all(axis=1)
        return (of_x + x, hidden + jnp.where(mask[:, :, None], x, u), same & (mask | alike)), None

    zero = jnp.zeros((*masks.shape[1:], x.shape[2]), x.dtype)
    start = (jnp.zeros_like(x[0]), zero, jnp.ones(masks.shape[1:], bool))
    return jax.lax.scan(add, start, (x, u, masks), unroll=min(len(x), UNROLLED))[0]
