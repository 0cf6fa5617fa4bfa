"""Exact values against the definition: every index, link, kind of data, model and cut."""

from __future__ import annotations

import games
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import xaijax as xj

P = 6
A = games.weights(P)

INDICES = {
    "shapley": ("shapley", oracles.shapley_weight(P)),
    "banzhaf": ("banzhaf", oracles.banzhaf_weight(P)),
    "size <= 1": (xj.SizeLimited(1), oracles.size_limited_weight(P, 1)),
    "size <= 2, as printed": (
        xj.SizeLimited(2, normalised=False),
        oracles.size_limited_weight(P, 2, normalised=False),
    ),
    "callable": (lambda s: 1.0 / (1 + s) ** 2, lambda s: 1.0 / (1 + s) ** 2),
}
# logit of a probability-like output; arctan has no such domain.
LINKS = {"identity": ("identity", None), "arctan": (np.arctan, np.arctan)}


def model_of(backend: str, outputs: int) -> xj.Model:
    if backend == "jax":
        return xj.as_model(games.smooth if outputs == 1 else games.three_outputs, params=A)
    function = games.smooth_host if outputs == 1 else games.three_outputs_host
    return xj.as_model(lambda X: function(X, A), backend="host")


def oracle_of(outputs: int):
    function = games.smooth_host if outputs == 1 else games.three_outputs_host
    return lambda X: function(X, A)


def tolerance(backend: str, answers: np.ndarray) -> float:
    """float32 answers round by 2^-24 of their size after some tens of operations; 64 of these.

    A host model answers in float64 and is summed in float64.
    """
    u = 2.0**-24 if backend == "jax" else 2.0**-53
    return 64 * u * max(1.0, float(np.abs(answers).max()))


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("kind", ["continuous", "few"])
@pytest.mark.parametrize("link", list(LINKS))
@pytest.mark.parametrize("index", list(INDICES))
def test_values_are_the_definition(index, link, kind, backend, outputs):
    X, donors = games.rows(4, P, kind, 1), games.rows(3, P, kind, 2)
    weights = np.array([0.5, 0.2, 0.3])
    chosen, weight = INDICES[index]
    given, applied = LINKS[link]
    oracle = oracle_of(outputs)
    values, base, full = oracles.explain(oracle, X, donors, weight, weights=weights, link=applied)

    explainer = xj.Explainer(
        model_of(backend, outputs), donors, index=chosen, link=given, weights=weights
    )
    got = explainer(X, progress=False)

    bound = tolerance(backend, oracle(np.concatenate([X, donors])))
    np.testing.assert_allclose(got.values, values, rtol=0, atol=bound)
    np.testing.assert_allclose(got.base_values, base, rtol=0, atol=bound)
    assert got.exact and got.std_errors is None
    if index == "shapley":
        gap = np.abs(got.base_values + got.values.sum(axis=1) - full).max()
        assert gap <= bound
        assert (got.stats["efficiency_residual"] <= got.stats["efficiency_bound"]).all()


def test_few_values_make_the_quotient_smaller_than_the_table():
    """The precondition of every "few" row above: most players agree somewhere, some everywhere."""
    X, donors = games.rows(4, P, "few", 1), games.rows(3, P, "few", 2)
    differ = (X[:, None] != donors[None]).sum(axis=2)
    assert differ.min() < P - 2 and differ.max() < P
    stats = xj.Explainer(model_of("jax", 1), donors)(X, progress=False).stats
    assert stats["model_rows"] == int((2.0**differ).sum()) < stats["naive_rows"] == 12 * 2**P


