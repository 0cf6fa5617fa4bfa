"""`interaction_` of a guest by the dividends of single columns: the worked example of the docs."""

from __future__ import annotations

import numpy as np

import xaijax as xj


def f(X):
    return X[:, 0] * X[:, 1] * X[:, 2] + X[:, 1] * X[:, 2] * X[:, 3] * X[:, 4] + X[:, 0] * X[:, 3]


def test_a_guests_interaction_is_made_of_dividends():
    X = np.random.default_rng(0).normal(size=(4, 5))
    zeros, guest = np.zeros((1, 5)), [1, 2, 4]
    model = xj.as_model(f, backend="host")
    federated = xj.FederatedExplainer(model, zeros, {"bank": guest}, reference=zeros[0])
    federated(X)
    found = xj.Explainer(model, zeros).interactions(X, order=5, index="moebius")
    total = np.zeros(4)
    for m, S in enumerate(found.sets):
        k = len(set(S) & set(guest))
        h = len(S) - k
        if k:
            total -= found.values[:, m] * h * (k - 1) / ((h + 1) * (h + k))
    np.testing.assert_allclose(federated.interaction_[:, 0], total, rtol=0, atol=1e-12)
    assert np.abs(total).min() > 0


def test_tables_of_qii_are_those_of_kept_players_turned_round():
    data = np.random.default_rng(1).integers(0, 3, (12, 4)).astype(float)
    model = xj.as_model(lambda X: 1 / (1 + np.exp(-f(np.c_[X, X[:, :1]]))), backend="host")
    table = xj.QII(model, data, outcome="score", quantity="individual").game(data[:3])
    replaced = table.interactions(order=2)
    kept = xj.Explainer(model, data).interactions(data[:3])
    sign = [-((-1.0) ** len(S)) for S in kept.sets]
    np.testing.assert_allclose(replaced.values, kept.values * sign, rtol=0, atol=1e-12)
