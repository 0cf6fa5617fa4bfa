"""What must not be mixed up: labels and positions, explanations of different questions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
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


# One rule for everything that puts two explanations side by side.

ROWS = np.random.default_rng(2).random((9, 3))
CLASSIFIER = DecisionTreeClassifier(max_depth=3, random_state=0).fit(
    ROWS, np.array(["no", "yes", "no"] * 3)
)


def three(rows):
    p = np.stack([rows[:, 0], rows[:, 1] * rows[:, 2], 1 - rows[:, 1]], axis=1) + 0.1
    return p / p.sum(axis=1, keepdims=True)


def of(output="proba", names=("no", "yes", "maybe"), **more):
    model = xj.as_model(three, output=output, output_names=names, backend="host")
    return xj.Explainer(model, B, **more)


def compared(a, b):
    return xj.compare(a, b)


def drawn(a, b):
    pytest.importorskip("matplotlib").use("Agg")
    return xj.plots.methods({"one": a, "two": b})


@pytest.mark.parametrize("together", [compared, drawn])
def test_amounts_of_different_things_are_not_put_together(together):
    whole = of()(X)
    yes, no = whole[:, :, "yes"], whole[:, :, "no"]
    together(yes, whole[:, :, 1])
    together(yes, of()(X[::-1])[:, :, "yes"])
    together(yes, xj.Explainer(of().model, B[:2])(X)[:, :, "yes"])  # another background
    for other, field in [
        (no, "output.*'(yes|no)' and '(yes|no)'"),
        (of("decision")(X)[:, :, "yes"], "quantity.*'proba' and 'decision'"),
        (of(link="logit")(X)[:, :, "yes"], "link.*'identity' and 'logit'"),
        (of()(X, outputs=[0, 0, 0, 0]), "output"),
        (of()(X, outputs=[1, 0, 1, 1]), "output"),
    ]:
        for pair in [(yes, other), (yes[::-1], other)]:
            with pytest.raises(xj.InputError, match=field):
                together(*pair)
        with pytest.raises(xj.InputError, match=field.split(".")[0]):
            together(other, yes)
    together(yes, of()(X, outputs=[1, 1, 1, 1]))


@pytest.mark.slow
def test_two_columns_of_one_model_are_two_outputs():
    whole = xj.Explainer(CLASSIFIER, B)(X)
    yes, no = (xj.Explainer(xj.as_model(CLASSIFIER, output=c), B)(X) for c in ("yes", "no"))
    np.testing.assert_allclose(yes.values, whole.values[:, :, 1], atol=1e-6)
    assert xj.compare(yes, whole[:, :, "yes"]).changed == ()  # one question, asked in two ways
    for a, b in [(yes, no), (no, whole[:, :, "yes"]), (whole[:, :, "no"], yes)]:
        with pytest.raises(xj.InputError, match="differ in output"):
            xj.compare(a, b)


def test_the_column_of_a_decision_is_no_probability():
    y = np.array(["no", "yes", "no"] * 3)
    a, b = (
        xj.Explainer(xj.as_model(kind().fit(ROWS, y), output="yes"), B)(X)
        for kind in (LogisticRegression, RidgeClassifier)
    )
    with pytest.raises(xj.InputError, match="quantity: 'proba' and 'decision'"):
        xj.compare(a, b)


def test_outputs_in_another_order_are_not_put_together():
    whole = of()(X)
    turned, other = whole[:, :, ::-1], of(names=("a", "b", "c"))(X)
    for one in (turned, whole[:, :, :2], other, whole[:, :, "no"], whole[:, :, ["no"]]):
        with pytest.raises(xj.InputError, match="differ in output"):
            xj.compare(whole, one)
    assert xj.compare(turned, turned).changed == ()
    with pytest.raises(xj.InputError, match="differ in output"):
        xj.plots.methods({"one": whole, "two": turned}, output=0)


def test_the_influences_of_qii_are_another_question():
    model = xj.as_model(CLASSIFIER)
    mine = xj.Explainer(model, B)(X)[:, :, "yes"]
    asked = xj.QII(model, B, quantity="individual", outcome="proba").explain(X)
    other = asked if asked.output_names is None else asked[:, :, "yes"]
    with pytest.raises(xj.InputError, match="quantity: 'proba' and 'individual'"):
        xj.compare(mine, other)


def test_a_class_of_each_instance_is_that_of_the_other_side():
    a, b = of()(X, outputs=[0, 0, 1, 2]), of()(X, outputs=[0, 1, 1, 2])
    with pytest.raises(xj.InputError, match=r"output \(of instance 1\): 'no' and 'yes'"):
        xj.compare(a, b)
    assert xj.compare(a, a).changed == ()
    assert not xj.compare(a, b, paired=False).paired  # the same outputs, of other people
    with pytest.raises(xj.InputError, match="output: 'no' and 'yes'"):
        xj.compare(of()(X, outputs=[0] * 4), of()(X[:3], outputs=[1] * 3))


def test_a_judge_is_asked_about_one_question():
    asked = []

    def counted(rows):
        asked.append(len(rows))
        return three(rows)

    names = ("no", "yes", "maybe")
    model = xj.as_model(counted, output="proba", output_names=names, backend="host")
    explainer, whole = xj.Explainer(model, B), of()(X)
    for values, field in [
        (of("decision")(X), "quantity: 'decision' and 'proba'"),
        (of(link="logit")(X), "link: 'logit' and 'identity'"),
        (whole[:, :, ::-1], "outputs 'maybe', 'yes', 'no'"),
    ]:
        asked.clear()
        with pytest.raises(xj.InputError, match=field):
            xj.judge(values, explainer, X)
        assert not asked  # refused before the model is asked
    assert xj.judge(whole, explainer, X).relative_error < 1e-12
    own = of()(X, outputs=[0, 0, 1, 2])
    assert xj.judge(own, explainer, X, outputs=[0, 0, 1, 2]).p95 < 1e-12
    with pytest.raises(xj.InputError, match=r"output \(of instance 1\)"):
        xj.judge(own, explainer, X, outputs=[0, 1, 1, 2])
    # A handmade attribution says nothing of its question, and is taken at its word.
    assert xj.judge(whole.values, explainer, X).relative_error < 1e-12


def test_convergence_joins_one_output_and_one_index():
    pytest.importorskip("matplotlib").use("Agg")

    def sampled(budget, kind="shapley", **facts):
        values = np.ones((1, 2, 2))
        return xj.Explanation(
            values, np.zeros((1, 2)), values, exact=False, kind=kind, output_names=("no", "yes"),
            stats={"budget": budget}, provenance=facts,
        )  # fmt: skip

    few, many = sampled(10), sampled(20)
    xj.plots.convergence([few, many], output="no")
    refused = [
        ([few[:, :, "no"], many[:, :, "yes"]], "differ in output"),
        ([few, many[:, :, ::-1]], "differ in output"),
        ([few, sampled(20, "banzhaf")], "'shapley' and 'banzhaf'"),
        ([sampled(10, link="logit", quantity="proba"), sampled(20, quantity="proba")], "link"),
    ]
    for given, field in refused:
        output = None if given[0].output_names is None else 0
        with pytest.raises(xj.InputError, match=field):
            xj.plots.convergence(given, output=output)


def test_merge_asks_which_output_each_instance_is_of():
    whole = of()(X)
    with pytest.raises(xj.InputError, match="selected_output"):
        xj.merge([whole[:, :, "no"], whole[:, :, "yes"]])
    one = xj.Explanation(np.ones((2, 1)), np.zeros(2), stats={"outputs": np.array([0, 1])})
    with pytest.raises(xj.InputError, match="outputs"):
        xj.merge([one, xj.Explanation(np.ones((2, 1)), np.zeros(2))])
