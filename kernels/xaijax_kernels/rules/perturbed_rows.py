"""Rows of a perturbation space: they are drawn around an instance while the columns of a rule are
kept.

A pull is an instance, a rule and p draws in a row. Which donor a draw has, which columns it takes
and which value it gives a kept column are a counter hash of the pull's key, the draw and the
column: 32-bit mixing, some ten operations a number, where JAX's own generators take a hundred.
`run_pulls` draws the rows in tiles, asks the model, and compares its answers with f(x).

Letters: G pulls, p draws of a pull, N instances, B donors, F columns, c codes of a column, D
listed draws, V bins, L columns in a rule at most, T tiles in a dispatch, R rows in a tile, A
answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from xaijax_kernels.engine.reduce import any_bad
from xaijax_kernels.engine.tiles import counted_on, folded, over_tiles, tile_by_tile

Array = Any  # of JAX, or of NumPy on its way there
GOLDEN = 0x9E3779B9  # the odd constant that gives each column a hash of its own
HEADER = 4  # numbers of a pull before its columns: instance, two words of its key, first draw
WRITTEN_OUT = 16  # columns of a rule that a loop of a GPU is written out for


@dataclass(frozen=True)
class PerturbationSpace:
    """What is drawn; hashable, so that it can be a part of a compiled program's key."""

    columns: int  # F
    # A kept column's value: "own" (that of x), "bin" (a draw from the bins that the rule keeps), or
    # "donor" (that of the donor whose number is the first word of the key).
    keeps: str
    stays: bool = False  # with "bin": a donor's value that is in these bins already is kept
    takes: int | None = None  # chance, in 2^-32, that a free column takes the donor's; None: 1
    listed: bool = False  # draw d has donor `listed[d]`; else a random one
    masks: bool = False  # draw d takes the columns that are the bits of d // B; no chance in it
    named: bool = False  # the pull's draws are named one by one, after its columns
    weighted: bool = False  # donors, and values within a bin, are drawn by weight; of one bin only


class Pool(NamedTuple):
    """The donors, and who is in which bin of a column."""

    donors: Array  # [B, F, c]
    listed: Array  # int32 [D], donors in the order of the listed draws
    bins: Array  # int32 [B, F]
    members: Array  # int32 [F, B], donors sorted by bin: those of neighbouring bins are one run
    start: Array  # int32 [F, V], place of a bin's first member
    count: Array  # int32 [F, V]; 0: no donor is in it
    # Walker's alias tables: a place is kept with this chance, else its alias is taken.
    chance: Array  # float32 [F + 1, B], of a place in `members`; the last row: of a donor
    alias: Array  # int32 [F + 1, B]


class Subjects(NamedTuple):
    """The instances."""

    rows: Array  # [N, F, c]
    low: Array  # int32 [N, F], the first of the neighbouring bins that a rule keeps, if it does
    high: Array  # int32 [N, F], the last: x's bin alone, unless the rule was widened
    own: Array  # [N, A], the model's answers to them


