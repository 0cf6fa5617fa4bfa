"""Samples rows around an instance from a perturbation space, with the columns of a rule kept.

A pull is an instance, a rule and p consecutive draws. A counter hash of the pull's key, the draw
and the column decides the donor of a draw, the columns it takes, and the value of a kept column.
The hash is 32-bit mixing with about ten operations per number; JAX's generators take a hundred.
`perturbed` samples with JAX, or identically with NumPy, which compiles nothing. `run_pulls` samples
the rows in tiles, calls the model, and compares its outputs with f(x).

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

Array = Any  # of JAX, or of NumPy before transfer
GOLDEN = 0x9E3779B9  # the odd constant that makes the hash differ by column
HEADER = 4  # numbers of a pull before its columns: instance, two words of its key, first draw
WRITTEN_OUT = 16  # columns of a rule up to which a GPU's loop is unrolled


@dataclass(frozen=True)
class PerturbationSpace:
    """How rows are sampled; hashable, so that it can be a part of a compiled program's key."""

    columns: int  # F
    # A kept column's value: "own" (that of x), "bin" (a draw from the bins that the rule keeps), or
    # "donor" (that of the donor whose number is the first word of the key).
    keeps: str
    stays: bool = False  # with "bin": a donor's value already in these bins is kept
    takes: int | None = None  # probability, times 2^32, that a free column is replaced; None: 1
    listed: bool = False  # draw d has donor `listed[d]`; otherwise a random one
    masks: bool = False  # draw d replaces the columns that are the bits of d // B: not random
    named: bool = False  # the pull lists its draws one by one, after its columns
    weighted: bool = False  # donors, and values within a bin, are drawn by weight; single bins only


class Pool(NamedTuple):
    """The donors, and which donors are in which bin of a column."""

    donors: Array  # [B, F, c]
    listed: Array  # int32 [D], donors in the order of the listed draws
    bins: Array  # int32 [B, F]
    members: Array  # int32 [F, B], donors sorted by bin: neighbouring bins are contiguous
    start: Array  # int32 [F, V], position of a bin's first member
    count: Array  # int32 [F, V], number of members
    # Walker's alias tables: a position is kept with this probability, else its alias is taken.
    chance: Array  # float32 [F + 1, B], for positions in `members`; the last row: for donors
    alias: Array  # int32 [F + 1, B]


class Subjects(NamedTuple):
    """The instances."""

    rows: Array  # [N, F, c]
    low: Array  # int32 [N, F], the first of the neighbouring bins that a rule keeps
    high: Array  # int32 [N, F], the last: x's bin alone, unless the rule was widened
    own: Array  # [N, A], the model's outputs for them


def mixed(x: Array) -> Array:
    """A bijection of 32 bits in which every bit depends on every other (Wellons, "lowbias32")."""
    x = (x ^ (x >> 16)) * np.uint32(0x7FEB352D)
    x = (x ^ (x >> 15)) * np.uint32(0x846CA68B)
    return x ^ (x >> 16)


def place_of(word: Array, count: Array) -> Array:
    """A uniform integer below `count`; probabilities differ by at most one part in 2^24 / count;
    int32."""
    share = (word >> 8).astype(np.float32) * np.float32(2.0**-24)
    drawn = (share * count.astype(np.float32)).astype(np.int32)
    return drawn.clip(None, count - 1)


