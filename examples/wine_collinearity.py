"""Which measurements of a wine lead AEC's list, how sure is that, and how stable is the list?

Fits AEC to 6,497 wines with bootstrap errors, compares its movement rate with that of the linear
model's Shapley values, and writes a page with both lists beside each other.

    python examples/wine_collinearity.py [correlations.png] [correlations.html]
"""

import sys
import warnings

import matplotlib.pyplot as plt
from sklearn.linear_model import LinearRegression

import xaijax as xj


def shapley(X, y):
    """Exact Shapley values of a linear model for every 650th wine, against 20 others."""
    model = xj.as_model(LinearRegression().fit(X, y))
    return xj.Explainer(model, X[:: len(X) // 20])(X[::650], progress=False)


def main(picture="correlations.png", page=None):
    """Fit, compare, draw; returns AEC's explanation."""
    X, y = xj.datasets.wine()
    # The columns' scales differ widely, as the warning would say: the paper takes them as they are.
    warnings.filterwarnings("ignore", category=xj.XaiWarning)
    raw = xj.AEC(bootstrap=200).fit(X, y)
    free = xj.AEC(standardize=True).fit(X, y)

    print("rank  raw units                          at this rank  standardised")
    for rank, (j, i) in enumerate(zip(raw.ranking_, free.ranking_, strict=True)):
        effect = f"{raw.effects_[j]:>10.4g} ± {raw.std_errors_[j]:<8.2g}"
        share = raw.rank_probabilities_[j, rank]
        print(f"{rank + 1:>4}  {X.columns[j]:<20} {effect} {share:>7.0%}  {X.columns[i]}")

    rates = [xj.normalized_movement_rate(one, X, y) for one in (xj.AEC(), shapley)]
    print(f"movement rate: AEC {rates[0]:.3f}, Shapley values {rates[1]:.3f}")

    page = page or f"{picture.removesuffix('.png')}.html"
    xj.collinearity_report(raw, shapley(X, y), page, rates[0], rates[1])
    figure, ax = plt.subplots(figsize=(7, 5.6), layout="constrained")
    xj.plots.correlation(raw.explanation_, ax)
    figure.savefig(picture, dpi=150)
    plt.close(figure)
    return raw.explanation_


if __name__ == "__main__":
    main(*sys.argv[1:])