def mixed(x: jax.Array) -> jax.Array:
    """A bijection of 32 bits in which every bit depends on every other (Wellons, "lowbias32")."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
    return x ^ (x >> 16)


def place_of(word: jax.Array, count: jax.Array) -> jax.Array:
    """A number below `count`, all alike but for one part in 2^24 / count; int32."""
    share = (word >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)
    drawn = (share * count.astype(jnp.float32)).astype(jnp.int32)
    return jnp.minimum(drawn, count - 1)


def perturbed(
    space: PerturbationSpace,
    pool: Pool,
    subjects: Subjects,
    # int32 [G, 4 + L]: instance, key, key, first draw, columns (-1: none more); with `named` draws
    # [G, 4 + L + p], and the first draw is not read.
    pulls: jax.Array,
    draws: int,  # p
    known_trip_counts: bool = False,  # see `tiles.counted`
) -> jax.Array:
    """The rows of some pulls; [G, p, F, c]."""
    F, B = space.columns, pool.donors.shape[0]
    n = pulls[:, 0]
    keys = jax.lax.bitcast_convert_type(pulls[:, 1:3], jnp.uint32)
    if space.named:
        pulls, draw = pulls[:, :-draws], pulls[:, -draws:]
    else:
        draw = pulls[:, 3, None] + jnp.arange(draws, dtype=jnp.int32)  # [G, p]
    base = mixed(draw.astype(jnp.uint32) + keys[:, :1]) ^ keys[:, 1:]

    def word(column: jax.Array) -> jax.Array:
        return mixed(base ^ (column.astype(jnp.uint32) * jnp.uint32(GOLDEN)))

    if space.listed:
        donor = pool.listed[draw]
    else:
        donor = _drawn(space, pool, jnp.int32(F), word(jnp.int32(F)), jnp.int32(0), jnp.int32(B))
    rows = pool.donors[donor]  # [G, p, F, c]
    column = jnp.arange(F, dtype=jnp.int32)
    x = subjects.rows[n]  # [G, F, c]
    if space.masks:
        takes = ((draw // B)[:, :, None] >> column) & 1 == 1
        rows = jnp.where(takes[..., None], rows, x[:, None])
    elif space.takes is not None:
        free = jnp.arange(F + 1, 2 * F + 1, dtype=jnp.int32)
        word_of = mixed(base[:, :, None] ^ (free.astype(jnp.uint32) * jnp.uint32(GOLDEN)))
        takes = word_of < jnp.uint32(space.takes)
        rows = jnp.where(takes[..., None], rows, x[:, None])

    def keep(at: jax.Array, rows: jax.Array) -> jax.Array:
        f = jax.lax.dynamic_index_in_dim(pulls, HEADER + at, axis=1, keepdims=False)  # [G]
        own = jnp.maximum(f, 0)
        value = jnp.take_along_axis(x, own[:, None, None], axis=1)  # [G, 1, c]
        if space.keeps == "donor":
            value = pool.donors[pulls[:, 1], own][:, None]
        elif space.keeps == "bin":
            value = _in_bin(space, pool, subjects, n, own, donor, word(own[:, None]), value)
        here = column[None, None, :, None] == f[:, None, None, None]
        return jnp.where(here, value[:, :, None, :], rows)

    longest = pulls.shape[1] - HEADER
    if known_trip_counts and longest <= WRITTEN_OUT:  # a turn of few operations is as many kernels
        for at in range(longest):  # -1, where a rule has no more columns, keeps nothing
            rows = keep(jnp.int32(at), rows)
        return rows
    most = jnp.sum((pulls[:, HEADER:] >= 0).any(axis=0), dtype=jnp.int32)
    return folded(keep, rows, most, longest, known_trip_counts)


def _in_bin(
    space: PerturbationSpace,
    pool: Pool,
    subjects: Subjects,
    n: jax.Array,  # int32 [G]
    f: jax.Array,  # int32 [G]
    donor: jax.Array,  # int32 [G, p]
    word: jax.Array,  # uint32 [G, p]
    own: jax.Array,  # [G, 1, c]
) -> jax.Array:
    """Values of donors in the bins low .. high; [G, p, c]. x's own where no donor is in them."""
    low, high = subjects.low[n, f], subjects.high[n, f]  # [G]
    start = pool.start[f, low]
    count = pool.start[f, high] + pool.count[f, high] - start
    column = f[:, None]
    member = _drawn(
        space, pool, column, word, start[:, None], jnp.maximum(count, 1)[:, None]
    )  # a place in members
    chosen = pool.members[column, jnp.minimum(member, pool.members.shape[1] - 1)]
    if space.stays:
        theirs = pool.bins[donor, column]
        inside = (low[:, None] <= theirs) & (theirs <= high[:, None])
        chosen = jnp.where(inside, donor, chosen)
    values = pool.donors[chosen, column]  # [G, p, c]
    return jnp.where((count > 0)[:, None, None], values, own)


def _drawn(
    space: PerturbationSpace,
    pool: Pool,
    table: jax.Array,
    word: jax.Array,
    start: jax.Array,
    count: jax.Array,
) -> jax.Array:
    """A place from `start` on, `count` of them, by the weights of the alias table `table`."""
    place = start + place_of(word, count)
    if not space.weighted:
        return place
    place = jnp.minimum(place, pool.alias.shape[1] - 1)
    lot = (mixed(word ^ jnp.uint32(0x68E31DA4)) >> 8).astype(jnp.float32) * jnp.float32(2.0**-24)
    return jnp.where(lot < pool.chance[table, place], place, pool.alias[table, place])


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's tables of weights [B] (Vose 1991): (chance to stay float32 [B], alias int32 [B])."""
    B = len(weights)
    scaled = weights / weights.sum() * B
    chance, alias = np.ones(B, np.float32), np.arange(B, dtype=np.int32)
    small = [b for b in range(B) if scaled[b] < 1]
    large = [b for b in range(B) if scaled[b] >= 1]
    while small and large:
        a, b = small.pop(), large[-1]
        chance[a], alias[a] = scaled[a], b
        scaled[b] -= 1 - scaled[a]
        if scaled[b] < 1:
            small.append(large.pop())
    return chance, alias


