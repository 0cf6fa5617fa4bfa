"""Two cases side by side: what moved each decision, by QII.

What one sees: for each of two tumours, its data and a signed bar for each input. A bar is the
Shapley value of the chance that the classifier decides "benign" when inputs are drawn from other
tumours.

When to use it: for a report about decisions of a classifier, and to compare two cases that look
alike and were decided differently.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "profile.png") -> xj.Explanation:
    """Exact influence of eight inputs on the decisions about two tumours."""
    tumours: Any = load_breast_cancer(as_frame=True)
    X, y = tumours.data.iloc[:, :8], tumours.target_names[tumours.target]
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)

    qii = xj.QII(xj.as_model(fitted), X[:100], quantity="individual", positive="benign")
    explanation = qii.explain(X.iloc[[16, 41]])

    figure, axes = plt.subplots(figsize=(7, 5), layout="constrained")
    xj.plots.profile(explanation, ax=axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
