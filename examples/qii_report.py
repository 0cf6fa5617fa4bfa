"""Why was this person's income put below 50,000 dollars? A transparency report by QII.

    python examples/qii_report.py [picture.png]

Needs the extras [plots,data] and the Adult table (XAIJAX_DATA, or a network).
"""

from __future__ import annotations

import sys

from matplotlib.figure import Figure
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import xaijax as xj


def main(picture: str = "qii_profile.png") -> xj.Explanation:
    """Train, find proxies of sex, explain two people, write a page beside the picture."""
    X, y = xj.datasets.adult("qii")
    X, y = X.iloc[:4000], y.iloc[:4000]
    texts = [name for name in X.columns if X[name].dtype.kind not in "if"]
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts),
        remainder="passthrough",
    )
    trees = {"n_estimators": 20, "max_depth": 2, "learning_rate": 1.0}
    forest = GradientBoostingClassifier(**trees, random_state=0)
    model = xj.as_model(make_pipeline(encoder, forest).fit(X, y))

    # Which inputs carry the gap between women and men, beside sex itself? All pairs are asked.
    people = X.iloc[:500]
    gap = xj.QII(model, people, quantity="disparity", members={"sex": "Female"})
    for proxy in gap.proxies(["sex"])[:3]:
        sys.stdout.write(f"{proxy.name}: replacing it changes the gap by {-proxy.reduction:+.3f}\n")

    # Two people, against 100 others: exact Shapley values of the chance of a high income.
    qii = xj.QII(model, X, pool=X.iloc[500:600], quantity="individual", positive=True)
    explanation = qii.explain(X.iloc[[4, 7]])
    figure = Figure(figsize=(8.2, 8), layout="constrained")
    xj.plots.profile(explanation, figure.add_subplot())
    figure.savefig(picture)
    page = xj.transparency_report(explanation, f"{picture}.html")
    sys.stdout.write(f"{explanation}\nWritten: {picture}, {page}\n")
    return explanation


if __name__ == "__main__":
    main(*sys.argv[1:])
