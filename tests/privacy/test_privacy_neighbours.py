"""Copies of two data sets that differ in everything are equal but for the noise.

Where the noise is drawn the files differ in their values; two draws of one value each are alike
with chance 1e-6 at most (scales of 10^5 lattice steps and more), about 2e-5 a run for all cases.
"""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from often import some_slow
from privacy_cases import CHANCES, MEMBERS, MODEL, WIDE, D, disparity

import xaijax as xj
from xaijax.privacy import mechanism

pytest.importorskip("opendp", reason="needs the extra [privacy]")

OTHER = np.tile(np.float32([[0, 1], [1, 1]]), (4, 1))
PUBLIC = D.copy()  # equal to one of the data sets: whose the pool is must not show
WEIGHTS = np.arange(1.0, 9.0)
UNDECLARED = xj.as_model(lambda X: X[:, 0] + 1.0, output="label")
SCORES = xj.as_model(lambda X: 7 * X[:, 0] - 3)
TWO = [np.zeros_like(WIDE), WIDE * 2 + 1]


def sampled(data, **more):
    """A gap of a subsample; of this data set others have other numbers of members."""
    while True:
        sample = xj.privacy.subsample(data, 0.5)
        if sample.of_full(MEMBERS).sum() == 2:  # public, and said: two of each compared are alike
            return disparity(sample, **more)


def of_data(data, **more):
    return xj.QII(MODEL, data, **more).explain()


# (data set -> explanation, two data sets)
KINDS = {
    "disparity": (disparity, (np.zeros_like(D), OTHER)),
    "signed": (lambda data: disparity(data, signed=True), (D, OTHER)),
    "average, Banzhaf": (
        lambda data: xj.QII(MODEL, data, quantity="average").explain(index="banzhaf"),
        (np.zeros_like(D), OTHER),
    ),
    "individual": (
        lambda data: xj.QII(MODEL, data, quantity="individual").unary(D[:2].copy()),
        (D, OTHER),
    ),
    "a pool equal to one of them": (
        lambda data: of_data(data, pool=PUBLIC, quantity="average"),
        (D, OTHER),
    ),
    "a pool of rows of one of them": (
        lambda data: of_data(data, pool=PUBLIC[:5], quantity="average"),
        (D, OTHER),
    ),
    "a constant": (
        lambda data: of_data(data, pool=xj.Baseline(PUBLIC[0]), quantity="rate"),
        (D, OTHER),
    ),
    "a pool that is the data": (
        lambda data: of_data(data, pool=data, quantity="average"),
        (D, OTHER),
    ),
    "weights": (
        lambda data: of_data(data, quantity="average", data_weights=WEIGHTS),
        (D, OTHER),
    ),
    "weights of a pool": (
        lambda data: of_data(
            data, quantity="group", members=MEMBERS, pool=PUBLIC, pool_weights=WEIGHTS
        ),
        (D, OTHER),
    ),
    "sets of limited size": (
        lambda data: xj.QII(MODEL, data, quantity="rate").explain(index=xj.SizeLimited(0)),
        (D, OTHER),
    ),
    "Pr[S]": (
        lambda data: xj.QII(MODEL, data, quantity="rate").explain(index=np.full(4, 0.25)),
        (D[:, [1, 0]], OTHER),
    ),
    "labels that were not declared": (
        lambda data: xj.QII(UNDECLARED, data, quantity="rate").unary(),
        (np.zeros_like(D), OTHER),
    ),
    "scores": (
        lambda data: xj.QII(
            SCORES, data, quantity="rate", outcome="score", bounds=(0.2, 0.7)
        ).explain(),
        (D, OTHER),
    ),
    "chances": (
        lambda data: xj.QII(CHANCES, data, quantity="rate", outcome="proba").unary(),
        TWO,
    ),
    "a distance of chances": (
        lambda data: xj.QII(
            CHANCES, data, quantity="rate", outcome="proba", difference="l2"
        ).explain(),
        TWO,
    ),
    "a subsample": (sampled, (D, OTHER)),
    "a subsample with a pool": (lambda data: sampled(data, pool=PUBLIC[:3]), (D, OTHER)),
}


def parts(private, path):
    private.save(path)
    with zipfile.ZipFile(path) as archive:
        return {one: archive.read(one) for one in archive.namelist()}


def compare(make, worlds, tmp_path, monkeypatch, name):
    for noise in (True, False):
        with monkeypatch.context() as patch:
            if not noise:  # the same numbers in place of noise: nothing else may differ
                patch.setattr(mechanism, "noisy", lambda values, scale: [7] * len(values))
            copies = [xj.privacy.release(make(data), 1.0) for data in worlds]
        first, second = (parts(one, tmp_path / f"{n}.npz") for n, one in enumerate(copies))
        assert first.keys() == second.keys()
        differing = {one for one in first if first[one] != second[one]}
        assert differing == ({"values.0.npy"} if noise else set()), (name, noise)
        if not noise:
            assert repr(copies[0]) == repr(copies[1])
            assert copies[0].mechanism == copies[1].mechanism


@pytest.mark.filterwarnings(
    "ignore:(X|pool)= all of its rows",
    "ignore:positive. the data show",
    "ignore:scores of outcome='score' lie outside",  # cut on purpose
)
@pytest.mark.parametrize("name", some_slow(KINDS, 4))
def test_files_are_equal_but_for_the_noise(name, tmp_path, monkeypatch):
    make, worlds = KINDS[name]
    assert not np.array_equal(*worlds)
    compare(make, worlds, tmp_path, monkeypatch, name)


@pytest.mark.filterwarnings("ignore:pool= all of its rows")
def test_files_of_frames_are_equal_but_for_the_noise(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas", reason="needs the extra [data]")
    worlds = [
        pd.DataFrame({"job": list("abab"), "age": [1, 2, 3, 4]}),
        pd.DataFrame({"job": ["other"] * 4, "age": [900] * 4}),
    ]
    public = pd.DataFrame({"job": list("abab"), "age": [1, 2, 3, 4]})
    model = xj.as_model(
        lambda X: np.where(np.asarray(X["age"], float) > 2, 1, 0), backend="host", output="label"
    )
    asked = {
        "data": lambda data: xj.QII(model, data, quantity="rate").explain(),
        "pool": lambda data: xj.QII(model, data, pool=public, quantity="average").explain(),
        "sample": lambda data: xj.QII(
            model, xj.privacy.subsample(data, 0.5), pool=public, quantity="rate"
        ).unary(),
    }
    for name, make in asked.items():
        compare(make, worlds, tmp_path, monkeypatch, name)


def test_the_comparison_sees_a_scale_that_follows_the_data(tmp_path, monkeypatch):
    def by_value(data):
        same = np.array_equal(data, PUBLIC)  # what a release must not ask
        return of_data(data, pool=None if same else PUBLIC, quantity="average")

    with (
        pytest.warns(xj.XaiWarning, match="pool= all"),
        pytest.raises(AssertionError),
    ):
        compare(by_value, (D, D[::-1].copy()), tmp_path, monkeypatch, "by value")
