"""`FederatedExplainer.interactions`: those of an Explainer whose guests are united columns."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj

X = np.random.default_rng(0).normal(size=(4, 5))
ZEROS = np.zeros((1, 5))


def f(X):
    return X[:, 0] * X[:, 1] * X[:, 2] + X[:, 1] * X[:, 4] + X[:, 0] * X[:, 3]


def federated(guests, **options):
    model = xj.as_model(f, backend="host")
    return xj.FederatedExplainer(model, ZEROS, guests, reference=ZEROS[0], **options)


@pytest.mark.parametrize("index, order", [("sii", 2), ("k-sii", 3), ("fsii", 2), ("moebius", 3)])
@pytest.mark.parametrize("idle", [False, True])
def test_a_guest_is_one_player(index, order, idle):
    guests = {"bank": [1, 4]} | ({"shop": []} if idle else {})
    found = federated(guests).interactions(X, order=order, index=index)
    own = xj.Explainer(xj.as_model(f, backend="host"), ZEROS, players={"bank": [1, 4]})
    wanted = own.interactions(X, order=order, index=index)
    assert found.feature_names == ("x0", "x2", "x3", *guests)
    names = [S for S in found.set_names if "shop" not in S]
    for S in names:
        np.testing.assert_allclose(found[:, S].values, wanted[:, S].values, rtol=0, atol=1e-12)
    assert len(names) == len(wanted.sets) and ("shop" in found.feature_names) == idle
    for S in set(found.set_names) - set(names):
        assert (found[:, S].values == 0).all()


def test_no_more_is_told_of_a_guest_than_by_a_call():
    explainer = federated({"bank": [1, 4]})
    found, values = explainer.interactions(X), explainer(X)
    np.testing.assert_array_equal(found.data, X[:, [0, 2, 3]])
    np.testing.assert_allclose(found[:, [0, 1, 2, 3]].values, values.values, atol=1e-12)
    assert "fingerprint" not in found.stats and found.provenance["method"] == "federated"
    for fact in ("guests", "reference", "player_columns", "players"):
        assert found.provenance[fact] == values.provenance[fact]
    assert xj.merge([found[:2], found[2:]]).shape == found.shape


def test_what_there_is_not_is_refused():
    with pytest.raises(xj.InputError, match="'wls' is a regression"):
        federated({"bank": [1, 4]}, estimator="wls").interactions(X)
    with pytest.raises(xj.InputError, match="only 4 players own columns; shop own none"):
        federated({"bank": [1, 4], "shop": []}).interactions(X, order=5)
