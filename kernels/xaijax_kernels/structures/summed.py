"""A layer that is a sum of the players' parts, given as a function of full rows.

Convolutions are such layers, and so are sums of embedded rows and layers declared by
`xaijax.Split`. The part of some columns is the function of a row with 0 in all other columns, minus
the function of a row of zeros.

Letters: S slots of 2^s sub-coalitions, C columns, H units, R rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

import jax
import jax.numpy as jnp

from xaijax_kernels.sizes import ROWS_OF_WIDE, WHOLE_ROWS, head_rows_of_wide
from xaijax_kernels.structures.base import Affine, WeightedDonors
from xaijax_kernels.structures.closed_forms import Additive
from xaijax_kernels.structures.sums import SumOfTerms

MOST_OF_MATRIX = 1 << 20  # numbers in the matrix of a linear layer, for its closed form
TOGETHER = 4.0  # roundings, as for 16 players


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Summed(SumOfTerms):
    """hidden = apply(arrays, columns). A part is a sum of its players' terms, [H]."""

    arrays: Any
    bias: jax.Array  # [H], the function of a row of zeros
    apply: Callable[[Any, jax.Array], jax.Array] = field(metadata={"static": True})
    multiplications: float = field(metadata={"static": True})  # of a row
    label: str = field(metadata={"static": True})
    linear: bool = field(metadata={"static": True})

    @property
    def name(self) -> str:
        """See `Layer.name`."""
        return self.label

    @property
    def level(self) -> Any:
        """See `Layer.level`: each part subtracts the numbers of a row of zeros, and the rounding
        errors of all players' parts add up as sqrt(players).
        """
        return TOGETHER * jnp.abs(self.bias)

    @property
    def by_columns(self) -> bool:
        """See `Layer.by_columns`."""
        return self.linear

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """See `Layer.slot_bits`; as for `Dense`."""
        return (6,)

    def work(self) -> float:
        """See `Layer.work`."""
        return self.multiplications

    @property
    def _least_rows(self) -> int:
        """Rows per call of the head, so that its weights are not read for a few rows."""
        return max(2 * ROWS_OF_WIDE, min(WHOLE_ROWS, head_rows_of_wide(self.width)))

    def closed_form(self, background: WeightedDonors, head: Affine) -> Additive | None:
        """See `Layer.closed_form`: for a linear layer whose matrix is small."""
        C = background.donors.shape[1]
        if not self.linear or C * self.width > MOST_OF_MATRIX:
            return None
        weights = [
            self.apply(self.arrays, jnp.eye(ROWS_OF_WIDE, C, first, dtype=self.bias.dtype))
            for first in range(0, C, ROWS_OF_WIDE)
        ]
        return Additive(jnp.concatenate(weights)[:C], self.bias, background, head)

    def _times(self, rows: jax.Array) -> jax.Array:
        whole = jnp.pad(rows, ((0, -len(rows) % ROWS_OF_WIDE), (0, 0)))
        return (self.apply(self.arrays, whole) - self.bias)[: len(rows)]


# Both are linear in their rows, so the contribution of some columns is the step's output for a row
# with 0 in the others. A convolution may have any stride, dilation, padding or groups.


@dataclass(frozen=True)
class Convolved:
    """A convolution of rows, flattened."""

    shape: tuple[int, ...]  # shape of one input row
    options: tuple[tuple[str, Any], ...]

    def __call__(self, kernel: jax.Array, columns: jax.Array) -> jax.Array:
        """Columns [R, C] -> [R, H]."""
        rows = columns.reshape(len(columns), *self.shape)
        options: dict[str, Any] = dict(self.options)
        options["precision"] = jax.lax.Precision.HIGHEST
        return jax.lax.conv_general_dilated(rows, kernel, **options).reshape(len(columns), -1)


@dataclass(frozen=True)
class AddedUp:
    """Sums over axes of rows, flattened."""

    shape: tuple[int, ...]  # shape of one row
    axes: tuple[int, ...]  # axes of the rows

    def __call__(self, arrays: Any, columns: jax.Array) -> jax.Array:
        """Columns [R, C] -> [R, H]."""
        del arrays
        rows = columns.reshape(len(columns), *self.shape)
        return rows.sum(axis=self.axes).reshape(len(columns), -1)
