"""Columns that are each made of one column of the rows, before a layer.

A hybrid has each column of x or of the donor, so what is made of it column by column is that of x
or of the donor too.

Letters: S slots of 2^s corners, F columns, C columns made of them, R rows, H numbers for the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.structures.base import (
    Affine,
    Form,
    Head,
    Layer,
    OfColumns,
    WeightedDonors,
    whole_vectors,
)


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Columnwise(Layer):
    """A layer of the columns [R, C] that `made` gives of rows [R, F]."""

    inner: Layer  # of these columns
    params: Any
    made: Callable[[Any, Any], jax.Array] = field(metadata={"static": True})
    owners: tuple[int, ...] = field(metadata={"static": True})  # [C], the column each is made of

    @property
    def name(self) -> str:
        """See `Layer.name`."""
        return self.inner.name

    @property
    def width(self) -> int:
        """H."""
        return self.inner.width

    @property
    def parts(self) -> int:
        """L."""
        return self.inner.parts

    @property
    def adds(self) -> bool:
        """See `Layer.adds`."""
        return self.inner.adds

    @property
    def level(self) -> Any:
        """See `Layer.level`."""
        return self.inner.level

    @property
    def by_columns(self) -> bool:
        """See `Layer.by_columns`."""
        return self.inner.by_columns

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """See `Layer.slot_bits`."""
        return self.inner.slot_bits

    @property
    def dense(self) -> tuple[jax.Array, jax.Array] | None:
        """See `Layer.dense`."""
        return self.inner.dense

    @property
    def scans(self) -> bool:
        """See `Layer.scans`."""
        return self.inner.scans and self.owners == tuple(range(len(self.owners)))

    def work(self) -> float:
        """See `Layer.work`."""
        return self.inner.work()

    def block(self, rows: int, platform: str) -> int:
        """See `Layer.block`."""
        return self.inner.block(rows, platform)

    def columns(self, rows: Any) -> jax.Array:
        """See `Layer.columns`: results are identical bit for bit for any number of rows above
        one.
        """
        if len(rows) == 1:
            return self.made(self.params, rows)
        made = self.made(self.params, whole_vectors(rows, 0))
        return jax.lax.optimization_barrier(made)[: len(rows)]

    def of_columns(self, told: OfColumns) -> OfColumns:
        """See `Layer.of_columns`."""
        return told[..., np.maximum(self.owners, 0)]

    def corners(
        self, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.corners`."""
        both = self.columns(jnp.concatenate([x, donors]))
        own = self.of_columns(kept)
        return self.inner.corners(head, both[: len(x)], both[len(x) :], own, platform)

    @property
    def prepares(self) -> bool:
        """See `Layer.prepares`."""
        return self.inner.prepares

    def prepared(self, columns: jax.Array, own: jax.Array) -> jax.Array:
        """See `Layer.prepared`."""
        return self.inner.prepared(columns, own)

    def prepared_corners(
        self, head: Head, players: int, x: jax.Array, donors: jax.Array, known: bool
    ) -> jax.Array:
        """See `Layer.prepared_corners`."""
        return self.inner.prepared_corners(head, players, x, donors, known)

    def part(self, columns: jax.Array, own: jax.Array) -> jax.Array:
        """See `Layer.part`."""
        return self.inner.part(columns, own)

    def nothing(self, rows: int, dtype: Any) -> jax.Array:
        """See `Layer.nothing`."""
        return self.inner.nothing(rows, dtype)

    def both(self, one: jax.Array, other: jax.Array) -> jax.Array:
        """See `Layer.both`."""
        return self.inner.both(one, other)

    def joined(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """See `Layer.joined`."""
        return self.inner.joined(x, donors)

    def closed_form(self, background: WeightedDonors, head: Affine) -> Form | None:
        """See `Layer.closed_form`."""
        return self.inner.closed_form(background, head)


def largest(layer: Layer, rows: jax.Array) -> jax.Array:
    """The largest size of a column that the layer reads of rows [R, F]; [R].

    Times its largest weight, if the layer is dense.
    """
    columns = jnp.abs(layer.columns(rows))
    if layer.dense is not None:
        columns = columns * jnp.abs(layer.dense[0]).max(axis=1)
    # A maximum need not show a number that is missing.
    infinite = jnp.full_like(columns, jnp.inf)
    return jnp.where(jnp.isfinite(columns), columns, infinite).max(axis=1, initial=0)
