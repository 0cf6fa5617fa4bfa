"""Makes slots on the device: the host sends runs of pairs instead of every slot.

A slot is only 16 rows, so a fast device consumes slots faster than a host makes them. Pairs are
sorted by their number of rows, so a tile has few runs of pairs of one size. A run refers to a table
of the pairs, and gives the pair of each of its slots and the position within that pair. A tile then
costs the host about 40 numbers, however many rows it has. The slots equal those of
`lattice.dispatches`.

Letters: M pairs, C pairs in a table, W words of players, S slots in a tile, T tiles, Q runs of a
tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.engine.lattice import Pairs, player_words

LARGEST = 24  # players that differ, for a pair that is enumerated


@dataclass(frozen=True)
class Seeds:
    """The tiles of one piece of the stream: rows [first_row, first_row + rows)."""

    first_row: int
    rows: int
    tiles: np.ndarray  # int32 [T, Q + 1, 4], see `slots_of`
    table: np.ndarray  # int32 [at most C, 3 + W], the same array for pieces one after another


def runs_of_tile(P: int, slot_bits: int) -> int:
    """Q: the number of sizes that pairs of up to P players can have, plus one for lists."""
    return max(1, min(P, LARGEST) - slot_bits + 1) + 1


def slots_of(tile: jax.Array, table: jax.Array, slots: int, slot_bits: int) -> jax.Array:
    """The slots of a tile, int32 [S, 3 + W] as in `lattice.Dispatch`; the last one is repeated.

    tile: int32 [Q + 1, 4], one run per row: its first slot in the tile, the position in the table
    of the pair of that slot, the slot's number within the pair, and the number of slots per pair.
    The last row holds the number of slots used. table: int32 [C, 3 + W], for each pair: its first
    sub-coalition (or LISTED and its first coalition), instance, donor, and words of the players
    that differ.
    """
    runs = tile[:-1]
    slot = jnp.clip(jnp.arange(slots, dtype=jnp.int32), 0, tile[-1, 0] - 1)
    run = jnp.sum(slot[:, None] >= runs[None, :, 0], axis=1, dtype=jnp.int32) - 1
    first, pair, begun, size = (runs[run, column] for column in range(4))
    # A tile that is not used has empty runs.
    size = jnp.maximum(size, 1)
    at = slot - first + begun
    of_pair = table[pair + jax.lax.div(at, size)]
    subset = of_pair[:, :1] + jnp.left_shift(jax.lax.rem(at, size), slot_bits)[:, None]
    return jnp.concatenate([subset, of_pair[:, 1:]], axis=1)


def seeds(pairs: Pairs, slots: int, tiles: int, most: int) -> Iterator[Seeds]:
    """Cuts the stream into pieces of `tiles` tiles of `slots` slots; most: C, at least the slots of
    a piece."""
    if not pairs.rows:
        return
    P = pairs.differs.shape[1]
    start = pairs.start >> pairs.slot_bits  # [M + 1], a pair's first slot
    size = np.diff(start)
    pair = np.flatnonzero(np.diff(size, prepend=-1))  # the first of each run
    whole = np.concatenate([pairs.first[:, None], pairs.instance[:, None], pairs.donor[:, None]], 1)
    whole = np.concatenate([whole, player_words(pairs.differs).view(np.int32)], axis=1)
    made = _tiles(
        start[pair], pair, size[pair], int(start[-1]), slots, runs_of_tile(P, pairs.slot_bits)
    )
    rows, base, table = tiles * slots << pairs.slot_bits, 0, whole[:most]
    for piece, first_row in enumerate(range(0, pairs.rows, rows)):
        tile_runs = made[piece * tiles : (piece + 1) * tiles]
        last_row = min(first_row + rows, pairs.rows)
        if np.searchsorted(pairs.start, last_row, side="left") > base + most:
            base = int(tile_runs[0, 0, 1])
            table = whole[base : base + most]
        tile_runs[:, :-1, 1] -= base
        yield Seeds(first_row, last_row - first_row, tile_runs.astype(np.int32), table)


def _tiles(
    start: np.ndarray,  # int64, first slot of each run
    pair: np.ndarray,  # int64, its first pair
    size: np.ndarray,  # int64, slots of each of its pairs
    end: int,  # slots of the stream
    slots: int,
    runs: int,  # Q
) -> np.ndarray:
    """All tiles of a stream, int64 [tiles, Q + 1, 4]; pairs are numbered from the first."""
    first = np.arange(0, end, slots)
    run = np.searchsorted(start, first, side="right")[:, None] - 1 + np.arange(runs)
    there = run < len(start)
    run = np.minimum(run, len(start) - 1)
    before = np.maximum(first[:, None] - start[run], 0)  # slots of the run in earlier tiles
    out = np.zeros((len(first), runs + 1, 4), np.int64)
    out[:, :-1, 0] = np.where(there, np.clip(start[run] - first[:, None], 0, slots), slots)
    out[:, :-1, 1] = pair[run] + before // size[run]
    out[:, :-1, 2] = before % size[run]
    out[:, :-1, 3] = size[run]
    out[:, -1, 0] = np.minimum(end - first, slots)
    return out
