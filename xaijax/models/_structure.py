"""The `structure=` of a JAX model: read, made ready, and compared with the model itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax._errors import InputError, InputTypeError
from xaijax._public import public_class
from xaijax.models._options import came
from xaijax.models._trace import MATMUL, Selected, traced
from xaijax_kernels.structures.dense import Dense

# Two roundings of one float32 network, whose sums go in another order, differ by far less; a layer
# that is not the model's differs by as much as the answers do.
AGREES = 1e-3
HYBRIDS = 4  # masks by which probe rows are mixed
ROUNDINGS = 64  # of the level, by layers that are added up in another order
PLAIN = "plain"  # the model is asked whole rows
EPS = {"float32": 2.0**-23, "tf32": 2.0**-10, "float64": 2.0**-52}


@public_class
@dataclass(frozen=True)
class FirstLayer:
    """Declares that a model begins with a dense layer: f(X) = head(X W + b).

    Arguments:
        weights: params -> (W [F, H], b [H]); without params, () -> (W, b). F counts the numbers of
            one instance, flattened; what is done to the input before the layer (a shift, a scale)
            must be folded in.
        head: (params, hidden [R, H]) -> the model's answer to R rows; without params, hidden -> it.

    It is compared with the model on probe rows before it is used.
    """

    weights: Callable[..., tuple[Any, Any]]
    head: Callable[..., Any]


@dataclass(frozen=True)
class Walk:
    """A first layer, made ready: what the engine asks of it."""

    weights: Callable[[Any], tuple[Any, Any]]  # params -> W [F, H], b [H]
    head: Selected  # (params, hidden [R, H]) -> [R] or [R, K], the model's chosen output
    name = "first layer"

    def of(self, params: Any) -> Dense:
        """What the engine asks at the corners of a pair."""
        weights, bias = self.weights(params)
        return Dense(jnp.asarray(weights), jnp.asarray(bias))


def ready(
    structure: Any,
    backend: str,
    has_params: bool,
    select: Callable[[Any], Any] | None,
    precision: str,
    name: str,
) -> Walk | str | None:
    """Read `structure=`; raises InputTypeError, InputError."""
    if structure is None or (isinstance(structure, str) and structure == PLAIN):
        return structure
    if not isinstance(structure, FirstLayer):
        raise InputTypeError(
            f'structure= must be a xaijax.FirstLayer, "{PLAIN}" or None, got {came(structure)}.'
        )
    if backend != "jax":
        raise InputError(
            f"structure= describes functions that JAX traces, and {name} is none. Leave it out: "
            "what is known of an estimator that runs in JAX is found."
        )
    weights, head = structure.weights, structure.head
    own_weights: Any = weights if has_params else lambda _: weights()
    own_head: Any = head if has_params else lambda _, hidden: head(hidden)
    return Walk(own_weights, Selected(traced(own_head, precision, name), select, precision))


Evaluate = Callable[[Any], np.ndarray]  # rows [R, *F] -> the model's answer, [R] or [R, K]


def refuse_other(model: Any, rows: np.ndarray, evaluate: Evaluate) -> None:
    """Raise InputError where the structure does not describe the model; rows: the probe's."""
    weights, bias = model.structure.weights(model.params)
    F = rows[0].size
    if weights.shape[:1] != (F,) or bias.shape != weights.shape[1:]:
        raise InputError(
            f"structure=: the first layer of {model.name} must have weights [{F}, H] and a bias "
            f"[H]; got {list(weights.shape)} and {list(bias.shape)}."
        )
    off = difference(model.structure, model, rows, evaluate)
    if off:
        raise InputError(
            f"structure= does not describe {model.name}: on {len(rows)} probe rows and hybrids of "
            f"them head(X W + b) differs from the model ({off}). Fold what is done to the input "
            "before the layer into W and b, or leave structure= out."
        )


def difference(structure: Any, model: Any, rows: np.ndarray, evaluate: Evaluate) -> str:
    """How head(structure) differs from the model's answer to rows [R, *F] and to hybrids of them,
    each made of two parts as the engine makes it; empty: it does not.

    Whole rows alone would not show that a number is taken for that of another column.
    """
    R, shape = len(rows), rows.shape[1:]
    flat, donors = rows.reshape(R, -1), np.roll(rows, 1, axis=0).reshape(R, -1)
    some = np.random.default_rng(0).random((HYBRIDS, flat.shape[1])) < 0.5
    every = np.ones((1, flat.shape[1]), bool)

    def mixed(params: Any, flat: Any, donors: Any, kept: Any) -> tuple[Any, Any]:
        with jax.default_matmul_precision(MATMUL[model.precision]):
            known = structure.of(params)
            x, other = known.columns(flat), known.columns(donors)
            own = known.kept_columns(jnp.broadcast_to(kept, flat.shape))
            parts = known.part(x, own), known.part(other, ~own)
            hidden = jax.vmap(lambda a, b: known.joined(a[None], b[None])[0, 0])(*parts)
        usable = jnp.isfinite(x).all(axis=1) & jnp.isfinite(other).all(axis=1)
        return structure.head(params, hidden), usable

    key = ("difference", structure)
    run = model.compiled.setdefault(key, jax.jit(mixed))  # once for all explainers of a model
    for kept in np.concatenate([every, some]):
        found, usable = (np.asarray(one) for one in run(model.params, flat, donors, kept))
        answer = evaluate(np.where(kept, flat, donors).reshape(R, *shape))
        if found.shape != answer.shape:
            return f"shapes {found.shape} and {answer.shape}"
        found, answer = (one[usable].astype(np.float64) for one in (found, answer))
        off = _difference(found, answer, EPS[model.precision]) if usable.any() else ""
        if off:
            return off
    return ""


def _difference(found: np.ndarray, answer: np.ndarray, eps: float) -> str:
    """How two answers [R] or [R, K] to the same rows differ; empty where only rounding tells them
    apart. Rows whose answers are not finite must be the same ones, and say nothing more."""
    finite = np.isfinite(answer).reshape(len(answer), -1).all(axis=1)
    if (np.isfinite(found).reshape(len(found), -1).all(axis=1) != finite).any():
        return "other answers are not finite"
    found, answer = found[finite], answer[finite]
    if not len(answer):
        return ""
    # Against the spread of the answers, which the layer makes, and the rounding of their level.
    accepted = AGREES * np.ptp(answer, axis=0) + ROUNDINGS * eps * np.abs(answer).max(axis=0)
    off = np.abs(found - answer).max(axis=0)
    return "" if (off <= accepted).all() else f"by {off.max():.3g}"
