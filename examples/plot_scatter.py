"""A column's value over its own data: the shape that a model has learned.

What one sees: each dot is a tumour, its place the size of "mean concave points" and its share of
the chance of "benign". The cloud bends where the network does; the colour, another column, tells
who acts together with it.

When to use it: to see where a column begins to matter, and in which direction.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "scatter.png") -> xj.Explanation:
    """Explain the chance of "benign" of 200 tumours by a network of 16 units, exactly."""
    tumours: Any = load_breast_cancer()
    X, names = tumours.data[:, :8], tumours.feature_names[:8]
    network = MLPClassifier((16,), max_iter=2_000, random_state=0)
    fitted = make_pipeline(StandardScaler(), network).fit(X, tumours.target_names[tumours.target])

    model = xj.as_model(fitted, output="benign", feature_names=names)
    explanation = xj.Explainer(model, X[:50])(X[50:250], progress=False)

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    xj.plots.scatter(explanation, "mean concave points", axes, by="mean texture")
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
