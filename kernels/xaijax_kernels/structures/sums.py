"""Layers that are sums over players, such as a dense layer, and their sub-coalitions.

The sub-coalitions of a slot are sums of its players' terms, each with x's values or the donor's:
each bit doubles their number. They are not computed as the donor's layer plus changes x - b: if the
donor has 99999999 in one column, a sub-coalition that keeps x's value there would be a difference
of large numbers.

Letters: S slots of 2^s sub-coalitions, F columns, H units, R rows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.engine.hybrids import ALWAYS
from xaijax_kernels.sizes import LANES, WHOLE_ROWS, blocks_of, head_rows
from xaijax_kernels.structures.base import Affine, Head, Layer, WeightedDonors
from xaijax_kernels.structures.closed_forms import Additive

TOGETHER = 3  # choices that one step of a compiled program sums, or one more if these are all


def sums_of_choices(start: jax.Array, choices: jax.Array) -> jax.Array:
    """start [S, 1, H] plus one of two choices for each bit [S, t, 2, H]; [S, 2^t, H], bit i
    selects."""
    S, _, H = start.shape
    tables = []
    count = choices.shape[1]
    # Sums of four are sums of three plus one: the same result in one step instead of three.
    step = count if 0 < count <= TOGETHER + 1 else TOGETHER
    for first in range(0, max(1, count), step):
        group = choices[:, first : first + step]
        t = group.shape[1]
        out = (jnp.zeros_like(start) if first else start).reshape(S, *[1] * t, H)
        for i in range(t):  # bit 0 is the last axis before the units
            out = out + group[:, i].reshape(S, *(2 if j == i else 1 for j in reversed(range(t))), H)
        tables.append(out.reshape(S, 1 << t, H))
    if len(tables) > 1:  # unrolled; otherwise each is recomputed for each row of the next
        tables = list(jax.lax.optimization_barrier(tuple(tables)))
    out = tables[0]
    for table in tables[1:]:
        out = (table[:, :, None] + out[:, None]).reshape(S, -1, H)
    return out


def low_bits(bits: int, platform: str) -> int:
    """How many bits of sub-coalitions belong to the first of two tables on a GPU or a TPU."""
    many = platform == "tpu" and 1 << bits >= LANES
    return LANES.bit_length() - 1 if many else bits // 2


def _of_rows(head: Head, tables: jax.Array, s: int, block: int) -> jax.Array:
    """Outputs from tables [S, 2^l + 2^(s - l), H], for a GPU. Blocks are unrolled, because a
    loop's counter and its writes would be kernels too. They are ordered one after another;
    otherwise the compiler would fuse them into one that exceeds the cache.
    """
    S, _, H = tables.shape
    first = 1 << s // 2
    slots, size = max(1, block >> s), max(1, min(block, 1 << s) // first)  # rows of second tables
    blocks: list[jax.Array] = []
    for i, at in itertools.product(range(0, S, slots), range(0, (1 << s) // first, size)):
        if blocks:
            tables, blocks[-1] = jax.lax.optimization_barrier((tables, blocks[-1]))
        tile = tables[i : i + slots]
        hidden = tile[:, first + at : first + at + size, None] + tile[:, None, :first]
        blocks.append(head(hidden.reshape(block, H)).reshape(block, -1))
    return jnp.concatenate(blocks)


def _table_of_units(times: Any, subset: jax.Array, columns: list[jax.Array], s: int) -> jax.Array:
    """Sums of the terms of some bits' players, for a TPU; [H, 2^bits, S], or [H, S, 2^bits] if a
    slot has many sub-coalitions.
    """
    # Unrolled, here and below: otherwise each is recomputed for each row.
    columns = jax.lax.optimization_barrier([a.T for a in columns])
    few = 1 << s < LANES
    shift, x, donors = (jnp.expand_dims(a, 1 if few else 2) for a in columns)
    chosen = ((subset[:, None] if few else subset) >> shift) & 1 == 1
    rows = jax.lax.optimization_barrier(jnp.where(chosen, x, donors))
    return times(rows.reshape(len(rows), -1).T).T.reshape(-1, *rows.shape[1:])


def _of_units(head: Head, first: jax.Array, second: jax.Array, s: int, block: int) -> jax.Array:
    """Outputs from two tables [H, 2^.., S], or [H, S, 2^..] if a slot has many sub-coalitions,
    for a TPU. The last axis fills its vectors, and a product reads the sums without a transpose.
    """
    first, second = jax.lax.optimization_barrier((first, second))
    few = 1 << s < LANES
    H, axis = len(first), 2 if few else 1  # of slots
    slots, size = max(1, block >> s), max(1, block >> low_bits(s, "tpu"))  # rows of second tables

    def outputs(first: jax.Array, second: jax.Array) -> jax.Array:
        if few:
            answers = head((second[:, :, None] + first[:, None]).reshape(H, -1).T)
            answers = answers.reshape(1 << s, slots, -1).swapaxes(0, 1)
            return answers.reshape(block, -1)
        return head((second[..., None] + first[:, :, None]).reshape(H, -1).T).reshape(block, -1)

    def cut(table: jax.Array, axis: int, size: int) -> jax.Array:
        split = table.reshape(*table.shape[:axis], -1, size, *table.shape[axis + 1 :])
        return jnp.moveaxis(split, axis, 0)

    def of_slots(tables: tuple[jax.Array, jax.Array]) -> jax.Array:
        first, second = tables
        if few or second.shape[2] <= size:
            return outputs(first, second)
        return jax.lax.map(partial(outputs, first), cut(second, 2, size))

    if slots == first.shape[axis]:
        out = of_slots((first, second))
    else:
        out = jax.lax.map(of_slots, (cut(first, axis, slots), cut(second, axis, slots)))
    return out.reshape(first.shape[axis] << s, -1)


class SumOfTerms(Layer):
    """Base of layers whose parts are sums of their players' terms, [H].

    hidden = bias + the terms of all players.
    """

    bias: jax.Array  # [H], the layer of a row of zeros

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
        self, head: Head, x: jax.Array, donors: jax.Array, mask: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.subsets`."""
        bits = mask.shape[1] - 1
        block = self.block(len(mask) << bits, platform, bits)
        arguments = block, head, x, donors, mask
        if platform == "cpu":
            return self._block_by_block(*arguments)
        return self._at_once(*arguments, platform)

    def _block_by_block(
        self, block: int, head: Head, x: jax.Array, donors: jax.Array, mask: jax.Array
    ) -> jax.Array:
        """`subsets` on a CPU; block: rows per call of the head."""
        S, Q, F = mask.shape
        s, H = Q - 1, self.width
        bits, always = mask[:, :s], mask[:, s:]
        never = ~mask.any(axis=1, keepdims=True)
        same = jnp.where(always, x[:, None], jnp.where(never, donors[:, None], 0))
        either = jnp.stack([donors, x], axis=1)[:, None]  # [S, 1, 2, F]
        either = jnp.where(bits[:, :, None], either, 0).reshape(S, 2 * s, F)
        rows = jnp.concatenate([same, either], axis=1)
        terms = self._times(rows.reshape(-1, F)).reshape(S, 2 * s + 1, H)
        start, terms = terms[:, :1] + self.bias, terms[:, 1:].reshape(S, s, 2, H)
        # A block stays in a core's fast memory from the sums to the head: the low bits of one
        # sub-coalition index, or a few full slots.
        low = min(s, block.bit_length() - 1)
        together = block >> low
        # Tables of a few bits each, for all slots at once: a block then costs one addition per
        # number.
        zero, half = jnp.zeros_like(start), low // 2
        first = sums_of_choices(start, terms[:, :half])  # [S, 2^half, H]
        second = sums_of_choices(zero, terms[:, half:low])  # [S, 2^(low - half), H]
        high = sums_of_choices(zero, terms[:, low:])  # [S, 2^(s - low), H]
        # Unrolled; otherwise the compiler recomputes the tables for each of their sums.
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

    def _at_once(
        self,
        block: int,
        head: Head,
        x: jax.Array,
        donors: jax.Array,
        mask: jax.Array,
        platform: str,
    ) -> jax.Array:
        """`subsets` on a GPU or a TPU: the tables of all slots are computed at once, as products
        of rows.
        """
        Q = mask.shape[1]
        s, low = Q - 1, low_bits(Q - 1, platform)
        # The bit of each column's player: s if it is always kept, -1 if it never is; [S, F].
        places = jnp.arange(1, Q + 1, dtype=jnp.int32)[:, None]
        bit = jnp.where(mask, places, 0).sum(axis=1, dtype=jnp.int32) - 1

        def choices(first: int, last: int, others: bool) -> tuple[jax.Array, list[jax.Array]]:
            """(numbers [2^bits] of sub-coalitions of some bits, [their shifts, x, donors], each
            [S, F]). The shifted number is odd where x's value is taken. Columns of other bits
            are 0; with `others`, columns without a bit are not.
            """
            in_half = (bit >= first) & (bit < last)
            shift = jnp.where(in_half, bit - first, jnp.where(bit == s, ALWAYS, ALWAYS - 1))
            part = in_half | (bit < 0) | (bit == s) if others else in_half
            columns = [shift, *(jnp.where(part, a, 0) for a in (x, donors))]
            return jnp.arange(1 << last - first, dtype=jnp.int32) | 1 << ALWAYS, columns

        halves = choices(0, low, True), choices(low, s, False)
        if platform == "tpu":
            first, second = (
                _table_of_units(self._times, subset, bits, s) for subset, bits in halves
            )
            return _of_units(head, first + self.bias.reshape(-1, 1, 1), second, s, block)
        rows = [
            jnp.where((subset[:, None] >> shift[:, None]) & 1 == 1, x[:, None], donors[:, None])
            for subset, (shift, x, donors) in halves
        ]
        rows = jnp.concatenate(rows, axis=1)  # [S, 2^.. + 2^.., F]
        tables = self._times(rows.reshape(-1, rows.shape[2])).reshape(*rows.shape[:2], -1)
        return _of_rows(lambda hidden: head(hidden + self.bias), tables, s, block)

    def prepares(self, platform: str) -> bool:
        """See `Layer.prepares`: on a CPU the tables are a small share of a pair's additions."""
        return platform != "cpu"

    def prepared(self, columns: jax.Array, mask: jax.Array, kept: bool, platform: str) -> jax.Array:
        """See `Layer.prepared`: tables of the terms of the first and of the other players, [R,
        2^l + 2^(P - l), H] with l = `low_bits`. Instances give the players of a sub-coalition;
        donors give the others, columns without a player, and the bias.
        """
        P, low, masks = len(mask), low_bits(len(mask), platform), []
        for first, last in ((0, low), (low, P)):
            subset = np.arange(1 << last - first)[:, None] >> np.arange(last - first) & 1 == kept
            chosen = (jnp.asarray(subset)[:, :, None] & mask[first:last]).any(axis=1)
            masks.append(chosen if kept or masks else chosen | ~mask.any(axis=0))
        rows = jnp.where(jnp.concatenate(masks), columns[:, None], 0)  # [R, n, C]
        made = self._times(rows.reshape(-1, rows.shape[2])).reshape(*rows.shape[:2], -1)
        return made if kept else made.at[:, : len(masks[0])].add(self.bias)

    def prepared_subsets(
        self, head: Head, players: int, x: jax.Array, donors: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.prepared_subsets`."""
        tables = donors + x  # [S, n, H]
        block = self.block(len(donors) << players, platform, players)
        if platform != "tpu":
            return _of_rows(head, tables, players, block)
        first = 1 << low_bits(players, platform)
        order = (2, 1, 0) if 1 << players < LANES else (2, 0, 1)
        low, other = (a.transpose(order) for a in (tables[:, :first], tables[:, first:]))
        return _of_units(head, low, other, players, block)

    def block(self, rows: int, platform: str, bits: int = 0) -> int:
        """See `Layer.block`."""
        most = head_rows(self.width, platform, self.bias.dtype.itemsize)
        if platform == "cpu":
            return min(rows, max(self._least_rows, most))
        return blocks_of(rows, max(most, 1 << low_bits(bits, platform)), bits)  # a table at least

    @property
    def _least_rows(self) -> int:
        """Minimum number of rows per call of the head on a CPU: a power of two."""
        return WHOLE_ROWS

    def part(self, columns: jax.Array, mask: jax.Array) -> jax.Array:
        """See `Layer.part`."""
        return self._times(jnp.where(mask, columns, 0))

    def nothing(self, rows: int, dtype: Any) -> jax.Array:
        """See `Layer.nothing`."""
        return jnp.zeros((rows, self.width), dtype)

    def both(self, part: jax.Array, other: jax.Array) -> jax.Array:
        """See `Layer.both`."""
        return part + other

    def joined(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """See `Layer.joined`."""
        return (x + self.bias)[:, None] + donors[None]

    def _times(self, rows: jax.Array) -> jax.Array:
        """The terms of rows [R, C], with zeros in the columns that do not belong to them; [R,
        H]."""
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

        There is one size: a slot's part, 13 rows of a product with W for 2^6 sub-coalitions, is
        small compared with their head. With two layers of 64 units on Adult's codes a call takes a
        sixth longer than with a program for every size, but these take seven seconds to compile. A
        smaller pair pads its slot, which has few rows.
        """
        return (6,)

    @property
    def dense(self) -> tuple[jax.Array, jax.Array]:
        """See `Layer.dense`."""
        return self.weights, self.bias

    def work(self) -> float:
        """See `Layer.work`."""
        return float(np.prod(self.weights.shape))

    def closed_form(self, background: WeightedDonors, head: Affine) -> Additive:
        """See `Layer.closed_form`."""
        return Additive(self.weights, self.bias, background, head)

    def _times(self, rows: jax.Array) -> jax.Array:
        R = len(rows)
        whole = jnp.pad(rows, ((0, -R % WHOLE_ROWS), (0, 0)))
        return jnp.dot(whole, self.weights, precision=jax.lax.Precision.HIGHEST)[:R]
