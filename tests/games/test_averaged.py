"""Mean scores of all coalitions, averaged over donors on the device, against the definition."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import eight_devices
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import count_turns
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

import xaijax as xj
from xaijax.games.strategies import averaged
from xaijax_kernels import sizes
from xaijax_kernels.structures import averaged as kernel

EPS = 2.0**-24


@contextlib.contextmanager
def counting() -> Iterator[list[int]]:
    """How many instances went by tables, in each call."""
    counts: list[int] = []
    add = averaged.Averaged.add

    def counted(self: Any, *given: Any) -> np.ndarray:
        well = add(self, *given)
        counts.append(int(well.sum()))
        return well

    with mock.patch.object(averaged.Averaged, "add", counted):
        yield counts


@pytest.fixture
def tables() -> Iterator[list[int]]:
    with counting() as counts:
        yield counts


def drawn(N: int, B: int, P: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, P)).astype(np.float32) for n in (N, B))  # type: ignore[return-value]


def layer(P: int, K: int, level: float = 0.0) -> tuple[Any, Any]:
    """A network of one layer, for JAX and in float64."""
    rng = np.random.default_rng(P)
    A, C = rng.normal(size=(P, 5)).astype(np.float32), rng.normal(size=(5, K)).astype(np.float32)
    return (
        lambda X: jnp.tanh(X @ A) @ C + np.float32(level),
        lambda X: np.tanh(np.asarray(X, float) @ A.astype(float)) @ C.astype(float) + level,
    )


def accepted(P: int, scale: float) -> float:
    """Rounding of one value: a layer of P terms, five units, and the 2^P weights of a semivalue,
    which sum to 2; sums over donors are compensated, and what follows is float64."""
    return 4 * (P + 8) * EPS * scale


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(4, 6), st.sampled_from([16, 30, 47, 64, 78, 160]), st.integers(1, 3),
    st.sampled_from(["shapley", "banzhaf"]), st.booleans(), st.sampled_from([0.0, 1e4]),
)  # fmt: skip
def test_values_are_those_of_the_definition(P, B, K, index, weighted, level):
    """Blocks that fill up, weights, a level far above the changes.

    A version that drops the last block, or the weights of what fills it up, fails.
    """
    X, donors = drawn(3, B, P)
    f, host = layer(P, K, level)
    weights = np.random.default_rng(B).random(B) + 0.1 if weighted else None
    explainer = xj.Explainer(xj.as_model(f), donors, index=index, weights=weights)
    with counting() as tables:
        got = explainer(X, progress=False)
    assert tables == [3]
    weight = {"shapley": oracles.shapley_weight, "banzhaf": oracles.banzhaf_weight}[index](P)
    values, base, full = oracles.explain(host, X, donors, weight, weights=weights)
    limit = accepted(P, 5.0) + 4 * EPS * level  # each answer is rounded at its level
    np.testing.assert_allclose(got.values.reshape(values.shape), values, atol=limit)
    np.testing.assert_allclose(got.base_values.reshape(base.shape), base, atol=limit)
    if index == "shapley":
        sums = (got.values.sum(axis=1) + got.base_values).reshape(full.shape)
        np.testing.assert_allclose(sums, full, atol=2 * limit)
        residual, bound = (np.max(got.stats[f"efficiency_{a}"]) for a in ("residual", "bound"))
        assert residual <= bound


def test_segments_of_donors_are_summed(tables, monkeypatch):
    monkeypatch.setattr(averaged, "ROWS_OF_MEANS", 1 << 10)
    X, donors = drawn(20, 301, 4)
    f, host = layer(4, 2)
    got = xj.Explainer(xj.as_model(f), donors)(X, progress=False)
    values, base, _ = oracles.explain(host, X, donors, oracles.shapley_weight(4))
    np.testing.assert_allclose(got.values, values, atol=accepted(4, 5.0))
    np.testing.assert_allclose(got.base_values, base, atol=accepted(4, 5.0))
    assert tables == [20]
    assert got.stats["model_rows"] == 20 * 301 * 16


@pytest.mark.slow
def test_players_of_several_columns(tables):
    X, donors = drawn(5, 64, 6)
    f, host = layer(6, 1)
    groups = [[0, 3], [1], [2, 4], [5]]
    got = xj.Explainer(xj.as_model(f), donors, players={str(g): g for g in groups})(X)
    values, _, _ = oracles.explain(host, X, donors, oracles.shapley_weight(4), groups)
    np.testing.assert_allclose(got.values, values[:, :, 0], atol=accepted(6, 5.0))
    assert tables == [5]


@pytest.mark.slow
@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.parametrize("kind", ["machine", "forest"])
def test_estimators_go_by_tables(kind, prepared, tables, monkeypatch):
    monkeypatch.setattr(sizes, "LEAVES", 16)  # of a hundred: some turns of the loop
    if not prepared:  # as where the memory does not hold what donors contribute
        monkeypatch.setattr(averaged.Averaged, "_prepares", lambda self, setting: False)
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(200, 5)).astype(np.float32)
    score = rows[:, 0] * rows[:, 1] + rows[:, 2] + rng.normal(size=200) / 2
    kinds = {
        "machine": SVC(gamma=0.3),
        "forest": RandomForestClassifier(9, max_depth=4, random_state=0),
    }
    X, donors = drawn(4, 30, 5, seed=3)
    fitted = kinds[kind].fit(rows, score > 0)
    got = xj.Explainer(xj.as_model(fitted, output="label"), donors)(X, progress=False)
    values, _, _ = oracles.explain(fitted.predict, X, donors, oracles.shapley_weight(5))
    # Labels are whole numbers; their means over 30 donors round once, in float64.
    np.testing.assert_allclose(got.values, values, atol=1e-12)
    assert got.stats["structure"] == "sum of products"
    assert tables == [4]


@pytest.mark.slow
def test_who_agrees_with_a_donor_goes_by_pairs_and_bits_stay(tables):
    """A row's bits hang on the row and the donors: not on how many go by tables beside it."""
    X, donors = drawn(60, 48, 5)
    X[::3, 1] = donors[4, 1]
    explainer = xj.Explainer(xj.as_model(layer(5, 2)[0]), donors)
    whole = explainer(X, progress=False)
    assert tables == [40]
    values, _, _ = oracles.explain(layer(5, 2)[1], X, donors, oracles.shapley_weight(5))
    np.testing.assert_allclose(whole.values, values, atol=accepted(5, 5.0))
    for rows in (slice(0, 1), slice(1, 2), slice(7, 33)):
        part = explainer(X[rows], progress=False)
        assert part.values.tobytes() == whole.values[rows].tobytes()
        assert part.base_values.tobytes() == whole.base_values[rows].tobytes()
    asked = 40 * 48 * 32 + 20 * (47 * 32 + 16)
    assert whole.stats["model_rows"] == asked


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_bits_of_an_accelerators_layout_do_not_follow_the_question(
    platform: str, tables: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few instances have few tiles there; the layout runs here."""
    for module in (averaged, kernel):
        monkeypatch.setattr(module, "platform_of", lambda mesh: platform)
    count_turns(platform == "gpu", monkeypatch)
    monkeypatch.setattr(averaged, "counted", lambda _: platform == "gpu")
    X, donors = drawn(37, 48, 6)
    explainer = xj.Explainer(xj.as_model(layer(6, 2)[0]), donors)
    whole = explainer(X, progress=False)
    values, _, _ = oracles.explain(layer(6, 2)[1], X, donors, oracles.shapley_weight(6))
    np.testing.assert_allclose(whole.values, values, atol=accepted(6, 5.0))
    for rows in (slice(0, 1), slice(5, 8), slice(7, 33)):
        part = explainer(X[rows], progress=False)
        assert part.values.tobytes() == whole.values[rows].tobytes()
    assert tables == [37, 1, 3, 26]


ON_DEVICES = """
import jax.numpy as jnp, xaijax as xj
from sklearn.svm import SVC
from test_averaged import drawn, layer
X, donors = drawn(37, 48, 5)
machine = SVC().fit(donors, donors[:, 0] * donors[:, 1] > 0)
for devices in (1, 3, 8):
    explainer = xj.Explainer(xj.as_model(layer(5, 2)[0]), donors, devices=devices)
    out[str(devices)] = explainer(X, progress=False).values
    explainer = xj.Explainer(xj.as_model(machine, output="decision"), donors, devices=devices)
    out[f"machine, {devices}"] = explainer(X, progress=False).values
"""


@pytest.mark.slow
def test_eight_devices_give_the_bits_of_one(tmp_path):
    found = eight_devices.outcome(ON_DEVICES, tmp_path)
    X, donors = drawn(37, 48, 5)
    values, _, _ = oracles.explain(layer(5, 2)[1], X, donors, oracles.shapley_weight(5))
    np.testing.assert_allclose(found["1"], values, atol=accepted(5, 5.0))
    assert found["1"].tobytes() == found["3"].tobytes() == found["8"].tobytes()
    machine = [found[f"machine, {devices}"].tobytes() for devices in (1, 3, 8)]
    assert machine[0] == machine[1] == machine[2] and found["machine, 1"].any()


def holed(X: Any) -> Any:
    """Not finite where the sum is large, which no row of the instances or donors is."""
    total = X.sum(axis=1)
    return jnp.where(total > 14, jnp.inf, jnp.tanh(total) + total)


@pytest.mark.slow
def test_bad_answers_are_named_as_without_tables(tables):
    X, donors = drawn(6, 32, 4)
    X[2], donors[7] = [9, -9, 0.5, 0.2], [-9, 9, 0.1, 0.3]
    found = []
    for structure in (None, "plain"):
        model = xj.as_model(holed, structure=structure)
        with pytest.raises(xj.ModelOutputError) as error:
            xj.Explainer(model, donors)(X, progress=False)
        found.append(str(error.value))
    assert found[0] == found[1]
    assert tables == [5]


@pytest.mark.slow
def test_scores_that_are_no_distribution_are_named_as_without_tables(tables):
    X, donors = drawn(6, 32, 4)
    found = []
    for structure in (None, "plain"):
        f = layer(4, 2)[0]
        model = xj.as_model(lambda X, f=f: jax.nn.softmax(f(X)) * 1.1, structure=structure)
        qii = xj.QII(model, donors, quantity="individual", outcome="proba")
        with pytest.raises(xj.ModelOutputError) as error:
            qii.explain(X)
        found.append(str(error.value))
    assert found[0] == found[1]
    assert not tables  # sums to 1 are looked at in each answer


@pytest.mark.slow
def test_answers_that_may_be_infinite_go_by_pairs(tables):
    X, donors = drawn(6, 32, 4)
    X[2], donors[7] = [9, -9, 0.5, 0.2], [-9, 9, 0.1, 0.3]
    got = []
    for structure in (None, "plain"):
        model = xj.as_model(holed, structure=structure, nonfinite="propagate")
        got.append(xj.Explainer(model, donors)(X, progress=False).values)
    np.testing.assert_array_equal(np.isfinite(got[0]), np.isfinite(got[1]))
    rest = np.isfinite(got[1])
    np.testing.assert_allclose(got[0][rest], got[1][rest], atol=1e-5)
    assert rest.any() and not rest.all()
    assert tables == [5]


@pytest.mark.slow
def test_a_model_of_one_answer_gives_zeros():
    """Less a score: what is equal everywhere is not rounded."""
    X, donors = drawn(3, 30, 4)
    weights = np.random.default_rng(5).random(30)
    model = xj.as_model(lambda X: jax.nn.relu(X @ jnp.ones(4) - 1e3) + 0.1)
    got = xj.Explainer(model, donors, weights=weights)(X, progress=False)
    assert got.stats["structure"] == "first layer"
    assert not got.values.any()
    np.testing.assert_allclose(got.base_values, np.float32(0.1), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["codes", "continuous"])
def test_a_memory_map_gives_the_bits_of_its_array(tmp_path, columns, tables):
    """Codes, of which no row differs from all donors, are handed on without one being read."""
    rng = np.random.default_rng(6)
    X, donors = drawn(40, 16, 5)
    if columns == "codes":
        X, donors = (rng.integers(0, 3, one.shape).astype(np.float32) for one in (X, donors))
    mapped = np.memmap(tmp_path / "rows", np.float32, "w+", shape=X.shape)
    mapped[:] = X
    mapped.flush()
    mapped = np.memmap(tmp_path / "rows", np.float32, "r", shape=X.shape)
    explainer = xj.Explainer(xj.as_model(layer(5, 2)[0]), donors)
    got, wanted = (explainer(rows, progress=False) for rows in (mapped, X))
    assert got.stats["structure"] == "first layer"
    assert got.values.tobytes() == wanted.values.tobytes()
    assert tables == ([] if columns == "codes" else [40, 40])
