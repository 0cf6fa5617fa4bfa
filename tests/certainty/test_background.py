"""`background` and `background_spread`: rows chosen, and what the choice does to the values."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj

RNG = np.random.default_rng(2)
ROWS = RNG.normal(size=(60, 3))


def cost(rows, places):
    """Sum of squared distances of standardised rows to their nearest chosen one."""
    z = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return sum(min(((one - z[p]) ** 2).sum() for p in places) for one in z)


def test_medoids_are_rows_that_no_single_turn_betters():
    chosen = xj.background(ROWS, 5)
    np.testing.assert_array_equal(chosen.rows, ROWS[chosen.places])
    z = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0)
    group = [min(range(5), key=lambda g: ((one - z[chosen.places[g]]) ** 2).sum()) for one in z]
    for g in range(5):
        own = [i for i in range(60) if group[i] == g]
        assert chosen.weights[g] == pytest.approx(len(own) / 60)
        costs = {i: sum(((z[i] - z[j]) ** 2).sum() for j in own) for i in own}
        assert min(costs, key=costs.get) == chosen.places[g]
    by_chance = np.mean([cost(ROWS, xj.background(ROWS, 5, "random", s).places) for s in range(20)])
    assert cost(ROWS, chosen.places) < 0.8 * by_chance


def test_groups_that_are_apart_are_found_with_their_shares():
    rows = np.repeat([[0.0, 0], [9, 0], [0, 9]], [5, 3, 2], axis=0) + 0.01 * RNG.normal(
        size=(10, 2)
    )
    chosen = xj.background(rows, 3)
    assert (chosen.places < [5, 8, 10]).all() and (chosen.places >= [0, 5, 8]).all()
    np.testing.assert_allclose(chosen.weights, [0.5, 0.3, 0.2])
    assert "kmedoids" in repr(chosen) and len(chosen) == 3


def test_random_rows_are_drawn_once_each_and_all_are_all():
    chosen = xj.background(ROWS, 20, "random", seed=3)
    assert chosen.weights is None and len(np.unique(chosen.places)) == 20
    np.testing.assert_array_equal(chosen.places, xj.background(ROWS, 20, "random", 3).places)
    np.testing.assert_array_equal(xj.background(ROWS, method="all").rows, ROWS)


def test_frames_stay_frames():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"u": [0.0, 0.1, 5.0, 5.1], "v": ["a", "a", "b", "b"]})
    chosen = xj.background(frame, 2)
    assert list(chosen.rows["v"]) == ["a", "b"] and isinstance(chosen.rows, pandas.DataFrame)


@pytest.mark.slow
def test_the_spread_is_that_of_the_draws():
    explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1] + X[:, 2]), ROWS)
    X = RNG.normal(size=(4, 3))
    found = xj.background_spread(explainer, X, sizes=(6, 60), draws=3)
    values = []
    for seed in range(3):
        places = xj.background(ROWS, 6, "random", seed).places
        values.append(xj.Explainer(explainer.model, ROWS[places])(X).values)
    variance = np.var(values, axis=0, ddof=1)
    assert found.spread[0] == pytest.approx(np.sqrt(variance.sum(axis=1).mean()))
    np.testing.assert_allclose(found.by_player[0], np.sqrt(variance.mean(axis=0)))
    size = (np.mean(values, axis=0) ** 2).sum() - variance.sum() / 3
    assert found.relative[0] == pytest.approx(variance.sum() / size)
    # All rows are drawn: what is left are float32 roundings of numbers below 10.
    assert found.spread[1] < 1e-5 and "60 rows" in repr(found)
    frame = pytest.importorskip("pandas") and found.to_dataframe()
    assert list(frame.index) == [6, 60]


def test_weights_of_medoids_are_used():
    explainer = xj.Explainer(xj.as_model(lambda X: X.sum(axis=1)), ROWS)
    found = xj.background_spread(explainer, ROWS[:3], sizes=(5,), method="kmedoids", draws=2)
    assert 0 <= found.spread[0] < xj.background_spread(explainer, ROWS[:3], sizes=(5,)).spread[0]


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda: xj.background(ROWS), "needs how many"),
        (lambda: xj.background(ROWS, 61), "method='all'"),
        (lambda: xj.background(ROWS, 5, "all"), "takes all 60"),
        (lambda: xj.background(ROWS[:0], 1), "got 0 rows"),
        (lambda: xj.background(np.ones((4, 2)), 2), "only 1 of the 4"),
        (lambda: xj.background(np.full((4, 2), np.nan), 2), "not finite"),
        (lambda: xj.background(ROWS, 2, "means"), "method"),
    ],
)
def test_what_cannot_be_chosen_is_refused(ask, match):
    with pytest.raises(xj.InputError, match=match):
        ask()


def test_spreads_that_cannot_be_found_are_refused():
    model = xj.as_model(lambda X: X.sum(axis=1))
    explainer = xj.Explainer(model, ROWS)
    with pytest.raises(xj.InputError, match="61 rows are wanted of 60"):
        xj.background_spread(explainer, ROWS, sizes=(61,))
    with pytest.raises(xj.InputError, match="Baseline"):
        xj.background_spread(xj.Explainer(model, xj.Baseline("mean", ROWS)), ROWS)
    with pytest.raises(xj.InputError, match="none is given"):
        xj.background_spread(explainer, ROWS, sizes=())
    with pytest.raises(xj.InputTypeError, match="Explainer"):
        xj.background_spread(model, ROWS)
