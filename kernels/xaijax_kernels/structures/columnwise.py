"""Columns that are each made of one column of the rows, before a structure.

A hybrid has each column of x or of the donor, so what is made of it column by column is that of x
or of the donor too.

Letters: S slots of 2^s corners, F columns, C columns made of them, R rows, H numbers for the head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.structures.dense import Dense, Head


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Columnwise:
    """A structure of the columns [R, C] that `made` gives of rows [R, F]."""

    inner: Any  # a structure
    params: Any
    made: Callable[[Any, jax.Array], jax.Array] = field(metadata={"static": True})
    owners: tuple[int, ...] = field(metadata={"static": True})  # [C], the column each is made of

    @property
    def width(self) -> int:
        """H."""
        return self.inner.width

    @property
    def parts(self) -> int:
        """Numbers of a part."""
        return self.inner.parts

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """See `Dense.slot_bits`."""
        return self.inner.slot_bits

    def work(self) -> float:
        """See `Dense.work`."""
        return self.inner.work()

    @property
    def adds(self) -> bool:
        """See `Dense.adds`."""
        return self.inner.adds

    @property
    def walks(self) -> bool:
        """Whether a dense layer follows, whose columns are each made of the one in its place."""
        return isinstance(self.inner, Dense) and self.owners == tuple(range(len(self.owners)))

    @property
    def weights(self) -> jax.Array:
        """Of the dense layer, [C, H]."""
        return self.inner.weights

    @property
    def bias(self) -> jax.Array:
        """Of the dense layer, [H]."""
        return self.inner.bias

    def block(self, rows: int) -> int:
        """Rows that the head is given at a time."""
        return self.inner.block(rows)

    def columns(self, rows: jax.Array) -> jax.Array:
        """Of rows [R, F]; [R, C]."""
        return self.made(self.params, rows)

    def kept_columns(self, kept: jax.Array) -> jax.Array:
        """Which columns [.., C] are kept where columns [.., F] of the rows are."""
        return kept[..., np.maximum(self.owners, 0)]

    def part(self, columns: jax.Array, own: jax.Array) -> jax.Array:
        """See `Dense.part`, of columns [R, C]."""
        return self.inner.part(columns, own)

    def nothing(self, rows: int, dtype: Any) -> jax.Array:
        """See `Dense.nothing`."""
        return self.inner.nothing(rows, dtype)

    def both(self, one: jax.Array, other: jax.Array) -> jax.Array:
        """See `Dense.both`."""
        return self.inner.both(one, other)

    def joined(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """See `Dense.joined`."""
        return self.inner.joined(x, donors)

    def hidden(self, rows: jax.Array) -> jax.Array:
        """Of rows [R, F]; [R, H]."""
        return self.inner.hidden(self.columns(rows))

    def corners(self, head: Head, x: jax.Array, donors: jax.Array, kept: jax.Array) -> jax.Array:
        """Answers to the corners of slots; [S 2^s, A]. Arguments as of `Dense.corners`."""
        both = self.columns(jnp.concatenate([x, donors]))
        own = kept[:, :, np.maximum(self.owners, 0)]
        return self.inner.corners(head, both[: len(x)], both[len(x) :], own)


def largest(structure: Any, rows: jax.Array) -> jax.Array:
    """The largest size of a column that the structure reads of rows [R, F]; [R].

    Times its largest weight, where a dense layer follows.
    """
    columns = jnp.abs(structure.columns(rows))
    if hasattr(structure, "weights"):
        columns = columns * jnp.abs(structure.weights).max(axis=1)
    # A maximum need not show a number that is missing.
    infinite = jnp.full_like(columns, jnp.inf)
    return jnp.where(jnp.isfinite(columns), columns, infinite).max(axis=1, initial=0)
