"""Semivalue kernels against the oracle's definition, in float64 and in float32."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import oracles
import pytest

from xaijax.players.index import (
    banzhaf_weights,
    shapley_weights,
    size_limited_weights,
)
from xaijax_kernels.games import semivalues as indices
from xaijax_kernels.games import semivalues as interactions

WEIGHTS = {
    "shapley": shapley_weights,
    "banzhaf": banzhaf_weights,
    "size <= 1": lambda P: size_limited_weights(P, min(1, P - 1)),
    "uneven": lambda P: np.linspace(1.0, 0.1, P) ** 2,
}


def random_table(P: int, K: int = 1, N: int = 1) -> np.ndarray:
    return np.random.default_rng(P).normal(size=(N, 1 << P, K))


def as_game(table: np.ndarray) -> dict:
    """The oracle's form of one instance's table [2^P, K]."""
    P = len(table).bit_length() - 1
    return {frozenset(i for i in range(P) if mask >> i & 1): table[mask] for mask in range(1 << P)}


@pytest.mark.parametrize("name", list(WEIGHTS))
@pytest.mark.parametrize("P", [1, 2, 3, 5, 7])
def test_transform_and_matrix_are_the_definition(P, name):
    p = WEIGHTS[name](P)
    table = random_table(P, K=2, N=3)
    expected = np.stack([oracles.semivalue(as_game(t), P, lambda s: p[s]) for t in table])
    # 2^P terms of size about 1 with weights of total 2: rounding stays under 2^P 2^-52.
    bound = 2.0 ** (P - 52) * 16
    np.testing.assert_allclose(indices.semivalue(table, p), expected, rtol=0, atol=bound)
    matrix = interactions.subset_matrix([p], P)
    by_matrix = np.einsum("nck,cj->njk", table, matrix)
    np.testing.assert_allclose(by_matrix, expected, rtol=0, atol=bound)
    on_device = indices.semivalue(jnp.asarray(table, jnp.float32), p)
    assert on_device.dtype == jnp.float32
    np.testing.assert_allclose(on_device, expected, rtol=0, atol=bound * 2.0**29)


@pytest.mark.parametrize("name", list(WEIGHTS))
@pytest.mark.parametrize("P, low", [(3, 2), (5, 2), (6, 5)])
def test_pieces_add_up_to_the_whole(P, low, name):
    p = WEIGHTS[name](P)
    table = random_table(P)[0, :, 0]
    matrices = interactions.split_matrices([p], P, low)
    assert matrices.shape == (P - low + 1, 1 << low, low + 2)
    phi = np.zeros(P)
    for high in range(1 << (P - low)):
        sums = table[high << low : (high + 1) << low] @ matrices[high.bit_count()]
        phi[:low] += sums[:low]
        for j in range(P - low):
            phi[low + j] += sums[low] if high >> j & 1 else -sums[low + 1]
    expected = oracles.semivalue(as_game(table), P, lambda s: p[s])
    np.testing.assert_allclose(phi, expected, rtol=0, atol=2.0 ** (P - 48))


@pytest.mark.parametrize("name", list(WEIGHTS))
@pytest.mark.parametrize("P, k", [(4, 4), (5, 3), (6, 1), (6, 0)])
def test_induced_weights_are_those_of_the_game_with_null_players(P, k, name):
    """A game on k players, blown up with P - k players that change nothing, has the same values."""
    p = WEIGHTS[name](P)
    small = random_table(k)[0, :, 0]
    blown_up = {
        frozenset(S): small[sum(1 << i for i in S if i < k)]
        for size in range(P + 1)
        for S in itertools.combinations(range(P), size)
    }
    expected = oracles.semivalue(blown_up, P, lambda s: p[s])
    induced = indices.induced_weights(p, k)
    assert induced.shape == (k,)
    if k:
        got = interactions.subset_matrix([induced], k).T @ small
        np.testing.assert_allclose(got, expected[:k], rtol=0, atol=2.0 ** (P - 48))
    assert np.abs(expected[k:]).max(initial=0) < 1e-14  # the null players, in the oracle


@pytest.mark.parametrize("P, k", [(5, 2), (30, 24), (64, 24)])
def test_shapley_and_banzhaf_induce_themselves(P, k):
    """A property of the two indices (and not of size-limited weights, the last line)."""
    for weights in (shapley_weights, banzhaf_weights):
        np.testing.assert_allclose(indices.induced_weights(weights(P), k), weights(k), rtol=1e-12)
    limited = indices.induced_weights(size_limited_weights(P, 1), k)
    assert not np.allclose(limited, size_limited_weights(k, 1))


def test_size_limited_is_shapley_at_its_largest_and_v_of_i_at_its_smallest():
    np.testing.assert_allclose(size_limited_weights(5, 4), shapley_weights(5), rtol=1e-15)
    assert size_limited_weights(5, 0).tolist() == [1, 0, 0, 0, 0]
    printed = size_limited_weights(5, 2, normalised=False)
    np.testing.assert_allclose(printed, 3 * size_limited_weights(5, 2), rtol=1e-15)


def test_majority_of_four_in_the_reading_of_the_federated_paper():
    """Banzhaf 0.375 each (sum 1.5), Shapley 0.25: majority of four players needs three."""
    sizes = indices.sizes(4)
    table = (sizes >= 3).astype(float)[None, :, None]
    np.testing.assert_allclose(
        indices.semivalue(table, banzhaf_weights(4))[0, :, 0], 0.375, rtol=1e-15
    )
    np.testing.assert_allclose(
        indices.semivalue(table, shapley_weights(4))[0, :, 0], 0.25, rtol=1e-15
    )
