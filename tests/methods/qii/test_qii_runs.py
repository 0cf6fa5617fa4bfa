"""What a run of QII costs and keeps: rows, traces, bits, memory, provenance, files."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import xaijax as xj
from xaijax.games import queries as games

RNG = np.random.default_rng(1)
A = RNG.normal(size=5).astype(np.float32)
D = RNG.choice([0.0, 1.0, 2.0], size=(40, 5)).astype(np.float32)
MEMBERS = D[:, 0] == 0


def f(rows):
    return (jnp.sin(rows @ A) + rows[:, 0] * rows[:, 1] > 0.3) * 1.0


@pytest.mark.slow
def test_one_trace_for_all_questions():
    """The probe's and the run's, however many questions, quantities and sampled answers."""
    traces = []
    model = xj.as_model(lambda rows: traces.append(1) or f(rows), output="label")
    qii = xj.QII(model, D, quantity="individual", positive=1.0)
    qii.game()
    qii.explain()
    qii.unary(D[:3])
    seen = len(traces)
    assert seen <= 3  # the labels of the data, the probe, the run
    qii.influence([1, 2])
    xj.QII(model, D, quantity="average").explain()
    xj.QII(model, D, quantity="average", samples=50).explain()
    assert len(traces) <= seen + 2


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ["score", "proba"])
def test_bits_of_any_chance_do_not_depend_on_the_company(outcome):
    """Weights 1 to 32, so that sums round: part and order of the rows change no bit."""

    def chances(r):
        p = 1 / (1 + jnp.exp(r @ A))
        return jnp.stack([1 - p, p], 1)

    model = xj.as_model(chances, output="proba")
    qii = xj.QII(model, D + 0.1, quantity="individual", outcome=outcome)
    chance = np.arange(32.0) + 1
    whole = qii.explain(index=chance).values
    np.testing.assert_array_equal(qii.explain((D + 0.1)[7:9], index=chance).values, whole[7:9])
    np.testing.assert_array_equal(qii.explain((D + 0.1)[::-1], index=chance).values, whole[::-1])


@pytest.mark.slow
@pytest.mark.parametrize("quantity", ["actual", "disparity"])
def test_bits_do_not_depend_on_the_company(quantity):
    model = xj.as_model(f, output="label")
    members = MEMBERS if quantity == "disparity" else None
    given = {"quantity": quantity, "members": members, "tile": 256}
    one = xj.QII(model, D, batch_size=256, **given)
    other = xj.QII(model, D, batch_size=4096, **given)
    if quantity == "actual":
        whole = one.explain().values
        np.testing.assert_array_equal(other.explain().values, whole)
        np.testing.assert_array_equal(one.explain(D[7:9]).values, whole[7:9])
        np.testing.assert_array_equal(one.unary(D[7:9]).values, one.unary().values[7:9])
        np.testing.assert_array_equal(one.game(D[7:9]).values, one.game().values[7:9])
    else:
        np.testing.assert_array_equal(other.explain().values, one.explain().values)


def test_unary_asks_the_distinct_donors_only():
    """Three values a column: two other hybrids of each, and the row itself."""
    asked = []

    def host(rows):
        asked.append(len(rows))
        return rows[:, 0] > rows[:, 1]

    model = xj.as_model(host, backend="host", output="label", classes=[False, True])
    data = np.float64([[a, b] for a in range(3) for b in range(3)])
    found = xj.QII(model, data, quantity="average").unary()
    # Per row 2 columns x 2 values and itself; the ends: f(x) again for the score, the donors.
    assert found.stats["model_rows"] <= 9 * (1 + 4) + 9 + 9 + 9
    assert sum(asked) <= found.stats["model_rows"] + 2 * 32 + 64  # and what the probe asks


@pytest.mark.slow
def test_few_coalitions_by_donors_or_by_the_list_agree():
    problem = xj.QII(xj.as_model(f, output="label"), D)._problem
    game, *_ = problem.begin(None)
    problem.ready()
    masks = np.concatenate([np.ones((1, 5), bool), ~np.eye(5, dtype=bool), np.zeros((1, 5), bool)])
    np.testing.assert_allclose(
        games.values(game, masks, distinct=True), games.values(game, masks), atol=1e-6
    )


@pytest.mark.slow
def test_the_table_is_never_built_for_all_rows(monkeypatch):
    """A mean over the data is added stretch by stretch: with little memory the same numbers."""
    model = xj.as_model(f, output="label")
    given = {"quantity": "disparity", "members": MEMBERS, "tile": 256}
    whole = xj.QII(model, D, **given).game().values
    sizes = []
    inner = games.full_tables

    def watched(*arguments):
        for rows, table in inner(*arguments):
            sizes.append(table.nbytes)
            yield rows, table

    monkeypatch.setattr(games, "full_tables", watched)
    cut = xj.QII(model, D, max_memory=1_000_000, **given).game().values
    np.testing.assert_allclose(cut, whole, atol=1e-6)  # float32 sums over donors in other stretches
    assert len(sizes) > 1 and max(sizes) <= 1_000_000 // 4


@pytest.mark.slow
def test_provenance_tells_what_a_release_needs():
    model = xj.as_model(f, output="label")
    weights = np.arange(1.0, 41.0)
    found = xj.QII(
        model, D, quantity="disparity", members=MEMBERS, signed=True, data_weights=weights
    ).explain(index=xj.SizeLimited(2))
    facts = found.provenance
    own, rest = weights[MEMBERS], weights[~MEMBERS]
    assert facts["method"] == "QII" and facts["quantity"] == "disparity" and facts["signed"]
    assert (facts["data_rows"], facts["pool_rows"], facts["pool_is_data"]) == (40, 40, True)
    assert (facts["members"], facts["rest"]) == (MEMBERS.sum(), (~MEMBERS).sum())
    assert facts["largest_data_weight"] == max(own.max() / own.sum(), rest.max() / rest.sum())
    assert facts["largest_pool_weight"] == pytest.approx(40 / weights.sum())
    assert facts["bounds"] == [0.0, 1.0] and facts["difference"] == "subtract"
    assert facts["outcome"] == "label" and facts["positive"] == 1.0
    assert facts["scheme"] == "exact" and facts["samples"] is None
    assert len(facts["index_weights"]) == 5 and facts["players"] == 5
    text = repr(facts)
    assert "array" not in text and len(text) < 2_000  # sizes and names, never rows
    drawn = xj.QII(model, D, samples=64, scheme="fixed-pool").explain(D[:2]).provenance
    assert (drawn["samples"], drawn["scheme"]) == (64, "fixed-pool")
    assert not xj.QII(model, D, pool=D[:5]).unary().provenance["pool_is_data"]


@pytest.mark.slow
def test_provenance_tells_whose_the_rows_are():
    """The data's own rows under another name, in another order or weighted, are still private."""
    model = xj.as_model(f, output="label")

    def facts(X=None, **given):
        return xj.QII(model, D, **given).unary(X).provenance

    other = D + 1
    for pool in (D, D.copy(), D[::-1], D.tolist()):
        assert facts(pool=pool, quantity="rate")["pool_is_data"]
    weights = np.r_[0.0, np.ones(39)]
    assert facts(pool=D, pool_weights=weights, quantity="rate")["pool_is_data"]
    assert facts(pool_weights=weights, quantity="rate")["pool_is_data"]
    for pool in (other, D[:39], np.concatenate([D[:39], other[:1]]), xj.Baseline(D[0])):
        assert not facts(pool=pool, quantity="rate")["pool_is_data"]
    assert facts()["X_is_data"] and facts(D.copy())["X_is_data"] and facts(D[::-1])["X_is_data"]
    assert not facts(other)["X_is_data"] and not facts(D[:3])["X_is_data"]
    assert facts(quantity="rate")["X_is_data"] is None
    frame = pd.DataFrame({"a": list("xyzx"), "b": [1, 2, 1, 2]})
    host = xj.as_model(
        lambda r: (r["a"] == "x").to_numpy(), backend="host", output="label", classes=[False, True]
    )
    for rows, same in ((frame[::-1], True), (frame.assign(a=list("xyzw")), False)):
        found = xj.QII(host, frame, pool=rows).unary(rows).provenance
        assert found["pool_is_data"] is found["X_is_data"] is same


