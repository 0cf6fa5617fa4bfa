"""alibi's side: AnchorTabular on a network in NumPy or on a forest, one instance at a time."""

from __future__ import annotations

import importlib
import logging

import numpy as np
from serve import serve

STATE = {}
logging.disable(logging.WARNING)  # alibi warns of every rule that it does not accept


def network(arrays):
    """The network of `bench.models.forward`, in NumPy: on its small calls faster than any other."""
    count = sum(name.startswith("weight") for name in arrays)
    layers = [(arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(count)]

    def predict(rows):
        hidden = (np.asarray(rows, np.float32) - arrays["shift"]) / arrays["scale"]
        for weight, bias in layers[:-1]:
            hidden = np.maximum(hidden @ weight + bias, 0)
        weight, bias = layers[-1]
        return ((hidden @ weight + bias)[:, 0] > 0).astype(int)

    return predict


def forest(arrays, options):
    """A forest of the same settings on the same rows."""
    ensemble = importlib.import_module("sklearn.ensemble")
    fitted = ensemble.RandomForestClassifier(**options["forest"])
    fitted.fit(arrays["train"], arrays["labels"])
    return fitted.predict


def fit(options, data, **arrays):
    """Prepare the explainer; returns the model's answers to the data, for comparison."""
    tabular = importlib.import_module("alibi.explainers").AnchorTabular
    model = forest(arrays, options) if "forest" in options else network(arrays)

    def counted(rows):
        if STATE["drawn"] is not None:  # a check: they are answered together afterwards
            STATE["drawn"].append(np.array(rows))
            return np.zeros(len(rows), int)
        STATE["rows"] += len(rows)
        STATE["calls"] += 1
        return model(rows)

    STATE.update(rows=0, calls=0, drawn=None, model=model)
    names = [f"x{j}" for j in range(data.shape[1])]
    categories = {
        j: [str(v) for v in range(int(data[:, j].max()) + 1)] for j in options["categories"]
    }
    explainer = tabular(counted, names, categorical_names=categories, seed=0)
    explainer.fit(data, disc_perc=(25, 50, 75))
    kept = []
    named = explainer.add_names_to_exp

    def remembering(explanation):
        kept.append(tuple(explanation["feature"]))
        return named(explanation)

    explainer.add_names_to_exp = remembering
    STATE.update(explainer=explainer, kept=kept, settings=options["settings"])
    return {"answers": model(data)}


def explain(options, X):
    """Explain the rows; precision, coverage, predicates, rows and calls of the model."""
    STATE.update(rows=0, calls=0)
    STATE["kept"].clear()
    np.random.seed(0)
    found = [STATE["explainer"].explain(x, **STATE["settings"]) for x in X]
    STATE["X"] = X
    return {
        "precision": np.array([float(np.ravel(one.precision)[0]) for one in found]),
        "coverage": np.array([float(np.ravel(one.coverage)[0]) for one in found]),
        "size": np.array([len(one.raw["feature"]) for one in found]),
        "rows": np.array(STATE["rows"]),
        "calls": np.array(STATE["calls"]),
    }


def check(options, count):
    """The precision of the rules just found on fresh draws of alibi's own sampler.

    In calls as long as those of the search: rows of longer ones come from another distribution.
    """
    sampler, each = STATE["explainer"].samplers[0], STATE["settings"]["batch_size"]
    means = []
    for x, rule in zip(STATE["X"], list(STATE["kept"]), strict=True):
        sampler.set_instance_label(x)
        sampler.build_lookups(x)
        STATE["drawn"] = []
        for _ in range(-(-int(count) // each)):
            sampler((0, rule), each, compute_labels=True)
        rows, STATE["drawn"] = np.concatenate(STATE["drawn"]), None
        means.append(np.mean(STATE["model"](rows) == STATE["model"](x[None])[0]))
    return {"precision": np.array(means, float)}


if __name__ == "__main__":
    serve({"fit": fit, "explain": explain, "check": check})
