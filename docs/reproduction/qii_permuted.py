"""Table II of the QII paper, disp and QII of gender, with inputs permuted as the authors do it.

The classifiers are asked by scikit-learn's `predict`, on the splits of `qii_table_2.py`. The QII is
the share of people whose outcome changes when Gender is permuted over all of them: draws of its
prior, where `qii_table_2.py` takes all pairs of 3,000 people. So the two agree up to this chance.

    XAIJAX_DATA=... PYTHONPATH=. python docs/reproduction/qii_permuted.py [splits] [--no-kernel]

Ten splits of both take two minutes without the kernel SVM on adult (`--no-kernel`), which alone
takes one or two minutes a split.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from typing import Any

import numpy as np
from protocol import KINDS, Split, split
from qii_table_2 import spread
from sklearn.linear_model import LogisticRegression

from bench.baselines.qii_authors import average

TRIALS: dict[str, tuple[Any, bool]] = {  # logistic regression on arrests: make, inputs scaled
    "liblinear": (lambda: LogisticRegression(solver="liblinear"), True),
    "liblinear, inputs not scaled": (lambda: LogisticRegression(solver="liblinear"), False),
    "no intercept": (lambda: LogisticRegression(fit_intercept=False), True),
}


def measured(one: Split, estimator: Any, seed: int) -> dict[str, float]:
    """disp as a ratio and as a difference of the rates, and the average QII of gender."""
    estimator.fit(*one.train)
    said = estimator.predict(one.data)
    women, men = said[one.women].mean(), said[~one.women].mean()
    gender = [np.array(one.players["Gender"])]
    found = average(estimator.predict, one.data, gender, seed)
    return {"ratio": women / men, "difference": men - women, "QII of gender": float(found[0])}


def table(name: str, kinds: list[str], splits: int) -> None:
    """The ranges of each kind of classifier, and on arrests of the trials."""
    makers = {kind: (KINDS[kind], True) for kind in kinds}
    if name == "arrests":
        makers |= {f"logistic, {trial}": made for trial, made in TRIALS.items()}
    for kind, (make, scaled) in makers.items():
        found = defaultdict(list)
        for seed in range(splits):
            for what, value in measured(split(name, seed, scaled), make(), seed).items():
                found[what].append(value)
        line = "; ".join(f"{what} {spread(values)}" for what, values in found.items())
        print(f"{name}, {kind}, {splits} splits: {line}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Table II's disp and QII, inputs permuted.")
    parser.add_argument("splits", nargs="?", type=int, default=2)
    parser.add_argument("--only", choices=["arrests", "adult"], help="one of the two tables")
    parser.add_argument("--no-kernel", action="store_true", help="no kernel SVM on adult")
    given = parser.parse_args()
    quick = ["logistic", "forest", "tree of depth 2", "whole tree"]
    if given.only != "adult":
        table("arrests", [*quick, "kernel svm"], given.splits)
    if given.only != "arrests":
        table("adult", quick if given.no_kernel else [*quick, "kernel svm"], given.splits)
