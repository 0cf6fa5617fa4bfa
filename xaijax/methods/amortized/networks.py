"""The layers of an amortised explainer: dense ones, or a module of the user's own.

Letters: R rows, F columns, P players, K outputs, D what the difficulty of a row is told by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputError
from xaijax.methods.amortized.inputs import Inputs
from xaijax.models.model import Model

# (parameters, rows as `Inputs.read` gives them [R, F], standardised f(x) [R, K]) ->
# (raw values [R, P K], what else tells how difficult a row is [R, any])
Apply = Callable[[Any, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


@dataclass(frozen=True, eq=False)
class Network:
    """What is trained: a function, and the parameters that it starts with."""

    apply: Apply
    params: Any  # a pytree of float arrays


def dense(inputs: Inputs, hidden: tuple[int, ...], K: int, outputs: int, seed: int) -> Network:
    """Layers of these widths with SiLU between them, of the encoded inputs and f(x).

    The last layer starts near 0, so that all rows start at the mean values.
    """
    widths = (inputs.width + K, *hidden, outputs)
    rng = np.random.default_rng([seed, 1])
    layers = []
    for n, (wide, out) in enumerate(zip(widths, widths[1:], strict=False)):
        size = np.sqrt(2 / max(wide, 1)) * (0.1 if n == len(hidden) else 1.0)
        weight = size * rng.standard_normal((wide, out))
        layers.append((jnp.asarray(weight, jnp.float32), jnp.zeros(out, jnp.float32)))

    def apply(layers: Any, read: jax.Array, known: jax.Array) -> tuple[jax.Array, jax.Array]:
        wide = jnp.concatenate([inputs.encoded(read), known], axis=1)
        for weight, bias in layers[:-1]:
            wide = jax.nn.silu(wide @ weight + bias)
        weight, bias = layers[-1]
        return wide @ weight + bias, wide

    return Network(apply, layers)


def given(model: Model, inputs: Inputs, outputs: int) -> Network:
    """A module of the user's own, as `as_model` made it: standardised rows [R, *F] -> [R, P K].

    Its arrays of floats are trained; others stay as they are.
    """
    answer = model.apply
    if model.loop != "jax" or answer is None:
        raise InputError(
            f"network={model.name} runs on the host, where it cannot be trained. Give a JAX "
            "module: xaijax.as_model(module), or as_model(f, params)."
        )
    if not inputs.plain:
        raise InputError(
            "network= takes rows of numbers, but X has columns of texts. Encode them, or leave "
            "network= out: hidden= takes them."
        )
    leaves, structure = jax.tree.flatten(model.params)
    trained = [n for n, leaf in enumerate(leaves) if _is_float(leaf)]
    if not trained:
        raise InputError(
            f"network={model.name} has no parameters to train. Give a module with its variables, "
            "or as_model(f, params)."
        )

    def apply(params: Any, read: jax.Array, known: jax.Array) -> tuple[jax.Array, jax.Array]:
        whole = list(leaves)
        for n, leaf in zip(trained, params, strict=True):
            whole[n] = leaf
        rows = inputs.shaped(read)
        values = answer(jax.tree.unflatten(structure, whole), rows)
        return values.reshape(len(rows), -1), jnp.concatenate([inputs.encoded(read), known], axis=1)

    found = jax.eval_shape(answer, model.params, _seven(inputs))
    if found.size != 7 * outputs:
        raise InputError(
            f"network={model.name} gives {found.size // 7} numbers for a row, but there are "
            f"{outputs} values, one for each player and output. Make its last layer that wide."
        )
    return Network(apply, [jnp.asarray(leaves[n]) for n in trained])


def _is_float(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)


def _seven(inputs: Inputs) -> jax.ShapeDtypeStruct:
    """Rows of a number that no module gives by chance."""
    return jax.ShapeDtypeStruct((7, *inputs.shape), jnp.float32)
