"""Layers that are sums over players, one dense layer among them, and their sub-coalitions.

The sub-coalitions of a slot are sums of what its players add, each with x's values or the donor's:
each bit doubles what is there. They are not the donor's layer and changes x - b: with a donor's
99999999 in one column the layer of a sub-coalition that keeps x's value there would be a difference
of large numbers.

Letters: S slots of 2^s sub-coalitions, F columns, H units, R rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.structures.base import Affine, Head, Layer, WeightedDonors
from xaijax_kernels.structures.closed_forms import Additive

# A product rounds its last few rows in another way, and a pair's bits must not depend on its place.
WHOLE_ROWS = 256
# Numbers of the layer that are made at a time. CPU: half of a core's fast memory. GPU and TPU: each
# turn of a loop costs the start of its kernels, and a product of few rows leaves most of the device
# idle; 4 Mi are a whole tile of a layer of 64 units (an H200 starts 125 kernels in place of 9,729).
BLOCK = {"cpu": 1 << 14, "gpu": 1 << 22, "tpu": 1 << 22}
TOGETHER = 3  # choices that one step of a compiled program adds up, or one more if that is all


def sums_of_choices(start: jax.Array, choices: jax.Array) -> jax.Array:
    """start [S, 1, H] plus one of each two choices [S, t, 2, H]; [S, 2^t, H], bit i says which."""
    S, _, H = start.shape
    tables = []
    count = choices.shape[1]
    # The sums of four are those of three and one: the same bits by one step in place of three.
    step = count if 0 < count <= TOGETHER + 1 else TOGETHER
    for first in range(0, max(1, count), step):
        own = choices[:, first : first + step]
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


def rows_of_block(width: int, platform: str) -> int:
    """Rows of a layer of `width` units that are made at a time; a power of two."""
    numbers = BLOCK[platform if platform in BLOCK else "gpu"]
    return 1 << max(0, (numbers // width).bit_length() - 1)


def subsets_of_sums(
    times: Callable[[jax.Array], jax.Array],
    bias: jax.Array,  # [H]
    block: int,
    head: Head,
    x: jax.Array,  # [S, F]
    donors: jax.Array,  # [S, F]
    kept: jax.Array,  # bool [S, s + 1, F]
) -> jax.Array:
    """Answers to the sub-coalitions of slots [S 2^s, A]; arguments as for `Layer.subsets`.

    times(rows [R, F]) -> [R, H]: what columns add, those that are 0 nothing. block: rows that the
    head takes at a time.
    """
    S, Q, F = kept.shape
    s, H = Q - 1, len(bias)
    own, always = kept[:, :s], kept[:, s:]
    never = ~kept.any(axis=1, keepdims=True)
    same = jnp.where(always, x[:, None], jnp.where(never, donors[:, None], 0))
    either = jnp.stack([donors, x], axis=1)[:, None]  # [S, 1, 2, F]
    either = jnp.where(own[:, :, None], either, 0).reshape(S, 2 * s, F)
    rows = jnp.concatenate([same, either], axis=1)
    terms = times(rows.reshape(-1, F)).reshape(S, 2 * s + 1, H)
    start, terms = terms[:, :1] + bias, terms[:, 1:].reshape(S, s, 2, H)
    # A block stays in a core's fast memory from the sums to the head: the low bits of one
    # sub-coalition index, or a few whole slots.
    low = min(s, block.bit_length() - 1)
    together = block >> low
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


class SumOfTerms(Layer):
    """Base of layers whose parts are sums of their players' terms, [H].

    hidden = bias + the terms of all players.
    """

    bias: jax.Array  # [H], what a row of zeros gives

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

    def subsets(
        self, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.subsets`."""
        rows = self.block(len(kept) << (kept.shape[1] - 1), platform)
        return subsets_of_sums(self._times, self.bias, rows, head, x, donors, kept)

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

    def _times(self, rows: jax.Array) -> jax.Array:
        """The terms of rows [R, C], zeros where a column has no part in them; [R, H]."""
        raise NotImplementedError


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense(SumOfTerms):
    """hidden = z W + b. A part is the sum of its columns' terms, [H]."""

    weights: jax.Array  # [F, H]
    bias: jax.Array  # [H]

    @property
    def name(self) -> str:
        """See `Layer.name`."""
        return "first layer"

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """See `Layer.slot_bits`.

        There is one size: a slot's own part, 13 rows of a product with W for 2^6 sub-coalitions, is
        small compared with the head of these. With two layers of 64 units on Adult's codes a call
        takes a sixth longer than with a program for every size, which take seven seconds to
        compile. A smaller pair fills its slot up, and has few rows.
        """
        return (6,)

    @property
    def dense(self) -> tuple[jax.Array, jax.Array]:
        """See `Layer.dense`."""
        return self.weights, self.bias

    def work(self) -> float:
        """See `Layer.work`."""
        return float(np.prod(self.weights.shape))

    def block(self, rows: int, platform: str) -> int:
        """See `Layer.block`."""
        return min(rows, max(WHOLE_ROWS, rows_of_block(self.width, platform)))

    def closed_form(self, background: WeightedDonors, head: Affine) -> Additive:
        """See `Layer.closed_form`."""
        return Additive(self.weights, self.bias, background, head)

    def _times(self, rows: jax.Array) -> jax.Array:
        R = len(rows)
        whole = jnp.pad(rows, ((0, -R % WHOLE_ROWS), (0, 0)))
        return jnp.dot(whole, self.weights, precision=jax.lax.Precision.HIGHEST)[:R]
