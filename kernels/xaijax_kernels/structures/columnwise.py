"""Columns that are each made of one column of the rows, before a layer.

A hybrid has each column of x or of the donor, so what is made of it column by column is that of x
or of the donor too.

Letters: S slots of 2^s sub-coalitions, F columns, C columns made of them, R rows, H numbers for the
head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.structures.base import Head, Layer, OfColumns, whole_vectors


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Columnwise(Layer):
    """A layer of the columns [R, C] that `made` gives of rows [R, F]; its other members, which are
    about these columns, are those of `inner`.
    """

    inner: Layer  # of these columns
    params: Any
    made: Callable[[Any, Any], jax.Array] = field(metadata={"static": True})
    owners: tuple[int, ...] = field(metadata={"static": True})  # [C], the column each is made of

    @property
    def scans(self) -> bool:
        """See `Layer.scans`."""
        return self.inner.scans and self.owners == tuple(range(len(self.owners)))

    def columns(self, rows: Any) -> jax.Array:
        """See `Layer.columns`: results are identical bit for bit for any number of rows above
        one.
        """
        if len(rows) == 1:
            return self.made(self.params, rows)
        made = self.made(self.params, whole_vectors(rows, 0))
        return jax.lax.optimization_barrier(made)[: len(rows)]

    def of_columns(self, flags: OfColumns) -> OfColumns:
        """See `Layer.of_columns`."""
        return flags[..., np.maximum(self.owners, 0)]

    def subsets(
        self, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array, platform: str
    ) -> jax.Array:
        """See `Layer.subsets`."""
        both = self.columns(jnp.concatenate([x, donors]))
        own = self.of_columns(kept)
        return self.inner.subsets(head, both[: len(x)], both[len(x) :], own, platform)


# All other members are those of the layer of the columns.
for member in vars(Layer):
    if not member.startswith("_") and member not in vars(Columnwise):
        setattr(Columnwise, member, property(attrgetter(f"inner.{member}")))


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
