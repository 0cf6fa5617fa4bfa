"""Every instance a column of colours: which of them were decided for the same reasons.

What one sees: each narrow column is a tumour, each row an input. Tumours whose values are alike
stand beside each other, so that groups show; the line above is their answer.

When to use it: to look for kinds of cases before asking what makes each of them.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "heatmap.png") -> xj.Explanation:
    """Explain the chance of "benign" of 150 tumours, exactly."""
    tumours: Any = load_breast_cancer()
    X, names = tumours.data[:, :8], tumours.feature_names[:8]
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        X, tumours.target_names[tumours.target]
    )

    model = xj.as_model(fitted, output="benign", feature_names=names)
    explanation = xj.Explainer(model, X[:50])(X[50:200], progress=False)

    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    xj.plots.heatmap(explanation, axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
