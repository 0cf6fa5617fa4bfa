"""`Explainer.interactions` against the definitions, and what it asks of the model for them."""

from __future__ import annotations

from unittest import mock

import games
import jax.numpy as jnp
import numpy as np
import oracles
import oracles_interactions as oracle
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVR

import xaijax as xj
from xaijax.games.strategies import averaged

ADD = averaged.Averaged.add
P, N, B = 5, 3, 6
A = games.weights(P)
INDICES = list(oracle.ORACLES)
# Numbers below 8 with some hundred float32 roundings each, 2^s of them in a set of s players.
CLOSE = {"jax": 8 * 100 * 2.0**-24, "host": 1e-11}


def data(kind: str, P: int = P, N: int = N, B: int = B) -> tuple[np.ndarray, np.ndarray]:
    return games.rows(N, P, kind, 1), games.rows(B, P, kind, 2)


def model_of(backend: str, **options) -> xj.Model:
    if backend == "jax":
        return xj.as_model(games.three_outputs, params=A, **options)
    return xj.as_model(lambda X: games.three_outputs_host(X, A), backend="host", **options)


def expected(f, X, donors, index, order, groups=None, weights=None, link=None):
    """[N, M, ..] by the definition, of means over donors."""
    groups = [[j] for j in range(donors.shape[1])] if groups is None else groups
    w = np.full(len(donors), 1 / len(donors)) if weights is None else weights / weights.sum()
    found = []
    for x in X:
        v = oracles.coalition_values(f, x.astype(float), donors.astype(float), w, groups)
        v = v if link is None else {S: link(value) for S, value in v.items()}
        found.append(oracle.interactions(index, v, len(groups), order))
    return np.stack(found)


def three(X):
    return games.three_outputs_host(X, A)


@pytest.mark.parametrize("kind", ["continuous", "few"])
@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("index", INDICES)
def test_interactions_are_those_of_the_definition(index, backend, kind):
    X, donors = data(kind)
    found = xj.Explainer(model_of(backend), donors).interactions(X, index=index)
    wanted = expected(three, X, donors, index, 2)
    np.testing.assert_allclose(found.values, wanted, rtol=0, atol=CLOSE[backend])
    assert found.sets == tuple(oracle.sets_of(P, 2)) and found.exact
    assert found.shape == (N, 15, 3)


@pytest.mark.slow
@pytest.mark.parametrize("index, order", [("k-sii", 5), ("stii", 3), ("fsii", 1), ("moebius", 4)])
def test_any_order(index, order):
    X, donors = data("few")
    found = xj.Explainer(model_of("jax"), donors).interactions(X, order=order, index=index)
    wanted = expected(three, X, donors, index, order)
    np.testing.assert_allclose(found.values, wanted, rtol=0, atol=2**order * CLOSE["jax"])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_groups_weights_and_a_link_by_tables(backend):
    X, donors = data("few")
    weights = np.arange(1.0, B + 1)
    options = {"players": {"both": [0, 3]}, "weights": weights}
    for link in (None, np.arctan):
        given = options if link is None else options | {"link": link}
        found = xj.Explainer(model_of(backend), donors, **given).interactions(X, order=3)
        wanted = expected(three, X, donors, "sii", 3, [[0, 3], [1], [2], [4]], weights, link)
        np.testing.assert_allclose(found.values, wanted, rtol=0, atol=2 * CLOSE[backend])
    assert found.feature_names[0] == "both"


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_pairs_of_more_corners_than_a_tile_come_in_pieces(backend):
    """2^10 corners in tiles of 256 rows."""
    X, donors = data("continuous", 10, 1, 2)
    big = games.weights(10)
    if backend == "jax":
        model = xj.as_model(games.smooth, params=big, structure="plain")
    else:
        model = xj.as_model(lambda X: games.smooth_host(X, big), backend="host")
    pieces = xj.Explainer(model, donors, tile=256).interactions(X, index="fsii")
    v = xj.Explainer(model, donors, link=lambda v: v).interactions(X, index="fsii")  # by tables
    np.testing.assert_allclose(pieces.values, v.values, rtol=0, atol=8 * CLOSE[backend])
    assert (v.matrix[0][~np.eye(10, dtype=bool)] != 0).all()


