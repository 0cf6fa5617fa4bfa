"""path="small": the same answers without the engine's programs, and when "auto" takes it."""

from __future__ import annotations

import itertools
from collections import Counter

import games
import jax
import numpy as np
import oracles
import oracles_interactions
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.tree import DecisionTreeRegressor

import xaijax as xj
from xaijax.games.engine import evaluator
from xaijax.games.engine.plan import is_small
from xaijax_kernels.rules.perturbed_rows import (
    PerturbationSpace,
    Pool,
    Subjects,
    alias_table,
    perturbed,
)

P = 4
RNG = np.random.default_rng(5)
X = RNG.normal(size=(3, P)).astype(np.float32)
B = RNG.normal(size=(5, P)).astype(np.float32)
B[1, 2] = X[0, 2]  # a player that agrees
WEIGHTS = np.array([0.1, 0.3, 0.2, 0.15, 0.25])
GROUPS = {"ab": ["x0", "x2"], "c": ["x1"], "d": ["x3"]}
PLACES = [[0, 2], [1], [3]]


def logit(p):
    return np.log(p / (1 - p))


def chance(A, X):
    return 1 / (1 + np.exp(-games.smooth_host(X, A)))


def traced(A, X):
    return jax.nn.sigmoid(games.smooth(A, X))


def bound(values: np.ndarray) -> float:
    """Some tens of float32 roundings of answers of size up to P, or of their largest value: a sum
    of coalitions' answers has weights of sum 2, and adds none in float64.
    """
    return 64 * 2.0**-24 * max(P, float(np.abs(values).max()))


@pytest.mark.parametrize(
    ("index", "weight"),
    [
        ("shapley", oracles.shapley_weight),
        ("banzhaf", oracles.banzhaf_weight),
        (xj.SizeLimited(1), lambda P: oracles.size_limited_weight(P, 1)),
    ],
)
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_values_are_those_of_the_definition(backend, index, weight):
    A = games.weights(P)

    def f(rows):
        return games.three_outputs_host(rows, A)

    of_jax = backend == "jax"
    model = xj.as_model(games.three_outputs, A) if of_jax else xj.as_model(f, backend="host")
    explainer = xj.Explainer(
        model, B, players=GROUPS, index=index, weights=WEIGHTS, path="small", estimator="exact"
    )
    found = explainer(X)
    values, base, _ = oracles.explain(
        f, X.astype(float), B.astype(float), weight(3), PLACES, WEIGHTS
    )
    np.testing.assert_allclose(found.values, values, rtol=0, atol=bound(values))
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=bound(base))
    assert found.stats["path"] == "small"


def test_a_link_acts_on_the_mean():
    A = games.weights(P)
    found = xj.Explainer(xj.as_model(traced, A), B, link="logit", path="small")(X)
    weight = oracles.shapley_weight(P)

    def f(rows):
        return chance(A, rows)

    values, _, _ = oracles.explain(f, X.astype(float), B.astype(float), weight, link=logit)
    # The slope of the logit at p is 1 / (p (1 - p)), of chances of (.01, .99) at most 101.
    np.testing.assert_allclose(found.values, values, rtol=0, atol=101 * 64 * 2.0**-24)


@pytest.mark.parametrize("index", ["sii", "stii", "fsii", "banzhaf"])
def test_interactions_are_those_of_the_definition(index):
    A = games.weights(P)
    found = xj.Explainer(xj.as_model(games.smooth, A), B, path="small").interactions(
        X, order=2, index=index
    )
    share, places = np.full(len(B), 1 / len(B)), [[j] for j in range(P)]
    for n, x in enumerate(X.astype(float)):
        v = oracles.coalition_values(
            lambda rows: games.smooth_host(rows, A), x, B.astype(float), share, places
        )
        wanted = oracles_interactions.interactions(index, v, P, 2)
        # A pair's interaction has absolute weights of sum 4, a player's 2; FSII's up to 4 times.
        np.testing.assert_allclose(found.values[n], wanted, rtol=0, atol=8 * bound(wanted))


