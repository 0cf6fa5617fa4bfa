"""ShaRP's side: Shapley values of a logistic model's score, all donors used."""

from __future__ import annotations

import importlib

import numpy as np
from serve import serve


def explain(options, X, pool, weights, bias):
    shapley_for_rankings = importlib.import_module("sharp").ShaRP

    def score(rows):
        return 1 / (1 + np.exp(-(rows.astype(float) @ weights + bias)))

    # cache=True looks every row up by its printed text, which is slower than this model.
    sharp = shapley_for_rankings(
        qoi=options["qoi"],
        target_function=score,
        measure="shapley",
        sample_size=len(pool),
        replace=False,
        cache=False,
        random_state=0,
    )
    sharp.fit(pool)
    values = [np.asarray(sharp.individual(x, pool), float).ravel() for x in X]
    return {"values": np.stack(values)}


if __name__ == "__main__":
    serve({"explain": explain})
