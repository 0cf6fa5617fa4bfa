"""A few coalitions crossed with donors, against the definition in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from often import some_slow
from structured_kernels import boxes, dense_layer, gaussians

from xaijax_kernels.sizes import DONORS_OF_CROSSING as BLOCK
from xaijax_kernels.sizes import INSTANCES_OF_CROSSING as INSTANCES
from xaijax_kernels.sizes import WHOLE_ROWS
from xaijax_kernels.structures.crossed import crossed_means, value_table

P, VALUES_OF_A_PLAYER = 3, 20
L, H = 11, 2
RNG = np.random.default_rng(0)
GRID = np.sort(RNG.normal(size=(P, VALUES_OF_A_PLAYER)), axis=1).astype(np.float32)
X = RNG.integers(0, VALUES_OF_A_PLAYER, (2 * INSTANCES, P))
DONORS = RNG.integers(0, VALUES_OF_A_PLAYER - 5, (100, P))  # some values are of instances alone
W, b = RNG.normal(size=(P, H)), RNG.normal(size=H)
CENTRES, A, c = RNG.normal(size=(L, P)), RNG.normal(size=(L, H)), RNG.normal(size=H)
LOW = -np.abs(RNG.normal(size=(L, P)))
HIGH = LOW + 1.5

# Each player replaced by itself, one that is replaced with another, and nothing replaced.
KEPT = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 1]], bool)

Hidden = Callable[[np.ndarray], np.ndarray]


def dense(Z: np.ndarray) -> np.ndarray:
    return Z @ W + b


def sums_of_gaussians(Z: np.ndarray) -> np.ndarray:
    far = ((Z[:, None] - CENTRES) ** 2).sum(axis=2)
    return np.exp(-0.5 * far) @ A + c


def sums_of_leaves(Z: np.ndarray) -> np.ndarray:
    inside = ((Z[:, None] > LOW.astype("float32")) & (Z[:, None] <= HIGH.astype("float32"))).all(2)
    return inside.astype(float) @ A + c


def f32(*arrays: Any) -> tuple[Any, ...]:
    return tuple(jnp.asarray(one, "float32") for one in arrays)


LAYERS: dict[str, tuple[Any, tuple[Any, ...], Hidden]] = {
    "dense": (dense_layer, f32(W, b, np.zeros((H, H))), dense),
    "gaussians": (gaussians, f32(CENTRES, 0.5, A, c), sums_of_gaussians),
    "leaves": (boxes, f32(LOW, HIGH, A, c), sums_of_leaves),
}


def values_of(rows: np.ndarray) -> np.ndarray:
    return np.stack([GRID[p, rows[:, p]] for p in range(P)], axis=1)


def change(answers: Any, own: Any) -> Any:
    return answers - 2 * own


def means_by_definition(hidden: Hidden) -> np.ndarray:
    """The mean of f with the players that are not kept of a donor, less 2 f(x), [N, C, H]."""
    own, means = np.tanh(hidden(values_of(X).astype(float))), np.zeros((len(X), len(KEPT), H))
    for c, kept in enumerate(KEPT):
        for donor in DONORS:
            replaced = np.where(kept, X, donor)
            answers = np.tanh(hidden(values_of(replaced).astype(float)))
            means[:, c] += change(answers, own) / len(DONORS)
    return means


def asked(name: str, score: Any = change, N: int = len(X)) -> tuple[np.ndarray, ...]:
    of, params, _ = LAYERS[name]
    codes = np.zeros((WHOLE_ROWS, P), np.float32)
    own = np.zeros((WHOLE_ROWS, P), bool)
    for p in range(P):
        here = p * VALUES_OF_A_PLAYER + np.arange(VALUES_OF_A_PLAYER)
        codes[here, p], own[here, p] = GRID[p], True
    table = value_table(of, params, jnp.asarray(codes), jnp.asarray(own))
    numbers = (np.arange(P) * VALUES_OF_A_PLAYER).astype(np.int32)
    blocks = -(-len(DONORS) // BLOCK)  # of each coalition; the last is filled up
    filled = 0, blocks * BLOCK - len(DONORS)
    donors = np.pad(DONORS + numbers, (filled, (0, 0)), mode="edge").reshape(blocks, BLOCK, P)
    weights = np.pad(np.full(len(DONORS), 1 / len(DONORS)), filled).reshape(blocks, BLOCK)
    C = len(KEPT)
    run = partial(crossed_means, of, lambda params, h: jnp.tanh(h), lambda params, h: jnp.tanh(h))
    found = run(
        score,
        jnp.isfinite,
        H,
        params,
        table,
        jnp.asarray(X[:N] + numbers, "int32"),
        jnp.asarray(KEPT),
        jnp.repeat(jnp.arange(C, dtype="int32"), blocks),
        jnp.asarray(np.tile(np.arange(blocks) == 0, C)),
        jnp.asarray(np.tile(donors, (C, 1, 1)), "int32"),
        jnp.asarray(np.tile(weights, (C, 1)), "float32"),
    )
    return tuple(np.asarray(one) for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", some_slow(LAYERS, 3))
def test_means_are_those_of_the_definition(name: str) -> None:
    means, bad = asked(name)
    assert bad == 0
    # Some ten roundings of float32, of sums of a size of about ten.
    wanted = means_by_definition(LAYERS[name][2])
    np.testing.assert_allclose(means, wanted, rtol=0, atol=1e-5)


def test_a_coalition_that_keeps_everything_has_the_score_of_x() -> None:
    of_x = -np.tanh(dense(values_of(X).astype(float)))
    np.testing.assert_allclose(asked("dense")[0][:, -1], of_x, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", some_slow(LAYERS, 3))
def test_an_instance_has_the_same_bits_beside_any_others(name: str) -> None:
    few, many = (asked(name, N=n) for n in (INSTANCES, 2 * INSTANCES))
    np.testing.assert_array_equal(few[0], many[0][:INSTANCES])


@pytest.mark.slow
def test_a_bad_score_is_told_of_a_hybrid_and_of_x_itself() -> None:
    hidden = LAYERS["dense"][2]
    own = np.tanh(hidden(values_of(X).astype(float)))
    top = float(own.max()) + 1e-6

    def above(answers: Any, own: Any) -> Any:  # not of any x, but of some hybrids
        return jnp.where(answers > top, jnp.nan, answers)

    def of_x(answers: Any, own: Any) -> Any:
        return jnp.where(answers == own.max(), jnp.inf, answers)

    assert asked("dense", above)[1] > 0
    assert asked("dense", of_x)[1] > 0
