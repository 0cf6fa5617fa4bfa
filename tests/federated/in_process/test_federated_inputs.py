"""What `FederatedExplainer` refuses, before the model is called."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import xaijax as xj

B = np.random.default_rng(0).normal(size=(6, 4))
FRAME = pd.DataFrame(B, columns=list("abcd"))
E, T = xj.InputError, xj.InputTypeError


class Counting:
    """A model that counts its calls."""

    def __init__(self):
        self.calls = 0

    def __call__(self, rows):
        self.calls += 1
        return np.asarray(rows, float)[:, 0] > 0


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"guests": {"g": [0, 1], "h": [1]}}, E, "'x1' is named by 'g' and by 'h'"),
        ({"guests": {"g": [2, 2]}}, E, "twice"),
        ({"guests": {"g": [7]}}, E, "no column 7"),
        ({"guests": {"g": ["nobody"]}}, E, "no column 'nobody'"),
        ({"guests": {"x0": [1]}}, E, "name of a column of the host"),
        ({"guests": [[1]]}, T, "guests must be a dict"),
        ({"guests": None}, T, "guests must be a dict"),
        ({"guests": {"g": "x1"}}, T, "list of columns"),
        ({"guests": {3: [1]}}, T, "names must be text"),
        ({"reference": "na"}, E, "allow_nan=True"),
        ({"reference": "mean"}, E, "'median', 'na'"),
        ({"reference": B[0, :3]}, E, r"reference has shape \(3,\)"),
        ({"reference": B[:, :3]}, E, r"reference has shape \(6, 3\)"),
        ({"reference": B[None]}, E, "reference has shape"),
        ({"reference": np.full(4, np.nan)}, E, "NaN"),
        ({"reference": FRAME.iloc[0]}, E, "reference is a frame"),
        ({"reference": xj.Baseline(B[0])}, T, "reference must be"),
        ({"reference": B[0], "weights": [1.0]}, E, "weights are of several reference rows"),
        ({"weights": np.ones(6)}, E, "weights are of several reference rows"),
        ({"reference": B[:0]}, E, "reference has 0 rows"),
        ({"reference": np.full(4, np.inf)}, E, "reference"),
        ({"background": None}, T, "background must be rows"),
        ({"guests": {"host": [1]}}, E, "cannot be a guest's name"),
        ({"guests": {"": [1]}}, E, "cannot be a guest's name"),
        ({"estimator": "wls", "budget": 100}, E, "leave budget= and tolerance="),
        ({"estimator": "wls", "tolerance": 0.1}, E, "leave budget= and tolerance="),
        ({"background": xj.Baseline(B[0])}, E, "background must be rows"),
        ({"background": B[0]}, E, "background"),
        ({"background": B.reshape(6, 2, 2), "guests": {"g": [1]}}, E, "background"),
        ({"model": 3}, T, "as_model"),
        ({"end_weight": 5.0}, E, "estimator='auto' has none"),
        ({"end_weight": 0, "estimator": "wls"}, E, "end_weight must be a positive number"),
        ({"end_weight": "big", "estimator": "wls"}, T, "end_weight must be a positive number"),
        ({"index": "banzhaf", "estimator": "wls"}, E, "index='shapley'"),
        ({"estimator": "lime"}, E, "estimator"),
        ({"budget": -1}, E, "budget"),
    ],
)
def test_refused_at_construction(arguments, error, says):
    counting = Counting()
    given = {
        "model": xj.as_model(counting, backend="host"),
        "background": B,
        "guests": {"g": [2]},
        **arguments,
    }
    with pytest.raises(error, match=says):
        xj.FederatedExplainer(**given)
    assert counting.calls == 0


@pytest.mark.parametrize(
    ("X", "error"), [(B[:, :3], E), (B[0], E), (np.full((1, 4), np.nan), E), ("rows", T)]
)
def test_refused_rows(X, error):
    counting = Counting()
    fed = xj.FederatedExplainer(xj.as_model(counting, backend="host"), B, {"g": [2]})
    with pytest.raises(error):
        fed(X)
    assert counting.calls == 0


def test_refused_frames():
    counting = Counting()
    model = xj.as_model(counting, backend="host")
    with pytest.raises(E, match="reference must be a frame"):
        xj.FederatedExplainer(model, FRAME, {"g": ["c"]}, reference=B[0])
    with pytest.raises(E, match="reference has the columns"):
        xj.FederatedExplainer(model, FRAME, {"g": ["c"]}, reference=FRAME[list("badc")])
    assert counting.calls == 0


def test_images_have_no_columns():
    model = xj.as_model(Counting(), backend="host", input_shape=(2, 2))
    with pytest.raises(E, match="own columns of a table"):
        xj.FederatedExplainer(model, B.reshape(6, 2, 2), {"g": [1]})


def test_too_many_players_for_the_regression():
    counting = Counting()
    wide = np.zeros((2, 22))
    fed = xj.FederatedExplainer(
        xj.as_model(counting, backend="host"), wide, {"g": [0]}, estimator="wls"
    )
    with pytest.raises(xj.EnumerationLimitError, match="estimator='wls'.*2\\^22"):
        fed(wide)
    assert counting.calls == 0


def test_a_random_model_and_the_regression():
    model = xj.as_model(Counting(), backend="host", deterministic=False)
    with pytest.raises(E, match="deterministic"):
        xj.FederatedExplainer(model, B, {"g": [2]}, estimator="wls")


def test_the_game_of_single_columns_may_be_too_large_for_the_regression():
    wide = np.random.default_rng(0).normal(size=(2, 22))
    model = xj.as_model(Counting(), backend="host")
    fed = xj.FederatedExplainer(model, wide, {"g": range(5)}, estimator="wls")
    fed(wide)
    with pytest.raises(xj.EnumerationLimitError, match="2\\^22"):
        getattr(fed, "interaction_")  # noqa: B009 - a property that raises


def test_a_callable_index_has_no_interaction():
    model = xj.as_model(Counting(), backend="host")
    fed = xj.FederatedExplainer(model, B, {"g": [2, 3]}, index=lambda s: [0.1, 0.2, 0.1][s])
    fed(B)
    with pytest.raises(E, match="callable"):
        getattr(fed, "interaction_")  # noqa: B009 - a property that raises


def test_bool_columns_cannot_be_missing():
    frame = pd.DataFrame({"b": [True, False], "n": [1.0, 2.0]})
    model = xj.as_model(Counting(), backend="host", allow_nan=True)
    with pytest.raises(E, match="column 'b' is bool"):
        xj.FederatedExplainer(model, frame, {"g": ["n"]}, reference="na")


def test_interactions_before_a_call():
    fed = xj.FederatedExplainer(xj.as_model(Counting(), backend="host"), B, {"g": [2]})
    for name in ("interaction_", "interaction_std_errors_"):
        with pytest.raises(E, match="explain some first"):
            getattr(fed, name)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"y": np.zeros(5)}, E, r"y must have shape \(6,\)"),
        ({"metric": "auc"}, E, "metric"),
        ({"metric": 3}, T, "metric"),
        ({"refitted": {"h": None}}, E, "there is no guest 'h'"),
        ({"refitted": {"g": 3}}, T, "refitted"),
    ],
)
def test_worth_refuses(arguments, error, says):
    counting = Counting()
    fed = xj.FederatedExplainer(xj.as_model(counting, backend="host"), B, {"g": [2]})
    with pytest.raises(error, match=says):
        fed.worth(**({"X": B, "y": np.zeros(6)} | arguments))
    assert counting.calls == 0


def test_worth_refuses_truths_that_no_label_can_be():
    labels = xj.as_model(lambda rows: (rows[:, 0] > 0) * 0.9, backend="host", output="proba")
    fed = xj.FederatedExplainer(labels, B, {"g": [2]})
    with pytest.raises(E, match="y holds 'no', 'yes'"):
        fed.worth(B, np.array(["yes", "no"] * 3))
    with pytest.raises(E, match="y"):
        fed.worth(B, np.full(6, np.nan))
    with pytest.raises(T, match="metric must return one number"):
        fed.worth(B, np.zeros(6), metric=lambda y, answers: None)


def test_worth_refuses_several_reference_rows():
    counting = Counting()
    fed = xj.FederatedExplainer(xj.as_model(counting, backend="host"), B, {"g": [2]}, reference=B)
    with pytest.raises(E, match="one reference row"):
        fed.worth(B, np.zeros(6))
    assert counting.calls == 0
