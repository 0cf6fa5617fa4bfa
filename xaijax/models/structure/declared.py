"""Reads the `structure=` of a JAX model, and compares it with the model.

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
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public_class
from xaijax.models.base.options import came
from xaijax.models.structure.agreement import Agreement, Evaluate, compare
from xaijax.models.structure.functions import PROBE_ROWS, DeclaredFunction, Ending
from xaijax.models.structure.prefix import GivenPrefix, Prefix, PrefixStructure, RowFold
from xaijax_kernels.engine.tiles import multiplications
from xaijax_kernels.engine.tiles import traced as trace_model
from xaijax_kernels.structures.summed import Summed
from xaijax_kernels.structures.sums import Dense

PLAIN = "plain"  # the model is asked full rows


@public_class
@dataclass(frozen=True)
class FirstLayer:
    """Declares that a model begins with a dense layer: f(X) = head(X W + b).

    Give it as `structure=` of `as_model`, for a function or module that JAX traces (not an
    estimator). An explainer then sums each player's contribution to the layer, and evaluates only
    the head for each coalition: the values are the same up to rounding, and cost less. Many layers
    are found without it (docs/structures.md). The declaration is compared with the model on probe
    rows, and on mixtures of them, before it is used.

    Args:
        weights: function of params that returns (W [F, H], b [H]). If the model has no params it
            takes no argument. F is the number of entries of one instance, flattened; H is the
            number of units of the layer. If the input is shifted or scaled before the layer, W and
            b must include that.
        head: function (params, hidden [R, H]) that returns the model's output for R rows. If the
            model has no params it takes `hidden` alone.

    Raises:
        InputError: the declaration does not describe the model; raised when it is first explained.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> W, b = np.array([[1.0], [2.0], [3.0]], np.float32), np.zeros(1, np.float32)
        >>> layer = xj.FirstLayer(lambda: (W, b), lambda hidden: hidden[:, 0] ** 2)
        >>> model = xj.as_model(lambda X: ((X @ W + b) ** 2)[:, 0], structure=layer)
        >>> explanation = xj.Explainer(model, np.zeros((1, 3), np.float32))(np.ones((1, 3)))
        >>> explanation.values.round(3), explanation.stats["structure"]
        (array([[ 6., 12., 18.]]), 'first layer')
    """

    weights: Callable[..., tuple[Any, Any]]
    head: Callable[..., Any]

    def __post_init__(self) -> None:
        checks.functions(self, "weights", "head")


@dataclass(frozen=True)
class DeclaredLayer:
    """A declared first layer, in the engine's form."""

    weights: Callable[[Any], tuple[Any, Any]]  # params -> W [F, H], b [H]
    head: Ending  # (params, hidden [R, H]) -> [R] or [R, K], the model's chosen output
    declared = True

    def of(self, params: Any) -> Dense:
        """See `Structure.of`."""
        weights, bias = self.weights(params)
        return Dense(jnp.asarray(weights), jnp.asarray(bias))

    def affine(self, params: Any) -> None:
        """See `Structure.affine`: a declared head is not looked into."""


def ready(
    structure: Any,
    backend: str,
    has_params: bool,
    select: Callable[[Any], Any] | None,
    precision: str,
    name: str,
) -> DeclaredLayer | GivenSplit | GivenPrefix | str | None:
    """Reads `structure=`; raises InputTypeError, InputError."""
    if isinstance(structure, GivenPrefix) or (isinstance(structure, str) and structure == PLAIN):
        return structure
    if not isinstance(structure, FirstLayer | Split | Prefix):
        raise InputTypeError(
            "structure= must be a xaijax.FirstLayer, a xaijax.Split, a xaijax.Prefix, "
            f"{PLAIN!r} or None, got {came(structure)}."
        )
    if backend != "jax":
        raise InputError(
            f"structure= is for functions that JAX traces, and {name} is none. Leave it out."
        )

    def declared(function: Any, what: str) -> DeclaredFunction:
        what = f"{what} of the xaijax.{type(structure).__name__} of {name}"
        return DeclaredFunction(function, has_params, precision, what)

    if isinstance(structure, Prefix):
        init, step = declared(structure.init, "init"), declared(structure.step, "step")
        return GivenPrefix(RowFold(init, step, declared(structure.read, "read")), precision, select)
    if isinstance(structure, Split):
        ending = Ending.of(declared(structure.rest, "rest"), select, name)
        return GivenSplit(declared(structure.first, "first"), ending)
    ending = Ending.of(declared(structure.head, "head"), select, name)
    return DeclaredLayer(declared(structure.weights, "weights"), ending)


