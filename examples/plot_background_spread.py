"""How far values move when other background rows are chosen, by their number.

What one sees: a bar for each size of background. It is as long as an instance's values are far from
their mean over eight draws of that many rows, in units of the model's answer. Beside it stands the
relative squared error that one such background has by its choice alone.

When to use it: to choose how many background rows are enough. No standard error of an explanation
covers this choice.
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor

import xaijax as xj


def main(picture: str = "background_spread.png") -> xj.Explanation:
    """Twenty patients, explained by backgrounds of 5 to 160 rows."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    fitted = GradientBoostingRegressor(n_estimators=60, random_state=0).fit(X[:300], y[:300])

    explainer, rows = xj.Explainer(xj.as_model(fitted), X[:300]), X[300:320]
    found = xj.background_spread(explainer, rows, sizes=(5, 10, 20, 40, 80, 160))

    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    xj.plots.background_spread(found, ax=axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explainer(rows, progress=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
