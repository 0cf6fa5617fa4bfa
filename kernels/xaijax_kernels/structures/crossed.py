"""A few coalitions against all donors: crosses every instance with distinct donors, by a structure.

A table has a row for each value of each player: its term in a dense layer, or its factor in a sum
of products. With S kept, the layer of a hybrid combines a part of x, from the rows of players in S,
and a part of the donor, from the other rows. A pair costs H additions, or L multiplications in a
matrix product, plus the rest of the model.

Letters: V rows of the table, F columns, P players, n instances of a block, C coalitions, D donors
of a block, H numbers of a part, K scores, A answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from xaijax_kernels.engine.reduce import any_bad
from xaijax_kernels.engine.tiles import placed
from xaijax_kernels.sizes import INSTANCES_OF_CROSSING as INSTANCES
from xaijax_kernels.sizes import WHOLE_ROWS
from xaijax_kernels.structures.base import Layer


def value_table(
    structure: Callable[[Any], Layer], params: Any, codes: jax.Array, mask: jax.Array
) -> jax.Array:
    """Terms or factors of those entries of rows [V, F] where `mask` bool [V, F] is True; [V, H].

    It works in full blocks of one shape, because the rounding of a product depends on its number of
    rows.
    """
    known = structure(params)

    def of_block(block: tuple[jax.Array, jax.Array]) -> jax.Array:
        rows, mask = block
        return known.part(known.columns(rows), known.of_columns(mask))

    blocks = (a.reshape(-1, WHOLE_ROWS, a.shape[1]) for a in (codes, mask))
    table = jax.lax.map(of_block, tuple(blocks))
    return table.reshape(len(codes), -1)


def kept_part(known: Layer, table: jax.Array, rows: jax.Array, mask: jax.Array) -> jax.Array:
    """The part of the players in mask bool [P] of rows int32 [n, P]; [n, H]."""

    def add(p: jax.Array, part: jax.Array) -> jax.Array:
        def more() -> jax.Array:
            return known.both(part, table[rows[:, p]])

        return jax.lax.platform_dependent(
            cpu=lambda: jax.lax.cond(mask[p], more, lambda: part),
            default=lambda: jnp.where(mask[p], more(), part),  # CUDA would ask the host
        )

    return jax.lax.fori_loop(0, rows.shape[1], add, known.nothing(len(rows), table.dtype))


def whole_answers(
    structure: Callable[[Any], Layer],
    head: Callable[[Any, jax.Array], jax.Array],
    params: Any,
    table: jax.Array,  # [V, H]
    rows: jax.Array,  # int32 [N, P], rows of the table; N whole blocks
) -> jax.Array:
    """Outputs [N, A] of the rows themselves; head: for one block."""
    known = structure(params)

    def of_block(rows: jax.Array) -> jax.Array:
        everything = kept_part(known, table, rows, jnp.ones(rows.shape[1], bool))
        return head(params, known.joined(everything, known.nothing(1, table.dtype))[:, 0])

    answers = jax.lax.map(of_block, rows.reshape(-1, INSTANCES, rows.shape[1]))
    return answers.reshape(len(rows), -1)


def crossed_means(
    structure: Callable[[Any], Layer],
    head: Callable[[Any, jax.Array], jax.Array],
    own_head: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, jax.Array], jax.Array],
    kept_scores: Callable[[jax.Array], jax.Array],
    outputs: int,
    params: Any,
    table: jax.Array,  # [V, H]
    x: jax.Array,  # int32 [N, P], rows of the table; N whole blocks
    masks: jax.Array,  # bool [C, P]
    coalition: jax.Array,  # int32 [blocks], in order
    begins: jax.Array,  # bool [blocks], whether it is the first block of its coalition
    donors: jax.Array,  # int32 [blocks, D, P], rows of the table
    weights: jax.Array,  # [blocks, D], 0 for padding
) -> tuple[jax.Array, jax.Array]:
    """Weighted means over donors of the scores [N, C, K], and whether a score is invalid, int32 [].

    head(params, hidden [n D, H]) -> [n D, A], own_head the same of n rows; score(answers, own
    answers) -> [.., K].

    A donor that equals x in all replaced columns gives x's output, bit for bit. The score of a
    coalition's first donor is subtracted before weighting, so that the mean of equal scores is
    exactly that score.
    """
    known = structure(params)
    N, P = x.shape

    def of_block(rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        parts = jax.lax.map(lambda mask: kept_part(known, table, rows, mask), masks)
        everything = kept_part(known, table, rows, jnp.ones(P, bool))
        nothing = known.nothing(1, table.dtype)
        x_answers = own_head(params, known.joined(everything, nothing)[:, 0])[:, None]  # [n, 1, A]

        def step(carry: Any, block: Any) -> tuple[Any, None]:
            (start, total, bad), (c, first, block_donors, weight) = carry, block
            same = ((rows[:, None] == block_donors) | masks[c]).all(axis=2)  # [n, D]
            theirs = kept_part(known, table, block_donors, ~masks[c])
            hidden = known.joined(parts[c], theirs)  # [n, D, H]
            answers = head(params, hidden.reshape(-1, hidden.shape[-1])).reshape(*same.shape, -1)
            answers = jnp.where(same[:, :, None], x_answers, answers)
            flat, of_x = (-1, answers.shape[2]), jnp.broadcast_to(x_answers, answers.shape)
            scores = score(answers.reshape(flat), of_x.reshape(flat)).reshape(*same.shape, -1)
            start = jnp.where(first, placed(start, scores[:, 0], c), start)
            meant = weight[:, None] > 0
            change = jnp.where(meant, scores - start[c][:, None], 0)
            mean = jnp.einsum("nvk,v->nk", change, weight, precision=jax.lax.Precision.HIGHEST)
            bad = jnp.maximum(bad, any_bad(kept_scores(scores) | ~meant))
            return (start, placed(total, total[c] + mean, c), bad), None

        zero = jnp.zeros((len(masks), len(rows), outputs), table.dtype)
        blocks = (coalition, begins, donors, weights)
        (start, total, bad), _ = jax.lax.scan(step, (zero, zero, jnp.int32(0)), blocks)
        return (start + total).swapaxes(0, 1), bad

    means, bad = jax.lax.map(of_block, x.reshape(-1, INSTANCES, P))
    return means.reshape(N, len(masks), outputs), bad.max()
