"""A fold over the segments of a row: coalitions that agree in a prefix share what it gives.

f(x) = read(step(... step(init, segment 1) ..., segment G)): recurrent networks, state-space models,
and causal transformers, whose state is the cache of keys and values. The hybrids of a slot are the
leaves of a tree whose levels are the segments. Each distinct prefix is asked once: a level steps
the states of its parents by the segment of x and by the donor's, and its children gather them.
2^s coalitions of G = s segments take 2^(s + 1) - 2 steps in place of s 2^s, and if what is absent
is left out, which takes no step, 2^s - 1.

Letters: S slots of 2^s sub-coalitions, F columns, G segments, R rows, H answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any, Protocol, final

import jax
import jax.numpy as jnp

from xaijax_kernels.structures.base import Head, Layer


class Fold(Protocol):
    """The functions of a fold; hashable. The first axis of every leaf of a state is rows."""

    def start(self, params: Any, rows: jax.Array, /) -> Any:
        """The state before the first segment, of rows [R, F], whose first and last fixed columns it
        may read.
        """
        ...

    def step(self, params: Any, state: Any, part: jax.Array, /) -> Any:
        """The state after a segment [R, ...]."""
        ...

    def read(self, params: Any, state: Any, rows: jax.Array, /) -> jax.Array:
        """The answers [R] or [R, H] of a state, of rows [R, F] whose fixed columns it may read."""
        ...

    def part(self, rows: jax.Array, segment: Segment, /) -> jax.Array:
        """Returns what `step` takes of a segment of rows [R, F]; [R, ...]."""
        ...


@dataclass(frozen=True)
class Segment:
    """Columns that are kept or replaced together, in the order of the fold."""

    first: int
    last: int  # past the last
    plays: bool = True  # False: it is always kept

    @property
    def width(self) -> int:
        """Its columns."""
        return self.last - self.first


def _where_rows(flags: jax.Array, first: Any, other: Any) -> Any:
    """The rows of the first pytree where flags [R], else of the other."""

    def choose(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(flags.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, first, other)


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Prefixes(Layer):
    """hidden = the answers themselves. A part is its columns, with a mark at each that it owns."""

    params: Any
    fold: Fold = field(metadata={"static": True})
    segments: tuple[Segment, ...] = field(metadata={"static": True})
    answers: int = field(metadata={"static": True})  # H
    columns_of_row: int = field(metadata={"static": True})  # F
    # Whether the bits of a slot are those of its last segments, so that the others need one state;
    # else they may be any.
    last: bool = field(metadata={"static": True})
    drops: bool = field(metadata={"static": True})  # whether a donor's segment leaves states alone

    @property
    def name(self) -> str:
        """See `Layer.name`."""
        return "prefixes"

    @property
    def width(self) -> int:
        """H."""
        return self.answers

    @property
    def parts(self) -> int:
        """Columns and their marks."""
        return 2 * self.columns_of_row

    @property
    def adds(self) -> bool:
        """See `Layer.adds`."""
        return False

    @property
    def compares(self) -> bool:
        """See `Layer.compares`: it reads rows as the model does."""
        return True

    @property
    def by_columns(self) -> bool:
        """See `Layer.by_columns`: a token is no number that is rounded."""
        return False

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """See `Layer.slot_bits`: the more bits, the fewer steps of a sub-coalition."""
        return (4, 6, 8, 10, 12)

    def work(self) -> float:
        """See `Layer.work`."""
        return math.inf

    def block(self, rows: int, platform: str, bits: int = 0) -> int:
        """See `Layer.block`: the head does nothing."""
        return rows

    def part(self, columns: jax.Array, mask: jax.Array) -> jax.Array:
        """See `Layer.part`."""
        return jnp.concatenate([jnp.where(mask, columns, 0), mask.astype(columns.dtype)], axis=1)

    def nothing(self, rows: int, dtype: Any) -> jax.Array:
        """See `Layer.nothing`."""
        return jnp.zeros((rows, self.parts), dtype)

    def both(self, part: jax.Array, other: jax.Array) -> jax.Array:
        """See `Layer.both`."""
        return part + other

    def joined(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """See `Layer.joined`."""
        pairs = (x[:, None] + donors[None]).reshape(-1, self.parts)
        return self.whole(pairs[:, : self.columns_of_row]).reshape(len(x), len(donors), -1)

    def whole(self, columns: jax.Array) -> jax.Array:
        """See `Layer.whole`."""
        state = self.fold.start(self.params, columns)
        for _, alike in groupby(self.segments, key=lambda segment: segment.width):
            parts = jnp.stack([self.fold.part(columns, segment) for segment in alike])

            def add(state: Any, part: jax.Array) -> tuple[Any, None]:
                return self.fold.step(self.params, state, part), None

            state = jax.lax.scan(add, state, parts)[0]
        return self.fold.read(self.params, state, columns).reshape(len(columns), -1)

    def states(self, done: int, bits: int) -> int:
        """States of a slot after some segments: 2^t, where t of its bits may be decided by then."""
        players = sum(segment.plays for segment in self.segments)
        played = sum(segment.plays for segment in self.segments[:done])
        return 1 << max(0, min(bits, played - (players - bits) * self.last))

    def steps(self, bits: int) -> int:
        """Segments that the sub-coalitions of a slot of 2^bits step."""
        total = 0
        for g, segment in enumerate(self.segments):
            before, after = self.states(g, bits), self.states(g + 1, bits)
            total += before * (2 if after > before and not self.drops else 1) * segment.plays
        return total

    def subsets(
        self, head: Head, x: jax.Array, donors: jax.Array, mask: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.subsets`."""
        S, bits = len(mask), mask.shape[1] - 1
        never = ~mask.any(axis=1)
        rows = jnp.where(never, donors, x), jnp.where(mask[:, -1], x, donors)  # all kept, none
        prefix = _Walk(self, rows, mask, bits)
        state = self.fold.start(self.params, rows[0])
        place = jnp.zeros((S, 1 << bits), jnp.int32)  # the leaf of each sub-coalition
        carry = state, place
        levels = [(self.states(g, bits), self.states(g + 1, bits)) for g in range(len(prefix))]

        def alike(g: int) -> Any:  # segments that one loop steps
            before, after = levels[g]
            return self.segments[g].width if before == after else -1 - g

        for _, run in groupby(range(len(prefix)), key=lambda g: (alike(g), levels[g])):
            places = list(run)
            before, after = levels[places[0]]
            if before != after:
                carry = prefix.branch(carry, prefix.at(places[0]), before)
                continue
            steps = [prefix.at(g) for g in places]
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *steps)
            carry = jax.lax.scan(partial(prefix.go_on, states=before), carry, stacked)[0]
        state, place = carry
        leaves = self.states(len(prefix), bits)
        fixed = rows[0].repeat(leaves, axis=0)
        answers = self.fold.read(self.params, state, fixed).reshape(S, leaves, -1)
        answers = jnp.take_along_axis(answers, place[:, :, None], axis=1)
        return head(answers.reshape(S << bits, -1)).reshape(S << bits, -1)


