"""Structures where numbers are large, missing or few: right as whole rows are, or left aside."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from often import some_slow
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC, SVR

import xaijax as xj
from xaijax.games.engine.dispatch import Compiled, ProgramRecipe
from xaijax.models.structure.agreement import _by_structure
from xaijax_kernels.structures.sums import Dense

RNG = np.random.default_rng(12)
X = RNG.normal(size=(300, 4))
SCORE = X[:, 0] - X[:, 1] * X[:, 2]


def wanted(f: Any, rows: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Shapley values [N, P, K] by the definition."""
    weight = oracles.shapley_weight(rows.shape[1])
    return oracles.explain(lambda Z: f(Z).reshape(len(Z), -1), rows, background, weight)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [LinearRegression, GradientBoostingRegressor, HistGradientBoostingRegressor]
)
@pytest.mark.parametrize("level", [3e7, 2e9])
def test_a_closed_form_of_large_answers(kind: Any, level: float) -> None:
    """A constant of 2^24 and more has no place for the changes beside it in float32."""
    model = kind().fit(X, level * (1 + SCORE / 10))
    got = xj.Explainer(xj.as_model(model), X[:9])(X[20:24])
    assert got.stats["structure"] in ("additive", "trees")
    truth = wanted(model.predict, X[20:24], X[:9])
    # Coefficients and leaves are float32: 2^-24 of each of at most 100 that are added up.
    size = 100 * 2.0**-24 * np.abs(truth).max()
    np.testing.assert_allclose(got.values, truth.reshape(got.values.shape), rtol=0, atol=size)
    answers = model.predict(X[20:24])
    sums = got.base_values.ravel() + got.values.sum(axis=1).ravel()
    np.testing.assert_allclose(sums, answers, rtol=2.0**-22)


@pytest.mark.slow
@pytest.mark.parametrize("large", [1e6, 99999999.0, 1e12])
def test_one_donor_with_a_large_number(large: float) -> None:
    """Where x's value is kept the donor's must not be seen, not even as rounding."""
    w = jnp.asarray([0.7, -0.4, 0.2, 0.5], jnp.float32)
    background = X[:10].astype(np.float32)
    background[3, 1] = large
    rows = X[20:26].astype(np.float32)
    got = xj.Explainer(xj.as_model(lambda Z: jax.nn.sigmoid(Z @ w)), background)(rows)
    assert got.stats["structure"] == "first layer"
    with np.errstate(over="ignore"):
        truth = wanted(
            lambda Z: 1 / (1 + np.exp(-(Z @ np.asarray(w, float)))), rows, background.astype(float)
        )
    # Scores of at most about 4: a few roundings of these, halved by the sigmoid.
    np.testing.assert_allclose(got.values, truth[..., 0], rtol=0, atol=16 * 2.0**-24)


