"""Sums of pairs of several sizes by one program: each pair's own, whatever stands beside it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xaijax_kernels.engine.reduce import (
    LEVELS,
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
    width = low + LEVELS - 1
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


def test_four_sizes_share_a_program() -> None:
    shapes = {k: block_of(k, 4, 1 << 14)[:2] for k in range(15)}
    assert [shapes[k][0] for k in range(15)] == [4] * 8 + [8] * 4 + [12] * 3
    assert {parts for _, parts in shapes.values()} == {8, 4}  # 2^14 rows are four of 2^12


def in_halves(given: Any, start: Any, add: Any, axes: tuple[int, ...]) -> Any:
    """`jax.lax.reduce` as a device with many cores takes it: halves, one half, are put together."""
    (axis,) = axes
    count = given[0].shape[axis]
    if count == 1:
        return add(start, [one.squeeze(axis) for one in given])
    parts = [[jax.lax.slice_in_dim(a, lo, hi, axis=axis) for a in given]
             for lo, hi in ((0, count // 2), (count // 2, count))]  # fmt: skip
    return add(*(in_halves(part, start, add, axes) for part in parts))


@pytest.mark.slow
@pytest.mark.parametrize("order", ["as it comes", "in halves"])
def test_sums_at_once_carry_twice_the_digits(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that cancel, 1e7 times as large as their sum: float32 alone would keep no digit. In
    halves a sum that is added has lost something too: without `+ lost` this fails.
    """
    if order == "in halves":
        monkeypatch.setattr(jax.lax, "reduce", in_halves)
    rng = np.random.default_rng(0)
    large = rng.normal(size=(24, 7)).astype(np.float32) * np.float32(1e7)
    terms = np.concatenate([large, -large, rng.normal(size=(80, 7)).astype(np.float32)])
    terms = rng.permuted(terms, axis=0)
    sums = jax.jit(lambda terms: compensated_at_once(terms.T, 1, terms.T, -terms.T))
    high, low, top, bottom = (np.asarray(a, float) for a in sums(terms))
    exact = terms.astype(float).sum(axis=0)
    size = np.abs(terms).sum(axis=0, dtype=float)
    eps = 2.0**-24  # of each loss; these are added up without what they lose
    assert (np.abs(high + low - exact) <= len(terms) * eps**2 * size + eps * np.abs(exact)).all()
    assert (np.abs(high - exact) > 1e-3).any()  # what the sum alone gives
    np.testing.assert_array_equal(top, terms.max(axis=0))
    np.testing.assert_array_equal(bottom, -terms.max(axis=0))
    assert len(compensated_at_once(jnp.asarray(terms), 0, jnp.asarray(terms))) == 3
