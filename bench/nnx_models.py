"""Networks in Flax nnx as users have them, trained: a convolutional one on scikit-learn's digits,
and a reader of generated sentences by attention. Imported on use, where Flax is installed.

Letters: N rows, L places of a sentence, D numbers of a word, K outputs.
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

WORDS, TURNS = 32, 3  # of the language; the word that turns the next one's worth
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


class Reader(nnx.Module):
    """Sentences {"ids": int [N, L], "mask": bool [N, L]} -> scores [N, 2]."""

    def __init__(self, L: int, D: int, heads: int) -> None:
        rngs = nnx.Rngs(0)
        self.words, self.places = nnx.Embed(WORDS, D, rngs=rngs), nnx.Embed(L, D, rngs=rngs)
        self.norm = nnx.LayerNorm(D, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(heads, D, decode=False, rngs=rngs)
        self.inner = nnx.Linear(D, 2 * D, rngs=rngs)
        self.outer = nnx.Linear(2 * D, D, rngs=rngs)
        self.last = nnx.Linear(D, 2, rngs=rngs)

    def __call__(self, rows: dict[str, jax.Array]) -> jax.Array:
        ids, mask = rows["ids"], rows["mask"]
        read = self.words(ids) + self.places(jnp.arange(ids.shape[1]))
        read = read + self.attention(self.norm(read), mask=mask[:, None, None, :])
        read = read + self.outer(nnx.relu(self.inner(read)))
        read = jnp.where(mask[..., None], read, 0)
        return self.last(read.sum(axis=1) / mask.sum(axis=1, keepdims=True))


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images float32 [1797, 8, 8, 1] of numbers in [0, 1], and the digits."""
    read: Any = load_digits()
    flat, y = read.data, read.target
    return (flat / 16).astype(np.float32).reshape(-1, 8, 8, 1), y


def sentences(N: int, L: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Rows, and whether good words outweigh the bad ones; half to all of the places are filled.

    A quarter of the words is good and a quarter bad; TURNS makes the next one its opposite.
    """
    rng = np.random.default_rng(seed)
    mask = np.arange(L) < rng.integers(L // 2, L + 1, (N, 1))
    ids = np.where(mask, rng.integers(1, WORDS, (N, L)), 0)
    worth = np.select([ids % 4 == 1, ids % 4 == 2], [1, -1], 0)
    turned = np.pad(ids == TURNS, ((0, 0), (1, 0)))[:, :-1]
    y = np.where(turned, -worth, worth).sum(axis=1) > 0
    return {"ids": ids.astype(np.int32), "mask": mask}, y.astype(np.int32)


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
        own = jax.tree.map(lambda leaf, some=some: leaf[some], rows)
        step(network, optimizer, own, jnp.asarray(y[some]))


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
