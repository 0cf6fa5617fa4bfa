"""Which inputs act together: players on a ring, joined by their interactions.

What one sees: a line between two columns is as wide as their interaction is large, orange above 0
and blue below. A dot is as large as the column's mean effect alone.

When to use it: after a beeswarm whose dots of one colour spread widely. A value that depends on
other columns shows as a line here.
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "network.png") -> xj.Interactions:
    """All pairs of ten columns of a small network, exactly."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    network = MLPRegressor(
        hidden_layer_sizes=(16,), solver="lbfgs", alpha=10.0, max_iter=2000, random_state=0
    )
    fitted = make_pipeline(StandardScaler(), network).fit(X, y)

    explainer = xj.Explainer(xj.as_model(fitted), X[:20])
    interactions = explainer.interactions(X[100:130], order=2, progress=False)

    figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
    xj.plots.network(interactions, ax=axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return interactions


if __name__ == "__main__":
    main(*sys.argv[1:])
