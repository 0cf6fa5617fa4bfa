"""What was asked and what a value means, in words that hold for the facts given."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj
from xaijax.results.describe_question import background, describe_output, describe_question, meaning


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, ""),
        ({"replacement": "rows", "background_rows": 1, "weights": "equal"}, "1 row"),
        ({"background_rows": 2000, "weights": "given"}, "2,000 rows, weighted"),
        ({"intervention": "rows", "pool_rows": 5, "pool_weights": "equal"}, "5 rows"),
        ({"replacement": "baseline", "background_rows": 1}, "one baseline row"),
        ({"replacement": "function"}, "a baseline of each instance"),
        ({"intervention": "sampler"}, "rows that a sampler drew"),
        ({"reference": "median"}, "a reference (median)"),
    ],
)  # fmt: skip
def test_the_background(facts, words):
    assert background(facts) == words


def test_the_question():
    facts = {"quantity": "proba", "selected_output": "yes", "link": "logit"}
    assert describe_question(facts) == "asked: logit of the probability of yes"
    told = [describe_output(one) for one in ("yes", 1, "proba", "value")]
    assert told == ["output yes", "output 1", "proba", "model output"]
    assert (
        describe_question({}) == "" and describe_question({"quantity": "my own"}) == "asked: my own"
    )


def test_only_what_adds_up_is_said_to_add_up():
    adds = "add up"
    assert adds in meaning("shapley", {}) and "averaged over all orders" in meaning("shapley", {})
    for kind in ("banzhaf", "size <= 2", "unary", "deegan-packel", "expected_gradients"):
        assert adds not in meaning(kind, {})
    assert "averaged" not in meaning("size <= 2", {})
    assert "predicts" in meaning("amortized", {"method": "AmortizedExplainer"})
    assert meaning("aec", {"meaning": "as it says"}) == "as it says"
    assert "slope" in meaning("integrated_gradients", {"quantity": "model output"})


def test_a_chosen_class_is_called_a_class():
    model = xj.as_model(lambda X: X[:, :2], output=1, classes=[0, 1], backend="host")
    found = xj.Explainer(model, np.zeros((1, 2)))(np.ones((1, 2)))
    assert describe_question(found.provenance).startswith("asked: the output of class 1; ")
    by_place = xj.as_model(lambda X: X[:, :2], output=1, backend="host")
    found = xj.Explainer(by_place, np.zeros((1, 2)))(np.ones((1, 2)))
    assert describe_question(found.provenance).startswith("asked: output 1; ")
