"""Several outputs in one bar: which column matters for which class.

What one sees: the length of a bar is the mean size of a column's values, and its parts are the
three cultivars of wine. A column may matter for one class and hardly for another.

When to use it: to compare columns where a model has several outputs. Directions are not in it; draw
a beeswarm of one output for these.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "bar.png") -> xj.Explanation:
    """Explain the probabilities of three cultivars; values are [N, 8, 3]."""
    wine: Any = load_wine()
    X, names = wine.data[:, 5:], wine.feature_names[5:]
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, wine.target)

    cultivars = ["cultivar 1", "cultivar 2", "cultivar 3"]
    model = xj.as_model(fitted, feature_names=names, output_names=cultivars)
    explanation = xj.Explainer(model, X[::10])(X[::2], progress=False)

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    xj.plots.bar(explanation, ax=axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
