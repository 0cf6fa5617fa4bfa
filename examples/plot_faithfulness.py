"""Is a fast attribution good enough? Insertion curves, beside the exact values.

What one sees: columns come in one after the other, those of the largest value first, and the curve
is the model's mean answer. The higher a curve, the better its attribution knows which columns move
the answer up. The legend has the area under each.

When to use it: before a fast method replaces an exact one. The table that `xj.judge` prints has the
errors of the values too.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "faithfulness.png") -> xj.Explanation:
    """Judge one pair of orders, and the standardised rows themselves, against exact values."""
    tumours: Any = load_breast_cancer()
    X = StandardScaler().fit_transform(tumours.data[:, :8])
    fitted = MLPClassifier((16,), max_iter=1000, random_state=0).fit(X, tumours.target)

    model, rows = xj.as_model(fitted, output=1, backend="host"), X[100:150]
    explainer = xj.Explainer(model, X[:10])
    exact = explainer(rows, progress=False)
    pair = xj.Explainer(model, X[:10], estimator="permutation", budget=14)(rows, progress=False)
    attributions = {"exact": exact, "one pair of orders": pair, "rows turned round": -rows}
    judged = xj.judge(attributions, explainer, rows, curves=True)

    figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
    xj.plots.faithfulness(judged, ax=axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return exact


if __name__ == "__main__":
    main(*sys.argv[1:])