@pytest.mark.slow
def test_orders_are_not_walked_past_a_large_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A walk takes differences of the layer, in which the small columns would be lost. Sums of
    parts hold no large number where it is not kept.
    """
    w = RNG.normal(size=(30, 3)).astype(np.float32) / 5
    rows, background = (RNG.normal(size=(n, 30)).astype(np.float32) for n in (2, 4))
    ran: set[str] = set()
    of_recipe = Compiled.program

    def noted(self: Compiled, recipe: ProgramRecipe) -> Any:
        ran.add(getattr(recipe.function, "func", recipe.function).__name__)
        return of_recipe(self, recipe)

    monkeypatch.setattr(Compiled, "program", noted)
    for large in (1.0, 99999999.0):
        background[1, 2] = large
        found = {}
        ran.clear()
        for structure in (None, "plain"):
            model = xj.as_model(lambda Z: jnp.tanh(Z @ w).sum(axis=1), structure=structure)
            explain = xj.Explainer(model, background, estimator="permutation", budget=120, seed=0)
            found[structure] = explain(rows)
        assert found[None].stats["structure"] == "first layer"
        assert ("scan_tiles" in ran, "listed_means" in ran) == (large == 1.0, large != 1.0)
        # Sums of 30 terms of a size of 1, rounded in another order, through a slope of 1.
        np.testing.assert_allclose(
            found[None].values, found["plain"].values, rtol=0, atol=3 * 30 * 2.0**-22
        )


@pytest.mark.slow
def test_models_of_one_column() -> None:
    one = X[:, :1]
    codes = np.round(one).astype(int)
    models: dict[str, tuple[Any, Any, Any]] = {
        "linear": (LinearRegression().fit(one, SCORE), one, None),
        "logistic": (LogisticRegression().fit(one, SCORE > 0), one, 1),
        "one-hot": (
            make_pipeline(
                OneHotEncoder(
                    min_frequency=60,
                    handle_unknown="infrequent_if_exist",
                    drop="first",
                    sparse_output=False,
                ),
                LogisticRegression(),
            ).fit(codes, SCORE > 0),
            codes,
            1,
        ),
    }
    for name, (model, rows, output) in models.items():
        got = xj.Explainer(xj.as_model(model, output=output), rows[:9])(rows[20:24])
        f = model.predict if output is None else lambda Z, m=model: m.predict_proba(Z)[:, 1]
        truth = f(rows[20:24]) - f(rows[:9]).mean()
        np.testing.assert_allclose(got.values[:, 0], truth, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_a_far_donor_of_a_radial_machine() -> None:
    model = SVC(gamma=1.0).fit(X, SCORE > 0)
    background = X[:6].copy()
    background[2, 0] = 1e20  # its exponent is not finite in float32; its factor is 0
    got = xj.Explainer(xj.as_model(model), background)(X[20:24])
    assert got.stats["structure"] == "sum of products"
    truth = wanted(model.decision_function, X[20:24], background)
    # Some 200 terms of size 1 at most.
    np.testing.assert_allclose(got.values, truth[..., 0], rtol=0, atol=200 * 2.0**-23)


@pytest.mark.slow
def test_numbers_whose_difference_is_too_large() -> None:
    w = jnp.full((4, 2), 2e-38, jnp.float32)
    rows = np.full((2, 4), 2e38, np.float32)
    got = xj.Explainer(xj.as_model(lambda Z: jnp.tanh(Z @ w)[:, 0]), -rows)(rows)
    np.testing.assert_allclose(got.values, 2 * np.tanh(16) / 4, rtol=1e-6)


@pytest.mark.slow
def test_gaps_that_an_imputer_fills_leave_the_structure() -> None:
    gaps = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
    model = make_pipeline(SimpleImputer(), LogisticRegression()).fit(gaps, SCORE > 0)
    wrapped = xj.as_model(model, output=1, allow_nan=True)
    got = xj.Explainer(wrapped, gaps[:9])(gaps[20:24])
    assert got.stats["structure"] == "first layer"
    truth = wanted(lambda Z: model.predict_proba(Z)[:, 1], gaps[20:24], gaps[:9])
    np.testing.assert_allclose(got.values, truth[..., 0], rtol=0, atol=16 * 2.0**-24)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_neighbours_among_many_rows(p: float) -> None:
    """So many training rows that they are looked at by blocks, the last one not full."""
    many = RNG.normal(size=(3_001, 3))
    model = KNeighborsRegressor(4, p=p).fit(many, many[:, 0] + 3 * many[:, 1])
    found = xj.as_model(model, backend="jax").predict(X[:, :3])
    # The mean of four targets of size ten.
    np.testing.assert_allclose(found, model.predict(X[:, :3]), rtol=0, atol=40 * 2.0**-24)


def test_neighbours_that_tie_in_hybrids_stay_on_the_host() -> None:
    """No row has ties, but hybrids do, where either answer would be right and they differ."""
    grid = np.round(RNG.normal(size=(400, 3)), 1)
    model = KNeighborsRegressor(5).fit(grid, grid @ [1.0, -2.0, 3.0])
    far = np.sort(np.linalg.norm(grid[:, None] - grid, axis=2), axis=1)
    untied = grid[far[:, 5] - far[:, 4] > 1e-6]
    wrapped = xj.as_model(model)
    got = xj.Explainer(wrapped, untied[:8])(untied[10:13])
    assert "hybrids of the first rows" in repr(wrapped)
    truth = wanted(model.predict, untied[10:13], untied[:8])
    np.testing.assert_allclose(got.values, truth[..., 0], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_broken_ties_of_votes() -> None:
    """Three classes in a circle: each beats the next, so that votes tie and the decision says."""
    angles = RNG.uniform(0, 2 * np.pi, 300)
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1) * RNG.uniform(0.1, 2, (300, 1))
    classes = (angles // (2 * np.pi / 3)).astype(int)
    classes = np.where(RNG.random(300) < 0.3, RNG.integers(0, 3, 300), classes)
    model = SVC(break_ties=True, decision_function_shape="ovr", gamma=5.0).fit(rows, classes)
    plain = SVC(break_ties=False, decision_function_shape="ovr", gamma=5.0).fit(rows, classes)
    fresh = RNG.normal(size=(4_000, 2))
    assert (model.predict(fresh) != plain.predict(fresh)).any()
    labels = xj.as_model(model, backend="jax").labels(fresh)
    np.testing.assert_array_equal(labels, model.predict(fresh))


def test_the_bound_of_a_closed_form_is_of_its_widest_row() -> None:
    """The efficiency bound grows with the largest distance between an answer and a donor's."""
    near = X[:4] * 1e-3
    model = xj.as_model(LinearRegression().fit(X, SCORE))
    small = xj.Explainer(model, near)(near).stats["efficiency_bound"]
    wide = xj.Explainer(model, np.concatenate([near, X[:1] * 1e3]))(near)
    assert np.min(wide.stats["efficiency_bound"]) > 100 * np.max(small)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "sigmoid"])
