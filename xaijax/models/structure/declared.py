"""The `structure=` of a JAX model: read, made ready, and compared with the model itself.

Letters: R rows, F numbers of one instance, flattened, H numbers that `first` gives for a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError, XaiError
from xaijax.core.public import public_class
from xaijax.models.base.options import came
from xaijax.models.base.trace import MATMUL, Selected, explain_trace_failure, traced
from xaijax.models.structure.agreement import Agreement, Evaluate, compare
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
    estimator). An explainer then adds up what each player contributes to the layer, in place of
    full rows, and asks only the head for each coalition: the answers are the same, but for
    rounding, and cost less. Many layers are found without it (docs/structures.md). The declaration
    is compared with the model on probe rows, and on mixtures of them, before it is used.

    Args:
        weights: function of params that returns (W [F, H], b [H]). If the model has no params it is
            a function of nothing. F counts the numbers of one instance, flattened; H is the number
            of units of the layer. If the input is shifted or scaled before the layer, W and b must
            contain that.
        head: function (params, hidden [R, H]) that returns the model's answer to R rows. If the
            model has no params it is a function of hidden alone.

    Raises:
        InputError: when the model is first explained, a declaration that does not describe it.

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
    """A first layer, made ready: what the engine asks of it."""

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
) -> DeclaredLayer | GivenSplit | str | None:
    """Reads `structure=`; raises InputTypeError, InputError."""
    if isinstance(structure, str) and structure == PLAIN:
        return structure
    if not isinstance(structure, FirstLayer | Split):
        raise InputTypeError(
            f"structure= must be a xaijax.FirstLayer, a xaijax.Split, {PLAIN!r} or None, got "
            f"{came(structure)}."
        )
    if backend != "jax":
        raise InputError(
            f"structure= is for functions that JAX traces, and {name} is none. Leave it out."
        )

    def given(function: Any, what: str) -> DeclaredFunction:
        what = f"{what} of the xaijax.{type(structure).__name__} of {name}"
        return DeclaredFunction(function, has_params, precision, what)

    if isinstance(structure, Split):
        ending = Ending.of(given(structure.rest, "rest"), select, name)
        return GivenSplit(given(structure.first, "first"), ending)
    ending = Ending.of(given(structure.head, "head"), select, name)
    return DeclaredLayer(given(structure.weights, "weights"), ending)


def declared(
    model: Any, rows: Any, evaluate: Evaluate, programs: dict[Any, Any]
) -> tuple[DeclaredLayer | DeclaredSplit, Agreement]:
    """The declared structure, and how nearly it agrees with the model; rows: the probe's; programs:
    see `compare`.

    Raises InputError if it does not describe the model.
    """
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


# Equal where they are made of equal functions: compiled programs are kept under them, so that
# `as_model` with the same declaration compiles nothing anew.


@dataclass(frozen=True)
class DeclaredFunction:
    """A function of (params, ...), or if the model has no params of the rest alone."""

    function: Callable[..., Any]
    has_params: bool
    precision: str
    what: str  # for messages: "first of the xaijax.Split of f"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputTypeError(
                f"structure=: {self.what} must be a function, got {came(self.function)}."
            )

    def __call__(self, params: Any, *rest: Any) -> Any:
        """The function's answer; an exception of its own says where it came from."""
        arguments = (params, *rest) if self.has_params else rest
        try:
            with jax.default_matmul_precision(MATMUL[self.precision]):
                return self.function(*arguments)
        except Exception as exc:
            failure = explain_trace_failure(exc, self.what)
            if failure is not exc:
                raise failure from exc
            if not isinstance(exc, XaiError):
                takes = "(params, ...)" if self.has_params else "no params, as the model has none"
                exc.add_note(
                    f"xaijax: raised while JAX traced {self.what}, a function of {takes}. Fix "
                    "structure=, or leave it out."
                )
            raise


@dataclass(frozen=True)
class Ending:
    """What follows a declared layer: the model's chosen output, checked as a model's answer is."""

    given: DeclaredFunction
    select: Callable[[Any], Any] | None
    whole: Selected = field(compare=False)

    @classmethod
    def of(cls, given: DeclaredFunction, select: Callable[[Any], Any] | None, name: str) -> Ending:
        """The ending of the model of this name."""
        whole = Selected(traced(given, given.precision, name), select, given.precision)
        return cls(given, select, whole)

    def __call__(self, params: Any, hidden: Any) -> Any:
        """[R] or [R, K] of hidden [R, ...]."""
        return self.whole(params, hidden)


PROBE_ROWS = 32  # as many as the probe asks


@public_class
@dataclass(frozen=True)
class Split:
    """Declares that a model begins with a sum over players: f(X) = rest(first(X)).

    Give it as `structure=` of `as_model`, for a function or module that JAX traces (not an
    estimator), with rows in one array. `first` must be a sum of parts that each depend on one
    player's columns alone: a linear layer, embeddings that are added up, a network for each player
    whose outputs are added. What mixes the players comes in `rest`. An explainer then puts the
    parts of each coalition together and asks only `rest`: the answers are the same, but for
    rounding. Dense layers, convolutions and sums of look-ups need no declaration
    (docs/structures.md).

    The part of a player is what `first` gives for a row that has 0 in all other columns, minus what
    it gives for a row of zeros. `first` must therefore be finite there. Every call compares the
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
    """A split as declared, before the rows are known."""

    first: Callable[[Any, Any], Any]
    rest: Callable[[Any, Any], Any]

    def shaped(self, params: Any, rows: np.ndarray, name: str) -> DeclaredSplit:
        """The layer for rows [R, *F]; raises InputError if `first` does not give numbers for
        each.
        """
        few = jax.ShapeDtypeStruct((PROBE_ROWS, *rows.shape[1:]), rows.dtype)
        trace = trace_model(self.first, params, few)
        outputs: list[Any] = list(trace.out_avals)
        good = len(outputs) == 1 and outputs[0].shape[:1] == (PROBE_ROWS,)
        if not good or outputs[0].dtype != rows.dtype or 0 in outputs[0].shape:
            came = [f"{one.dtype}{list(one.shape)}" for one in outputs]
            raise InputError(
                f"structure=: first of the xaijax.Split of {name} must return one array [R, ...] "
                f"of {rows.dtype} for {PROBE_ROWS} rows; got {', '.join(came) or 'nothing'}. Cast "
                "another dtype by .astype(X.dtype)."
            )
        work = max(multiplications(trace.jaxpr, PROBE_ROWS), float(math.prod(outputs[0].shape[1:])))
        flat = Flat(self.first, rows.shape[1:])
        return DeclaredSplit(flat, self.rest, outputs[0].shape[1:], work, rows.dtype.name)
