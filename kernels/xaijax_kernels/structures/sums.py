"""Layers that are sums over players, one dense layer among them, and their sub-coalitions.

The sub-coalitions of a slot are sums of what its players add, each with x's values or the donor's:
each bit doubles what is there. They are not the donor's layer and changes x - b: with a donor's
99999999 in one column the layer of a sub-coalition that keeps x's value there would be a difference
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


def low_bits(bits: int, platform: str) -> int:
    """How many of the bits of sub-coalitions make the first of two tables on a GPU or a TPU."""
    many = platform == "tpu" and 1 << bits >= LANES
    return LANES.bit_length() - 1 if many else bits // 2


def _of_rows(head: Head, tables: jax.Array, s: int, block: int) -> jax.Array:
    """Answers of tables [S, 2^l + 2^(s - l), H], for a GPU. Blocks are no loop, whose counter and
    whose places for answers would be kernels too; one follows the other, or the compiler would join
    them to one that leaves the cache.
    """
    S, _, H = tables.shape
    first = 1 << s // 2
    slots, size = max(1, block >> s), max(1, min(block, 1 << s) // first)  # of second tables
    found: list[jax.Array] = []
    for i, at in itertools.product(range(0, S, slots), range(0, (1 << s) // first, size)):
        if found:
            tables, found[-1] = jax.lax.optimization_barrier((tables, found[-1]))
        own = tables[i : i + slots]
        hidden = own[:, first + at : first + at + size, None] + own[:, None, :first]
        found.append(head(hidden.reshape(block, H)).reshape(block, -1))
    return jnp.concatenate(found)


def _table_of_units(times: Any, subset: jax.Array, given: list[jax.Array], s: int) -> jax.Array:
    """Sums of the terms of some bits' players, for a TPU; [H, 2^bits, S], or if a slot has many
    sub-coalitions [H, S, 2^bits].
    """
    # Written out, here and below: otherwise each is made again for each row.
    given = jax.lax.optimization_barrier([a.T for a in given])
    few = 1 << s < LANES
    shift, x, donors = (jnp.expand_dims(a, 1 if few else 2) for a in given)
    chosen = ((subset[:, None] if few else subset) >> shift) & 1 == 1
    rows = jax.lax.optimization_barrier(jnp.where(chosen, x, donors))
    return times(rows.reshape(len(rows), -1).T).T.reshape(-1, *rows.shape[1:])


def _of_units(head: Head, first: jax.Array, second: jax.Array, s: int, block: int) -> jax.Array:
    """Answers of two tables [H, 2^.., S], or [H, S, 2^..] if a slot has many sub-coalitions, for a
    TPU. Its vectors are full along the last axis when sums are made, and a product reads them as
    they are.
    """
    first, second = jax.lax.optimization_barrier((first, second))
    few = 1 << s < LANES
    H, axis = len(first), 2 if few else 1  # of slots
    slots, size = max(1, block >> s), max(1, block >> low_bits(s, "tpu"))  # of second tables

    def some(first: jax.Array, second: jax.Array) -> jax.Array:
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
            return some(first, second)
        return jax.lax.map(partial(some, first), cut(second, 2, size))

    if slots == first.shape[axis]:
        found = of_slots((first, second))
    else:
        found = jax.lax.map(of_slots, (cut(first, axis, slots), cut(second, axis, slots)))
    return found.reshape(first.shape[axis] << s, -1)


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
        bits = kept.shape[1] - 1
        block = self.block(len(kept) << bits, platform, bits)
        given = block, head, x, donors, kept
        if platform == "cpu":
            return self._block_by_block(*given)
        return self._at_once(*given, platform)

    def _block_by_block(
        self, block: int, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array
    ) -> jax.Array:
        """`subsets` on a CPU; block: rows that the head takes at a time."""
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

    def _at_once(
        self,
        block: int,
        head: Head,
        x: jax.Array,
        donors: jax.Array,
        kept: jax.Array,
        platform: str,
    ) -> jax.Array:
        """`subsets` on a GPU or a TPU: the tables of all slots are made at once, as products of
        rows.
        """
        Q = kept.shape[1]
        s, low = Q - 1, low_bits(Q - 1, platform)
        # The bit whose player has the column: s if it is always kept, -1 if it never is; [S, F].
        places = jnp.arange(1, Q + 1, dtype=jnp.int32)[:, None]
        bit = jnp.where(kept, places, 0).sum(axis=1, dtype=jnp.int32) - 1

        def choices(first: int, last: int, others: bool) -> tuple[jax.Array, list[jax.Array]]:
            """(numbers [2^bits] of sub-coalitions of some bits, [what they are shifted by, x,
            donors], each [S, F]); the shifted number is odd where x's value is taken. Columns of
            other bits are 0; others: those of no bit are not.
            """
            own = (bit >= first) & (bit < last)
            shift = jnp.where(own, bit - first, jnp.where(bit == s, ALWAYS, ALWAYS - 1))
            part = own | (bit < 0) | (bit == s) if others else own
            given = [shift, *(jnp.where(part, a, 0) for a in (x, donors))]
            return jnp.arange(1 << last - first, dtype=jnp.int32) | 1 << ALWAYS, given

        halves = choices(0, low, True), choices(low, s, False)
        if platform == "tpu":
            first, second = (
                _table_of_units(self._times, subset, given, s) for subset, given in halves
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
        """See `Layer.prepares`: on a CPU the tables are few of a pair's additions."""
        return platform != "cpu"

    def prepared(self, columns: jax.Array, own: jax.Array, kept: bool, platform: str) -> jax.Array:
        """See `Layer.prepared`: tables of what the first and the other players add, [R, 2^l +
        2^(P - l), H] with l = `low_bits`. Instances keep the players of a sub-coalition;
        donors give the others, columns of no player, and the bias.
        """
        P, low, masks = len(own), low_bits(len(own), platform), []
        for first, last in ((0, low), (low, P)):
            subset = np.arange(1 << last - first)[:, None] >> np.arange(last - first) & 1 == kept
            chosen = (jnp.asarray(subset)[:, :, None] & own[first:last]).any(axis=1)
            masks.append(chosen if kept or masks else chosen | ~own.any(axis=0))
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
        one, other = (a.transpose(order) for a in (tables[:, :first], tables[:, first:]))
        return _of_units(head, one, other, players, block)

    def block(self, rows: int, platform: str, bits: int = 0) -> int:
        """See `Layer.block`."""
        most = head_rows(self.width, platform, self.bias.dtype.itemsize)
        if platform == "cpu":
            return min(rows, max(self._least_rows, most))
        return blocks_of(rows, max(most, 1 << low_bits(bits, platform)), bits)  # a table at least

    @property
    def _least_rows(self) -> int:
        """Rows that the head takes at a time on a CPU, at least: a power of two."""
        return WHOLE_ROWS

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

    def closed_form(self, background: WeightedDonors, head: Affine) -> Additive:
        """See `Layer.closed_form`."""
        return Additive(self.weights, self.bias, background, head)

    def _times(self, rows: jax.Array) -> jax.Array:
        R = len(rows)
        whole = jnp.pad(rows, ((0, -R % WHOLE_ROWS), (0, 0)))
        return jnp.dot(whole, self.weights, precision=jax.lax.Precision.HIGHEST)[:R]
