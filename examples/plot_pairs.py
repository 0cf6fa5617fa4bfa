"""The largest interactions, of two columns and of three, as bars.

What one sees: a bar for each set of columns, the largest first. It is as long as the mean size of
the interaction over 50 tumours, in units of the model's probability.

When to use it: to read off which sets act together, and how much, where a heatmap or a network has
too many. It draws sets of any size.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "pairs.png") -> xj.Interactions:
    """All sets of up to three of eight columns, exactly."""
    tumours: Any = load_breast_cancer(as_frame=True)
    X, y = (
        tumours.data.iloc[:, :8].rename(columns=lambda name: name[5:]),
        tumours.target_names[tumours.target],
    )
    network = MLPClassifier((16,), max_iter=1000, random_state=0)
    fitted = make_pipeline(StandardScaler(), network).fit(X, y)

    explainer = xj.Explainer(xj.as_model(fitted, output="benign"), X[:20])
    interactions = explainer.interactions(X[100:150], order=3, progress=False)

    figure, axes = plt.subplots(figsize=(7.5, 4), layout="constrained")
    xj.plots.pairs(interactions, ax=axes, max_display=10)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return interactions


if __name__ == "__main__":
    main(*sys.argv[1:])
