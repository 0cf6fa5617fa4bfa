"""What is compiled of a program is shared by all models that are traced to it, and by no other.

A cell that is run again makes function, model and explainer anew. The broken version compiled all
of it again; one that shared by the function's text or object gave the answers of what it did
before.
"""

from __future__ import annotations

import gc
from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import xaijax as xj
from xaijax.models.queries import findings as same_program

P, B = 5, 24
RNG = np.random.default_rng(7)
X = RNG.normal(size=(6, P)).astype(np.float32)
BACKGROUND = RNG.normal(size=(B + 1, P)).astype(np.float32)
MANY = 40  # players, of which values are sampled


def network(seed: int, scale: float = 1.0) -> Any:
    """A cell's function, with weights of its own in its closure."""
    rng = np.random.default_rng(seed)
    first, second = (rng.normal(size=d).astype(np.float32) for d in ((P, 7), (7, 1)))

    def f(rows: Any) -> Any:
        return scale * (jnp.tanh(rows @ first) @ second)[:, 0]

    return f


def wanted(f: Any, x: np.ndarray, donors: np.ndarray) -> float:
    """f(x) less the mean over donors, which the values add up to."""
    return float(f(x[None])[0]) - float(np.asarray(f(donors)).mean())


def explained(f: Any, donors: np.ndarray = BACKGROUND[:B], **options: Any) -> xj.Explanation:
    found = xj.Explainer(xj.as_model(f, **options), donors)(X, progress=False)
    told = found.values.reshape(len(X), -1).sum(axis=1)
    # Sums of 2^5 sub-coalitions of 25 donors in float32, each off by a few units of 2^-23.
    assert told == pytest.approx([wanted(f, x, donors) for x in X], abs=1e-5)
    return found


@pytest.mark.slow
def test_a_cell_run_again_compiles_nothing(compiled: Counter[str]) -> None:
    first = explained(network(1))
    compiled.clear()
    gc.collect()  # nothing is left of the first but its numbers
    again = explained(network(1))
    assert not compiled, compiled
    assert np.array_equal(first.values, again.values)
    assert again.stats["compile_seconds"] < first.stats["compile_seconds"]


@pytest.mark.slow
def test_a_first_explanation_traces_a_network_three_times() -> None:
    """For the probe's rows, for the columns of a slot and for the head of a tile. The broken
    version traced it anew for the rows of each further look, five times.
    """
    traced, f = [], network(5)

    def seen(rows: Any) -> Any:
        traced.append(rows.shape)
        return f(rows)

    xj.Explainer(xj.as_model(seen), BACKGROUND[:B])(X[:1], progress=False)
    assert len(traced) <= 3 and len(set(traced)) == len(traced), traced


@pytest.mark.slow
def test_nor_does_one_donor_more_nor_one_instance_more(compiled: Counter[str]) -> None:
    explained(network(2), BACKGROUND[: B - 1])
    wanted(network(2), X[0], BACKGROUND[:B])  # what the test itself compiles of as many rows
    compiled.clear()
    explained(network(2), BACKGROUND[:B])
    found = xj.Explainer(xj.as_model(network(2)), BACKGROUND[: B - 1])
    assert found(X[:3], progress=False).values.shape == (3, P)
    assert not compiled, compiled


@pytest.mark.slow
def test_nor_where_values_are_sampled(compiled: Counter[str]) -> None:
    """By orders of players, which the first layer walks."""
    rng = np.random.default_rng(0)
    weights, rows = rng.normal(size=(MANY, 3)), rng.normal(size=(B + 4, MANY)).astype(np.float32)

    def values(donors: int) -> np.ndarray:
        model = xj.as_model(lambda params, rows: jnp.sin(rows @ params).sum(axis=1), weights)
        explain = xj.Explainer(model, rows[:donors], estimator="permutation", budget=4 * MANY)
        return explain(rows[-2:], progress=False).values

    values(17)
    compiled.clear()
    values(17), values(18)
    assert not compiled, compiled


