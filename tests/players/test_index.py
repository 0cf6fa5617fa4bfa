"""An index is added in one place: an entry of `KNOWN` is all that a new one needs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import xaijax as xj
from xaijax.players import index as indices
from xaijax.players.index import KNOWN, Index, named
from xaijax.results import wording
from xaijax_kernels.games.semivalues import induced_weights

TIMID = Index(
    "timid",
    "timid value",
    "sets that each other input joins with chance 1/4",
    weights=lambda P: np.array([0.25**s * 0.75 ** (P - 1 - s) for s in range(P)]),
)
SEMIVALUES = [one for one in (*KNOWN.values(), TIMID) if one.weights is not None]
MODEL = xj.as_model(
    lambda r: (r[:, 0] + r[:, 1] * r[:, 2]) / 6,
    backend="host",
    feature_names=["age", "job", "town"],
)
DATA = np.random.default_rng(0).integers(0, 3, (12, 3)).astype(float)
X = np.array([[2.0, 1.0, 2.0]])


@pytest.fixture
def timid(monkeypatch):
    monkeypatch.setitem(indices.KNOWN, "timid", TIMID)


def expected(changed) -> np.ndarray:
    """The mean of changed(S) - changed(S + i), each j other than i in S with chance 1/4."""
    values = np.zeros(3)
    for i, picks in itertools.product(range(3), itertools.product([False, True], repeat=2)):
        S = [j for j, picked in zip([j for j in range(3) if j != i], picks, strict=True) if picked]
        chance = math.prod(0.25 if picked else 0.75 for picked in picks)
        values[i] += chance * (changed(S) - changed([*S, i]))
    return values


def mixed(columns: list[int], of_the_data: bool) -> float:
    """The mean answer where these columns, or all but these, are those of the data."""
    rows = np.repeat(X, len(DATA), axis=0)
    taken = [j for j in range(3) if (j in columns) == of_the_data]
    rows[:, taken] = DATA[:, taken]
    return float(((rows[:, 0] + rows[:, 1] * rows[:, 2]) / 6).mean())


@pytest.mark.usefixtures("timid")
def test_a_new_index_is_computed():
    kept = xj.Explainer(MODEL, DATA, index="timid")(X)
    np.testing.assert_allclose(kept.values[0], -expected(lambda S: mixed(S, False)), atol=1e-12)
    score = {"quantity": "individual", "outcome": "score", "bounds": (0, 1)}
    replaced = xj.QII(MODEL, DATA, **score).explain(X, index="timid")
    want = expected(lambda S: mixed(S, True))
    np.testing.assert_allclose(replaced.values[0], want, atol=1e-12)
    drawn = xj.QII(MODEL, DATA, samples=4000, **score).explain(X, index="timid")
    assert (np.abs(drawn.values[0] - want) <= 5 * drawn.std_errors[0]).all()
    assert "efficiency_residual" not in kept.stats and "efficiency_residual" not in replaced.stats
    with pytest.raises(xj.InputError, match="samples index='shapley' and 'banzhaf', got index='ti"):
        xj.Explainer(MODEL, DATA, index="timid", estimator="kernel")
    with pytest.raises(xj.InputError, match="'shapley', 'banzhaf', 'timid', SizeLimited"):
        xj.Explainer(MODEL, DATA, index="owen")


@pytest.mark.usefixtures("timid")
def test_a_new_index_has_words_after_a_file_too(tmp_path):
    found = xj.QII(MODEL, DATA, quantity="individual", outcome="score").explain(X, index="timid")
    found.save(tmp_path / "timid.npz")
    for one in (found, xj.load(tmp_path / "timid.npz")):
        assert str(one).startswith("Explanation (QII, timid): 1 instances x 3 players")
        assert wording.words(one)[-1].startswith(
            "Each input's influence is its timid value: its effect on top of other replaced "
            "inputs, averaged over sets that each other input joins with chance 1/4. Such "
        )
        assert wording.effect(one, 0.25) == "raises it by 0.25"
        assert "need not add up" in str(wording.both_answers(one, 1.0, 0.5, 0.5))


@pytest.mark.usefixtures("timid")
def test_a_new_index_has_a_name_on_axes():
    matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
    matplotlib.use("Agg")
    found = xj.Explainer(MODEL, DATA, index="timid")(X)
    assert xj.plots.bar(found).get_xlabel() == "|timid value| of one instance"
    assert xj.plots.waterfall(found).get_xlabel() == "base value + timid values"


def test_of_an_unknown_index_only_the_name_is_known():
    assert named("size <= 2") == Index("size <= 2") and named(None) == Index("None")
    assert named("shapley") is KNOWN["shapley"]


@pytest.mark.parametrize("one", SEMIVALUES, ids=lambda one: one.name)
@pytest.mark.parametrize("P", [1, 2, 5, 9])
def test_weights_are_what_the_facts_say(one, P):
    """Of a player who changes nothing nobody sees; orders and efficiency are Shapley's alone."""
    weights = one.weights(P)
    np.testing.assert_allclose(induced_weights(one.weights(P + 1), P), weights, rtol=1e-12)
    places = weights * [P * math.comb(P - 1, s) for s in range(P)]  # in an order; 1: a plain mean
    if P > 2:
        assert np.allclose(places, 1) == one.efficient == one.draws_orders
        assert np.allclose(weights, 0.5 ** (P - 1)) == one.draws_sets
