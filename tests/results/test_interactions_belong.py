"""What interactions keep of where they come from, and what is refused or told by it."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

from types import SimpleNamespace

import numpy as np
import pytest

import xaijax as xj

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


def f(X):
    return X[:, 0] * X[:, 1] + X[:, 2]


def qii(model=f, data=X, **options):
    options = {"quantity": "individual", "outcome": "score", "bounds": (-20, 20)} | options
    return xj.QII(xj.as_model(model), data, **options)


@pytest.fixture(scope="module")
def found():
    return qii().game(X[:3]).interactions()


def test_a_table_of_qii_keeps_rows_and_question(found):
    np.testing.assert_array_equal(found.data, X[:3])
    assert found.provenance["method"] == "QII" and found.provenance["quantity"] == "individual"
    assert found.provenance["index"] == "sii" and found.provenance["order"] == 2
    assert isinstance(found.stats["fingerprint"], str)
    xj.plots.dependence(found, "x0")
    assert qii().game(X[:3]).merge(0, 1).interactions().provenance["quantity"] == "individual"
    by_hand = xj.CoalitionTable([0, 1, 1, 4]).interactions()
    assert by_hand.data is None and by_hand.provenance["method"] == "CoalitionTable"


def test_tables_of_one_question_are_merged(found):
    both = xj.merge([found, qii().game(X[3:]).interactions()])
    np.testing.assert_array_equal(both.data, X)
    np.testing.assert_allclose(both.values, qii().game(X).interactions().values, atol=1e-6)


@pytest.mark.parametrize(
    "other, match",
    [
        (lambda: qii(quantity="average").game(), "quantity"),
        (lambda: qii(pool=X[:2]).game(X[3:]), "pool_rows"),
        (lambda: qii(pool=X[::-1]).game(X[3:]), "fingerprint"),
        (lambda: qii(lambda X: 2 * f(X)).game(X[3:]), "another model"),
        (lambda: xj.CoalitionTable(np.zeros(8), ["x0", "x1", "x2"]), "player_columns"),
    ],
)
def test_tables_of_other_questions_are_not_merged(found, other, match):
    with pytest.raises(xj.InputError, match=match):
        xj.merge([found, other().interactions()])


def theirs(value: float = 1.0) -> SimpleNamespace:
    """What shapiq's InteractionValues offer to read."""
    return SimpleNamespace(
        index="SII",
        n_players=2,
        min_order=1,
        max_order=2,
        values=np.array([value, 2.0, 3.0]),
        interaction_lookup={(0,): 0, (1,): 1, (0, 1): 2},
        baseline_value=0.0,
        estimated=False,
    )


def test_what_shapiq_found_takes_its_data_and_is_drawn_against_them():
    several = [theirs(), theirs(2.0)]
    without = xj.Interactions.from_shapiq(several)
    with pytest.raises(xj.InputError, match=r"have no data.*from_shapiq\(theirs, data=X\)"):
        xj.plots.dependence(without, 0)
    for data in (X[:2, :2], X[:2, :2].tolist()):
        given = xj.Interactions.from_shapiq(several, data=data)
        np.testing.assert_allclose(given.data, X[:2, :2])
        xj.plots.dependence(given, 0)
    for data in (X[:3, :2], X[:2], X[:2, 0]):
        with pytest.raises(xj.InputError, match=r"data: got .* rows of .* columns.*\[2, 2\]"):
            xj.Interactions.from_shapiq(several, data=data)


def test_single_players_are_not_drawn_as_pairs():
    alone = xj.CoalitionTable([0, 1, 1, 4]).interactions(order=1)
    with pytest.raises(xj.InputError, match=r"single players only.*order=2"):
        xj.plots.pairs(alone)


@pytest.mark.parametrize("long", ["yes", 1, None])
def test_long_is_true_or_false(found, long):
    for one in (found, qii().explain(X)):
        with pytest.raises(xj.InputTypeError, match="long must be True or False"):
            one.to_dataframe(long=long)


def interactions(values, std_errors=None, **more):
    values = np.asarray(values, float)
    return xj.Interactions(
        values,
        np.zeros(len(values)),
        ((0,), (1,), (2,), (0, 1), (0, 2)),
        std_errors=std_errors,
        exact=std_errors is None,
        **more,
    )


def test_answers_that_are_not_finite_are_told_and_left_out_of_the_ranking():
    values = [[1, 1, 1, 2.0, 5.0], [np.nan] * 5]
    errors = np.array([[0.1] * 5, [np.nan] * 5])
    for one in (interactions(values, errors), interactions(values)):
        text = repr(one)
        assert "the answers of 1 of 2 instances are not finite" in text
        assert "degree of freedom" not in text and "no standard errors" not in text
        assert "player 0 & player 2 5, player 0 & player 1 2" in text
    values = np.array([[1.0, 3.0], [np.nan, np.nan]])
    explanation = xj.Explanation(values, np.zeros(2))
    assert "player 1 3, player 0 1" in repr(explanation)
    assert "nan" not in repr(interactions([[np.nan] * 5]))


def test_errors_of_players_and_of_pairs_are_told_apart():
    errors = np.array([[np.nan] * 3 + [0.1, 0.15]] * 3)
    text = repr(interactions(np.ones((3, 5)), errors, stats={"estimator": "pairs"}))
    assert "largest standard error of pairs 0.15" in text
    assert "no standard errors of players for 3 of 3 instances: fewer than P + 20 = 23" in text
    assert "of pairs for" not in text
