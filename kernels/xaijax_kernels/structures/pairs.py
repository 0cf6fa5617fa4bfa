"""Leaves with many players, by the pairs of a row and a donor that reach them.

A row goes down a tree with the set of donors that can still reach its leaves, as bits of words:
where a player fails for the row, donors for which it fails too are removed. Subtrees without donors
are skipped. At a leaf, rows with the same failing players get the same contributions.

Letters: R rows, B donors, W words of 64 donors, M nodes, E entries (a node and a row that reaches
it), T pairs of an entry and a donor, L leaves, d players of a leaf, K outputs, V tests on a path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xaijax_kernels.games import semivalues
from xaijax_kernels.structures.leaves import Payments, unpacked
from xaijax_kernels.structures.parts import NONE, CutTrees

PAIRS = 1 << 21  # pairs of an entry and a donor that are processed together


@dataclass(frozen=True)
class ReachedNodes:
    """Nodes, and rows that reach them with at least one donor."""

    node: np.ndarray  # int [E]
    row: np.ndarray  # int [E]
    breaks: np.ndarray  # uint64 [E], players that fail for the row, in the order of the path
    donors: np.ndarray  # uint64 [E, W], the remaining donors

    def of(self, at: np.ndarray) -> ReachedNodes:
        """A subset of the entries."""
        every = self.node, self.row, self.breaks, self.donors
        return ReachedNodes(*(array.take(at, axis=0) for array in every))


class PairedLeaves:
    """The leaves of a piece that have no table."""

    def __init__(
        self,
        cut: CutTrees,
        leaves: np.ndarray,
        right: np.ndarray,
        weights: np.ndarray,
        payments: Payments,
        Q: int,
    ) -> None:
        """leaves int [L]: nodes; right: bits of the donors' tests, [t, B]; Q: all players."""
        self._cut, self._payments, self._Q, self._weights = cut, payments, Q, weights
        paths, M = cut.paths, len(cut.paths.parent)
        chain = cut.chain[leaves]
        self._wanted = np.zeros(M, bool)
        self._wanted[chain[chain >= 0]] = True
        self._roots = np.flatnonzero(self._wanted & (paths.parent < 0))
        self._is_leaf = np.zeros(M, bool)
        self._is_leaf[leaves] = True
        # Where on its path a player comes first, and for which donors it passes up to an edge.
        same = paths.player[:, None] == np.where(paths.edges >= 0, paths.player[paths.edges], -2)
        V = same.shape[1]
        top = V - 1 - same[:, ::-1].argmax(axis=1) if V else np.zeros(M, int)
        first = paths.edges[np.arange(M), top] if V else np.full(M, NONE)
        self._slot = np.where(first >= 0, paths.d[paths.parent[first]], 0).astype(np.uint64)
        passes = _packed(right == 0)
        self._passes = np.full((M, passes.shape[1]), ~np.uint64(0))
        for k in range(V):
            members = np.flatnonzero(same[:, k] & self._wanted)
            self._passes[members] &= passes[paths.test[paths.edges[members, k]]]
        self._all = _packed(np.ones((1, len(weights)), bool))[0]
        self._leaves = leaves
        self._place = np.full(M, NONE)
        self._place[leaves] = np.arange(len(leaves))
        # The players that fail for donors at each leaf, by the ascending positions of its players.
        self._breaks = self._broken(right)
        self._ascending = self._permuted()
        self.size = self._passes.nbytes + self._breaks.nbytes

    def _broken(self, right: np.ndarray) -> np.ndarray:
        """uint64 [L, B]."""
        paths = self._cut.paths
        edges, slots = paths.edges[self._leaves], paths.slot[self._leaves]
        out = np.zeros((len(edges), right.shape[1]), np.uint64)
        for edge, slot in zip(edges.T, slots.T, strict=True):
            on_path = np.flatnonzero(edge >= 0)
            bits = right[paths.test[edge[on_path]]].astype(np.uint64)
            out[on_path] |= bits << slot[on_path, None].astype(np.uint64)
        return out

    def _permuted(self) -> np.ndarray:
        """The ascending position of the n-th player on the path; int [L, most d]."""
        paths = self._cut.paths
        out = np.zeros((len(self._leaves), int(paths.d[self._leaves].max(initial=0))), np.int64)
        edges = paths.edges[self._leaves]
        leaf, k = np.nonzero(edges >= 0)
        out[leaf, self._slot[edges[leaf, k]].astype(int)] = paths.slot[self._leaves][leaf, k]
        return out

    def reached(self, right: np.ndarray) -> Iterator[ReachedNodes]:
        """The leaves that rows with these bits [t, R] reach with at least one donor."""
        paths, R = self._cut.paths, right.shape[1]
        count = len(self._roots) * R
        front = ReachedNodes(
            np.repeat(self._roots, R),
            np.tile(np.arange(R), len(self._roots)),
            np.zeros(count, np.uint64),
            np.broadcast_to(self._all, (count, len(self._all))),
        )
        flat = right.ravel()
        while len(front.node):
            ended = self._is_leaf[front.node]
            if ended.any():
                yield front.of(np.flatnonzero(ended))
                front = front.of(np.flatnonzero(~ended))
            child = (self._cut.left.take(front.node)[:, None] + np.arange(2)).ravel()
            taken = np.flatnonzero(self._wanted[child])
            child, below = child[taken], front.of(taken >> 1)
            slot = self._slot[child]
            fails = flat.take(paths.test[child] * R + below.row).astype(np.uint64)
            breaks = below.breaks | (fails << slot)
            lost = np.flatnonzero(breaks >> slot & np.uint64(1))
            left = below.donors.take(lost, axis=0) & self._passes.take(child[lost], axis=0)
            below.donors[lost], kept = left, np.ones(len(child), bool)
            kept[lost] = left.any(axis=1)
            front = ReachedNodes(child, below.row, breaks, below.donors).of(np.flatnonzero(kept))

    def of_donors(self, values: np.ndarray) -> np.ndarray:
        """The leaves' outputs for the donors, [B, K]; values [M, K] of nodes."""
        return (self._breaks == 0).T @ values[self._leaves]

    def add(self, sums: np.ndarray, right: np.ndarray, values: np.ndarray) -> None:
        """Adds contributions to the sums [M K + K, R] of rows with these bits; values [M, K] of
        nodes."""
        K = values.shape[1]
        own = np.zeros(sums.shape)
        for reached in self.reached(right):
            ended = reached.of(np.flatnonzero(reached.breaks == 0))
            for k in range(K):
                np.add.at(own[len(sums) - K + k], ended.row, values[ended.node, k])
            d = self._cut.paths.d[reached.node]
            for players in np.unique(d):
                self._add(own, reached.of(np.flatnonzero(d == players)), int(players), values)
        sums += own

    def _add(self, sums: np.ndarray, reached: ReachedNodes, d: int, values: np.ndarray) -> None:
        """`add` for entries at leaves of d players each."""
        leaf, K, B = self._place[reached.node], values.shape[1], len(self._weights)
        order = np.lexsort((reached.breaks, leaf))
        node, row, leaf = reached.node[order], reached.row[order], leaf[order]
        breaks = reached.breaks[order]
        new = np.append(True, (leaf[1:] != leaf[:-1]) | (breaks[1:] != breaks[:-1]))
        first, alike = np.flatnonzero(new), np.cumsum(new) - 1
        stops = np.append(first, len(leaf))
        step = max(1, PAIRS // B)
        for start in range(0, len(first), step):
            chunk = first[start : start + step]
            donors = unpacked(reached.donors.take(order[chunk], axis=0), B)
            pair = np.flatnonzero(donors.view(bool))  # far faster than positions in two axes
            entry = pair // B
            of_donors = self._breaks.take(pair + ((leaf[chunk] - np.arange(len(chunk))) * B)[entry])
            pairs = entry, of_donors, self._weights[pair - entry * B]
            paid = self._payments.paid(self._by_player(leaf[chunk], breaks[chunk], d), *pairs, d)
            players = self._cut.paths.players[node[chunk], :d]
            sets = semivalues.places(players, self._Q, self._payments.order)
            members = slice(first[start], stops[min(start + step, len(first))])
            each, rows = alike[members] - start, row[members]
            for k in np.flatnonzero(values[node[members]].any(axis=0)):
                share = paid[each] * values[node[members], k, None]
                at = (sets[each] * K + k) * sums.shape[1] + rows[:, None]
                np.add.at(sums.ravel(), at.ravel(), share.ravel())

    def _by_player(self, leaf: np.ndarray, breaks: np.ndarray, d: int) -> np.ndarray:
        """Failing players [E] in the order of the path, by the ascending positions of players."""
        out = np.zeros(len(leaf), np.uint64)
        for n in range(d):
            bit = breaks >> np.uint64(n) & np.uint64(1)
            out |= bit << self._ascending[leaf, n].astype(np.uint64)
        return out


def _packed(flags: np.ndarray) -> np.ndarray:
    """Flags bool [n, B] as bits of words; uint64 [n, W]."""
    padded = np.pad(flags, ((0, 0), (0, -flags.shape[1] % 64)))
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)
