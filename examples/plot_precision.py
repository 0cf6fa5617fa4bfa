"""How far values are off when a network multiplies in fewer digits.

What one sees: the largest error of exact values over the largest value, by precision. The truth is
in float64; factors of TF32 are rounded by hand. When to use it: before precision= is set for a
GPU or a TPU, with your own network.
"""

import sys
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np

import xaijax as xj

NETWORKS = {"2 x 64": (12, 64, 64, 1), "2 x 512": (60, 512, 512, 1), "6 x 256": (60, *[256] * 6, 1)}


def network(params: Any, rows: Any, cut: Any = lambda x: x) -> Any:
    """Layers with ReLU between them."""
    for matrix in params:
        rows = cut(rows * (rows > 0)) @ cut(matrix)
    return rows[:, 0]


def explained(widths: tuple[int, ...]) -> dict[str, xj.Explanation]:
    """Exact values of 8 rows, the columns in six groups, by precision."""
    rng, pairs = np.random.default_rng(0), list(zip(widths, widths[1:], strict=False))
    params = [(rng.normal(size=d) * np.sqrt(2 / d[0])).astype(np.float32) for d in pairs]
    wide, ten = [one.astype(float) for one in params], lambda x: jax.lax.reduce_precision(x, 8, 10)
    models = {
        "float32": xj.as_model(network, params),
        "TF32": xj.as_model(lambda p, x: network(p, x, ten), params, precision="tf32"),
        "bfloat16": xj.as_model(network, params, precision="bfloat16"),
        "float64": xj.as_model(lambda x: network(wide, x), backend="host"),
    }
    rows = rng.normal(size=(18, widths[0])).astype(np.float32)
    options = {"background": rows[8:], "players": np.arange(widths[0]) * 6 // widths[0]}
    return {name: xj.Explainer(one, **options)(rows[:8]) for name, one in models.items()}


def main(picture: str = "precision.png") -> xj.Explanation:
    """Draw the errors, and print them as the table of docs/accelerators.md."""
    found: dict[str, xj.Explanation] = {}
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    for place, (name, widths) in enumerate(NETWORKS.items()):
        found = explained(widths)
        wanted = found.pop("float64").values
        off = [abs(one.values - wanted).max() / abs(wanted).max() for one in found.values()]
        print("|", name, *(f"| {one:.0e}" for one in off), "|")
        axes.bar([f"{one}\n{name}" for one in found], off, color=f"C{place}")
    axes.set(yscale="log", ylim=(1e-8, 0.1), ylabel="largest error / largest value")
    figure.savefig(picture, dpi=120)
    return found["bfloat16"]


if __name__ == "__main__":
    main(*sys.argv[1:])
