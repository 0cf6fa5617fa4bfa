"""Audits of releases: neighbours that are far apart, and what draws of their releases show.

test_privacy_audit.py says how; test_privacy_controls.py breaks the mechanism on purpose.
"""

from __future__ import annotations

import numpy as np
import oracles_privacy as oracles
from privacy_cases import chances, table_model

import xaijax as xj
from xaijax.privacy import mechanism

DRAWS = 100_000
EVENTS = (-0.5, 0.0, 0.4, 0.7, 0.9, 0.99)  # shares of the largest log-likelihood ratio
LATTICE = 1 << 20


def handed_over(explanation, monkeypatch, epsilon=1.0, **how):
    """(whole numbers, scale) that `release` gives to the noise."""
    taken = []

    def spy(values, scale):
        taken.append((list(values), scale))
        return list(values)

    with monkeypatch.context() as patch:
        patch.setattr(mechanism, "noisy", spy)
        released = xj.privacy.release(explanation, epsilon, **how)
    (call,) = taken
    assert released.values.ravel().tolist() == [value / LATTICE for value in call[0]]
    return call


def draw(values, scale, draws=DRAWS):
    """[draws, V] of whole numbers with noise."""
    return np.array(mechanism.noisy(values * draws, scale)).reshape(draws, len(values))


def ratios(out, a, b, scale):
    """The log-likelihood ratio of outputs [draws, V], up to the noise of other values."""
    return (np.abs(out - b) - np.abs(out - a)).sum(axis=1) / scale


def measured(a, b, confidence):
    """The largest epsilon that the events show, of statistics of both worlds [draws]."""
    top = max(np.abs(a).max(), np.abs(b).max(), 1e-300)
    shown = []
    for share in EVENTS:
        for first, second, sign in ((a, b, 1), (b, a, -1)):
            hits = int((sign * first >= share * top).sum())
            misses = int((sign * second >= share * top).sum())
            shown.append(oracles.measured_epsilon(hits, misses, len(first), confidence))
    return max(shown)


def audit(a, b, scale, confidence):
    """The measured epsilon of two worlds' whole numbers at one scale."""
    first, second = draw(a, scale), draw(b, scale)
    worlds = np.array(a), np.array(b)
    return measured(ratios(first, *worlds, scale), ratios(second, *worlds, scale), confidence)


# --- the worst neighbours of each quantity -------------------------------------------------------

MEMBER = np.array([True, True, False, False])


def worst(kind, index="shapley", member=None, x=2):
    """(classifier, rows, rows of a neighbour) for values as far apart as any, n = 4."""
    Q = oracles.tables(kind, 4, member, x=x)
    v = Q[:, :, :1] - Q
    values = v[:, :, 1:] if index == "unary" else v @ oracles.index_matrix(WEIGHTS)
    return oracles.worst_neighbours(values, 4)[:3]


WEIGHTS = oracles.weights_of("shapley", 2)


def report(kind, labels, rows, index="shapley", **more):
    """The explanation of the data, or of an individual who is (0, 1)."""
    signed = kind == "signed"
    quantity = "disparity" if signed else kind
    members = MEMBER if quantity in ("group", "disparity") else None
    qii = xj.QII(
        table_model(labels),
        oracles.bits(rows),
        quantity=quantity,
        members=members,
        signed=signed,
        **more,
    )
    arguments = (oracles.bits([2]),) if kind in ("individual", "actual") else ()
    unary = isinstance(index, str) and index == "unary"
    return qii.unary(*arguments) if unary else qii.explain(*arguments, index=index)


def of_labels(kind, index="shapley", **more):
    def make():
        labels, rows, neighbour = worst(kind, index, MEMBER)
        return [report(kind, labels, world, index, **more) for world in (rows, neighbour)]

    return make


def alone(kind):
    """All columns as one player: the quantity itself, where its bound is attained."""

    def make():
        Q = oracles.tables(kind, 4, MEMBER, x=2)
        v = (Q[:, :, :1] - Q)[:, :, 3:]
        labels, rows, neighbour, _ = oracles.worst_neighbours(v, 4)
        players = {"both": [0, 1]}
        return [
            report(kind, labels, world, "unary", players=players) for world in (rows, neighbour)
        ]

    return make


