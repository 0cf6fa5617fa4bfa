"""Rules of superpixels and of words: a kept one stays as it is, a free one is drawn or masked.

Precisions are compared with averages over all data rows and all masks, from the definition.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.games.measure.replacement.baseline import RowOfEach
from xaijax.games.measure.replacement.rows import BackgroundRows
from xaijax.games.rules.players_space import PlayerSpace
from xaijax.players.players import Players
from xaijax.tables.table import WordTable

RNG = np.random.default_rng(31)
SIDE, P = 4, 4
DATA = RNG.random((12, SIDE, SIDE)).astype("f4")
X = DATA[:3]
SEGMENTS = np.arange(16).reshape(SIDE, SIDE) // 8 * 2 + np.arange(16).reshape(SIDE, SIDE) % 4 // 2
WEIGHTS = np.array([3.0, 1, 1, 1])
DRAWS = 20_000
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])


def said(z: Any, np_: Any) -> Any:
    """A class that hangs on the brightness of the four quarters."""
    parts = [z[:, :2, :2], z[:, :2, 2:], z[:, 2:, :2], z[:, 2:, 2:]]
    light = [part.mean(axis=(1, 2)) * w for part, w in zip(parts, WEIGHTS, strict=True)]
    return (sum(light) > 3.05) * 1


def wrapped(backend: str, function: Any) -> Any:
    np_ = jnp if backend == "jax" else np
    return xj.as_model(lambda z: function(z, np_), backend=backend, output="label")


def precision(x: np.ndarray, kept: set[int], owner: np.ndarray, space: str, p: float) -> float:
    """P(the model says of z what it says of x), by all donors and masks."""
    free = [q for q in range(P) if q not in kept and (owner == q).any()]
    own, total = said(x[None], np)[0], 0.0
    others = DATA if space != "masked" else np.zeros((1, SIDE, SIDE), "f4")
    for taken in product((False, True), repeat=len(free)):
        chance = np.prod([p if one else 1 - p for one in taken])
        if chance == 0:
            continue
        where = np.isin(owner, [q for q, one in zip(free, taken, strict=True) if one])
        total += chance * (said(np.where(where, others, x), np) == own).mean()
    return float(total)


def spaces(name: str) -> dict[str, Any]:
    return {
        "row": {"perturbation": "row"},
        "flip": {"perturbation": "flip", "flip_probability": 0.4},
        "masked": {
            "perturbation": xj.Baseline(np.zeros((SIDE, SIDE), "f4")),
            "flip_probability": 0.6,
        },
    }[name]


CHANCES = {"row": 1.0, "flip": 0.4, "masked": 0.6}


@BACKENDS
@pytest.mark.parametrize("space", ["row", "flip", "masked"])
def test_the_precision_of_superpixels_is_that_of_the_definition(backend: str, space: str) -> None:
    anchors = xj.AnchorExplainer(wrapped(backend, said), DATA, players=SEGMENTS, **spaces(space))
    rules = anchors.explain(X, threshold=0.9)
    again = anchors.check(rules, X, samples=DRAWS)
    for rule, x, found in zip(rules, X, again, strict=True):
        exact = precision(x, set(rule.features), SEGMENTS, space, CHANCES[space])
        # 5.5 standard errors: fewer than one false alarm in 10^7 draws of these.
        assert abs(found - exact) <= 5.5 * np.sqrt(0.25 / DRAWS)
        assert rule.coverage is None and all("as it is" in one for one in rule.rule)
        assert rule.accepted == (rule.precision >= 0.9)
    assert rules.provenance["perturbation"] == space


@BACKENDS
def test_each_image_has_its_own_segments(backend: str) -> None:
    own = np.stack([SEGMENTS, SEGMENTS.T, np.minimum(SEGMENTS, 2)])
    anchors = xj.AnchorExplainer(wrapped(backend, said), DATA, players=own, perturbation="flip")
    rules = anchors.explain(X)
    assert 3 not in rules[2].features, "the third image has no player 3"
    again = anchors.check(rules, X, samples=DRAWS)
    for rule, x, owner, found in zip(rules, X, own, again, strict=True):
        exact = precision(x, set(rule.features), owner, "flip", 0.5)
        assert abs(found - exact) <= 5.5 * np.sqrt(0.25 / DRAWS)
    with pytest.raises(xj.InputError, match="3 instances"):
        anchors.explain(X[:2])


PAD, MASK = 0, 1
WORTH = np.array([0.0, 0.0, 2.0, -1.0, 0.5, -0.5])


def sentence(z: Any, np_: Any) -> Any:
    """Whether the words of a sentence are worth more than nothing; word 3 turns all others."""
    worth = np_.asarray(WORTH)[z["ids"]] * z["seen"]
    turned = np_.where((z["ids"] == 3).any(axis=1), -1.0, 1.0)
    return (turned * worth.sum(axis=1) > 0) * 1


@pytest.mark.slow
@BACKENDS
def test_kept_words_stay_and_free_ones_are_masked(backend: str) -> None:
    ids = np.array([[2, 4, 5, 0], [2, 3, 4, 4], [5, 5, 0, 0]])
    text = {"ids": ids, "seen": ids != PAD}

    def masked(z: Any) -> Any:
        return {"ids": np.where(z["seen"], MASK, PAD), "seen": z["seen"]}

    players = {"ids": np.arange(4), "seen": -1}
    anchors = xj.AnchorExplainer(
        wrapped(backend, sentence), text, perturbation=xj.Baseline(masked), players=players
    )
    rules = anchors.explain(text)
    # Sentence 0: +2 alone makes it. Sentence 1: word 3 turns, and 2 is worth more than 4 and 4.
    assert rules[0].features == (0,) and rules[0].rule == ["ids[0] as it is"]
    assert 1 in rules[1].features and rules[1].prediction == 0
    assert rules[2].features == () and rules[2].precision == 1
    assert all(rule.accepted for rule in rules)


@pytest.mark.slow
def test_players_that_no_draw_changes_are_in_no_rule() -> None:
    """Padding is as its baseline, and an entry may be the same in all data rows."""
    own = np.array([[7, 3, 3, 0], [7, 5, 3, 0]], np.int32)
    owner = np.array([0, 1, 2, -1])
    for rows, kind, expected in [
        (np.array([[1, 3, 1, 9], [1, 5, 3, 9]]), RowOfEach, [[1, 0, 1], [1, 0, 0]]),
        (np.array([[7, 3, 4, 9], [7, 3, 3, 9]]), BackgroundRows, [[0, 0, 1], [0, 1, 1]]),
    ]:
        table = WordTable((4,), rows.dtype, None)
        others = kind(table, rows.astype(np.int32), np.ones(2) / 2, None, np.arange(2), 2)
        space = PlayerSpace("any", Players(owner, ("a", "b", "c")), 0.5, None, False)
        found = space.matters(own, owner, others, 0)
        np.testing.assert_array_equal(found, np.array(expected, bool))

    def masked(z: Any) -> Any:
        return {"ids": np.where(z["seen"], MASK, PAD), "seen": z["seen"]}

    text = {"ids": np.array([[PAD] * 4, [MASK, 2, PAD, PAD]]), "seen": np.zeros((2, 4), bool)}
    text["seen"][1, :2] = True
    both = {"ids": np.arange(4), "seen": np.arange(4)}
    anchors = xj.AnchorExplainer(
        wrapped("jax", sentence), text, perturbation=xj.Baseline(masked), players=both
    )
    rules = anchors.explain(text)
    assert [rule.features for rule in rules] == [(), (1,)]
    assert repr(anchors).startswith("AnchorExplainer(perturbation='masked'")


def test_drawn_words_of_several_arrays_come_from_one_sentence() -> None:
    """ids and seen are replaced together where they share players."""
    seen = []

    def model(z: Any) -> Any:
        seen.append((np.array(z["ids"]), np.array(z["twice"])))
        return (z["ids"].sum(axis=1) > 6) * 1

    ids = RNG.integers(0, 5, (9, 3))
    text = {"ids": ids, "twice": 2 * ids}
    same = {"ids": np.arange(3), "twice": np.arange(3)}
    asked = xj.as_model(model, backend="host", output="label")
    xj.AnchorExplainer(asked, text, perturbation="flip", players=same).explain(
        {"ids": ids[:2], "twice": 2 * ids[:2]}
    )
    assert all((2 * one == other).all() for one, other in seen)
    assert all(one.dtype == ids.dtype for one, _ in seen)


@pytest.mark.slow
def test_ids_go_by_equality_and_numbers_by_bins() -> None:
    data = {"ids": RNG.integers(2, 5, (60, 1)), "size": RNG.random(60).astype("f4")}

    def model(z: Any) -> Any:
        return ((z["ids"][:, 0] == 3) | (z["size"] > 0.9)) * 1

    asked = xj.as_model(model, output="label")
    row = {"ids": np.array([[3]]), "size": np.array([0.1], "f4")}
    (rule,) = xj.AnchorExplainer(asked, data).explain(row)
    assert rule.rule == ["ids[0] = 3"]
    assert rule.coverage == pytest.approx((data["ids"][:, 0] == 3).mean())


def test_the_repr_says_the_space_and_the_players() -> None:
    space = {"perturbation": "row", "players": SEGMENTS}
    text = repr(xj.AnchorExplainer(wrapped("host", said), DATA, **space))
    assert "perturbation='row'" in text and "4 players" in text and "draws of players" in text


def test_rules_of_players_are_refused_where_they_mean_nothing() -> None:
    model = wrapped("host", said)
    for options, said_ in [
        ({"players": SEGMENTS}, "row_bin"),
        ({}, "'flip'"),
        ({"players": SEGMENTS, "perturbation": "row", "weights": "balanced"}, "balanced"),
        ({"perturbation": xj.Baseline(np.zeros((2, 2), "f4"))}, "shape"),
        ({"perturbation": xj.Baseline(np.zeros((4, 4), "f4")), "weights": np.ones(12)}, "weights"),
        (
            {"players": np.stack([SEGMENTS] * 3), "perturbation": lambda X, kept, u: X},
            "each instance",
        ),
    ]:
        with pytest.raises(xj.InputError, match=said_):
            xj.AnchorExplainer(model, DATA, **options).explain(X)
    with pytest.raises(xj.InputError, match="3 are needed"):
        halved = xj.Baseline(lambda rows: rows[:1])
        xj.AnchorExplainer(model, DATA, players=SEGMENTS, perturbation=halved).explain(X)
