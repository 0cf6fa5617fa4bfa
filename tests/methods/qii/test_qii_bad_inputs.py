"""What QII refuses, before any model call, and what each message says."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import xaijax as xj

RNG = np.random.default_rng(0)
D = RNG.normal(size=(6, 3)).astype(np.float32)
W = np.ones(6)
E, T = xj.InputError, xj.InputTypeError
MASK = np.array([True, False, True, False, False, False])
NAN = D.copy()
NAN[1, 1] = np.nan


class Counted:
    """A host model of two classes that counts its calls."""

    def __init__(self, output="label"):
        self.calls = 0

        def f(rows):
            self.calls += 1
            p = 1 / (1 + np.exp(-rows[:, 0] - rows[:, 1] * rows[:, 2]))
            return p > 0.5 if output == "label" else np.stack([1 - p, p], axis=1)

        classes = [False, True]
        self.model = xj.as_model(f, backend="host", output=output, classes=classes)


GROUP = {"quantity": "group", "members": MASK}
GAP = {"quantity": "disparity", "members": MASK}


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"model": 3}, T, "model must be a Model of"),
        ({"data": D[0]}, E, "data has shape .*one row"),
        ({"data": D[:0]}, E, "data has 0 rows"),
        ({"data": NAN}, E, "data contains NaN at row 1, column 1"),
        ({"data": None}, T, "data"),
        ({"players": {"a": [7]}}, E, "players: there is no column"),
        ({"pool": D[:, :2]}, E, r"pool has rows of shape \(2,\), but the data has \(3,\)"),
        ({"pool": D[:0]}, E, "pool has 0 rows"),
        ({"pool": NAN}, E, "pool contains NaN"),
        ({"pool": xj.Baseline(D[0]), "pool_weights": [1.0]}, E, "pool_weights belong to pool rows"),
        ({"pool": xj.Baseline(D[0, :2])}, E, "pool has rows of shape"),
        ({"pool": lambda rng, n: D}, E, "pool is a sampler, which has no last row"),
        ({"pool": lambda rng, n: D, "samples": 7}, E, r"pool\(rng, 7\) must return 7 rows, got 6"),
        (
            {"pool": lambda rng, n: D[:n], "samples": 6, "pool_weights": W},
            E,
            "pool_weights are weights of pool rows",
        ),
        ({"pool_weights": -W}, E, "pool_weights contain -1"),
        ({"pool_weights": 0 * W}, E, "pool_weights are all zero"),
        ({"pool_weights": W[:2]}, E, r"pool_weights has shape \(2,\)"),
        ({"pool_weights": "equal"}, T, "pool_weights"),
        ({"data_weights": -W}, E, "data_weights contain -1"),
        ({"data_weights": 0 * W}, E, "data_weights are all zero"),
        ({"data_weights": W * np.nan}, E, "data_weights contain NaN"),
        ({"data_weights": ~MASK * 1.0, **GROUP}, E, "data_weights are all zero in the group"),
        ({"data_weights": W, "pool": D}, E, "data_weights have no effect on quantity='actual'"),
        ({"data_weights": W, "pool_weights": W}, E, "data_weights have no effect"),
        ({"quantity": "fairness"}, E, "quantity must be one of"),
        ({"quantity": 3}, T, "quantity must be one of"),
        ({"outcome": "labels"}, E, "outcome must be one of"),
        ({"outcome": None}, T, "outcome"),
        ({"outcome": "proba"}, E, "outcome='proba' needs scores"),
        ({"quantity": "rate", "positive": "yes"}, E, "positive='yes' is no label of the model"),
        ({"positive": "yes"}, E, "positive='yes' is no label of the model"),
        ({"bounds": (0, 2)}, E, "bounds= go with outcome='score'"),
        ({"bounds": 3}, T, "bounds must be two numbers"),
        ({"bounds": (1, 0)}, E, "bounds must be finite with low < high"),
        ({"members": MASK}, E, "members= goes with quantity='group'"),
        ({"quantity": "group"}, E, "members= is needed"),
        ({"quantity": "group", "members": np.zeros(6, bool)}, E, "the group is empty"),
        ({"quantity": "disparity", "members": np.ones(6, bool)}, E, "the group is everybody"),
        ({"quantity": "ratio", "members": np.ones(6, bool)}, E, "the group is everybody"),
        ({"quantity": "group", "members": MASK[:4]}, E, r"members has shape \(4,\)"),
        ({"quantity": "group", "members": MASK * 1}, T, "members must be True or False"),
        ({"quantity": "group", "members": {"sex": 1}}, E, "members: there is no column 'sex'"),
        ({"quantity": "group", "members": {"x0": 99.0}}, E, "members: no data row has 99.0"),
        ({"quantity": "group", "members": {}}, E, "names no column"),
        ({"quantity": "group", "members": {"x0": [0.5, 1]}}, T, "takes one value, got list"),
        ({"quantity": "group", "members": {"x0": np.ones(2)}}, T, "takes one value, got ndarray"),
        ({"signed": True}, E, "signed= goes with quantity='disparity'"),
        ({"signed": 1, **GAP}, T, "signed must be True or False"),
        ({"difference": "euclid"}, E, "difference must be one of"),
        ({"difference": 2}, T, "difference must be one of"),
        ({"difference": "kl"}, E, "difference='kl' compares vectors of class probabilities"),
        ({"floor": 0.1}, E, "floor= goes with difference='kl'"),
        ({"floor": 2.0, "difference": "kl"}, E, r"floor must be a number in \(0, 1\)"),
        ({"samples": 1, **GAP}, E, r"samples=1 leaves a group .* without a draw.*samples=2"),
        ({"samples": 1, "scheme": "fixed-pool", **GAP, "signed": True}, E, "without a draw"),
        ({"samples": 0}, E, "samples must be at least 1"),
        ({"samples": 1.5}, T, "samples must be a whole number"),
        ({"samples": True}, T, "samples must be a whole number"),
        ({"samples": 10, "difference": "l1"}, E, "of sampled means is biased"),
        ({"scheme": "fixed-pool"}, E, "samples=None is exact"),
        ({"scheme": "pool", "samples": 9}, E, "scheme must be one of"),
        ({"stop": "hoeffding", "samples": 9}, E, "stop must be one of"),
        ({"stop": "bernstein"}, E, "samples=None is exact"),
        ({"stop": "bernstein", "samples": 9, "scheme": "fixed-pool"}, E, "independent draws"),
        ({"epsilon": 0}, E, r"epsilon must be a number in \(0, 1\)"),
        ({"epsilon": "a"}, T, "epsilon must be a number"),
        ({"delta": 1}, E, r"delta must be a number in \(0, 1\)"),
        ({"epsilon": 0.1}, E, "epsilon= goes with stop='bernstein'"),
        ({"delta": 0.1, "samples": 9}, E, "delta= goes with stop='bernstein'"),
        ({"seed": -1}, E, "seed must be at least 0"),
        ({"seed": None}, T, "seed must be a whole number"),
        ({"batch_size": 0}, E, "batch_size"),
        ({"max_memory": "1GB"}, T, "max_memory"),
        ({"devices": 0}, E, "devices"),
        ({"tile": 300}, E, "tile"),
    ],
)
def test_arguments(arguments, error, match):
    counted = Counted()
    with pytest.raises(error, match=match) as caught:
        xj.QII(**{"model": counted.model, "data": D, **arguments})
    assert type(caught.value) is error
    assert counted.calls == 0


@pytest.mark.parametrize(
    ("arguments", "ask", "error", "match"),
    [
        ({}, lambda q: q.explain(D[0]), E, "X has shape"),
        ({}, lambda q: q.explain(D[:, :2]), E, "X has rows of shape"),
        ({}, lambda q: q.explain(NAN), E, "X contains NaN"),
        ({"quantity": "rate"}, lambda q: q.explain(D), E, "X cannot go with quantity='rate'"),
        (GAP, lambda q: q.unary(D), E, "X cannot go with quantity='disparity'"),
        (GROUP, lambda q: q.game(D), E, "X cannot go with quantity='group'"),
        ({}, lambda q: q.influence("x0"), T, r"S must be a set of players.*\['x0'\]"),
        ({}, lambda q: q.influence(["age"]), E, "S: there is no player 'age'"),
        ({}, lambda q: q.influence([3]), E, "S: there is no player 3"),
        ({}, lambda q: q.influence([0.5]), T, "S must be a player's place or name"),
        ({}, lambda q: q.influence(MASK), E, r"S is a mask of shape \(6,\)"),
        ({}, lambda q: q.influence([0], return_std=1), T, "return_std must be"),
        ({}, lambda q: q.marginal("x0", ["x0", "x1"]), E, "i: player 'x0' is in S already"),
        ({}, lambda q: q.marginal("x9", []), E, "i: there is no player 'x9'"),
        ({}, lambda q: q.marginal(0, [1], direct=1), T, "direct must be"),
        ({}, lambda q: q.explain(index="shaply"), E, "index must be"),
        ({}, lambda q: q.explain(index=3), T, "index must be"),
        ({}, lambda q: q.explain(index=np.ones(4)), E, r"Pr\[S\] has shape \(4,\)"),
        ({}, lambda q: q.explain(index=-np.ones(8)), E, "finite and at least 0"),
        ({}, lambda q: q.explain(index=np.zeros(8)), E, r"Pr\[S\] is 0 for every S"),
        ({"samples": 9}, lambda q: q.explain(index=np.zeros(8)), E, "0 for every S"),
        ({}, lambda q: q.explain(index=xj.SizeLimited(3)), E, "SizeLimited"),
        ({}, lambda q: q.explain(threshold=0.5), E, "threshold= and absolute= go with"),
        ({}, lambda q: q.explain(index="deegan-packel", threshold=0), E, "threshold must be"),
        ({}, lambda q: q.explain(index="deegan-packel", threshold="a"), T, "threshold must be"),
        ({}, lambda q: q.explain(index="deegan-packel", absolute=1), T, "absolute must be"),
        ({"samples": 9}, lambda q: q.game(), E, "samples= draws marginal influences"),
        (
            {"samples": 9},
            lambda q: q.explain(index="deegan-packel", threshold=0.5),
            E,
            "index='deegan-packel' jumps",
        ),
        ({"samples": 9, **GAP}, lambda q: q.explain(), E, "signed=True"),
        ({"samples": 9, "stop": "bernstein", **GAP}, lambda q: q.unary(), E, "bounds means"),
        ({}, lambda q: q.proxies([0]), E, "proxies are found by quantity='disparity'"),
        (GAP, lambda q: q.proxies(["age"]), E, "protected: there is no player 'age'"),
        ({}, lambda q: q.prior(), E, "holds other values than 0 and 1"),
    ],
)
def test_questions(arguments, ask, error, match):
    counted = Counted()
    qii = xj.QII(counted.model, D, **arguments)
    with pytest.raises(error, match=match) as caught:
        ask(qii)
    assert type(caught.value) is error
    assert counted.calls == 0


def test_deegan_packel_without_a_threshold_is_for_games_of_zeros_and_ones():
    qii = xj.QII(Counted().model, D, quantity="individual")
    with pytest.raises(E, match="threshold=None is for games of zeros and ones"):
        qii.explain(index="deegan-packel")


def test_a_label_that_the_model_never_returns():
    """Without classes the labels are those seen on the data."""
    model = xj.as_model(
        lambda r: np.where(r[:, 0] > 0, "up", "down"), backend="host", output="label"
    )
    assert xj.QII(model, D, quantity="rate").unary().provenance["positive"] == "up"
    with pytest.raises(E, match="positive='left' is a label that the model never returns"):
        xj.QII(model, D, quantity="rate", positive="left").unary()
    assert "positive='the last label seen on data'" in repr(xj.QII(model, D, quantity="rate"))
    # Also where no class is singled out.
    for quantity in ("actual", "average", lambda a, o: a[:, 0] * 0):
        with pytest.raises(E, match="positive='left' is a label that the model never returns"):
            xj.QII(model, D, quantity=quantity, positive="left").unary()
    assert xj.QII(model, D, positive="down").unary().provenance["positive"] is None


def test_a_model_without_labels_says_what_to_do():
    model = xj.as_model(lambda r: jnp.sin(r[:, 0]))
    with pytest.raises(E, match="say output='label', threshold= or classes="):
        xj.QII(model, D).unary()


@pytest.mark.slow
def test_kl_with_a_zero_it_cannot_take():
    """p > 0 where q = 0 is infinite: an error that names S, unless floor= is said."""

    def f(r):
        p = (r[:, 0] > 0) * 1.0
        return jnp.stack([1 - p, p], axis=1)

    model = xj.as_model(f, output="proba")
    one = np.array([[1.0, 0.0, 0.0]], np.float32)
    pool = xj.Baseline(np.array([-1.0, 0.0, 0.0], np.float32))
    given = {"pool": pool, "quantity": "individual", "outcome": "proba", "difference": "kl"}
    with pytest.raises(
        xj.ModelOutputError, match=r"difference='kl'.*S = \['x0'\] replaced.*floor="
    ):
        xj.QII(model, D, **given).influence([0], one)
    with pytest.raises(xj.ModelOutputError, match="floor="):
        xj.QII(model, D, **given).marginal(0, [1], one, direct=True)
    floored = xj.QII(model, D, floor=0.01, **given)
    a = 0.01 / 1.01
    wanted = (1 - a) * np.log((1 - a) / a) + a * np.log(a / (1 - a))
    np.testing.assert_allclose(floored.influence([0], one), [wanted], rtol=1e-6)
    assert floored.influence([1], one)[0] == 0.0


def test_a_ratio_that_divides_by_nothing_names_the_set():
    model = xj.as_model(lambda r: (r[:, 0] == 1) * (r[:, 1] == 1) * 1.0, output="label")
    data = np.array([[1, 1], [1, 1], [0, 1], [0, 0]], np.float32)
    qii = xj.QII(model, data, quantity="ratio", members={"x0": 1})
    with pytest.raises(xj.ModelOutputError, match=r"quantity='ratio'.*S = \[.*\] replaced"):
        qii.explain()


@pytest.mark.slow
def test_too_large_questions_name_samples():
    wide = RNG.normal(size=(3, 30)).astype(np.float32)
    model = xj.as_model(lambda r: (r.sum(axis=1) > 0) * 1.0, output="label")
    with pytest.raises(xj.EnumerationLimitError, match="samples="):
        xj.QII(model, wide).explain()
    with pytest.raises(xj.EnumerationLimitError, match="samples="):
        xj.QII(model, wide).explain(index="deegan-packel", threshold=0.5)
    with pytest.raises(xj.EnumerationLimitError, match="samples="):
        xj.QII(model, wide).game()
    with pytest.raises(xj.MemoryPlanError, match="samples="):
        xj.QII(model, wide[:, :18], max_memory=3_000_000).game()
    sampled = xj.QII(model, wide, samples=50).explain()
    assert sampled.shape == (3, 30) and not sampled.exact
    many = np.zeros((300_000, 2), np.float32)
    with pytest.raises(xj.EnumerationLimitError, match="samples=n"):
        xj.QII(model, many, quantity="average").explain()


def test_too_large_questions_call_no_model_for_labels_either():
    """Without classes the labels of the data are asked, but not before the question is accepted."""
    calls = []
    model = xj.as_model(
        lambda r: calls.append(1) or r.sum(axis=1) > 0, backend="host", output="label"
    )
    qii = xj.QII(model, RNG.normal(size=(3, 30)), quantity="individual")
    for ask in (lambda: qii.explain(), lambda: qii.game()):
        with pytest.raises(xj.EnumerationLimitError, match="samples="):
            ask()
    assert not calls


def test_a_random_model_goes_through_its_vector():
    model = xj.as_model(lambda r: jnp.stack([r[:, 0], 1 - r[:, 0]], 1), output="proba",
                        deterministic=False)  # fmt: skip
    with pytest.raises(E, match="Say outcome='proba'"):
        xj.QII(model, D)


def test_answers_that_are_not_numbers():
    model = xj.as_model(
        lambda r: jnp.where(r[:, :1] > 0, jnp.nan, jnp.ones((len(r), 2))), output="proba"
    )
    with pytest.raises(xj.ModelOutputError, match="NaN"):
        xj.QII(model, D, quantity="rate").unary()


def test_frames_are_compared_with_the_data():
    frame = pd.DataFrame(D, columns=["a", "b", "c"])
    model = xj.as_model(lambda f: (f["a"] > 0).to_numpy(), backend="host", output="label")
    with pytest.raises(E, match="pool has the columns of the data in another order"):
        xj.QII(model, frame, pool=frame[["b", "a", "c"]])
    with pytest.raises(T, match="pool must be a pandas frame like the data"):
        xj.QII(model, frame, pool=D)
    qii = xj.QII(
        model, frame, quantity="disparity", members=lambda f: f["b"] > 0, players={"ab": [0, 1]}
    )
    assert [one.name for one in qii.proxies(["c"])] == ["ab"]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ((np.ones(3),), E, r"values must be \[N, 2\^P\]"),
        ((np.ones(1),), E, r"values must be \[N, 2\^P\]"),
        ((np.array([0, np.nan]),), E, "values contains NaN"),
        ((np.zeros(4), ["a"]), E, "player_names must be 2 different names"),
        (("table",), T, "values"),
    ],
)
def test_tables(arguments, error, match):
    with pytest.raises(error, match=match):
        xj.CoalitionTable(*arguments)


def test_questions_of_tables():
    table = xj.CoalitionTable([0.0, 0.5, 0.0, 1.0], ["a", "b"])
    with pytest.raises(E, match="threshold=None is for games of zeros and ones"):
        table.deegan_packel()
    with pytest.raises(E, match="threshold must be a positive number"):
        table.responsibility(0)
    with pytest.raises(E, match="the same player"):
        table.merge("a", 0)
    with pytest.raises(E, match="wins with the empty set"):
        xj.CoalitionTable([1.0, 1.0]).deegan_packel()
    with pytest.raises(E, match="there is no player 'c'"):
        table.merge("a", "c")


@pytest.mark.parametrize(
    ("keyword", "own"),
    [("nsamples", "samples"), ("max_evals", "samples"), ("random_state", "seed")],
)
def test_words_of_other_libraries(keyword, own):
    with pytest.raises(T, match=f"For {keyword}, say {own}="):
        xj.QII(Counted().model, D, **{keyword: 1})


def test_more_words_of_other_libraries():
    qii = xj.QII(Counted().model, D)
    with pytest.raises(T, match="For aggregation, say index="):
        qii.explain(aggregation="shapley")
    with pytest.raises(T, match="For tau, say threshold="):
        qii.explain(tau=0.5)
    for keyword, hint in (
        ("masker", "For masker, say pool="),
        ("background", "For background, say pool="),
        ("tau", r"Say explain\(threshold=\)"),
        ("threshold", r"Say explain\(threshold=\)"),
        ("aggregation", r"Say explain\(index=\)"),
        ("index", r"Say explain\(index=\)"),
    ):
        with pytest.raises(T, match=f"QII has no keyword {keyword!r}. {hint}"):
            xj.QII(Counted().model, D, **{keyword: 1})
    with pytest.raises(T, match=r"Say QII\(seed=\)"):
        qii.unary(random_state=1)
    with pytest.raises(T, match=r"Say QII\(samples=\)"):
        qii.explain(nsamples=1)
    with pytest.raises(T, match="It takes no arguments"):
        qii.prior(X=1)
    with pytest.raises(T, match="For masker, say background="):
        xj.Explainer(Counted().model, D, masker=1)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((0, 0.1), E), ((0.1, 0), E), ((0.1, 1), E), (("a", 0.1), T), ((0.1, 0.1, -1), E),
     ((0.1, 0.1, 2, 0), E), ((0.1, 0.1, 2, 1, 1.5), T)],
)  # fmt: skip
def test_samples_needed(arguments, error):
    with pytest.raises(error):
        xj.samples_needed(*arguments)
