"""What another party's columns are worth to a model that uses them.

What one sees: one bar for each party, the mean size of the value of all its columns. Beside a guest
stands the model's score when the guest's columns are replaced by the reference.

When to use it: where columns belong to several parties, and the host wants to know what a guest
brings before the next contract.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj

CLINIC = ["mean texture", "mean smoothness"]
LABORATORY = ["mean concavity", "mean concave points", "mean symmetry"]


def main(picture: str = "worth.png") -> xj.Explanation:
    """A host with five columns, and two guests; 100 rows that the model has not seen."""
    tumours: Any = load_breast_cancer(as_frame=True)
    X, y = tumours.data.iloc[:, :10], tumours.target.to_numpy()
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[:400], y[:400])

    guests = {"clinic": CLINIC, "laboratory": LABORATORY}
    model = xj.as_model(fitted, output=1)
    explainer = xj.FederatedExplainer(model, X[:100], guests=guests)
    explanation = explainer(X[400:500], progress=False)
    worth = explainer.worth(X[400:500], y[400:500], progress=False)

    figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
    xj.plots.worth(worth, ax=axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
