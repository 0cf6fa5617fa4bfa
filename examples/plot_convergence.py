"""Sampled values and their intervals as the budget grows.

What one sees: a line for each column, its value with more and more coalitions, in a band of 95 %
intervals. Dashed lines are the exact values, which a person with many columns would not have.

When to use it: to choose a budget. Where bands still overlap, the order of the columns is not known
yet.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "convergence.png") -> xj.Explanation:
    """Explain one tumour exactly, and with five budgets."""
    tumours: Any = load_breast_cancer()
    X, names = tumours.data[:, :8], tumours.feature_names[:8]
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        X, tumours.target_names[tumours.target]
    )

    model = xj.as_model(fitted, output="benign", feature_names=names)
    explanation = xj.Explainer(model, X[:50])(X[100:101], progress=False)
    found = [explanation]
    for budget in (28, 42, 70, 112, 182):
        sampled = xj.Explainer(model, X[:50], estimator="permutation", budget=budget)
        found.append(sampled(X[100:101], progress=False))

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    xj.plots.convergence(found, axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