def perturbed(
    space: PerturbationSpace,
    pool: Pool,
    subjects: Subjects,
    # int32 [G, 4 + L]: instance, key, key, first draw, columns (-1: none more); with `named` draws
    # [G, 4 + L + p], and the first draw is not read.
    pulls: Array,
    draws: int,  # p
    known_trip_counts: bool = False,  # see `tiles.counted`
    xp: Any = jnp,  # or numpy, if all arrays are NumPy's
) -> Array:
    """The rows of some pulls; [G, p, F, c]."""
    F, B = space.columns, pool.donors.shape[0]
    n = pulls[:, 0]
    keys = pulls[:, 1:3].view(np.uint32)
    if space.named:
        pulls, draw = pulls[:, :-draws], pulls[:, -draws:]
    else:
        draw = pulls[:, 3, None] + xp.arange(draws, dtype=np.int32)  # [G, p]
    base = mixed(draw.astype(np.uint32) + keys[:, :1]) ^ keys[:, 1:]

    def word(column: Array) -> Array:
        return mixed(base ^ (column.astype(np.uint32) * np.uint32(GOLDEN)))

    if space.listed:
        donor = pool.listed[draw]
    else:
        last = np.full((1, 1), F, np.int32)  # a NumPy scalar would warn of the hash's overflow
        donor = _drawn(space, pool, last, word(last), np.int32(0), np.int32(B), xp)
    rows = pool.donors[donor]  # [G, p, F, c]
    column = xp.arange(F, dtype=np.int32)
    x = subjects.rows[n]  # [G, F, c]
    if space.masks:
        takes = ((draw // B)[:, :, None] >> column) & 1 == 1
        rows = xp.where(takes[..., None], rows, x[:, None])
    elif space.takes is not None:
        free = xp.arange(F + 1, 2 * F + 1, dtype=np.int32)
        word_of = mixed(base[:, :, None] ^ (free.astype(np.uint32) * np.uint32(GOLDEN)))
        takes = word_of < np.uint32(space.takes)
        rows = xp.where(takes[..., None], rows, x[:, None])

    def keep(at: Array, rows: Array) -> Array:
        if xp is np:
            f = pulls[:, HEADER + at]  # [G]
        else:
            f = jax.lax.dynamic_index_in_dim(pulls, HEADER + at, axis=1, keepdims=False)
        col = f.clip(0)
        value = xp.take_along_axis(x, col[:, None, None], axis=1)  # [G, 1, c]
        if space.keeps == "donor":
            value = pool.donors[pulls[:, 1], col][:, None]
        elif space.keeps == "bin":
            value = _in_bin(space, pool, subjects, n, col, donor, word(col[:, None]), value, xp)
        is_column = column[None, None, :, None] == f[:, None, None, None]
        return xp.where(is_column, value[:, :, None, :], rows)

    longest = pulls.shape[1] - HEADER
    # Each operation of a short loop is a kernel; -1, if a rule has no more columns, keeps nothing.
    if xp is np or (known_trip_counts and longest <= WRITTEN_OUT):
        for at in range(longest):
            rows = keep(np.int32(at), rows)
        return rows
    most = jnp.sum((pulls[:, HEADER:] >= 0).any(axis=0), dtype=jnp.int32)
    return folded(keep, rows, most, longest, known_trip_counts)


def _in_bin(
    space: PerturbationSpace,
    pool: Pool,
    subjects: Subjects,
    n: Array,  # int32 [G]
    f: Array,  # int32 [G]
    donor: Array,  # int32 [G, p]
    word: Array,  # uint32 [G, p]
    original: Array,  # [G, 1, c]
    xp: Any,
) -> Array:
    """Values of donors in the bins low .. high; [G, p, c]. x's value if no donor is in them."""
    low, high = subjects.low[n, f], subjects.high[n, f]  # [G]
    start = pool.start[f, low]
    count = pool.start[f, high] + pool.count[f, high] - start
    column = f[:, None]
    # A position in members.
    member = _drawn(space, pool, column, word, start[:, None], count.clip(1)[:, None], xp)
    chosen = pool.members[column, member.clip(None, pool.members.shape[1] - 1)]
    if space.stays:
        theirs = pool.bins[donor, column]
        inside = (low[:, None] <= theirs) & (theirs <= high[:, None])
        chosen = xp.where(inside, donor, chosen)
    values = pool.donors[chosen, column]  # [G, p, c]
    return xp.where((count > 0)[:, None, None], values, original)


def _drawn(
    space: PerturbationSpace,
    pool: Pool,
    table: Array,
    word: Array,
    start: Array,
    count: Array,
    xp: Any,
) -> Array:
    """A position in [start, start + count), by the weights of the alias table `table`."""
    place = start + place_of(word, count)
    if not space.weighted:
        return place
    place = place.clip(None, pool.alias.shape[1] - 1)
    fraction = (mixed(word ^ np.uint32(0x68E31DA4)) >> 8).astype(np.float32) * np.float32(2.0**-24)
    stays = fraction < pool.chance[table, place]
    return xp.where(stays, place, pool.alias[table, place])


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's tables of weights [B] (Vose 1991): (probability to stay float32 [B], alias int32
    [B])."""
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
        """G; the rest of the tile repeats its last row."""
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
    """Bits uint32 [T, G, words] of the draws that agree; whether an output is not finite, int32
    [T].

    score(answers [R, A], own [R, A]) -> [R, 1], 1 where they agree. Tiles are split over the
    devices of `mesh`; each stops after its own number of tiles. One bit per draw comes back, so a
    thousand pulls of a thousand draws each are 125 kB, and draws can be weighted later.
    """

    known_trip_counts = counted_on(mesh)

    def on_one_device(params, pool, subjects, tiles, pulls):
        def tile(t):
            tile_pulls = jax.lax.dynamic_index_in_dim(pulls, t, keepdims=False)
            drawn = perturbed(space, pool, subjects, tile_pulls, shape.draws, known_trip_counts)
            rows = filled(drawn, shape.rows)
            out = apply(params, rows.reshape(shape.rows, *shape.instance_shape))
            instance_answers = jnp.repeat(
                subjects.own[tile_pulls[:, 0]], shape.draws, axis=0, total_repeat_length=shape.rows
            )
            agrees = score(out, instance_answers)[:, 0]
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
    """Rows [G, p, F, c] as [count, F c], padded with the last one."""
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