def declared(
    model: Any, rows: Any, evaluate: Evaluate, programs: dict[Any, Any]
) -> tuple[DeclaredLayer | DeclaredSplit | PrefixStructure, Agreement]:
    """(the declared structure, its agreement with the model); rows: the probe's; programs: see
    `compare`.

    Raises InputError if it does not describe the model.
    """
    if isinstance(model.structure, GivenPrefix):
        prefix = model.structure.shaped(model.params, rows, model.name)
        off, agreement = compare(prefix, model, rows, evaluate, programs)
        if agreement is None:
            if prefix.item is None:  # of a language model, whose user declares no structure
                raise InputError(
                    f"step= of {model.name} does not give the model's answers to {len(rows)} probe "
                    f"rows ({off}). Fix init= and step=, or leave them out."
                )
            raise InputError(
                f"structure= does not describe {model.name}: on {len(rows)} probe rows the fold of "
                f"init, step and read differs ({off}). Fix them, or leave structure= out."
            )
        return prefix, agreement
    if isinstance(model.structure, GivenSplit):
        split = model.structure.shaped(model.params, rows, model.name)
        if not np.isfinite(np.asarray(jax.jit(split.of)(model.params).bias)).all():
            raise InputError(
                f"structure=: first of the xaijax.Split of {model.name} is not finite for a row of "
                "zeros, which the parts are read from. Shift its input there, or leave structure= "
                "out."
            )
        off, agreement = compare(split, model, rows, evaluate, programs)
        if agreement is None:
            raise InputError(
                f"structure= does not describe {model.name}: on {len(rows)} probe rows "
                f"rest(first(X)) differs ({off}). Fix first= and rest= of the xaijax.Split, or "
                "leave structure= out. If both are right, first of a row of zeros is far larger "
                "than the parts: subtract it."
            )
        return split, agreement
    (weights, bias), F = model.structure.weights(model.params), rows[0].size
    if weights.shape[:1] != (F,) or bias.shape != weights.shape[1:]:
        raise InputError(
            f"structure=: the first layer of {model.name} must have weights [{F}, H] and a bias "
            f"[H]; got {list(weights.shape)} and {list(bias.shape)}."
        )
    off, agreement = compare(model.structure, model, rows, evaluate, programs)
    if agreement is None:
        raise InputError(
            f"structure= does not describe {model.name}: on {len(rows)} probe rows and hybrids of "
            f"them head(X W + b) differs ({off}). Fold what comes before the layer into W and b, "
            "or leave structure= out."
        )
    return model.structure, agreement


@public_class
@dataclass(frozen=True)
class Split:
    """Declares that a model begins with a sum over players: f(X) = rest(first(X)).

    Give it as `structure=` of `as_model`, for a function or module that JAX traces (not an
    estimator), with rows in one array. `first` must be a sum of parts that each depend on one
    player's columns alone: a linear layer, a sum of embeddings, a sum of one network per player.
    Everything that mixes players belongs in `rest`. An explainer then sums the parts of each
    coalition and evaluates only `rest`: the values are the same up to rounding. Dense layers,
    convolutions and sums of look-ups need no declaration (docs/structures.md).

    The part of a player is `first` of a row with 0 in all other columns, minus `first` of a row of
    zeros. `first` must therefore be finite for these rows. Every call compares the declaration with
    the model: on all rows that are explained, on the background, and on hybrids of both.

    Args:
        first: function (params, X [R, *F]) that returns [R, ...], floating. If the model has no
            params it takes X alone.
        rest: function (params, hidden [R, ...]) that returns the model's output for R rows from the
            result of `first`. If the model has no params it takes `hidden` alone.

    Raises:
        InputError: the declaration does not describe the model (raised when it is first explained),
            or `first` is not a sum over the players of a call.

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
    """A split for rows of one shape, in the engine's form; see `Structure`."""

    first: Flat
    rest: Callable[[Any, Any], Any]  # (params, hidden [R, *hidden]) -> [R] or [R, K]
    hidden: tuple[int, ...]  # of one row
    multiplications: float  # of `first`, for a row
    dtype: str  # of the rows
    declared = True

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
    """A split as declared, before the rows' shape is known."""

    first: Callable[[Any, Any], Any]
    rest: Callable[[Any, Any], Any]

    def shaped(self, params: Any, rows: np.ndarray, name: str) -> DeclaredSplit:
        """The layer for rows [R, *F]; raises InputError if `first` does not return numbers for
        each row.
        """
        few = jax.ShapeDtypeStruct((PROBE_ROWS, *rows.shape[1:]), rows.dtype)
        trace = trace_model(self.first, params, few)
        outputs: list[Any] = list(trace.out_avals)
        good = len(outputs) == 1 and outputs[0].shape[:1] == (PROBE_ROWS,)
        if not good or outputs[0].dtype != rows.dtype or 0 in outputs[0].shape:
            came = [f"{output.dtype}{list(output.shape)}" for output in outputs]
            raise InputError(
                f"structure=: first of the xaijax.Split of {name} must return one array [R, ...] "
                f"of {rows.dtype} for {PROBE_ROWS} rows; got {', '.join(came) or 'nothing'}. Cast "
                "another dtype by .astype(X.dtype)."
            )
        work = max(multiplications(trace.jaxpr, PROBE_ROWS), float(math.prod(outputs[0].shape[1:])))
        flat = Flat(self.first, rows.shape[1:])
        return DeclaredSplit(flat, self.rest, outputs[0].shape[1:], work, rows.dtype.name)
