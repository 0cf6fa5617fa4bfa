"""Rules as cards: under which conditions a prediction stays, how surely, and for whom.

What one sees: a card for each rule. Its upper bar is the share of tumours under the rule that get
the same prediction, its lower bar the share of all tumours that the rule is about.

When to use it: to tell a person in words what was enough for a decision.
"""

import sys
from typing import Any

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj


def main(picture: str = "rules.png") -> xj.Rules:
    """Find rules for three tumours."""
    tumours: Any = load_breast_cancer()
    X, names = tumours.data[:, :8], tumours.feature_names[:8]
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        X, tumours.target_names[tumours.target]
    )

    anchors = xj.AnchorExplainer(xj.as_model(fitted), X, list(names), target="tumour")
    explanation = anchors.explain(X[[16, 100, 300]], threshold=0.9, progress=False)

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    xj.plots.rules(explanation, axes)
    figure.savefig(picture, dpi=120)
    plt.close(figure)
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
