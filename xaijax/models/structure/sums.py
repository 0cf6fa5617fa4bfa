"""Steps that add columns up without a matrix: a convolution, a sum over an axis.

Both are linear in their rows, so that what some columns give is what the step makes of a row that
has 0 in the others. A convolution may have any stride, dilation, padding or groups.

Letters: R rows, C columns, H units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from xaijax.models.structure.column_map import NoLayer, Rows, bare
from xaijax_kernels.structures.summed import Summed

# A corner's layer is added up in float32 numbers, 32 rows at a time: past this they leave the
# caches, and the memory of a tile would be planned for a layer that is wider than all others.
MOST_UNITS = 1 << 15


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


def convolution(equation: Any, inputs: list[Any], dtype: Any) -> tuple[Summed, Rows]:
    """(the layer, its columns) of a convolution of rows; raises NoLayer."""
    options, (rows, kernel) = dict(equation.params), inputs
    numbers = options["dimension_numbers"]
    if not isinstance(rows, Rows) or isinstance(kernel, Rows) or options["batch_group_count"] != 1:
        raise NoLayer
    shape = equation.outvars[0].aval.shape
    H, kernel = math.prod(shape[1:]), bare(kernel)
    if numbers.lhs_spec[0] or numbers.out_spec[0] or H > MOST_UNITS or kernel.dtype != dtype:
        raise NoLayer
    each = math.prod(kernel.shape) / max(1, kernel.shape[numbers.rhs_spec[0]])
    flat, own = flattened(rows)
    apply = Convolved(own, tuple(sorted(options.items())))
    zero = jnp.zeros(H, dtype)
    return Summed(kernel, zero, apply, H * each, "first convolution", linear=True), flat


def sum_over(rows: Rows, axes: tuple[int, ...], H: int, dtype: Any) -> tuple[Summed, Rows]:
    """(the layer, its columns) of a sum of rows over axes."""
    flat, own = flattened(rows)
    size, zero = float(math.prod(own)), jnp.zeros(H, dtype)
    return Summed((), zero, AddedUp(own, axes), size, "first layer", linear=True), flat


def flattened(rows: Rows) -> tuple[Rows, tuple[int, ...]]:
    """(rows [R, C], the shape that each had)."""
    own = rows.shape[1:]
    value = None if rows.value is None else rows.value.reshape(rows.shape[0], -1)
    return Rows(rows.owner.ravel(), (rows.shape[0], math.prod(own)), value), own