def of_scores():
    """Scores far outside their bounds; the donor that is replaced takes one end, then the other."""
    model = xj.as_model(lambda X: 7 * X[:, 0] - 3)
    reports = []
    for rows in ([0, 0, 0, 1], [0, 0, 0, 0]):
        qii = xj.QII(
            model,
            oracles.bits(rows),
            players={"both": [0, 1]},
            quantity="individual",
            outcome="score",
            bounds=(0.25, 0.75),
        )
        reports.append(qii.unary(oracles.bits([0])))
    return reports


def of_chances(difference="tv"):
    model = xj.as_model(chances, output="proba", classes=["a", "b", "c"])
    base = np.array([[9, 0, 0], [0, 9, 0], [0, 9, 0]], np.float32)
    reports = []
    for row in ([0, 9, 0], [9, 0, 0]):
        data = np.concatenate([base, [row]]).astype(np.float32)
        qii = xj.QII(
            model,
            data,
            players={"all": [0, 1, 2]},
            quantity="individual",
            outcome="proba",
            difference=difference,
        )
        reports.append(qii.unary(base[:1].copy()))
    return reports


def of_weights():
    labels, rows, neighbour = [0, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]
    weights = [3.0, 1.0, 1.0, 1.0]
    players = {"both": [0, 1]}
    return [
        report("average", labels, world, "unary", players=players, data_weights=weights)
        for world in (rows, neighbour)
    ]


def of_weighted_groups(quantity):
    """A heavy record of the group turns, in the rows and among the donors."""

    def make():
        labels, rows, neighbour = [0, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]
        players = {"both": [0, 1]}
        return [
            report(quantity, labels, world, "unary", players=players, data_weights=[3.0, 1, 1, 1])
            for world in (rows, neighbour)
        ]

    return make


def of_sizes():
    """Sets of at most one player: with two players Shapley's values, normalised or as printed."""
    labels, rows, neighbour = worst("average", member=MEMBER)
    index = xj.SizeLimited(1, normalised=False)
    return [report("average", labels, world, index) for world in (rows, neighbour)]


CHANCE = np.array([0.25, 0.5, 0.125, 0.125])


def of_given_chances():
    Q = oracles.tables("average", 4)
    v = Q[:, :, :1] - Q
    c = np.zeros((4, 2))
    for i in range(2):
        for S in range(4):
            if not S >> i & 1:
                c[S | 1 << i, i] += CHANCE[S]
                c[S, i] -= CHANCE[S]
    labels, rows, neighbour, _ = oracles.worst_neighbours(v @ c, 4)
    return [report("average", labels, world, CHANCE) for world in (rows, neighbour)]


def of_public_pool():
    pool = [0, 1, 3]
    Q = oracles.tables("rate", 4, pool=pool)
    phi = (Q[:, :, :1] - Q) @ oracles.index_matrix(WEIGHTS)
    labels, rows, neighbour, _ = oracles.worst_neighbours(phi, 4)
    return [report("rate", labels, world, pool=oracles.bits(pool)) for world in (rows, neighbour)]


CASES = {
    "individual": (alone("individual"), {}),
    "actual": (alone("actual"), {}),
    "average": (of_labels("average"), {}),
    "average, one by one": (of_labels("average"), {"composition": "sequential"}),
    "average, Banzhaf": (of_labels("average", "banzhaf"), {}),
    "rate, unary": (of_labels("rate", "unary"), {}),  # of two players Shapley's are always 0
    "rate, public pool": (of_public_pool, {}),
    "group": (of_labels("group"), {}),
    "disparity": (of_labels("disparity"), {}),
    "disparity, signed": (of_labels("signed"), {}),
    "scores": (of_scores, {}),
    "chances": (of_chances, {}),
    "weights": (of_weights, {}),
    "group, weights": (of_weighted_groups("group"), {}),
    "disparity, weights": (of_weighted_groups("disparity"), {}),
    "sets of limited size": (of_sizes, {}),
    "Pr[S]": (of_given_chances, {}),
    "chances, class by class": (lambda: of_chances("subtract"), {}),
    "chances, L1": (lambda: of_chances("l1"), {}),
    "chances, L2": (lambda: of_chances("l2"), {}),
    "chances, Linf": (lambda: of_chances("linf"), {}),
}
AUDITS = len(CASES) + 2  # and the subsample, without and with a public pool
COMPARISONS = AUDITS * len(EVENTS) * 2
CONFIDENCE = 1 - 1e-6 / (2 * COMPARISONS)
# The share of epsilon that the worst neighbours of a world of two bits use up, at least.
SHARE = (
    dict.fromkeys(CASES, 0.2)
    | {"group, weights": 0.15}
    | dict.fromkeys(["individual", "actual", "scores"], 0.99)
)
