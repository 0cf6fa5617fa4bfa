"""Path-dependent values of sums of trees: absent players follow both children, weighted by covers.

A leaf is a product over the players of its path. Let u_j = 1 if a row passes all tests of player j
on the path, else 0, and r_j the product of the shares of training rows that pass them. The leaf is
the game v(S) = w prod_{j in S} u_j prod_{j not in S} r_j (Lundberg et al. 2020). Its Shapley value
is the integral over t from 0 to 1 of w (u_j - r_j) prod_{i != j} f_i, f_i = t u_i + (1 - t) r_i. It
is a polynomial of degree d - 1 for d players, so Gauss-Legendre with d / 2 points is exact. Other
semivalues are other sums over t (`points`).

Let G = prod f_i for a leaf, and H for an edge the sum of w G over all leaves below it. A player's
value is the sum over its edges of (u - r) / f H; an edge whose player was tested before subtracts
the earlier edge's term (Yu et al. 2022, Linear TreeSHAP). Both are computed level by level for all
rows: G from the roots, H from the leaves. (u - r) / f is u / ((1 - t) (t + (1 - t) r)) - 1 / (1 -
t), which needs no division by a row's numbers.

Letters: R rows, C columns, M nodes, n nodes of a part, m of a level, T trees, L leaves, K values of
a leaf, P players, Q points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from xaijax_kernels.structures.base import Affine, SizeWeights
from xaijax_kernels.structures.parts import Tests

Arrays = Mapping[str, np.ndarray]  # of nodes, by name
ROWS, LEAST, NUMBERS = 256, 8, 1 << 18  # rows, and numbers of an array, processed together
LEAST_SHARE = 1e-100  # share of training rows, so that nothing is divided by 0
LOST, LARGEST = 1e-10, 1e4  # weights of points: allowed error, and allowed cancellation


class PathDependent:
    """layer = sum over leaves of their values; a `Form` without donors: it has a base value."""

    name = "trees"

    def __init__(self, parts: list[TreeSums], P: int, head: Affine) -> None:
        self._parts, self._P, self.head = parts, P, head
        self.of_donors = np.sum([part.base for part in parts], axis=0)[None]
        self.size = sum(part.size for part in parts)

    def of(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Form`. Results are identical bit for bit whatever other rows are given."""
        K = self.of_donors.shape[1]
        values, layer = np.zeros((len(columns), self._P, K)), np.zeros((len(columns), K))
        for part in self._parts:
            for first in range(0, len(columns), part.rows):
                rows = slice(first, first + part.rows)
                # NumPy sums single columns in another order.
                x = np.pad(columns[rows], ((0, -len(columns[rows]) % LEAST), (0, 0)), mode="edge")
                paid, reached = part.of(np.ascontiguousarray(x.T))
                n = len(columns[rows])
                values[rows, part.players] += paid[:n]
                layer[rows] += reached[:n]
        return values, layer


def path_dependent(
    nodes: Arrays, players: np.ndarray, P: int, of: SizeWeights, head: Affine
) -> PathDependent | None:
    """The form of a forest. None if the values are not accurate sums of products over points, as
    for sets of players and for some weights of sizes.

    nodes: left, feature, threshold, value [M, K], roots [T], cover [M] (the training rows that
    reached a node); missing_left if numbers may be missing; category_split and goes_left if there
    are splits of categories. The right child comes after the left one; a leaf is its own left
    child. players int [C]: the player of each column.
    """
    if of.order != 1:
        return None
    nodes = {name: np.asarray(array) for name, array in nodes.items() if array is not None}
    parts = []
    for roots in _together(nodes):
        tree = _levels(nodes, roots, np.asarray(players))
        at = points(of, tree.d)
        if at is None:
            return None
        parts.append(TreeSums(nodes, tree, *at))
    return PathDependent(parts, P, head)


