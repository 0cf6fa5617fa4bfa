"""A declared split, f = rest(first), and the players over which `first` is a sum."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest

import xaijax as xj

P, PER, D = 6, 2, 4  # players of two columns, numbers that each adds
A = np.random.default_rng(0).normal(size=(P, PER, D)).astype(np.float32) / 2
C = np.random.default_rng(1).normal(size=(D, 2)).astype(np.float32)
PLAYERS = np.repeat(np.arange(P), PER)
# Sums of P terms of two products each through slopes of at most 2, beside answers of a size of 8.
CLOSE = {"rtol": 0, "atol": 4 * (P * PER + D + 8) * 2**-24 * 8}


def first(params: Any, X: Any) -> Any:
    """A network for each player, added up; [R, 2, D / 2]. Not 0 for a row of zeros."""
    each = jnp.tanh(jnp.einsum("rpc,pcd->rpd", X.reshape(len(X), P, PER), params) + 0.3)
    return each.sum(axis=1).reshape(len(X), 2, D // 2)


def rest(params: Any, hidden: Any) -> Any:
    return jnp.sin(hidden.reshape(len(hidden), D)) @ C


def model(
    params: Any, X: Any
) -> Any:  # products of players before `rest` hide the sum from the trace
    return rest(
        params, jax.lax.cond(X[0, 0] < 1e30, first, lambda p, X: first(p, X) * 2, params, X)
    )


def host(X: Any) -> np.ndarray:
    X = np.asarray(X, np.float64).reshape(-1, P, PER)
    each = np.tanh(np.einsum("rpc,pcd->rpd", X, A.astype(float)) + np.float32(0.3))
    return np.sin(each.sum(axis=1)) @ C.astype(float)


def rows(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, P * PER)).astype(np.float32)


def explained(structure: Any, X: Any, background: Any, f: Any = model, **options: Any) -> Any:
    options = {"players": PLAYERS} | options
    return xj.Explainer(xj.as_model(f, A, structure=structure), background, **options)(X)


SPLIT = xj.Split(first, rest)


@pytest.mark.slow
@pytest.mark.parametrize("B", [1, 7])
def test_exact_values_are_those_of_the_definition(B: int) -> None:
    X, background = rows(1, 5), rows(2, B)
    got = explained(SPLIT, X, background)
    assert got.stats["structure"] == "split"
    groups = [[PER * p, PER * p + 1] for p in range(P)]
    weight = oracles.shapley_weight(P)
    values, base, _ = oracles.explain(host, X, background, weight, groups)
    np.testing.assert_allclose(got.values, values, **CLOSE)
    np.testing.assert_allclose(got.base_values, base, **CLOSE)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["kernel", "permutation"])
def test_sampled_values_are_those_of_whole_rows(estimator: str) -> None:
    X, background = rows(1, 5), rows(2, 6)
    options: Any = {"estimator": estimator, "budget": 40}
    got = explained(SPLIT, X, background, **options)
    wanted = explained("plain", X, background, **options)
    assert (got.stats["structure"], wanted.stats["structure"]) == ("split", None)
    np.testing.assert_allclose(got.values, wanted.values, **CLOSE)


@pytest.mark.slow
def test_an_output_is_selected_and_params_are_new() -> None:
    X, background = rows(1, 3), rows(2, 5)
    one = xj.as_model(model, A, structure=SPLIT, output=1).replace(params=-A)
    other = xj.as_model(model, -A, structure="plain", output=1)
    got, wanted = (xj.Explainer(m, background, players=PLAYERS)(X) for m in (one, other))
    assert got.stats["structure"] == "split" and got.values.shape == (3, P)
    np.testing.assert_allclose(got.values, wanted.values, **CLOSE)


@pytest.mark.slow
def test_bits_do_not_depend_on_the_other_instances() -> None:
    X, background = rows(1, 21), rows(2, 5)
    for options in ({}, {"estimator": "kernel", "budget": 40}):
        explainer = xj.Explainer(
            xj.as_model(model, A, structure=SPLIT), background, players=PLAYERS, **options
        )
        whole, alone = explainer(X), explainer(X[7:8])
        assert alone.values.tobytes() == whole.values[7:8].tobytes()


def coupled(params: Any, X: Any) -> Any:
    """As `first`, and a product of two players."""
    return first(params, X).at[:, 0, 0].add(X[:, 0] * X[:, 4])


def seldom(params: Any, X: Any) -> Any:
    """The same where a row's first column is large, as it is in no probe row."""
    large = (jnp.abs(X[:, 0]) > 50).astype(X.dtype)
    return first(params, X).at[:, 0, 0].add(large * X[:, 4])


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["exact", "kernel"])
def test_a_first_that_mixes_players_is_refused(estimator: str) -> None:
    def f(params: Any, X: Any) -> Any:
        return rest(params, coupled(params, X))

    options: Any = {} if estimator == "exact" else {"estimator": "kernel", "budget": 40}
    with pytest.raises(xj.InputError, match="no sum over the players"):
        explained(xj.Split(coupled, rest), rows(1, 4), rows(2, 5), f, **options)