def test_a_machine_without_support_vectors_is_constant(kernel):
    rows = np.random.default_rng(0).normal(size=(30, 3))
    found = xj.Explainer(xj.as_model(SVR(kernel=kernel).fit(rows, np.ones(30))), rows[:5])(rows[:3])
    assert (found.values == 0).all() and np.allclose(found.base_values, 1)


def test_a_layer_of_no_units_is_no_structure():
    empty = jnp.zeros((3, 0))
    model = xj.as_model(lambda rows: jnp.tanh(rows @ empty) @ jnp.zeros(0) + 1.0)
    found = xj.Explainer(model, np.eye(3))(np.ones((2, 3)))
    assert (found.values == 0).all() and (found.base_values == 1).all()


@pytest.mark.slow
def test_a_model_that_prints_is_explained_like_others():
    """A step without an output."""
    rng = np.random.default_rng(0)
    rows, W = (rng.normal(size=shape).astype(np.float32) for shape in ((5, 3), (3, 2)))

    def printing(rows):
        jax.debug.print("{} {}", rows.shape[0], rows[0, 0])
        return jnp.tanh(rows @ W).sum(axis=1)

    found = xj.Explainer(xj.as_model(printing), rows[:2])(rows)
    plain = xj.Explainer(xj.as_model(printing, structure="plain"), rows[:2])(rows)
    # Answers below 4, some hundred float32 roundings of which make a value.
    np.testing.assert_allclose(found.values, plain.values, rtol=0, atol=4 * 100 * 2.0**-24)