@pytest.mark.parametrize("estimator", ["permutation", "kernel", "gaussian-process"])
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_sampled_values_are_those_of_the_tiled_path(backend, estimator):
    """The same coalitions are drawn, so that values are apart by rounding alone; `kernel` solves a
    system whose condition is below 2^7.
    """
    F = 12
    rng = np.random.default_rng(2)
    rows, donors = rng.normal(size=(2, F)), rng.normal(size=(3, F))
    A = games.weights(F)
    model = (
        xj.as_model(games.smooth, A)
        if backend == "jax"
        else xj.as_model(lambda rows: games.smooth_host(rows, A), backend="host")
    )
    by = {
        path: xj.Explainer(model, donors, estimator=estimator, budget=96, path=path)(rows)
        for path in ("small", "tiled")
    }
    small, tiled = by["small"], by["tiled"]
    assert (small.stats["path"], tiled.stats["path"]) == ("small", "tiled")
    room = 2**7 * 64 * 2.0**-24 * F
    np.testing.assert_allclose(small.values, tiled.values, rtol=0, atol=room)
    np.testing.assert_allclose(small.std_errors, tiled.std_errors, rtol=0, atol=room)


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [None, "predicted"])
def test_small_and_tiled_are_apart_by_no_more_than_their_bounds(outputs):
    model = xj.as_model(games.three_outputs, games.weights(P))
    small, tiled = (
        xj.Explainer(model, B, path=path)(X, outputs=outputs) for path in ("small", "tiled")
    )
    room = small.stats["efficiency_bound"] + tiled.stats["efficiency_bound"]
    apart = np.abs(small.values - tiled.values).reshape(len(X), -1).max(axis=1)
    assert (apart <= room).all()
    assert small.stats["model_rows"] == tiled.stats["model_rows"]
    both = xj.merge([small, tiled])
    assert both.stats["path"] == ["small", "tiled"]


def test_only_the_model_is_compiled(compiled: Counter[str]):
    def f(A, X):
        return games.smooth(A, X) + 0.0625  # a function of this test alone

    xj.Explainer(xj.as_model(f, games.weights(P)), B, path="small")(X)
    assert sum(compiled.values()) == 1


def test_qii_is_that_of_the_tiled_path():
    A = games.weights(P)
    model = xj.as_model(lambda X: games.smooth(A, X) > 0.1, output="label")
    small, tiled = (
        xj.QII(model, B, pool=B, quantity="individual", positive=True, path=path)
        for path in ("small", "tiled")
    )
    for ask in ("explain", "unary"):
        a, b = getattr(small, ask)(X), getattr(tiled, ask)(X)
        assert (a.stats["path"], b.stats["path"]) == ("small", "tiled")
        # Sums of 0 and 1 with weights of sum 2, in float32 on the tiled path.
        np.testing.assert_allclose(a.values, b.values, rtol=0, atol=64 * 2.0**-24)
    a, b = (one.influence([0, 1], X) for one in (small, tiled))
    np.testing.assert_allclose(a, b, rtol=0, atol=64 * 2.0**-24)


def test_sampled_qii_is_that_of_the_tiled_path():
    A = games.weights(P)
    model = xj.as_model(lambda X: games.smooth(A, X) > 0.1, output="label")
    a, b = (
        xj.QII(model, B, quantity="individual", positive=True, samples=64, path=path).explain(X)
        for path in ("small", "tiled")
    )
    assert a.stats["path"] == "small"
    np.testing.assert_allclose(a.values, b.values, rtol=0, atol=2.0**-20)


@pytest.mark.slow
def test_federated_values_are_those_of_the_tiled_path():
    model = xj.as_model(games.smooth, games.weights(P))
    a, b = (
        xj.FederatedExplainer(model, B, {"bank": [1, 2]}, path=path)(X)
        for path in ("small", "tiled")
    )
    assert a.stats["path"] == "small"
    np.testing.assert_allclose(a.values, b.values, rtol=0, atol=bound(b.values))


