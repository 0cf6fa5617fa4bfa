"""What follows from closed forms and leaf bits of trees: certificates, certain ranks, training
rows of networks, sweeps that go on, and as many players as a path has.

The oracles ask scikit-learn for hybrids that NumPy makes.
"""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

import xaijax as xj

RNG = np.random.default_rng(0)
P, B = 10, 20
X = RNG.normal(size=(300, P)).astype(np.float32)
Y = X[:, 0] * X[:, 1] + X[:, 2] + np.abs(X[:, 3])


def by_pairs(predict: Any, x: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Shapley values [P] in float64: of each donor by all sets of the columns in which it differs,
    since the others are null players.
    """
    total = np.zeros(len(x))
    for b in background:
        own = np.flatnonzero(x != b)
        k = len(own)
        kept = np.array(list(itertools.product([False, True], repeat=k)))
        rows = np.repeat(b[None], len(kept), axis=0)
        rows[:, own] = np.where(kept, x[own], b[own])
        v, size = np.asarray(predict(rows), np.float64), kept.sum(axis=1)
        for i, j in enumerate(own):
            f = math.factorial
            of = [f(s - 1) * f(k - s) / f(k) if s else 0.0 for s in range(k + 1)]
            off = [f(s) * f(k - s - 1) / f(k) if s < k else 0.0 for s in range(k + 1)]
            weights = np.where(kept[:, i], np.array(of)[size], -np.array(off)[size])
            total[j] += weights @ v
    return total / len(background)


@pytest.mark.slow
def test_the_certificate_of_1000_trees_is_at_rounding_level() -> None:
    fitted = GradientBoostingRegressor(n_estimators=1_000, random_state=0).fit(X, 100 + Y)
    found = xj.Explainer(fitted, X[:B])(X[B : B + 30], progress=False)
    assert found.exact and found.stats["structure"] == "trees"
    residual, bound = found.stats["efficiency_residual"], found.stats["efficiency_bound"]
    assert (residual <= bound).all()
    # f(x) of the certificate is a sum of 1,001 float32 numbers, of which the first is 100.
    assert bound.max() <= 2 * 1_001 * 2.0**-24 * 100
    # Against the library's own float64 sums, only the leaves are rounded; those of 1,000 trees
    # together are no larger than what they explain.
    own = fitted.predict(X[B : B + 30])
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, own, rtol=0, atol=2.0**-24 * (100 + 30))


def test_the_default_forest_is_exact_by_default() -> None:
    """30 columns, none of which is sampled, and no hybrid row."""
    table, target = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(100, random_state=0).fit(table, target)
    explainer = xj.Explainer(xj.as_model(forest, output=1), table[:100])
    for asked in (explainer, xj.Explainer(explainer.model, table[:100], estimator="exact")):
        plan = asked.plan(table[100:])
        assert plan.path == "closed form" and (plan.estimator == "exact").all()
        assert (plan.model_rows <= 1).all() and len(plan.model_rows) == 469
    found = explainer(table[100:110], progress=False)
    assert found.exact and found.stats["model_rows"] <= 10
    total = found.base_values + found.values.sum(axis=1)
    own = forest.predict_proba(table[100:110])[:, 1]
    np.testing.assert_allclose(total, own, rtol=0, atol=100 * 2.0**-24)
    assert explainer.interactions(table[100:102], order=1, progress=False).exact


def chain(columns: int) -> tuple[Any, np.ndarray]:
    """A tree whose deepest path asks each column once, and rows with up to 8 ones."""
    rows = np.concatenate([np.eye(columns), np.zeros((1, columns))])
    fitted = DecisionTreeRegressor(random_state=0).fit(rows, np.arange(columns + 1)[::-1] ** 2.0)
    assert fitted.tree_.max_depth == columns
    ones = np.zeros((7, columns), np.float32)
    for row in ones:
        row[RNG.choice(columns, 4, replace=False)] = 1
    return fitted, ones


@pytest.mark.slow
@pytest.mark.parametrize("columns", [64, 70])
def test_paths_of_64_players_and_more(columns: int) -> None:
    """64 on a path have a closed form. Beyond, the hybrids of pairs are asked: never another
    number."""
    fitted, rows = chain(columns)
    found = xj.Explainer(fitted, rows[:4])(rows[4:], progress=False)
    assert found.exact and (found.stats["structure"] == "trees") == (columns == 64)
    for x, values in zip(rows[4:], found.values, strict=True):
        wanted = by_pairs(fitted.predict, x, rows[:4])
        np.testing.assert_allclose(values, wanted, rtol=0, atol=2.0**-22 * columns**2)


@pytest.mark.slow
def test_pairs_that_differ_on_70_players_of_a_path_are_sampled_or_refused() -> None:
    fitted, _ = chain(70)
    none, every = np.zeros((1, 70), np.float32), np.ones((1, 70), np.float32)
    found = xj.Explainer(fitted, none, budget=2_000)(every, progress=False)
    assert not found.exact and found.std_errors is not None and (found.std_errors > 0).any()
    with pytest.raises(xj.EnumerationLimitError):
        xj.Explainer(fitted, none, estimator="exact")(every, progress=False)


@pytest.mark.slow
def test_ranks_of_a_closed_form_are_certain() -> None:
    forest = RandomForestRegressor(20, random_state=0).fit(X, Y)
    explainer = xj.Explainer(forest, X[:B])
    found, whole = explainer(X[B : B + 5], top=3, progress=False), explainer(X[B : B + 5])
    assert found.stats["structure"] == "trees" and found.stats["certain"].all()
    np.testing.assert_array_equal(found.values, whole.values)
    largest = np.argsort(-np.abs(whole.values), axis=1)[:, :3]
    np.testing.assert_array_equal(np.sort(found.top(3).players), np.sort(largest))


WIDE = 22
ROWS = np.random.default_rng(1).normal(size=(400, WIDE)).astype(np.float32)
CLASSES = ROWS[:, :10] @ 0.8 ** np.arange(10) + ROWS[:, 0] * ROWS[:, 1] > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:top=")
def test_ranks_of_a_boosted_probability_are_those_of_all_coalitions() -> None:
    """Sampled by leaf bits: what is claimed of the 3 largest values is true."""
    fitted = HistGradientBoostingClassifier(max_iter=8, random_state=0).fit(ROWS, CLASSES)
    model, background, x = xj.as_model(fitted, output=1), ROWS[:5], ROWS[5:17]
    limits = {"estimator": "permutation", "budget": 20_000}
    found = xj.Explainer(model, background, **limits)(x, top=3, progress=False)
    assert found.stats["structure"] == "sum of products" and not found.exact
    certain = np.flatnonzero(found.stats["certain"])
    assert len(certain) >= 3
    exact = xj.Explainer(model, background, estimator="exact")(x[certain], progress=False).values
    largest = np.sort(np.argsort(-np.abs(exact), axis=1)[:, :3])
    np.testing.assert_array_equal(np.sort(found[certain].top(3).players), largest)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*rows have been explained by a network:xaijax.XaiWarning")
def test_a_network_learns_from_closed_forms() -> None:
    """Its training rows cost one row of the model each, at most."""
    forest = RandomForestRegressor(10, max_depth=6, random_state=0).fit(X, Y)
    explainer = xj.Explainer(forest, X[:B])
    network = xj.AmortizedExplainer(explainer, hidden=(16,))
    network.fit(X, judge=60, steps=60, progress=False)
    assert 0 < network.stats_["label_model_rows"] <= len(X)
    found = network(X[:20], fallback=0.5, progress=False)
    own = found.stats["fallback_rows"]
    assert own.sum() == 10
    np.testing.assert_array_equal(found.values[own], explainer(X[:20][own]).values)


SWEPT = """
import sys
import numpy as np
from sklearn.ensemble import RandomForestRegressor
import xaijax as xj

def made(rows):
    fitted = RandomForestRegressor(10, max_depth=8, random_state=0).fit(rows[:400], rows[:400, 0])
    return xj.Explainer(fitted, rows[:20])

if __name__ == "__main__":
    rows = np.load(sys.argv[1])
    xj.sweep(made(rows), rows, sys.argv[2], rows_per_part=500)
"""


@pytest.mark.slow
def test_a_sweep_killed_half_way_goes_on(tmp_path: Path) -> None:
    rows = np.random.default_rng(2).normal(size=(4_000, 12)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "swept.py").write_text(SWEPT)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "swept.py", "rows.npy", "run"]
    half = os.environ | {"PYTHONPATH": path, "XAIJAX_FAILPOINT": "after-rename:5"}
    assert subprocess.run(command, env=half, cwd=tmp_path, timeout=300).returncode == -9
    before = {part: part.stat().st_mtime_ns for part in (tmp_path / "run").glob("part-*.npz")}
    assert len(before) == 4  # and the manifest
    whole = os.environ | {"PYTHONPATH": path}
    subprocess.run(command, env=whole, cwd=tmp_path, timeout=300, check=True)
    run = xj.open_run(tmp_path / "run")
    assert run.parts == 8 and not run.missing
    assert {part: part.stat().st_mtime_ns for part in before} == before
    fitted = RandomForestRegressor(10, max_depth=8, random_state=0).fit(rows[:400], rows[:400, 0])
    found, wanted = run.explanation(), xj.Explainer(fitted, rows[:20])(rows)
    assert found.exact and found.stats["model_rows"] <= len(rows)
    np.testing.assert_array_equal(found.values, wanted.values)
