"""Table II of the QII paper: what its numbers are, by their ranges over splits of the data.

The authors' tool measures the associations of gender with the true labels, for men, with the
normalised mutual information. Its disparities are the classifier's. Gender leaves no classifier:
`delete_index` there drops the columns of a copy.

    XAIJAX_DATA=... python docs/reproduction/qii_table_2.py [splits]      # some minutes
"""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np
from protocol import split
from sklearn.metrics import normalized_mutual_info_score

import xaijax as xj

PEOPLE = 3000  # of the data, as data and as pool of the QII


def spread(found: list[float]) -> str:
    """Smallest to largest."""
    return f"{min(found):.3f} to {max(found):.3f}"


def labels(name: str, splits: int) -> None:
    """MI, Jaccard and corr: of the true labels, for men; they know no classifier."""
    found = defaultdict(list)
    for seed in range(splits):
        one = split(name, seed)
        men = ~one.women
        own = xj.observational.measures(men, one.labels)
        found["corr"].append(own["correlation"])
        found["Jaccard (matching)"].append(own["matching"])
        found["MI, nats"].append(own["mutual_information"])
        found["MI, bits"].append(own["mutual_information"] / np.log(2))
        normal = normalized_mutual_info_score(men, one.labels, average_method="geometric")
        found["MI, normalised"].append(float(normal))
    for measure, values in found.items():
        print(f"{name}, true labels, {splits} splits: {measure} {spread(values)}")


def classifiers(name: str, kinds: list[str], splits: int) -> None:
    """disp and QII: with gender (A), and with its columns really gone (B)."""
    for kind in kinds:
        found = defaultdict(list)
        for seed in range(splits):
            one = split(name, seed)
            for which, without in (("A", ()), ("B", ("Gender",))):
                model, data, players = one.fitted(kind, without)
                said = model.labels(data)
                women, men = said[one.women].mean(), said[~one.women].mean()
                found[f"ratio {which}"].append(women / men)
                found[f"difference {which}"].append(men - women)
                if which == "A":
                    average = xj.QII(model, data[:PEOPLE], players=players, quantity="average")
                    found["QII of gender"].append(float(average.influence(["Gender"])[0]))
        print(f"{name}, {kind}, {splits} splits:")
        print("   " + "; ".join(f"{what} {spread(values)}" for what, values in found.items()))


if __name__ == "__main__":
    splits = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    for name in ("adult", "arrests"):
        labels(name, 20)
    classifiers("arrests", ["logistic", "tree of depth 2", "whole tree", "forest"], splits)
    classifiers("adult", ["logistic", "tree of depth 2", "forest"], splits)
