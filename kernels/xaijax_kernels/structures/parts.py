"""The layout of a forest's trees for values in closed form, in NumPy.

A test of a node gives each row a bit. The contribution of a part of a tree depends on a few bits of
the row, its pattern: the players that fail on the path to the part's root, and the tests below. A
part has up to `BITS` bits, or is one leaf with more players than that.

Letters: R rows, M nodes, L leaves, C columns, Q players, U parts of trees, V tests on a path,
K outputs, d players of a leaf, g of a part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xaijax_kernels.games import semivalues
from xaijax_kernels.structures.nodes import Nodes

BITS = 8  # bits of the pattern of several leaves: its table fits the fastest memory of a core
NONE = -1


@dataclass(frozen=True)
class Tests:
    """The distinct tests of a set of nodes."""

    feature: np.ndarray  # int [t]
    threshold: np.ndarray  # [t]
    missing_left: np.ndarray | None  # bool [t]
    split: np.ndarray | None  # int [t], the row of `goes_left`; -1: none
    goes_left: np.ndarray | None  # bool [c, width]

    def __len__(self) -> int:
        return len(self.feature)

    def right(self, columns: np.ndarray) -> np.ndarray:
        """Whether rows go right; uint8 [2 t + 1, R]: the tests, their opposites, and a zero.

        columns: [C, R].
        """
        t = len(self)
        out = np.zeros((2 * t + 1, columns.shape[1]), np.uint8)
        x, right = columns[self.feature], out[:t].view(bool)
        np.less_equal(x, self.threshold[:, None], out=right)
        np.logical_not(right, out=right)
        if self.split is not None and self.goes_left is not None:
            categories = np.flatnonzero(self.split >= 0)
            unknown = self.goes_left.shape[1] - 1
            known = (x[categories] >= 0) & (x[categories] < unknown)
            code = np.where(known, x[categories], unknown).astype(np.int64)
            right[categories] = ~self.goes_left[self.split[categories][:, None], code]
        if self.missing_left is not None:
            missing = np.isnan(x)
            if missing.any():
                right &= ~(missing & self.missing_left[:, None])
        np.logical_not(right, out=out[t : 2 * t].view(bool))
        return out


def tests_of(nodes: Nodes, inner: np.ndarray) -> tuple[Tests, np.ndarray]:
    """(the distinct tests of the nodes inner int [m], the test of each node int [m])."""
    names = ("feature", "threshold", "missing_left", "category_split")
    arrays = [getattr(nodes, name) for name in names]
    columns = [array[inner] for array in arrays if array is not None]
    order = np.lexsort(columns)
    new = np.zeros(len(inner), bool)
    new[:1] = True
    for array in columns:
        new[1:] |= array[order[1:]] != array[order[:-1]]
    number = np.empty(len(inner), np.int64)
    number[order] = np.cumsum(new) - 1
    first = inner[order[new]]
    left, split = nodes.missing_left, nodes.category_split
    tests = Tests(
        nodes.feature[first],
        nodes.threshold[first],
        None if left is None else left[first],
        None if split is None else split[first],
        nodes.goes_left,
    )
    return tests, number


def words(bits: np.ndarray, tests: np.ndarray, places: np.ndarray, kind: type) -> np.ndarray:
    """Integers [U, R] from bits [t, R]: bit places[u, v] is set if one of the tests [U, V] with
    that position is.
    """
    out = np.zeros((len(tests), bits.shape[1]), kind)
    for test, place in zip(tests.T, places.T, strict=True):
        out |= bits[test].astype(kind, copy=False) << place[:, None].astype(kind)
    return out


def kind_of(bits: int) -> type:
    """The integer dtype that holds this number of bits."""
    kinds = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
    return next(kind for most, kind in kinds.items() if bits <= most)


@dataclass(frozen=True)
class Paths:
    """The paths from the root to each node of some trees.

    An edge is named by the node that it leads to; the last edge of a path comes first.
    """

    edges: np.ndarray  # int [M, V], padded with NONE
    player: np.ndarray  # int [M], the player whose test the edge is
    test: np.ndarray  # int [M], the bit of `Tests.right` that says whether a row leaves the path
    slot: np.ndarray  # int [M, V], the position of the edge's player among those of the path
    players: np.ndarray  # int [M, V], those of the path, ascending; padded with NONE
    d: np.ndarray  # int [M], how many
    parent: np.ndarray  # int [M]
    inner: np.ndarray  # int [m], nodes that test
    number: np.ndarray  # int [M], the test of such a node


def paths_of(nodes: Nodes, player: np.ndarray) -> tuple[Paths, Tests]:
    """The paths of the trees, and their tests; player int [C]: the player of each column."""
    M = len(nodes.left)
    inner = np.flatnonzero(nodes.left != np.arange(M))
    tests, of_inner = tests_of(nodes, inner)
    number, parent = np.full(M, NONE), np.full(M, NONE)
    number[inner] = of_inner
    for right in range(2):
        parent[nodes.left[inner] + right] = inner
    is_right = np.zeros(M, bool)
    is_right[nodes.left[inner] + 1] = True
    has = parent >= 0
    of_edge = np.where(has, player[nodes.feature[parent]], NONE)
    # A row that goes right leaves the path of the left child; the opposites come after the tests.
    test = np.where(has, number[parent] + len(tests) * is_right, 2 * len(tests))
    edges, at = [], np.arange(M)
    while (parent[at] >= 0).any():
        edge = np.where(parent[at] >= 0, at, NONE)
        edges.append(edge)
        at = np.where(edge >= 0, parent[at], at)
    laid = np.stack(edges, axis=1) if edges else np.zeros((M, 0), np.int64)
    edge_players = np.where(laid >= 0, of_edge[laid], len(player))
    order = np.argsort(edge_players, axis=1, kind="stable")
    ascending = np.take_along_axis(edge_players, order, axis=1)
    new = ascending < len(player)
    new[:, 1:] &= ascending[:, 1:] != ascending[:, :-1]
    rank = np.cumsum(new, axis=1) - 1
    slot = np.empty_like(rank)
    np.put_along_axis(slot, order, rank, axis=1)
    players = np.full(edge_players.shape, NONE)
    node, place = np.nonzero(new)
    players[node, rank[node, place]] = ascending[node, place]
    return Paths(laid, of_edge, test, slot, players, new.sum(axis=1), parent, inner, number), tests


@dataclass(frozen=True)
class Parts:
    """Parts of trees with the same number of bits and of players, and the leaves of each."""

    tests: np.ndarray  # int [U, V], the tests that form a pattern
    places: np.ndarray  # int [U, V], the bit of each
    bits: int
    players: np.ndarray  # int [U, g], ascending
    output: np.ndarray  # int [U], the output of its leaves; NONE: all
    leaves: tuple[LeavesOfParts, ...]

    def patterns(self, right: np.ndarray) -> np.ndarray:
        """Patterns of rows with these bits of `Tests.right`; integers [U, R]."""
        return words(right, self.tests, self.places, kind_of(self.bits))


@dataclass(frozen=True)
class LeavesOfParts:
    """Leaves with the same number of players, at most one per part."""

    part: np.ndarray  # int [L]
    tests: np.ndarray  # int [L, V], bits of the part's pattern, their opposites, and a zero
    slots: np.ndarray  # int [L, V], the bit of each in the failing set
    players: np.ndarray  # int [L, d], positions among those of the part
    values: np.ndarray  # float64 [L, k]

    def failing(self, bits: int) -> np.ndarray:
        """The failing set of each pattern; integers [L, 2^bits]."""
        d = self.players.shape[1]
        every = np.arange(1 << bits)
        set_bits = (every >> np.arange(bits)[:, None] & 1).astype(np.uint8)
        zero = np.zeros((1, len(every)), np.uint8)
        return words(np.concatenate([set_bits, 1 - set_bits, zero]), self.tests, self.slots,
                     kind_of(d))  # fmt: skip


class CutTrees:
    """Trees cut into parts that are as large as their number of bits allows."""

    def __init__(self, nodes: Nodes, player: np.ndarray) -> None:
        """player int [C]: the player of each column, from 0 to Q - 1."""
        self.paths, self.tests = paths, tests = paths_of(nodes, player)
        M, self.values = len(nodes.left), np.asarray(nodes.value, np.float64)
        self._depth = (paths.edges >= 0).sum(axis=1)
        self._Q = int(player.max(initial=0)) + 1
        # A node and all nodes above it.
        chain = np.concatenate([np.arange(M)[:, None], _of(paths.parent, paths.edges)], axis=1)
        self.chain, self.left = chain, nodes.left
        above = chain[paths.inner]
        below = np.bincount(above[above >= 0], minlength=M)
        self._leaf = below == 0
        self._bits = bits = paths.d + below  # a child never has more than its parent
        over = np.where(paths.parent >= 0, bits[paths.parent], BITS + 1) > BITS
        is_root = np.where(bits <= BITS, over, self._leaf)
        at_root = _of(is_root, chain) > 0
        self._roots = np.flatnonzero(is_root)
        self._top = np.take_along_axis(chain, at_root.argmax(axis=1)[:, None], axis=1)[:, 0]
        index = np.full(M, NONE)
        index[self._roots] = np.arange(len(self._roots))
        self._part = np.where(at_root.any(axis=1), index[self._top], NONE)
        inner = paths.inner[self._part[paths.inner] >= 0]
        self._inner = inner[np.argsort(self._part[inner], kind="stable")]
        self._bit = np.full(M, NONE)
        self._bit[self._inner] = paths.d[self._top[self._inner]] + _rank(self._part[self._inner])
        self._player_of = paths.player[nodes.left]  # of a node that tests
        self._owners = self._distinct_players()

    def _distinct_players(self) -> tuple[np.ndarray, np.ndarray]:
        """(part Q + player, ascending; the position of each part's first, int [U + 1])."""
        of_path = self.paths.players[self._roots]
        u, v = np.nonzero(of_path >= 0)
        below = self._part[self._inner] * self._Q + self._player_of[self._inner]
        keys = np.unique(np.concatenate([u * self._Q + of_path[u, v], below]))
        return keys, np.searchsorted(keys, np.arange(len(self._roots) + 1) * self._Q)

    def _made_of(self) -> tuple[np.ndarray, np.ndarray]:
        """`Parts.tests` and `Parts.places` of all parts."""
        paths, roots, inner = self.paths, self._roots, self._inner
        u, v = np.nonzero(paths.edges[roots] >= 0)
        tests = np.concatenate([paths.test[paths.edges[roots][u, v]], paths.number[inner]])
        places = np.concatenate([paths.slot[roots][u, v], self._bit[inner]])
        part = np.concatenate([u, self._part[inner]])
        order = np.argsort(part, kind="stable")
        part, rank = part[order], _rank(part[order])
        shape = len(roots), int(rank.max(initial=-1)) + 1
        laid = np.full(shape, 2 * len(self.tests)), np.zeros(shape, np.int64)
        for array, source in zip(laid, (tests, places), strict=True):
            array[part, rank] = source[order]
        return laid

    def large(self, most: int) -> np.ndarray:
        """The leaves with more than `most` players that are separate parts; int [L]."""
        return self._roots[self._bits[self._roots] > max(most, BITS)]

    def parts(self, most: int, order: int, numbers: int) -> Iterator[Parts]:
        """All other parts, grouped by similarity, for tables of at most `numbers` contributions to
        sets of up to `order` players, or of one part.
        """
        tests, places = self._made_of()
        keys, start = self._owners
        g, bits = np.diff(start), self._bits[self._roots]
        leaves = self._leaves()
        paid = np.zeros((len(self._roots), self.values.shape[1]), bool)
        np.logical_or.at(paid, leaves.part, self.values[leaves.node] != 0)
        output = np.where(paid.sum(axis=1) <= 1, paid.argmax(axis=1), NONE)
        kinds = np.stack([bits, g, output < 0], axis=1)
        for kind in np.unique(kinds[bits <= max(most, BITS)], axis=0):
            same = np.flatnonzero((kinds == kind).all(axis=1))
            K = self.values.shape[1] if kind[2] else 1
            each = (semivalues.count(int(kind[1]), order) + 1) * K << int(kind[0])
            step = max(1, numbers // each)
            for first in range(0, len(same), step):
                U = same[first : first + step]
                width = int((tests[U] < 2 * len(self.tests)).sum(axis=1).max(initial=0))
                players = keys[start[U][:, None] + np.arange(kind[1])] % self._Q
                yield Parts(
                    tests[U, :width],
                    places[U, :width],
                    int(kind[0]),
                    players,
                    output[U],
                    tuple(leaves.of(U, output[U])),
                )

    def _leaves(self) -> Leaves:
        """All leaves, by their part."""
        paths, tests = self.paths, self.tests
        node = np.flatnonzero(self._leaf)
        node = node[np.argsort(self._part[node], kind="stable")]
        part, edges = self._part[node], paths.edges[node]
        root = self._roots[part]
        bits = self._bits[root][:, None]
        # An edge above the part's root has its player's bit, an edge below has its own bit.
        inside = _of(self._depth, edges) > self._depth[root][:, None]
        from_root = np.arange(edges.shape[1]) - (self._depth[node] - self._depth[root])[:, None]
        above = np.take_along_axis(paths.slot[root], np.maximum(from_root, 0), axis=1)
        opposite = _of(paths.test, edges) >= len(tests)
        below = _of(self._bit, _of(paths.parent, edges)) + opposite * bits
        bit = np.where(edges >= 0, np.where(inside, below, above), 2 * bits)
        slot = np.where(edges >= 0, paths.slot[node], 0)
        keys, start = self._owners
        players = np.searchsorted(keys, part[:, None] * self._Q + paths.players[node])
        players -= start[part][:, None]
        return Leaves(node, part, bit, slot, players, paths.d[node], self._depth[node],
                      self.values[node])  # fmt: skip


@dataclass(frozen=True)
class Leaves:
    """All leaves, by their part."""

    node: np.ndarray  # int [L]
    part: np.ndarray  # int [L], ascending
    bit: np.ndarray  # int [L, V], see `LeavesOfParts.tests`
    slot: np.ndarray  # int [L, V]
    players: np.ndarray  # int [L, V], the first d: positions among those of the part
    d: np.ndarray  # int [L]
    length: np.ndarray  # int [L], of the path
    values: np.ndarray  # float64 [L, K]

    def of(self, parts: np.ndarray, output: np.ndarray) -> Iterator[LeavesOfParts]:
        """The leaves of the parts int [u], for these outputs int [u]."""
        first = np.searchsorted(self.part, parts)
        count = np.searchsorted(self.part, parts, side="right") - first
        for rank in range(int(count.max(initial=0))):
            u = np.flatnonzero(count > rank)
            entries = first[u] + rank
            for d in np.unique(self.d[entries]):
                same = self.d[entries] == d
                leaves, place = entries[same], u[same]
                width = int(self.length[leaves].max(initial=0))
                values = self.values[leaves]
                if (output[place] >= 0).all():
                    values = np.take_along_axis(values, output[place][:, None], axis=1)
                yield LeavesOfParts(
                    place,
                    self.bit[leaves, :width],
                    self.slot[leaves, :width],
                    self.players[leaves, :d],
                    values,
                )


def _of(array: np.ndarray, places: np.ndarray) -> np.ndarray:
    """array[places], NONE where the position is NONE."""
    return np.where(places >= 0, array[places], NONE)


def _rank(part: np.ndarray) -> np.ndarray:
    """The position of each entry within its part; part int [n], ascending."""
    return np.arange(len(part)) - np.searchsorted(part, part)
