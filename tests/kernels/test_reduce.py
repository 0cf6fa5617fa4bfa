"""Sums of pairs of several sizes by one program: each pair's own, whatever stands beside it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xaijax_kernels.engine.reduce import (
    block_of,
    block_weights,
    compensated_at_once,
    reduce_pairs,
)

pytestmark = pytest.mark.usefixtures("strict_numerics")

ROWS, TILES, GROUP, K, SLOT = 256, 3, 2, 2, 3
BITS = range(ROWS.bit_length())  # k of all pairs that fit a tile; below SLOT they fill a slot up


def reduced(values: np.ndarray, k: int, matrix: np.ndarray) -> np.ndarray:
    """As the loop asks it: [pairs, K, k + 3]."""
    low, parts, level = block_of(k, SLOT, ROWS)
    width = low + 2
    weights = jnp.asarray(block_weights(matrix, parts, level, width), jnp.float32)
    last = (1 << min(k, low)) - 1
    program = jax.jit(reduce_pairs, static_argnames="group")
    sums = program(jnp.asarray(values), weights, jnp.int32(level), jnp.int32(last), group=GROUP)
    own = np.asarray(sums)[:, :, :: 1 << level]
    own = own.reshape(-1, *own.shape[3:])
    return np.concatenate([own[..., :k], own[..., width:]], axis=-1)


def problem(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Values [T, R, K], and the matrix of pairs of k players."""
    rng = np.random.default_rng(k)
    values = rng.normal(size=(TILES, ROWS, K)).astype(np.float32) + 3
    matrix = np.zeros((1 << max(k, SLOT), k))
    matrix[: 1 << k] = rng.normal(size=(1 << k, k))
    return values, matrix


@pytest.mark.parametrize("k", BITS)
def test_sums_of_pairs(k: int) -> None:
    values, matrix = problem(k)
    got = reduced(values, k, matrix)
    pairs = values.astype(np.float64).reshape(-1, len(matrix), K)
    assert len(got) == len(pairs)
    for sums, v in zip(got, pairs, strict=True):
        change = v - v[0]
        # The n terms of a sum, each rounded with its change, and n additions (Higham 2002, 4.2).
        size = np.abs(matrix).T @ np.abs(change) + np.abs(v).max()
        wanted = matrix.T @ change
        assert (np.abs(sums[:, :k].T - wanted) <= (len(matrix) + 4) * 2.0**-24 * size[:k]).all()
        np.testing.assert_array_equal(sums[:, k], v[0])
        np.testing.assert_array_equal(sums[:, k + 1], v[(1 << k) - 1])
        np.testing.assert_allclose(sums[:, k + 2], np.abs(change).max(axis=0), rtol=2.0**-22)


@pytest.mark.parametrize("k", BITS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_pair_does_not_see_what_stands_beside_it(k: int, bad: float) -> None:
    """Pairs share a block; a product with zeros would carry what is not finite into the next."""
    values, matrix = problem(k)
    alone = reduced(values, k, matrix)
    spoilt = values.reshape(-1, len(matrix), K).copy()
    spoilt[::2] = bad
    got = reduced(spoilt.reshape(values.shape), k, matrix)
    np.testing.assert_array_equal(got[1::2], alone[1::2])


def test_three_sizes_share_a_program() -> None:
    shapes = {k: block_of(k, 4, 1 << 14)[:2] for k in range(15)}
    assert [shapes[k][0] for k in range(15)] == [4] * 7 + [7] * 3 + [10] * 3 + [13] * 2
    assert {parts for _, parts in shapes.values()} == {4, 2}  # 2^14 rows are two of 2^13


def test_sums_at_once_carry_twice_the_digits() -> None:
    """A sum of large terms that cancel: float32 alone would lose the small ones."""
    rng = np.random.default_rng(0)
    large = rng.normal(size=(3, 50, 2)).astype(np.float32) * 2**20
    terms = np.concatenate([large, rng.normal(size=(3, 31, 2)).astype(np.float32), -large], axis=1)
    good = np.ones(terms.shape, bool)
    good[1, 7, 0] = False
    high, low, bad = np.asarray(compensated_at_once(jnp.asarray(terms), jnp.asarray(good), axis=1))
    wanted = terms.astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(high.astype(np.float64) + low, wanted, rtol=1e-6)
    assert np.abs(high - wanted).max() > 1e-3
    assert bad.tolist() == [[0, 0], [1, 0], [0, 0]]
