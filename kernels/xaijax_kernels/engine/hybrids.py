"""Hybrid rows on the device: some columns kept from the instance, the others from the donor.

A tile is made of slots of 2^slot_bits rows; a slot is one (instance, donor) pair and either
2^slot_bits consecutive sub-coalitions of its lattice, whose masks are read off the sub-coalition
index, or as many consecutive coalitions of a list that all instances share (`masks`, one bit a
player). Selection only, so any dtype will do: codes, words of float64, or the values themselves.

Letters: S slots, R rows, F columns, P players, Q coalitions in the list, W = ceil(P / 32) words.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from xaijax_kernels.engine.lattice import LISTED

# Rows of a slot: 16 consecutive sub-coalitions share what is gathered for them. A pair with fewer
# sub-coalitions is padded to a slot.
SLOT_BITS = 4
ABSENT = 31  # a rank that no sub-coalition index reaches: the bit is never set
ALWAYS = 30  # nor this one, whose bit is set in every index where it is asked


def ranks(words: jax.Array, P: int) -> jax.Array:
    """Place of each differing player in its pair's sub-coalition index, ABSENT elsewhere; int32 [S,
    P].
    """
    player = jnp.arange(P, dtype=jnp.uint32)
    differs = (words[:, player // 32] >> (player % 32)) & 1
    place = jnp.cumsum(differs, axis=1, dtype=jnp.int32) - 1
    return jnp.where(differs == 1, place, ABSENT)


def subset_masks(P: int, slot_bits: int, slots: jax.Array) -> jax.Array:
    """Masks read off sub-coalition indices; bool [S, 2^slot_bits, P]."""
    rank = ranks(slots[:, 3:].astype(jnp.uint32), P)
    subset = slots[:, :1] + jnp.arange(1 << slot_bits, dtype=jnp.int32)
    return ((subset[:, :, None] >> rank[:, None, :]) & 1) == 1


def slot_players(P: int, slot_bits: int, slots: jax.Array) -> jax.Array:
    """What the sub-coalitions of a slot keep; bool [S, slot_bits + 1, P].

    Entry t: the player that bit t of the sub-coalition index keeps; the last one: the players that
    all sub-coalitions of the slot keep.
    """
    rank = ranks(slots[:, 3:].astype(jnp.uint32), P)
    own = rank[:, None, :] == jnp.arange(slot_bits, dtype=jnp.int32)[:, None]
    always = ((slots[:, :1] >> rank) & 1) == 1
    return jnp.concatenate([own, always[:, None]], axis=1)


def listed_masks(P: int, slot_bits: int, slots: jax.Array, masks: jax.Array) -> jax.Array:
    """Masks taken from the list; bool [S, 2^slot_bits, P]. Slots of sub-coalitions get its first
    ones.
    """
    first = jnp.maximum(slots[:, :1] - LISTED, 0)
    words = masks[first + jnp.arange(1 << slot_bits, dtype=jnp.int32)]  # [S, 2^slot_bits, W]
    bits = (words[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
    return bits.reshape(*words.shape[:2], -1)[:, :, :P] == 1


def kept_players(
    P: int,
    slot_bits: int,
    slots: jax.Array,  # int32 [S, 3 + W], see lattice.Dispatch
    masks: jax.Array | None,  # uint32 [Q, W]
    kind: str,
) -> jax.Array:
    """The mask of every row; bool [S, 2^slot_bits, P]. Bit 1 = kept from the instance.

    kind: what the slots are, "subsets", "list" or "rows" (slots of one row), or "mixed", which pays
    for both of the first two.
    """
    if kind == "subsets" or masks is None:
        return subset_masks(P, slot_bits, slots)
    if kind in ("list", "rows"):
        return listed_masks(P, slot_bits, slots, masks)
    listed = slots[:, 0, None, None] >= LISTED
    by_list = listed_masks(P, slot_bits, slots, masks)
    return jnp.where(listed, by_list, subset_masks(P, slot_bits, slots))


def of_columns(kept: jax.Array, players: jax.Array) -> jax.Array:
    """What players [..., P] keep, for each of their columns; bool [..., F].

    players: int32 [F], the player of each column; -1: always kept, -2: never.
    """
    none = jnp.zeros((*kept.shape[:-1], 1), bool)
    return jnp.concatenate([kept, none, ~none], axis=-1)[..., players]


def hybrid_rows(
    x: jax.Array,  # [N, F], unbatched over tiles, like donors
    donors: jax.Array,  # [B, F]
    players: jax.Array | None,  # int32 [F], see `of_columns`; None: player j is column j
    P: int,
    slot_bits: int,
    slots: jax.Array,  # int32 [S, 3 + W]
    masks: jax.Array | None = None,  # uint32 [Q, W]
    kind: str = "subsets",
) -> jax.Array:
    """The rows of one tile; [S 2^slot_bits, F]."""
    kept = kept_players(P, slot_bits, slots, masks, kind)
    if players is not None:
        kept = of_columns(kept, players)
    rows = jnp.where(kept, x[slots[:, 1]][:, None, :], donors[slots[:, 2]][:, None, :])
    return rows.reshape(-1, x.shape[1])


def hybrids_by_subset(
    x: jax.Array,  # [N, F]
    donors: jax.Array,  # [B, F]
    players: jax.Array | None,  # int32 [F], as for `hybrid_rows`
    P: int,
    slot_bits: int,
    slots: jax.Array,  # int32 [S, 3 + W], of sub-coalitions
) -> jax.Array:
    """The rows of one tile, those of all slots for one sub-coalition after the other; [2^slot_bits
    S, F]. Slots are a TPU's last axis, whose 128 numbers 16 sub-coalitions or a few columns would
    not fill.
    """
    rank = ranks(slots[:, 3:].astype(jnp.uint32), P).T  # [P, S]
    if players is not None:
        others = jnp.array([[ABSENT], [ALWAYS]], rank.dtype)
        rank = jnp.concatenate([rank, jnp.broadcast_to(others, (2, len(slots)))])[players]
    one, other = x[slots[:, 1]].T, donors[slots[:, 2]].T  # [F, S]
    subset = slots[:, 0] + jnp.arange(1 << slot_bits, dtype=jnp.int32)[:, None]
    kept = ((subset | 1 << ALWAYS)[:, None] >> rank) & 1 == 1  # [2^slot_bits, F, S]
    # Written out: the model's first product would make each row again for some of its columns.
    rows = jax.lax.optimization_barrier(jnp.where(kept, one, other))
    return rows.swapaxes(1, 2).reshape(-1, x.shape[1])
