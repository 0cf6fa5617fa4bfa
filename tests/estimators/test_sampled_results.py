"""What is done with sampled values afterwards: files, tables, slices, merging, pictures, repr."""

from __future__ import annotations

import games
import numpy as np
import pytest
from often import some_slow

import xaijax as xj

P, BUDGET = 20, 98  # below 5 P auto takes permutations; two pairs of orders fit
A = games.weights(P)
MODEL = xj.as_model(games.three_outputs, params=A)
DONORS = np.tile(games.rows(1, P, "continuous", 2), (2, 1))
X = games.rows(6, P, "continuous", 1)
X[[1, 4]] = DONORS[0]  # these two are enumerated under "auto"
X[[1, 4], 3] = [5.0, 6.0]
SAMPLED = [0, 2, 3, 5]


@pytest.fixture(scope="module")
def mixed() -> xj.Explanation:
    with pytest.warns(xj.XaiWarning, match="not met by 4 of 4"):  # two pairs are too few to tell
        got = xj.Explainer(MODEL, DONORS, budget=BUDGET, tolerance=100.0)(X, progress=False)
    np.testing.assert_array_equal(np.flatnonzero(~got.stats["exact_rows"]), SAMPLED)
    return got


@pytest.fixture(scope="module")
def exact() -> xj.Explanation:
    return xj.Explainer(MODEL, DONORS, estimator="exact")(X[[1, 4]], progress=False)


@pytest.mark.slow
def test_stats_and_provenance(mixed):
    stats = mixed.stats
    assert stats["estimator"] == "permutation" and stats["budget"] == BUDGET
    assert stats["seed"] == 0 and stats["backend"] == "jax" and stats["tolerance"] == 100.0
    assert mixed.provenance["estimator"] == "permutation"
    assert mixed.provenance["index"] == mixed.kind == "shapley"
    # One difference between X and the two equal donors: a corner with it and one without.
    assert stats["model_rows"] == 2 * (2 * 2 + (stats["coalitions"][SAMPLED] + 2).sum())
    assert (stats["efficiency_residual"] <= stats["efficiency_bound"]).all()
    assert np.isinf(stats["dof"][[1, 4]]).all() and (stats["dof"][SAMPLED] > 0).all()


@pytest.mark.slow
def test_files_keep_everything(mixed, tmp_path):
    mixed.save(tmp_path / "mixed.npz")
    back = xj.load(tmp_path / "mixed.npz")
    for name in ("values", "base_values", "std_errors", "data"):
        assert getattr(back, name).tobytes() == getattr(mixed, name).tobytes()
    assert not back.exact and repr(back) == repr(mixed)
    assert back.stats.keys() == mixed.stats.keys()
    for name in ("exact_rows", "coalitions", "dof", "efficiency_bound", "certain", "pairs"):
        np.testing.assert_array_equal(back.stats[name], mixed.stats[name])


@pytest.mark.slow
def test_slices_take_the_facts_of_their_instances_along(mixed):
    part = mixed[[4, 5], :, "output 1"]
    np.testing.assert_array_equal(part.stats["exact_rows"], [True, False])
    np.testing.assert_array_equal(part.stats["coalitions"], mixed.stats["coalitions"][[4, 5]])
    np.testing.assert_array_equal(part.std_errors, mixed.std_errors[[4, 5], :, 1])
    assert (part.std_errors[0] == 0).all() and (part.std_errors[1] > 0).all()


