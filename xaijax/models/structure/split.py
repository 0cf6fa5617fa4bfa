"""A declared split: f(X) = rest(first(X)), where `first` is a sum over players of parts.

Letters: R rows, F numbers of one instance, flattened, H numbers that `first` gives for a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public_class
from xaijax_kernels.engine.tiles import multiplications, traced
from xaijax_kernels.structures.summed import Summed

PROBE_ROWS = 32


@public_class
@dataclass(frozen=True)
class Split:
    """Declares that a model begins with a sum over players: f(X) = rest(first(X)).

    Give it as `structure=` of `as_model`, for a function or module that JAX traces (not an
    estimator), of rows in one array. `first` must be a sum of parts, each of which depends on one
    player's columns alone: a linear layer, embeddings that are added up, a network for each player
    whose outputs are added. What mixes the players comes in `rest`. An explainer then puts the
    parts of each coalition together and asks only `rest`: the answers are the same, but for
    rounding. Dense layers, convolutions and sums of look-ups need no declaration
    (docs/structures.md).

    The part of a player is what `first` gives for a row that has 0 in all other columns, less what
    it gives for a row of zeros. So `first` must be finite there. Every call compares the
    declaration with the model: on all rows that are explained, on the background, and on hybrids of
    both.

    Args:
        first: function (params, X [R, *F]) that returns [R, ...], floating. If the model has no
            params it is a function of X alone.
        rest: function (params, hidden [R, ...]) of what `first` returns, which gives the model's
            answer to R rows. If the model has no params it is a function of hidden alone.

    Raises:
        InputError: when the model is first explained, a declaration that does not describe it; in
            a call, a `first` that is no sum over its players.

    Example:
        >>> import jax.numpy as jnp
        >>> import numpy as np
        >>> import xaijax as xj
        >>> split = xj.Split(lambda X: jnp.sin(X) + X**2, lambda h: jnp.exp(h.sum(axis=1) / 9))
        >>> model = xj.as_model(
        ...     lambda X: jnp.exp((jnp.sin(X) + X**2).sum(axis=1) / 9), structure=split
        ... )
        >>> explanation = xj.Explainer(model, np.zeros((1, 3), np.float32))(np.ones((1, 3)))
        >>> explanation.values.round(3), explanation.stats["structure"]
        (array([[0.282, 0.282, 0.282]]), 'split')
    """

    first: Callable[..., Any]
    rest: Callable[..., Any]

    def __post_init__(self) -> None:
        checks.functions(self, "first", "rest")


@dataclass(frozen=True)
class Flat:
    """`first` of flattened rows."""

    first: Callable[[Any, Any], Any]  # (params, rows [R, *F]) -> [R, ..]
    shape: tuple[int, ...]  # *F

    def __call__(self, params: Any, columns: jax.Array) -> jax.Array:
        """Columns [R, F] -> [R, H]."""
        rows = columns.reshape(len(columns), *self.shape)
        return jnp.asarray(self.first(params, rows)).reshape(len(columns), -1)


@dataclass(frozen=True)
class DeclaredSplit:
    """A split for rows of one shape, made ready: what the engine asks of it; see `Structure`."""

    first: Flat
    rest: Callable[[Any, Any], Any]  # (params, hidden [R, *hidden]) -> [R] or [R, K]
    hidden: tuple[int, ...]  # of one row
    multiplications: float  # of `first`, for a row
    dtype: str  # of the rows

    @property
    def declared(self) -> bool:
        """See `Structure.declared`."""
        return True

    def of(self, params: Any) -> Summed:
        """See `Structure.of`."""
        zeros = jnp.zeros((1, math.prod(self.first.shape)), self.dtype)
        bias, work = self.first(params, zeros)[0], self.multiplications
        return Summed(params, bias, self.first, work, "split", linear=False)

    def head(self, params: Any, hidden: Any) -> Any:
        """See `Structure.head`."""
        return self.rest(params, hidden.reshape(len(hidden), *self.hidden))

    def affine(self, params: Any) -> None:
        """See `Structure.affine`: a declared head is not looked into."""


@dataclass(frozen=True)
class GivenSplit:
    """A split as declared, before the rows are known."""

    first: Callable[[Any, Any], Any]
    rest: Callable[[Any, Any], Any]

    def shaped(self, params: Any, rows: np.ndarray, name: str) -> DeclaredSplit:
        """For rows [R, *F]; raises InputError where `first` does not give numbers for each."""
        few = jax.ShapeDtypeStruct((PROBE_ROWS, *rows.shape[1:]), rows.dtype)
        trace = traced(self.first, params, few)
        outputs: list[Any] = list(trace.out_avals)
        good = len(outputs) == 1 and outputs[0].shape[:1] == (PROBE_ROWS,)
        if not good or outputs[0].dtype != rows.dtype or 0 in outputs[0].shape:
            came = [f"{one.dtype}{list(one.shape)}" for one in outputs]
            raise InputError(
                f"structure=: first of the xaijax.Split of {name} must return one array [R, ...] "
                f"of {rows.dtype} for {PROBE_ROWS} rows; got {', '.join(came) or 'nothing'}. "
                "Where only the dtype is another, cast it by .astype(X.dtype)."
            )
        work = max(multiplications(trace.jaxpr, PROBE_ROWS), float(math.prod(outputs[0].shape[1:])))
        flat = Flat(self.first, rows.shape[1:])
        return DeclaredSplit(flat, self.rest, outputs[0].shape[1:], work, rows.dtype.name)
