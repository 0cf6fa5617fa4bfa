"""Pixels of an image: what speaks for each of several classes.

What one sees: a handwritten digit, and for three classes the values of its 64 pixels: orange speaks
for the class, blue against it. Over each picture stands the model's probability of that class.

When to use it: for images of some hundred pixels. Values of so many players are sampled, and
`explanation.std_errors` says how far each may be off. Larger images: patches or superpixels as
players.
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import xaijax as xj


def main(picture: str = "pixels.png") -> xj.Explanation:
    """Explain the probabilities of two digits that the network has not seen."""
    X, y = load_digits(return_X_y=True)
    fitted = MLPClassifier((32,), max_iter=300, random_state=0).fit(X[:1000], y[:1000])

    digits = [f"class {digit}" for digit in range(10)]
    model = xj.as_model(fitted, output_names=digits)
    explainer = xj.Explainer(model, X[:10], estimator="permutation", budget=2000)
    explanation = explainer(X[[1015, 1032]], progress=False)

    figure = xj.plots.images(explanation, outputs=["class 3", "class 8", "class 9"], shape=(8, 8))
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
