"""From the values of pairs to full tables: v(S) for all 2^P coalitions of each instance.

table[n, S] = sum over donors b of w_b f(hybrid(n, b, S)). The hybrid depends on the players of S
that differ for (n, b) only, so the pair's 2^k values are read 2^(P-k) times each. Works on NumPy
arrays (host models, float64) and on JAX arrays (a compensated float32 sum) alike.

Letters: N instances, B donors, P players, K outputs, V values held.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.hybrids import ABSENT
from xaijax_kernels.reduce import compensated


def host_ranks(differs: np.ndarray) -> np.ndarray:
    """Place of each differing player in its pair's corner index; int32 [..., P], else ABSENT."""
    return np.where(differs, np.cumsum(differs, axis=-1) - 1, ABSENT).astype(np.int32)


def _corner_parts(xp, rank, bits):
    """Corner index of every coalition of the players in `rank` [N, bits]; int32 [N, 2^bits]."""
    coalition = xp.arange(1 << bits, dtype=np.int32)
    index = xp.zeros((rank.shape[0], 1 << bits), dtype=np.int32)
    for j in range(bits):
        place = rank[:, j : j + 1]
        worth = xp.where(place == ABSENT, 0, xp.left_shift(xp.int32(1), place))
        index = index + ((coalition >> j) & 1) * worth
    return index


def corner_of_coalition(xp, rank, P):
    """Corner index of all 2^P coalitions for pairs of ranks [N, P]; int32 [N, 2^P].

    The two halves of the players are looked up apart and added: 2^(P/2) shifts, not 2^P.
    """
    low = P // 2
    lower = _corner_parts(xp, rank[:, :low], low)
    upper = _corner_parts(xp, rank[:, low:], P - low)
    return (upper[:, :, None] + lower[:, None, :]).reshape(rank.shape[0], 1 << P)


def host_tables(values, start, rank, weights):
    """values float64 [V, K], start [N, B], rank [N, B, P], weights [B] -> float64 [N, 2^P, K]."""
    N, B, P = rank.shape
    out = np.zeros((N, 1 << P, values.shape[1]))
    for b in range(B):
        index = corner_of_coalition(np, rank[:, b], P) + start[:, b, None]
        out += weights[b] * values[index]
    return out


def put(
    buffer: jax.Array,  # [V, K], V a multiple of T R
    values: jax.Array,  # [T, R, K], one dispatch
    place: jax.Array,  # int32 [T], where the stream's next tile stands
    first: jax.Array,  # int32, the stream's row at which the dispatch begins
) -> jax.Array:
    """The buffer with one dispatch written into its place."""
    ordered = values[place].reshape(-1, values.shape[2])
    return jax.lax.dynamic_update_slice(buffer, ordered, (first, jnp.int32(0)))


def device_tables(
    values: jax.Array,  # [V, K]
    start: jax.Array,  # int32 [N, B]
    rank: jax.Array,  # int32 [N, B, P]
    weights: jax.Array,  # [B]
) -> tuple[jax.Array, jax.Array]:
    """The same on the device, as a sum and what rounding took from it; two of [N, 2^P, K]."""
    N, B, P = rank.shape

    def term(b):
        here = jax.lax.dynamic_index_in_dim(rank, b, axis=1, keepdims=False)
        first = jax.lax.dynamic_index_in_dim(start, b, axis=1)
        return weights[b] * values[corner_of_coalition(jnp, here, P) + first]

    return compensated(term, B, (N, 1 << P, values.shape[1]), values.dtype)
