"""Table 2 of the AEC paper: which wines are they? The text says 4,898, which are the white ones.

XAIJAX_DATA=... python docs/reproduction/aec_wines.py      # seconds
"""

from __future__ import annotations

import warnings

import xaijax as xj

LIST = (
    "density, chlorides, volatile acidity, citric acid, alcohol, sulphates, pH, fixed acidity, "
    "residual sugar, free sulfur dioxide, total sulfur dioxide"
).split(", ")
RED = 1599  # the first rows

if __name__ == "__main__":
    warnings.simplefilter("ignore", xj.XaiWarning)  # columns of different scales, as in the paper
    X, y = xj.datasets.wine()
    for name, first in (("red and white", 0), ("white", RED)):
        rows, marks = X.iloc[first:], y.iloc[first:]
        found = [X.columns[j] for j in xj.AEC().fit(rows, marks).ranking_]
        same = sum(a == b for a, b in zip(found, LIST, strict=True))
        rate = xj.normalized_movement_rate(xj.AEC(), rows, marks)
        print(f"{name}, {len(rows):,} wines: {same} of 11 places of Table 2, NMR {rate:.4f}")
