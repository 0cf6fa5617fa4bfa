"""Several ways to explain one model, held beside each other.

What one sees: for each column a dot for each way, the mean size of its values. A long grey line is
a column on which they disagree. Here exact values, samples of a small budget, and Banzhaf values.

When to use it: to see at a glance whether a choice of method or of model matters; which of them is
right, `xj.judge` tells.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "methods.png") -> xj.Explanation:
    """Explain 50 tumours in three ways."""
    tumours: Any = load_breast_cancer()
    X, names = tumours.data[:, :8], tumours.feature_names[:8]
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        X, tumours.target_names[tumours.target]
    )

    model = xj.as_model(fitted, output="benign", feature_names=names)
    explanation = xj.Explainer(model, X[:50])(X[50:100], progress=False)
    sampled = xj.Explainer(model, X[:50], estimator="permutation", budget=28)
    banzhaf = xj.Explainer(model, X[:50], index="banzhaf")
    found = {
        "Shapley": explanation,
        "28 coalitions": sampled(X[50:100], progress=False),
        "Banzhaf": banzhaf(X[50:100], progress=False),
    }

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    xj.plots.methods(found, axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
