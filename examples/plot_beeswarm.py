"""Every instance a dot, every column a row: where a model's answers come from.

What one sees: a dot right of 0 is a tumour whose value of that column speaks for "benign". Its
colour is the value itself, blue is low and orange is high. Here a low "mean concave points" speaks
for benign and a high one against it, and more strongly so.

When to use it: to look at a model as a whole, with the direction of each column.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "beeswarm.png") -> xj.Explanation:
    """Explain the probability of "benign" of 200 tumours, exactly."""
    tumours: Any = load_breast_cancer()
    X, names = tumours.data[:, :8], tumours.feature_names[:8]
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        X, tumours.target_names[tumours.target]
    )

    model = xj.as_model(fitted, output="benign", feature_names=names)
    explanation = xj.Explainer(model, X[:50])(X[50:250], progress=False)

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    xj.plots.beeswarm(explanation, ax=axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
