"""The layer of a forest whose trees are walked, and closed-form values of forests: float64 on the
host, any depth, any number of players.

A part of a tree (`parts`) has one table of its leaves' contributions (`leaves.Payments`), indexed
by the pattern of a row. A leaf with too many players for a table is computed from the pairs of a
row and a donor that reach it (`pairs`).

The choice depends on the sizes of the forest and on the number of donors, not on the rows: values
of a row are identical bit for bit, whatever other rows come with it.

Letters: R rows, B donors, M nodes, C columns, P players, Q of them that the forest reads, U parts
of trees, V tests on a path, K outputs, d players of a leaf, g of a part, S sets of players. In
`Walked`: A sums, n instances, V donors, S slots of 2^s sub-coalitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.games import semivalues
from xaijax_kernels.structures.base import Affine, Head, Layer, WeightedDonors
from xaijax_kernels.structures.leaves import Payments
from xaijax_kernels.structures.nodes import Nodes, leaf_sums
from xaijax_kernels.structures.pairs import PairedLeaves
from xaijax_kernels.structures.parts import BITS, CutTrees, Parts

MOST_OF_TABLE = 14  # players of a leaf
MOST_PLAYERS = 64  # of one path: bits of the largest integer type
PATHS = 1 << 18  # tests on paths that are processed together
ROWS = 4096  # rows looked up together
BLOCK = 1 << 25  # bytes of these rows' test bits and sums
LOT = 1 << 21  # numbers of one table of similar parts


class ManyPlayers(Exception):
    """A path has more players than an integer has bits."""


def closed_form_of(nodes: Nodes, background: WeightedDonors, head: Affine) -> Trees | None:
    """The closed form of a forest; None if a path has more players than a word has bits."""
    arrays = jax.tree.map(np.asarray, nodes)
    try:
        return Trees(replace(arrays, value=arrays.value.astype(np.float64)), background, head)
    except ManyPlayers:
        return None


class Trees:
    """layer = sum over trees of the values of the leaves that a row ends in."""

    name = "trees"

    def __init__(self, nodes: Nodes, background: WeightedDonors, head: Affine) -> None:
        """Raises ManyPlayers if a path has more than MOST_PLAYERS."""
        self.head = head
        players, self._player = np.unique(background.players, return_inverse=True)
        P, order = background.P, background.of.order
        self._M, self._places = semivalues.count(P, order), semivalues.places(players, P, order)
        lot = min(LOT, background.memory // 64)  # three eighths of the memory make a table
        self._kind = Kind(Payments(background.of), len(players), order, nodes.value.shape[1], lot)
        self._donors = Donors(np.ascontiguousarray(background.donors.T), background.weights)
        self._nodes = list(pieces_of(nodes, background.memory // (64 * len(background.weights))))
        self._kept: list[Piece] | None = []
        self.of_donors, size, room = np.zeros((len(background.weights), self._kind.K)), 0, 0
        for piece in self._made():
            self.of_donors += piece.of_donors
            size, room = size + piece.size, max(room, piece.size + piece.room)
            if self._kept is not None:
                self._kept = [*self._kept, piece] if size <= background.memory else None
        self.size = min(size, background.memory) + room

    def _made(self) -> Iterator[Piece]:
        return (Piece(nodes, self._player, self._donors, self._kind) for nodes in self._nodes)

    def of(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Form`."""
        n, K = len(columns), self._kind.K
        rows, sums = np.ascontiguousarray(columns.T), np.zeros((self._kind.sums, n))
        for piece in self._made() if self._kept is None else self._kept:
            piece.add(sums, rows)
        values = np.zeros((n, self._M, K))
        values[:, self._places] = sums[:-K].reshape(-1, K, n).transpose(2, 0, 1)
        return values, np.ascontiguousarray(sums[-K:].T)


@dataclass(frozen=True)
class Kind:
    """The requested values."""

    payments: Payments
    Q: int
    order: int
    K: int
    lot: int  # numbers of one table

    @property
    def sums(self) -> int:
        """Number of results per row: one per set of players that the forest reads and output, plus
        the layer."""
        return semivalues.count(self.Q, self.order) * self.K + self.K

    def of_layer(self, parts: Parts) -> np.ndarray:
        """Positions in them of the layer's outputs of parts; int [U, k]."""
        every = np.arange(self.K) if (parts.output < 0).any() else np.zeros(1, int)
        return np.maximum(parts.output, 0)[:, None] + every + self.sums - self.K

    def of_sets(self, parts: Parts) -> np.ndarray:
        """Positions in them of the sets of the parts' players; int [U, S, k]."""
        sets = semivalues.places(parts.players, self.Q, self.order)
        return sets[:, :, None] * self.K + self.of_layer(parts)[:, None] - (self.sums - self.K)


