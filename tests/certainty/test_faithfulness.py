"""Deletion and insertion curves, against plain loops from the definition."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj

RNG = np.random.default_rng(3)
X = RNG.normal(size=(4, 5))
B = RNG.normal(size=(3, 5))


def f(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2] * rows[:, 3] + rows[:, 4]


def two(rows):
    return rows.__array_namespace__().stack([f(rows), rows[:, 1] * rows[:, 4]], axis=1)


def curves(values, columns, g=f):
    """(insertion, deletion), each [N, P + 1]; columns: those of each player."""
    found = [], []
    for x, own in zip(X, values, strict=True):
        order = sorted(range(len(columns)), key=lambda j: -own[j])
        lines = [], []
        for s in range(len(columns) + 1):
            for line, kept in zip(lines, (order[:s], order[s:]), strict=True):
                here = [c for j in kept for c in columns[j]]
                rows = B.copy()
                rows[:, here] = x[here]
                line.append(g(rows).mean())
        for whole, line in zip(found, lines, strict=True):
            whole.append(line)
    return tuple(map(np.array, found))


@pytest.mark.slow
@pytest.mark.parametrize("players", [None, [[0, 2], [1], [3, 4]]])
def test_the_curves_are_those_of_the_definition(players):
    explainer = xj.Explainer(xj.as_model(f), B, players=players)
    columns = players or [[j] for j in range(5)]
    values = RNG.normal(size=(4, len(columns)))
    judged = xj.judge(values, explainer, X, curves=True)
    assert judged.curves is not None
    insertion, deletion = curves(values, columns)
    # Float32 means of three rows of numbers below 8.
    near = {"atol": 16 * 2.0**-22}
    np.testing.assert_allclose(judged.curves.insertion[..., 0], insertion, **near)
    np.testing.assert_allclose(judged.curves.deletion[..., 0], deletion, **near)
    area = [np.trapezoid(line - line[0]) / len(columns) for line in insertion]
    mean, error = judged.curves.area("insertion")
    assert mean == pytest.approx(np.mean(area), abs=1e-5)
    assert error == pytest.approx(np.std(area, ddof=1) / 2, abs=1e-5)
    assert "insertion" in repr(judged) and judged.to_dict()["deletion_std_error"] > 0


@pytest.mark.slow
def test_each_output_has_its_own_order():
    explainer = xj.Explainer(xj.as_model(two), B)
    values = RNG.normal(size=(4, 5, 2))
    judged = xj.judge(values, explainer, X, curves=True)
    assert judged.curves is not None
    for k, g in enumerate((f, lambda rows: two(rows)[:, 1])):
        insertion, _ = curves(values[..., k], [[j] for j in range(5)], g)
        np.testing.assert_allclose(judged.curves.insertion[..., k], insertion, atol=16 * 2.0**-22)


@pytest.mark.slow
def test_one_output_for_each_instance_has_curves_too():
    explainer = xj.Explainer(xj.as_model(two), B)
    values = RNG.normal(size=(4, 5))
    judged = xj.judge(values, explainer, X, outputs=[0, 0, 0, 0], curves=True)
    assert judged.curves is not None
    insertion, _ = curves(values, [[j] for j in range(5)])
    np.testing.assert_allclose(judged.curves.insertion[..., 0], insertion, atol=16 * 2.0**-22)


@pytest.mark.slow
def test_players_of_each_instance_and_baselines_of_each():
    numbers = np.array([[0, 0, 1, 1, -1], [1, 0, 0, 1, -1], [0, 1, 1, 1, -1], [0, 0, 0, 1, -1]])
    explainer = xj.Explainer(xj.as_model(f), xj.Baseline(lambda rows: 0 * rows), players=numbers)
    values = explainer(X).values
    judged = xj.judge(values, explainer, X, curves=True)
    assert judged.curves is not None
    for i in range(4):
        best = int(np.argmax(values[i]))
        kept = (numbers[i] == best) | (numbers[i] == -1)
        assert judged.curves.insertion[i, 1, 0] == pytest.approx(
            f((X[i] * kept)[None])[0], abs=1e-5
        )


@pytest.mark.slow
def test_a_better_order_has_more_under_insertion_and_less_under_deletion():
    explainer = xj.Explainer(xj.as_model(lambda rows: rows.sum(axis=1)), np.zeros((1, 5)))
    judged = xj.judge({"right": X, "turned": -X}, explainer, X, curves=True)
    right, turned = (judged[name].curves for name in ("right", "turned"))
    assert right is not None and turned is not None
    assert right.area("insertion") > turned.area("insertion")
    assert right.area("deletion") < turned.area("deletion")
    with pytest.raises(xj.InputError, match="which"):
        right.area("other")