@pytest.mark.slow
def test_donors_averaged_first():
    """Continuous columns, a dense first layer: one table an instance."""
    X, donors = data("continuous", 8, 2, 16)
    params = games.weights(8)

    def network(params, X):
        return jnp.tanh(X @ params).sum(axis=1)

    with mock.patch.object(averaged.Averaged, "add", autospec=True, side_effect=ADD) as used:
        found = xj.Explainer(xj.as_model(network, params=params), donors).interactions(X)
    assert used.called
    plain = xj.as_model(network, params=params, structure="plain")
    wanted = xj.Explainer(plain, donors).interactions(X)
    np.testing.assert_allclose(found.values, wanted.values, rtol=0, atol=8 * CLOSE["jax"])


def test_no_more_is_asked_than_for_values():
    X, donors = data("few")
    calls = []

    def counted(X):
        calls.append(len(X))
        return three(X)

    explainer = xj.Explainer(xj.as_model(counted, backend="host"), donors, estimator="exact")
    values = explainer(X)
    before = sum(calls)
    pairs = explainer.interactions(X)
    assert sum(calls) - before == pairs.stats["model_rows"] == values.stats["model_rows"]
    # Players alone have the values of a call: other sums of the same corners.
    np.testing.assert_allclose(pairs[:, :P].values, values.values, rtol=0, atol=1e-13)


@pytest.mark.slow
def test_the_model_is_traced_no_more_than_for_values():
    X, donors = data("few")
    traces = []

    def traced(X):
        traces.append(X.shape)
        return games.smooth(A, X)

    explainer = xj.Explainer(xj.as_model(traced), donors)
    values = explainer(X)
    before = len(traces)
    pairs = explainer.interactions(X)
    explainer.interactions(X, order=3, index="stii")
    assert len(traces) == before
    assert pairs.stats["model_rows"] == values.stats["model_rows"]
    np.testing.assert_allclose(pairs[:, :P].values, values.values, rtol=0, atol=CLOSE["jax"])


@pytest.mark.parametrize("index", INDICES)
def test_additive_models_have_none_in_closed_form(index):
    X, donors = data("few", N=20)
    y = (X @ np.arange(5.0) > 1).astype(int)
    logistic = xj.as_model(LogisticRegression().fit(X, y), output="decision")
    explainer = xj.Explainer(logistic, donors)
    found = explainer.interactions(X, index=index)
    assert found.stats["structure"] == "additive" and found.stats["model_rows"] == len(X)
    assert not found[:, P:].values.any()
    np.testing.assert_array_equal(found[:, :P].values, explainer(X).values)


@pytest.mark.parametrize("index", INDICES)
def test_trees_leaf_by_leaf(index):
    X, donors = data("few", N=40)
    y, order = X[:, 0] * X[:, 1] + X[:, 2], 3
    forest = RandomForestRegressor(5, max_depth=4, random_state=0).fit(X, y)
    explainer = xj.Explainer(xj.as_model(forest), donors)
    found = explainer.interactions(X, order=order, index=index)
    assert found.stats["structure"] == "trees" and found.stats["model_rows"] == len(X)
    wanted = expected(lambda Z: forest.predict(Z.astype(np.float32)), X[:3], donors, index, order)
    np.testing.assert_allclose(found.values[:3], wanted, rtol=0, atol=8 * CLOSE["jax"])


@pytest.mark.slow
def test_trees_of_two_classes():
    X, donors = data("few", N=40)
    y = (X[:, 0] * X[:, 1] + X[:, 2] > 1).astype(int)
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    found = xj.Explainer(xj.as_model(forest), donors).interactions(X[:2], index="k-sii")
    wanted = expected(lambda Z: forest.predict_proba(Z), X[:2], donors, "k-sii", 2)
    np.testing.assert_allclose(found.values, wanted, rtol=0, atol=8 * CLOSE["jax"])


