"""Nearest neighbours by blocks against all distances in float64."""

from __future__ import annotations

import jax
import numpy as np
import often
import pytest

from xaijax.models.translations.families.neighbours import Ties
from xaijax_kernels.neighbours import nearest
from xaijax_kernels.sizes import TRAINING

POWERS = [1.0, 2.0, 3.0, float("inf")]


@pytest.mark.slow
@often.product(
    {
        "V, F, k": [(7, 3, 7), (3000, 1, 5), (TRAINING + 5, 12, 3), (5000, 70, 8)],
        "power": POWERS,
    }
)
def test_the_nearest_are_those_of_all_distances(V, F, k, power):
    """Fewer rows than a block, one column, a last part that is filled up, blocks of eight members.

    A broken version that takes padding (rows of zeros) for members fails, since the rows asked
    about lie near 0; so does one that keeps too few blocks to hold the nearest.
    """
    rng = np.random.default_rng(V)
    train = (rng.normal(size=(V, F)) + 0.5).astype(np.float32)
    rows = (0.1 * rng.normal(size=(33, F))).astype(np.float32)
    found, places = jax.jit(nearest, static_argnums=(2, 3))(train, rows, k, power)
    far = np.linalg.norm(rows[:, None].astype(float) - train, ord=power, axis=2)
    # A difference, its power, F sums and the root each round once; log(power) steps within.
    limit = (F + 8) * np.finfo(np.float32).eps * far.max()
    np.testing.assert_allclose(found, np.sort(far, axis=1)[:, :k], atol=limit)
    np.testing.assert_allclose(np.take_along_axis(far, np.asarray(places), 1), found, atol=limit)
    assert all(len(set(own)) == k for own in np.asarray(places).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("power", POWERS)
def test_rows_that_lie_together_far_from_0_are_told_apart(power):
    """The product that orders blocks cancels there; members are measured from differences."""
    rng = np.random.default_rng(1)
    train = np.concatenate([rng.normal(size=(4000, 6)), 1e-2 * rng.normal(size=(40, 6))])
    train = train.astype(np.float32) + np.float32(100)
    rows = train[4000:4010] + np.float32(1e-3)
    found, _ = jax.jit(nearest, static_argnums=(2, 3))(train, rows, 1, power)
    far = np.linalg.norm(rows[:, None].astype(float) - train, ord=power, axis=2).min(axis=1)
    np.testing.assert_allclose(found[:, 0], far, rtol=1e-4)


@pytest.mark.parametrize("power", [0.5, *POWERS])
@pytest.mark.parametrize("F", [1, 4, 40])
def test_rows_whose_next_neighbour_is_as_far_are_ties(power, F):
    """Told by distances in float64; a row between two members, and one that has no distance."""
    rng = np.random.default_rng(F)
    train = rng.integers(0, 3, size=(60, F)) + 1e-3 * rng.normal(size=(60, F))
    train[:2] = [[99.0], [100.0]]
    rows = np.concatenate([rng.normal(size=(50, F)), train[2:12], train[:1] + 0.5, train[:1]])
    rows[-1] = np.nan
    rows = rows.astype(np.float32)
    for k in (1, 3, 59, 60):
        far = np.abs(rows[:, None].astype(float) - train)
        far = far.max(2) if power == np.inf else (far**power).sum(2) ** (1 / power)
        far = np.sort(far, axis=1)
        apart = far[:, k] - far[:, k - 1] if k < 60 else np.full(len(rows), np.inf)
        size = np.fmax(np.abs(rows).max(axis=1), np.abs(train).max())
        wanted = apart <= 4 * F * np.finfo(np.float32).eps * size
        assert wanted[-2] or k != 1
        assert Ties(train, k, power, np.float32)(rows).tolist() == wanted.tolist()
