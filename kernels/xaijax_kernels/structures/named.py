"""Sums of products as named functions that can be found in a trace, and their layers.

If a model calls one of them on columns that each depend on one column of its rows, the layer
evaluates its sub-coalitions. On full rows the function runs as written here.

Letters: R rows, C columns, L terms (support vectors, leaves), A sums, M nodes, T trees, S slots
of 2^s sub-coalitions, F columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.sizes import (
    FEW_ROWS,
    NUMBERS_OF_PARTS,
    head_rows,
    pairs_together,
    rows_of_terms,
)
from xaijax_kernels.structures import products
from xaijax_kernels.structures.base import Affine, Form, Head, Layer, WeightedDonors
from xaijax_kernels.structures.factors import Boxes, Factors, Gaussians, sums_at_subsets
from xaijax_kernels.structures.forests import Walked, closed_form_of
from xaijax_kernels.structures.nodes import NAMES, leaf_sums, nodes_of


def in_blocks(function: Callable[[jax.Array], jax.Array], rows: jax.Array, terms: int) -> jax.Array:
    """Applies `function` to blocks of rows, one after another, the last one padded; terms:
    numbers it computes per row.
    """
    R, C = rows.shape

    def blocks(size: int, rows: jax.Array) -> jax.Array:
        if R <= size:
            return function(rows)
        whole = jnp.pad(rows, ((0, -R % size), (0, 0))).reshape(-1, size, C)
        out = jax.lax.map(function, whole)
        return out.reshape(-1, *out.shape[2:])[:R]

    on_cpu, on_others = (rows_of_terms(terms, platform) for platform in ("cpu", "gpu"))
    if R <= on_cpu:
        return function(rows)
    return jax.lax.platform_dependent(
        rows, cpu=partial(blocks, on_cpu), default=partial(blocks, on_others)
    )


@jax.jit
def xaijax_gaussian_sums(
    rows: jax.Array,  # [R, C]
    centres: jax.Array,  # [L, C]
    gamma: jax.Array,  # []
    coefficients: jax.Array,  # [L, A]
    intercept: jax.Array,  # [A]
) -> jax.Array:
    """intercept + sum_l coefficients_l exp(-gamma |z - c_l|^2), [R, A]."""
    # A common shift does not change distances; near 0 the squares cancel less.
    middle = centres.mean(axis=0)
    centres = centres - middle
    of_centres = (centres * centres).sum(axis=1)

    def few(rows: jax.Array) -> jax.Array:
        rows = rows - middle
        squares = (rows * rows).sum(axis=1)[:, None] + of_centres
        distances = jnp.maximum(squares - 2 * (rows @ centres.T), 0)
        return _sums(jnp.exp(-gamma * distances), coefficients) + intercept

    return in_blocks(few, rows, len(centres))


def _sums(factors: jax.Array, coefficients: jax.Array) -> jax.Array:
    """factors [R, L] in [0, 1] @ coefficients [L, A], with little rounding error.

    Both are split into integer multiples of 2^-6 of their maximum, and a remainder. Products of the
    multiples have 12 bits, so up to 2^12 of them add without rounding in float32's 24 bits. The
    remainder is 2^-7 as large, and so are the rounding errors of its sums.
    """
    _, power = jnp.frexp(jnp.abs(coefficients).max(axis=0, initial=0))
    unit = jnp.ldexp(jnp.ones_like(coefficients, shape=power.shape) / 64, power)
    coarse, whole = jnp.round(factors * 64) / 64, jnp.round(coefficients / unit) * unit
    fine = coarse @ (coefficients - whole) + (factors - coarse) @ coefficients
    return coarse @ whole + fine


@jax.jit
def xaijax_leaf_sums(
    rows: jax.Array,  # [R, C]
    nodes: tuple[jax.Array, ...],  # see `nodes.flat`
    boxes: tuple[jax.Array, ...],  # low, high [L, C], missing bool [L, C] and values [L, A]; with
    # categories also `Boxes.codes` and `Boxes.kind`; or ()
) -> jax.Array:
    """The sum over trees of the values of the leaves that rows end in, [R, A].

    boxes: the same leaves by their bounds, low < z <= high, or NaN where missing values pass; () if
    walking is cheaper than a product.
    """
    return leaf_sums(nodes_of(nodes), rows)


def _gaussians(centres: Any, gamma: Any, coefficients: Any, intercept: Any) -> Product:
    return Product(Gaussians(centres, gamma), coefficients, intercept)


def _leaves(*arrays: Any) -> Layer:
    nodes, boxes = nodes_of(arrays[: len(NAMES)]), arrays[len(NAMES) :]
    if not boxes:
        return Walked(nodes)
    low, high, missing, values, *categories = boxes
    none = jnp.zeros(values.shape[1], values.dtype)
    codes, kind = categories or (None, None)
    missing = None if 0 in missing.shape else missing
    return Product(Boxes(low, high, missing, codes, kind, nodes), values, none)


# (arguments after the rows) -> the layer.
NAMED: dict[str, Callable[..., Layer]] = {
    "xaijax_gaussian_sums": _gaussians,
    "xaijax_leaf_sums": _leaves,
}


# RBF machines are sums of products, and so are trees: a leaf is reached if every column is within
# its bounds. The sub-coalitions of a slot are one product of two half tables
# (`factors.sums_at_subsets`).

HIGHEST = jax.lax.Precision.HIGHEST


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Product(Layer):
    """hidden_a = intercept_a + sum_l coefficients_la prod_j k_l(z_j). A part is L products."""

    factors: Factors
    coefficients: jax.Array  # [L, A]
    intercept: jax.Array  # [A]

    @property
    def forest(self) -> Mapping[str, Any] | None:
        """See `Layer.forest`."""
        nodes = self.factors.nodes if isinstance(self.factors, Boxes) else None
        return None if nodes is None else vars(nodes)

    @property
    def name(self) -> str:
        """See `Layer.name`."""
        return "sum of products"

    @property
    def width(self) -> int:
        """A."""
        return self.intercept.shape[0]

    @property
    def parts(self) -> int:
        """L."""
        return self.coefficients.shape[0]

    @property
    def adds(self) -> bool:
        """See `Layer.adds`: factors are multiplied."""
        return False

    @property
    def compares(self) -> bool:
        """See `Layer.compares`: trees do."""
        return isinstance(self.factors, Boxes)

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """See `Layer.slot_bits`. Every second size is used: the factors of a slot cost as much
        as its product of half tables at about 2^8 rows. With 842 support vectors on Adult's
        codes a call takes 1.1 times as long as with every size; two sizes would take 1.33 times,
        one size 2.5 times as long.
        """
        return (6, 8, 10, 12)

    def work(self) -> float:
        """See `Layer.work`: sub-coalitions share one product of tables."""
        return math.inf

    def part(self, columns: jax.Array, mask: jax.Array) -> jax.Array:
        """See `Layer.part`. Takes a few rows at a time if all of them exceed a core's cache."""
        R, L = len(columns), self.parts
        if R * L > NUMBERS_OF_PARTS and R % FEW_ROWS == 0:
            blocks = (a.reshape(-1, FEW_ROWS, a.shape[1]) for a in (columns, mask))
            return jax.lax.map(lambda few: self._part(*few), tuple(blocks)).reshape(R, L)
        return self._part(columns, mask)

    def _part(self, columns: jax.Array, mask: jax.Array) -> jax.Array:
        def step(total: jax.Array, column: Any) -> tuple[jax.Array, None]:
            values, is_own, of_column = column
            exponents = self.factors.of_column(of_column, values)
            return total + jnp.where(is_own[:, None], exponents, 0), None

        zero = jnp.zeros((len(columns), self.coefficients.shape[0]), columns.dtype)
        each = (columns.T, mask.T, self.factors.by_column())
        return self.factors.unit(jax.lax.scan(step, zero, each)[0])

    def nothing(self, rows: int, dtype: Any) -> jax.Array:
        """See `Layer.nothing`."""
        return jnp.ones((rows, self.coefficients.shape[0]), dtype)

    def both(self, part: jax.Array, other: jax.Array) -> jax.Array:
        """See `Layer.both`."""
        return part * other

    def joined(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """See `Layer.joined`."""
        weighted = (self.coefficients.T[:, None] * donors).reshape(-1, donors.shape[1])  # [A V, L]
        sums = jax.lax.dot_general(x, weighted, (((1,), (1,)), ((), ())), precision=HIGHEST)
        return sums.reshape(len(x), -1, len(donors)).swapaxes(1, 2) + self.intercept

    def whole(self, columns: jax.Array) -> jax.Array:
        """See `Layer.whole`: trees are walked, which is faster than testing every leaf and
        column."""
        if isinstance(self.factors, Boxes) and self.factors.nodes is not None:
            return leaf_sums(self.factors.nodes, columns) + self.intercept
        return super().whole(columns)

    def block(self, rows: int, platform: str, bits: int = 0) -> int:
        """See `Layer.block`: all rows of a tile."""
        return rows

    def subsets(
        self, head: Head, x: jax.Array, donors: jax.Array, mask: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.subsets`."""
        S, bits = len(mask), mask.shape[1] - 1
        together = pairs_together(self.parts, bits, platform, S)
        together = None if platform == "cpu" else 1 << together.bit_length() - 1
        sums = jax.lax.map(self._slot, (x, donors, mask), batch_size=together)
        return head(sums.reshape(-1, sums.shape[-1]))

    def closed_form(self, background: WeightedDonors, head: Affine) -> Form | None:
        """See `Layer.closed_form`: for trees, and for Gaussians of many players."""
        if isinstance(self.factors, Gaussians):
            centres, gamma = np.asarray(self.factors.centres), np.asarray(self.factors.gamma)
            parts = np.asarray(self.coefficients), np.asarray(self.intercept)
            gamma = np.broadcast_to(gamma, centres.shape[1:])
            return products.gaussian(centres, gamma, *parts, background, head)
        nodes = self.factors.nodes
        return None if nodes is None else closed_form_of(nodes, background, head)

    def prepares(self, platform: str) -> bool:
        """See `Layer.prepares`: a pair's factors take as long as its product."""
        return True

    def prepared(self, columns: jax.Array, mask: jax.Array, kept: bool, platform: str) -> jax.Array:
        """See `Layer.prepared`."""

        def of_row(row: jax.Array) -> jax.Array:
            if isinstance(self.factors, Boxes):
                return self.factors.prepared(row, mask)
            return self.part(jnp.broadcast_to(row, mask.shape), mask)

        together = head_rows(self.parts * len(mask), platform, columns.dtype.itemsize)
        together = None if platform == "cpu" else min(together, len(columns))
        return jax.lax.map(of_row, columns, batch_size=together)

    def prepared_subsets(
        self, head: Head, players: int, x: jax.Array, donors: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.prepared_subsets`."""
        together = pairs_together(self.parts, players, platform, len(donors))
        S = len(donors)
        if S % together:  # the last pairs are padded, and their outputs are dropped
            donors = jnp.pad(donors, ((0, -S % together), *((0, 0),) * (donors.ndim - 1)))
        few = donors.reshape(-1, together, *donors.shape[1:])
        sums = jax.lax.map(
            lambda part: self.factors.pairs(self.coefficients, players, x, part, platform), few
        )
        return head(sums.reshape(-1, sums.shape[-1])[: S << players] + self.intercept)

    @property
    def lists(self) -> bool:
        """True for trees; see `Layer.lists`."""
        return isinstance(self.factors, Boxes)

    def at_sets(self, x: jax.Array, donors: jax.Array, sets: jax.Array, platform: str) -> jax.Array:
        """See `Layer.at_sets`."""
        assert isinstance(self.factors, Boxes)
        sums = self.factors.at_sets(self.coefficients, x, donors, sets, platform)
        return sums + self.intercept

    def _slot(self, slot: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        """The values of one slot; [2^s, A]."""
        x, donor, mask = slot  # [F], [F], bool [s + 1, F]
        s = len(mask) - 1
        of_both = self.factors.exponents(jnp.stack([x, donor]))  # [2, F, L]
        bits, always = mask[:s], mask[s]
        never = ~always & ~bits.any(axis=0)
        of_x = jnp.concatenate([bits, always[None]]).astype(x.dtype)
        of_donor = jnp.concatenate([bits, never[None]]).astype(x.dtype)
        with_x = jnp.dot(of_x, of_both[0], precision=HIGHEST)  # [s + 1, L]
        with_donor = jnp.dot(of_donor, of_both[1], precision=HIGHEST)
        common = self.factors.unit(with_x[s] + with_donor[s])
        of_x, of_donor = self.factors.unit(with_x[:s]), self.factors.unit(with_donor[:s])
        return sums_at_subsets(self.coefficients, common, of_x, of_donor) + self.intercept
