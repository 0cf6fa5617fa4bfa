"""A bank and a shop: the bank's columns one by one, the shop's as one united value.

The bank sees what its own columns and the shop as a whole do to an answer, and what the shop's data
are worth to the model.

    python examples/federated.py [worth.png]
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import xaijax as xj

SHOP = ["mean texture", "mean smoothness", "mean symmetry", "mean concavity"]  # its columns


def main(picture="worth.png"):
    """Explain 100 rows that the model has not seen."""
    cells: Any = load_breast_cancer(as_frame=True)
    X, y = cells.data.iloc[:, :10], cells.target.to_numpy()  # the ten means
    forest = RandomForestClassifier(50, max_depth=6, random_state=0).fit(X[:400], y[:400])
    rows, truth = X[400:500], y[400:500]

    model = xj.as_model(forest, output=1)  # the probability of class 1
    explainer = xj.FederatedExplainer(model, X[:400], guests={"shop": SHOP})
    explanation = explainer(rows, progress=True)
    print(explanation)
    print(f"mean |interaction| {np.abs(explainer.interaction_).mean():.3f}")

    # The same model without the shop's columns, for comparison.
    alone = X.drop(columns=SHOP)
    without = RandomForestClassifier(50, max_depth=6, random_state=0).fit(alone[:400], y[:400])
    refitted = {"shop": xj.as_model(without, output=1)}
    worth = explainer.worth(rows, truth, refitted=refitted, progress=False)
    print(worth)

    figure, axes = plt.subplots(figsize=(8, 2.4), layout="constrained")
    xj.plots.worth(worth, ax=axes)
    figure.savefig(picture, dpi=150)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