@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("index", ["shapley", "size <= 1"])
def test_logit_of_the_mean_probability_where_most_players_agree(index, backend):
    """The link acts after the mean over donors, so the quotient must rebuild the whole table."""
    X, donors = games.rows(5, P, "few", 11), games.rows(4, P, "few", 12)
    chosen, weight = INDICES[index]

    def probability(rows):
        return 1 / (1 + np.exp(-games.smooth_host(rows, A)))

    def traced(params, rows):
        return 1 / (1 + jnp.exp(-games.smooth(params, rows)))

    values, base, _ = oracles.explain(
        probability, X, donors, weight, link=lambda p: np.log(p / (1 - p))
    )
    if backend == "jax":
        model = xj.as_model(traced, params=A)
    else:
        model = xj.as_model(probability, backend="host")
    got = xj.Explainer(model, donors, index=chosen, link="logit")(X, progress=False)
    # d logit / dp is at most 1 / (p (1 - p)), about 13 at the values met here.
    assert np.abs(base).max() < 2.5
    bound = 13 * tolerance(backend, np.ones(1))
    np.testing.assert_allclose(got.values, values, rtol=0, atol=bound)
    np.testing.assert_allclose(got.base_values, base, rtol=0, atol=bound)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("link", list(LINKS))
def test_pairs_larger_than_a_tile_are_cut_into_pieces(link, backend):
    """2^10 corners in tiles of 256 rows: four pieces a pair, and pairs of 2^6 beside them."""
    P = 10
    A = games.weights(P)
    X, donors = games.rows(3, P, "continuous", 3), games.rows(3, P, "continuous", 4)
    donors[0, :4] = X[0, :4]
    X[2] = donors[1]
    weight = oracles.size_limited_weight(P, 3)
    given, applied = LINKS[link]

    def oracle(rows):
        return games.three_outputs_host(rows, A)

    values, base, _ = oracles.explain(oracle, X, donors, weight, link=applied)
    if backend == "jax":
        model = xj.as_model(games.three_outputs, params=A)
    else:
        model = xj.as_model(oracle, backend="host")
    for batch_size in ("auto", 256, 700):
        got = xj.Explainer(
            model, donors, index=xj.SizeLimited(3), link=given, tile=256, batch_size=batch_size
        )(X, progress=False)
        bound = tolerance(backend, oracle(np.concatenate([X, donors])))
        np.testing.assert_allclose(got.values, values, rtol=0, atol=bound)
        np.testing.assert_allclose(got.base_values, base, rtol=0, atol=bound)


@pytest.mark.parametrize("tile", [256, None])
def test_a_high_level_costs_no_digits(tile):
    """Answers near 2^20 that change by whole numbers up to 50: the change is summed, not the level.

    In float32 a sum of weights of total 2 times 2^20 would round by 2^-3; the changes are exact, so
    the values round at 2^-24 of 50, some tens of times.
    """
    P = 9
    worth = np.arange(1.0, P + 1)
    model = xj.as_model(lambda X: 2.0**20 + X @ worth.astype(np.float32) + X[:, 0] * X[:, 1])
    got = xj.Explainer(model, xj.Baseline(np.zeros(P)), tile=tile)(np.ones((1, P)), progress=False)
    expected = worth + np.where(np.arange(P) < 2, 0.5, 0.0)
    np.testing.assert_allclose(got.values[0], expected, rtol=0, atol=64 * 2.0**-24 * 50)


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_groups_move_together(backend):
    X, donors = games.rows(3, P, "few", 5), games.rows(4, P, "few", 6)
    groups = {"pair": [4, 1], "three": [0, 3, 5]}
    values, base, _ = oracles.explain(
        oracle_of(1), X, donors, oracles.shapley_weight(3), groups=[[4, 1], [0, 3, 5], [2]]
    )
    got = xj.Explainer(model_of(backend, 1), donors, players=groups)(X, progress=False)
    bound = tolerance(backend, oracle_of(1)(np.concatenate([X, donors])))
    np.testing.assert_allclose(got.values, values, rtol=0, atol=bound)
    np.testing.assert_allclose(got.base_values, base, rtol=0, atol=bound)
    assert got.feature_names == ("pair", "three", "x2")


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_images_with_a_player_mask(backend):
    """Instances of shape [4, 4]; four patches as players."""
    rng = np.random.default_rng(8)
    X, donors = rng.normal(size=(2, 2, 4, 4)).astype(np.float32)
    mask = np.repeat(np.repeat([[0, 1], [2, 3]], 2, axis=0), 2, axis=1)

    def flat(rows):
        rows = np.asarray(rows, np.float64).reshape(len(rows), 16)
        return rows[:, :8].sum(1) * rows[:, 8:].sum(1) + rows[:, 0] * rows[:, 15]

    def image(rows):
        rows = rows.reshape(rows.shape[0], 16)
        return rows[:, :8].sum(1) * rows[:, 8:].sum(1) + rows[:, 0] * rows[:, 15]

    groups = [np.flatnonzero(mask.reshape(-1) == p).tolist() for p in range(4)]
    values, base, _ = oracles.explain(
        flat, X.reshape(2, 16), donors.reshape(2, 16), oracles.shapley_weight(4), groups=groups
    )
    model = xj.as_model(
        image if backend == "jax" else flat,
        backend="auto" if backend == "jax" else "host",
        input_shape=(4, 4),
    )
    got = xj.Explainer(model, donors, players=mask)(X, progress=False)
    bound = 64 * 2.0**-24 * 64  # sums of 16 standard normals, multiplied: up to about 64
    np.testing.assert_allclose(got.values, values, rtol=0, atol=bound)
    np.testing.assert_allclose(got.base_values, base, rtol=0, atol=bound)


