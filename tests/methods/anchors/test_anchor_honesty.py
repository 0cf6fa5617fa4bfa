"""Rules are what they say: sums without rounding, numbers as the model reads them, own predicates.

The worlds are small enough that every answer is known by counting.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from often import all_but

import xaijax as xj
from xaijax_kernels.rules.bandits import KlLucb, Validation
from xaijax_kernels.rules.beam import BeamSearch, extend

E, T = xj.InputError, xj.InputTypeError
RNG = np.random.default_rng(0)
TENTHS = RNG.integers(0, 10, (60, 3)) / 10  # float64: 0.3 is not what float32 makes of it


def both(column=0, cut=0.5):
    """The same model, traced and on the host."""
    return (
        xj.as_model(lambda z: (z[:, column] > cut) * 1, output="label", classes=[0, 1]),
        xj.as_model(lambda z: (z[:, column] > cut) * 1, backend="host", output="label"),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "space", all_but(["row", "joint", "conditional", "flip"], slow=["joint", "flip"])
)
def test_a_rule_that_always_holds_holds_at_a_threshold_of_one(space):
    """Its weighted sum is 1, whatever the order in which the weights were summed."""
    B = 37 if space != "flip" else 21
    data = RNG.integers(0, 3, (B, 3)).astype(np.float32)
    for seed in range(6):
        weights = np.random.default_rng(seed).random(B) + 0.1
        for model in both(cut=1.5):
            anchors = xj.AnchorExplainer(
                model, data, bins=None, perturbation=space, weights=weights
            )
            rules = anchors.explain(data[:9], threshold=1.0, search="exact")
            assert all(rule.accepted and rule.precision == 1 for rule in rules)
            assert all(rule.features == (0,) for rule in rules)
            assert anchors.evaluate([], data[0]).coverage == 1


@pytest.mark.slow
def test_a_balanced_pool_and_a_share_reach_their_threshold():
    rare = RNG.random((300, 3)).astype(np.float32)
    rare[:, 0] = RNG.random(300) > 0.93
    anchors = xj.AnchorExplainer(both()[0], rare, bins=None, perturbation="row", weights="balanced")
    rules = anchors.explain(rare[:40], threshold=1.0)
    assert all(rule.accepted and str(rule).count("100%") == 1 for rule in rules)
    held = xj.AnchorExplainer(both()[0], rare, bins=None, perturbation="row")
    for rule in held.explain(rare[:40], threshold=1.0, confirm=0.37, stop_epsilon=0.2):
        assert rule.accepted and rule.precision == 1


@pytest.mark.slow
@pytest.mark.parametrize("bins", [None, {0: [0.3, 0.6]}, "quartile"])
def test_rules_apply_to_the_rows_they_were_made_of(bins):
    """Rows of float64, a model that reads float32: 0.3 is 0.3."""
    for model in both():
        anchors = xj.AnchorExplainer(model, TENTHS, bins=bins, perturbation="row")
        rules = anchors.explain(TENTHS, threshold=0.9)
        again = xj.Rules.from_json(rules.to_json())
        for rule, loaded, x in zip(rules, again, TENTHS, strict=True):
            assert rule.applies(x[None])[0] and loaded.applies(x[None])[0]
            assert rule.applies(TENTHS).mean() == pytest.approx(rule.coverage, abs=1e-12)
            frame = pd.DataFrame(TENTHS, columns=list(rule.names))
            np.testing.assert_array_equal(rule.applies(frame), loaded.applies(TENTHS))


@pytest.mark.slow
def test_cuts_and_own_predicates_are_read_as_the_data_are():
    for model in both():
        anchors = xj.AnchorExplainer(model, TENTHS, bins={0: [0.3, 0.6]})
        for value, bin_ in ((0.3, (-np.inf, 0.3)), (0.6, (0.3, 0.6)), (0.7, (0.6, np.inf))):
            x = TENTHS[TENTHS[:, 0] == value][0]
            own = anchors.evaluate([0], x).predicates[0]
            np.testing.assert_allclose(own[1:], bin_, atol=1e-6)
            assert anchors.evaluate([(0, [value])], x).coverage == pytest.approx(
                (TENTHS[:, 0] == value).mean()
            )
            assert anchors.evaluate([(0, 0.0, value)], x).features == (0,)
    close = {0: [0.1, 0.1 + 1e-12]}  # which float64 tells apart, and float32 does not
    xj.AnchorExplainer(both()[0], TENTHS, bins=close)
    for data, cuts in ((TENTHS.astype(np.float32), close), (TENTHS, {0: [0.1, 0.1]})):
        with pytest.raises(E, match="must increase"):
            xj.AnchorExplainer(both()[0], data, bins=cuts)


@pytest.mark.slow
@pytest.mark.parametrize("space", ["row_bin", "flip"])
def test_an_interval_of_ones_own_has_no_exact_average(space):
    anchors = xj.AnchorExplainer(both()[0], TENTHS, bins=None, perturbation=space)
    assert anchors.evaluate([0], TENTHS[0]).search == "exact"
    x = TENTHS[TENTHS[:, 0] == 0.4][0]
    rule = anchors.evaluate([(0, 0.2, 0.8)], x)
    assert rule.search == "table" and rule.precision_lower is not None
    assert rule.std_error is not None and rule.std_error > 0
    inside = TENTHS[(TENTHS[:, 0] > 0.2) & (TENTHS[:, 0] <= 0.8), 0]
    assert abs(rule.precision - (inside <= 0.5).mean()) < 5 * rule.std_error
    with pytest.raises(xj.EnumerationLimitError, match="draws kept columns from their bins"):
        anchors.evaluate([(0, 0.2, 0.8)], x, search="exact")


@pytest.mark.slow
def test_a_rule_of_ones_own_in_a_sampler_s_space_is_reported_as_given():
    anchors = xj.AnchorExplainer(
        both()[0], TENTHS, perturbation=lambda X, kept, u: np.where(kept, X, u)
    )
    rule = anchors.evaluate([(0, 0.15, 0.65)], TENTHS[TENTHS[:, 0] == 0.4][0])
    np.testing.assert_allclose(rule.predicates[0][1:], (0.15, 0.65), atol=1e-6)
    assert rule.rule == ["0.15 < x0 <= 0.65"]
    assert rule.coverage == pytest.approx(0.5, abs=0.03)


@pytest.mark.slow
def test_a_confirmed_rule_reaches_the_threshold_on_the_share_that_is_reported():
    rng = np.random.default_rng(0)
    model = xj.as_model(lambda z: (z[:, 0] + z[:, 1] > 1) * 1, output="label", classes=[0, 1])
    anchors = xj.AnchorExplainer(model, rng.random((3000, 3)), perturbation="row")
    X = rng.random((200, 3))
    below = [
        rule.accepted and rule.precision < 0.9
        for share in (0.5, 0.7)
        for rule in anchors.explain(X, search="exact", threshold=0.9, confirm=share)
    ]
    assert not any(below)


@pytest.mark.slow
def test_padding_is_counted_apart():
    """What the model is asked is the rows, what fills calls up, and the probe."""
    rows = []

    def f(z):
        rows.append(len(z))
        return (z[:, 0] + z[:, 1] > 1) * 1

    model = xj.as_model(f, backend="host", output="label")
    data = np.random.default_rng(1).random((75, 3))
    for space, search in (("row", "exact"), ("joint", "exact"), ("row_bin", "sar")):
        anchors = xj.AnchorExplainer(model, data, perturbation=space)
        rows.clear()
        anchors.explain(data[:1])
        probes = sum(rows[:-1])
        rows.clear()
        stats = anchors.explain(data[:20], search=search).stats
        asked = stats["model_rows"] + stats["padded_rows"]
        assert stats["padded_rows"] > 0 and asked <= sum(rows) <= asked + probes


@pytest.mark.slow
def test_fresh_draws_are_for_the_rows_of_the_rules():
    for model in both():
        anchors = xj.AnchorExplainer(model, TENTHS)
        rules = anchors.explain(TENTHS[:20])
        assert anchors.check(rules, TENTHS[:20], samples=50).shape == (20,)
        with pytest.raises(E, match="X row .* does not satisfy its rule"):
            anchors.check(rules, TENTHS[:20][::-1], samples=50)


@pytest.mark.slow
def test_rules_about_players_say_that_they_are():
    images = RNG.random((6, 4, 4)).astype(np.float32)
    parts = np.repeat(np.repeat(np.arange(4).reshape(2, 2), 2, axis=0), 2, axis=1)
    model = xj.as_model(
        lambda z: (z[:, 0].mean(axis=1) > 0.5) * 1, output="label", input_shape=(4, 4)
    )

    def sampler(X, kept, u):
        return np.where(kept[:, parts.ravel()].reshape(X.shape), X, np.float32(0.3))

    rules = xj.AnchorExplainer(model, images, perturbation=sampler, players=parts).explain(images)
    assert rules.feature_names == tuple(f"player {p}" for p in range(4))
    some = next(rule for rule in rules if rule.features)
    for rows in (images, images.reshape(6, 16)):
        with pytest.raises(E, match="players="):
            some.applies(rows)


@pytest.mark.slow
def test_what_was_picked_comes_back_from_a_file(tmp_path):
    picked = xj.AnchorExplainer(both()[0], TENTHS).explain(TENTHS[:20]).pick(2, TENTHS)
    loaded = xj.Rules.load(picked.save(tmp_path / "rules.json"))
    assert dict(loaded.stats) == dict(picked.stats)
    assert loaded.stats["picked"] == picked.stats["picked"]


def test_more_bad_input_is_named():
    traced = both()[0]
    with pytest.raises(T, match="the sampler must return rows, got NoneType"):
        xj.AnchorExplainer(traced, TENTHS, perturbation=lambda X, kept, u: None).explain(TENTHS)
    with pytest.raises(E, match="weights= are of the data rows"):
        xj.AnchorExplainer(traced, TENTHS, weights="balanced", perturbation=lambda X, kept, u: X)
    number = xj.as_model(lambda z: jnp.sum(z, axis=1))
    with pytest.raises(E, match="tolerance="):
        xj.AnchorExplainer(number, TENTHS).explain(TENTHS[:2])


@pytest.mark.slow
def test_a_lone_row_of_a_frame_has_the_frame_s_types():
    frame = pd.DataFrame(
        {
            "age": RNG.integers(18, 70, 40),
            "job": pd.Categorical(RNG.choice(["a", "b"], 40)),
            "note": np.array(["x", None] * 20, object),
        }
    )
    model = xj.as_model(
        lambda z: np.where(z["age"] > 40, "yes", "no"), backend="host", output="label"
    )
    anchors = xj.AnchorExplainer(model, frame)
    for n in (0, 1):
        by_row = anchors.evaluate([("age", 0, 100), "note"], frame.iloc[n])
        assert str(by_row) == str(
            anchors.evaluate([("age", 0, 100), "note"], frame.iloc[n : n + 1])
        )
    wrong = frame.iloc[0].copy()
    wrong["age"] = "old"
    with pytest.raises(T, match="of its column's dtype"):
        anchors.evaluate(["age"], wrong)
    for column, values in (("age", ["old", "new"]), ("note", [1.0, 2.0])):
        with pytest.raises((T, E), match=column):
            anchors.explain(frame[:2].assign(**{column: values}))


def test_of_equally_precise_rules_that_do_not_hold_the_widest_comes_back():
    """All rules agree with nobody: the empty rule applies to most."""
    beam = BeamSearch(
        propose=extend,
        cover=lambda rows, rules: 1.0 / (1.0 + rules.sum(axis=2)),
        identify=KlLucb(0.15, 0.1, 100, 20),
        validate=Validation(0.95, 0.05, 100),
        width=2,
        levels=3,
        delta=0.1,
    )
    state = beam.init(np.arange(1), np.ones((1, 3), bool))
    wanted = beam.step(state)
    while len(wanted.place):
        beam.add(state, wanted, np.zeros(len(wanted.place), np.int64))
        wanted = beam.step(state)
    assert not state.accepted[0] and not state.best[0].any()