Level = tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]
Carry = tuple[Any, jax.Array]


@dataclass(frozen=True)
class _Walk:
    """The levels of the trees of some slots."""

    layer: Prefixes
    rows: tuple[jax.Array, jax.Array]  # [S, F], with every segment kept, and with none
    kept: jax.Array  # bool [S, s + 1, F]
    bits: int  # s

    def __len__(self) -> int:
        return len(self.layer.segments)

    def at(self, g: int) -> Level:
        """A segment of x and of the donor; whether a bit decides it, which one, and whether all
        sub-coalitions keep it, [S] each.
        """
        segment = self.layer.segments[g]
        first, other = (self.layer.fold.part(rows, segment) for rows in self.rows)
        if not segment.plays:
            every = jnp.ones(len(self.kept), bool)
            return first, other, ~every, jnp.zeros(len(every), jnp.int32), every
        mask = self.kept[:, :, segment.first]
        free = mask[:, : self.bits].any(axis=1)
        bit = jnp.argmax(mask, axis=1).astype(jnp.int32)
        return first, other, free, bit, mask[:, self.bits]

    def _children(self, level: Level, place: jax.Array, count: int) -> tuple[Any, Any, Any]:
        """(the parent of each of `count` children, int [S, count], whether it keeps the segment,
        the leaf of each sub-coalition so far).
        """
        _, _, free, bit, always = level
        child = jnp.arange(count, dtype=jnp.int32)
        parent = child >> free[:, None].astype(jnp.int32)
        keeps = jnp.where(free[:, None], child & 1 == 1, always[:, None])
        bits = jnp.arange(1 << self.bits, dtype=jnp.int32) >> bit[:, None] & 1
        return parent, keeps, jnp.where(free[:, None], 2 * place + bits, place)

    def branch(self, carry: Carry, level: Level, states: int) -> Carry:
        """The children of `states` states, twice as many."""
        state, place = carry
        first, other = level[:2]
        parent, keeps, place = self._children(level, place, 2 * states)
        layer, S = self.layer, len(parent)
        by_x = layer.fold.step(layer.params, state, first.repeat(states, axis=0))
        absent = state
        if not layer.drops:
            absent = layer.fold.step(layer.params, state, other.repeat(states, axis=0))
        source = (jnp.arange(S, dtype=parent.dtype)[:, None] * states + parent).reshape(-1)
        chosen = [jax.tree.map(lambda leaf: leaf[source], of) for of in (by_x, absent)]
        return _where_rows(keeps.reshape(-1), *chosen), place

    def go_on(self, carry: Carry, level: Level, states: int) -> tuple[Carry, None]:
        """Returns as many children as there are parents; each parent has one, or as many bits are
        left undecided as there are.
        """
        state, place = carry
        first, other = level[:2]
        parent, keeps, place = self._children(level, place, states)
        layer, S = self.layer, len(parent)
        if states > 1:
            source = (jnp.arange(S, dtype=parent.dtype)[:, None] * states + parent).reshape(-1)
            state = jax.tree.map(lambda leaf: leaf[source], state)
        flags = keeps.reshape(-1)
        part = _where_rows(flags, first.repeat(states, axis=0), other.repeat(states, axis=0))
        stepped = layer.fold.step(layer.params, state, part)
        return ((_where_rows(flags, stepped, state) if layer.drops else stepped), place), None