def points(of: SizeWeights, d: int) -> tuple[np.ndarray, np.ndarray] | None:
    """(t, w) float64 [Q] each: the weight of one set of s of the d - 1 other players is the sum of
    w t^s (1 - t)^(d - 1 - s). None: no accurate points are known.

    They are valid for fewer players too, because t + (1 - t) = 1.
    """
    if d == 0:
        return np.full(1, 0.5), np.ones(1)
    size = np.arange(d)
    sets = np.array([math.comb(d - 1, s) for s in size], np.float64)
    wanted = np.asarray(of(d)[0], np.float64) * sets  # of all sets of one size

    def weights(t: np.ndarray) -> np.ndarray:
        return sets[:, None] * t ** size[:, None] * (1 - t) ** (d - 1 - size[:, None])

    def holds(t: np.ndarray, w: np.ndarray) -> bool:
        lost = np.abs(weights(t) @ w - wanted).max()
        return lost <= LOST * np.abs(wanted).max() and np.abs(w).sum() <= LARGEST * wanted.sum()

    banzhaf, shapley, t = (np.full(1, 0.5), np.ones(1)), _legendre(-(-d // 2)), _legendre(d)[0]
    other = t, np.linalg.lstsq(weights(t), wanted)[0]
    return next((at for at in (banzhaf, shapley, other) if holds(*at)), None)


def _legendre(Q: int) -> tuple[np.ndarray, np.ndarray]:
    t, w = np.polynomial.legendre.leggauss(Q)
    return (t + 1) / 2, w / 2


def _together(nodes: Arrays) -> Iterator[np.ndarray]:
    """Roots of the trees that are processed together: one large tree, or small ones with the
    same outputs.
    """
    stops = np.append(nodes["roots"], len(nodes["left"]))
    used = [nodes["value"][a:b].any(axis=0).tobytes() for a, b in itertools.pairwise(stops)]
    first = 0
    for tree in range(1, len(used) + 1):
        more = tree < len(used) and used[tree] == used[first]
        if not more or (stops[tree + 1] - stops[first]) * ROWS > NUMBERS:
            yield stops[first:tree]
            first = tree


@dataclass(frozen=True)
class TreeLevels:
    """The nodes of some trees by level, the roots first. An edge has the position of the node
    that it leads to.
    """

    node: np.ndarray  # int [n], its number in all nodes
    levels: list[slice]  # below the roots, two children side by side
    parent: np.ndarray  # int [n]; -1 for roots
    player: np.ndarray  # int [n], the player whose test leads to it; -1 for roots
    before: np.ndarray  # int [n], the last edge above of the same player; -1: none
    inner: np.ndarray  # int, positions of nodes with children, in the children's order
    d: int  # maximum number of players on a path


def _levels(nodes: Arrays, roots: np.ndarray, players: np.ndarray) -> TreeLevels:
    level, visited, levels, parents = roots.astype(np.int64), [], [], [np.full(len(roots), -1)]
    n = 0
    while len(level):
        visited.append(level)
        inner = np.flatnonzero(nodes["left"][level] != level)
        parents.append(np.repeat(inner + n, 2))
        n, level = n + len(level), (nodes["left"][level[inner]][:, None] + np.arange(2)).ravel()
        levels.append(slice(n, n + len(level)))
    node, parent = np.concatenate(visited), np.concatenate(parents)
    player = np.append(players[nodes["feature"][node]], -1)[parent]
    before, above = np.full(n, -1), parent
    for _ in levels:
        met = (before < 0) & (above >= 0) & (player[above] == player)
        before = np.where(met, above, before)
        above = np.where(above < 0, -1, parent[above])
    d = ((before < 0) & (parent >= 0)).astype(np.int64)
    for level_nodes in levels:
        d[level_nodes] += d[parent[level_nodes]]
    inner = np.flatnonzero(nodes["left"][node] != node)
    return TreeLevels(node, levels[:-1], parent, player, before, inner, int(d.max(initial=0)))


class TreeSums:
    """Some trees, with the quantities of their edges that do not depend on rows."""

    def __init__(self, nodes: Arrays, tree: TreeLevels, t: np.ndarray, w: np.ndarray) -> None:
        n, self._tree = len(tree.node), tree
        self.rows = int(max(LEAST, min(ROWS, NUMBERS // (n * len(t)))))
        inner = tree.node[tree.inner]
        missing_left, split = (
            None if nodes.get(name) is None else nodes[name][inner]
            for name in ("missing_left", "category_split")
        )
        feature, threshold = nodes["feature"][inner], nodes["threshold"][inner]
        self._tests = Tests(feature, threshold, missing_left, split, nodes.get("goes_left"))
        self._values = nodes["value"].astype(np.float64)[tree.node]
        self._used = np.flatnonzero(self._values.any(axis=0))
        self._leaves = np.setdiff1d(np.arange(n), tree.inner)
        self._roots = int((tree.parent < 0).sum())
        again = tree.before >= 0
        self._again = [level.start + np.flatnonzero(again[level]) for level in tree.levels]
        self._first = np.flatnonzero(~again[self._roots :: 2])  # of `inner`
        edges = np.arange(self._roots, n)
        self._order = edges[np.argsort(tree.player[edges], kind="stable")]
        self.players, self._starts = np.unique(tree.player[self._order], return_index=True)
        share, chance = _shares(nodes, tree)
        self.base = chance[self._leaves] @ self._values[self._leaves]
        share = share[:, None]
        passed, failed = t + (1 - t) * share, (1 - t) * share  # f by u; [n, Q]
        self._start, self._pays = w / (1 - t), 1 / passed
        self._never, self._gain = failed, passed - failed
        # f / (f of the previous edge) = never + gain u + once (u of the previous edge).
        at, before = np.flatnonzero(again), tree.before[again]
        self._never[at] = share[at] / share[before]
        once = failed_now = (1 - t) * share[at] / passed[before]
        self._gain[at] = passed[at] / passed[before] - failed_now
        self._once = np.zeros_like(passed)
        self._once[at] = once - self._never[at]
        self.size = sum(one.nbytes for one in vars(self).values() if isinstance(one, np.ndarray))

    def of(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(values of the part's players [R, p, K], the layer [R, K]) of rows with columns x
        [C, R].
        """
        # Whether rows go left at the nodes `inner`, bool [inner, R]: the negated tests.
        tree, t = self._tree, len(self._tests)
        left = self._tests.right(x)[t : 2 * t].view(bool)
        values = np.zeros((x.shape[1], len(self.players), self._values.shape[1]))
        u = np.ones((len(tree.node), x.shape[1]))  # of roots 1
        u[self._roots :: 2], u[self._roots + 1 :: 2] = left, ~left
        for again in self._again:
            u[again] *= u[tree.before[again]]
        products = self._products(u)
        for k in self._used:
            sums = products if len(self._used) == 1 else products.copy()
            paid = self._paid(u, self._below(sums, self._values[:, k]))
            each = np.add.reduceat(paid[self._order], self._starts, axis=0)
            values[:, :, k] = each.T
        return values, self._reached(left)

    def _reached(self, left: np.ndarray) -> np.ndarray:
        """The sums of the values of the leaves that rows end in; [R, K]."""
        tree, R = self._tree, left.shape[1]
        place = np.arange(len(tree.node))
        child, test = place.copy(), np.full(len(place), len(left))
        child[tree.inner] = self._roots + 2 * np.arange(len(left))
        test[tree.inner] = np.arange(len(left))
        right = np.concatenate([~left, np.zeros((1, R), bool)])
        at, row = np.repeat(place[: self._roots, None], R, axis=1), np.arange(R)
        for _ in tree.levels:
            at = child[at] + right[test[at], row]
        return self._values[at].sum(axis=0)

    def _products(self, u: np.ndarray) -> np.ndarray:
        """w / (1 - t) times the products of f along the paths to all nodes; [n, Q, R]."""
        tree, u = self._tree, u[:, None]
        out = np.empty((len(u), self._gain.shape[1], u.shape[2]))
        out[: self._roots] = self._start[:, None]
        for level, again in zip(tree.levels, self._again, strict=True):
            f = np.multiply(self._gain[level, :, None], u[level], out=out[level])
            f += self._never[level, :, None]
            out[again] += self._once[again][:, :, None] * u[tree.before[again]]
            f *= out[tree.parent[level]]
        return out

    def _below(self, sums: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Products of leaves [n, Q, R] times their values, summed over the leaves below each
        node."""
        tree = self._tree
        sums[self._leaves] *= values[self._leaves, None, None]
        for level in reversed(tree.levels):
            sums[tree.parent[level][::2]] = sums[level][::2] + sums[level][1::2]
        return sums

    def _paid(self, u: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """The contribution of each edge to its player; [n, R]."""
        tree = self._tree
        paid = u * np.einsum("nqr,nq->nr", sums, self._pays)
        # The two edges below a node have the same player, and the same previous edge.
        paid[self._roots + 2 * self._first] -= sums[tree.inner[self._first]].sum(axis=1)
        for again in self._again:
            before = tree.before[again]
            earlier = np.einsum("nqr,nq->nr", sums[again], self._pays[before])
            paid[again] -= u[before] * earlier
        return paid


def _shares(nodes: Arrays, tree: TreeLevels) -> tuple[np.ndarray, np.ndarray]:
    """(r of each edge: the share of the training rows on the path that pass its player's tests
    so far; the share of all training rows that reach each node); float64 [n] each.
    """
    cover = nodes["cover"].astype(np.float64)[tree.node]
    above = cover[tree.parent]
    share = np.where(above > 0, cover / np.where(above > 0, above, 1), 0.5)
    share[tree.parent < 0] = 1
    chance = share.copy()
    for level in tree.levels:
        chance[level] *= chance[tree.parent[level]]
        share[level] *= np.where(tree.before[level] < 0, 1.0, share[tree.before[level]])
    return np.clip(share, LEAST_SHARE, 1.0), chance
