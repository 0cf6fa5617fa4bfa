"""Which fast attribution is good enough: a few, held against exact values on the same network.

python examples/judge_attributions.py [picture.png]
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import xaijax as xj


def f(params, X):
    """A small network; rows [R, 8] -> [R]."""
    return jnp.tanh(X @ params["w"]) @ params["v"]


def gradients(params, X, centre):
    """Gradient times the distance from the middle of the background; [N, 8]."""
    slope = jax.vmap(jax.grad(lambda x: f(params, x[None])[0]))
    return np.asarray(slope(X) * (X - centre))


def main(picture: str = "judged.png") -> xj.Explanation:
    """Judge three attributions, draw their insertion curves; returns the exact explanation."""
    rng = np.random.default_rng(0)
    params = {
        "w": rng.normal(size=(8, 16)).astype(np.float32),
        "v": rng.normal(size=16).astype(np.float32) / 4,
    }
    X = rng.normal(size=(100, 8)).astype(np.float32)
    model, background = xj.as_model(f, params), X[:20]
    explainer = xj.Explainer(model, background)

    def sampled(pairs: int) -> xj.Explanation:
        budget = 14 * pairs  # 2 (P - 1) coalitions for a pair of orders
        few = xj.Explainer(model, background, estimator="permutation", budget=budget)
        return few(X)

    exact = explainer(X)
    judged = xj.judge(
        {
            "exact": exact,
            "one pair of orders": sampled(1),
            "four pairs of orders": sampled(4),
            "gradients": gradients(params, X, background.mean(axis=0)),
        },
        explainer,
        X,
        curves=True,
    )
    print(judged)
    xj.plots.faithfulness(judged)
    plt.savefig(picture, dpi=150)
    return exact


if __name__ == "__main__":
    main(*sys.argv[1:])
