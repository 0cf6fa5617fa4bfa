"""What is released before noise is the exact index, rounded once: against Fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import oracles_privacy as oracles
import pytest
from privacy_cases import LATTICE, before_noise, chances, scores
from sklearn.base import BaseEstimator, ClassifierMixin

import xaijax as xj
from xaijax.games.strategies import plain as _plain
from xaijax.methods.qii import recount as _qii_recount
from xaijax.models.translations import registry
from xaijax.results.recount import remembered

RNG = np.random.default_rng(5)
D = RNG.integers(0, 3, (9, 3)).astype(np.float32)
X = RNG.integers(0, 3, (2, 3)).astype(np.float32)
MEMBERS = np.arange(9) % 3 == 0
POOL = RNG.integers(0, 3, (4, 3)).astype(np.float32)
WEIGHTS = RNG.uniform(0.1, 2, 9)
GROUPS = [[0], [1], [2]]
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])


def kept(function, backend="jax", _models={}, **options):  # noqa: B006
    """One model a function and backend, so that it is compiled once."""
    key = (function, backend, *map(str, options.items()))
    if key not in _models:
        _models[key] = xj.as_model(function, backend=backend, **options)
    return _models[key]


def decide(rows):
    return ((rows[:, 0] + 2 * rows[:, 1] * rows[:, 2] >= 2) * 1.0 + (rows[:, 2] == 1)) % 2


def label_of(row):
    return int(decide(row[None])[0])


LABELS = {
    "positive": lambda row, own: Fraction(label_of(row)),
    "agrees": lambda row, own: Fraction(int(label_of(row) == label_of(own))),
}

INDICES = [
    ("shapley", "shapley"),
    ("banzhaf", "banzhaf"),
    (xj.SizeLimited(1), 1),
    (xj.SizeLimited(0), 0),
]


def expected(kind, score, index, difference=None, **question):
    """Whole lattice steps [N P] of one individual or of the data."""
    rows = question.pop("x", [None])
    out = []
    for x in rows:
        Q = [oracles.quantity(kind, score, S, groups=GROUPS, x=x, **question) for S in range(8)]
        v = [Q[0] - q for q in Q]
        if index == "unary":
            values = [v[1], v[2], v[4]]
        else:
            values = oracles.semivalue(v, oracles.weights_of(index, 3))
        out += [oracles.steps(one) for one in values]
    return out


@BACKENDS
@pytest.mark.parametrize(
    ("quantity", "signed"),
    [("individual", False), ("actual", False), ("average", False), ("rate", False)]
    + [("group", False), ("disparity", False), ("disparity", True)],
)
def test_labels(backend, quantity, signed):
    model = kept(decide, backend, output="label", classes=[0, 1])
    members = MEMBERS if quantity in ("group", "disparity") else None
    qii = xj.QII(model, D, quantity=quantity, members=members, signed=signed)
    given = X if quantity in ("individual", "actual") else None
    score = LABELS["agrees" if quantity in ("actual", "average") else "positive"]
    kind = "signed" if signed else quantity
    question = {"D": D, "pool": D, "member": MEMBERS}
    if given is not None:
        question["x"] = X
    for index, name in INDICES:
        explanation = qii.explain(given, index=index)
        assert before_noise(explanation) == expected(kind, score, name, **question)
        # The floats of the report are those values within their rounding (float32 sums of means).
        exact = np.array(before_noise(explanation)).reshape(explanation.shape) / LATTICE
        np.testing.assert_allclose(explanation.values, exact, atol=4e-6)
    assert before_noise(qii.unary(given)) == expected(kind, score, "unary", **question)


@pytest.mark.filterwarnings("ignore:scores of outcome='score' lie outside")  # cut on purpose
@BACKENDS
@pytest.mark.parametrize("quantity", ["individual", "rate", "group", "disparity"])
def test_scores_are_clipped_and_put_on_the_lattice(backend, quantity):
    bounds = (0.05, 0.4)
    model = kept(scores, backend)
    members = MEMBERS if quantity in ("group", "disparity") else None
    qii = xj.QII(
        model, D, quantity=quantity, outcome="score", bounds=bounds, members=members, pool=POOL
    )
    answers = {row.tobytes(): value for row, value in _answers(model)}
    raw = [answers[row.tobytes()] for row in D]
    assert min(raw) < bounds[0] and max(raw) > bounds[1]  # clipping has something to do

    def score(row, own):
        return oracles.whole_score(answers[np.asarray(row, np.float32).tobytes()], bounds)

    question = {"D": D, "pool": POOL, "member": MEMBERS}
    given = None
    if quantity == "individual":
        question["x"] = given = X
    for index, name in INDICES[:2]:
        found = before_noise(qii.explain(given, index=index))
        assert found == expected(quantity, score, name, **question)


def _answers(model):
    """(row, the model's answer) of all rows that a hybrid can be; the answer is float32 for JAX."""
    rows = np.array(np.meshgrid(range(3), range(3), range(3))).reshape(3, -1).T.astype(np.float32)
    return zip(rows, model.predict(rows), strict=True)


@pytest.mark.parametrize("both", [False, True])
def test_weights_are_put_on_a_lattice(both):
    model = kept(decide, output="label", classes=[0, 1])
    pool, pool_weights = (POOL, [1.0, 2.5, 0.3, 1e-3]) if both else (None, None)
    qii = xj.QII(
        model,
        D,
        quantity="disparity",
        members=MEMBERS,
        data_weights=WEIGHTS,
        pool=pool,
        pool_weights=pool_weights,
    )
    explanation = qii.explain()
    given = WEIGHTS if pool is None else np.array(pool_weights)
    unit = _qii_recount.WEIGHTS

    def whole(weights):
        return [Fraction(int(np.rint(w * unit))) for w in weights / weights.sum()]

    inside, outside = (np.where(m, WEIGHTS, 0.0) for m in (MEMBERS, ~MEMBERS))
    a = [i + o for i, o in zip(whole(inside), whole(outside), strict=True)]
    question = {"D": D, "pool": D if pool is None else POOL, "member": MEMBERS, "a": a}
    found = before_noise(explanation)
    assert found == expected("disparity", LABELS["positive"], "shapley", b=whole(given), **question)
    # Rounding of weights to 2^-30 moves the report by less than a lattice step.
    np.testing.assert_allclose(np.array(found) / LATTICE, explanation.values[0], atol=4e-6)


def distance(name, change):
    if name == "l1":
        return sum(map(abs, change))
    if name == "tv":
        return sum(map(abs, change)) / 2
    if name == "linf":
        return max(map(abs, change))
    # cut off at 2^-40 of the denominator: exact enough for one lattice step
    return Fraction(float(np.sqrt(float(sum(c * c for c in change)))))


@pytest.mark.parametrize(
    ("quantity", "difference"),
    [("actual", "subtract"), ("actual", "l1"), ("actual", "tv"), ("actual", "l2")]
    + [("rate", "subtract"), ("rate", "tv"), ("rate", "linf"), ("rate", "l2")]
    + [("disparity", "subtract"), ("disparity", "l1"), ("disparity", "linf")],
)
def test_vectors_of_chances(quantity, difference):
    model = kept(chances, output="proba", classes=["a", "b", "c"])
    members = MEMBERS if quantity == "disparity" else None
    qii = xj.QII(
        model, D, quantity=quantity, outcome="proba", difference=difference, members=members
    )
    given = X if quantity == "actual" else None
    explanation = qii.explain(given)
    answers = {row.tobytes(): oracles.whole_chances(value) for row, value in _answers(model)}
    found = np.array(before_noise(explanation)).reshape(explanation.shape)
    for n, x in enumerate(X if given is not None else [None]):
        Q = []
        for S in range(8):
            per_class = [
                oracles.quantity(
                    quantity,
                    lambda row, own, k=k: answers[np.asarray(row, np.float32).tobytes()][k],
                    S,
                    D,
                    D,
                    GROUPS,
                    x=x,
                    member=MEMBERS,
                )
                for k in range(3)
            ]
            Q.append(per_class)
        change = [[p - q for p, q in zip(Q[0], one, strict=True)] for one in Q]
        weights = oracles.weights_of("shapley", 3)
        if difference == "subtract":
            for k in range(3):
                v = [one[k] for one in change]
                want = [oracles.steps(phi) for phi in oracles.semivalue(v, weights)]
                np.testing.assert_array_equal(found[n, :, k], want)
        else:
            v = [distance(difference, one) for one in change]
            want = [oracles.steps(phi) for phi in oracles.semivalue(v, weights)]
            slack = 1 if difference == "l2" else 0  # the oracle's root is a float
            np.testing.assert_allclose(found[n], want, atol=slack)


def test_chances_of_sets():
    model = kept(decide, output="label", classes=[0, 1])
    chance = np.random.default_rng(0).dirichlet(np.ones(8))
    chance = np.rint(chance * 2**30) / 2**30  # exactly what it is, also for the library
    explanation = xj.QII(model, D, quantity="rate", positive=1).explain(index=chance)
    Q = [oracles.quantity("rate", LABELS["positive"], S, D, D, GROUPS) for S in range(8)]
    want = oracles.of_chances([Q[0] - q for q in Q], chance)
    assert before_noise(explanation) == [oracles.steps(one) for one in want]


def test_a_constant_pool_and_players_of_several_columns():
    model = kept(decide, "host", output="label", classes=[0, 1])
    players = {"two": [0, 2]}
    qii = xj.QII(model, D, players=players, quantity="rate", pool=xj.Baseline(POOL[0]), positive=1)
    groups = [[0, 2], [1]]
    Q = [oracles.quantity("rate", LABELS["positive"], S, D, POOL[:1], groups) for S in range(4)]
    want = oracles.semivalue([Q[0] - q for q in Q], oracles.weights_of("shapley", 2))
    assert before_noise(qii.explain()) == [oracles.steps(one) for one in want]


@BACKENDS
def test_every_row_is_asked_where_it_stands(backend, monkeypatch):
    """The layout follows from sizes alone: also where all rows are alike nothing is left out."""
    places = []
    asked = _plain.GameRun.rows_asked

    def spy(self, here, instance, donor, coalition, masks, scored=True):
        places.append([one.tolist() for one in (here, instance, donor, coalition)])
        return asked(self, here, instance, donor, coalition, masks, scored)

    monkeypatch.setattr(_plain.GameRun, "rows_asked", spy)
    model = kept(decide, backend, output="label", classes=[0, 1])
    seen = []
    for data in (D, np.zeros_like(D), RNG.permutation(D)):
        explanation = xj.QII(model, data, quantity="rate", positive=1).explain()
        places.clear()
        recount = remembered(explanation)
        recount.sums()
        seen.append(list(places))
        counted = sum(len(one[1]) for one in places)
        assert counted == 9 * 9 * 7 + 9
    assert seen[0] == seen[1] == seen[2]


def test_rows_that_are_alike_are_not_shared():
    """Against one constant row a host model is elsewhere asked once for hybrids that are alike."""
    asked = []

    def watched(rows):
        asked.append(len(rows))
        return decide(rows)

    model = xj.as_model(watched, output="label", backend="host", classes=[0, 1])
    seen = []
    many = np.random.default_rng(6).normal(size=(90, 3)).astype(np.float32)
    for data in (many, np.zeros_like(many)):
        qii = xj.QII(model, data, quantity="rate", pool=xj.Baseline(POOL[0]))
        recount = remembered(qii.explain())
        asked.clear()
        recount.sums()
        seen.append(list(asked))
    assert seen[0] == seen[1] and sum(seen[0][-2:]) == 90 * 8  # after the probe


def test_what_is_no_distribution_is_made_one():
    """Two vectors must not be more than 2 apart in L1, whatever a model says."""
    told = np.array([[0.9, 0.9, 0.9], [2.0, -1.0, np.nan], [0.5, 0.25, 0.25], [0, 0, 0]])
    found = _qii_recount._of_chances(told)
    assert (found >= 0).all() and (found.sum(axis=1) <= LATTICE).all()
    assert found[2].tolist() == [LATTICE // 2, LATTICE // 4, LATTICE // 4]


@pytest.mark.filterwarnings("ignore:scores of outcome='score' lie outside")  # cut on purpose
@pytest.mark.slow
def test_small_pieces_and_large_sums_change_nothing(monkeypatch):
    model = kept(scores)
    question = {"quantity": "disparity", "outcome": "score", "members": MEMBERS}

    def found(**more):
        return before_noise(xj.QII(model, D, **question, **more).explain())

    plain, weighted = found(), found(data_weights=WEIGHTS)
    monkeypatch.setattr(_plain, "ROWS", 5)
    assert found() == plain and found(data_weights=WEIGHTS) == weighted


def test_sums_that_overflow_are_kept_as_python_integers():
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 1 << 20, 50) << 5
    part = rng.integers(0, 1 << 56, (50, 3, 2))
    want = (part.astype(object) * weights.astype(object)[:, None, None]).sum(axis=0)
    np.testing.assert_array_equal(_plain.weighted_sum(weights, part, small=False), want)


def test_too_many_rows_are_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(_plain, "MOST_ROWS", 500)
    model = kept(decide, output="label", classes=[0, 1])
    explanation = xj.QII(model, D, quantity="rate", positive=1).explain()
    with pytest.raises(xj.EnumerationLimitError, match=r"subsample"):
        xj.privacy.release(explanation, 1.0)


class Second(ClassifierMixin, BaseEstimator):
    """1 where the second column is above 0; with a translation that asks the third one too."""

    def fit(self, X, y):
        self.n_features_in_, self.classes_ = X.shape[1], np.unique(y)
        return self

    def predict(self, X):
        return (X[:, 1] > 0).astype(int)


@pytest.mark.slow
def test_an_estimator_is_counted_by_itself(monkeypatch):
    """Whether its translation answers follows from whole rows, which here hide a difference."""
    registered = dict(registry._REGISTERED)
    monkeypatch.setattr(registry, "_REGISTERED", registered)

    def both(params, rows):
        return ((rows[:, 1] > 0) & (rows[:, 2] > 0)).astype(int)

    xj.register_translation(Second)(lambda estimator, columns: xj.Translation({}, {"label": both}))
    rng = np.random.default_rng(8)
    data = np.round(rng.uniform(-2, 2, (200, 3)), 1)
    data[:, 2] = data[:, 1]  # in whole rows; hybrids mix them
    fitted = Second().fit(data, [0, 1] * 100)
    reports = {}
    for backend in ("auto", "host"):
        model = xj.as_model(fitted, backend=backend, output="label")
        qii = xj.QII(model, data, quantity="average", pool=data[:20].copy(), positive=1)
        reports[backend] = qii.explain()
    assert reports["auto"].stats["backend"] == "jax"
    assert np.abs(reports["auto"].values - reports["host"].values).max() > 0.02
    assert before_noise(reports["auto"]) == before_noise(reports["host"])