def keys_of(seed: int, fingerprints: Any, rules: Any) -> np.ndarray:
    """The key of each pull, int32 [Q, 2]: fingerprints of instances, keys of rules uint64 [Q]."""
    key = _mix64(fingerprints ^ _mix64(np.uint64(seed & 0xFFFFFFFFFFFFFFFF)))
    key = _mix64(key ^ _mix64(rules))
    return np.ascontiguousarray(key).view("<i4").reshape(-1, 2)


def _mix64(x: np.ndarray | np.uint64) -> np.ndarray:
    """The finaliser of SplitMix64."""
    with np.errstate(over="ignore"):
        z = np.atleast_1d(np.asarray(x, np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class PullShape:
    """The static facts of a tile of pulls."""

    instance_shape: tuple[int, ...]  # of one row as the model sees it
    rows: int  # R
    draws: int  # p

    @property
    def pulls(self) -> int:
        """G; what is left of the tile repeats its last row."""
        return self.rows // self.draws

    @property
    def words(self) -> int:
        """32-bit words of a pull's bits."""
        return -(-self.draws // 32)


def run_pulls(
    apply: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, Any], jax.Array],
    space: PerturbationSpace,
    shape: PullShape,
    mesh: Mesh,
    params: Any,
    pool: Pool,
    subjects: Subjects,
    tiles: jax.Array,  # int32 [devices], tiles to run on each device
    pulls: jax.Array,  # int32 [T, G, 4 + L]
) -> tuple[jax.Array, jax.Array]:
    """Bits uint32 [T, G, words] of the draws that agree; whether one is not finite, int32 [T].

    score(answers [R, A], own [R, A]) -> [R, 1], 1 where they agree. Tiles are split over the
    devices of `mesh`; each stops after its own number of tiles. One bit a draw comes back, so that
    a round of a thousand instances and a thousand draws each is a megabyte, and any weights can be
    put on the draws afterwards.
    """

    known_trip_counts = counted_on(mesh)

    def on_one_device(params, pool, subjects, tiles, pulls):
        def tile(t):
            some = jax.lax.dynamic_index_in_dim(pulls, t, keepdims=False)
            drawn = perturbed(space, pool, subjects, some, shape.draws, known_trip_counts)
            rows = filled(drawn, shape.rows)
            out = apply(params, rows.reshape(shape.rows, *shape.instance_shape))
            own = jnp.repeat(
                subjects.own[some[:, 0]], shape.draws, axis=0, total_repeat_length=shape.rows
            )
            agrees = score(out, own)[:, 0]
            lost = any_bad(jnp.isfinite(agrees))
            used = (agrees > 0.5)[: shape.pulls * shape.draws]
            packed = pack_bits(used.reshape(shape.pulls, shape.draws))
            return packed, lost

        T = pulls.shape[0]
        bits = jnp.zeros((T, shape.pulls, shape.words), jnp.uint32)
        room = (bits, jnp.zeros((T,), jnp.int32))
        return tile_by_tile(tile, room, tiles[0], known_trip_counts)

    split = over_tiles(on_one_device, mesh, (False, False, False, True, True))
    return split(params, pool, subjects, tiles, pulls)


def filled(rows: jax.Array, count: int) -> jax.Array:
    """Rows [G, p, F, c] as [count, F c], the last one repeated."""
    flat = rows.reshape(rows.shape[0] * rows.shape[1], -1)
    missing = count - flat.shape[0]
    if not missing:
        return flat
    return jnp.concatenate([flat, jnp.broadcast_to(flat[-1:], (missing, flat.shape[1]))])


def pack_bits(flags: jax.Array) -> jax.Array:
    """bool [G, p] -> uint32 [G, ceil(p / 32)], draw d at bit d % 32 of word d // 32."""
    G, p = flags.shape
    padded = jnp.pad(flags, ((0, 0), (0, -p % 32)))
    worth = jnp.uint32(1) << jnp.arange(32, dtype=jnp.uint32)
    grouped = padded.reshape(G, -1, 32).astype(jnp.uint32)
    return jnp.sum(grouped * worth, axis=2, dtype=jnp.uint32)
