"""Every quantity, difference and index of QII against the definition, by full enumeration."""

from __future__ import annotations

import functools
import itertools

import jax.numpy as jnp
import numpy as np
import often
import oracles_qii as oracles
import pytest

import xaijax as xj

BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])
RNG = np.random.default_rng(3)
P = 3
# Three classes of four columns; the last two columns are one player. Few values, so that most
# players of most pairs agree and the quotient leaves most hybrids out.
GROUPS = [[0], [1], [2, 3]]
PLAYERS = {"a": [0], "b": [1], "c": [2, 3]}
A = RNG.normal(size=(4, 3)).astype(np.float32)
SIX = RNG.choice([0.0, 0.0, 1.0, 2.0], size=(6, 4)).astype(np.float32)
POOL = RNG.choice([0.0, 0.0, 1.0, 2.0], size=(5, 4)).astype(np.float32)
CONTINUOUS = RNG.normal(size=(6, 4)).astype(np.float32)
W_DATA, W_POOL = RNG.random(6), RNG.random(5)
MEMBER = np.array([True, False, True, False, False, True])
# Chances are a softmax of products of two columns in float32, some roundings of at most 1 each;
# logarithms of chances of at least 1e-3 lose a digit or two more.
ATOL = {"jax": 2e-5, "host": 1e-10}


def chances(rows, xp):
    shift = xp.asarray([0.0, 1.0, 2.0], dtype=rows.dtype)
    z = 2.0 * xp.sin(2.0 * rows @ A + shift) + rows[:, :1] * rows[:, 3:] * A[:1]
    e = xp.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@functools.cache
def model_of(backend):
    if backend == "jax":
        return xj.as_model(lambda r: chances(r, jnp), output="proba", classes=["x", "y", "z"])
    return xj.as_model(
        lambda r: chances(np.asarray(r, np.float64), np),
        backend="host",
        output="proba",
        classes=["x", "y", "z"],
    )


def one(row):
    return chances(np.asarray(row, np.float64)[None], np)[0]


def score_of(quantity, outcome):
    if outcome == "proba":
        return lambda z, x: one(z)
    if outcome == "score":
        return lambda z, x: min(max(one(z)[1], 0.1), 0.6)
    if quantity in ("actual", "average"):
        return lambda z, x: float(one(z).argmax() == one(x).argmax())
    return lambda z, x: float(one(z).argmax() == 1)


def arguments(quantity, outcome, difference="subtract"):
    given = {"quantity": "disparity" if quantity == "signed" else quantity, "outcome": outcome}
    given |= {"difference": difference, "signed": quantity == "signed"}
    if quantity in ("group", "disparity", "signed", "ratio"):
        given["members"] = MEMBER
    if outcome == "score":
        given["bounds"] = (0.1, 0.6)
    if outcome != "proba" and quantity not in ("actual", "average"):
        given["positive"] = "y"
    return given


def expected_games(quantity, outcome, difference, data, pool, w_data, w_pool):
    """v of every individual, or the one v."""
    score = score_of(quantity, outcome)
    weights = {"data_weights": w_data / w_data.sum(), "pool_weights": w_pool / w_pool.sum()}

    def game(x):
        def Q(S):
            return oracles.quantity(
                quantity, score, S, x=x, D=data, pool=pool, member=MEMBER, groups=GROUPS, **weights
            )

        return oracles.influences(Q, P, difference)

    rows = data if quantity in ("individual", "actual") else data[:1]
    return [game(x) for x in rows]


def table_of(v):
    sets = [frozenset(i for i in range(P) if c >> i & 1) for c in range(1 << P)]
    return np.array([v[S] for S in sets])


CASES = [
    *itertools.product(
        ("individual", "actual", "average", "rate", "group", "disparity", "signed"),
        ("label",),
        ("subtract", "l1"),
    ),
    *itertools.product(
        ("individual", "rate", "group", "disparity", "ratio"), ("score",), ("subtract", "l1")
    ),
    *itertools.product(
        ("individual", "rate", "group"),
        ("proba",),
        ("subtract", "l1", "tv", "l2", "linf", "kl", "js"),
    ),
]


@pytest.mark.filterwarnings("ignore:scores of outcome='score' lie outside")  # cut on purpose
@often.product(
    {
        "quantity, outcome, difference": CASES,
        "rows": ["agreeing", "continuous"],
        "backend": ["jax", "host"],
    },
    every=3,
    pairwise=True,
)
def test_all_answers_are_the_definition(quantity, outcome, difference, rows, backend):
    data = SIX if rows == "agreeing" else CONTINUOUS
    given = arguments(quantity, outcome, difference)
    qii = xj.QII(
        model_of(backend),
        data,
        pool=POOL,
        players=PLAYERS,
        data_weights=W_DATA if quantity not in ("individual", "actual") else None,
        pool_weights=W_POOL,
        **given,
    )
    games = expected_games(quantity, outcome, difference, data, POOL, W_DATA, W_POOL)
    atol = ATOL[backend]

    def close(found, wanted):
        np.testing.assert_allclose(found, np.array(wanted), rtol=0, atol=atol)

    close(qii.unary().values, [[v[frozenset([i])] for i in range(P)] for v in games])
    close(qii.influence(["a", "c"]), [v[frozenset([0, 2])] for v in games])
    wanted = [v[frozenset([0, 1])] - v[frozenset([1])] for v in games]
    close(qii.marginal("a", [1]), wanted)
    for name, index in (("shapley", "shapley"), ("banzhaf", "banzhaf"), (1, xj.SizeLimited(1))):
        weight = oracles.weights_of(name, P)
        explained = qii.explain(index=index)
        close(explained.values, [oracles.semivalue(v, P, weight) for v in games])
    chance = RNG.random(1 << P)
    wanted = [oracles.of_chances(v, P, lambda S: chance[sum(1 << i for i in S)]) for v in games]
    close(qii.explain(index=chance).values, wanted)
    if outcome == "proba" and difference == "subtract":
        return
    table = qii.game()
    close(table.values, [table_of(v) for v in games])
    assert (table.values[:, 0] == 0).all()
    # A threshold in the widest gap between values: no rounding takes a value across it.
    sizes = np.sort(np.abs(np.array([table_of(v) for v in games])).ravel())
    gap = int(np.diff(sizes).argmax())
    threshold = float(sizes[gap : gap + 2].mean())
    assert np.diff(sizes)[gap] > 4 * atol

    def wins(v):
        return lambda S: abs(v[S]) >= threshold

    found = qii.explain(index="deegan-packel", threshold=threshold, absolute=True)
    close(found.values, [oracles.deegan_packel(wins(v), P) for v in games])
    margin = [min(abs(abs(value) - threshold) for value in v.values()) for v in games]
    close(found.stats["margin"], margin)
    close(
        table.responsibility(threshold, absolute=True),
        [oracles.responsibility(wins(v), P) for v in games],
    )


