"""Players and baselines that each instance has for itself: QII by its definition, row by row."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

import xaijax as xj

RNG = np.random.default_rng(5)
SHAPE, P = (2, 3), 3
IMAGES = RNG.normal(size=(4, *SHAPE)).astype("f4")
POOL = RNG.normal(size=(3, *SHAPE)).astype("f4")
# The last image lacks player 2; -1 is never replaced.
REGIONS = np.array(
    [
        [[0, 0, 1], [2, 2, 1]],
        [[2, 1, 0], [2, 1, 0]],
        [[-1, 0, 0], [1, 2, 2]],
        [[0, 0, 0], [1, 1, -1]],
    ]
)
WEIGHTS = RNG.normal(size=SHAPE).astype("f4")


def score(z):
    return (z * WEIGHTS).sum(axis=(1, 2)) * z[:, 0, 0] + z[:, 1, 2] ** 2


def darker(z):
    return z * 0.25


def influence(replaced, x, regions, donors):
    """f(x) less the mean answer where the players replaced have the donors' entries."""
    swapped = np.isin(regions, np.flatnonzero(replaced))
    rows = np.where(swapped, donors, x).astype("f8")
    return float(score(x[None].astype("f8"))[0] - score(rows).mean())


def shapley(x, regions, donors):
    found = np.zeros(P)
    for order in itertools.permutations(range(P)):
        replaced, before = np.zeros(P, bool), 0.0
        for i in order:
            replaced[i] = True
            now = influence(replaced, x, regions, donors)
            found[i] += (now - before) / math.factorial(P)
            before = now
    return found


@pytest.fixture(params=["jax", "host"])
def model(request):
    return xj.as_model(score, backend=request.param)


def asked(model, **options):
    return xj.QII(
        model, IMAGES, quantity="individual", outcome="score", bounds=(-99, 99), **options
    )


@pytest.mark.parametrize(
    "own, pool",
    [(True, POOL), (True, xj.Baseline(darker)), (False, xj.Baseline(darker))],
    ids=["regions of each", "regions and a row of each", "a row of each"],
)
def test_values_are_those_of_the_definition(model, own, pool):
    regions = REGIONS if own else np.broadcast_to(REGIONS[0], REGIONS.shape)
    qii = asked(model, players=REGIONS if own else REGIONS[0], pool=pool)
    found = qii.explain()
    donors = [POOL if pool is POOL else darker(x)[None] for x in IMAGES]
    expected = np.stack(list(map(shapley, IMAGES, regions, donors)))
    # Some 2 x 6 products of numbers below 4 in float32, three donors: 2^-24 * 16 * 12 with room.
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=2e-5)
    if own:
        np.testing.assert_array_equal(found.present[3], [True, True, False])
        assert found.values[3, 2] == 0
    table = qii.game()
    one = influence(np.array([True, False, True]), IMAGES[1], regions[1], donors[1])
    np.testing.assert_allclose(table.values[1, 0b101], one, rtol=0, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["fresh", "fixed-pool"])
def test_sampled_values_are_near_the_exact_ones(model, scheme):
    exact = asked(model, players=REGIONS, pool=POOL).explain()
    drawn = asked(model, players=REGIONS, pool=POOL, samples=600, scheme=scheme, seed=1).explain()
    assert drawn.values[3, 2] == 0
    near = np.abs(drawn.values - exact.values)
    # 12 values; 8 standard errors of means of 600 draws: normal tails below 1e-14 each, and
    # twice as much for errors that are themselves estimated. Wrong regions are 20 errors off.
    assert (near <= 8 * drawn.std_errors + 1e-5).all()


def test_rows_of_another_number_are_refused(model):
    qii = asked(model, players=REGIONS, pool=POOL)
    with pytest.raises(xj.InputError, match="entries of 4 instances, but X has 3 rows"):
        qii.explain(IMAGES[:3])
    with pytest.raises(xj.InputError, match="needs columns that are players in all rows"):
        qii.prior()


@pytest.mark.parametrize("options", [{"players": REGIONS}, {"pool": xj.Baseline(darker)}])
def test_no_private_copy(options):
    model = xj.as_model(partial(score))
    found = asked(model, **options).explain(IMAGES + 1)
    with pytest.raises(xj.XaiError, match="no bound is proved for these"):
        xj.privacy.release(found, epsilon=1.0)


MEMBERS = np.array([True, False, True, False])


@pytest.mark.parametrize(
    "quantity, signed",
    [("group", False), ("disparity", False), ("disparity", True), ("ratio", False)],
)
@pytest.mark.parametrize(
    "options",
    [{"players": REGIONS, "pool": POOL}, {"players": REGIONS[2], "pool": xj.Baseline(darker)}],
    ids=["regions of each", "a row of each"],
)
def test_with_all_replaced_groups_differ_by_what_stays(quantity, signed, options):
    """Entries that are never replaced, and baselines of each row, differ from group to group."""
    model = xj.as_model(lambda z: 1.0 / (1.0 + np.exp(-score(z))), backend="host")
    told = {"quantity": quantity, "outcome": "score", "members": MEMBERS}
    told |= {"signed": True} if signed else {}
    qii = xj.QII(model, IMAGES, **told, **options)
    regions = np.broadcast_to(options["players"], REGIONS.shape)
    rates = []
    for x, own in zip(IMAGES.astype("f8"), regions, strict=True):
        donors = POOL if isinstance(options["pool"], np.ndarray) else darker(x)[None]
        rates.append(1 / (1 + np.exp(-score(np.where(own >= 0, donors, x)))))
    means = np.array([np.mean(one) for one in rates])
    first, second = means[MEMBERS].mean(), means[~MEMBERS].mean()
    wanted = {
        "group": first,
        "disparity": first - second if signed else abs(first - second),
        "ratio": first / second,
    }[quantity]
    found = qii.explain()
    np.testing.assert_allclose(np.ravel(found.base_values), wanted, rtol=0, atol=1e-5)
    everything = qii.game().values.ravel()[-1]
    as_it_is = float(np.ravel(found.base_values)[0] + found.values.sum())
    np.testing.assert_allclose(everything, as_it_is - wanted, rtol=0, atol=1e-5)


def test_a_subsample_has_no_players_of_each_row(model):
    drawn = xj.privacy.subsample(IMAGES, 0.5)
    told = {"quantity": "individual", "outcome": "score", "bounds": (-99, 99)}
    with pytest.raises(xj.InputError, match="a Subsample draws which rows there are"):
        xj.QII(model, drawn, players=REGIONS[:2], **told)
