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
