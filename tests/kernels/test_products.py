"""Sums of Gaussian products in closed form, against the definition and a rule with more points."""

from __future__ import annotations

import numpy as np
import oracles
import pytest
from sklearn.neighbors import KernelDensity
from sklearn.svm import SVC, SVR, OneClassSVM

import xaijax as xj
from xaijax.games.strategies.totals import OfPlayers
from xaijax_kernels import sizes
from xaijax_kernels.structures import products
from xaijax_kernels.structures.base import WeightedDonors

RNG = np.random.default_rng(51)
WEIGHTS = {"shapley": oracles.shapley_weight, "banzhaf": oracles.banzhaf_weight}


def machine(z, centres, gamma, coefficients):
    far = (gamma * (z[:, None] - centres) ** 2).sum(axis=2)
    return np.exp(-far) @ coefficients


@pytest.mark.parametrize(
    "index, memory, platform",
    [("shapley", 1 << 28, "cpu"), ("banzhaf", 5_000, "cpu"), ("shapley", 5_000, "gpu")],
)
def test_values_are_those_of_all_coalitions(index, memory, platform, monkeypatch):
    """Groups of columns, a width for each column, weights of donors, two outputs, a moved head;
    loops of known turns, as a GPU needs them, have rows and points that are filled up."""
    monkeypatch.setattr(products, "FEWEST", 2)
    monkeypatch.setattr(sizes, "TERMS", 4)  # the last block of terms is filled up
    x, donors, centres = (RNG.normal(size=(n, 7)).astype(np.float32) for n in (3, 5, 6))
    gamma = RNG.uniform(0.05, 1.5, 7).astype(np.float32)
    coefficients, A = RNG.normal(size=(6, 2)), np.array([[2.0, 1.0], [0.5, -1.0]])
    players, groups = np.array([2, 0, 1, 0, 4, 3, 2]), [[1, 3], [2], [0, 6], [5], [4]]
    weights = np.array([0.1, 0.3, 0.2, 0.3, 0.1])
    p = tuple(WEIGHTS[index](5)(s) for s in range(5))
    background = WeightedDonors(
        donors, weights, players, 5, OfPlayers(p), memory, platform=platform
    )
    head = A, np.array([1.0, -3.0])
    form = products.gaussian(centres, gamma, coefficients, np.ones(2), background, head)
    values, full = form.of(x)

    def f(z):
        return (machine(z, centres, gamma, coefficients) + 1) @ A + head[1]

    wanted, _, _ = oracles.explain(f, x, donors, WEIGHTS[index](5), groups, weights)
    # Terms of size 1 times coefficients: some ten roundings of float32 each.
    np.testing.assert_allclose(values, wanted, rtol=0, atol=2e-6 * np.abs(coefficients @ A).sum())
    np.testing.assert_allclose(full, f(x.astype(np.float64)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(form.of_donors, f(donors.astype(np.float64)), rtol=0, atol=1e-12)


def by_all_points(x, donors, centres, gamma, coefficients):
    """Shapley values [P] of one row with as many points as are exact, in float64."""
    P, total = len(x), 0.0
    at, share = np.polynomial.legendre.leggauss(P // 2 + 1)
    u = np.exp(-gamma * (x - centres) ** 2)
    for b in donors:
        r = np.exp(-gamma * (b - centres) ** 2)
        for t, w in zip((at + 1) / 2, share / 2, strict=True):
            f = t * u + (1 - t) * r
            ones = np.ones((len(f), 1))
            before = np.cumprod(np.concatenate([ones, f[:, :-1]], axis=1), axis=1)
            after = np.cumprod(np.concatenate([ones, f[:, :0:-1]], axis=1), axis=1)[:, ::-1]
            total = total + w / len(donors) * coefficients @ ((u - r) * before * after)
    return total


@pytest.mark.slow
def test_densities_and_one_class_machines_are_exact():
    """Of weighted rows and of a width that is fitted; 14 players, for which tables would do too."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 14)).astype(np.float32)
    rows, weights = X.astype(np.float64), rng.integers(1, 4, 60).astype(float)
    density = KernelDensity(bandwidth="silverman").fit(X, sample_weight=weights)
    machine = OneClassSVM(gamma=0.1).fit(X)
    width = density.bandwidth_
    heights = weights / weights.sum() / (2 * np.pi * width**2) ** 7
    cases = [
        (density, "density", rows, 0.5 / width**2, heights),
        (machine, "decision", machine.support_vectors_, 0.1, machine.dual_coef_[0]),
    ]
    for fitted, output, centres, gamma, coefficients in cases:
        found = xj.Explainer(xj.as_model(fitted, output=output), X[:5])(X[5:7])
        assert found.exact and found.stats["structure"] == "products"
        for row, own in zip(rows[5:7], found.values, strict=True):
            wanted = by_all_points(row, rows[:5], centres, gamma, coefficients)
            np.testing.assert_allclose(own, wanted, rtol=0, atol=2e-7 * np.abs(coefficients).sum())
            assert np.abs(wanted).max() > 1e-3 * np.abs(coefficients).sum() / len(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("P", "gamma"),
    [
        (64, "scale"),
        pytest.param(200, "scale", marks=pytest.mark.slow),
        pytest.param(200, 0.2, marks=pytest.mark.slow),
    ],
)
def test_a_machine_of_many_players_is_exact_by_default(P, gamma):
    """With gamma = 0.2 products go down to exp(-100): below float32, which flushes them to 0."""
    X = np.random.default_rng(0).normal(size=(90, P)).astype(np.float32)
    y = X[:, 0] * X[:, 1] + X[:, 2]
    fitted = SVR(gamma=gamma, C=5).fit(X[:80], y[:80])
    near = X[:80:40] + 0.01 * X[80:82]  # near two centres
    explainer = xj.Explainer(xj.as_model(fitted), X[:6])
    assert explainer.plan(near).structure == "products"
    found = explainer(near)
    assert found.exact and found.stats["model_rows"] == 2
    assert found.stats["compile_seconds"] > 0  # of the form, and of the columns that it reads
    assert explainer._evaluator is not None
    names = [key[0] for key in explainer._evaluator.engine.compiled.cache]
    assert "products" in names
    centres, coefficients = fitted.support_vectors_, fitted.dual_coef_[0]
    for row, own in zip(near, found.values, strict=True):
        wanted = by_all_points(
            row.astype(np.float64), X[:6].astype(np.float64), centres, fitted._gamma, coefficients
        )
        np.testing.assert_allclose(own, wanted, rtol=0, atol=2e-7 * np.abs(coefficients).sum())
        assert np.abs(wanted).max() > 1e-3


@pytest.mark.slow
def test_exact_takes_a_classifier_of_30_columns_and_other_indices_do_not():
    X = RNG.normal(size=(60, 30)).astype(np.float32)
    model = xj.as_model(SVC().fit(X, X[:, 0] * X[:, 1] > 0), output="decision")
    for index in ("shapley", "banzhaf"):
        found = xj.Explainer(model, X[:4], estimator="exact", index=index)(X[5:7])
        assert found.exact and found.stats["structure"] == "products"
    with pytest.raises(xj.EnumerationLimitError, match="30 players"):
        xj.Explainer(model, X[:4], estimator="exact", index=xj.SizeLimited(3))(X[5:7])


@pytest.mark.parametrize("memory", [1 << 14, 1 << 20, 1 << 30])
@pytest.mark.parametrize("terms, donors, players", [(3, 2, 13), (800, 100, 30), (300, 5_000, 200)])
def test_programs_of_products_hold_no_more_than_their_share(terms, donors, players, memory):
    few, some, rows = sizes.products_at_once(terms, donors, players, 4, memory)
    assert 1 <= few <= terms and 1 <= some <= donors and 1 <= rows <= sizes.ROWS_OF_PRODUCTS
    if some > 1:  # less is not possible
        assert 4 * sizes.OF_A_FACTOR * some * few * players <= memory / 2
    if rows > 1:
        assert 2 * 4 * rows * players * terms <= memory / 2


@pytest.mark.parametrize("turn", [0.5, 3.0, 20.0])
def test_fewer_points_miss_an_integral_by_no_more_than_is_said(turn):
    P, K = 60, np.geomspace(1, 1e-3, 60)
    ratio = np.clip(turn * K / K.sum(), 0, 0.999)  # |u - r| / (u + r)
    u, r = 1 + ratio, 1 - ratio

    def integral(points):
        t, share = products.rule(points)
        f = t[:, None] * u + (1 - t)[:, None] * r
        return share @ ((u - r) / f * f.prod(axis=1, keepdims=True))

    few = products.points_for(float(ratio.sum()), P // 2)
    assert few < P // 2
    # Of 60 products of middles 1, times 2 for the player left out; and float64's own rounding.
    np.testing.assert_allclose(integral(few), integral(P // 2), rtol=1e-13, atol=2.0**-33)
