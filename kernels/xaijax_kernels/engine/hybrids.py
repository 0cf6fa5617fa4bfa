"""Hybrid rows on the device: some columns kept from the instance, the others from the donor.

A tile is made of slots of 2^slot_bits rows; a slot is one (instance, donor) pair and either
2^slot_bits consecutive sub-coalitions of its lattice, whose masks are read off the sub-coalition
index, or the same number of consecutive coalitions from a list that all instances share (`masks`,
one bit per player). Values are only selected, so any dtype works: codes, words of float64, or the
values themselves.

Letters: S slots, R rows, F columns, P players, Q coalitions in the list, W = ceil(P / 32) words.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.engine.lattice import LISTED

# Rows of a slot: 16 consecutive sub-coalitions share what is gathered for them. A pair with fewer
# sub-coalitions is padded to a slot.
SLOT_BITS = 4
ABSENT = 31  # a rank above every sub-coalition index: the bit is never set
ALWAYS = 30  # also above them; its bit is set in every index that is tested


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
    """Players kept by the sub-coalitions of a slot; bool [S, slot_bits + 1, P].

    Entry t: the player that bit t of the sub-coalition index keeps; the last one: the players that
    all sub-coalitions of the slot keep.
    """
    rank = ranks(slots[:, 3:].astype(jnp.uint32), P)
    of_bits = rank[:, None, :] == jnp.arange(slot_bits, dtype=jnp.int32)[:, None]
    always = ((slots[:, :1] >> rank) & 1) == 1
    return jnp.concatenate([of_bits, always[:, None]], axis=1)


def listed_masks(P: int, slot_bits: int, slots: jax.Array, masks: jax.Array) -> jax.Array:
    """Masks taken from the list; bool [S, 2^slot_bits, P]. Slots of sub-coalitions get the first
    masks.
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

    kind: what the slots hold: "subsets", "list", "rows" (slots of one row), or "mixed", which costs
    as much as the first two together.
    """
    if kind == "subsets" or masks is None:
        return subset_masks(P, slot_bits, slots)
    if kind in ("list", "rows"):
        return listed_masks(P, slot_bits, slots, masks)
    listed = slots[:, 0, None, None] >= LISTED
    by_list = listed_masks(P, slot_bits, slots, masks)
    return jnp.where(listed, by_list, subset_masks(P, slot_bits, slots))


def of_columns(mask: jax.Array, players: jax.Array) -> jax.Array:
    """Returns which columns are kept if the players `mask` [..., P] are; bool [..., F].

    players: int32 [F], the player of each column; -1: always kept, -2: never.
    """
    none = jnp.zeros((*mask.shape[:-1], 1), bool)
    return jnp.concatenate([mask, none, ~none], axis=-1)[..., players]


def of_players(by_bit: jax.Array, players: jax.Array) -> jax.Array:
    """Columns kept by the sub-coalitions of a slot, by [S, slot_bits + 1, P] of `slot_players` and
    the players [F] of the columns; -1: all keep it, -2: none does.
    """
    none = jnp.zeros((*by_bit.shape[:-1], 1), bool)
    return jnp.concatenate([by_bit, none, none.at[:, -1].set(True)], axis=-1)[..., players]


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
    mask = kept_players(P, slot_bits, slots, masks, kind)
    if players is not None:
        mask = of_columns(mask, players)
    rows = jnp.where(mask, x[slots[:, 1]][:, None, :], donors[slots[:, 2]][:, None, :])
    return rows.reshape(-1, x.shape[1])


def host_hybrid_rows(
    x: np.ndarray,  # [N, F]
    donors: np.ndarray,  # [B, F]
    players: np.ndarray | None,  # int32 [F], as for `hybrid_rows`
    P: int,
    slots: np.ndarray,  # int32 [R, 3 + W], of one row each
    masks: np.ndarray | None = None,  # bool [Q, P]
) -> np.ndarray:
    """The same rows in NumPy, for slots of one row; [R, F]."""
    first, words = slots[:, 0], np.ascontiguousarray(slots[:, 3:]).astype("<u4")
    differs = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little", count=P) == 1
    rank = np.clip(np.cumsum(differs, axis=1, dtype=np.int32) - 1, 0, ALWAYS)
    mask = differs & ((first[:, None] >> rank) & 1 == 1)
    listed = first >= LISTED
    if masks is not None:
        mask[listed] = masks[first[listed] - LISTED]
    if players is not None:
        none = np.zeros((len(mask), 1), bool)
        mask = np.concatenate([mask, none, ~none], axis=1)[:, players]
    return np.where(mask, x[slots[:, 1]], donors[slots[:, 2]])


def hybrids_by_subset(
    x: jax.Array,  # [N, F]
    donors: jax.Array,  # [B, F]
    players: jax.Array | None,  # int32 [F], as for `hybrid_rows`
    P: int,
    slot_bits: int,
    slots: jax.Array,  # int32 [S, 3 + W], of sub-coalitions
) -> jax.Array:
    """The rows of one tile, sub-coalition by sub-coalition over all slots; [2^slot_bits S, F].
    Slots are the last axis because 16 sub-coalitions or a few columns would not fill the 128 lanes
    of a TPU.
    """
    rank = ranks(slots[:, 3:].astype(jnp.uint32), P).T  # [P, S]
    if players is not None:
        others = jnp.array([[ABSENT], [ALWAYS]], rank.dtype)
        rank = jnp.concatenate([rank, jnp.broadcast_to(others, (2, len(slots)))])[players]
    of_x, of_donor = x[slots[:, 1]].T, donors[slots[:, 2]].T  # [F, S]
    subset = slots[:, 0] + jnp.arange(1 << slot_bits, dtype=jnp.int32)[:, None]
    mask = ((subset | 1 << ALWAYS)[:, None] >> rank) & 1 == 1  # [2^slot_bits, F, S]
    # Unrolled: otherwise XLA recomputes each row inside the model's first product, for blocks of
    # columns.
    rows = jax.lax.optimization_barrier(jnp.where(mask, of_x, of_donor))
    return rows.swapaxes(1, 2).reshape(-1, x.shape[1])
