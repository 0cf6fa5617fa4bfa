"""Parties without columns: a guest whose value is 0, a host that has no values of its own."""

from __future__ import annotations

import itertools

import numpy as np
import oracles
import pandas as pd
import pytest
from parties import logistic, table

import xaijax as xj
from xaijax import federated as fd

F = 4
X = np.array([[1.0, 2, -1, 0.5], [0.25, -1, 2, 3]])
R = np.array([0.5, 0.25, -0.5, 1.0])
# float64 sums of at most 2^5 products of numbers of a few units: 2^5 x 2^-53 x 100 is 4e-13.
CLOSE = {"rtol": 0, "atol": 4e-13}
PARTIES = {
    "idle beside a guest": ({"idle": [], "shop": [1, 3]}, ["x0", "x2", "idle", "shop"]),
    "two idle": ({"one": [], "shop": [0], "two": []}, ["x1", "x2", "x3", "one", "shop", "two"]),
    "all idle": ({"idle": []}, ["x0", "x1", "x2", "x3", "idle"]),
    "a host without columns": ({"shop": [1, 3], "bank": [0, 2]}, ["shop", "bank"]),
    "both": ({"shop": [3, 1, 0], "idle": [], "bank": [2]}, ["shop", "idle", "bank"]),
    "one guest with everything": ({"shop": [0, 1, 2, 3]}, ["shop"]),
    "and an idle one": ({"idle": [], "shop": [0, 1, 2, 3]}, ["idle", "shop"]),
}
every = pytest.mark.parametrize("name", PARTIES)


def f(z):
    return z[:, 0] * z[:, 1] * z[:, 2] + z[:, 2] * z[:, 3] - 2 * z[:, 1] + z[:, 0] ** 2 * z[:, 3]


def explainer(guests, **options):
    model = xj.as_model(f, backend="host")
    return xj.FederatedExplainer(model, R[None], guests, reference=R, **options)


def groups(guests, names):
    """Columns of each player, in the order of `names`; none for an idle one."""
    return [list(guests[n]) if n in guests else [int(n[1:])] for n in names]


def game(x, players):
    """v(S) = f(x on the columns of S, the reference elsewhere), by the definition."""
    found = {}
    for S in itertools.product((False, True), repeat=len(players)):
        z = R.copy()
        for columns in itertools.compress(players, S):
            z[columns] = x[columns]
        found[frozenset(itertools.compress(range(len(players)), S))] = f(z[None])[0]
    return found


def oracle(guests, names, weight):
    players = groups(guests, names)
    P = len(players)
    return np.array([oracles.semivalue(game(x, players), P, weight(P)) for x in X])


@every
@pytest.mark.parametrize(
    ("options", "weight"),
    [
        ({}, oracles.shapley_weight),
        ({"index": "banzhaf"}, oracles.banzhaf_weight),
        ({"index": xj.SizeLimited(1)}, lambda P: oracles.size_limited_weight(P, 1)),
        ({"index": lambda s: 1.0 / (1 + s)}, lambda P: lambda s: 1.0 / (1 + s)),
        ({"estimator": "permutation", "budget": 100}, oracles.shapley_weight),
        ({"estimator": "kernel", "budget": 100, "index": "banzhaf"}, oracles.banzhaf_weight),
    ],
    ids=["shapley", "banzhaf", "size", "callable", "permutation", "kernel"],
)
@pytest.mark.filterwarnings("ignore:budget=100 covers all")
def test_values_are_those_of_the_game_with_every_party(name, options, weight):
    guests, names = PARTIES[name]
    if len(names) == 1 and isinstance(options.get("index"), xj.SizeLimited):
        pytest.skip("SizeLimited(1) needs two players")
    found = explainer(guests, **options)(X)
    assert list(found.feature_names) == names
    np.testing.assert_allclose(found.values, oracle(guests, names, weight), **CLOSE)
    idle = [j for j, n in enumerate(names) if not guests.get(n, [0])]
    assert (found.values[:, idle] == 0).all()
    np.testing.assert_allclose(found.base_values, f(np.repeat(R[None], 2, axis=0)), **CLOSE)


@every
def test_what_is_told_of_the_parties(name):
    guests, names = PARTIES[name]
    found = explainer(guests)(X)
    told = found.provenance
    assert told["guests"] == {n: len(own) for n, own in guests.items()}
    assert told["players"] == len(told["index_weights"]) == len(names)
    H = len(names) - len(guests)
    assert told["player_columns"] == tuple((j,) for j in range(H)) + ((),) * len(guests)
    assert (found.data is None) if H == 0 else found.data.shape == (2, H)
    assert found.stats["efficiency_residual"].max() <= 4e-13
    assert repr(found) and found.to_dataframe().shape[0] == 2


