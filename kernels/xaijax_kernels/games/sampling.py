"""Random orders and coalitions from (seed, draw): equal on every machine, each draw on its own.

Only the raw words of a bit generator are used, so that a seed gives the same coalitions under every
version of NumPy. NumPy guarantees these streams, but not those of `Generator.permutation` and
similar methods.

Letters: P players, C coalitions, D draws, B rows.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

# First words of the seed sequence, so that no two uses of one seed share a stream.
ORDERS, COALITIONS, SIZES, OFFSETS, KEYS, DONORS, ROWS, CHANCES, HELD_OUT = range(9)
LINES, PLACES = 9, 10

# If a size has at most this many sets, all of them are shuffled. Otherwise sets are drawn by
# rejection, which is slow only if nearly all of them are requested.
ENUMERATED = 1 << 16

PHILOX_WORDS = 4  # words per step of its counter
LONG = 256  # words per draw from which NumPy's generator is as fast
DRAWS_TOGETHER = 1 << 10  # draws whose words are made together, so that they stay in the cache


def words(seed: int, stream: tuple[int, ...], count: int, first: int = 0) -> np.ndarray:
    """`count` random words of one stream from word `first` on; uint64 [count].

    A longer request begins with the words of a shorter one; skipped words cost nothing.
    """
    bits = np.random.Philox(np.random.SeedSequence([seed, *stream]))
    if first:
        bits.advance(first // PHILOX_WORDS)
    return bits.random_raw(first % PHILOX_WORDS + count)[first % PHILOX_WORDS :]


def fractions(seed: int, stream: tuple[int, ...], count: int, first: int = 0) -> np.ndarray:
    """Uniform numbers in [0, 1); float64 [count]."""
    return (words(seed, stream, count, first) >> np.uint64(11)) * 2.0**-53


def words_of_draws(seed: int, stream: int, count: int, first: int, stop: int) -> np.ndarray:
    """`words(seed, (stream, d), count)` of the draws d = first..stop-1; uint64 [D, count].

    Making a generator for each draw would take longer than drawing its words. Instead, the
    arithmetic of NumPy's SeedSequence and Philox4x64-10, whose streams are guaranteed, is done for
    all draws at once.
    """
    draws = np.arange(first, stop, dtype=np.uint64)
    few = 0 < count <= LONG and len(draws) > 0
    if not few or stop > 1 << 32:  # a draw is one word of the seed sequence
        each_draw = [words(seed, (stream, d), count) for d in range(first, stop)]
        return np.array(each_draw, np.uint64).reshape(stop - first, count)
    key = _philox_key([*_words_of_int(seed), *_words_of_int(stream), draws.astype(np.uint32)])
    blocks = -(-count // PHILOX_WORDS)
    made = np.empty((len(draws), blocks, PHILOX_WORDS), np.uint64)
    for start in range(0, len(draws), DRAWS_TOGETHER):
        block = slice(start, start + DRAWS_TOGETHER)
        made[block] = _philox([word[block, None] for word in key], blocks)
    return made.reshape(len(draws), -1)[:, :count]


def _words_of_int(number: int) -> list[np.uint32]:
    """The 32-bit words of an integer, the lowest first; 0 has one word."""
    halves = [np.uint32(number & 0xFFFFFFFF)]
    while number := number >> 32:
        halves.append(np.uint32(number & 0xFFFFFFFF))
    return halves


def _philox_key(entropy: list[Any]) -> list[np.ndarray]:
    """The key of Philox(SeedSequence(entropy)), whose words are [D] or one for all draws; two of
    uint64 [D]."""
    with np.errstate(over="ignore"):  # all sums are modulo 2^32
        turn = np.uint32(0x43B0D7E5)

        def hashed(value: Any, factor: int) -> Any:
            nonlocal turn
            value = value ^ turn
            turn = turn * np.uint32(factor)
            value = value * turn
            return value ^ (value >> np.uint32(16))

        def mixed(x: Any, y: Any) -> Any:
            mixture = np.uint32(0xCA01F9DD) * x - np.uint32(0x4973F715) * y
            return mixture ^ (mixture >> np.uint32(16))

        padded = [*entropy, *[np.uint32(0)] * (4 - len(entropy))]
        pool = [hashed(word, 0x931E8875) for word in padded[:4]]
        for source in range(4):
            for target in range(4):
                if source != target:
                    pool[target] = mixed(pool[target], hashed(pool[source], 0x931E8875))
        for word in padded[4:]:
            pool = [mixed(target, hashed(word, 0x931E8875)) for target in pool]
        turn = np.uint32(0x8B51F9DD)
        state = [hashed(word, 0x58F38DED).astype(np.uint64) for word in pool]
    return [state[0] | state[1] << np.uint64(32), state[2] | state[3] << np.uint64(32)]


def _philox(key: list[np.ndarray], blocks: int) -> np.ndarray:
    """Blocks 1, 2, ... of Philox4x64-10 under keys [D, 1]; uint64 [D, blocks, 4]."""
    with np.errstate(over="ignore"):  # all sums are modulo 2^64
        a = np.broadcast_to(np.arange(1, blocks + 1, dtype=np.uint64), (len(key[0]), blocks))
        b = c = d = np.zeros(1, np.uint64)
        left, right = key
        for turn in range(10):
            if turn:
                left = left + np.uint64(0x9E3779B97F4A7C15)
                right = right + np.uint64(0xBB67AE8584CAA73B)
            high_a, low_a = _product(a, 0xD2E7470EE14C6C93)
            high_c, low_c = _product(c, 0xCA5A826395121157)
            a, b, c, d = high_c ^ b ^ left, low_c, high_a ^ d ^ right, low_a
    return np.stack(np.broadcast_arrays(a, b, c, d), axis=-1)


def _product(x: np.ndarray, factor: int) -> tuple[np.ndarray, np.ndarray]:
    """The high and the low word of a product of 64 bits by 64."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    f1, f0 = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    x1, x0 = x >> half, x & low
    middle = x1 * f0 + (x0 * f0 >> half)
    other = x0 * f1 + (middle & low)
    return x1 * f1 + (middle >> half) + (other >> half), x * np.uint64(factor)


