"""A convolutional network in Flax nnx, trained on scikit-learn's digits; imported where it is used,
since Flax may be missing. Letters: N rows, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

BATCH, RATE = 128, 3e-3


class Convolutional(nnx.Module):
    """Images [N, 8, 8, 1] -> scores [N, K]."""

    def __init__(self, channels: tuple[int, int], hidden: int, outputs: int) -> None:
        rngs = nnx.Rngs(0)
        self.first = nnx.Conv(1, channels[0], (3, 3), rngs=rngs)
        self.second = nnx.Conv(*channels, (3, 3), rngs=rngs)
        self.dense = nnx.Linear(4 * channels[1], hidden, rngs=rngs)
        self.last = nnx.Linear(hidden, outputs, rngs=rngs)

    def __call__(self, images: jax.Array) -> jax.Array:
        for layer in (self.first, self.second):
            images = nnx.max_pool(nnx.relu(layer(images)), (2, 2), (2, 2))
        return self.last(nnx.relu(self.dense(images.reshape(len(images), -1))))


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images float32 [1797, 8, 8, 1] of numbers in [0, 1], and the digits."""
    read: Any = load_digits()
    flat, y = read.data, read.target
    return (flat / 16).astype(np.float32).reshape(-1, 8, 8, 1), y


def train(network: Any, rows: Any, y: np.ndarray, steps: int) -> None:
    """Steps of Adam on the cross entropy."""
    optimizer = nnx.Optimizer(network, optax.adam(RATE), wrt=nnx.Param)

    @nnx.jit
    def step(network: Any, optimizer: Any, rows: Any, y: Any) -> None:
        def loss(one: Any) -> jax.Array:
            return optax.softmax_cross_entropy_with_integer_labels(one(rows), y).mean()

        optimizer.update(network, nnx.grad(loss)(network))

    rng = np.random.default_rng(0)
    for _ in range(steps):
        some = rng.integers(0, len(y), BATCH)
        step(network, optimizer, rows[some], jnp.asarray(y[some]))


def forward_of(network: Any) -> tuple[Callable[[Any, Any], jax.Array], Any]:
    """(forward(params, rows) -> [N, K], params) of a network."""
    graph, params = nnx.split(network)
    return lambda params, rows: nnx.merge(graph, params)(rows), params


def with_last(network: Convolutional, kernel: np.ndarray, bias: np.ndarray) -> Convolutional:
    """A copy that ends in this layer, [hidden, K] and [K]."""
    copy = nnx.clone(network)
    last: Any = nnx.Linear(*kernel.shape, rngs=nnx.Rngs(0))
    last.kernel, last.bias = nnx.Param(jnp.asarray(kernel)), nnx.Param(jnp.asarray(bias))
    copy.last = last
    return copy
