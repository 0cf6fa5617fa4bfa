"""What stands in for a model is held against the model's own answers, in every result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from often import some_slow
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import xaijax as xj
from xaijax.games import certify
from xaijax.games.engine.plan import SHARES
from xaijax.models.queries import probe as row_count
from xaijax.models.structure import agreement as affine
from xaijax_kernels.structures import closed_forms

RNG = np.random.default_rng(3)
F = 5
W = RNG.normal(size=F).astype(np.float32)
V = RNG.normal(size=(F, 6)).astype(np.float32)
X = RNG.normal(size=(60, F)).astype(np.float32)
BACKGROUND, ROWS = X[:20], X[20:50]
FAR = 40.0  # no number of X is so large

Rows = Callable[[Any], Any]
STOPPED: dict[str, tuple[Rows, Rows]] = {  # the model, and the same in float64 NumPy
    "all": (lambda Z: jax.lax.stop_gradient(Z @ W), lambda Z: Z @ W.astype(float)),
    "half": (lambda Z: Z @ W + jax.lax.stop_gradient(Z @ W), lambda Z: 2 * Z @ W.astype(float)),
    "squares": (lambda Z: jax.lax.stop_gradient((Z**2).sum(1)), lambda Z: (Z**2).sum(1)),
}


@pytest.mark.parametrize("name", sorted(STOPPED))
@pytest.mark.parametrize("kind", ["explainer", "federated"])
def test_a_stopped_gradient_is_no_slope_of_zero(name: str, kind: str) -> None:
    f, plain = STOPPED[name]
    model, rows, weight = xj.as_model(f), ROWS[:3], oracles.shapley_weight(F)
    if kind == "explainer":
        got, background = xj.Explainer(model, BACKGROUND[:4])(rows), BACKGROUND[:4]
    else:
        guests = {"guest": [4]}  # of one column, so that players are columns
        explain = xj.FederatedExplainer(model, BACKGROUND, guests=guests)
        got, background = explain(rows), np.median(BACKGROUND, axis=0)[None]
    truth = oracles.explain(
        lambda Z: plain(Z).reshape(-1, 1), rows.astype(float), background.astype(float), weight
    )[0]
    # Sums of five terms of size 10 at most, added up over 2^5 corners: some tens of roundings.
    np.testing.assert_allclose(got.values, truth[..., 0], rtol=0, atol=100 * 10 * 2.0**-24)


def test_a_slope_that_is_not_the_heads_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix is read from a derivative, and compared with what the head answers."""
    monkeypatch.setattr(affine, "KEPT", affine.KEPT | {"stop_gradient"})

    def head(params: Any, hidden: Any) -> Any:
        return hidden[:, 0] + jax.lax.stop_gradient(hidden[:, 1])

    assert affine.affine(head, None, 2, jnp.float32, {}) is None
    assert affine.affine(lambda params, hidden: hidden @ V[0, :2], None, 2, jnp.float32, {})


def network(Z: Any) -> Any:
    return jnp.tanh(Z @ V).sum(axis=1)


def jumping(Z: Any) -> Any:
    """Another function of rows that the probe does not see, behind a layer that it does."""
    return jnp.where(Z[:, 0] > FAR, 7.0, network(Z))


def declared() -> Any:
    layer = xj.FirstLayer(lambda: (V, np.zeros(6, np.float32)), lambda h: jnp.tanh(h).sum(axis=1))
    return xj.as_model(jumping, structure=layer)


def moved(rows: np.ndarray, place: int) -> np.ndarray:
    rows = rows.copy()
    rows[place, 0] = 2 * FAR
    return rows


def individual(model: Any, background: Any) -> xj.QII:
    return xj.QII(model, background, quantity="individual", outcome="score", bounds=(-9, 9))


EXPLAINED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "exact": lambda m, b, x: xj.Explainer(m, b, estimator="exact")(x),
    "banzhaf": lambda m, b, x: xj.Explainer(m, b, index="banzhaf")(x),
    "link": lambda m, b, x: xj.Explainer(m, b, link=lambda v: v**3)(x),
    "sampled": lambda m, b, x: xj.Explainer(m, b, estimator="permutation", budget=20)(x),
    "qii": lambda m, b, x: individual(m, b).explain(x),
    "unary": lambda m, b, x: individual(m, b).unary(x),
}


@pytest.mark.parametrize("kind", some_slow(sorted(EXPLAINED), 4))
@pytest.mark.parametrize("where", ["X row 21", "background row 18"])
def test_a_structure_that_fails_past_the_probe_is_refused(kind: str, where: str) -> None:
    """The probe looks at 16 rows of each kind; the row that tells is further on."""
    place = int(where.split()[-1])
    background = moved(BACKGROUND, place) if where[0] == "b" else BACKGROUND
    rows = ROWS if where[0] == "b" else moved(ROWS, place)
    with pytest.raises(xj.ModelOutputError, match=where) as told:
        EXPLAINED[kind](declared(), background, rows)
    assert "first layer" in str(told.value) and 'structure="plain"' in str(told.value)
    EXPLAINED[kind](xj.as_model(jumping, structure="plain"), background[:4], rows[:2])


