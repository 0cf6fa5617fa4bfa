"""A layer that is a sum over players of parts, as a function that makes full rows of it.

A convolution is one, and so is a sum of looked-up rows, or what `xaijax.Split` declares. The part
of some columns is what the function makes of a row that has 0 in all others, minus what it makes of
a row of zeros.

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

MOST_OF_MATRIX = 1 << 20  # numbers of the matrix of a linear layer, for its closed form
TOGETHER = 4.0  # roundings, as for 16 players


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Summed(SumOfTerms):
    """hidden = apply(arrays, columns). A part is a sum of its players' terms, [H]."""

    arrays: Any
    bias: jax.Array  # [H], what a row of zeros gives
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
        """See `Layer.level`: each part is a row's numbers less those of a row of zeros, and the
        roundings of as many as there are players come together as sqrt(players) of them.
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
        """Enough that the head's weights are not read for a few."""
        return max(2 * ROWS_OF_WIDE, min(WHOLE_ROWS, head_rows_of_wide(self.width)))

    def closed_form(self, background: WeightedDonors, head: Affine) -> Additive | None:
        """See `Layer.closed_form`: of a linear layer whose matrix is small."""
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


# Both are linear in their rows, so that what some columns give is what the step makes of a row
# that has 0 in the others. A convolution may have any stride, dilation, padding or groups.


@dataclass(frozen=True)
class Convolved:
    """A convolution of rows, flattened."""

    shape: tuple[int, ...]  # of one row as it reads it
    options: tuple[tuple[str, Any], ...]

    def __call__(self, kernel: jax.Array, columns: jax.Array) -> jax.Array:
        """Columns [R, C] -> [R, H]."""
        rows = columns.reshape(len(columns), *self.shape)
        options: dict[str, Any] = dict(self.options)
        options["precision"] = jax.lax.Precision.HIGHEST
        return jax.lax.conv_general_dilated(rows, kernel, **options).reshape(len(columns), -1)


@dataclass(frozen=True)
class AddedUp:
    """A sum over axes of rows, flattened."""

    shape: tuple[int, ...]  # of one row
    axes: tuple[int, ...]  # of the rows

    def __call__(self, arrays: Any, columns: jax.Array) -> jax.Array:
        """Columns [R, C] -> [R, H]."""
        del arrays
        rows = columns.reshape(len(columns), *self.shape)
        return rows.sum(axis=self.axes).reshape(len(columns), -1)