CLOSED = {
    "additive": lambda: xj.as_model(lambda w, rows: rows @ w + 1, np.arange(1.0, P + 1)),
    "trees": lambda: xj.as_model(
        DecisionTreeRegressor(max_depth=3, random_state=0).fit(BACKGROUND, BACKGROUND[:, 0])
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", CLOSED)
def test_nor_does_another_explainer_of_a_closed_form(form: str, compiled: Counter[str]) -> None:
    """The broken version compiled the layer's columns and the head anew for each explainer."""
    model = CLOSED[form]()
    first = xj.Explainer(model, BACKGROUND[:B])(X, progress=False)
    assert first.stats["structure"] == form
    compiled.clear()
    again = xj.Explainer(model, BACKGROUND[:B])(X, progress=False)
    xj.Explainer(model, BACKGROUND[: B - 1])(X, progress=False)
    assert not compiled, compiled
    np.testing.assert_array_equal(first.values, again.values)


@pytest.mark.slow
def test_other_constants_are_another_program() -> None:
    """Of one text, shape and name, the first function gone."""
    found = [explained(network(seed, scale)).values for seed in (3, 4) for scale in (1.0, 2.0)]
    assert len({one.tobytes() for one in found}) == 4


@pytest.mark.slow
def test_a_function_that_changed_is_another_program() -> None:
    state = {"weight": 1.0}

    def f(rows: Any) -> Any:
        return state["weight"] * rows[:, 0] * rows[:, 1]

    first = explained(f)
    state["weight"] = 3.0
    second = explained(f)
    assert second.values == pytest.approx(3 * first.values, abs=1e-5)


@pytest.mark.slow
def test_a_function_that_is_another_one_in_a_tile_only() -> None:
    """Equal to the first in the few rows of the probe, by which programs are known."""

    def cell(other: float) -> Any:
        def f(rows: Any) -> Any:
            scale = 1.0 if len(rows) <= 64 else other
            return scale * jnp.tanh(rows).sum(axis=1) ** 2

        return f

    explained(cell(1.0))
    with pytest.raises(xj.NonDeterministicModelError):
        xj.Explainer(xj.as_model(cell(2.0)), BACKGROUND)(X, progress=False)


@pytest.mark.slow
def test_parameters_may_be_others(compiled: Counter[str]) -> None:
    def f(params: Any, rows: Any) -> Any:
        return jnp.tanh(rows @ params).sum(axis=1)

    given = [np.random.default_rng(seed).normal(size=(P, 4)).astype(np.float32) for seed in (0, 1)]
    found = []
    for params in given:
        explain = xj.Explainer(xj.as_model(f, params), BACKGROUND[:B])
        compiled.clear()
        found.append(explain(X, progress=False))
        assert not any("run_tiles" in name for name in compiled) or len(found) == 1
    for params, one in zip(given, found, strict=True):
        told = [wanted(lambda rows, params=params: f(params, rows), x, BACKGROUND[:B]) for x in X]
        assert one.values.sum(axis=1) == pytest.approx(told, abs=1e-5)


@pytest.mark.slow
def test_labels_are_decided_by_each_model_itself() -> None:
    """Another threshold is no other program of the scores, but another of the labels."""
    model = network(5)
    for cut in (-0.5, 0.5):
        found = xj.as_model(network(5), threshold=cut)
        assert found.labels(X).tolist() == (np.asarray(model(X)) > cut).astype(int).tolist()
        rules = xj.AnchorExplainer(found, BACKGROUND).explain(X, progress=False)
        assert [rule.prediction for rule in rules] == found.labels(X).tolist()


def test_a_program_that_calls_python_is_shared_with_none(compiled: Counter[str]) -> None:
    """What it calls is not in its trace."""

    def cell(scale: float) -> Any:
        def f(rows: Any) -> Any:
            shape = jax.ShapeDtypeStruct(rows.shape[:1], rows.dtype)
            return jax.pure_callback(lambda a: scale * np.asarray(a)[:, 0], shape, rows)

        return f

    first, second = (
        xj.Explainer(xj.as_model(cell(scale)), BACKGROUND)(X, progress=False).values
        for scale in (1.0, 2.0)
    )
    assert second == pytest.approx(2 * first, abs=1e-5)


@pytest.mark.slow
def test_large_constants_go_with_their_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(same_program, "LARGEST", 8)
    before = list(same_program._recent)
    explained(network(6))
    gc.collect()
    assert list(same_program._recent) == before  # not one more, nor one for another
    monkeypatch.undo()
    explained(network(6))
    assert list(same_program._recent) != before
    assert len(same_program._recent) <= same_program.RECENT


@pytest.mark.slow
def test_a_module_given_again_compiles_nothing(compiled: Counter[str]) -> None:
    """Traces on placed parameters name their mesh, and the broken version took them for others."""
    equinox = pytest.importorskip("equinox")
    layers = [equinox.nn.Linear(2, 1, key=jax.random.key(seed)) for seed in (0, 1)]
    rows, donors = X[:2, :2], BACKGROUND[:3, :2]

    def of(layer: Any) -> np.ndarray:
        return xj.Explainer(xj.as_model(layer), donors)(rows, progress=False).values

    first = of(layers[0])
    compiled.clear()
    assert np.array_equal(of(layers[0]), first)
    assert not compiled, compiled
    # A linear model's values are w (x - mean of the donors); a few units of 2^-23 of sums near 1.
    for layer in layers:
        weights = np.asarray(layer.weight, np.float64)[0]
        expected = weights * (rows.astype(np.float64) - donors.astype(np.float64).mean(0))
        np.testing.assert_allclose(of(layer), expected, atol=1e-5)