SPACES = ("row", "row_bin", "flip", "joint", "conditional")
COUNTS = RNG.integers(0, 4, (60, P)).astype(np.float32)


def decide(rows):
    return (rows[:, 0] + 2 * rows[:, 1] > 3) | (rows[:, 2] > 2)


def seen(rules: xj.Rules) -> list[tuple[object, ...]]:
    return [(one.features, one.precision, one.precision_lower, one.coverage) for one in rules]


FEW = [("jax", "row_bin", "kl-lucb"), ("jax", "row", "auto")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "perturbation", "search"),
    [
        pytest.param(*one, marks=() if one in FEW else pytest.mark.slow)
        for one in itertools.product(("jax", "host"), SPACES, ("auto", "kl-lucb"))
    ],
)
def test_rules_are_those_of_the_tiled_path(backend, perturbation, search):
    """The same rows are drawn, and these labels have no rounding."""
    model = xj.as_model(decide, output="label", backend=backend)
    small, tiled = (
        xj.AnchorExplainer(
            model, COUNTS, perturbation=perturbation, weights=np.arange(1.0, 61), path=path
        ).explain(COUNTS[:3], search=search)
        for path in ("small", "tiled")
    )
    assert (small.stats["path"], tiled.stats["path"]) == ("small", "tiled")
    assert seen(small) == seen(tiled)
    assert small.stats["model_rows"] == tiled.stats["model_rows"]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    "space",
    [
        {"keeps": "own", "weighted": True},
        {"keeps": "bin", "stays": True, "takes": 1 << 30},
        {"keeps": "bin", "stays": True, "weighted": True},
        {"keeps": "donor", "listed": True},
        {"keeps": "bin", "listed": True, "masks": True},
    ],
)
def test_rows_drawn_in_numpy_are_those_that_a_program_draws(space, named):
    rng = np.random.default_rng(3)
    donors, N, F, c, V, G, p = 7, 3, 5, 2, 4, 11, 6
    bins = rng.integers(0, V, (donors, F)).astype(np.int32)
    bins[:, 0] = 2  # the other bins are empty
    chances = [alias_table(rng.random(donors)) for _ in range(F + 1)]
    chance, alias = (np.stack(parts) for parts in zip(*chances, strict=True))
    order = np.argsort(bins, axis=0, kind="stable").T.astype(np.int32)
    count = np.stack([np.bincount(own, minlength=V) for own in bins.T]).astype(np.int32)
    start = (np.cumsum(count, axis=1) - count).astype(np.int32)
    listed = np.tile(np.arange(donors, dtype=np.int32), 1 << F)
    numbers = rng.normal(size=(donors, F, c)).astype(np.float32)
    pool = Pool(numbers, listed, bins, order, start, count, chance, alias)
    low = rng.integers(0, V, (N, F)).astype(np.int32)
    own = np.zeros((N, 1), np.float32)
    rows = rng.normal(size=(N, F, c)).astype(np.float32)
    who = Subjects(rows, low, np.minimum(low + 1, V - 1).astype(np.int32), own)
    header = rng.integers(-(1 << 31), 1 << 31, (G, 4)).astype(np.int32)
    header[:, 0] = rng.integers(0, N, G)
    header[:, 3] = rng.integers(0, 9, G)
    if space["keeps"] == "donor":
        header[:, 1] = rng.integers(0, donors, G)
    kept = np.where(rng.random((G, 3)) < 0.7, np.argsort(rng.random((G, F)))[:, :3], -1)
    names = rng.integers(0, len(listed), (G, p)) if named else np.zeros((G, 0))
    pulls = np.concatenate([header, kept, names], axis=1).astype(np.int32)
    what = PerturbationSpace(F, named=named, **space)
    wanted = jax.jit(lambda *of: perturbed(what, *of, p))(pool, who, pulls)
    np.testing.assert_array_equal(perturbed(what, pool, who, pulls, p, xp=np), wanted)