@pytest.mark.slow
def test_data_that_are_their_own_donors_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, both = [], certify._both

    def counted(probed: Any, codes: Any) -> Any:
        asked.append(len(codes))
        return both(probed, codes)

    monkeypatch.setattr(certify, "_both", counted)
    outcome: dict[str, Any] = {"outcome": "score", "quantity": "rate", "bounds": (-9, 9)}
    xj.QII(declared(), BACKGROUND, **outcome).unary()
    assert sum(asked) == len(BACKGROUND)
    with monkeypatch.context() as patched:
        patched.setitem(SHARES, "kept", 0)  # answers that are too large to keep
        asked.clear()
        xj.QII(declared(), BACKGROUND, **outcome).unary()
        assert sum(asked) == 2 * len(BACKGROUND)
    with pytest.raises(xj.ModelOutputError, match="background row 18"):
        xj.QII(declared(), moved(BACKGROUND, 18), **outcome).unary()
    asked.clear()
    xj.Explainer(declared(), BACKGROUND)(BACKGROUND[::-1])
    assert sum(asked) == 2 * len(BACKGROUND)  # as many, but others


@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_a_closed_form_is_held_against_the_model(
    index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slope that is off by a thousandth is an error that names the row."""
    own = closed_forms.Additive.__init__

    def wrong(self: Any, *given: Any) -> None:
        own(self, *given)
        self._weights = self._weights * 1.001

    monkeypatch.setattr(closed_forms.Additive, "__init__", wrong)
    model = xj.as_model(LinearRegression().fit(X, X @ W))
    with pytest.raises(xj.ModelOutputError, match="'additive'.* X row 0"):
        xj.Explainer(model, BACKGROUND, index=index)(ROWS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "f", [network, lambda Z: Z @ W, LinearRegression().fit(X, X @ W)], ids=["mlp", "sum", "fitted"]
)
def test_the_residual_is_that_of_the_models_own_answer(f: Any) -> None:
    model = xj.as_model(f)
    got = xj.Explainer(model, BACKGROUND)(ROWS)
    assert got.stats["structure"] and got.stats["checked_rows"] == len(ROWS) + len(BACKGROUND)
    residual, bound = got.stats["efficiency_residual"], got.stats["efficiency_bound"]
    own = np.abs(got.base_values + got.values.sum(axis=1) - model.predict(ROWS))
    # Both are the model's answers in float32, of blocks of other sizes: two roundings each.
    level = np.abs(model.predict(ROWS)).max()
    np.testing.assert_allclose(residual, own, rtol=0, atol=4 * 2.0**-24 * level)
    assert (residual <= bound).all()
    plain = xj.Explainer(xj.as_model(f, structure="plain"), BACKGROUND)(ROWS)
    assert plain.stats["checked_rows"] == 0  # the model itself answered


@pytest.mark.slow
def test_a_steep_model_is_not_refused_for_its_rounding() -> None:
    """Within a few last bits of a jump either answer is the model's; the bound says so."""

    def f(Z: Any) -> Any:
        return jnp.tanh(3e5 * (Z @ W))

    rows = ROWS.copy()
    rows[20, 4] -= rows[20] @ W / W[4]  # on the jump, but for rounding
    got = xj.Explainer(xj.as_model(f), BACKGROUND)(rows)
    assert got.stats["structure"] == "first layer"
    residual, bound = got.stats["efficiency_residual"], got.stats["efficiency_bound"]
    assert (residual <= bound).all()
    assert bound[20] > 100 * np.median(bound)


@pytest.mark.slow
@pytest.mark.parametrize("scale, constant", [(1e3, -60.0), (10.0, -60.0), (1e2, -20.0)])
def test_tails_of_a_sigmoid_are_not_refused_for_their_rounding(
    scale: float, constant: float
) -> None:
    """Answers of 1e-30 are rounded by the argument of the exponential, not by their own size."""
    rng = np.random.default_rng(11)
    first = rng.normal(size=(F, 16)).astype(np.float32)
    second = (rng.normal(size=16) * scale / 10).astype(np.float32)
    model = xj.as_model(lambda Z: jax.nn.sigmoid(jax.nn.relu(Z @ first) @ second + constant))
    got = xj.Explainer(model, 5 * BACKGROUND[:12])(5 * X)
    assert (got.stats["efficiency_residual"] <= got.stats["efficiency_bound"]).all()


@pytest.mark.slow
def test_a_large_row_does_not_widen_the_bound_of_trees() -> None:
    """Their rounding does not depend on how large a row is."""
    trees = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, X @ W)
    small = xj.Explainer(xj.as_model(trees), BACKGROUND)(ROWS[:2]).stats["efficiency_bound"]
    far = xj.Explainer(xj.as_model(trees), BACKGROUND)(ROWS[:2] * 1e6).stats["efficiency_bound"]
    assert far.max() < 10 * small.max()


@pytest.mark.slow
def test_a_program_of_more_rows_that_answers_otherwise_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A place in the batch: the last rows of a tile, which the comparison of traces looks at."""
    monkeypatch.setattr(row_count, "_COUNTING", {})
    model = xj.as_model(lambda Z: jnp.prod(Z, axis=1) + (jnp.arange(Z.shape[0]) >= 32))
    with pytest.warns(xj.XaiWarning, match="other answers to the 32 rows of the probe"):
        found = xj.Explainer(model, BACKGROUND)(ROWS[:2])
    wanted = xj.Explainer(xj.as_model(lambda Z: jnp.prod(Z, axis=1)), BACKGROUND)(ROWS[:2])
    np.testing.assert_allclose(found.values, wanted.values, atol=1e-6)  # products of 1 or so
