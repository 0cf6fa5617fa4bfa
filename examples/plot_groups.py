"""Two groups of people side by side: which columns make the model treat them differently.

What one sees: for each column a dot for each group, the mean of its values there. The number at the
right is their difference; all of them add up to the difference of the mean answers.

When to use it: to ask where a gap between groups comes from. It compares means; what a decision
would have been without a column is a question for QII.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "groups.png") -> xj.Explanation:
    """Explain 200 tumours, and compare the large ones with the small ones."""
    tumours: Any = load_breast_cancer()
    X, names = tumours.data[:, :8], tumours.feature_names[:8]
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        X, tumours.target_names[tumours.target]
    )

    model = xj.as_model(fitted, output="benign", feature_names=names)
    explanation = xj.Explainer(model, X[:50])(X[50:250], progress=False)
    large = np.where(X[50:250, 0] > np.median(X[:, 0]), "large", "small")

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    xj.plots.groups(explanation, large, axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
