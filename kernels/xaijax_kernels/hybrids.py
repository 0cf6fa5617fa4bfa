"""Hybrid rows on the device: some columns kept from the instance, the others from the donor.

A tile is made of slots of 2^slot_bits rows; a slot is one (instance, donor) pair and 2^slot_bits
consecutive corners of its lattice. No mask comes from the host: a row's mask is read off its corner
index. Selection only, so any dtype will do: codes, words of float64, or the values themselves.

Letters: S slots, R rows, F columns, P players.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

# Rows of a slot: 16 consecutive corners share what is gathered for them. A pair with fewer
# corners is padded to a slot.
SLOT_BITS = 4
ABSENT = 31  # a rank that no corner index reaches: the bit is never set


def ranks(words: jax.Array, P: int) -> jax.Array:
    """Place of each differing player in its pair's corner index, ABSENT elsewhere; int32 [S, P]."""
    player = jnp.arange(P, dtype=jnp.uint32)
    differs = (words[:, player // 32] >> (player % 32)) & 1
    place = jnp.cumsum(differs, axis=1, dtype=jnp.int32) - 1
    return jnp.where(differs == 1, place, ABSENT)


def hybrid_rows(
    x: jax.Array,  # [N, F], unbatched over tiles, like donors
    donors: jax.Array,  # [B, F]
    players: jax.Array | None,  # int32 [F], the player of each column; None: player j is column j
    P: int,
    slot_bits: int,
    slots: jax.Array,  # int32 [S, 3 + ceil(P / 32)], see lattice.Dispatch
) -> jax.Array:
    """The rows of one tile; [S 2^slot_bits, F]. Bit 1 = kept from the instance."""
    offset, instance, donor = slots[:, 0], slots[:, 1], slots[:, 2]
    rank = ranks(slots[:, 3:].astype(jnp.uint32), P)
    corner = offset[:, None] + jnp.arange(1 << slot_bits, dtype=jnp.int32)
    kept = ((corner[:, :, None] >> rank[:, None, :]) & 1) == 1  # [S, 2^slot_bits, P]
    if players is not None:
        kept = kept[:, :, players]
    rows = jnp.where(kept, x[instance][:, None, :], donors[donor][:, None, :])
    return rows.reshape(-1, x.shape[1])
