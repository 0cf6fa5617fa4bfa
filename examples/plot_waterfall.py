"""One answer, step by step: from the mean answer to that of one patient.

What one sees: the steps start at the bottom from the base value, the model's mean answer to the
background rows. Each column moves the answer by its Shapley value, and the last step ends at the
model's answer to this patient.

When to use it: to tell why one row got its answer. The steps add up to it, within rounding.
"""

import sys

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import GradientBoostingRegressor

import xaijax as xj


def main(picture: str = "waterfall.png") -> xj.Explanation:
    """Explain how far boosted trees expect the disease of five patients to go in a year."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    fitted = GradientBoostingRegressor(n_estimators=60, random_state=0).fit(X[:300], y[:300])

    explanation = xj.Explainer(xj.as_model(fitted), X[:300])(X[300:305], progress=False)

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    xj.plots.waterfall(explanation, ax=axes, instance=2)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