def test_one_guest_with_everything_gets_the_difference():
    found = explainer({"shop": range(F)})(X)
    np.testing.assert_allclose(found.values[:, 0], f(X) - f(R[None]), **CLOSE)


@every
def test_the_regression_is_that_of_the_game_with_every_party(name):
    guests, names = PARTIES[name]
    found = explainer(guests, estimator="wls", end_weight=1e4)(X)
    players = groups(guests, names)
    for x, values, base in zip(X, found.values, found.base_values, strict=True):
        wanted, intercept = oracles.authors_least_squares(game(x, players), len(players), 10**4)
        np.testing.assert_allclose(values, wanted, **CLOSE)
        np.testing.assert_allclose(base, intercept, **CLOSE)


@every
def test_the_interaction_of_every_guest(name):
    guests, _ = PARTIES[name]
    fed = explainer(guests)
    fed(X)
    single = [game(x, [[c] for c in range(F)]) for x in X]
    wanted = [oracles.united_less_single(v, F, list(guests.values())) for v in single]
    np.testing.assert_allclose(fed.interaction_, np.reshape(wanted, (2, -1)), **CLOSE)


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_an_idle_guest_is_0_and_changes_nothing_where_values_are_sampled(estimator, index):
    rng = np.random.default_rng(0)
    rows, reference = rng.normal(size=(2, 12)), rng.normal(size=12)
    model = xj.as_model(lambda z: np.tanh(z).sum(axis=1) * z[:, 0] * z[:, 1], backend="host")
    options = {"reference": reference, "estimator": estimator, "budget": 200, "index": index}
    made = [
        xj.FederatedExplainer(model, reference[None], guests, **options)(rows)
        for guests in ({"idle": [], "shop": [3, 4]}, {"shop": [3, 4]})
    ]
    assert made[0].feature_names[-2:] == ("idle", "shop")
    assert not made[0].exact
    for kind in ("values", "std_errors"):
        with_idle, without = (getattr(one, kind) for one in made)
        assert (with_idle[:, -2] == 0).all()
        assert np.array_equal(np.delete(with_idle, -2, axis=1), without)


def test_frames_and_several_outputs():
    frame = pd.DataFrame(X, columns=list("abcd"))
    both = xj.as_model(lambda z: np.stack([f(z.to_numpy()), z["a"]], axis=1), backend="host")
    background = pd.DataFrame(R[None], columns=list("abcd"))
    guests = {"shop": ["b", "d"], "idle": [], "bank": ["a", "c"]}
    found = xj.FederatedExplainer(both, background, guests)(frame)
    wanted = oracle(
        {"shop": [1, 3], "idle": [], "bank": [0, 2]}, list(guests), oracles.shapley_weight
    )
    np.testing.assert_allclose(found.values[:, :, 0], wanted, **CLOSE)
    np.testing.assert_allclose(found.values[:, :, 1], np.outer(X[:, 0] - R[0], [0, 0, 1]), **CLOSE)
    assert found.data is None


def test_worth_of_parties_without_columns():
    made = explainer({"idle": [], "shop": [1, 3]})
    worth = made.worth(X, f(X), metric=lambda y, answers: -float(np.abs(y - answers).max()))
    assert worth.parties == ("host", "idle", "shop")
    assert worth.mean_absolute[1] == 0
    assert worth.score == worth.score_without[0] == 0 and worth.score_without[1] < 0
    alone = explainer({"shop": range(F)}).worth(X, f(X), metric=lambda y, a: float((y - a).sum()))
    assert alone.mean_absolute[0] == 0
    np.testing.assert_allclose(alone.mean_value[1], (f(X) - f(R[None])).mean(), **CLOSE)


def test_over_the_wire_a_party_without_columns_has_nothing_to_answer_with():
    with pytest.raises(xj.InputError, match="'g' has no columns.*over the wire.*its value is 0"):
        fd.split_logistic([1.0, 2.0], 0.0, {"g": [], "h": [1]})
    with pytest.raises(xj.InputError, match="guests own all 2 columns; over the wire"):
        fd.split_logistic([1.0, 2.0], 0.0, {"g": [0], "h": [1]})
    split = logistic()
    with pytest.raises(xj.InputError, match="columns"):
        fd.Guest(table()[:, :0], [str(n) for n in range(200)], split.parts["shop"])
