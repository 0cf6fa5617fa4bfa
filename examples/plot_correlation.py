"""Columns that say the same: correlations that an AEC was fitted on.

What one sees: a cell is the correlation of two columns, orange near 1 and blue near -1. Blocks of
colour are columns that stand for each other; values of single columns share out what such a block
does.

When to use it: before values are read, to see which columns a model cannot tell apart. `xj.AEC`
orders the columns by their effects on each other; it asks no model.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

import xaijax as xj


def main(picture: str = "correlation.png") -> xj.Explanation:
    """Fit AEC to the measurements of 178 wines, with their colour as what is told."""
    wine: Any = load_wine(as_frame=True)
    X = wine.data.drop(columns="color_intensity")
    aec = xj.AEC(standardize=True, bootstrap=50).fit(X, wine.data["color_intensity"])
    print("by size of the effect:", ", ".join(X.columns[j] for j in aec.ranking_[:5]))

    figure, axes = plt.subplots(figsize=(7, 6), layout="constrained")
    xj.plots.correlation(aec.explanation_, axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return aec.explanation_


if __name__ == "__main__":
    main(*sys.argv[1:])