@pytest.mark.parametrize(
    "more",
    [
        {"perturbation": "row", "players": {"ab": [0, 1], "cd": [2, 3]}},
        {"perturbation": xj.Baseline(np.zeros(P, np.float32))},
        {"perturbation": lambda X, kept, u: np.where(kept, X, np.floor(4 * u)), "bins": None},
    ],
)
def test_rules_of_players_and_samplers_are_those_of_the_tiled_path(more):
    model = xj.as_model(decide, output="label")
    small, tiled = (
        xj.AnchorExplainer(model, COUNTS, path=path, **more).explain(COUNTS[:3])
        for path in ("small", "tiled")
    )
    assert small.stats["path"] == "small"
    assert seen(small) == seen(tiled)


def test_rules_compile_the_model_alone(compiled: Counter[str]):
    def f(rows):
        return decide(rows) | (rows[:, 3] > 5)  # a function of this test alone

    model = xj.as_model(f, output="label")
    xj.AnchorExplainer(model, COUNTS, perturbation="flip", path="small").explain(COUNTS[:3])
    assert sum(compiled.values()) == 1


@pytest.mark.slow
@pytest.mark.small_path
def test_rules_of_few_rows_are_small_whatever_came_before():
    model = xj.as_model(decide, output="label")
    anchors = xj.AnchorExplainer(model, COUNTS, perturbation="row")
    assert anchors.explain(np.tile(COUNTS, (4, 1))).stats["path"] == "tiled"
    assert anchors.explain(COUNTS[:2]).stats["path"] == "small"
    assert anchors.plan(COUNTS[:2]).path == "small"
    assert anchors.plan(COUNTS[:2]).programs == 0
    tiles = xj.AnchorExplainer(model, COUNTS, perturbation="row", tile=64)
    assert tiles.explain(COUNTS[:2]).stats["path"] == "tiled"


@pytest.mark.parametrize("path", ["small", "tiled"])
def test_a_model_that_changes_is_found(path):
    """The answers move by a tenth in calls of more rows than the probe asks."""

    def f(rows):
        return rows[:, 0] * rows[:, 1] + 0.1 * (len(rows) > 100)

    model = xj.as_model(f, backend="host")
    with pytest.raises(xj.NonDeterministicModelError):
        xj.Explainer(model, B, path=path)(X)


def test_frames_and_missing_entries_have_the_values_of_the_tiled_path():
    """Texts, codes, NaN and -0.0 are one row or another, bit for bit."""
    pd = pytest.importorskip("pandas")
    columns = {
        "word": ["a", None, "b", "a", "c"],
        "number": [0.0, -0.0, np.nan, 1e300, -1.5],
        "whole": pd.array([1, None, 3, 2**53 + 1, 0], dtype="Int64"),
    }
    frame = pd.DataFrame(columns)

    def f(rows):
        number = rows["number"].to_numpy(float)
        sign = np.signbit(number) + 2.0 * np.isnan(number)
        word = rows["word"].map({"a": 1.0, "b": 2.0, "c": 5.0}).fillna(-3.0).to_numpy(float)
        return sign * word + word * (rows["whole"].fillna(7) % 4).to_numpy(float)

    model = xj.as_model(f, backend="host", allow_nan=True)
    small, tiled = (
        xj.Explainer(model, frame, path=path)(frame.iloc[::-1]) for path in ("small", "tiled")
    )
    np.testing.assert_array_equal(small.values, tiled.values)
    np.testing.assert_array_equal(small.base_values, tiled.base_values)


@pytest.mark.slow
@pytest.mark.small_path
def test_a_private_release_asks_tiles(monkeypatch):
    pytest.importorskip("opendp")
    model = xj.as_model(decide, output="label", classes=[0, 1])
    found = xj.QII(model, COUNTS, quantity="rate", positive=1).unary()
    assert found.stats["path"] == "small"

    def none(*_):
        raise AssertionError("the labels of a private release were asked without tiles")

    monkeypatch.setattr(evaluator, "SmallBackend", none)
    private = xj.privacy.release(found, 1e5)
    # The noise's scale is a sensitivity of at most 8 / 60 over 1e5: 2e-3 is more than 1,000 scales.
    np.testing.assert_allclose(private.values, found.values, atol=2e-3)