def orders(seed: int, P: int, first: int, stop: int) -> np.ndarray:
    """The random orders of players of the draws first..stop-1; int32 [D, P]."""
    drawn = words_of_draws(seed, ORDERS, P, first, stop)
    return np.argsort(drawn, axis=1, kind="stable").astype(np.int32)


def coalitions(seed: int, P: int, first: int, stop: int) -> np.ndarray:
    """Coalitions with each player in with probability 1/2, draws first..stop-1; bool [D, P]."""
    return (words_of_draws(seed, COALITIONS, P, first, stop) >> np.uint64(63)).astype(bool)


def player_keys(seed: int, P: int) -> np.ndarray:
    """A 128-bit word per player; a coalition's key is the XOR of those of its players; uint64 [P,
    2].

    Up to 128 players it is the player's own bit, so keys are equal only for equal coalitions.
    Above, the words are random (Zobrist 1970): two different coalitions have the same key with
    probability exactly 2^-128, because the XOR of a non-empty set of random words is uniform. Any
    two of C coalitions collide with probability at most C^2 2^-129: 1e-29 for 80,000 coalitions.
    """
    if P > 128:
        return words(seed, (KEYS,), 2 * P).reshape(P, 2)
    keys = np.zeros((P, 2), np.uint64)
    player = np.arange(P)
    keys[player, player // 64] = np.uint64(1) << (player % 64).astype(np.uint64)
    return keys


@cache
def pairs_of_size(P: int, size: int) -> int:
    """Number of complementary pairs with a member of this size, size <= P / 2; exact."""
    return math.comb(P, size) // (2 if 2 * size == P else 1)


def sets_of_size(seed: int, P: int, size: int, count: int, attempt: int = 0) -> np.ndarray:
    """The first `count` of all sets of one size in the seed's random order; bool [count, P].

    Every count-subset is equally likely (simple random sampling without replacement), and a larger
    count begins with the smaller one. For size = P / 2 the set that holds the last player
    represents itself and its complement.
    """
    total = pairs_of_size(P, size)
    stream = (SIZES, size, attempt)
    if count > total:
        raise ValueError(f"{count} sets of size {size} wanted of {total}")
    if total <= ENUMERATED:
        ranks = np.argsort(words(seed, stream, total), kind="stable")[:count]
        half = 2 * size == P
        masks = _unrank(ranks, P - half, size - half)
        return np.pad(masks, ((0, 0), (0, 1)), constant_values=True) if half else masks
    tries = count + count // 8 + 1
    while True:
        # The players with the `size` smallest of P random words are a uniform set of that size.
        drawn = words(seed, stream, tries * P).reshape(tries, P)
        masks = np.zeros((tries, P), bool)
        np.put_along_axis(masks, np.argpartition(drawn, size - 1, axis=1)[:, :size], True, axis=1)
        if 2 * size == P:
            masks ^= ~masks[:, -1:]
        packed = np.packbits(masks, axis=1)
        _, first = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True)
        if len(first) >= count:
            return masks[np.sort(first)[:count]]
        tries *= 2


def _unrank(ranks: np.ndarray, P: int, size: int) -> np.ndarray:
    """The sets with these ranks in the combinatorial number system; bool [len(ranks), P].

    Rank r = C(c_1, 1) + ... + C(c_k, k), c_1 < ... < c_k, found from the largest player down.
    """
    masks = np.zeros((len(ranks), P), bool)
    rest, row = ranks.astype(np.int64), np.arange(len(ranks))
    for k in range(size, 0, -1):
        below = np.array([math.comb(c, k) for c in range(P)])  # all <= C(P, size) <= ENUMERATED
        player = np.searchsorted(below, rest, side="right") - 1
        masks[row, player] = True
        rest -= below[player]
    return masks


class Wheel:
    """Draws rows with replacement by weights [B], not all 0; any range of draws on its own."""

    def __init__(self, weights: np.ndarray) -> None:
        self._rows = np.flatnonzero(weights)  # rows with a positive weight
        chosen = weights[self._rows]
        self._ends = np.cumsum(chosen)
        self._equal = bool((chosen == chosen[0]).all())

    def places(self, seed: int, stream: tuple[int, ...], first: int, stop: int) -> np.ndarray:
        """The rows of the draws first..stop-1; int64 [stop - first]."""
        points = fractions(seed, stream, stop - first, first) * self._ends[-1]
        B = len(self._ends)
        if self._equal:  # exact up to the rounding of the sums
            place = np.minimum((points * (B / self._ends[-1])).astype(np.int64), B - 1)
            for _ in range(2):
                place -= (place > 0) & (self._ends[place - 1] > points)
                place += (place < B - 1) & (self._ends[place] <= points)
        else:
            place = np.minimum(np.searchsorted(self._ends, points, side="right"), B - 1)
        return self._rows[place]
