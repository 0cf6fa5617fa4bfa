"""Which patches of an image speak for a class? Exact values of 16 patches.

Rows are images [8, 8]; `players` is a mask of that shape that gives each pixel the number of its
patch. The model is plain JAX and has ten outputs, so the values are [N, 16, 10].

    python examples/image_players.py [patches.png]
"""

import sys

import jax
import matplotlib.pyplot as plt
import numpy as np
import optax
from sklearn.datasets import load_digits

import xaijax as xj

PATCHES = np.arange(16).reshape(4, 4).repeat(2, axis=0).repeat(2, axis=1)  # [8, 8]


def scores(params, images):
    """Images [R, 8, 8] -> one score a class [R, 10]."""
    inner, outer = params
    return jax.nn.relu(images.reshape(len(images), 64) / 16 @ inner) @ outer


def train(images, labels, steps=300):
    """Adam on all images at once, in one compiled loop."""
    shapes, keys = ((64, 64), (64, 10)), jax.random.split(jax.random.key(0))
    params = [0.15 * jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)]
    optimiser = optax.adam(1e-2)

    def loss(params):
        answers = scores(params, images)
        return optax.softmax_cross_entropy_with_integer_labels(answers, labels).mean()

    def step(carry, _):
        params, state = carry
        updates, state = optimiser.update(jax.grad(loss)(params), state)
        return (optax.apply_updates(params, updates), state), None

    return jax.jit(lambda start: jax.lax.scan(step, start, length=steps)[0][0])(
        (params, optimiser.init(params))
    )


def main(picture="patches.png"):
    """Explain the scores of 20 images that the network has not seen."""
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8).astype(np.float32)
    params = train(images[:-400], labels[:-400])

    digits = [str(digit) for digit in range(10)]
    model = xj.as_model(scores, params, input_shape=(8, 8), output_names=digits)
    right = model.predict(images[-400:]).argmax(axis=1) == labels[-400:]
    print(f"accuracy {right.mean():.1%}")

    blank = xj.Baseline(np.zeros((8, 8), np.float32))  # what stands where a patch is taken away
    explanation = xj.Explainer(model, blank, players=PATCHES)(images[-20:], progress=True)
    print(explanation)

    figure, axes = plt.subplots(2, 6, figsize=(10, 3.6), layout="constrained")
    for i, (above, below) in enumerate(axes.T):
        one = explanation[i, :, str(labels[i - 20])]  # what speaks for the image's own digit
        above.imshow(one.data[0], cmap="Greys")
        above.set_title(f"score of {labels[i - 20]}: {one.base_values[0] + one.values.sum():.1f}")
        below.imshow(one.values[0][PATCHES], cmap="PuOr_r", vmin=-8, vmax=8)
        above.set_axis_off()
        below.set_axis_off()
    figure.colorbar(axes[1, -1].images[0], ax=axes[1], label="Shapley value")
    figure.savefig(picture, dpi=150)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