@pytest.mark.small_path
def test_auto_takes_it_for_few_rows_alone():
    model = xj.as_model(games.smooth, games.weights(P))
    assert xj.Explainer(model, B)(X).stats["path"] == "small"
    assert xj.Explainer(model, B).plan(X).path == "small"
    assert xj.Explainer(model, B).plan(X).programs == 0
    many = np.tile(X, (200, 1)) + np.arange(600, dtype=np.float32)[:, None]
    assert xj.Explainer(model, B).plan(many).path == "tiled"
    for more in ({"tile": 64}, {"path": "tiled"}):
        assert xj.Explainer(model, B, **more)(X).stats["path"] == "tiled"


@pytest.mark.small_path
def test_batch_size_and_devices_choose_no_path():
    """They change no value, so they must not choose between two that are rounded otherwise."""
    model = xj.as_model(games.smooth, games.weights(P))
    wanted = xj.Explainer(model, B)(X)
    for more in ({"batch_size": 64}, {"batch_size": 10**9}, {"devices": 1}):
        found = xj.Explainer(model, B, **more)(X)
        assert found.stats["path"] == "small"
        np.testing.assert_array_equal(found.values, wanted.values)


@pytest.mark.small_path
def test_a_closed_form_comes_first():
    linear = xj.as_model(lambda X: X @ np.arange(1.0, P + 1, dtype=np.float32))
    found = xj.Explainer(linear, B)(X)
    assert (found.stats["path"], found.stats["structure"] is not None) == ("closed form", True)


@pytest.mark.small_path
def test_a_sweep_is_tiled(tmp_path):
    explainer = xj.Explainer(xj.as_model(games.smooth, games.weights(P)), B)
    found = xj.sweep(explainer, X, tmp_path / "run", rows_per_part=2).explanation()
    assert found.stats["path"] == "tiled"
    small = xj.Explainer(explainer.model, B, path="small")
    with pytest.raises(xj.InputError, match="Leave path= out"):
        xj.sweep(small, X, tmp_path / "other")


def test_sizes_of_tiles_are_refused():
    model = xj.as_model(games.smooth, games.weights(P))
    with pytest.raises(xj.InputError, match="tile= is given"):
        xj.Explainer(model, B, tile=64, path="small")
    with pytest.raises(xj.InputError, match="path must be one of"):
        xj.Explainer(model, B, path="large")


def test_an_answer_that_is_not_finite_is_named():
    def f(X):
        return np.where((X[:, 0] > 1e3) & (X[:, 1] > 1e3), np.inf, X[:, 0])

    wild = X.copy()
    wild[1, :2] = 1e4
    model = xj.as_model(f, backend="host")
    with pytest.raises(xj.ModelOutputError, match="X row 1 with background row"):
        xj.Explainer(model, B, path="small")(wild)


@pytest.mark.small_path
def test_what_is_small_follows_from_sizes_alone():
    assert is_small(1, 8, 4096, 1, 100, "cpu")
    assert not is_small(1, 8, 4097, 1, 100, "cpu")
    assert not is_small(1, 8, 4096, 1, 1025, "cpu")
    assert is_small(1, 2, 4096, 1, 100, "gpu")
    assert not is_small(1, 8, 4096, 1, 100, "tpu")


FITTED = DecisionTreeRegressor(max_depth=4, random_state=0).fit(
    np.concatenate([X, B] * 4), np.arange(32.0)
)


def of_tree(**options):
    of_model = {name: options.pop(name) for name in ("backend", "precision") if name in options}
    return xj.Explainer(xj.as_model(FITTED, **of_model), B, weights=WEIGHTS, **options)


