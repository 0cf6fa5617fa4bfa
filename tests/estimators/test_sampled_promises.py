"""Seeds, budgets, the choice of "auto" and tolerance=: what sampled values hold to."""

from __future__ import annotations

import games
import jax.numpy as jnp
import numpy as np
import oracles_certain
import pytest
import sampled_games
from scipy import stats

import xaijax as xj

P, BUDGET = 20, 200
A = games.weights(P)
X, DONORS = games.rows(9, P, "continuous", 1), games.rows(3, P, "continuous", 2)
MODEL = xj.as_model(games.smooth, params=A)
HOST = xj.as_model(lambda X: games.smooth_host(X, A), backend="host")
METHODS = pytest.mark.parametrize("estimator", list(sampled_games.METHODS))
INDICES = pytest.mark.parametrize("index", ["shapley", "banzhaf"])
PAIRS = pytest.mark.parametrize("backend, index", [("jax", "shapley"), ("host", "banzhaf")])
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])


def run(rows, donors=DONORS, model=MODEL, **options) -> xj.Explanation:
    return xj.Explainer(model, donors, **{"budget": BUDGET, **options})(rows, progress=False)


def same_bits(a: xj.Explanation, b: xj.Explanation) -> bool:
    return all(
        getattr(a, name).tobytes() == getattr(b, name).tobytes()
        for name in ("values", "base_values", "std_errors")
    )


def mixed_rows() -> np.ndarray:
    """X, with every third row differing from the donors in few players only."""
    out = X.copy()
    out[::3] = DONORS[0]
    out[::3, 4] = [1.0, 2.0, 3.0]
    return out


# Donors that differ from the first in two players each, and one of them in all.
AGREEING = np.tile(DONORS[0], (3, 1))
AGREEING[1, [2, 7]] += 1.0
AGREEING[2, [0, 19]] -= 1.0


class Watched:
    """A host model that keeps the rows it is given, less those of the probe."""

    def __init__(self, function=lambda X: X.sum(axis=1)):
        self.function, self.rows = function, []

    def __call__(self, X):
        self.rows.append(np.array(X))
        return self.function(X)

    def asked(self) -> np.ndarray:
        return np.concatenate(self.rows[4:])  # two for determinism, two for neighbours


@METHODS
@PAIRS
def test_any_order_batch_or_subset_of_rows_gives_the_same_values(backend, index, estimator):
    options = {"estimator": estimator, "index": index, "tile": 256}
    options["model"] = MODEL if backend == "jax" else HOST
    whole = run(X, **options)
    order = np.random.default_rng(0).permutation(len(X))
    assert same_bits(run(X[order], **options), whole[order])
    assert same_bits(run(X, batch_size=300, **options), whole)
    assert same_bits(run(X[4:5], **options), whole[4:5])
    assert same_bits(run(X[[4, 0, 4]], **options), whole[[4, 0, 4]])
    other = run(X, seed=1, **options)
    assert (other.values != whole.values).all()
    np.testing.assert_array_equal(other.base_values, whole.base_values)
    assert whole.stats["seed"] == 0 and other.stats["seed"] == 1


@METHODS
@INDICES
def test_every_instance_is_asked_the_same_coalitions_once_within_the_budget(index, estimator):
    """Each row's nonzero entries tell its instance, its coalition and, where 0, its donor."""
    model, donors = Watched(), -np.arange(1.0, 4.0)[:, None] * np.ones(P)
    rows = np.arange(1.0, 6.0)[:, None] * np.ones(P)
    wrapped = xj.as_model(model, backend="host")
    got = run(rows, donors, wrapped, estimator=estimator, index=index)
    asked = model.asked()
    instance, donor = asked.max(axis=1), asked.min(axis=1)
    lists = {}
    for d in donors[:, 0]:
        for n in rows[:, 0]:
            both = (instance == n) & (donor == d)
            lists[n, d] = {m.tobytes() for m in asked[both] > 0}
            assert len(lists[n, d]) == both.sum()  # none twice
    coalitions = got.stats["coalitions"]
    assert (coalitions == coalitions[0]).all() and 0.5 * BUDGET < coalitions[0] <= BUDGET
    assert len(set(map(frozenset, lists.values()))) == 1
    ends = {bytes(P), np.ones(P, bool).tobytes()}
    # f(x) alone and f(donor) alone show one of the two only, so they stand in no pair's list.
    assert all(len(found - ends) == coalitions[0] for found in lists.values())
    assert len(asked) == got.stats["model_rows"] == 5 * 3 * (coalitions[0] + 2)
    assert got.stats["padded_rows"] == 0