@pytest.mark.slow
def test_provenance_tells_floor_and_stop():
    model = xj.as_model(
        lambda r: jnp.stack([0 * r[:, 0] + 0.25, 0 * r[:, 0] + 0.75], 1), output="proba"
    )
    given = {"quantity": "individual", "outcome": "proba"}
    facts = xj.QII(model, D, difference="kl", floor=0.125, **given).unary(D[:1]).provenance
    assert facts["floor"] == 0.125 and facts["epsilon"] is facts["delta"] is None
    drawn = xj.QII(model, D, samples=500, stop="bernstein", epsilon=0.5, delta=0.25, **given)
    facts = drawn.unary(D[:1]).provenance
    assert (facts["stop"], facts["epsilon"], facts["delta"]) == ("bernstein", 0.5, 0.25)
    assert facts["floor"] is None


def test_the_repr_tells_the_question():
    model = xj.as_model(f, output="label")
    gap = xj.QII(model, D, quantity="disparity", members=MEMBERS, signed=True, positive=0)
    assert "signed=True" in repr(gap) and "positive=0" in repr(gap)
    assert "last label" in repr(xj.QII(model, D, quantity="rate"))
    assert "one constant pool row" in repr(xj.QII(model, D, pool=xj.Baseline(D[0])))
    drawn = xj.QII(model, D, quantity="average", data_weights=np.arange(1, 41), samples=64,
                   scheme="fixed-pool")  # fmt: skip
    assert "40 data rows (weighted), 40 pool rows (weighted), samples=64, scheme='fixed-pool'" in (
        repr(drawn)
    )
    sampler = xj.QII(model, D, pool=lambda rng, n: D[:n], samples=9)
    assert "9 pool rows of a sampler" in repr(sampler)


