"""Coalitions that are given as a list: their row stream, and the means over donors.

All instances share one list of C coalitions, or each has its own C. Rows are ordered by instance,
block of 2^slot_bits coalitions, donor, coalition. A group is one instance and one block, with one
slot per donor, so the mean over donors is a sum inside the group, with the same shape for any list.

Letters: N instances, B donors, C coalitions, P players, K outputs, G groups, V values held.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.engine.lattice import LISTED, Dispatch
from xaijax_kernels.engine.reduce import compensated


@dataclass(frozen=True)
class ListedStream:
    """The rows of some instances against some donors for a list of coalitions.

    own: each instance has its own C coalitions. The list then holds them instance by instance, each
    padded to whole blocks.
    """

    instances: np.ndarray  # int32 [N], rows of x
    donors: np.ndarray  # int32 [B]
    coalitions: int  # C
    P: int
    slot_bits: int
    own: bool = False
    kind = "list"  # what its slots are

    @property
    def blocks(self) -> int:
        """Blocks of coalitions for each instance."""
        return -(-self.coalitions >> self.slot_bits)

    @property
    def groups(self) -> int:
        """G."""
        return len(self.instances) * self.blocks

    @property
    def rows(self) -> int:
        """Model rows, the padding of the last block included."""
        return self.groups * len(self.donors) << self.slot_bits

    @property
    def distinct_rows(self) -> int:
        """Model rows without padding."""
        return len(self.instances) * len(self.donors) * self.coalitions

    def dispatches(self, rows_each: int) -> Iterator[Dispatch]:
        """Cuts the stream into pieces of `rows_each` rows; the last one may be shorter."""
        bits, B = self.slot_bits, len(self.donors)
        for first in range(0, self.rows, rows_each):
            last = min(first + rows_each, self.rows)
            group, donor = np.divmod(np.arange(first >> bits, last >> bits), B)
            instance = group // self.blocks
            slots = np.zeros((len(group), 3 + -(-self.P // 32)), np.int32)
            slots[:, 0] = LISTED + (self._listed(group) << bits)
            slots[:, 1] = self.instances[instance]
            slots[:, 2] = self.donors[donor]
            yield Dispatch(first, last - first, slots)

    def locate(self, row: int, masks: Any) -> tuple[int, int, np.ndarray]:
        """(instance, donor, kept bool [P]) of a row; masks bool [C, P].

        The padding repeats the last coalition.
        """
        slot, place = divmod(row, 1 << self.slot_bits)
        group, donor = divmod(slot, len(self.donors))
        c = min((self._listed(group) << self.slot_bits) + place, len(masks) - 1)
        return int(self.instances[group // self.blocks]), int(self.donors[donor]), masks[c]

    def _listed(self, group: Any) -> Any:
        """Index of the block of the list that a group evaluates."""
        return group if self.own else group % self.blocks


def group_means(
    values: jax.Array,  # [V, K], whole groups first
    weights: jax.Array,  # [B]
    slot: int,  # coalitions in a block
) -> tuple[jax.Array, jax.Array]:
    """Weighted sums over donors, and their rounding errors; two arrays [V / (B slot), slot, K]."""
    V, K = values.shape
    B = weights.shape[0]
    G = V // (B * slot)
    grouped = values[: G * B * slot].reshape(G, B, slot, K)
    return compensated(lambda b: weights[b] * grouped[:, b], B, (G, slot, K), values.dtype)


def list_means(
    values: jax.Array,  # [V, K]
    start: jax.Array,  # int32 [N, B], a pair's first value
    listed: jax.Array,  # bool [N, B], whether the pair's values are the list's, not sub-coalitions
    rank: jax.Array,  # int32 [N, B, P], a player's bit in the sub-coalition index, or ABSENT
    masks: jax.Array,  # bool [C, P]
    weights: jax.Array,  # [B]
) -> tuple[jax.Array, jax.Array]:
    """`group_means` for a list that some pairs evaluated by sub-coalitions only; two arrays [N, C,
    K].

    The sub-coalition of a coalition has the bits of its players that differ.
    """
    N, B, P = rank.shape
    C = masks.shape[0]
    members = masks.T.astype(jnp.int32)  # [P, C]

    def term(b):
        bit = jax.lax.dynamic_index_in_dim(rank, b, axis=1, keepdims=False)
        worth = jnp.where(bit < 31, jnp.left_shift(jnp.int32(1), bit), 0)  # 31: ABSENT
        by_list = jax.lax.dynamic_index_in_dim(listed, b, axis=1)
        subset = jnp.where(by_list, jnp.arange(C, dtype=jnp.int32), worth @ members)
        first = jax.lax.dynamic_index_in_dim(start, b, axis=1)
        return weights[b] * values[first + subset]

    return compensated(term, B, (N, C, values.shape[1]), values.dtype)


def host_group_means(values: np.ndarray, weights: np.ndarray, slot: int) -> np.ndarray:
    """`group_means` in NumPy: float64 [V, K] -> [V / (B slot), slot, K], added donor by donor."""
    grouped = values.reshape(-1, len(weights), slot, values.shape[1])
    out = np.zeros((len(grouped), slot, values.shape[1]))
    for b, w in enumerate(weights):
        out += w * grouped[:, b]
    return out


def host_list_means(
    values: np.ndarray,
    start: np.ndarray,
    listed: np.ndarray,
    rank: np.ndarray,
    masks: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """`list_means` in NumPy, float64 [N, C, K]."""
    N, B, _ = rank.shape
    members = masks.T.astype(np.int64)
    out = np.zeros((N, len(masks), values.shape[1]))
    for b in range(B):
        worth = np.where(rank[:, b] < 31, np.int64(1) << np.minimum(rank[:, b], 31), 0)
        subset = np.where(listed[:, b, None], np.arange(len(masks)), worth @ members)
        out += weights[b] * values[start[:, b, None] + subset]
    return out
