"""Patches of one image: which of them speak for a class, which against it.

What one sees: a handwritten digit, and the values of its 16 patches for the class that the network
gives it. Orange patches speak for the class and blue ones against it; a line goes around each.

When to use it: for one image whose pixels are too many or too small to be players of their own.
Values of 16 patches are exact. Superpixels are given in the same way, as a number for each pixel.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import xaijax as xj

PATCHES = np.arange(16).reshape(4, 4).repeat(2, axis=0).repeat(2, axis=1)  # [8, 8]


def main(picture: str = "image.png") -> xj.Explanation:
    """Explain a digit that the network has not seen, patch by patch."""
    X, y = load_digits(return_X_y=True)
    fitted = MLPClassifier((32,), max_iter=300, random_state=0).fit(X[:1000], y[:1000])

    model = xj.as_model(fitted, output_names=[f"class {digit}" for digit in range(10)])
    patches = {f"patch {n}": np.flatnonzero(PATCHES == n) for n in range(16)}
    explanation = xj.Explainer(model, X[:10], players=patches)(X[[1015]], progress=False)

    figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.4), layout="constrained")
    left.imshow(X[1015].reshape(8, 8), cmap="Greys")
    left.set_axis_off()
    xj.plots.image(explanation, right, output=f"class {y[1015]}", shape=(8, 8), players=PATCHES)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