@dataclass(frozen=True)
class Donors:
    """The background."""

    columns: np.ndarray  # [C, B]
    weights: np.ndarray  # float64 [B]


def pieces_of(nodes: Nodes, most: int) -> Iterator[Nodes]:
    """Cuts the forest into pieces of at most `most` nodes, or one larger tree."""
    most, first = min(most, PATHS // nodes.levels.shape[0]), 0
    stops = np.append(nodes.roots[1:], len(nodes.left))
    for end, following in zip(stops, [*stops[1:], np.inf], strict=True):
        if following - first > most:
            piece = slice(first, end)
            names = ("feature", "threshold", "value", "missing_left", "category_split")
            arrays = {name: getattr(nodes, name) for name in names}
            cut = {name: None if a is None else a[piece] for name, a in arrays.items()}
            yield replace(nodes, left=nodes.left[piece].astype(np.int64) - first, **cut)
            first = end


class Piece:
    """Some trees, with the tables of their contributions."""

    def __init__(self, nodes: Nodes, player: np.ndarray, donors: Donors, kind: Kind) -> None:
        """player int [C]: the player of each column."""
        cut = CutTrees(nodes, player)
        if cut.paths.d.max(initial=0) > MOST_PLAYERS:
            raise ManyPlayers
        B, payments = len(donors.weights), kind.payments
        most = most_of_table(B)
        self._tests, self._values = cut.tests, cut.values
        self._tables = [PartTable(parts, kind) for parts in cut.parts(most, kind.order, kind.lot)]
        self.of_donors = np.zeros((B, kind.K))
        for at, right in self._blocks(donors.columns):
            for table in self._tables:
                self.of_donors[at] += table.meet(table.parts.patterns(right), donors.weights[at])
        for table in self._tables:
            table.close()
        self._pairs, large = None, cut.large(most)
        if len(large):
            right = self._tests.right(donors.columns)
            self._pairs = PairedLeaves(cut, large, right, donors.weights, payments, kind.Q)
            self.of_donors += self._pairs.of_donors(cut.values)

    @property
    def room(self) -> int:
        """Bytes of copies, and of sums over subsets, that were held while tables were made."""
        return 3 * max((table.size for table in self._tables), default=0)

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        pairs = 0 if self._pairs is None else self._pairs.size
        return pairs + sum(table.size for table in self._tables)

    def add(self, sums: np.ndarray, columns: np.ndarray) -> None:
        """Adds the trees' contributions to the sums [numbers, R] of rows with columns [C, R]."""
        for rows, right in self._blocks(columns):
            for table in self._tables:
                table.add(sums[:, rows], table.parts.patterns(right))
            if self._pairs is not None:
                self._pairs.add(sums[:, rows], right, self._values)

    def _blocks(self, columns: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yields (a slice of rows, the bits of their tests), for as many rows as stay in the
        cache."""
        R = columns.shape[1]
        step = max(1, min(ROWS, BLOCK // (2 * len(self._tests) + 1)))
        for first in range(0, R, step):
            rows = slice(first, min(first + step, R))
            yield rows, self._tests.right(columns[:, rows])


def most_of_table(donors: int) -> int:
    """Number of players of a leaf up to which its contributions are a table over all subsets.

    A table has an entry per subset; the alternative takes one pair per donor.
    """
    return min(MOST_OF_TABLE, max(BITS, donors.bit_length()))


class PartTable:
    """Contributions of similar parts, by pattern."""

    def __init__(self, parts: Parts, kind: Kind) -> None:
        self.parts, self._kind = parts, kind
        U, k = kind.of_layer(parts).shape
        self._layer = np.zeros((U, k, 1 << parts.bits))
        for leaves in parts.leaves:
            reached = leaves.failing(parts.bits) == 0
            self._layer[leaves.part] += leaves.values[:, :, None] * reached[:, None]
        self._met = np.zeros((U, 1 << parts.bits))
        self._base = np.arange(U)[:, None] << parts.bits

    def meet(self, patterns: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Records donors with these patterns [U, B] and weights; returns the parts' outputs for
        them, [B, K]."""
        at, k = patterns + self._base, self._layer.shape[1]
        every = np.broadcast_to(weights, at.shape).ravel()
        self._met += np.bincount(at.ravel(), every, self._met.size).reshape(self._met.shape)
        out = np.zeros((len(weights), self._kind.K))
        output = self._kind.of_layer(self.parts) - (self._kind.sums - self._kind.K)
        for p in range(k):
            paid = np.take(self._layer[:, p].ravel(), at)
            np.add.at(out.T, output[:, p], paid)
        return out

    def close(self) -> None:
        """Makes the tables, after all donors are recorded."""
        kind, bits = self._kind, self.parts.bits
        at = kind.of_sets(self.parts)
        table = np.zeros((*at.shape, 1 << bits))
        for leaves in self.parts.leaves:
            L, d = leaves.players.shape
            failing = leaves.failing(bits)
            places = (failing + (np.arange(L)[:, None] << d)).ravel()
            met = np.bincount(places, self._met[leaves.part].ravel(), L << d).reshape(L, -1)
            pays = kind.payments.tables(met)[np.arange(L)[:, None], failing].swapaxes(1, 2)
            sets = semivalues.places(leaves.players, self.parts.players.shape[1], kind.order)
            share = pays[:, :, None] * leaves.values[:, None, :, None]
            table[leaves.part[:, None], sets] += share
        U = len(at)
        self._at = np.concatenate([at.reshape(U, -1), kind.of_layer(self.parts)], axis=1)
        table = table.reshape(U, -1, 1 << bits)
        self._table = np.concatenate([table, self._layer], axis=1)
        del self._met, self._layer

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return self._table.nbytes

    def add(self, sums: np.ndarray, patterns: np.ndarray) -> None:
        """Adds contributions to the sums [numbers, R] of rows with these patterns [U, R]."""
        room = np.empty(patterns.shape[1])
        for pattern, at, table in zip(patterns, self._at.tolist(), self._table, strict=True):
            places = pattern.astype(np.intp)
            for rows, paid in zip(at, table, strict=True):
                paid.take(places, out=room, mode="clip")
                sums[rows] += room


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Walked(Layer):
    """hidden = the sum over trees of the values of the leaves that a row ends in. A part is the
    columns themselves, with 0 for those of other parts.
    """

    nodes: Nodes

    @property
    def name(self) -> str:
        """See `Layer.name`."""
        return "walked trees"

    @property
    def width(self) -> int:
        """A."""
        return self.nodes.value.shape[1]

    @property
    def parts(self) -> int:
        """C."""
        return self.nodes.levels.shape[1]

    @property
    def adds(self) -> bool:
        """See `Layer.adds`: parts can be added, but are not layers."""
        return False

    @property
    def compares(self) -> bool:
        """See `Layer.compares`."""
        return True

    @property
    def forest(self) -> Mapping[str, Any]:
        """See `Layer.forest`."""
        return vars(self.nodes)

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """See `Layer.slot_bits`."""
        return (6, 12)

    def work(self) -> float:
        """See `Layer.work`: a sub-coalition is walked like a row."""
        return 0.0

    def part(self, columns: jax.Array, mask: jax.Array) -> jax.Array:
        """See `Layer.part`."""
        return jnp.where(mask, columns, 0)

    def nothing(self, rows: int, dtype: Any) -> jax.Array:
        """See `Layer.nothing`."""
        return jnp.zeros((rows, self.parts), dtype)

    def both(self, part: jax.Array, other: jax.Array) -> jax.Array:
        """See `Layer.both`."""
        return part + other

    def joined(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """See `Layer.joined`."""
        rows = (x[:, None] + donors).reshape(-1, self.parts)
        return leaf_sums(self.nodes, rows).reshape(len(x), len(donors), -1)

    def whole(self, columns: jax.Array) -> jax.Array:
        """See `Layer.whole`."""
        return leaf_sums(self.nodes, columns)

    def block(self, rows: int, platform: str, bits: int = 0) -> int:
        """See `Layer.block`: all rows of a tile."""
        return rows

    def subsets(
        self, head: Head, x: jax.Array, donors: jax.Array, mask: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.subsets`."""
        s = mask.shape[1] - 1
        bit = jnp.arange(1 << s)[:, None] >> jnp.arange(s) & 1
        keeps = jnp.einsum("ct,stf->scf", bit.astype(jnp.int32), mask[:, :s].astype(jnp.int32)) > 0
        rows = jnp.where(keeps | mask[:, s:], x[:, None], donors[:, None])
        return head(leaf_sums(self.nodes, rows.reshape(-1, self.parts)))

    def closed_form(self, background: WeightedDonors, head: Affine) -> Trees | None:
        """See `Layer.closed_form`."""
        return closed_form_of(self.nodes, background, head)
