"""Two models side by side: for which columns the values moved, and by how much.

What one sees: a row for each column. The dot is how far the mean size of its values moves from the
linear model to the boosted trees, the line its interval. Where the line leaves out 0 the column is
coloured: orange is used more than before, blue less. All lines hold together.

When to use it: before a model is replaced by another, or after it was trained again. Explain the
same rows by both, so that small changes are found.
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "compare.png") -> xj.Explanation:
    """Explain 142 patients, whom neither model has seen, by both models."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    linear = make_pipeline(StandardScaler(), Ridge()).fit(X[:300], y[:300])
    trees = GradientBoostingRegressor(n_estimators=60, random_state=0).fit(X[:300], y[:300])

    old, new = (
        xj.Explainer(xj.as_model(fitted), X[:100])(X[300:], progress=False)
        for fitted in (linear, trees)
    )

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    xj.plots.compare(xj.compare(old, new), ax=axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return new


if __name__ == "__main__":
    main(*sys.argv[1:])
