"""A dense first layer at the corners of a pair: head(z W + b), one addition a unit and corner.

The layer is a sum over columns, so the corners of a slot are sums of what its players add, each
with x's values or the donor's: each bit doubles what is there. Not the donor's layer and changes
x - b: with a donor's 99999999 in one column the layer of a corner that keeps x's value there would
be a difference of large numbers.

Letters: S slots of 2^s corners, F columns, H units, R rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.structures.base import Affine, Background, Head, Layer
from xaijax_kernels.structures.closed_forms import Additive

# A product rounds its last few rows in another way, and a pair's bits must not depend on its place.
WHOLE_ROWS = 256
BLOCK = 1 << 14  # numbers of the layer that are made at a time: half of a core's fast memory
TOGETHER = 3  # choices that one step of a compiled program adds up


def sums_of_choices(start: jax.Array, choices: jax.Array) -> jax.Array:
    """start [S, 1, H] plus one of each two choices [S, t, 2, H]; [S, 2^t, H], bit i says which."""
    S, _, H = start.shape
    tables = []
    for first in range(0, max(1, choices.shape[1]), TOGETHER):
        own = choices[:, first : first + TOGETHER]
        t = own.shape[1]
        out = (jnp.zeros_like(start) if first else start).reshape(S, *[1] * t, H)
        for i in range(t):  # bit 0 is the last axis but that of the units
            out = out + own[:, i].reshape(S, *(2 if j == i else 1 for j in reversed(range(t))), H)
        tables.append(out.reshape(S, 1 << t, H))
    if len(tables) > 1:  # written out, or each is made again for each row of the next
        tables = list(jax.lax.optimization_barrier(tuple(tables)))
    out = tables[0]
    for table in tables[1:]:
        out = (table[:, :, None] + out[:, None]).reshape(S, -1, H)
    return out


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense(Layer):
    """hidden = z W + b. A part is the sum of its columns' terms, [H]."""

    weights: jax.Array  # [F, H]
    bias: jax.Array  # [H]

    @property
    def name(self) -> str:
        """See `Layer.name`."""
        return "first layer"

    @property
    def width(self) -> int:
        """H."""
        return self.bias.shape[0]

    @property
    def parts(self) -> int:
        """H too."""
        return self.width

    @property
    def adds(self) -> bool:
        """See `Layer.adds`."""
        return True

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """See `Layer.slot_bits`.

        One: a slot's own part, 13 rows of a product with W for 2^6 corners, is small beside the
        head of these. With two layers of 64 units on Adult's codes a call takes a sixth longer than
        with a program for every size, which take seven seconds to compile. A smaller pair fills its
        slot up, and has few rows.
        """
        return (6,)

    @property
    def dense(self) -> tuple[jax.Array, jax.Array]:
        """See `Layer.dense`."""
        return self.weights, self.bias

    def work(self) -> float:
        """See `Layer.work`."""
        return float(np.prod(self.weights.shape))

    def block(self, rows: int) -> int:
        """See `Layer.block`."""
        fits = 1 << max(0, (BLOCK // self.width).bit_length() - 1)
        return min(rows, max(WHOLE_ROWS, fits))

    def corners(self, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array) -> jax.Array:
        """See `Layer.corners`."""
        S, Q, F = kept.shape
        s, H = Q - 1, self.width
        own, always = kept[:, :s], kept[:, s:]
        never = ~kept.any(axis=1, keepdims=True)
        same = jnp.where(always, x[:, None], jnp.where(never, donors[:, None], 0))
        either = jnp.stack([donors, x], axis=1)[:, None]  # [S, 1, 2, F]
        either = jnp.where(own[:, :, None], either, 0).reshape(S, 2 * s, F)
        rows = jnp.concatenate([same, either], axis=1)
        terms = self._times(rows.reshape(-1, F)).reshape(S, 2 * s + 1, H)
        start, terms = terms[:, :1] + self.bias, terms[:, 1:].reshape(S, s, 2, H)
        # A block stays in a core's fast memory from the sums to the head: the low bits of one
        # corner index, or a few whole slots.
        rows_of_block = self.block(S << s)
        low = min(s, rows_of_block.bit_length() - 1)
        together = rows_of_block >> low
        # Tables of a few bits each, of all slots at once: a block is then one addition a number.
        zero, half = jnp.zeros_like(start), low // 2
        first = sums_of_choices(start, terms[:, :half])  # [S, 2^half, H]
        second = sums_of_choices(zero, terms[:, half:low])  # [S, 2^(low - half), H]
        high = sums_of_choices(zero, terms[:, low:])  # [S, 2^(s - low), H]
        # Written out, or the compiler makes the tables again for each of their sums.
        tables = jax.lax.optimization_barrier((first, second, high))

        def few(slots: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
            first, second, high = slots  # of `together` slots
            sums = (second[:, :, None] + first[:, None]).reshape(together, -1, H)
            if low == s:
                return head(sums.reshape(-1, H))
            return jax.lax.map(lambda h: head(sums[0] + h), high[0])

        if together == S:
            return few(tables).reshape(S << s, -1)
        tables = tuple(a.reshape(-1, together, *a.shape[1:]) for a in tables)
        return jax.lax.map(few, tables).reshape(S << s, -1)

    def part(self, columns: jax.Array, own: jax.Array) -> jax.Array:
        """See `Layer.part`."""
        return self._times(jnp.where(own, columns, 0))

    def nothing(self, rows: int, dtype: Any) -> jax.Array:
        """See `Layer.nothing`."""
        return jnp.zeros((rows, self.width), dtype)

    def both(self, one: jax.Array, other: jax.Array) -> jax.Array:
        """See `Layer.both`."""
        return one + other

    def joined(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """See `Layer.joined`."""
        return (x + self.bias)[:, None] + donors[None]

    def closed_form(self, background: Background, head: Affine) -> Additive:
        """See `Layer.closed_form`."""
        return Additive(self.weights, self.bias, background, head)

    def _times(self, rows: jax.Array) -> jax.Array:
        R = len(rows)
        whole = jnp.pad(rows, ((0, -R % WHOLE_ROWS), (0, 0)))
        return jnp.dot(whole, self.weights, precision=jax.lax.Precision.HIGHEST)[:R]
