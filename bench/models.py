"""The network and the inputs that several cases share. Imports nothing of xaijax at start."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from bench.frame import NotRun

Params = dict[str, Any]


def mlp(widths: tuple[int, ...], rows: np.ndarray, *, seed: int = 0) -> Params:
    """Parameters of a network of random weights that normalises its inputs as `rows` [R, F] ask."""
    rng = np.random.default_rng(seed)
    layers = [
        (
            (rng.normal(size=(fan_in, fan_out)) * np.sqrt(2 / fan_in)).astype(np.float32),
            (0.1 * rng.normal(size=fan_out)).astype(np.float32),
        )
        for fan_in, fan_out in zip(widths, widths[1:], strict=False)
    ]
    scale = rows.std(axis=0)
    return {
        "shift": rows.mean(axis=0).astype(np.float32),
        "scale": np.where(scale > 0, scale, 1).astype(np.float32),
        "layers": layers,
    }


def forward(params: Params, rows: jax.Array) -> jax.Array:
    """Rows [R, F] -> outputs [R]: dense layers with ReLU between them."""
    hidden = (rows - params["shift"]) / params["scale"]
    for weight, bias in params["layers"][:-1]:
        hidden = jax.nn.relu(hidden @ weight + bias)
    weight, bias = params["layers"][-1]
    return (hidden @ weight + bias)[:, 0]


def continuous(
    instances: int, background: int, players: int, *, seed: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Normal draws: instances [N, P] and background rows [B, P], no two values equal."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(instances, players)).astype(np.float32)
    return X, rng.normal(size=(background, players)).astype(np.float32)


def adult_table(
    reading: Literal["raw", "qii", "shap"], *, shuffle: bool = True, seed: int = 2
) -> tuple[Any, Any]:
    """Adult in the given reading; `NotRun` where the table cannot be had."""
    import xaijax  # noqa: PLC0415 - a cold start must not pay for it

    datasets = xaijax.datasets
    try:
        X, y = datasets.adult(reading)
    except (datasets.DataNotFoundError, datasets.MissingExtraError) as error:
        # Short: it stands in the table. The error itself has the places that were looked in.
        raise NotRun(f"no Adult table ({type(error).__name__}): set XAIJAX_DATA") from error
    if not shuffle:
        return X, y
    order = np.random.default_rng(seed).permutation(len(X))
    return X.iloc[order].reset_index(drop=True), y.iloc[order].reset_index(drop=True)


def adult_codes(instances: int, background: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Adult as codes: instances [N, 12], background rows [B, 12], and all rows [R, 12]."""
    X, _ = adult_table("shap")
    rows = X.to_numpy(dtype=np.float32)
    return rows[background : background + instances], rows[:background], rows


def predict(params: Params, rows: np.ndarray) -> np.ndarray:
    """The model on host rows, as float64 [R], for comparisons."""
    return np.asarray(jax.jit(forward)(params, jnp.asarray(rows)), dtype=np.float64)


def transformer(
    tokens: int, width: int, layers: int, inputs: int, outputs: int, *, seed: int = 0
) -> Params:
    """Random parameters of a transformer: `inputs` numbers, or words, make a token."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.normal(size=(rows, columns)) / np.sqrt(rows)).astype(np.float32)

    def block() -> Params:
        into = {name: matrix(width, width) for name in ("query", "key", "value", "out")}
        return into | {"up": matrix(width, 4 * width), "down": matrix(4 * width, width)}

    return {
        "embed": matrix(inputs, width),
        "place": 0.02 * rng.normal(size=(tokens, width)).astype(np.float32),
        "blocks": [block() for _ in range(layers)],
        "head": matrix(width, outputs),
    }


def _layers(params: Params, hidden: jax.Array, *, heads: int, causal: bool) -> jax.Array:
    """[R, T, D] -> [R, T, D]: attention and two dense layers, each of normalised numbers."""
    for block in params["blocks"]:
        own = jax.nn.standardize(hidden)
        split = (*own.shape[:2], heads, -1)
        q, k, v = ((own @ block[name]).reshape(split) for name in ("query", "key", "value"))
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=causal)
        hidden = hidden + mixed.reshape(own.shape) @ block["out"]
        own = jax.nn.standardize(hidden)
        hidden = hidden + jax.nn.gelu(own @ block["up"]) @ block["down"]
    return jax.nn.standardize(hidden)


def vit(params: Params, images: jax.Array) -> jax.Array:
    """Images [R, 64, 64, 3] -> scores [R, K], by 64 patches of 8 x 8 pixels."""
    R = len(images)
    patches = images.reshape(R, 8, 8, 8, 8, 3).swapaxes(2, 3).reshape(R, 64, -1)
    hidden = _layers(params, patches @ params["embed"] + params["place"], heads=4, causal=False)
    return hidden.mean(axis=1) @ params["head"]


def gpt(params: Params, words: jax.Array) -> jax.Array:
    """Words [R, T], whole numbers -> the score [R] of the first word as the next one."""
    hidden = params["embed"][words.astype(jnp.int32)] + params["place"]
    return (_layers(params, hidden, heads=4, causal=True)[:, -1] @ params["head"])[:, 0]
