"""Values of rows by the network, tile by tile, with corrected sums.

The network's own values u do not add up to the right sum. Additive normalisation adds the same
amount to each of the P players,

    phi_j = u_j + (f(x) - base - sum of u) / P,

which gives the nearest values that do add up (FastSHAP, Jethani et al. 2022, section 3). It is
applied during training, and in use, where it is computed in float64.

Letters: N rows, R rows of a tile, P players, K outputs, F columns, D features for the difficulty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputError
from xaijax.methods.amortized.inputs import Inputs
from xaijax.models.model import Model

TILE = 1024  # rows; all tiles of a piece are dispatched before the first is waited for


@dataclass(eq=False)
class Predictor:
    """A network as a function of rows; its program is traced once."""

    network: Network
    inputs: Inputs
    base: np.ndarray  # float64 [K]
    centre: np.ndarray  # float64 [P, K], of the values of the training rows
    scale: np.ndarray  # float64 [K], of these
    known: np.ndarray  # float64 [2, K], mean and spread of f(x)
    traces: int = 0

    def __post_init__(self) -> None:
        self._program = jax.jit(self._of_tile)
        self._features = jax.jit(lambda params, read, full: self.values(params, read, full)[1])

    def learned(self, params: Any) -> None:
        """Sets the network's parameters."""
        params = jax.tree.map(jnp.asarray, params)
        self.network = replace(self.network, params=params)

    @cached_property
    def feature_count(self) -> int:
        """The number D of features for the difficulty."""
        rows = jax.ShapeDtypeStruct((TILE, len(self.inputs.mean)), jnp.float32)
        full = jax.ShapeDtypeStruct((TILE, len(self.base)), jnp.float32)
        return jax.eval_shape(self.values, self.network.params, rows, full)[1].shape[1]

    def values(self, params: Any, read: jax.Array, full: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(values [R, P, K] in float32 that add up, features for the difficulty [R, D]); traced.

        full: f(x) [R, K].
        """
        arrays = self.base, self.centre, self.scale, self.known
        base, centre, scale, known = (np.asarray(array, np.float32) for array in arrays)
        with jax.default_matmul_precision("highest"):
            raw, features = self.network.apply(params, read, (full - known[0]) / known[1])
        values = raw.reshape(-1, *centre.shape) * scale + centre
        gap = full - base - values.sum(axis=1)
        values = values + gap[:, None] / len(centre)
        scaled = (values / scale).reshape(len(values), -1)
        return values, jnp.concatenate([features, scaled, jnp.abs(scaled)], axis=1)

    def of(
        self, params: Any, line: np.ndarray, read: np.ndarray, full: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(values [N, P, K] that add up, heights of the difficulty's line [N]) of rows, float64.

        line: its weights [1 + D]; read: the rows [N, F]; full: f(x) float64 [N, K].
        """
        values, height = np.empty((len(read), *self.centre.shape)), np.empty(len(read))
        line = line.astype(np.float32)
        coming = [
            (tile, self._program(params, line, *_filled(read[tile], full[tile])))
            for tile in _tiles(len(read))
        ]
        for tile, (part, heights) in coming:
            n = len(read[tile])
            values[tile], height[tile] = np.asarray(part)[:n], np.asarray(heights)[:n]
        values += ((full - self.base - values.sum(axis=1)) / values.shape[1])[:, None]
        return values, height

    def features(self, params: Any, read: np.ndarray, full: np.ndarray) -> np.ndarray:
        """The features for the difficulty of rows, float64 [N, D]."""
        parts = [
            np.asarray(self._features(params, *_filled(read[tile], full[tile])), np.float64)
            for tile in _tiles(len(read))
        ]
        return np.concatenate(parts)[: len(read)]

    def _of_tile(self, params: Any, line: jax.Array, read: jax.Array, full: jax.Array) -> Any:
        self.traces += 1
        values, features = self.values(params, read, full)
        with jax.default_matmul_precision("highest"):
            return values, line[0] + features @ line[1:]


def _tiles(rows: int) -> list[slice]:
    return [slice(first, first + TILE) for first in range(0, rows, TILE)]


def _filled(*parts: np.ndarray) -> list[np.ndarray]:
    """The same rows in float32, padded to the size of a tile by repeating the last one."""
    more = TILE - len(parts[0])
    return [
        np.pad(part, ((0, more), (0, 0)), mode="edge").astype(np.float32, copy=False)
        for part in parts
    ]


# (parameters, rows as `Inputs.read` gives them [R, F], standardised f(x) [R, K]) -> (raw values [R,
# P K], more features for the difficulty of a row [R, any])
Apply = Callable[[Any, jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


@dataclass(frozen=True, eq=False)
class Network:
    """A network to train: a function, and its initial parameters."""

    apply: Apply
    params: Any  # a pytree of float arrays


def dense(inputs: Inputs, hidden: tuple[int, ...], K: int, outputs: int, seed: int) -> Network:
    """Layers of these widths with SiLU between them, on the encoded inputs and f(x).

    The last layer starts near 0, so all rows start at the mean values.
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


def trainable(model: Model, inputs: Inputs, outputs: int) -> Network:
    """The user's own module, as `as_model` made it: standardised rows [R, *F] -> [R, P K].

    Its float arrays are trained; others stay as they are.
    """
    answer = model.apply
    if model.loop != "jax" or answer is None:
        raise InputError(
            f"network={model.name} runs on the host, where it cannot be trained. Give a JAX "
            "module: xaijax.as_model(module), or as_model(f, params)."
        )
    if inputs.texts:
        raise InputError(
            "network= takes rows of numbers, but X has columns of texts. Encode them, or say "
            "hidden=."
        )
    leaves, structure = jax.tree.flatten(model.params)
    trained = [n for n, leaf in enumerate(leaves) if _is_float(leaf)]
    if not trained:
        raise InputError(
            f"network={model.name} has no parameters to train. Say as_model(f, params)."
        )

    def apply(params: Any, read: jax.Array, known: jax.Array) -> tuple[jax.Array, jax.Array]:
        whole = list(leaves)
        for n, leaf in zip(trained, params, strict=True):
            whole[n] = leaf
        rows = inputs.shaped(read)
        values = answer(jax.tree.unflatten(structure, whole), rows)
        return values.reshape(len(rows), -1), jnp.concatenate([inputs.encoded(read), known], axis=1)

    seven = jax.ShapeDtypeStruct((7, *inputs.shape), jnp.float32)  # which no module gives by chance
    result = jax.eval_shape(answer, model.params, seven)
    if result.size != 7 * outputs:
        raise InputError(
            f"network={model.name} gives {result.size // 7} numbers for a row, but there are "
            f"{outputs} values, one for each player and output. Make its last layer that wide."
        )
    return Network(apply, [jnp.asarray(leaves[n]) for n in trained])


def _is_float(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)
