"""The searches: optimum and beam against brute force, the four components one by one."""

from __future__ import annotations

import numpy as np
import oracles_anchors as oracles
import pytest
from anchor_cases import DATA, EDGES, X, explainer, one_class

from xaijax.methods.anchors.search import by_draws
from xaijax_kernels.rules.bandits import KlLucb, Validation
from xaijax_kernels.rules.beam import DONE, BeamSearch, extend, first_best, first_of_its_kind

EQUAL = np.full(len(DATA), 1 / len(DATA))


@pytest.mark.parametrize("threshold", [0.6, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("space", ["row", "conditional"])
def test_the_optimum_is_that_of_all_rules(space, threshold):
    anchors = explainer(perturbation=space)
    rules = anchors.explain(DATA, threshold=threshold, beam_size=None)
    for x, found in zip(DATA, rules, strict=True):
        wanted = oracles.optimum(space, one_class, x, DATA, EQUAL, EDGES, threshold - 1e-12)
        assert found.accepted == (wanted is not None)
        if wanted is not None:
            # The first of equal rules: predicates and columns break what coverage leaves open.
            assert (found.coverage, found.precision) == pytest.approx(wanted[:2], abs=1e-12)
            assert found.features == wanted[2]
        else:
            assert found.precision < threshold


def test_a_wide_beam_is_the_optimum_and_a_narrow_one_never_better():
    anchors = explainer(perturbation="row")
    best = anchors.explain(DATA, threshold=0.9, beam_size=None)
    wide = anchors.explain(DATA, threshold=0.9, beam_size=6)
    narrow = anchors.explain(DATA, threshold=0.9, beam_size=1)
    for one, two, three in zip(best, wide, narrow, strict=True):
        assert one.coverage == two.coverage
        assert three.coverage <= one.coverage
        assert three.precision >= 0.9 or not three.accepted


def test_where_no_rule_holds_the_most_precise_comes_back_flagged():
    """At most one column, and a threshold that only more would reach."""
    anchors = explainer(perturbation="row")
    rules = anchors.explain(X, threshold=1.0, max_size=1, beam_size=4)
    lost = [n for n, rule in enumerate(rules) if not rule.accepted]
    assert lost
    for n in lost:
        every = [(), *((j,) for j in range(4))]
        own = [oracles.precision("row", one_class, X[n], DATA, EQUAL, r, EDGES) for r in every]
        assert rules[n].precision == pytest.approx(max(own), abs=1e-12)
        assert "NOT ACCEPTED" in str(rules[n])


def test_a_size_of_none_is_the_empty_rule_only():
    for search in ("exact", "kl-lucb"):
        rules = explainer(perturbation="row").explain(X, max_size=0, search=search)
        assert all(rule.features == () and rule.coverage == 1.0 for rule in rules)


def test_candidates_are_each_set_once():
    kept = np.zeros((1, 2, 3), bool)
    kept[0, 0, 0] = kept[0, 1, 1] = True
    rules, valid = extend(kept, np.ones((1, 2), bool), np.ones((1, 3), bool))
    sets = [tuple(np.flatnonzero(r)) for r in rules[0][valid[0]]]
    assert sets == [(0, 1), (0, 2), (1, 2)]
    _, valid = extend(kept, np.ones((1, 2), bool), np.array([[True, True, False]]))
    assert valid.sum() == 1
    same = np.zeros((1, 4, 3), bool)
    same[0, 1:, 2] = True
    assert first_of_its_kind(same, np.ones((1, 4), bool))[0].tolist() == [True, True, False, False]


def test_ties_are_broken_in_the_order_stated():
    rules = np.array([[[1, 1, 0], [0, 0, 1], [0, 1, 0], [0, 1, 0]]], bool)
    cover, precision = np.array([[0.5, 0.5, 0.5, 0.4]]), np.array([[0.9, 0.9, 0.9, 1.0]])
    every = np.ones((1, 4), bool)
    assert first_best(every, cover, precision, rules)[0] == 2  # fewer predicates, first column
    assert first_best(every, cover, np.array([[0.91, 0.9, 0.9, 1]]), rules)[0] == 0
    assert first_best(every, np.array([[0.1, 0.1, 0.1, 0.4]]), precision, rules)[0] == 3


class Game:
    """A bandit whose rules have known precisions; columns 0..3, instance n."""

    cover = None
    F = 4

    def __init__(self, precision, N=3):
        self.precision, self.N, self.asked = precision, N, []

    def allowed(self):
        return np.ones((self.N, self.F), bool)

    def hits(self, instance, rules, first, draws):
        own = [(int(n), tuple(np.flatnonzero(r))) for n, r in zip(instance, rules, strict=True)]
        self.asked += [(*one, int(a), int(b)) for one, a, b in zip(own, first, draws, strict=True)]
        return np.array(
            [round(self.precision(*one) * d) for one, d in zip(own, draws, strict=True)]
        )


def coverage(rows, rules):
    return 0.5 ** rules.sum(axis=2)


def search(**parts):
    given = {
        "propose": extend,
        "cover": coverage,
        "identify": KlLucb(0.1, 0.1, 50, 10),
        "validate": Validation(0.95, 0.05, 50),
        "width": 2,
        "levels": 3,
        "delta": 0.1,
    }
    return BeamSearch(**{**given, **parts})


def truth(n, rule):
    """Columns 0 and n + 1 together hold; each alone does not."""
    return {0: 0.5, 1: 0.75 if rule in ((0,), (n + 1,)) else 0.4}.get(
        len(rule), 1.0 if {0, n + 1} <= set(rule) else 0.7
    )


def test_the_search_finds_the_rule_that_holds():
    game = Game(truth)
    found = by_draws(game, search())
    for n in range(3):
        assert found.rules[n].nonzero()[0].tolist() == [0, n + 1] and found.accepted[n]
        assert found.cover[n] == 0.25 and found.precision[n] == 1.0
    # No draw of a rule is ever asked for twice.
    spans = {}
    for n, rule, first, draws in game.asked:
        assert first == spans.get((n, rule), 0)
        spans[n, rule] = first + draws
    assert sum(spans.values()) == found.samples.sum()


def test_another_candidate_generation():
    """One that never proposes column 0 cannot find the rule."""

    def without_the_first(kept, has, allowed):
        rules, valid = extend(kept, has, allowed)
        return rules, valid & ~rules[:, :, 0]

    found = by_draws(Game(truth), search(propose=without_the_first))
    assert not found.accepted.any() and not found.rules[:, 0].any()


def test_another_identification():
    """One that takes the first arms unseen: its rules are kept, and validated."""

    class First:
        def init(self, valid):
            return np.zeros((len(valid), 1), np.int64)

        def step(self, state, arms, wanted):
            best = arms.valid & (np.cumsum(arms.valid, axis=1) <= wanted)
            return state, np.zeros(arms.valid.shape, np.int64), best

    game = Game(truth)
    found = by_draws(game, search(identify=First()))
    assert {rule for _, rule, _, _ in game.asked if len(rule) == 1} == {(0,), (1,)}
    assert found.rules[0].nonzero()[0].tolist() == [0, 1] and found.accepted[0]


def test_another_validation():
    """One that accepts whatever it sees: the empty rule, after one pull."""

    class Yes:
        def step(self, arms, rate):
            fresh = arms.valid & (arms.draws == 0)
            return np.where(fresh, 7, 0), arms.valid & ~fresh, np.zeros(arms.valid.shape)

    found = by_draws(Game(truth), search(validate=Yes()))
    assert found.accepted.all() and not found.rules.any() and (found.samples == 7).all()
    assert (found.cover == 1).all()


def test_finished_instances_are_taken_out():
    """Instance 0 holds at once; the others are asked for without it."""
    game = Game(lambda n, rule: 1.0 if n == 0 else truth(n - 1, rule), N=4)
    found = by_draws(game, search())
    assert not found.rules[0].any() and found.rules[1].nonzero()[0].tolist() == [0, 1]
    of_first = [place for place, one in enumerate(game.asked) if one[0] == 0]
    assert max(of_first) < 4 < len(game.asked)


def test_steps_move_every_instance_as_far_as_it_goes():
    """Without draws in between, a second step wants the same, and state arrays keep their size."""
    beam = search()
    state = beam.init(np.arange(2), np.ones((2, 4), bool))
    wanted = beam.step(state)
    assert wanted.place.tolist() == [0, 1] and (wanted.draws == 50).all()
    shapes = {name: np.shape(value) for name, value in vars(state).items()}
    beam.add(state, wanted, np.array([10, 10]))
    again = beam.step(state)
    assert len(again.place) == 8 and (state.phase != DONE).all()  # four candidates each
    assert {name: np.shape(value) for name, value in vars(state).items()} == shapes
