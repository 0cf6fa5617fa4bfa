"""Defines the demo's model, a small dense network in plain JAX, and trains it with optax.

Letters: R rows, F features, M training rows.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

HIDDEN = (64, 64)
BATCH = 256
LEARNING_RATE = 3e-3

Params = dict[str, Any]


def probability(params: Params, X: jax.Array) -> jax.Array:
    """Maps rows [R, F] to the probability of the positive class [R]; `as_model` takes this
    function.
    """
    return jax.nn.sigmoid(logit(params, X))


def logit(params: Params, X: jax.Array) -> jax.Array:
    """Maps rows [R, F] to log-odds [R].

    The rows are standardised here, not before: the explained values are those of the table, and
    equal values of an instance and a background row stay equal bit for bit.
    """
    hidden = (X - params["mean"]) / params["scale"]
    *inner, last = params["layers"]
    for weight, bias in inner:
        hidden = jax.nn.relu(hidden @ weight + bias)
    return (hidden @ last[0] + last[1])[:, 0]


def train(X: np.ndarray, y: np.ndarray, steps: int, seed: int) -> Params:
    """Returns parameters fitted to X [M, F] and y [M] by Adam, all steps in one compiled loop."""
    draw, start = jax.random.split(jax.random.key(seed))
    spread = X.std(axis=0)
    params = {
        "mean": jnp.asarray(X.mean(axis=0), jnp.float32),
        "scale": jnp.asarray(np.where(spread > 0, spread, 1), jnp.float32),
        "layers": _layers((X.shape[1], *HIDDEN, 1), start),
    }
    rows, labels = jnp.asarray(X, jnp.float32), jnp.asarray(y, jnp.float32)
    return _fit(params, rows, labels, jax.random.split(draw, steps))


def _layers(widths: tuple[int, ...], key: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
    keys = jax.random.split(key, len(widths) - 1)
    scales = np.sqrt(2 / np.array(widths)).astype(np.float32)
    layers = zip(keys, scales, widths, widths[1:], strict=False)
    return [(jax.random.normal(k, (n, m)) * scale, jnp.zeros(m)) for k, scale, n, m in layers]


@jax.jit
def _fit(params: Params, X: jax.Array, y: jax.Array, keys: jax.Array) -> Params:
    fixed = {"mean": params["mean"], "scale": params["scale"]}
    optimiser = optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, len(keys)))

    def loss(layers: Any, rows: jax.Array, labels: jax.Array) -> jax.Array:
        scores = logit({**fixed, "layers": layers}, rows)
        return optax.sigmoid_binary_cross_entropy(scores, labels).mean()

    def step(carry: Any, key: jax.Array) -> Any:
        layers, state = carry
        batch = jax.random.randint(key, (BATCH,), 0, len(X))
        gradient = jax.grad(loss)(layers, X[batch], y[batch])
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(layers, updates), state), None

    start = (params["layers"], optimiser.init(params["layers"]))
    (layers, _), _ = jax.lax.scan(step, start, keys)
    return {**fixed, "layers": layers}
