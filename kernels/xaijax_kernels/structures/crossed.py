"""One coalition beside all donors: every instance crossed with every donor, by a structure.

With S kept, the layer of a hybrid is made of a part of x and a part of the donor: their sum for a
dense layer, their product for each term of a sum of products. The parts cost one pass over the
instances and one over the donors; a pair costs H additions or L multiplications in a product of
matrices, and the rest of the model.

Letters: n instances of a block, V donors of a block, F columns, H numbers for the head, K scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

INSTANCES, DONORS = 256, 64  # of one call of the head: 2^14 rows


def crossed_means(
    structure: Callable[[Any], Any],
    head: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, jax.Array], jax.Array],
    kept_scores: Callable[[jax.Array], jax.Array],
    params: Any,
    x: jax.Array,  # [N, F], N whole blocks
    donors: jax.Array,  # [B, F], B whole blocks
    weights: jax.Array,  # [B], 0 for what fills up
    kept: jax.Array,  # bool [F]
) -> tuple[jax.Array, jax.Array]:
    """Weighted means over donors of the scores [N, K], and the scores that are bad, int32 [].

    head(params, hidden [n V, H]) -> [n V, A]; score(answers, own answers [n V, A]) -> [n V, K].
    A donor that agrees with x in all that is replaced leaves x's own answer, to the bit; and the
    score of the first donor is taken away before the weighting, so that equal scores have that very
    score for their mean.
    """
    known = structure(params)
    everything = jnp.ones(x.shape[1], bool)
    columns_of_x, columns_of_donors = known.columns(x), known.columns(donors)
    C = columns_of_x.shape[1]

    def crossed(rows: jax.Array, some: jax.Array, kept: jax.Array) -> jax.Array:
        own = known.kept_columns(kept)
        hidden = known.joined(known.part(rows, own), known.part(some, ~own))  # [n, V, H]
        answers = head(params, hidden.reshape(-1, hidden.shape[-1]))
        return answers.reshape(len(rows), DONORS, -1)

    blocks = (
        columns_of_donors.reshape(-1, DONORS, C),
        donors.reshape(-1, DONORS, donors.shape[1]),
        weights.reshape(-1, DONORS),
    )

    def of_block(block: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        rows, codes = block
        own = crossed(rows, blocks[0][0], everything)[:, :1]  # [n, 1, A]

        def scores(columns: jax.Array, donors: jax.Array) -> jax.Array:
            same = (kept | (codes[:, None] == donors)).all(axis=2)  # [n, V]
            answers = jnp.where(same[:, :, None], own, crossed(rows, columns, kept))
            flat, A = (-1, answers.shape[2]), answers.shape[2]
            beside = jnp.broadcast_to(own, answers.shape[:2] + (A,))
            return score(answers.reshape(flat), beside.reshape(flat)).reshape(*same.shape, -1)

        start = scores(blocks[0][0], blocks[1][0])[:, :1]

        def step(carry: Any, part: Any) -> tuple[Any, None]:
            (total, bad), (columns, donors, weight) = carry, part
            found = scores(columns, donors)
            meant = weight[:, None] > 0
            change = jnp.where(meant, found - start, 0)
            total += jnp.einsum("nvk,v->nk", change, weight, precision=jax.lax.Precision.HIGHEST)
            return (total, bad + jnp.sum(~kept_scores(found) & meant, dtype=jnp.int32)), None

        zero = (jnp.zeros((len(rows), start.shape[2]), start.dtype), jnp.int32(0))
        (total, bad), _ = jax.lax.scan(step, zero, blocks)
        return start[:, 0] + total, bad

    rows = (columns_of_x.reshape(-1, INSTANCES, C), x.reshape(-1, INSTANCES, x.shape[1]))
    means, bad = jax.lax.map(of_block, rows)
    return means.reshape(len(x), -1), bad.sum(dtype=jnp.int32)
