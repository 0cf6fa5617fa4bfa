"""Listed coalitions by a layer that adds, against the definition and whole rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import eight_devices
import jax.numpy as jnp
import listed
import numpy as np
import pytest
from loops import count_turns

import xaijax as xj
from xaijax.games import queries
from xaijax.games.strategies import by_parts

EPS = 2.0**-24
P, UNITS = 9, 5


@pytest.fixture(params=["cpu", "gpu", "tpu"])
def layout(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Lists are laid out as on this platform, and run here."""
    monkeypatch.setattr(by_parts, "platform_of", lambda mesh: request.param)
    count_turns(request.param == "gpu", monkeypatch)
    return request.param


def network(F: int, K: int = 2) -> tuple[Any, Any]:
    """One hidden layer, for JAX and in float64."""
    rng = np.random.default_rng(F)
    A, C = (rng.normal(size=s).astype(np.float32) for s in ((F, UNITS), (UNITS, K)))
    return (
        lambda X: jnp.tanh(X @ A + 0.5) @ C,
        lambda X: np.tanh(np.asarray(X, float) @ A.astype(float) + 0.5) @ C.astype(float),
    )


def rows(seed: int, n: int, F: int = P) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, F)).astype(np.float32)


def accepted(F: int) -> float:
    """A layer of F terms of size 3 at most and units of slope 1; sums over donors carry twice the
    digits. Two layers of H terms, each rounding counted at the size of its sum."""
    return 4 * (F + UNITS + 4) * EPS * 8


@pytest.mark.parametrize("B", [4, 7, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_values_are_those_of_the_definition(B: int, weighted: bool, layout: str) -> None:
    """Donors that fill a segment up, several segments, coalitions that fill a tile up.

    A version that drops what fills up, a segment, or the weights fails.
    """
    f, host = network(P)
    X, donors, masks = rows(1, 3), rows(2, B), listed.coalitions_of(P, 70)
    weights = np.random.default_rng(B).random(B) if weighted else None
    game = listed.game_of(xj.as_model(f), X, donors, weights=weights)
    got = queries.values(game, masks)
    assert game.structure == "first layer" and game.count.distinct == 3 * B * 70
    wanted = listed.oracle(host, X, donors, masks, weights)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=accepted(P))


@pytest.mark.slow
def test_players_of_several_columns_and_outputs(layout: str) -> None:
    f, host = network(P)
    groups = [[0, 3, 8], [1], [2, 4], [5, 7], [6]]
    X, donors, masks = rows(3, 20), rows(4, 12), listed.coalitions_of(5, 20)
    game = listed.game_of(xj.as_model(f), X, donors, {str(g): g for g in groups})
    got = queries.values(game, masks)
    assert game.structure == "first layer"
    wanted = listed.oracle(host, X, donors, masks, groups=groups)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=accepted(P))


@pytest.mark.slow
def test_few_players_of_many_columns(layout: str) -> None:
    """Parts of single players are put together."""
    f, host = network(24)
    players = np.arange(24) // 6
    X, donors, masks = rows(3, 20, 24), rows(4, 12, 24), listed.coalitions_of(4, 20)
    of_rows = by_parts.Listed._parts
    with mock.patch.object(by_parts.Listed, "_parts", autospec=True, side_effect=of_rows) as made:
        game = listed.game_of(xj.as_model(f), X, donors, players)
        got = queries.values(game, masks)
    assert made.called and game.structure == "first layer"
    groups = [list(range(6 * p, 6 * p + 6)) for p in range(4)]
    wanted = listed.oracle(host, X, donors, masks, groups=groups)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=accepted(24))


@pytest.mark.slow
def test_bits_do_not_depend_on_the_other_instances(layout: str) -> None:
    """A CPU's product rounds its last rows in another way, which an accelerator's layout, run here,
    does not mind.
    """
    f, host = network(P)
    X, donors, masks = rows(1, 37), rows(2, 20), listed.coalitions_of(P, 33)
    whole = queries.values(listed.game_of(xj.as_model(f), X, donors, tile=1024), masks)
    order = np.random.default_rng(0).permutation(37)
    model = xj.as_model(f)
    again = queries.values(listed.game_of(model, X[order], donors, tile=1024), masks)
    alone = queries.values(listed.game_of(model, X[5:6], donors, tile=1024), masks)
    assert again.tobytes() == whole[order].tobytes()
    assert alone.tobytes() == whole[5:6].tobytes()
    wanted = listed.oracle(host, X, donors, masks)
    for found, own in ((whole, wanted), (again, wanted[order]), (alone, wanted[5:6])):
        np.testing.assert_allclose(found, own, rtol=0, atol=accepted(P))
    assert np.ptp(whole[:, 0], axis=0).max() == 0  # nothing kept of x


