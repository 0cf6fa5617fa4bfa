"""Runs of sampled estimators: traces, calls, progress, bad answers, random models, wide inputs."""

from __future__ import annotations

import math
from typing import get_args

import games
import jax.numpy as jnp
import numpy as np
import pytest
from progress_bar import Bar
from scipy import stats

import xaijax as xj
from xaijax.estimators import driver
from xaijax.methods.explainer import explainer as explainer_module

P, BUDGET = 20, 200
A = games.weights(P)
METHODS = pytest.mark.parametrize("estimator", ["permutation", "kernel"])
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])


def test_the_type_of_estimator_names_every_method():
    assert get_args(driver.EstimatorName) == ("auto", "exact", *driver.METHODS)


def mixed(N: int, B: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and donors, and whether "auto" enumerates the row: every third one.

    Those rows differ from each donor in 7 players at most. The next ones differ in 12 from the last
    donor and in 2 from the others: they are sampled, the other donors by their corners. The third
    ones differ from all donors in all players.
    """
    X = games.rows(N, P, "continuous", 1)
    base = games.rows(1, P, "continuous", 2)[0]
    donors = np.tile(base, (B, 1))
    donors[np.arange(B - 1), np.arange(B - 1)] += 1.0
    donors[-1, 8:19] -= 1.0
    few, some = np.arange(N) % 3 == 0, np.arange(N) % 3 == 1
    X[few | some] = donors[-1]
    X[few, 13:19] = base[13:19]
    X[some, 8:19] = base[8:19]
    X[few | some, 5] = np.linspace(3, 4, (few | some).sum())
    return X, donors, few


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator, index", [("auto", "shapley"), ("permutation", "banzhaf"), ("kernel", "shapley")]
)
def test_a_jax_model_is_traced_twice_per_explainer(estimator, index):
    entered = []

    def f(params, X):
        entered.append(X.shape)
        return games.smooth(params, X)

    X, donors, few = mixed(30, 4)
    explainer = xj.Explainer(xj.as_model(f, params=A), donors, None, index, estimator, BUDGET)
    assert not entered
    first = explainer(X[few], progress=False)
    assert len(entered) == 2  # the probe and the run
    both = explainer(X, progress=False)
    explainer(X[~few], progress=False)
    explainer(np.concatenate([X, X]), progress=False)
    assert len(entered) == 2
    assert first.exact == (estimator == "auto")
    if estimator == "auto":
        np.testing.assert_array_equal(both.stats["exact_rows"], few)


@pytest.mark.slow
@METHODS
def test_tolerance_needs_no_further_trace(estimator):
    entered = []

    def f(X):
        entered.append(X.shape)
        return games.smooth(A, X)

    X, donors, _ = mixed(10, 4)
    explainer = xj.Explainer(
        xj.as_model(f), donors, estimator=estimator, budget=2000, tolerance=0.3
    )
    got = explainer(X * np.linspace(0.5, 2, 10, dtype=np.float32)[:, None], progress=False)
    assert len(entered) == 2 and len(set(got.stats["coalitions"])) > 1


@pytest.mark.parametrize("estimator", ["permutation", "kernel", "auto"])
def test_calls_of_a_host_model(estimator):
    """N = 1,000 instances in as few calls as their rows fill."""
    rows = []

    def f(X):
        rows.append(len(X))
        return X.sum(axis=1)

    X = games.rows(1000, P, "continuous", 1)
    donors = games.rows(2, P, "continuous", 2)
    model = xj.as_model(f, backend="host")
    got = xj.Explainer(model, donors, estimator=estimator, budget=60)(X, progress=False)
    coalitions = got.stats["coalitions"]
    asked = 2 * int((coalitions + 2).sum())
    assert asked <= 1000 * 2 * (60 + 2)
    assert rows.pop() == 32  # rows of the first call, asked again at the end
    assert got.stats["model_rows"] == asked == sum(rows[4:])  # after four rows of the probe
    assert got.stats["model_calls"] == len(rows) - 4 == math.ceil(asked / 2**15)


@pytest.mark.slow
@pytest.mark.parametrize("tolerance", [None, 0.3])
@BACKENDS
def test_the_bar_ends_at_the_model_rows(monkeypatch, backend, tolerance):
    X, donors, few = mixed(12, 4)
    bar = Bar()

    def drawn(progress, rows):
        bar.total = bar.announced = rows
        return bar

    monkeypatch.setattr(explainer_module, "progress_bar", drawn)
    f = games.smooth if backend == "jax" else games.smooth_host
    model = xj.as_model(lambda X: f(A, X) if backend == "jax" else f(X, A), backend=backend)
    explainer = xj.Explainer(model, donors, budget=1000, tolerance=tolerance)
    got = explainer(X, progress=True)
    assert bar.n == bar.total == got.stats["model_rows"]
    corners = (2 ** (X[few][:, None] != donors).sum(axis=2)).sum()
    assert bar.announced == corners + (~few).sum() * len(donors) * (1000 + 2)
    assert bar.n <= bar.announced


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["permutation", "auto"])
@BACKENDS
def test_an_answer_that_is_not_finite_is_named(backend, estimator):
    """NaN for hybrids of X row 4 and background row 3 only, behind a background row of weight 0;
    under "auto" beside enumerated rows. They keep x3 and not x7."""
    X, donors, _ = mixed(6, 5)
    X[:, 3], X[:, 7], donors[:, 3], donors[:, 7] = 1.0, 2.0, 3.0, 4.0
    donors[:, 11], X[:, 12] = np.arange(5), np.arange(6)

    def f(X):
        xp = jnp if backend == "jax" else np
        bad = (X[:, 3] == 1) & (X[:, 7] == 4) & (X[:, 11] == 3) & (X[:, 12] == 4)
        return xp.where(bad, xp.nan, X.sum(axis=1))

    explainer = xj.Explainer(
        xj.as_model(f, backend=backend),
        donors,
        estimator=estimator,
        budget=3000,
        weights=[1, 0, 1, 2, 1],
    )
    text = r"nan for X row 4 with background row 3 and the players \["
    with pytest.raises(xj.ModelOutputError, match=text) as raised:
        explainer(X, progress=False)
    named = str(raised.value).partition("players")[2]
    assert "'x12'" in named or " more" in named
    assert "'x7'" not in named and "'x11'" not in named
    rows = np.delete(X, 4, axis=0)  # without that row nothing is wrong
    assert np.isfinite(explainer(rows, progress=False).values).all()


@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_a_random_model(index):
    """Uniform noise on an additive game: the errors hold it. Student's t at 1e-6 over the number
    of values; bounded noise has no heavier tails than that."""
    rng = np.random.default_rng(5)

    def f(X):
        return X.sum(axis=1) + 0.1 * (rng.random(len(X)) - 0.5)

    model = xj.as_model(f, backend="host", deterministic=False)
    X, donors, _ = mixed(4, 3)
    X, donors = X.astype(float), donors.astype(float)
    with pytest.raises(xj.InputError, match="estimator='kernel' leaves a random model's own noise"):
        xj.Explainer(model, donors, None, index, "kernel", 2000)(X, progress=False)
    got = xj.Explainer(model, donors, None, index, "auto", 2000)(X, progress=False)
    assert got.stats["estimator"] == "permutation"
    expected = X - donors.mean(axis=0)
    reach = stats.t.isf(1e-6 / expected.size / 2, got.stats["dof"])[:, None]
    off = np.abs(got.values - expected)
    assert (off <= 1.5 * reach * got.std_errors).all()
    assert (got.std_errors > 0).all() and got.std_errors.max() < 0.05
    # Nothing is asked once for two, though most players of rows 0, 1 and 3 agree.
    assert got.stats["model_rows"] == 3 * (got.stats["coalitions"] + 2).sum()


def test_a_link_of_a_random_mean_is_refused():
    """Sampled or not, before the model is called."""
    called = []

    def f(X):
        called.append(len(X))
        return np.random.default_rng(len(called)).random(len(X))

    model = xj.as_model(f, backend="host", deterministic=False)
    X, donors, _ = mixed(4, 3)
    for estimator in ("auto", "permutation", "kernel"):
        explainer = xj.Explainer(model, donors, estimator=estimator, budget=BUDGET, link="logit")
        with pytest.raises(xj.InputError, match="biased by its noise"):
            explainer(X[1:2], progress=False)
    assert not called


@pytest.mark.slow
@METHODS
@BACKENDS
def test_pixels_of_an_image_as_players(backend, estimator):
    """784 players, numbered against the order of the pixels; sums of whole numbers are exact."""
    rng = np.random.default_rng(0)
    mask = rng.permutation(784).reshape(28, 28)
    worth = rng.integers(-3, 4, (28, 28)).astype(np.float32)
    X, donors = rng.integers(0, 8, (2, 3, 28, 28)).astype(np.float32)
    model = xj.as_model(
        lambda X: (X * worth).sum(axis=(1, 2)), backend=backend, input_shape=(28, 28)
    )
    budget = 4 * 783 if estimator == "permutation" else 2 * 784 + 60
    got = xj.Explainer(model, donors, mask, estimator=estimator, budget=budget)(X, progress=False)
    expected = ((X - donors.mean(axis=0, dtype=float)) * worth).reshape(3, 784)
    # Sums of 784 whole numbers up to 21 stay within 2^14, of one sign or another some 2^8; a mean
    # of three is off by a rounding of that, and a value by several of these.
    got_by_pixel = got.values[:, mask.reshape(-1)]
    np.testing.assert_allclose(got_by_pixel, expected, rtol=0, atol=64 * 2.0**-24 * 2**8)
    assert got.std_errors.max() <= 64 * 2.0**-24 * 2**8


@pytest.mark.slow
def test_five_thousand_players():
    """Two pairs of orders within 64 MB; whole numbers, so that all sums are exact."""
    rng = np.random.default_rng(0)
    worth = rng.integers(-3, 4, 5000).astype(np.float32)
    X, donor = rng.integers(0, 8, (2, 2, 5000)).astype(np.float32)
    explainer = xj.Explainer(
        xj.as_model(lambda X: X @ worth),
        xj.Baseline(donor[0]),
        estimator="permutation",
        budget=4 * 4999,
        max_memory=1 << 26,
    )
    got = explainer(X, progress=False)
    np.testing.assert_array_equal(got.values, (X - donor[0]) * worth)
    assert (got.std_errors == 0).all() and (got.stats["coalitions"] == 4 * 4999).all()
