"""What is too large for QII says so before it asks, with advice that leads somewhere."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import xaijax as xj
from xaijax_kernels.games import sampling

E = xj.InputError
RNG = np.random.default_rng(2)
WIDE = RNG.normal(size=(9, 22))
MEMBERS = np.arange(9) > 4


class Counted:
    """A host model of two classes that counts the rows it is asked."""

    def __init__(self):
        self.rows = 0

        def f(rows):
            self.rows += len(rows)
            return (rows.sum(axis=1) > 0).astype(int)

        self.model = xj.as_model(f, backend="host", output="label", classes=[0, 1])


@pytest.mark.parametrize(
    "ask",
    [
        lambda q: q.unary(),
        lambda q: q.influence([0]),
        lambda q: q.marginal(0, [1]),
        lambda q: q.explain(),
    ],
    ids=["unary", "influence", "marginal", "explain"],
)
def test_everybody_against_everybody_is_refused_by_one_limit(ask):
    """400,000 continuous rows against themselves are 1.6e11 pairs, more than 2^36 rows."""
    big, counted = RNG.normal(size=(400_000, 3)), Counted()
    with pytest.raises(xj.EnumerationLimitError, match=r"at most 2\^36.*samples=n"):
        ask(xj.QII(counted.model, big, quantity="rate"))
    assert counted.rows == 0


def test_few_distinct_donors_are_not_too_many():
    """The same number of pairs, but each column alone has two values: a list of a few rows."""
    counted = Counted()
    binary = RNG.integers(0, 2, size=(300_000, 2)) * 2.0 - 1.0
    found = xj.QII(counted.model, binary, quantity="rate").influence([0])
    labels = lambda rows: rows.sum(axis=1) > 0  # noqa: E731
    ones = np.column_stack([np.ones(len(binary)), binary[:, 1]])
    share = np.mean(binary[:, 0] == 1)
    wanted = labels(binary).mean() - share * labels(ones).mean()
    np.testing.assert_allclose(found, [wanted], atol=1e-9)


DISPARITY = {"quantity": "disparity", "members": MEMBERS}
RATIO = {"quantity": "ratio", "members": MEMBERS}
PROBA = {"quantity": "individual", "outcome": "proba", "difference": "l1"}


def wide_model():
    def f(rows):
        p = 1 / (1 + np.exp(-rows.sum(axis=1)))
        return np.stack([1 - p, p], axis=1)

    return xj.as_model(f, backend="host", output="proba", classes=[0, 1])


@pytest.mark.parametrize(
    ("given", "ask", "says"),
    [
        (DISPARITY, lambda q: q.explain(), "signed=True"),
        (DISPARITY, lambda q: q.explain(index=np.ones(4)), "signed=True"),
        (DISPARITY, lambda q: q.game(), "signed=True"),
        (RATIO, lambda q: q.explain(), "quantity='disparity' with signed=True"),
        (PROBA, lambda q: q.explain(), "difference='subtract'"),
        ({"difference": "l1"}, lambda q: q.game(), "difference='subtract'"),
        ({**DISPARITY, "difference": "l1"}, lambda q: q.explain(), "'subtract' and signed=True"),
    ],
)
def test_what_has_no_unbiased_draws_is_told_so(given, ask, says):
    """Too many players: neither samples=n nor floor= is a way out, and neither is advised."""
    with pytest.raises(xj.EnumerationLimitError, match="samples= has no unbiased draws") as caught:
        ask(xj.QII(wide_model(), WIDE, **given))
    text = str(caught.value)
    assert says in text and "floor=" not in text and "samples=n" not in text


@pytest.mark.parametrize("given", [DISPARITY, RATIO])
def test_sampled_indices_of_two_means_advise_no_circle(given):
    with pytest.raises(E, match=r"no unbiased draws.*unary.*up to 20 players"):
        xj.QII(wide_model(), WIDE, samples=10, **given).explain()
    # And the ways out are ways out.
    signed = {"quantity": "disparity", "members": MEMBERS, "signed": True}
    assert xj.QII(wide_model(), WIDE, samples=10, **signed).explain().shape == (1, 22)
    assert xj.QII(wide_model(), WIDE, samples=10, **given).unary().shape == (1, 22)
    assert xj.QII(wide_model(), WIDE, **given).unary().shape == (1, 22)


def test_sampled_distances_advise_no_circle():
    with pytest.raises(E, match=r"no unbiased draws.*difference='subtract'.*unary"):
        xj.QII(wide_model(), WIDE, samples=10, **PROBA)
    assert xj.QII(wide_model(), WIDE, **PROBA).unary().shape == (9, 22)


def test_a_wide_table_gives_its_own_reason():
    """Not that of a difference, nor a samples= that game() refuses."""
    with pytest.raises(xj.EnumerationLimitError) as caught:
        xj.QII(wide_model(), WIDE).game()
    text = str(caught.value)
    assert "game() is the table of all 2^22 sets" in text
    assert "difference" not in text and "samples=n and say explain()" in text


@pytest.mark.parametrize("scheme", ["fresh", "fixed-pool"])
def test_the_number_of_draws_takes_no_memory(scheme):
    """10^10 draws at once would be 75 GiB; here a run stops after its first looks."""
    counted = Counted()
    data = RNG.normal(size=(20, 3))
    if scheme == "fixed-pool":  # a pool of 10^6 rows and 10^6 orders, whose means are kept
        qii = xj.QII(counted.model, data, samples=10**12, scheme=scheme, max_memory=50_000_000)
        with pytest.raises(xj.MemoryPlanError, match="samples=1,000,000,000,000 makes"):
            qii.explain(data[:1])
        return
    given = {"stop": "bernstein", "epsilon": 0.3, "quantity": "average"}
    qii = xj.QII(counted.model, data, samples=10**10, **given)
    tracemalloc.start()
    found = qii.explain()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.stats["draws"][0] < 100_000 and peak < 200_000_000


@pytest.mark.slow
def test_a_fixed_pool_is_asked_in_parts(monkeypatch):
    """The same values whether the pool is asked at once or in stretches, but for rounding."""
    from xaijax.estimators.draws import run as draws  # noqa: PLC0415

    counted, data = Counted(), RNG.normal(size=(20, 3))
    given = {"samples": 900, "scheme": "fixed-pool", "seed": 3}
    signed = {"quantity": "disparity", "members": data[:, 0] > 0, "signed": True}
    for kind in ({"quantity": "actual"}, signed):
        X = data[:2] if "members" not in kind else None
        whole = xj.QII(counted.model, data, **given, **kind).explain(X)
        monkeypatch.setattr(draws, "ROWS_OF_CHUNK", 28)  # 7 draws of 4 rows
        parts = xj.QII(counted.model, data, **given, **kind).explain(X)
        monkeypatch.undo()
        np.testing.assert_allclose(parts.values, whole.values, atol=1e-12)
        np.testing.assert_allclose(parts.std_errors, whole.std_errors, atol=1e-12)


def test_words_and_places_from_the_middle():
    """Any stretch of a stream alone, at no cost for what comes before it."""
    whole = sampling.words(3, (5,), 1000)
    for first in (0, 1, 3, 4, 5, 998):
        np.testing.assert_array_equal(sampling.words(3, (5,), 1000 - first, first), whole[first:])
    wheel = sampling.Wheel(np.array([0.2, 0.0, 0.5, 0.3, 0.0]))
    places = wheel.places(0, (1, 2), 0, 5000)
    np.testing.assert_array_equal(wheel.places(0, (1, 2), 1234, 4321), places[1234:4321])
    share = np.bincount(places, minlength=5) / 5000
    # 6 standard deviations of a share: 6 sqrt(0.25 / 5000) = 0.042.
    np.testing.assert_allclose(share, [0.2, 0, 0.5, 0.3, 0], atol=0.042)
    assert share[1] == share[4] == 0
    assert len(wheel.places(0, (1,), 10**13, 10**13 + 5)) == 5


def test_sampled_chances_are_drawn_once_each(monkeypatch):
    """Linear in the draws: no chunk draws those before it again."""
    drawn = []
    inner = sampling.Wheel.places

    def watched(self, seed, stream, first, stop):
        if stream[0] == sampling.CHANCES:
            drawn.append(stop - first)
        return inner(self, seed, stream, first, stop)

    monkeypatch.setattr(sampling.Wheel, "places", watched)
    data = RNG.normal(size=(20, 3))
    qii = xj.QII(Counted().model, data, quantity="individual", samples=20_000)
    qii.explain(data[:1], index=np.ones(8))
    assert sum(drawn) <= 2 * 20_000  # for the question, and for its answer
