"""The proxy finder: by how much of the gap goes, whatever the gap's sign and scale."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj

NAMES = ("sex", "job", "weight")
RNG = np.random.default_rng(5)
SEX = RNG.integers(0, 2, 200)
JOB = np.where(RNG.random(200) < 0.9, SEX, 1 - SEX)  # goes with sex in nine rows of ten
ROWS = np.column_stack([SEX, JOB, RNG.integers(0, 2, 200)]).astype(float)
MODEL = xj.as_model(
    lambda r: (r[:, 1] + 0.4 * r[:, 2] > 0.9) * 1, backend="host", output="label", classes=[0, 1],
    feature_names=NAMES,
)  # fmt: skip
KINDS = [
    {"quantity": "disparity"},
    {"quantity": "disparity", "signed": True},
    {"quantity": "ratio"},
]


def gap(kind, means):
    """The absolute gap of the means of the group and of the rest."""
    a, b = means
    return abs(a / b - 1) if kind["quantity"] == "ratio" else abs(a - b)


@pytest.mark.parametrize("worse_off", [True, False])
@pytest.mark.parametrize("kind", KINDS, ids=["absolute", "signed", "ratio"])
def test_the_proxy_comes_first(kind, worse_off):
    members = SEX == 0 if worse_off else SEX == 1
    found = xj.QII(MODEL, ROWS, members=members, **kind).proxies(["sex"])
    assert [one.name for one in found] == ["job", "weight"]
    # The reductions by their definition: every row with every donor's job, or weight.
    means = {}
    for place in (1, 2):
        replaced = np.repeat(ROWS, len(ROWS), axis=0)
        replaced[:, place] = np.tile(ROWS[:, place], len(ROWS))
        each = MODEL.labels(replaced).reshape(len(ROWS), -1).mean(axis=1)
        means[NAMES[place]] = [each[own].mean() for own in (members, ~members)]
    each = MODEL.labels(ROWS)
    before = gap(kind, [each[own].mean() for own in (members, ~members)])
    for one in found:
        # Means of 40,000 zeros and ones, their ratio at most 20.
        assert abs(one.reduction - (before - gap(kind, means[one.name]))) <= 1e-9
    assert found[0].reduction > 0.9 * before
    sign = -1 if worse_off and kind != KINDS[0] else 1
    assert np.sign(found[0].influence) == sign


@pytest.mark.parametrize("kind", KINDS, ids=["absolute", "signed", "ratio"])
@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_the_proxy_comes_first_by_an_index(kind, index):
    """Of the group that is worse off; half of sex and job is job's where either would do."""
    found = xj.QII(MODEL, ROWS, members=SEX == 0, **kind).proxies(["sex"], index=index)
    assert found[0].name == "job" and found[0].reduction > 0


def test_sampled():
    options = {"quantity": "disparity", "members": SEX == 0, "signed": True}
    drawn = xj.QII(MODEL, ROWS, samples=500, **options).proxies(["sex"])
    assert drawn[0].name == "job" and drawn[0].std_error is not None and drawn[0].reduction > 0.5


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"quantity": "rate"}, "proxies are found by quantity='disparity'"),
        ({"members": SEX == 0, "quantity": "disparity", "difference": "l1"}, "is a distance"),
        ({"members": SEX == 0, "quantity": "disparity", "outcome": "proba"}, "no single order"),
    ],
)
def test_what_has_no_order_is_refused_before_the_model_is_asked(options, match):
    def never(r):
        raise AssertionError("the model was asked")

    model = xj.as_model(never, backend="host", output="proba", classes=[0, 1])
    with pytest.raises(xj.InputError, match=match):
        xj.QII(model, ROWS, **options).proxies([0])