def test_merging_with_an_exact_part(mixed, exact):
    whole = xj.merge([mixed[SAMPLED], exact])
    assert not whole.exact
    np.testing.assert_array_equal(whole.stats["exact_rows"], [False] * 4 + [True] * 2)
    np.testing.assert_array_equal(whole.values, mixed.values[[*SAMPLED, 1, 4]])
    np.testing.assert_array_equal(whole.std_errors, mixed.std_errors[[*SAMPLED, 1, 4]])
    assert "2 of 6 instances exact" in repr(whole)
    np.testing.assert_array_equal(whole.stats["certain"], [False] * 4 + [True] * 2)
    np.testing.assert_array_equal(whole.stats["pairs"], [2] * 4 + [0] * 2)
    parts = xj.merge([mixed[:2], mixed[2:]])
    for name in ("exact_rows", "coalitions", "dof"):
        np.testing.assert_array_equal(parts.stats[name], mixed.stats[name])
    banzhaf = xj.Explainer(MODEL, DONORS, index="banzhaf", budget=BUDGET)(X, progress=False)
    with pytest.raises(xj.InputError, match="kind"):
        xj.merge([mixed, banzhaf])


def test_tables(mixed):
    pytest.importorskip("pandas")
    long = mixed.to_dataframe(long=True)
    assert len(long) == mixed.values.size
    errors = long["std_error"].to_numpy().reshape(mixed.shape)
    np.testing.assert_array_equal(errors, mixed.std_errors)
    wide = mixed[:, :, 0].to_dataframe()
    np.testing.assert_array_equal(wide.to_numpy()[:, :P], mixed.values[:, :, 0])


def test_shap_explanations_carry_the_errors(mixed):
    pytest.importorskip("shap")
    there = mixed.to_shap()
    np.testing.assert_array_equal(there.error_std, mixed.std_errors)
    np.testing.assert_array_equal(there.values, mixed.values)


@pytest.mark.parametrize("budget", [BUDGET, 2 * (P - 1)])
def test_pictures(budget):
    """With errors, and with none for want of a second pair."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pytest.importorskip("matplotlib.pyplot")
    got = xj.Explainer(MODEL, DONORS, budget=budget)(X, progress=False)[:, :, 0]
    assert np.isnan(got.std_errors[0]).all() == (budget < BUDGET)
    ax = xj.plots.bar(got)
    size = np.sort(np.abs(got.values).mean(axis=0))[::-1]
    np.testing.assert_allclose([p.get_width() for p in ax.patches][:5], size[:5])
    assert len(xj.plots.beeswarm(got).collections) > 0
    for n in (0, 1):
        assert len(xj.plots.waterfall(got[n]).patches) > 0


def test_the_repr_says_how_sure(mixed):
    text = repr(mixed)
    largest = f"{mixed.std_errors.max():.2g}"
    assert f"sampled (2 of 6 instances exact), largest standard error {largest}" in text
    assert f"estimator permutation, budget {BUDGET}" in text
    without = repr(xj.Explainer(MODEL, DONORS, budget=2 * (P - 1))(X, progress=False))
    assert "no standard errors for 4 of 6 instances: fewer than 2 antithetic pairs" in without


@pytest.mark.slow
@pytest.mark.parametrize(("structure", "rows"), some_slow([(None, 1), ("plain", 2**10)]))
def test_twenty_thousand_players_are_shown_and_saved(tmp_path, structure, rows):
    """2^20,000 has 6,021 digits, more than Python makes a text of."""
    x = np.zeros((1, 20_000), np.float32)
    x[0, 19_990:] = np.arange(1.0, 11.0)
    model = xj.as_model(lambda X: X.sum(axis=1), structure=structure)
    baseline = xj.Baseline(0 * x[0])
    got = xj.Explainer(model, baseline)(x, progress=False)
    assert got.exact and got.stats["model_rows"] == rows
    # 2^10 changes of at most 55, weighted and summed in float32.
    np.testing.assert_allclose(got.values, x, rtol=0, atol=64 * 2.0**-24 * 55)
    got.save(tmp_path / "wide.npz")
    assert repr(xj.load(tmp_path / "wide.npz")) == repr(got)
    assert xj.load(tmp_path / "wide.npz").stats["naive_rows"] == got.stats["naive_rows"]
    with pytest.raises(xj.InputError, match="budget=10 is given, but estimator='exact'"):
        xj.Explainer(model, baseline, estimator="exact", budget=10)(x, progress=False)
