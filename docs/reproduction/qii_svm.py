"""Table II's support vector machine on adult: which kernel and setting reads gender by .044?

Fitted to 4,000 rows, so that it takes a minute or two; the QII of gender is that of 3,000 people.

    XAIJAX_DATA=... python docs/reproduction/qii_svm.py
"""

from __future__ import annotations

from protocol import split
from sklearn.svm import SVC

import xaijax as xj

ROWS, PEOPLE = 4000, 3000
SETTINGS = [
    {"kernel": "rbf"},
    {"kernel": "rbf", "C": 10},
    {"kernel": "rbf", "gamma": 0.001, "C": 10},
    {"kernel": "linear"},
    {"kernel": "linear", "C": 0.01},
]

if __name__ == "__main__":
    one = split("adult", 0)
    rows, labels = one.train
    for setting in SETTINGS:
        model = xj.as_model(SVC(**setting).fit(rows[:ROWS], labels[:ROWS]))
        qii = xj.QII(model, one.data[:PEOPLE], players=one.players, quantity="average")
        found = qii.influence(["Gender"])
        print(f"{setting}: QII of gender {float(found[0]):.3f}", flush=True)
