"""The logistic slopes: against bisection, against scikit-learn, in chunks, separated, weighted."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import oracles
import pytest
from aec_data import collinear, fitted
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import xaijax as xj
from xaijax.methods.aec import logistic as distinct
from xaijax.methods.aec import logistic as lbfgs
from xaijax_kernels.collinearity import newton as kernel

# Newton stops where a step is below 1e-8, and takes it: what is left is about its square times the
# curvature's change, 1e-15, and the rounding of sums of a few hundred rows.
CONVERGED = 1e-11


def oracle(X, y, weights=None):
    return np.array([oracles.logistic_slope(x, y, weights) for x in np.asarray(X, float).T])


@pytest.mark.parametrize("seed", range(3))
def test_newton_finds_the_minimum(seed):
    X, y = collinear(rows=180, columns=5, seed=seed, labels=True)
    aec = fitted(X, y, solver="newton")
    np.testing.assert_allclose(aec.target_slopes_, oracle(X, y), rtol=CONVERGED)
    assert 0 < aec.n_iter_ <= 12


def test_standardised_slopes_are_penalised_as_such():
    X, y = collinear(rows=120, columns=4, labels=True)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    aec = fitted(X, y, solver="newton", standardize=True)
    np.testing.assert_allclose(aec.target_slopes_, oracle(z, y), rtol=CONVERGED)
    raw = fitted(X, y, solver="newton").target_slopes_ * X.std(axis=0)
    assert np.abs(raw / aec.target_slopes_ - 1).max() > 1e-3  # the penalty is another one


def test_the_penalty_is_there_and_leaves_the_intercept_alone():
    X, y = collinear(rows=80, columns=3, labels=True)
    X = X / X.std(axis=0) * [0.01, 0.1, 1.0] + [0.0, 3.0, 100.0]
    slopes = fitted(X, y, solver="newton").target_slopes_
    np.testing.assert_allclose(slopes, oracle(X, y), rtol=1e-9)
    free = fitted(X * 1e6, y, solver="newton").target_slopes_ * 1e6  # there the penalty is nothing
    assert abs(slopes[0] / free[0]) < 0.1
    moved = fitted(X + 50.0, y, solver="newton").target_slopes_
    np.testing.assert_allclose(moved, slopes, rtol=1e-9)


def test_the_sklearn_solver_is_sklearn_on_every_column():
    X, y = collinear(rows=500, columns=4, labels=True)
    X[:, 1] = np.round(X[:, 1])
    expected = [LogisticRegression().fit(x[:, None], y).coef_[0, 0] for x in X.T]
    found = fitted(X, y).target_slopes_
    # The same sums in another order move the solver's steps by rounding only. The second column is
    # fitted on its distinct values.
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert np.abs(found / fitted(X, y, solver="newton").target_slopes_ - 1).max() > 1e-9


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("place", [0.0, 10.0, 1e4, -1e6])  # the mean, in spreads
@pytest.mark.parametrize("spread", [1e-3, 1.0, 1e3])
def test_it_stops_where_sklearn_stops_in_any_unit(spread, place, weighted):
    """Far from the minimum, too, where the line search gives up: not before, and not after.

    The sums are taken in another order, which moves a step by rounding, most where the line search
    gives up: by 3e-9 of these, and by 2e-7 at most of 900 random columns of any unit and offset.
    Twice the gradient that is stopped at, twice the penalty, or a stop by the loss at 1e6 eps moves
    some of them further than is let through.
    """
    rng = np.random.default_rng(5)
    x = rng.normal(size=600)
    y = (1.5 * x + rng.logistic(size=600) > 0.3).astype(int)
    x = spread * (x + place)
    weights = rng.integers(1, 4, 600).astype(float) if weighted else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        wanted = LogisticRegression().fit(x[:, None], y, weights)
    a, b, _ = lbfgs.stopping_point(x, y, weights)
    np.testing.assert_allclose(
        [a, b], [wanted.intercept_[0], wanted.coef_[0, 0]], rtol=1e-6, atol=1e-12
    )


def test_the_solvers_agree_where_sklearn_is_let_run_on():
    X, y = collinear(rows=400, columns=4, labels=True)
    tight = [
        LogisticRegression(tol=1e-10, max_iter=10_000).fit(x[:, None], y).coef_[0, 0] for x in X.T
    ]
    # lbfgs stops by the loss as well, whose digits end at sqrt(eps) of the slope.
    np.testing.assert_allclose(fitted(X, y, solver="newton").target_slopes_, tight, rtol=1e-5)


@pytest.mark.parametrize("solver", ["sklearn", "newton"])
@pytest.mark.parametrize("weighted", [False, True])
def test_distinct_values_are_as_good_as_rows(solver, weighted, monkeypatch):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 400), rng.integers(-3, 9, 400), rng.normal(size=400)])
    X = np.column_stack([X, rng.choice([0.25, 1.5, 7.75], 400)])
    y = rng.random(400) < 1 / (1 + np.exp(-X[:, 0] - 0.2 * X[:, 1]))
    weights = rng.random(400) + 0.1 if weighted else None
    tables = [
        distinct.value_table(xj.methods.aec.rows.table_of(X, y, weights), j, y.astype(int), (1,))
        for j in range(4)
    ]
    assert [None if one is None else len(one.values) for one in tables] == [2, 12, None, 3]
    few = fitted(X, y, weights, solver=solver).target_slopes_
    monkeypatch.setattr(distinct, "MOST", 0)
    rows = fitted(X, y, weights, solver=solver).target_slopes_
    np.testing.assert_allclose(few, rows, rtol=1e-9)
    if solver == "newton":
        np.testing.assert_allclose(few, oracle(X, y, weights), rtol=1e-9)


@pytest.mark.parametrize("solver", ["sklearn", "newton"])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3])
def test_perfect_separation_is_finite(solver, scale):
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    X = np.column_stack([x + np.sign(x), rng.normal(size=100)]) * scale
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*logistic fit")  # scikit-learn may give up
        aec = fitted(X, x > 0, solver=solver)
    assert np.isfinite(aec.effects_).all() and aec.target_slopes_[0] > 0
    if solver == "newton":
        expected = oracle(X, (x > 0).astype(float))
        # At 1e3 the penalty is so weak that the minimum is flat: the gradient's rounding, 1e-14 of
        # the rows, is worth 1e-7 of the slope.
        np.testing.assert_allclose(aec.target_slopes_, expected, rtol=1e-6)


def test_a_fit_that_stops_early_is_told_of(monkeypatch):
    X, y = collinear(rows=200, columns=3, labels=True)
    X[:, 1] = 4.0
    monkeypatch.setitem(lbfgs.OPTIONS, "maxiter", 10)  # near the minimum, but not there
    with pytest.warns(xj.XaiWarning) as caught:
        fitted(X, y)
    told = [str(one.message) for one in caught if "logistic" in str(one.message)]
    assert len(told) == 1 and "'x0' stopped at scikit-learn" in told[0]


@pytest.mark.parametrize("task", ["regression", "classification", "weighted"])
@pytest.mark.parametrize("size", [7, 300, 999])
def test_chunks_are_the_whole(task, size, monkeypatch):
    X, y = collinear(rows=1000, columns=4, labels=task != "regression")
    weights = np.random.default_rng(0).integers(0, 3, 1000) if task == "weighted" else None
    whole = fitted(X, y, weights, solver="newton")
    monkeypatch.setattr(xj.methods.aec.rows, "BLOCK_VALUES", 1024)  # blocks of 256 rows
    passes = []

    def chunks():
        passes.append(0)
        for a in range(0, 1000, size):
            part = slice(a, a + size)
            yield (X[part], y[part]) if weights is None else (X[part], y[part], weights[part])

    parts = xj.AEC(solver="newton")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X has columns")
        parts.fit_chunks(chunks)
    np.testing.assert_allclose(parts.effects_, whole.effects_, rtol=1e-10)
    # One look at the names, one pass for the moments, the rest for Newton.
    assert len(passes) - 2 == parts.n_iter_ <= (0 if task == "regression" else 10)
    if size == 7:
        listed = xj.AEC(solver="newton").fit_chunks
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X has columns")
            again = listed(list(chunks()))
        np.testing.assert_array_equal(again.effects_, parts.effects_)


def test_a_memory_map_is_read_in_blocks(tmp_path):
    X, y = collinear(rows=500, columns=3, labels=True)
    mapped = np.memmap(tmp_path / "x", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    table = xj.methods.aec.rows.table_of(mapped, y)
    assert not table.in_memory and np.shares_memory(table.by_column().x, mapped)
    for solver in ("sklearn", "newton"):
        found = fitted(mapped, y, solver=solver).effects_
        np.testing.assert_allclose(found, fitted(X, y, solver=solver).effects_, rtol=1e-10)


def test_a_start_from_some_rows_ends_at_the_same_point(monkeypatch):
    X, y = collinear(rows=2000, columns=3, labels=True)
    monkeypatch.setattr(xj.methods.aec.logistic, "SAMPLE", 100)
    sampled = fitted(X, y, solver="newton")
    monkeypatch.setattr(xj.methods.aec.logistic, "SAMPLE", 1000)
    plain = fitted(X, y, solver="newton")
    np.testing.assert_allclose(sampled.target_slopes_, plain.target_slopes_, rtol=CONVERGED)
    assert sampled.n_iter_ < plain.n_iter_


@pytest.mark.usefixtures("strict_numerics")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_sums_are_those_of_the_definition(dtype):
    """In float32 too, which is what the kernel gets where 64-bit JAX is off."""
    rng = np.random.default_rng(0)
    F, R = 3, 2 * kernel.TILE
    theta, x = rng.normal(size=(F, 2)), rng.normal(size=(F, R)) * 3 + 1
    total, mean, scale = rng.random(R), x.mean(axis=1), 1 / x.std(axis=1)
    positive = total * (rng.random(R) < 0.3)
    z = (x - mean[:, None]) * scale[:, None]
    p = 1 / (1 + np.exp(-(theta[:, :1] + theta[:, 1:] * z)))
    missed, curve = total * p - positive, total * p * (1 - p)
    terms = [missed, missed * z, curve, curve * z, curve * z * z]
    expected = np.stack([one.sum(axis=1) for one in terms], axis=1)
    sizes = np.stack([np.abs(one).sum(axis=1) for one in terms], axis=1)
    with jax.enable_x64(dtype is np.float64):
        arrays = [a.astype(dtype) for a in (theta, x, mean, scale, total, positive)]
        found = np.asarray(jax.jit(kernel.logistic_sums)(*arrays))
    assert found.dtype == dtype
    # A term is off by a few eps; a sum of R terms, in pieces, by sqrt(R) eps of their sizes at most
    # but for one run in e^32 (Higham and Mary 2019, theorem 2.4, lambda = 8).
    assert (np.abs(found - expected) <= 8 * np.sqrt(R) * np.finfo(dtype).eps * sizes).all()


@pytest.mark.slow
def test_replicates_are_fits_with_other_weights():
    rng = np.random.default_rng(0)
    S, F, R = 3, 2, 64
    theta, x = rng.normal(size=(S, F, 2)), rng.normal(size=(F, R))
    total = rng.integers(0, 4, (S, R)).astype(float)
    positive = total * (rng.random(R) < 0.5)
    mean, scale = np.zeros(F), np.ones(F)
    with jax.enable_x64(True):
        found = kernel.replicate_sums(theta, x, mean, scale, total, positive)
        for s in range(S):
            one = kernel.logistic_sums(theta[s], x, mean, scale, total[s], positive[s])
            np.testing.assert_allclose(found[s], one, rtol=1e-13, atol=1e-13)


def test_newton_shortens_steps_that_overshoot():
    """From a start in the flat tail a full step would land in the other tail, further away."""
    z = np.array([-2.0, -1.0, 1.0, 2.0])
    y = np.array([0.0, 1.0, 0.0, 1.0])
    lengths = []

    def evaluate(theta):
        lengths.append(float(np.abs(theta).max()))
        p = 1 / (1 + np.exp(-(theta[..., :1] + theta[..., 1:] * z)))
        v = p * (1 - p)
        sums = p - y, (p - y) * z, v, v * z, v * z * z
        return np.stack([one.sum(axis=-1) for one in sums], axis=-1)

    with np.errstate(over="ignore"):
        ended = kernel.newton(evaluate, np.array([[0.0, 9.0], [0.0, 0.0]]), np.zeros(2))
    assert ended.converged.all() and max(lengths) > 100
    np.testing.assert_allclose(ended.theta[0], ended.theta[1], atol=1e-10)


def test_a_fit_without_a_minimum_is_said_not_to_converge():
    def evaluate(theta):  # separated, and without a penalty: the slope grows without end
        p = 1 / (1 + np.exp(theta[..., 1]))
        v = p * (1 - p)
        return np.stack([0 * p, -p, v, 0 * p, v], axis=-1)

    ended = kernel.newton(evaluate, np.zeros((1, 2)), np.zeros(1), most=30)
    assert not ended.converged[0] and ended.passes == 30