@pytest.mark.slow
@pytest.mark.small_path
def test_a_few_rows_are_asked_of_the_estimator_itself():
    """Until a call asks 2^13 rows: then the translation answers, whose values are the same."""
    explainer = of_tree()
    values, base, _ = oracles.explain(
        FITTED.predict, X.astype(float), B.astype(float), oracles.shapley_weight(P), None, WEIGHTS
    )
    first = explainer(X)
    assert first.stats["backend"] == "host" and first.stats["path"] == "small"
    assert explainer.plan(np.repeat(X, 200, axis=0)) is not None  # which changes nothing
    again, sets = explainer(X), explainer.interactions(X, order=1)
    assert again.stats["backend"] == sets.stats["backend"] == "host"
    large = explainer(np.repeat(X, 200, axis=0))  # 600 rows, 5 donors, 16 coalitions
    last = explainer(X)
    assert large.stats["backend"] == last.stats["backend"] == "jax"
    for found in (first, again, sets, large[::200], last):
        np.testing.assert_allclose(found.values, values, rtol=0, atol=bound(values))
        np.testing.assert_allclose(found.base_values, base, rtol=0, atol=bound(base))
    assert first.fingerprint == last.fingerprint == explainer.fingerprint(X)
    assert xj.merge([first, last]).stats["backend"] == ["host", "jax"]
    fresh = of_tree()
    # The sums are those of float64, and so is their bound.
    assert first.stats["efficiency_bound"].max() < 1e-12 * np.abs(values).max()
    assert first.provenance["precision"] == "float64"
    whole = 2**13 // (len(B) << P)
    for n in (whole, whole):  # as many calls as you like
        assert fresh(np.repeat(X[:1], n, axis=0)).stats["backend"] == "host"
    assert fresh(np.repeat(X[:1], whole + 1, axis=0)).stats["backend"] == "jax"
    assert fresh(X[:1]).stats["backend"] == "jax"


@pytest.mark.small_path
@pytest.mark.parametrize(
    "options",
    [
        {"backend": "jax"},
        {"path": "tiled"},
        {"tile": 32},
        {"devices": jax.devices()[:1]},
        {"budget": 12},
        {"estimator": "permutation", "budget": 12},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_names_jax_is_answered_by_it(options):
    assert of_tree(**options)(X).stats["backend"] == "jax"


@pytest.mark.small_path
def test_an_estimator_that_is_fitted_again_is_refused_while_it_answers():
    fitted = DecisionTreeRegressor(random_state=0).fit(B, np.arange(5.0))
    explainer = xj.Explainer(xj.as_model(fitted), B)
    assert explainer(X).stats["backend"] == "host"
    fitted.fit(B, np.arange(5.0)[::-1])
    with pytest.raises(xj.InputError, match="has changed since as_model translated it"):
        explainer(X)


class Line(RegressorMixin, BaseEstimator):
    """An estimator of one's own, whose state no text can stand for."""

    def fit(self, rows, y):
        self.slope_, self.n_features_in_ = np.linalg.lstsq(rows, y)[0], P
        return self

    def predict(self, rows):
        return np.asarray(rows) @ self.slope_


@xj.register_translation(Line)
def line(estimator, columns):
    params = columns.number(estimator.slope_)
    return xj.Translation(params, {"value": lambda params, rows: rows @ params}, "line")


@pytest.mark.small_path
def test_fits_that_cannot_be_told_apart_are_asked_by_their_translation():
    """Else values of two fits could be merged: the program of a translation tells them apart."""
    first, other = (
        xj.Explainer(xj.as_model(Line().fit(B, y)), B)(X) for y in (np.arange(5.0), np.ones(5))
    )
    assert first.stats["backend"] == "jax"
    with pytest.raises(xj.InputError, match="model"):
        xj.merge([first, other])


@pytest.mark.small_path
def test_stats_name_the_tile_of_their_own_call():
    explainer = xj.Explainer(xj.as_model(lambda rows: jax.numpy.tanh(rows).prod(axis=1)), B)
    rows = np.random.default_rng(0).normal(size=(3000, B.shape[1])).astype(np.float32)
    tiles = [explainer(rows[:n], progress=False).stats["tile"] for n in (5, 3000, 5, 3000)]
    assert tiles[:2] == tiles[2:] and tiles[0] < tiles[1]
