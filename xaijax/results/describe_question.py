"""The question, and what a value means, in a few words, from the facts of the provenance.

`wording` describes the question of QII at length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xaijax.core.checks import count
from xaijax.players.index import named

OUTPUTS = 4  # outputs that are counted one by one
WORDS = {
    "proba": "the probability",
    "decision": "the decision value",
    "label": "the label",
    "path-length": "the mean path length",
    "density": "the density",
    "model output": "the model's output",
}
GRADIENTS = {"expected_gradients": "drawn background rows", "integrated_gradients": "the baseline"}


def describe_output(output: Any) -> str:
    """The provenance's text for a model's output: "output yes" for `as_model(output="yes")`."""
    if output == "value":
        return "model output"
    return str(output) if isinstance(output, str) and output in WORDS else f"output {output}"


def output_question(model: object) -> dict[str, Any]:
    """The provenance's facts about a model's output.

    They are "quantity"; for a column "column_of"; and for a class "quantity_words", which name it.
    """
    output = getattr(model, "output", "value")
    facts: dict[str, Any] = {"quantity": describe_output(output)}
    selects = getattr(model, "selects", None)
    if selects is not None:
        facts["column_of"] = selects
    if getattr(model, "classes", None) is not None and not (
        isinstance(output, str) and output in WORDS
    ):
        facts["quantity_words"] = f"the output of class {output}"
    return facts


def output_of_each(stats: Mapping[str, Any], N: int) -> tuple[str, ...]:
    """The output of each of N instances, if each has its own (`outputs=`); else ()."""
    names, places = stats.get("output_names"), stats.get("outputs")
    if isinstance(names, np.ndarray) and names.shape == (N,):
        return tuple(map(str, names))
    if isinstance(places, np.ndarray) and places.shape == (N,):
        return tuple(f"output {place}" for place in places)
    return ()


def counted_outputs(names: Sequence[str]) -> str:
    """The single output, or the number of instances for each output: "yes 3, no 1"."""
    counts = Counter(names).most_common()
    if len(counts) == 1:
        return counts[0][0]
    texts = [f"{name} {count:,}" for name, count in counts[:OUTPUTS]]
    more = [f"{len(counts) - OUTPUTS:,} more"] if len(counts) > OUTPUTS else []
    return f"each instance's own ({', '.join(texts + more)})"


def quantity(facts: Mapping[str, Any]) -> str:
    """The quantity that the values are shares of; "" if it is not known."""
    name = facts.get("quantity_words") or facts.get("quantity")
    if name is None:
        return ""
    chosen, link = facts.get("selected_output"), facts.get("link", "identity")
    text = WORDS.get(name, str(name))
    text += "" if chosen is None else f" of {chosen}"
    return text if link == "identity" else f"{link} of {text}"


def background(facts: Mapping[str, Any]) -> str:
    """The source of the inputs of absent players; "" if it is not known."""
    kind = facts.get("replacement", facts.get("intervention"))
    rows = facts.get("background_rows", facts.get("pool_rows"))
    weights = facts.get("weights", facts.get("pool_weights"))
    if kind == "function":
        return "a baseline of each instance"
    if kind == "sampler":
        return "rows that a sampler drew"
    if kind == "baseline":
        return "one baseline row"
    if kind == "tree-paths":
        return "both children of a split, by their training rows"
    if isinstance(rows, int):
        return count(rows, "row") + (", weighted" if weights == "given" else "")
    reference = facts.get("reference")
    return "" if reference is None else f"a reference ({reference})"


def describe_question(facts: Mapping[str, Any]) -> str:
    """The question in one line; "" if nothing is known."""
    parts = (("asked:", quantity(facts)), ("absent players from", background(facts)))
    return "; ".join(f"{name} {value}" for name, value in parts if value)


def meaning(kind: str, facts: Mapping[str, Any]) -> str:
    """The meaning of one value."""
    if "meaning" in facts:
        return str(facts["meaning"])
    index, what = named(kind), quantity(facts) or "the answer"
    if kind in GRADIENTS:
        return (
            f"the slope of {what} along the way from {GRADIENTS[kind]} to the instance, times "
            "the distance; no index of a game"
        )
    if index.alone:
        return f"what replacing the player alone changes in {what}"
    if index.simple:
        return "the player's part in the smallest sets whose replacement changes the answer"
    adds = f"what the player adds to {what}, on top of other players"
    if index.average:
        adds += f", averaged over {index.average.replace('inputs', 'players')}"
    if facts.get("method") == "AmortizedExplainer":
        adds = f"what a network predicts of the Shapley value, a share of {what}"
    if index.efficient:
        adds += ". The base value and all values add up to it"
    return adds
