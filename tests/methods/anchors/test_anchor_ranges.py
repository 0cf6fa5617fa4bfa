"""Draws of a range of bins: from its members only, of all of them, each as often.

Two columns; the first has bins 0 to 3 with 4, 3, 0 and 5 donors in no order. The expectation is
counted here, by hand.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from anchor_cases import X, explainer
from scipy.stats import chi2

from xaijax_kernels.rules.perturbed_rows import PerturbationSpace, Pool, Subjects, perturbed

BINS = np.array([3, 0, 1, 3, 0, 3, 1, 0, 3, 1, 0, 3], np.int32)
B, V, G, DRAWS = len(BINS), 4, 4, 6_000
# Seven ranges, two spaces, two statistics: with this chance of each, a false alarm in 28 x 2e-8.
CHANCE = 2e-8


def pool_by_hand():
    bins = np.stack([BINS, np.zeros(B, np.int32)], axis=1)
    members = np.stack([np.argsort(BINS, kind="stable"), np.arange(B)]).astype(np.int32)
    start = np.array([[0, 4, 7, 7], [0, 12, 12, 12]], np.int32)
    count = np.array([[4, 3, 0, 5], [12, 0, 0, 0]], np.int32)
    donors = np.stack([np.arange(B), 100 + np.arange(B)], axis=1).astype(np.float32)[:, :, None]
    alias = np.tile(np.arange(B, dtype=np.int32), (3, 1))
    listed = np.arange(B, dtype=np.int32)
    return Pool(donors, listed, bins, members, start, count, np.ones((3, B), np.float32), alias)


def alike(counts):
    """Whether counts of equally likely values are plausible, by Pearson's statistic."""
    expected = counts.sum() / len(counts)
    return ((counts - expected) ** 2 / expected).sum() < chi2.isf(CHANCE, len(counts) - 1)


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("ends", [(0, 0), (0, 1), (1, 3), (0, 3), (1, 2), (2, 3), (2, 2)])
def test_members_of_a_range_come_alike_and_no_others(ends, stays):
    """It catches: the last bin's members only, a donor that stays in the first bin only."""
    low, high = np.array([[ends[0], 0]], np.int32), np.array([[ends[1], 0]], np.int32)
    x = np.full((1, 2, 1), -5, np.float32)
    subjects = Subjects(x, low, high, np.zeros((1, 1), np.float32))
    pulls = np.full((G, 6), -1, np.int32)
    pulls[:, 0] = 0
    pulls[:, 1:3] = np.random.default_rng(3).integers(1, 2**31, (G, 2))
    pulls[:, 3], pulls[:, 4] = 0, 0
    draw = jax.jit(perturbed, static_argnums=(0, 4))
    rows = np.asarray(
        draw(PerturbationSpace(2, "bin", stays=stays), pool_by_hand(), subjects, pulls, DRAWS)
    )
    kept, free = rows[..., 0, 0].ravel(), rows[..., 1, 0].ravel().astype(int) - 100
    inside = np.flatnonzero((ends[0] <= BINS) & (ends[1] >= BINS))
    assert alike(np.bincount(free, minlength=B))
    if not len(inside):  # no donor is in the range: x's own value
        assert (kept == -5).all()
        return
    assert set(kept) == set(inside)
    assert alike(np.bincount(kept.astype(int), minlength=B)[inside])
    if stays:  # a donor that is inside keeps its own value
        same = np.isin(free, inside)
        np.testing.assert_array_equal(kept[same], free[same])


@pytest.mark.slow
def test_a_plain_search_draws_what_it_drew_before_there_were_ranges():
    """Written down at the version before: every bit of the hash, as draws and precisions."""
    drawn = explainer(perturbation="row_bin").explain(X, 0.8, beam_size=2, search="kl-lucb")
    assert [rule.samples for rule in drawn] == [8840, 3180, 4880, 3980, 5940]
    assert [rule.precision for rule in drawn] == [0.387, 0.97, 0.9, 0.88, 0.855]
    assert drawn.stats["widened"] == 0 and drawn.provenance["widen"] is False
