"""Random orders and coalitions from (seed, draw): equal on every machine, and any draw alone.

Only the raw words of a bit generator are used. NumPy keeps their stream for ever, but not those of
`Generator.permutation` and its like, so a seed gives the same coalitions under any NumPy.

Letters: P players, C coalitions, D draws, B rows.
"""

from __future__ import annotations

import math

import numpy as np

# First words of the seed sequence, so that no two uses of one seed share a stream.
ORDERS, COALITIONS, SIZES, OFFSETS, KEYS, DONORS, ROWS, CHANCES, HELD_OUT = range(9)
LINES, PLACES = 9, 10

# Sizes with no more sets than this are put into random order as a whole. A size with more is drawn
# by rejection, which is slow only where nearly all of its sets are wanted.
ENUMERATED = 1 << 16

PHILOX_WORDS = 4  # made by one step of its counter


def words(seed: int, stream: tuple[int, ...], count: int, first: int = 0) -> np.ndarray:
    """`count` random words of one stream from word `first` on; uint64 [count].

    More words begin with fewer, and later ones cost nothing for those before them.
    """
    bits = np.random.Philox(np.random.SeedSequence([seed, *stream]))
    if first:
        bits.advance(first // PHILOX_WORDS)
    return bits.random_raw(first % PHILOX_WORDS + count)[first % PHILOX_WORDS :]


def fractions(seed: int, stream: tuple[int, ...], count: int, first: int = 0) -> np.ndarray:
    """Uniform numbers in [0, 1); float64 [count]."""
    return (words(seed, stream, count, first) >> np.uint64(11)) * 2.0**-53


def orders(seed: int, P: int, first: int, stop: int) -> np.ndarray:
    """The random orders of players of the draws first..stop-1; int32 [D, P]."""
    drawn = [np.argsort(words(seed, (ORDERS, d), P), kind="stable") for d in range(first, stop)]
    return np.array(drawn, np.int32).reshape(-1, P)


def coalitions(seed: int, P: int, first: int, stop: int) -> np.ndarray:
    """Coalitions that hold each player with chance 1/2, draws first..stop-1; bool [D, P]."""
    drawn = [words(seed, (COALITIONS, d), P) >> np.uint64(63) for d in range(first, stop)]
    return np.array(drawn, bool).reshape(-1, P)


def player_keys(seed: int, P: int) -> np.ndarray:
    """A 128-bit word of each player; a coalition's key is the XOR of its players'; uint64 [P, 2].

    Up to 128 players it is the player's own bit, so that keys are equal only for equal coalitions.
    Above, the words are random (Zobrist 1970): two different coalitions have the same key with
    chance 2^-128 exactly, since the XOR of a non-empty set of random words is uniform. Among C
    coalitions some pair collides with chance at most C^2 2^-129: 1e-29 for 80,000 of them.
    """
    if P > 128:
        return words(seed, (KEYS,), 2 * P).reshape(P, 2)
    keys = np.zeros((P, 2), np.uint64)
    player = np.arange(P)
    keys[player, player // 64] = np.uint64(1) << (player % 64).astype(np.uint64)
    return keys


def pairs_of_size(P: int, size: int) -> int:
    """How many complementary pairs have a member of this size, size <= P / 2; exact."""
    return math.comb(P, size) // (2 if 2 * size == P else 1)


def sets_of_size(seed: int, P: int, size: int, count: int, attempt: int = 0) -> np.ndarray:
    """The first `count` of all sets of one size in the seed's random order; bool [count, P].

    Every count-subset is equally likely (simple random sampling without replacement), and a larger
    count begins with the smaller one. For size = P / 2 one set stands for itself and its
    complement: the one that holds the last player.
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
        # The players of the `size` smallest of P random words are a uniform set of that size.
        lot = words(seed, stream, tries * P).reshape(tries, P)
        masks = np.zeros((tries, P), bool)
        np.put_along_axis(masks, np.argpartition(lot, size - 1, axis=1)[:, :size], True, axis=1)
        if 2 * size == P:
            masks ^= ~masks[:, -1:]
        packed = np.packbits(masks, axis=1)
        _, first = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_index=True)
        if len(first) >= count:
            return masks[np.sort(first)[:count]]
        tries *= 2


def _unrank(ranks: np.ndarray, P: int, size: int) -> np.ndarray:
    """The sets with these places in the combinatorial number system; bool [len(ranks), P].

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
    """Rows drawn with replacement by weights [B], not all 0; any stretch of draws alone."""

    def __init__(self, weights: np.ndarray) -> None:
        self._rows = np.flatnonzero(weights)  # those that can be drawn
        own = weights[self._rows]
        self._ends = np.cumsum(own)
        self._equal = bool((own == own[0]).all())

    def places(self, seed: int, stream: tuple[int, ...], first: int, stop: int) -> np.ndarray:
        """The rows of the draws first..stop-1; int64 [stop - first]."""
        turns = fractions(seed, stream, stop - first, first) * self._ends[-1]
        B = len(self._ends)
        if self._equal:  # the place is known but for the rounding of the sums
            place = np.minimum((turns * (B / self._ends[-1])).astype(np.int64), B - 1)
            for _ in range(2):
                place -= (place > 0) & (self._ends[place - 1] > turns)
                place += (place < B - 1) & (self._ends[place] <= turns)
        else:
            place = np.minimum(np.searchsorted(self._ends, turns, side="right"), B - 1)
        return self._rows[place]
