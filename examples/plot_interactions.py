"""Pairs of columns of one answer: which of them move it together.

What one sees: a cell for each pair of columns. Orange pairs move this patient's answer further up
together than apart; of blue pairs each column tells some of what the other tells. On the diagonal
stands the Shapley value of each column.

When to use it: to see all pairs of one instance with their signs. Of several instances the cells
are means of |value|.
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "interactions.png") -> xj.Interactions:
    """All pairs of ten columns for one patient, exactly; the eight with the largest are drawn."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    network = MLPRegressor(
        hidden_layer_sizes=(16,), solver="lbfgs", alpha=10.0, max_iter=2000, random_state=0
    )
    fitted = make_pipeline(StandardScaler(), network).fit(X, y)

    explainer = xj.Explainer(xj.as_model(fitted), X[:20])
    interactions = explainer.interactions(X[100:101], order=2, progress=False)

    figure, axes = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
    xj.plots.interactions(interactions, ax=axes, max_display=8)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return interactions


if __name__ == "__main__":
    main(*sys.argv[1:])
