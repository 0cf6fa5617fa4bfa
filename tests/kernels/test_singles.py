"""Each player replaced by itself, against the definition in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from often import some_slow
from structured_kernels import boxes, dense_layer, gaussians

from xaijax_kernels.structures import singles
from xaijax_kernels.structures.crossed import INSTANCES, value_table
from xaijax_kernels.structures.singles import single_means
from xaijax_kernels.structures.sums import WHOLE_ROWS

P, VALUES_OF_A_PLAYER, VALUES = 3, 20, 16  # two blocks of values each, as `crossed.py` takes them
L, H = 11, 2
RNG = np.random.default_rng(0)
GRID = np.sort(RNG.normal(size=(P, VALUES_OF_A_PLAYER)), axis=1).astype(np.float32)
X = RNG.integers(0, VALUES_OF_A_PLAYER, (2 * INSTANCES, P))
DONORS = RNG.integers(0, VALUES_OF_A_PLAYER - 5, (100, P))  # some values are of instances alone
W, b = RNG.normal(size=(P, H)), RNG.normal(size=H)
CENTRES, A, c = RNG.normal(size=(L, P)), RNG.normal(size=(L, H)), RNG.normal(size=H)
LOW = -np.abs(RNG.normal(size=(L, P)))
HIGH = LOW + 1.5

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
    """The mean of f with player p of a donor, less 2 f(x), [N, P, H]."""
    own, means = np.tanh(hidden(values_of(X).astype(float))), np.zeros((len(X), P, H))
    for p in range(P):
        for donor in DONORS:
            replaced = X.copy()
            replaced[:, p] = donor[p]
            answers = np.tanh(hidden(values_of(replaced).astype(float)))
            means[:, p] += change(answers, own) / len(DONORS)
    return means


def asked(
    name: str, together: int, players: list[int], score: Any = change, N: int = len(X)
) -> tuple[np.ndarray, ...]:
    of, params, _ = LAYERS[name]
    codes = np.zeros((WHOLE_ROWS, P), np.float32)
    own = np.zeros((WHOLE_ROWS, P), bool)
    for p in range(P):
        here = p * VALUES_OF_A_PLAYER + np.arange(VALUES_OF_A_PLAYER)
        codes[here, p], own[here, p] = GRID[p], True
    table = value_table(of, params, jnp.asarray(codes), jnp.asarray(own))
    blocks = []
    for p in players:
        count = np.bincount(DONORS[:, p], minlength=2 * VALUES) / len(DONORS)
        count = count.astype(np.float32).reshape(2, VALUES)
        place = p * VALUES_OF_A_PLAYER + np.arange(2 * VALUES).reshape(2, VALUES)
        blocks += list(zip([p, p], place, count, strict=True))
    blocks += [(players[-1], blocks[-1][1], np.zeros(VALUES))] * (-len(blocks) % together)
    player, place, weight = (np.array(one) for one in zip(*blocks, strict=True))
    steps = (-1, together)
    run = partial(single_means, of, lambda params, h: jnp.tanh(h), lambda params, h: jnp.tanh(h))
    x = (X[:N] + np.arange(P) * VALUES_OF_A_PLAYER).astype(np.int32)
    found = run(
        score,
        jnp.isfinite,
        H,
        params,
        table,
        jnp.asarray(x),
        jnp.asarray(player.reshape(steps), "int32"),
        jnp.asarray(place.reshape(*steps, VALUES), "int32"),
        jnp.asarray(weight.reshape(*steps, VALUES), "float32"),
    )
    return tuple(np.asarray(one) for one in found)


@pytest.mark.parametrize("together", [1, 4])  # blocks of values of a step; the last is filled up
@pytest.mark.parametrize("name", some_slow(LAYERS, 3))
def test_means_are_those_of_the_definition(
    name: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(singles, "TERMS", 4)  # of 11: the last ones overlap
    own, means, bad = asked(name, together, [0, 1, 2])
    assert bad == 0
    hidden = LAYERS[name][2]
    # Some ten roundings of float32, of sums of a size of about ten.
    np.testing.assert_allclose(own, -np.tanh(hidden(values_of(X).astype(float))), rtol=0, atol=1e-5)
    np.testing.assert_allclose(means, means_by_definition(hidden), rtol=0, atol=1e-5)


def test_a_player_that_is_not_asked_keeps_the_score_of_x() -> None:
    own, means, _ = asked("dense", 1, [1])
    np.testing.assert_array_equal(means[:, [0, 2]], np.repeat(own[:, None], 2, axis=1))
    assert (means[:, 1] != own).all()


@pytest.mark.parametrize("name", some_slow(LAYERS, 3))
def test_an_instance_has_the_same_bits_beside_any_others(name: str) -> None:
    few, many = (asked(name, 2, [0, 1, 2], N=n) for n in (INSTANCES, 2 * INSTANCES))
    for a, b in zip(few[:2], many[:2], strict=True):
        np.testing.assert_array_equal(a, b[:INSTANCES])


@pytest.mark.slow
def test_a_bad_score_is_told_of_a_hybrid_and_of_x_itself() -> None:
    hidden = LAYERS["dense"][2]
    own = np.tanh(hidden(values_of(X).astype(float)))
    top = float(own.max()) + 1e-6

    def above(answers: Any, own: Any) -> Any:  # not of any x, but of some hybrids
        return jnp.where(answers > top, jnp.nan, answers)

    def of_x(answers: Any, own: Any) -> Any:
        return jnp.where(answers == own.max(), jnp.inf, answers)

    assert asked("dense", 1, [0, 1, 2], above)[2] > 0
    assert asked("dense", 1, [0], of_x)[2] > 0
