"""A network that may not use one column: its Shapley value stands in the loss.

The loss of the second network adds the mean square of the value of "Age" in log-odds, by one pair
of orders a row: unbiased values, whose variance is pushed down as well. Exact values of unseen rows
tell what was reached, and what it costs.

    XAIJAX_DATA=... python examples/attribution_prior.py [prior.png]
"""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import xaijax as xj

HELD, STRENGTH, STEPS, BATCH = "Age", 3.0, 600, 256


def log_odds(layers, rows):
    """Standardised rows [R, F] -> [R]."""
    for weight, bias in layers[:-1]:
        rows = jnp.tanh(rows @ weight + bias)
    return (rows @ layers[-1][0] + layers[-1][1])[:, 0]


@partial(jax.jit, static_argnames=("column", "strength"))
def train(rows, labels, column, strength):
    """Adam in one compiled loop; `strength` times the mean squared value of `column` is added."""
    optimiser, widths = optax.adam(3e-3), (rows.shape[1], 32, 32, 1)
    sizes = list(zip(widths, widths[1:], jax.random.split(jax.random.key(0), 3), strict=False))
    layers = [(jax.random.normal(key, (a, b)) / a**0.5, jnp.zeros(b)) for a, b, key in sizes]

    def loss(layers, key):
        draw, others, orders = jax.random.split(key, 3)
        own = jax.random.randint(draw, (BATCH,), 0, len(rows))
        error = optax.sigmoid_binary_cross_entropy(log_odds(layers, rows[own]), labels[own]).mean()
        if strength == 0:
            return error
        background = rows[jax.random.randint(others, (8,), 0, len(rows))]
        given = {"params": layers, "orders": 1, "key": orders}
        values = xj.shapley_values(log_odds, rows[own[:32]], background, **given)
        return error + strength * jnp.mean(values[:, column] ** 2)

    def step(carry, key):
        layers, state = carry
        updates, state = optimiser.update(jax.grad(loss)(layers, key), state)
        return (optax.apply_updates(layers, updates), state), None

    keys = jax.random.split(jax.random.key(1), STEPS)
    return jax.lax.scan(step, (layers, optimiser.init(layers)), keys)[0][0]


def main(picture="prior.png"):
    """Train both, explain 200 unseen rows of each, draw the column's values."""
    (X, y), (new, truth) = xj.datasets.adult("shap"), xj.datasets.adult("shap", part="test")
    mean, scale, column = X.mean(), X.std(), list(X.columns).index(HELD)
    rows, unseen = (np.asarray((some - mean) / scale, np.float32) for some in (X, new))
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, strength in (("free", 0.0), (f"{HELD} held near 0", STRENGTH)):
        layers = train(rows, y.to_numpy(np.float32), column, strength)
        model = xj.as_model(log_odds, layers)
        right = ((model.predict(unseen) > 0) == truth.to_numpy()).mean()
        found = xj.Explainer(model, rows[:50])(unseen[:200], progress=False)
        size = np.abs(found.values[:, column]).mean()
        print(f"{name}: accuracy {right:.1%}, mean size of the value of {HELD} {size:.3f}")
        axes.scatter(new[HELD][:200], found.values[:, column], s=8, label=f"{name}, {right:.1%}")
    axes.set(xlabel=HELD, ylabel="Shapley value, log-odds")
    axes.legend(title="network, accuracy")
    figure.savefig(picture, dpi=150)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