@pytest.mark.slow
def test_instances_near_to_donors_go_by_subsets() -> None:
    f, host = network(P)
    X, donors = listed.agreeing(P)
    masks = listed.coalitions_of(P, 40)
    counted: list[int] = []
    of = by_parts.ByParts.of

    def count(self: Any, backend: Any, rows: np.ndarray, *given: Any) -> np.ndarray:
        counted.append(len(rows))
        return of(self, backend, rows, *given)

    with mock.patch.object(by_parts.ByParts, "of", count):
        got = queries.values(listed.game_of(xj.as_model(f), X, donors), masks)
    assert counted == [1]  # the one that differs from all donors in all columns
    wanted = listed.oracle(host, X, donors, masks)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=accepted(P))


@pytest.mark.slow
def test_rows_are_asked_where_parts_do_not_pay() -> None:
    """Few donors, a model without a layer, a layer that is a small part of the model."""
    f, _ = network(P)
    big = rows(5, 300, 300) / 20

    def deep(X: Any) -> Any:
        hidden = jnp.tanh(X @ big[:P])
        return jnp.tanh(hidden @ big) @ big[:, :2]

    cases = [(f, 3, None), (lambda X: f(X) * X[:, :1], 8, None), (deep, 8, None), (f, 8, "plain")]
    for model, B, structure in cases:
        game = listed.game_of(xj.as_model(model, structure=structure), rows(1, 2), rows(2, B))
        queries.values(game, listed.coalitions_of(P, 20))
        assert game.structure is None


@pytest.mark.slow
@pytest.mark.parametrize("nonfinite", ["raise", "propagate"])
def test_a_bad_answer_is_told_with_its_row(nonfinite: Any, layout: str) -> None:
    def f(X: Any) -> Any:
        return jnp.sqrt(3.0 - X.sum(axis=1))

    X = np.where(np.arange(3)[:, None] == 1, 1.0, 0.0) * np.eye(P)[0] + np.full((3, P), 0.01)
    donors = np.zeros((5, P))
    X[1, :2], donors[4, 2:4] = 1.4, 1.4  # each is sound, and a hybrid of both is not
    masks = np.zeros((3, P), bool)
    masks[1, :2], masks[2, 2:] = True, True
    game = listed.game_of(xj.as_model(f, nonfinite=nonfinite), X, donors)
    if nonfinite == "raise":
        with pytest.raises(xj.ModelOutputError, match="X row 1.*background row 4"):
            queries.values(game, masks)
        return
    got = queries.values(game, masks)
    wrong = np.isnan(got[:, :, 0])
    assert wrong.tolist() == [[False] * 3, [False, True, False], [False] * 3]


@pytest.mark.slow
@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_the_kernel_estimator_uses_the_layer(index: str, layout: str) -> None:
    f, _ = network(16, 1)
    X, donors = rows(1, 4, 16), rows(2, 10, 16)
    options: Any = {"estimator": "kernel", "budget": 200, "index": index}
    explainer = xj.Explainer(xj.as_model(f), donors, **options)
    got = explainer(X)
    wanted = xj.Explainer(xj.as_model(f, structure="plain"), donors, **options)(X)
    assert (got.stats["structure"], wanted.stats["structure"]) == ("first layer", None)
    assert got.stats["checked_rows"] == 14
    # The fit's weights of one coalition's value are below 1, and their squares sum to about 1.
    np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=4 * accepted(16))
    np.testing.assert_allclose(got.base_values, wanted.base_values, rtol=0, atol=accepted(16))
    if index == "shapley":
        assert np.max(got.stats["efficiency_residual"]) <= np.min(got.stats["efficiency_bound"])
    plan, stats = explainer.plan(X), got.stats
    assert (plan.model_calls, plan.structure) == (stats["model_calls"], "first layer")
    assert plan.model_rows.sum() == stats["model_rows"]


@pytest.mark.slow
def test_united_columns_are_listed_along_orders() -> None:
    f, _ = network(16, 1)
    X, donors, players = rows(1, 3, 16), rows(2, 6, 16), np.arange(16) // 2
    options: Any = {"estimator": "permutation", "budget": 42, "players": players}
    got = xj.Explainer(xj.as_model(f), donors, **options)(X)
    wanted = xj.Explainer(xj.as_model(f, structure="plain"), donors, **options)(X)
    assert got.stats["structure"] == "first layer"
    np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=2 * accepted(16))


DEVICES = """
import jax.numpy as jnp
import xaijax as xj
rng = np.random.default_rng(0)
W = rng.normal(size=(20, 8)).astype("float32")
model = xj.as_model(lambda X: jnp.tanh(X @ W).sum(axis=1))
X, donors = (rng.normal(size=(n, 20)).astype("float32") for n in (40, 9))
for name, devices in (("one", jax.devices()[:1]), ("all", jax.devices())):
    for players in (None, np.arange(20) // 2):  # columns, and parts of players
        options = dict(estimator="kernel", budget=300, players=players)
        found = xj.Explainer(model, donors, devices=devices, **options)(X)
        assert found.stats["structure"] == "first layer"
        out[f"{name} {players is None}"] = found.values
"""


@pytest.mark.slow
def test_devices_share_the_tiles(tmp_path: Path) -> None:
    out = eight_devices.outcome(DEVICES, tmp_path)
    for players in (True, False):
        assert out[f"one {players}"].tobytes() == out[f"all {players}"].tobytes()