@pytest.mark.slow
def test_explanations_travel(tmp_path):
    model = xj.as_model(f, output="label")
    for found in (
        xj.QII(model, D, samples=64).explain(D[:3]),
        xj.QII(model, D).explain(index="deegan-packel", threshold=0.2),
        xj.QII(model, D, quantity="rate").explain(index=np.full(32, 1 / 32)),
    ):
        found.save(tmp_path / "one.npz")
        same = xj.load(tmp_path / "one.npz")
        np.testing.assert_array_equal(same.values, found.values)
        assert dict(same.provenance) == dict(found.provenance)
        assert "QII" in repr(found)
    a, b = (xj.QII(model, D).explain(D[i : i + 2]) for i in (0, 2))
    np.testing.assert_array_equal(xj.merge([a, b]).values, xj.QII(model, D).explain(D[:4]).values)
    other = xj.QII(model, D, quantity="individual").explain(D[:2])
    with pytest.raises(xj.InputError, match="quantity"):
        xj.merge([a, other])


@pytest.mark.slow
def test_efficiency_comes_with_its_bound():
    model = xj.as_model(f, output="label")
    for given in (
        {},
        {"quantity": "average"},
        {"quantity": "disparity", "members": MEMBERS},
        {"difference": "l1", "quantity": "individual"},
    ):
        stats = xj.QII(model, D, **given).explain().stats
        assert (stats["efficiency_residual"] <= stats["efficiency_bound"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("quantity", ["individual", "rate"])
def test_the_bound_of_a_decision_is_that_of_rounding(quantity):
    """A structure that decides for the same class as the model has no value of 1 to allow."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4)).astype(np.float32)
    y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    model = xj.as_model(LogisticRegression().fit(X, y))
    far = np.abs(X[:, 0] + X[:, 1]) > 0.5  # from the decision
    stats = xj.QII(model, X[far], quantity=quantity, pool=X[:20]).explain().stats
    assert stats["structure"] is not None
    # Sums of 20 means of zeros and ones, in float32 at the worst: far below a decision that flips.
    assert stats["efficiency_bound"].max() < 1e-4
    assert (stats["efficiency_residual"] <= stats["efficiency_bound"]).all()


def test_frames_with_texts():
    frame = pd.DataFrame({"job": ["a", "b", "a", "c"] * 5, "age": np.arange(20) % 7})
    model = xj.as_model(
        lambda rows: ((rows["job"] == "a") & (rows["age"] > 2)).map({True: "yes", False: "no"}),
        backend="host",
        output="label",
        classes=["no", "yes"],
    )
    qii = xj.QII(model, frame, quantity="disparity", members={"job": "a"})
    proxies = qii.proxies(["job"])
    assert [one.name for one in proxies] == ["age"] and proxies[0].std_error is None
    assert qii.positive == "yes"
    drawn = xj.QII(model, frame, samples=50, quantity="individual")
    together = drawn.explain(frame.iloc[:4]).values
    np.testing.assert_array_equal(drawn.explain(frame.iloc[2:3]).values, together[2:3])


def test_labels_of_every_kind_of_model():
    """`decided` agrees with `labels` for scores, columns, decisions, thresholds and labels."""
    two = jnp.stack

    def p(r):
        return 1 / (1 + jnp.exp(-r[:, 0] + r[:, 1]))

    models = [
        xj.as_model(lambda r: two([1 - p(r), p(r)], 1), output="proba", classes=["n", "y"]),
        xj.as_model(lambda r: two([1 - p(r), p(r)], 1), output="n", classes=["n", "y"]),
        xj.as_model(p, output="proba"),
        xj.as_model(p, threshold=0.3),
        xj.as_model(lambda r: r[:, 0] - r[:, 1], output="decision", classes=["n", "y"]),
        xj.as_model(lambda r: jnp.round(r[:, 0]), output="label"),
    ]
    host = [
        xj.as_model(lambda r: np.where(r[:, 0] > 0, "u", "d"), backend="host", output="label"),
        xj.as_model(lambda r: r[:, 0] - r[:, 1], backend="host", threshold=0.1),
    ]
    for model in models + host:
        decided, codes = model.decided()
        expected = codes.of(np.asarray(model.labels(D)))
        np.testing.assert_array_equal(decided.predict(D), expected)


@pytest.mark.slow
def test_the_noise_of_a_randomised_classifier_is_told():
    """Its vector of chances: errors that are those of many runs; no table, no distance of it."""
    noise = np.random.default_rng(0)

    def chances(rows):
        p = 0.1 + 0.8 / (1 + np.exp(-rows[:, 0] * rows[:, 1] + rows[:, 2]))
        p = p + noise.uniform(-0.09, 0.09, size=len(p))
        return np.stack([1 - p, p], axis=1)

    model = xj.as_model(
        chances, backend="host", output="proba", classes=["n", "y"], deterministic=False
    )
    few = D[:4, :3]
    given = {"pool": few, "quantity": "individual", "outcome": "proba"}
    for ask in (
        lambda q: q.explain(few[:1], index=xj.SizeLimited(1)),
        lambda q: q.explain(few[:1], index=np.full(8, 1 / 8)),
        lambda q: q.unary(few[:1]),
    ):
        many = [ask(xj.QII(model, few, **given)) for _ in range(100)]
        spread = np.std([one.values for one in many], axis=0, ddof=1)
        said = np.mean([one.std_errors for one in many], axis=0)
        assert not many[0].exact
        # A standard deviation of 100 runs is within 40 % with all but 1e-8 of the chance.
        assert (np.abs(spread / said - 1) < 0.4).all()
    with pytest.raises(xj.InputError, match="deterministic=False"):
        xj.QII(model, few, difference="l1", **given).unary(few[:1])
    with pytest.raises(xj.InputError, match="deterministic=False"):
        xj.QII(model, few, **{**given, "outcome": "score"}).game(few[:1])
