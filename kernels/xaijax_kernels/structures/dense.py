"""A dense first layer at the sub-coalitions of a pair: head(z W + b), one addition a unit and
sub-coalition.

Letters: S slots of 2^s sub-coalitions, F columns, H units, R rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.structures.base import Affine, WeightedDonors
from xaijax_kernels.structures.closed_forms import Additive
from xaijax_kernels.structures.sums import WHOLE_ROWS, SumOfTerms, rows_of_block


@final
@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dense(SumOfTerms):
    """hidden = z W + b. A part is the sum of its columns' terms, [H]."""

    weights: jax.Array  # [F, H]
    bias: jax.Array  # [H]

    @property
    def name(self) -> str:
        """See `Layer.name`."""
        return "first layer"

    @property
    def slot_bits(self) -> tuple[int, ...]:
        """See `Layer.slot_bits`.

        There is one size: a slot's own part, 13 rows of a product with W for 2^6 sub-coalitions, is
        small compared with the head of these. With two layers of 64 units on Adult's codes a call
        takes a sixth longer than with a program for every size, which take seven seconds to
        compile. A smaller pair fills its slot up, and has few rows.
        """
        return (6,)

    @property
    def dense(self) -> tuple[jax.Array, jax.Array]:
        """See `Layer.dense`."""
        return self.weights, self.bias

    def work(self) -> float:
        """See `Layer.work`."""
        return float(np.prod(self.weights.shape))

    def block(self, rows: int, platform: str) -> int:
        """See `Layer.block`."""
        return min(rows, max(WHOLE_ROWS, rows_of_block(self.width, platform)))

    def closed_form(self, background: WeightedDonors, head: Affine) -> Additive:
        """See `Layer.closed_form`."""
        return Additive(self.weights, self.bias, background, head)

    def _times(self, rows: jax.Array) -> jax.Array:
        R = len(rows)
        whole = jnp.pad(rows, ((0, -R % WHOLE_ROWS), (0, 0)))
        return jnp.dot(whole, self.weights, precision=jax.lax.Precision.HIGHEST)[:R]