@pytest.mark.slow
def test_sums_of_products():
    X, donors = data("continuous", N=20)
    machine = SVR(gamma=0.3).fit(X, X[:, 0] * X[:, 1] + X[:, 2])
    found = xj.Explainer(xj.as_model(machine), donors).interactions(X[:2])
    assert found.stats["structure"] == "sum of products"
    wanted = expected(machine.predict, X[:2], donors, "sii", 2)
    np.testing.assert_allclose(found.values, wanted, rtol=0, atol=8 * CLOSE["jax"])


@pytest.mark.slow
@pytest.mark.parametrize("index", ["k-sii", "stii", "fsii"])
def test_what_adds_up_says_so(index):
    X, donors = data("few")
    explainer = xj.Explainer(model_of("jax"), donors)
    found = explainer.interactions(X, index=index, order=3)
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, three(X), rtol=0, atol=8 * CLOSE["jax"])
    assert (found.stats["efficiency_residual"] <= found.stats["efficiency_bound"]).all()
    assert "efficiency_bound" not in explainer.interactions(X).stats


@pytest.mark.slow
def test_one_output_for_each_instance():
    X, donors = data("few")
    explainer = xj.Explainer(model_of("jax"), donors)
    found = explainer.interactions(X, outputs=[2, 0, 1])
    whole = explainer.interactions(X)
    own = whole.values[np.arange(N), :, [2, 0, 1]]
    np.testing.assert_allclose(found.values, own, rtol=0, atol=CLOSE["jax"])


@pytest.mark.slow
def test_batches_and_neighbours_change_no_bit():
    X, donors = data("few", N=40)
    whole = xj.Explainer(model_of("jax"), donors, tile=256).interactions(X)
    order = np.random.default_rng(0).permutation(40)
    again = xj.Explainer(model_of("jax"), donors, tile=256, batch_size=300).interactions(X[order])
    np.testing.assert_array_equal(again.values, whole.values[order])


@pytest.mark.slow
def test_a_random_model_has_standard_errors():
    """Of every set sigma times the root of the sum of its squared weights; seen over 200 runs."""
    rng = np.random.default_rng(0)
    donors = np.zeros((1, 3), np.float32)
    model = xj.as_model(
        lambda X: X[:, 0] + rng.normal(0, 0.1, len(X)), backend="host", deterministic=False
    )
    explainer = xj.Explainer(model, donors)
    runs = [explainer.interactions(np.ones((1, 3), np.float32)) for _ in range(200)]
    seen = np.std([one.values[0] for one in runs], axis=0)
    told = np.mean([one.std_errors[0] for one in runs], axis=0)
    # 200 normal draws give a standard deviation to 5 % (one sigma): five of them, and what the
    # probe's 32 rows leave open of sigma, 13 %.
    np.testing.assert_allclose(seen, told, rtol=0.5)
    assert not runs[0].exact


def never(X):
    raise AssertionError("the model was asked")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"order": 0}, xj.InputError, "order must be at least 1"),
        ({"order": 6}, xj.InputError, "order=6 is larger than the 5 players"),
        ({"order": "2"}, xj.InputTypeError, "order"),
        ({"index": "shapley"}, xj.InputError, "index must be one of"),
        ({"index": 2}, xj.InputTypeError, "index"),
        ({"tau": 2}, xj.InputTypeError, "tau"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(arguments, error, words):
    X, donors = data("few")
    explainer = xj.Explainer(xj.as_model(never, backend="host"), donors)
    with pytest.raises(error, match=words):
        explainer.interactions(X, **arguments)


def test_what_does_not_fit_is_refused_with_numbers():
    X, donors = data("continuous", 30, 2, 2)
    model = xj.as_model(never, backend="host")
    with pytest.raises(xj.EnumerationLimitError, match=r"2\^30 coalitions"):
        xj.Explainer(model, donors, estimator="exact").interactions(X)
    some = np.where(np.arange(30) < 22, X, donors[:1])
    with pytest.raises(xj.EnumerationLimitError, match="tables go up to 20 players"):
        xj.Explainer(model, donors[:1], estimator="exact").interactions(some, order=5)
    few, rows = data("few", 12, 2000, 2)
    with pytest.raises(xj.MemoryPlanError, match="have 4,095 sets"):
        xj.Explainer(model, rows, max_memory=1 << 26).interactions(few, order=12)
