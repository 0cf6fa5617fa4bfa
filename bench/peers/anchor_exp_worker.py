"""The side of the author's own package, anchor-exp: the same questions as `alibi_worker`."""

from __future__ import annotations

import importlib

import numpy as np
from alibi_worker import network
from serve import serve

STATE = {}


def fit(options, data, **arrays):
    """Prepare the explainer; returns the model's answers to the data, for comparison."""
    tabular = importlib.import_module("anchor.anchor_tabular").AnchorTabularExplainer
    model = network(arrays)

    def counted(rows):
        STATE["rows"] += len(rows)
        return model(rows)

    names = [f"x{j}" for j in range(data.shape[1])]
    categories = {
        j: [str(v) for v in range(int(data[:, j].max()) + 1)] for j in options["categories"]
    }
    STATE.update(rows=0, model=counted, settings=options["settings"])
    STATE["explainer"] = tabular(["0", "1"], names, data, categories)
    return {"answers": model(data)}


def explain(options, X):
    """Explain the rows; precision, coverage, predicates and rows of the model."""
    STATE["rows"] = 0
    np.random.seed(0)
    found = [STATE["explainer"].explain_instance(x, STATE["model"], **STATE["settings"]) for x in X]
    return {
        "precision": np.array([float(one.precision()) for one in found]),
        "coverage": np.array([float(one.coverage()) for one in found]),
        "size": np.array([len(one.names()) for one in found]),
        "rows": np.array(STATE["rows"]),
    }


if __name__ == "__main__":
    serve({"fit": fit, "explain": explain})
