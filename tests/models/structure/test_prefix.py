"""`Prefix`: values of a fold by the tree of its prefixes equal those of full rows.

A saturating recurrence, written twice: in JAX, and in NumPy for the oracle.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj

W = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
U = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)


def init(params: Any, R: int) -> Any:
    return {"h": jnp.zeros((R, 4)), "n": jnp.zeros(R)}


def step(params: Any, state: Any, items: Any) -> Any:
    W, U = params
    for t in range(items.shape[1]):
        state = {"h": jnp.tanh(state["h"] @ W + items[:, t] @ U), "n": state["n"] + 1}
    return state


def read(params: Any, state: Any) -> Any:
    return state["h"][:, :2] * jnp.sqrt(state["n"])[:, None]


def f(params: Any, X: Any) -> Any:
    return read(params, step(params, init(params, len(X)), X))


def truth(x: np.ndarray, donors: np.ndarray, groups: list[list[int]]) -> np.ndarray:
    """Shapley values [P, 2] by all subsets, in float64."""

    def value(S: frozenset[int]) -> np.ndarray:
        total = np.zeros(2)
        for donor in donors.astype(float):
            row = donor.copy()
            for p in S:
                row[groups[p]] = x[groups[p]]
            h = np.zeros(4)
            for item in row:
                h = np.tanh(h @ W.astype(float) + item @ U.astype(float))
            total += h[:2] * math.sqrt(len(row)) / len(donors)
        return total

    P = len(groups)
    table = {
        S: value(S)
        for r in range(P + 1)
        for S in map(frozenset, itertools.combinations(range(P), r))
    }
    out = np.zeros((P, 2))
    for i in range(P):
        for S, v in table.items():
            if i not in S:
                share = math.factorial(len(S)) * math.factorial(P - len(S) - 1) / math.factorial(P)
                out[i] += share * (table[S | {i}] - v)
    return out


FOLD = xj.Prefix(init, step, read)
ROUNDING = 1e-5  # a hundred roundings of numbers of size 1


@pytest.mark.parametrize(
    ("T", "groups", "donors"),
    [
        (7, None, 2),
        pytest.param(7, [[0, 1], [2], [3, 4, 5], [6]], 1, marks=pytest.mark.slow),
        pytest.param(7, [[6], [4, 5], [2, 3], [1], [0]], 5, marks=pytest.mark.slow),
    ],
    ids=["items", "groups", "backwards, five donors"],
)
def test_values_equal_brute_force(T: int, groups: Any, donors: int) -> None:
    rng = np.random.default_rng(3)
    X, B = rng.normal(size=(3, T, 2)), rng.normal(size=(donors, T, 2))
    X[1, 2], X[2, 4:6] = B[0, 2], B[0, 4:6]  # players that agree with a donor
    X, B = X.astype(np.float32), B.astype(np.float32)
    own = [[t] for t in range(T)] if groups is None else groups
    numbers = np.zeros((T, 2), int)
    for p, items in enumerate(own):
        numbers[items] = p
    model = xj.as_model(f, (W, U), structure=FOLD)
    found = xj.Explainer(model, B, numbers, path="tiled")(X)
    assert found.stats["structure"] == "prefixes"
    for n in range(3):
        np.testing.assert_allclose(found.values[n], truth(X[n], B, own), atol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("link", ["identity", "logit"])
def test_more_players_than_bits_of_a_slot(link: Any) -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(2, 14, 2)).astype(np.float32)
    numbers = np.arange(14)[:, None].repeat(2, axis=1)

    def chance(params: Any, X: Any) -> Any:
        return jax.nn.sigmoid(f(params, X)[:, 0])

    fold = xj.Prefix(init, step, lambda p, state: jax.nn.sigmoid(read(p, state)[:, 0]))
    B = np.zeros((1, 14, 2), np.float32)
    both = [
        xj.Explainer(xj.as_model(chance, (W, U), structure=s), B, numbers, link=link, path="tiled")
        for s in (fold, "plain")
    ]
    one, other = (explainer(X) for explainer in both)
    assert (one.stats["structure"], other.stats["structure"]) == ("prefixes", None)
    np.testing.assert_allclose(one.values, other.values, atol=ROUNDING)


def test_wrong_folds_and_players_are_refused() -> None:
    B, X = np.zeros((1, 3, 2), np.float32), np.ones((1, 3, 2), np.float32)

    def last(params: Any, state: Any) -> Any:
        return read(params, state) + 1

    def explained(fold: Any, numbers: Any) -> None:
        model = xj.as_model(f, (W, U), structure=fold)
        xj.Explainer(model, B, numbers, path="tiled")(X)

    items = np.arange(3)[:, None].repeat(2, axis=1)
    with pytest.raises(xj.InputError, match="the fold of init, step and read differs"):
        explained(xj.Prefix(init, step, last), items)
    for numbers in (np.arange(6).reshape(3, 2), np.array([[0, 0], [1, 1], [0, 0]])):
        with pytest.raises(xj.InputError, match="whole items"):
            explained(FOLD, numbers)
    with pytest.raises(xj.InputTypeError, match="step"):
        xj.Prefix(init, None, read)  # type: ignore[arg-type]