@pytest.mark.slow
def test_forty_players_of_which_few_differ():
    """2^40 coalitions are counted, not enumerated; the weights are those of 40 players."""
    P, active = 40, [0, 7, 33, 35, 39]
    X, donors = np.zeros((3, P), np.float32), np.zeros((2, P), np.float32)
    X[:, active] = np.random.default_rng(9).normal(size=(3, 5))

    def f(rows):
        product = rows[:, 0] * rows[:, 35] + rows[:, 39] * rows[:, 7] * rows[:, 33]
        return product + jnp.sin(rows).sum(axis=1)

    got = xj.Explainer(xj.as_model(f), donors)(X, progress=False)
    assert got.stats["model_rows"] == 3 * 2 * 2**5
    x = X.astype(np.float64)
    expected = np.sin(x)
    expected[:, [0, 35]] += (x[:, 0] * x[:, 35])[:, None] / 2
    expected[:, [7, 33, 39]] += (x[:, 7] * x[:, 33] * x[:, 39])[:, None] / 3
    np.testing.assert_allclose(got.values, expected, rtol=0, atol=64 * 2.0**-24 * 4)
    assert (got.values[:, [1, 2, 38]] == 0).all()


def test_the_small_federated_case_of_the_paper_reading():
    """f = z0+2z1-z2z3+z0z2z4+.5z1z3+[z4>.5 and z0>0]: fractions, to 1e-12 in float64."""

    def f(z):
        step = (z[:, 4] > 0.5) & (z[:, 0] > 0)
        terms = z[:, 0] + 2 * z[:, 1] - z[:, 2] * z[:, 3] + z[:, 0] * z[:, 2] * z[:, 4]
        return terms + 0.5 * z[:, 1] * z[:, 3] + step

    x, reference = np.array([[1.0, 2, 3, -1, 1]]), np.array([0.0, 0.5, 1, 1, 0])
    model = xj.as_model(f, backend="host")
    single = xj.Explainer(model, xj.Baseline(reference))(x, progress=False)
    np.testing.assert_allclose(single.values[0], [8 / 3, 3, 2 / 3, 2.75, 5 / 3], rtol=0, atol=1e-12)
    united = xj.Explainer(model, xj.Baseline(reference), players={"guest": [2, 3, 4]})(
        x, progress=False
    )
    assert united.feature_names == ("guest", "x0", "x1")
    np.testing.assert_allclose(united.values[0], [4.75, 3, 3], rtol=0, atol=1e-12)


