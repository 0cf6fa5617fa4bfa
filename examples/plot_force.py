"""One answer as one bar: what raises it meets what lowers it.

What one sees: orange parts push the chance of "benign" up, blue ones push it down, and they meet at
the answer. The longest parts stand in the middle.

When to use it: for a single case in one line, beside others of its kind; a waterfall has room for
more inputs.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "force.png") -> xj.Explanation:
    """Explain the chance of "benign" of one tumour, exactly."""
    tumours: Any = load_breast_cancer()
    X, names = tumours.data[:, :8], tumours.feature_names[:8]
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        X, tumours.target_names[tumours.target]
    )

    model = xj.as_model(fitted, output="benign", feature_names=names)
    explanation = xj.Explainer(model, X[:50])(X[100:101], progress=False)

    figure, axes = plt.subplots(figsize=(9, 2.6), layout="constrained")
    xj.plots.force(explanation, axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
