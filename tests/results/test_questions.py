"""What must not be mixed up: labels and positions, explanations of different questions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import xaijax as xj

B = np.random.default_rng(0).random((6, 3))
X = np.random.default_rng(1).random((4, 3))


def probability(rows):
    return 1 / (1 + np.exp(-rows.sum(axis=1)))


MODEL = xj.as_model(probability, backend="host")


@pytest.mark.parametrize(
    ("field", "other"),
    [
        ("link", {"link": "logit"}),
        ("replacement", {"background": xj.Baseline(B[0])}),
        ("background_rows", {"background": B[:3]}),
        ("weights", {"weights": np.arange(1, 7)}),
        ("index_weights", {"index": lambda s: 2.0}),
    ],
)
def test_explanations_of_different_questions_are_not_merged(field, other):
    common = {"background": B, "index": lambda s: 1.0}
    one = xj.Explainer(MODEL, **common)(X)
    two = xj.Explainer(MODEL, **{**common, **other})(X)
    with pytest.raises(xj.InputError, match=f"provenance\\['{field}'\\]"):
        xj.merge([one, two])
    assert len(xj.merge([one, one])) == 8


def test_a_number_that_is_a_position_and_another_columns_label_is_refused():
    frame = pd.DataFrame(B, columns=[2, 1, 0])
    with pytest.raises(xj.InputError, match="column 0 is the position of '2' and the label"):
        xj.Explainer(MODEL, frame, players={"g": [0]})
    by_text = xj.Explainer(MODEL, frame, players={"g": ["0"]})
    assert by_text.players.columns(0).tolist() == [2]
    assert xj.Explainer(MODEL, frame, players={"g": [1]}).players.columns(0).tolist() == [1]


def test_a_classifier_of_one_class_has_one_output():
    tree = DecisionTreeClassifier().fit(B, np.zeros(6))
    explanation = xj.Explainer(xj.as_model(tree), B)(X)
    assert explanation.values.shape == (4, 3) and not explanation.values.any()
    assert explanation.output_names is None and explanation.exact
    # Six weights of 1/6 add up to 1 within some roundings of float64.
    np.testing.assert_allclose(explanation.base_values, 1, rtol=0, atol=8 * 2.0**-53)


def test_a_series_of_mixed_columns_is_no_baseline():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    with pytest.raises(xj.InputTypeError, match=r"frame.iloc\[\[0\]\]"):
        xj.Explainer(MODEL, xj.Baseline(frame.iloc[0]))
