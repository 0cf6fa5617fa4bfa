"""What a rule keeps of an image: the patches that were enough for its class.

What one sees: three handwritten digits. The patches with a line around them are a rule: images with
these patches, and any other digit's pixels elsewhere, nearly always get the same class. All else is
faded. Over each picture stand the class and the share of such images that get it.

When to use it: to show what was enough for the class of an image. `plots.kept(rule, words=...)`
shows a sentence in the same way.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import xaijax as xj

PATCHES = np.arange(16).reshape(4, 4).repeat(2, axis=0).repeat(2, axis=1)  # [8, 8]


def main(picture: str = "kept.png") -> xj.Rules:
    """Find rules for three digits that the network has not seen."""
    X, y = load_digits(return_X_y=True)
    fitted = MLPClassifier((32,), max_iter=300, random_state=0).fit(X[:1000], y[:1000])

    patches = {f"patch {n}": np.flatnonzero(PATCHES == n) for n in range(16)}
    anchors = xj.AnchorExplainer(
        xj.as_model(fitted), X[:200], players=patches, perturbation="row", target="digit"
    )
    rules = anchors.explain(X[[1015, 1032, 1019]], threshold=0.9, progress=False)

    figure, axes = plt.subplots(1, 3, figsize=(8, 3), layout="constrained")
    for ax, rule, place in zip(axes, rules, (1015, 1032, 1019), strict=True):
        xj.plots.kept(rule, 16 - X[place].reshape(8, 8), PATCHES, ax)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return rules


if __name__ == "__main__":
    main(*sys.argv[1:])