LINEAR = {
    "product": (lambda p, Z: Z @ p, np.ones(4)),
    "a bias": (lambda p, Z: Z @ p["w"] + p["b"], {"w": np.arange(4.0), "b": np.float64(0.5)}),
    "two products": (lambda p, Z: Z @ p[0] @ p[1], [np.arange(12.0).reshape(4, 3), np.ones(3)]),
    "scaled": (lambda p, Z: ((Z - p[0]) / p[1]) @ p[2], [np.ones(4), np.full(4, 2.0), np.ones(4)]),
    "einsum": (lambda p, Z: jnp.einsum("rf,fk->rk", Z, p), np.arange(12.0).reshape(4, 3)),
    "a column": (lambda p, Z: Z @ p, np.arange(4.0)[:, None]),
    "of both widths": (
        lambda p, Z: Z @ p[0] @ p[1],
        [np.arange(8.0).reshape(4, 2), np.ones(2, np.float32)],
    ),
    "numbers of Python": (lambda p, Z: Z @ jnp.array([1.0, 2.0, 3.0, 4.0]) * p, 2.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", some_slow(LINEAR, 4))
def test_parameters_of_numpy_in_double_precision(form):
    """They reach a program as float32, and so what is read of the trace step by step."""
    f, params = LINEAR[form]
    rng = np.random.default_rng(0)
    background, rows = rng.normal(size=(9, 4)), rng.normal(size=(3, 4))
    found = xj.Explainer(xj.as_model(f, params), background)(rows)
    plain = xj.Explainer(xj.as_model(f, params, structure="plain"), background)(rows)
    assert found.stats["structure"] == "additive"
    # Sums of 4 float32 products below 50, and means of 9 x 2^4 of them: 64 roundings at most.
    atol = 64 * 50 * 2.0**-24
    np.testing.assert_allclose(found.values, plain.values, rtol=0, atol=atol)


def stepped(w: Any) -> Any:
    """1 where the sum of whole numbers reaches 3: there the chance is one half, to the bit."""
    start = -(np.float32(0.1) * np.float32(3))
    return lambda Z: (jax.nn.sigmoid(np.float32(0.1) * (Z @ w) + start) >= 0.5).astype("float32")


def unused(w: Any) -> Any:
    """A chance that is computed, and not answered."""

    def f(Z: Any) -> Any:
        jax.nn.sigmoid(Z @ w)
        return 2 * (Z @ w) + 1

    return f


def in_another_order(w: Any) -> Any:
    """Weights that are reshaped column by column."""
    both = jnp.stack([w, -w], axis=1)
    return lambda Z: jnp.tanh(Z @ jnp.reshape(both, (len(w), 2), order="F")).sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("made", [stepped, unused, in_another_order])
def test_heads_that_look_like_another(made: Any) -> None:
    """Beside donors that differ in every column, of which means are taken on the device."""
    rng, F = np.random.default_rng(0), 6
    w = jnp.asarray(rng.choice([-2, -1, 1, 2], F), jnp.float32)
    background = rng.integers(0, 3, (16, F)).astype(np.float32)
    rows = rng.integers(3, 6, (3, F)).astype(np.float32)
    f = made(w)
    got = xj.Explainer(xj.as_model(f), background)(rows)
    truth = wanted(lambda Z: np.asarray(f(jnp.asarray(Z, jnp.float32)), float), rows, background)
    # Answers below 64 in float32, and means of them; a tie that is missed is 1 / 16 of a corner.
    np.testing.assert_allclose(got.values.reshape(truth.shape), truth, rtol=0, atol=64 * 2.0**-22)


@pytest.mark.parametrize("F", [4, 128, 700])
def test_rows_with_a_missing_number_are_no_evidence(F: int) -> None:
    """Of any width: XLA's maximum of many columns leaves a NaN out on a CPU."""

    class Made:
        def of(self, params: Any) -> Dense:
            return Dense(jnp.ones((F, 2), jnp.float32), jnp.zeros(2, jnp.float32))

        def head(self, params: Any, hidden: Any) -> Any:
            return hidden.sum(axis=1)

    rows = np.ones((32, F), np.float32)
    donors = rows.copy()
    rows[3, F // 2], donors[5, -1], rows[8, 0] = np.nan, np.nan, np.inf
    model = SimpleNamespace(precision="float32", params=None)
    usable = _by_structure(Made(), model, rows, donors, np.ones(F, bool), {})[1]
    np.testing.assert_array_equal(np.flatnonzero(~np.asarray(usable)), [3, 5, 8])


def geometric(xp: Any, rows: Any) -> Any:
    return xp.exp(xp.log(rows).sum(axis=1) / rows.shape[1])


def harmonic(xp: Any, rows: Any) -> Any:
    return rows.shape[1] / (1 / rows).sum(axis=1)


@pytest.mark.parametrize("mean", [geometric, harmonic])
@pytest.mark.parametrize("zeros", ["a column", "all", "most"])
def test_a_layer_of_which_no_probe_row_is_finite(mean: Any, zeros: str) -> None:
    """Nothing is then known of the layer, and the model itself answers."""
    rng = np.random.default_rng(5)
    rows = rng.uniform(0.5, 2, (9, 4)).astype(np.float32)
    if zeros == "a column":
        rows[:, 1] = 0
    else:
        rows[rng.random(rows.shape) < {"all": 1.1, "most": 0.6}[zeros]] = 0
    got = xj.Explainer(xj.as_model(lambda Z: mean(jnp, Z)), rows[:3])(rows[3:])
    with np.errstate(divide="ignore"):
        truth = wanted(lambda Z: mean(np, Z), rows[3:], rows[:3])
    # Answers of at most 2, of a few steps rounded in float32 each.
    np.testing.assert_allclose(got.values.reshape(truth.shape), truth, rtol=0, atol=16 * 2.0**-23)


def test_a_layer_without_a_finite_answer_meets_the_usual_error() -> None:
    model = xj.as_model(lambda Z: jnp.log(Z).sum(axis=1))
    with pytest.raises(xj.ModelOutputError, match="nonfinite="):
        xj.Explainer(model, np.zeros((3, 4), np.float32))(np.zeros((2, 4), np.float32))