@BACKENDS
def test_direct_marginals_are_another_number(backend):
    given = arguments("individual", "proba", "kl")
    qii = xj.QII(model_of(backend), SIX, pool=POOL, players=PLAYERS, **given)
    score, equal = score_of("individual", "proba"), np.full(5, 0.2)

    def Q(x, S):
        return oracles.mean_score(score, x, POOL, equal, frozenset(S), GROUPS)

    wanted = [oracles.kl(Q(x, [1]), Q(x, [1, 2])) for x in SIX]
    direct = qii.marginal("c", ["b"], direct=True)
    np.testing.assert_allclose(direct, wanted, rtol=0, atol=ATOL[backend])
    assert np.abs(direct - qii.marginal("c", ["b"])).max() > 0.01


@BACKENDS
def test_scores_and_quantities_of_ones_own(backend):
    """A score that looks at f(x), averaged over the members, and a combination of two means."""

    def moved(answers, own):
        return abs(answers - own).sum(axis=1)

    given = {"quantity": moved, "outcome": "proba", "bounds": (0, 2)}
    qii = xj.QII(model_of(backend), SIX, pool=POOL, players=PLAYERS, **given)

    def score(z, x):
        return np.abs(one(z) - one(x)).sum()

    equal = np.full(5, 0.2)
    wanted = [-oracles.mean_score(score, x, POOL, equal, frozenset([0]), GROUPS) for x in SIX]
    np.testing.assert_allclose(qii.influence([0]), wanted, rtol=0, atol=ATOL[backend])
    odds = xj.quantities.Interest("odds", "members and rest", combine=lambda m: m[0] / (1 + m[1]))
    given = {"members": MEMBER, "outcome": "score", "positive": "y"}
    qii = xj.QII(model_of(backend), SIX, pool=POOL, players=PLAYERS, quantity=odds, **given)

    def Q(S):
        rate = [
            np.mean([oracles.mean_score(lambda z, _: one(z)[1], x, POOL, equal, S, GROUPS)
                     for x in SIX[who]])
            for who in (MEMBER, ~MEMBER)
        ]  # fmt: skip
        return rate[0] / (1 + rate[1])

    v = oracles.influences(Q, P)
    found = qii.explain(index=xj.SizeLimited(1)).values[0]
    wanted = oracles.semivalue(v, P, oracles.weights_of(1, P))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ATOL[backend])


def test_membership_is_decided_by_the_original_rows():
    """The group is "column 0 is 1", also when column 0 is replaced."""
    data = np.array([[1, 0], [1, 1], [0, 0], [0, 1]], np.float32)
    model = xj.as_model(lambda r: (r[:, 0] == 1) * 1.0, output="label")
    qii = xj.QII(model, data, quantity="group", members={"x0": 1})
    assert qii.influence([0])[0] == 0.5
    by_function = xj.QII(model, data, quantity="group", members=lambda d: d[:, 0] == 1)
    assert by_function.influence([0])[0] == 0.5


@pytest.mark.parametrize(
    "quantity", ["individual", "actual", "rate", "average", "group", "disparity", "ratio"]
)
def test_prior_is_that_of_the_data_whatever_is_measured(quantity):
    """By data_weights; never that of the members, nor the mean of two groups."""
    data = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    members = {"members": [True, False, True, False]}
    given = members if quantity in ("group", "disparity", "ratio") else {}
    model = xj.as_model(lambda r: (r.sum(axis=1) > 1) * 1.0, output="label", classes=[0, 1])
    qii = xj.QII(model, data, quantity=quantity, data_weights=[1, 2, 3, 4], **given)
    np.testing.assert_allclose(qii.prior(), [0.1, 0.3, 0.2, 0.4], rtol=1e-15)


@pytest.mark.slow
def test_prior_of_binary_data():
    data = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 0], [0, 1, 1]], np.float32)
    model = xj.as_model(lambda r: (r.sum(axis=1) > 1) * 1.0, output="label")
    qii = xj.QII(model, data, quantity="individual")
    prior = np.zeros(8)
    prior[[0b101, 0b000, 0b110]] = [0.5, 0.25, 0.25]
    np.testing.assert_array_equal(qii.prior(), prior)
    v = dict(zip(map(frozenset, ([], [0], [1], [0, 1], [2], [0, 2], [1, 2], [0, 1, 2])),
                 qii.game(data[:1]).values[0], strict=True))  # fmt: skip
    wanted = oracles.of_chances(v, 3, lambda S: prior[sum(1 << i for i in S)])
    np.testing.assert_allclose(
        qii.explain(data[:1], index=qii.prior()).values[0], wanted, atol=1e-6
    )
