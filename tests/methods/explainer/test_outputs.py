"""`outputs=`: for each instance the values of its own output, a column of all outputs' values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from often import some_slow
from sklearn.ensemble import RandomForestClassifier

import xaijax as xj
from xaijax.games.engine import programs
from xaijax_kernels.engine.tiles import LEAST_COLUMNS

N, F, K, B = 12, 5, 7, 4
RNG = np.random.default_rng(0)
W, V = RNG.normal(size=(F, 8)), RNG.normal(size=(8, K))
X, BACKGROUND = RNG.normal(size=(N, F)), RNG.normal(size=(B, F))


def f(Z):
    return jax.nn.softmax(jnp.tanh(Z @ W) @ V)


def on_host(Z):
    return np.asarray(f(Z))


MODELS = {
    "jax": lambda **given: xj.as_model(f, structure="plain", **given),
    "layer": lambda **given: xj.as_model(f, **given),
    "host": lambda **given: xj.as_model(on_host, backend="host", **given),
}
SAMPLED = {"estimator": "permutation", "budget": 20}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, SAMPLED], ids=["exact", "sampled"])
@pytest.mark.parametrize("kind", some_slow(MODELS, 3))
def test_the_predicted_output_is_its_column_of_all(kind, options):
    explainer = xj.Explainer(MODELS[kind](), BACKGROUND, **options)
    every, own = explainer(X), explainer(X, outputs="predicted")
    best = np.asarray(f(X)).argmax(1)
    assert len(set(best.tolist())) > 2  # the instances differ in their class
    assert np.array_equal(own.stats["outputs"], best)
    assert own.values.shape == (N, F) and own.output_names is None
    rows = np.arange(N)
    # Sums of at most 2^5 B chances below 1, in float32 and in two orders: some units of 2^-24.
    close = {"rtol": 0, "atol": 64 * 2.0**-24}
    np.testing.assert_allclose(own.values, every.values[rows, :, best], **close)
    np.testing.assert_allclose(own.base_values, every.base_values[rows, best], **close)
    if options:
        np.testing.assert_allclose(own.std_errors, every.std_errors[rows, :, best], **close)
    given = explainer(X, outputs=best)
    assert np.array_equal(given.values, own.values)


@pytest.mark.slow
def test_names_of_outputs_are_saved_and_merged(tmp_path):
    found = xj.Explainer(MODELS["jax"](classes=list("abcdefg")), BACKGROUND)(X, outputs="predicted")
    found.save(tmp_path / "found.npz")
    again = xj.load(tmp_path / "found.npz")
    parts = xj.merge([found[:5], found[5:]])
    for one in (again, parts):
        assert list(one.stats["output_names"]) == found.stats["output_names"].tolist()


@pytest.mark.slow
def test_outputs_of_rows_in_several_arrays_and_in_lists():
    """One output for each instance, however the instances are given."""
    best = np.asarray(f(X)).argmax(1)
    expected = xj.Explainer(MODELS["jax"](), BACKGROUND)(X, outputs=best)
    as_list = xj.Explainer(MODELS["jax"](), BACKGROUND)(X.tolist(), outputs=best)
    assert np.array_equal(as_list.values, expected.values)
    whole = xj.as_model(lambda z: f(jnp.concatenate([z["a"], z["b"]], axis=1)), structure="plain")
    explainer = xj.Explainer(whole, {"a": BACKGROUND[:, :2], "b": BACKGROUND[:, 2:]})
    rows = {"a": X[:, :2], "b": X[:, 2:]}
    assert np.array_equal(explainer(rows, outputs=best).values, expected.values)
    with pytest.raises(xj.InputError, match=f"each of the {N} instances"):
        explainer(rows, outputs=best[:-1])


@pytest.mark.slow
def test_labels_of_rows():
    names = [f"class {k}" for k in range(K)]
    model = MODELS["jax"](classes=names)
    explainer = xj.Explainer(model, BACKGROUND)
    chosen = RNG.integers(0, K, N)
    by_name = explainer(X, outputs=[names[k] for k in chosen])
    every = explainer(X)
    np.testing.assert_allclose(
        by_name.values, every.values[np.arange(N), :, chosen], rtol=0, atol=64 * 2.0**-24
    )
    assert by_name.stats["output_names"].tolist() == [names[k] for k in chosen]
    assert by_name[3:5].stats["output_names"].tolist() == [names[k] for k in chosen[3:5]]
    plan = explainer.plan(X, outputs=[names[k] for k in chosen])
    assert plan.model_rows.sum() == by_name.stats["model_rows"]


def test_the_plan_counts_the_rows_that_are_predicted():
    explainer = xj.Explainer(MODELS["jax"](), BACKGROUND)
    plan = explainer.plan(X, outputs="predicted")
    run = explainer(X, outputs="predicted")
    assert plan.model_rows.sum() == run.stats["model_rows"]
    assert explainer.plan(X).model_rows.sum() == run.stats["model_rows"] - N


def test_one_instance_of_a_row_beside_others():
    explainer = xj.Explainer(MODELS["jax"](), BACKGROUND)
    whole, part = explainer(X, outputs="predicted"), explainer(X[5:7], outputs="predicted")
    assert np.array_equal(whole.values[5:7], part.values)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, SAMPLED], ids=["exact", "sampled"])
def test_of_many_outputs_one_is_made(options):
    wide = 4 * LEAST_COLUMNS
    last = np.tile(V, (1, wide // K + 1))[:, :wide] * np.linspace(0.9, 1.1, wide)
    model = xj.as_model(lambda Z: jnp.tanh(Z @ W) @ last, structure="plain")
    explainer = xj.Explainer(model, BACKGROUND, **options)
    every, own = explainer(X), explainer(X, outputs="predicted")
    best = own.stats["outputs"]
    assert np.array_equal(best, np.argmax(np.tanh(X @ W) @ last, axis=1))
    # As above; an answer is at most the sum of its weights' sizes.
    atol = 64 * 2.0**-24 * np.abs(last).sum(0).max()
    close = {"rtol": 0, "atol": atol}
    np.testing.assert_allclose(own.values, every.values[np.arange(N), :, best], **close)
    part = explainer(X[3:5], outputs="predicted")
    assert np.array_equal(part.values, own.values[3:5])


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_what_is_not_chosen_may_be_not_finite(backend):
    """Hybrids have no first output here; the rows themselves have."""
    xp = jnp if backend == "jax" else np

    def model(Z):
        lost = xp.where(Z[:, :1] == Z[:, 1:2], 0.0, xp.nan)
        return xp.concatenate([lost, Z[:, :1] + Z[:, 1:], 2 * Z[:, :1]], axis=1)

    rows, donors = np.ones((3, 2), np.float32), np.zeros((2, 2), np.float32)
    explainer = xj.Explainer(xj.as_model(model, backend=backend), donors)
    own = explainer(rows, outputs=[1, 2, 1])
    assert np.array_equal(own.values, [[1, 1], [2, 0], [1, 1]])
    with pytest.raises(xj.ModelOutputError, match="returned nan"):
        explainer(rows, outputs=[0, 1, 1])


@pytest.mark.parametrize(
    "outputs, error, message",
    [
        ("best", xj.InputError, "'predicted' or one output for each"),
        (3, xj.InputError, "one output for each of the 12"),
        ([0] * (N - 1), xj.InputError, r"shape \(11,\)"),
        ([K] * N, xj.InputError, "names column 7 for X row 0"),
        ([-1] * N, xj.InputError, "names column -1"),
        ([0.5] * N, xj.InputTypeError, "column numbers"),
        ([True] * N, xj.InputTypeError, "column numbers"),
        (["a"] * N, xj.InputTypeError, "Give as_model classes="),
    ],
)
def test_refused(outputs, error, message):
    with pytest.raises(error, match=message):
        xj.Explainer(MODELS["jax"](), BACKGROUND)(X, outputs=outputs)


def test_unknown_labels_and_models_of_one_output():
    model = MODELS["jax"](classes=list("abcdefg"))
    with pytest.raises(xj.InputError, match="must hold class labels"):
        xj.Explainer(model, BACKGROUND)(X, outputs=["z"] * N)
    lone = xj.as_model(lambda Z: jnp.tanh(Z @ W)[:, 0])
    for outputs in ("predicted", [0] * N):
        with pytest.raises(xj.InputError, match="Leave it out"):
            xj.Explainer(lone, BACKGROUND)(X, outputs=outputs)


@pytest.mark.slow
def test_a_translated_estimator_and_its_labels():
    y = np.array(["low", "mid", "high"])[np.digitize(BACKGROUND.sum(1), [-1, 1])]
    rows = np.concatenate([BACKGROUND, X])
    y = np.array(["low", "mid", "high"])[np.digitize(rows.sum(1), [-1, 1])]
    forest = RandomForestClassifier(5, random_state=0).fit(rows, y)
    explainer = xj.Explainer(xj.as_model(forest), BACKGROUND)
    own = explainer(X, outputs="predicted")
    best = forest.predict_proba(X).argmax(1)
    every = explainer(X)
    np.testing.assert_allclose(
        own.values, every.values[np.arange(N), :, best], rtol=0, atol=64 * 2.0**-24
    )
    by_label = explainer(X, outputs=forest.classes_[best])
    assert np.array_equal(by_label.values, own.values)


@pytest.mark.slow
def test_answers_of_all_outputs_are_held_for_few_rows(monkeypatch):
    """f(x) has K numbers a row, of which a dispatch makes no more than are stated."""
    options = {"tile": 256, "estimator": "exact"}
    rows = np.repeat(X, 50, axis=0)  # 600 rows, three tiles
    whole = xj.Explainer(MODELS["jax"](), BACKGROUND, **options)(rows, outputs="predicted")
    monkeypatch.setattr(programs, "MOST_ANSWERS", 256 * K)
    explainer = xj.Explainer(MODELS["jax"](), BACKGROUND, **options)
    plan, own = explainer.plan(rows, outputs="predicted"), explainer(rows, outputs="predicted")
    assert np.array_equal(own.values, whole.values)
    assert plan.model_calls == own.stats["model_calls"] == whole.stats["model_calls"] + 2


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "outputs"), [(1 << 20, 10), (1 << 22, 100), (1 << 24, 1000)])
def test_one_output_needs_no_more_memory_than_all(memory, outputs):
    """The model's own answers to the instances, of all outputs, are asked in no larger parts."""
    rng = np.random.default_rng(4)
    wide = (rng.normal(size=size).astype(np.float32) for size in ((8, 64), (64, outputs)))
    first, last = wide
    model = xj.as_model(lambda Z: jnp.tanh(Z @ first) @ last)
    rows, donors = rng.normal(size=(5, 8)), rng.normal(size=(20, 8))
    explainer = xj.Explainer(model, donors, max_memory=memory)
    every = explainer(rows, progress=False)
    one = explainer(rows, outputs="predicted", progress=False)
    wanted = every.values[np.arange(5), :, one.stats["outputs"]]
    # Answers of a size of ten, by two products that add up their terms in two orders.
    np.testing.assert_allclose(one.values, wanted, rtol=0, atol=1e-4)
    assert explainer.plan(rows, outputs="predicted").memory <= memory
