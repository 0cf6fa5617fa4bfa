"""Who survived the Titanic, by the rules that hold a forest's predictions.

    python examples/anchors.py [picture.png]

Needs the extras [plots,data] and the Titanic table (XAIJAX_DATA, or a network).
"""

from __future__ import annotations

import sys

import numpy as np
from matplotlib.figure import Figure
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import xaijax as xj

COLUMNS = ["Pclass", "Sex", "Age", "SibSp", "Parch", "Fare"]


def main(picture: str = "anchors.png") -> xj.Rules:
    """Train, find the rules of 60 passengers, pick a few, draw what they cover."""
    X, y = xj.datasets.titanic()
    X = X[COLUMNS].fillna({"Age": X["Age"].median()})
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["Sex"]), remainder="passthrough"
    )
    forest = RandomForestClassifier(50, max_depth=6, random_state=0)
    model = xj.as_model(make_pipeline(encoder, forest).fit(X, y == 1))

    anchors = xj.AnchorExplainer(model, X, categories=["Pclass"], target="Survived")
    sys.stdout.write(f"{anchors}\n")
    rules = anchors.explain(X[:60], threshold=0.9)
    picked = rules.pick(4, X)
    for rule, covered in zip(picked, picked.stats["covered"], strict=True):
        sys.stdout.write(f"{rule}\n    all so far apply to {covered:.0%} of the passengers\n")

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    held = np.array([rule.accepted for rule in rules])
    places = np.array([(rule.coverage, rule.precision) for rule in rules])
    for own, label in ((held, "accepted"), (~held, "not accepted")):
        axes.scatter(*places[own].T, alpha=0.6, label=label)
    axes.set(xlabel="coverage", ylabel="precision", title="Rules of 60 passengers")
    axes.legend()
    figure.savefig(picture)
    page = rules.save(f"{picture}.json")
    sys.stdout.write(f"Written: {picture}, {page}\n")
    return rules


if __name__ == "__main__":
    main(*sys.argv[1:])