def test_two_definitions_of_shapley_agree_in_the_oracle():
    """The oracle itself, against the mean marginal contribution over all orders."""
    X, donors = games.rows(1, 4, "continuous", 3), games.rows(2, 4, "continuous", 4)
    small = games.weights(4)

    def f(rows):
        return games.smooth_host(rows, small)

    v = oracles.coalition_values(f, X[0], donors, [0.5, 0.5], [[0], [1], [2], [3]])
    by_sets = oracles.semivalue(v, 4, oracles.shapley_weight(4))
    np.testing.assert_allclose(by_sets, oracles.shapley_by_orders(v, 4), rtol=0, atol=1e-13)


@pytest.mark.slow
def test_one_model_serves_explainers_with_other_players_in_turn():
    """Executables are shared by a model's explainers; each must get the one that fits."""
    X, donors = games.rows(3, P, "continuous", 1), games.rows(2, P, "continuous", 2)
    order = np.array([2, 1, 0, 5, 4, 3])
    for backend in ("jax", "host"):
        model = model_of(backend, 1)
        single = xj.Explainer(model, donors)(X, progress=False)
        renamed = xj.Explainer(model, donors, players=order)(X, progress=False)
        bound = tolerance(backend, oracle_of(1)(np.concatenate([X, donors])))
        np.testing.assert_allclose(renamed.values[:, order], single.values, rtol=0, atol=bound)


@pytest.mark.slow
@pytest.mark.parametrize("differ", [25, 256, 257, 260])
def test_more_differing_players_than_can_be_enumerated_are_refused(differ):
    """256 once wrapped to 0 in a count of eight bits, and came out as exact zeros."""
    X, donors = np.zeros((2, 280), np.float32), np.zeros((1, 280), np.float32)
    X[1, :differ] = 1
    model = xj.as_model(lambda X: jnp.tanh(X.sum(axis=1)))
    with pytest.raises(xj.EnumerationLimitError, match=f"X row 1 .* {differ} players"):
        xj.Explainer(model, donors, estimator="exact")(X, progress=False)
    with pytest.raises(xj.EnumerationLimitError, match=f"X row 1 .* {differ} players"):
        xj.Explainer(model, donors, index=xj.SizeLimited(2))(X, progress=False)
    sampled = xj.Explainer(model, donors, budget=600)(X, progress=False)  # auto: row 1 is sampled
    assert sampled.stats["exact_rows"].tolist() == [True, False]
    alone = xj.Explainer(model, donors, budget=600)(X[:1], progress=False)
    bound = "efficiency_bound"  # of what is exact, whatever it stands beside
    assert sampled.stats[bound][0] == alone.stats[bound][0] < 1e-5


def test_a_random_model_has_the_mean_of_its_answers_and_their_error():
    """Uniform noise of width 0.1 on an additive game: errors within five standard errors, which for
    bounded noise fails in fewer than 1e-6 of runs (and the seed is fixed)."""
    rng = np.random.default_rng(5)

    def f(rows):
        return rows.sum(axis=1) + 0.1 * (rng.random(len(rows)) - 0.5)

    model = xj.as_model(f, backend="host", deterministic=False)
    donors = games.rows(20, P, "continuous", 2).astype(float)
    X = games.rows(5, P, "continuous", 1).astype(float)
    got = xj.Explainer(model, donors)(X, progress=False)
    assert not got.exact and got.std_errors is not None
    expected = X - donors.mean(axis=0)
    assert (np.abs(got.values - expected) < 5 * got.std_errors).all()
    # And the errors are not idle: they are of the size of the deviations.
    assert 0.5 < np.sqrt(((got.values - expected) ** 2).mean()) / got.std_errors.mean() < 2
    assert "efficiency_residual" not in got.stats
