"""Hybrids of draws by an additive structure: each draw has an instance, a donor and coalitions.

The layer of a hybrid is the sum over players of what the player adds, taken from x where it is kept
and from the donor where it is not: P additions in place of a row of the model.

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

UNROLLED = 16  # players whose additions are written out, so that they become one loop


def drawn_scores(
    structure: Callable[[Any], Layer],
    head: Callable[[Any, jax.Array], jax.Array],
    own_head: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, jax.Array], jax.Array],
    kept_scores: Callable[[jax.Array], jax.Array],
    params: Any,
    of_rows: jax.Array,  # [N, P, H], what each player adds
    of_donors: jax.Array,  # [B, P, H]
    instance: jax.Array,  # int32 [T, D]
    donor: jax.Array,  # int32 [T, D]
    listed: jax.Array,  # int32 [T, D], which list a draw asks; not read where M = 1
    kept: jax.Array,  # bool [M, L, P]
) -> tuple[jax.Array, jax.Array]:
    """Scores of T tiles of draws [T, L, D, K], and whether one is bad, int32 [].

    head(params, hidden [L D, H]) -> [L D, A], own_head the same of D rows; score(answers, own
    answers) -> [.., K]. A hybrid whose players add what those of x add has x's own answer, bit for
    bit. A list that all draws share is two small products.
    """
    known = structure(params)
    (M, L, P), H = kept.shape, of_rows.shape[2]

    def tile(one: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        instance, donor, which = one
        x = of_rows.at[instance].get(mode="promise_in_bounds").transpose(1, 0, 2)  # [P, D, H]
        u = of_donors.at[donor].get(mode="promise_in_bounds").transpose(1, 0, 2)
        nothing = known.nothing(1, x.dtype)
        if M == 1:
            own = x.sum(axis=0)
            own_kept, replaced = kept[0].astype(x.dtype), (~kept[0]).astype(x.dtype)
            # Not x's layer and changes u - x, which a large number in x would drown.
            hidden = _times(own_kept, x.reshape(P, -1)) + _times(replaced, u.reshape(P, -1))
            hidden = hidden.reshape(L, -1, H)
            same = _times(replaced, (x != u).any(axis=2).astype(x.dtype)) == 0
        else:
            own, hidden, same = _by_player(kept[which].transpose(2, 1, 0), x, u)
        D = len(instance)
        own = own_head(params, known.joined(own, nothing)[:, 0])[None]  # [1, D, A]
        answers = head(params, known.joined(hidden.reshape(-1, H), nothing)[:, 0])
        answers = jnp.where(same[:, :, None], own, answers.reshape(L, D, -1))
        flat, beside = (-1, answers.shape[2]), jnp.broadcast_to(own, answers.shape)
        found = score(answers.reshape(flat), beside.reshape(flat))
        return found.reshape(L, D, -1), any_bad(kept_scores(found))

    scores, bad = jax.lax.map(tile, (instance, donor, listed))
    return scores, bad.max()


def _times(matrix: jax.Array, columns: jax.Array) -> jax.Array:
    return jnp.dot(matrix, columns, precision=jax.lax.Precision.HIGHEST)


def _by_player(
    kept: jax.Array, x: jax.Array, u: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(the layer of x [D, H], of the hybrids [L, D, H], whether they are x [L, D]).

    kept bool [P, L, D], another list for each draw; x, u [P, D, H].
    """

    def add(carry: Any, player: Any) -> tuple[Any, None]:
        (own, hidden, same), (x, u, kept) = carry, player
        alike = (x == u).all(axis=1)
        return (own + x, hidden + jnp.where(kept[:, :, None], x, u), same & (kept | alike)), None

    zero = jnp.zeros((*kept.shape[1:], x.shape[2]), x.dtype)
    start = (jnp.zeros_like(x[0]), zero, jnp.ones(kept.shape[1:], bool))
    return jax.lax.scan(add, start, (x, u, kept), unroll=min(len(x), UNROLLED))[0]