@pytest.mark.slow
def test_the_default_budget():
    model = xj.as_model(lambda X: X.sum(axis=1), structure="plain")
    for players, budget in ((20, 2088), (1100, 4400)):
        x = np.ones((1, players), np.float32)
        got = run(x, xj.Baseline(0 * x[0]), model, budget=None)
        assert got.stats["budget"] == budget
        # As many pairs of orders or coalitions as fit, and one pair is 2 (P - 1).
        assert budget - 2 * (players - 1) < got.stats["coalitions"] <= budget


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["auto", "exact", *sampled_games.METHODS])
def test_a_budget_of_all_coalitions_is_exact_with_a_warning(estimator):
    exact = xj.Explainer(MODEL, DONORS, [range(16)], estimator="exact")(X, progress=False)
    for budget in (30, 31, 10**6):
        with pytest.warns(xj.XaiWarning, match="all 30 coalitions of 5 players") as given:
            got = run(X, players=[range(16)], estimator=estimator, budget=budget)
        assert len(given) == 1 and given[0].filename == __file__
        assert got.exact and got.std_errors is None
        assert got.values.tobytes() == exact.values.tobytes()
    if estimator in ("permutation", "kernel"):
        assert not run(X, players=[range(16)], estimator=estimator, budget=29).exact


@METHODS
@INDICES
def test_too_small_a_budget_is_refused_before_the_model_is_called(index, estimator):
    for budget in (1, 10):
        model = Watched()
        explainer = xj.Explainer(
            xj.as_model(model, backend="host"), DONORS, None, index, estimator, budget
        )
        with pytest.raises(xj.InputError, match=f"budget={budget} is too small.* asks at least "):
            explainer(X, progress=False)
        assert not model.rows


@METHODS
def test_an_index_that_is_not_sampled_is_refused(estimator):
    for index in (xj.SizeLimited(2), lambda s: 1.0):
        with pytest.raises(xj.InputError, match="samples index='shapley' and 'banzhaf'"):
            xj.Explainer(MODEL, DONORS, None, index, estimator)
    model = Watched()
    explainer = xj.Explainer(
        xj.as_model(model, backend="host"), DONORS, index=xj.SizeLimited(2), budget=BUDGET
    )
    with pytest.raises(xj.EnumerationLimitError, match="X row 1 .* is not sampled"):
        explainer(mixed_rows(), progress=False)
    assert not model.rows


@pytest.mark.parametrize(
    "estimator, budget, reason",
    [
        ("permutation", 2 * (P - 1) + 1, "fewer than 2 antithetic pairs of permutations"),
        ("kernel", 2 * (P + 19), "fewer than P + 20 = 40 complementary pairs"),
    ],
)
def test_without_a_degree_of_freedom_there_are_no_errors(estimator, budget, reason):
    got = run(X, estimator=estimator, budget=budget)
    assert np.isnan(got.std_errors).all() and np.isfinite(got.values).all()
    assert not got.exact
    assert f"no standard errors for 9 of 9 instances: {reason}" in repr(got)
    more = run(X, estimator=estimator, budget=2 * budget)
    assert np.isfinite(more.std_errors).all() and "no standard errors" not in repr(more)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