@pytest.mark.slow
def test_columns_of_one_player_may_be_mixed_but_not_those_of_two() -> None:
    X, background = rows(1, 4), rows(2, 5)
    assert explained(SPLIT, X, background).stats["structure"] == "split"
    with pytest.raises(xj.InputError, match=r"no sum over the players.*players="):
        explained(SPLIT, X, background, players=None)


@pytest.mark.slow
def test_a_row_where_players_mix_is_found_among_others() -> None:
    def f(params: Any, X: Any) -> Any:
        return rest(params, seldom(params, X))

    X, background = rows(1, 200), rows(2, 5)
    X[150:, 0] = 60.0  # behind those that the probe sees
    with pytest.raises(xj.InputError, match="no sum over the players"):
        explained(xj.Split(seldom, rest), X, background, f)


def test_other_rests_and_shapes_are_refused() -> None:
    X, background = rows(1, 4), rows(2, 5)
    with pytest.raises(xj.InputError, match="rest.first.X.. differs"):
        explained(xj.Split(first, lambda p, h: rest(p, h) * 1.01), X, background)
    with pytest.raises(xj.InputError, match=r"must return one array \[R, ...\]"):
        explained(xj.Split(lambda p, X: first(p, X)[:3], rest), X, background)
    with pytest.raises(xj.InputTypeError, match="must be a xaijax.FirstLayer, a xaijax.Split"):
        xj.as_model(model, A, structure=(first, rest))  # pyright: ignore


def test_a_first_that_is_not_finite_at_zeros_is_refused() -> None:
    def logs(params: Any, X: Any) -> Any:
        return first(params, jnp.log(X))

    def f(params: Any, X: Any) -> Any:
        return rest(params, logs(params, X))

    X, background = np.abs(rows(1, 4)) + 0.1, np.abs(rows(2, 5)) + 0.1
    with pytest.raises(xj.InputError, match="zeros"):
        explained(xj.Split(logs, rest), X, background, f)


@pytest.mark.slow
def test_tokens() -> None:
    """What has no structure of its own: a table of tokens, then a network for each word."""
    table = jnp.asarray(np.random.default_rng(3).normal(size=(50, D)), jnp.float32)

    def words(X: Any) -> Any:
        return jnp.tanh(table[X.astype(int)] @ C @ C.T).sum(axis=1)

    X, background = (np.random.default_rng(n).integers(0, 50, (n, 8)) for n in (3, 4))
    split = xj.Split(words, lambda h: jnp.tanh(h).sum(axis=1))
    models = [
        xj.as_model(lambda X: jnp.tanh(words(X)).sum(axis=1), structure=s) for s in (split, "plain")
    ]
    got, wanted = (xj.Explainer(m, background)(X) for m in models)
    assert got.stats["structure"] == "split"
    np.testing.assert_allclose(got.values, wanted.values, **CLOSE)


@pytest.mark.slow
def test_the_same_functions_declared_again_compile_nothing() -> None:
    X = rows(5, 3)
    explained(xj.Split(first, rest), X, rows(6, 7))
    again = explained(xj.Split(first, rest), X, rows(6, 7))
    assert again.stats["structure"] == "split" and again.stats["compile_seconds"] == 0


@pytest.mark.slow
def test_a_split_that_spares_little_is_used_since_it_is_declared() -> None:
    W = np.random.default_rng(7).normal(size=(D, 256)).astype(np.float32)
    V = np.random.default_rng(8).normal(size=(256, 256)).astype(np.float32) / 16

    def large(params: Any, hidden: Any) -> Any:
        return jnp.tanh(jnp.tanh(hidden.reshape(len(hidden), D) @ W) @ V).sum(axis=1)

    def whole(params: Any, X: Any) -> Any:
        return large(params, first(params, X))

    found = explained(xj.Split(first, large), rows(5, 2), rows(6, 7), whole)
    assert found.stats["structure"] == "split"


def test_every_product_of_a_declaration_has_the_models_precision() -> None:
    """By the trace: on a GPU another one would multiply in TF32."""
    declared = xj.as_model(model, A, structure=SPLIT).structure
    shaped = declared.shaped(A, rows(5, 2), "model")
    few = jax.ShapeDtypeStruct((4, P * PER), jnp.float32)
    text = str(jax.make_jaxpr(shaped.first)(A, few))
    assert "dot_general" in text and text.count("HIGHEST") >= 2 * text.count("dot_general")


def test_what_is_no_function_or_fails_is_named() -> None:
    three: Any = 3
    with pytest.raises(xj.InputTypeError, match="first must be a function, got int"):
        explained(xj.Split(three, rest), rows(5, 2), rows(6, 7))
    with pytest.raises(TypeError) as caught:
        explained(xj.Split(lambda p, X: X @ np.ones((3, 2)), rest), rows(5, 2), rows(6, 7))
    assert "first of the xaijax.Split" in "".join(caught.value.__notes__)
