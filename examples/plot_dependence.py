"""A column's effect over its data: where another column changes it.

What one sees: each dot is a tumour, its texture to the right, the effect of texture alone upwards.
The colour is the column with the strongest interaction. Where blue and orange dots of one texture
lie at different heights, that column changes what texture does.

When to use it: after a network or heatmap of interactions has named a pair.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "dependence.png") -> xj.Interactions:
    """All pairs of eight columns for 200 tumours, exactly."""
    tumours: Any = load_breast_cancer(as_frame=True)
    X, y = tumours.data.iloc[:, :8], tumours.target_names[tumours.target]
    network = MLPClassifier((16,), max_iter=1000, random_state=0)
    fitted = make_pipeline(StandardScaler(), network).fit(X, y)

    explainer = xj.Explainer(xj.as_model(fitted, output="benign"), X[:20])
    interactions = explainer.interactions(X[100:300], order=2, progress=False)

    figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
    xj.plots.dependence(interactions, "mean texture", ax=axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return interactions


if __name__ == "__main__":
    main(*sys.argv[1:])