@INDICES
def test_each_instance_stops_where_its_own_intervals_are_narrow(index, estimator):
    """Rows of several sizes, so that they need different numbers of draws.

    Narrow by a bound that holds at every check: over pairs of orders a confidence sequence, else
    Student's intervals that share 5 % over the checks there may be.
    """
    rows = X * np.linspace(0.1, 1.5, len(X), dtype=np.float32)[:, None]
    options = {"estimator": estimator, "index": index, "budget": 4000}
    cost = 2 * (P - 1) if index == "shapley" else 2 * (P + 1)
    checks = np.ceil(np.log2(2000 / (P + 20))) + 1

    def reach(got):
        if estimator == "permutation":
            pairs = got.stats["coalitions"] // cost  # with 20 players hardly any is met again
            bound = np.array([oracles_certain.two_sided_quantile(D, 0.05) for D in pairs])
        else:
            bound = stats.t.isf(0.025 / checks, got.stats["dof"])
        return (bound[:, None] * got.std_errors).max(axis=1)

    free = run(rows, **options)
    # The widest cannot meet it, nearly all can.
    tolerance = float(np.sort(reach(free))[-2:].mean())
    with pytest.warns(xj.XaiWarning, match="is not met by 1 of 9 sampled instances") as given:
        got = run(rows, tolerance=tolerance, **options)
    assert len(given) == 1
    asked = got.stats["coalitions"]
    used_up = asked == free.stats["coalitions"]
    widest = reach(got)
    assert (widest[~used_up] <= tolerance).all() and (widest > tolerance).sum() == 1
    np.testing.assert_array_equal(got.stats["certain"], widest <= tolerance)
    assert got.stats["bound"] == ("asymptotic" if estimator == "permutation" else "checks")
    assert len(set(asked.tolist())) >= 3 and (~used_up).sum() >= 4  # they stop apart
    assert same_bits(got[used_up], free[used_up])
    assert got.stats["model_rows"] == len(DONORS) * (asked + 2).sum()
    for n in (0, 4):  # alone as in company
        alone = run(rows[n : n + 1], tolerance=tolerance, **options)
        assert same_bits(alone, got[n : n + 1]) and alone.stats["coalitions"] == asked[n]
    order = np.arange(len(X))[::-1]
    with pytest.warns(xj.XaiWarning, match="is not met"):
        assert same_bits(run(rows[order], tolerance=tolerance, **options), got[order])


@pytest.mark.slow
@BACKENDS
def test_auto_decides_for_each_instance_alone(backend):
    rows, model = mixed_rows(), MODEL if backend == "jax" else HOST
    got = run(rows, AGREEING, model, tile=256)
    own = np.arange(len(X)) % 3 == 0
    np.testing.assert_array_equal(got.stats["exact_rows"], own)
    assert not got.exact and got.stats["estimator"] == "kernel"
    assert (got.std_errors[own] == 0).all() and (got.std_errors[~own] > 0).all()
    np.testing.assert_array_equal(got.stats["coalitions"] == 0, own)
    exact = xj.Explainer(model, AGREEING, estimator="exact", tile=256)(rows[own], progress=False)
    assert got.values[own].tobytes() == exact.values.tobytes()
    np.testing.assert_array_equal(got.base_values[own], exact.base_values)
    drawn = run(rows[~own], AGREEING, model, estimator="kernel", tile=256)
    assert same_bits(drawn, got[~own])
    for n in (3, 4):
        alone = run(rows[n : n + 1], AGREEING, model, tile=256)
        assert alone.values.tobytes() == got.values[n].tobytes()
        assert alone.exact == own[n]


@pytest.mark.slow
def test_auto_is_exact_up_to_as_many_corners_as_the_budget_asks_rows():
    """B (budget + 2) = 2 x 40 rows: corners of 64 + 16 fit, 64 + 32 do not. Without a budget 2^16
    corners per background row."""
    base = np.zeros((2, P), np.float32)
    f = xj.as_model(lambda X: jnp.tanh(X.sum(axis=1)))  # which has no closed form
    for differ, fits in (((6, 4), True), ((6, 5), False), ((5, 5), True)):
        donors = base.copy()
        for b, k in enumerate(differ):
            donors[b, :k] = 1
        assert run(base[:1], donors, f, budget=38).exact == fits
    for k, fits in ((16, True), (17, False)):
        x = (np.arange(P) < k).astype(np.float32)[None]
        assert run(x, base[:1], f, budget=None).exact == fits


@pytest.mark.slow
def test_auto_takes_the_kernel_from_5_coalitions_a_player_up_to_128_players():
    """And from 2 P + 40, where its standard errors are known: 64 in place of 60 of 12 players."""
    model = xj.as_model(lambda X: jnp.tanh(X.sum(axis=1)))  # which has no closed form
    for players, budget, sampler in (
        (20, 99, "permutation"), (20, 100, "kernel"),
        (12, 63, "permutation"), (12, 64, "kernel"),
        (128, 640, "kernel"), (129, 2064, "permutation"),
    ):  # fmt: skip
        x = np.ones((1, players), np.float32)
        got = run(x, xj.Baseline(0 * x[0]), model, budget=budget)
        assert got.stats["estimator"] == sampler, (players, budget)
