"""Which column a score reads, and what scores may be: bounds, distributions, shapes, labels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import oracles_qii as oracles
import pytest
from often import some_slow
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import xaijax as xj

E, T, M = xj.InputError, xj.InputTypeError, xj.ModelOutputError
RNG = np.random.default_rng(4)
D = RNG.normal(size=(30, 3))
TARGET = np.where(D @ [1.0, 2.0, 0.0] > 0, "yes", "no")
LR = LogisticRegression().fit(D, TARGET)
SVC = LinearSVC().fit(D, TARGET)
GROUPS = [[0], [1], [2]]
EQUAL = np.full(30, 1 / 30)
WIDE = (-30.0, 30.0)
BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])


def shapley(score, x):
    """Of E_u[score(hybrid)] for one individual, by full enumeration in float64."""

    def Q(S):
        return oracles.mean_score(lambda z, _: score(z), x, D, EQUAL, S, GROUPS)

    return oracles.semivalue(oracles.influences(Q, 3), 3, oracles.weights_of("shapley", 3))


def of(model, positive=None, **options):
    given = {"quantity": "individual", "outcome": "score", "positive": positive, **options}
    return xj.QII(model, D, **given).explain(D[:1]).values[0]


def proba(z, label):
    return LR.predict_proba(z[None])[0][["no", "yes"].index(label)]


def decision(estimator, z, label):
    return estimator.decision_function(z[None])[0] * (1 if label == "yes" else -1)


@BACKENDS
@pytest.mark.parametrize("positive", some_slow(["yes", "no", None], 3))
@pytest.mark.parametrize("output", [None, "yes", "no"])
def test_a_selected_class_does_not_stand_for_the_positive_one(backend, output, positive):
    wanted = shapley(lambda z: proba(z, positive or "yes"), D[0])
    found = of(xj.as_model(LR, output=output, backend=backend), positive)
    # float64 throughout; translated, a chance is a few float32 roundings of 1 off.
    np.testing.assert_allclose(found, wanted, atol={"host": 1e-12, "jax": 2e-6}[backend])


@BACKENDS
@pytest.mark.parametrize("positive", some_slow(["yes", "no", None], 3))
@pytest.mark.parametrize("output", ["decision", "yes", "no"])
@pytest.mark.parametrize("estimator", [LR, SVC], ids=["logistic", "svc"])
def test_a_binary_decision_is_of_the_second_class(backend, estimator, output, positive):
    """A selected class of a classifier without chances is its decision, negated for the first."""
    if estimator is LR and output != "decision":
        return  # its classes are columns of chances
    label = positive or "yes"
    wanted = shapley(lambda z: decision(estimator, z, label), D[0])
    found = of(xj.as_model(estimator, output=output, backend=backend), positive, bounds=WIDE)
    # Sums of terms up to some tens, in float64 or in float32.
    np.testing.assert_allclose(found, wanted, atol={"host": 1e-11, "jax": 5e-5}[backend])


@BACKENDS
@pytest.mark.parametrize("classes", [["no", "yes"], None])
@pytest.mark.parametrize("second", [True, False])
def test_a_lone_chance_is_of_the_second_class(backend, classes, second):
    A = np.array([1.0, -2.0, 0.5])
    if backend == "jax":
        f = lambda r: jax.nn.sigmoid(r @ A)  # noqa: E731
    else:
        f = lambda r: 1 / (1 + np.exp(-(r @ A)))  # noqa: E731
    model = xj.as_model(f, backend=backend, output="proba", classes=classes)
    positive = (classes or [0, 1])[int(second)]

    def score(z):
        p = 1 / (1 + np.exp(-(z @ A)))
        return p if second else 1 - p

    # A sigmoid in float32 is off by a few roundings of 1.
    atol = 1e-12 if backend == "host" else 2e-6
    np.testing.assert_allclose(of(model, positive), shapley(score, D[0]), rtol=0, atol=atol)


@pytest.mark.slow
@BACKENDS
def test_a_selected_column_of_a_jax_model_too(backend):
    def f(rows):
        xp = jnp if backend == "jax" else np
        e = xp.exp(xp.stack([rows[:, 0], rows[:, 1], rows[:, 2] * 2], axis=1))
        return e / e.sum(axis=1, keepdims=True)

    def score(z):
        e = np.exp([z[0], z[1], 2 * z[2]])
        return e[1] / e.sum()

    model = xj.as_model(f, backend=backend, output="c", classes=["a", "b", "c"])
    atol = 1e-12 if backend == "host" else 2e-6
    np.testing.assert_allclose(of(model, "b"), shapley(score, D[0]), rtol=0, atol=atol)
    by_number = xj.as_model(f, backend=backend, output=2)
    np.testing.assert_allclose(of(by_number, 1), shapley(score, D[0]), rtol=0, atol=atol)
    assert np.abs(of(by_number) - of(by_number, 1)).max() > 0.01  # without: the one selected


@BACKENDS
@pytest.mark.parametrize(
    ("columns", "options", "positive", "error", "match"),
    [
        (3, {"output": "proba"}, 7, E, "positive=7 is no column of the model, .* with 3"),
        (1, {"output": "proba"}, 2, E, "positive=2: the model answers with one number"),
        (1, {"output": "value"}, 1, E, "positive=1: the model answers with one number"),
        (1, {"output": "value", "classes": [0, 1], "threshold": 0.5}, 0, E, "positive=0: "),
        (1, {"output": "decision", "classes": [0, 1, 2]}, 2, E, "positive=2: "),
        (3, {"output": "proba", "classes": [0, 1]}, 0, M, "returned 3 columns, .* 2 classes"),
    ],
)
def test_a_column_that_is_not_there(backend, columns, options, positive, error, match):
    """Told by the probe, before a row of the run is asked; JAX would take the last column."""
    asked = []

    def f(rows):
        asked.append(len(rows))
        return rows[:, :columns] if columns > 1 else rows[:, 0]

    qii = xj.QII(
        xj.as_model(f, backend=backend, **options), D, quantity="individual", outcome="score",
        positive=positive, bounds=WIDE,
    )  # fmt: skip
    for ask in (lambda: qii.explain(D[:1]), lambda: qii.unary(D[:1])):
        with pytest.raises(error, match=match):
            ask()
    assert max(asked) <= 32  # the probe's


def spike(answers, own):
    return 1000.0 * answers[:, 0]


CUT = pytest.warns(xj.XaiWarning, match=r"bounds=\(0, 1\) and were cut to them.*Say bounds=")
CALLS = {
    "unary": lambda q, x: q.unary(x),
    "influence": lambda q, x: q.influence([0], x),
    "marginal": lambda q, x: q.marginal(0, [1], x),
    "explain": lambda q, x: q.explain(x),
    "game": lambda q, x: q.game(x),
}


@BACKENDS
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_cut_that_changes_a_score_warns(backend, call):
    """Of a hybrid alone too: here no row of the data is out of the bounds."""
    model = xj.as_model(lambda r: r[:, 0] * r[:, 1], backend=backend)
    data = np.array([[2.0, 0.4], [0.4, 2.0]])  # .8 each; the hybrids are 4 and .16
    given = {"quantity": "individual", "outcome": "score"}
    with CUT:
        call(xj.QII(model, data, **given), data)
    call(xj.QII(model, data, bounds=(0, 4), **given), data)  # no warning: an error here


@BACKENDS
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_warns_once_of_cuts_and_the_next_one_again(backend, call):
    """Answers for the ends, of the rows and of hybrids, are each looked at."""
    model = xj.as_model(lambda r: 3 * r[:, 0] + r[:, 1] + 20, backend=backend)
    qii = xj.QII(model, D, quantity="individual", outcome="score")
    for _ in range(2):
        with pytest.warns(xj.XaiWarning, match="were cut") as told:
            call(qii, D[:5])
        assert len(told) == 1


@BACKENDS
@pytest.mark.parametrize("quantity", ["rate", "disparity"])
def test_a_cut_of_the_datas_quantities_warns(backend, quantity):
    model = xj.as_model(lambda r: r[:, 0] + 399.0, backend=backend)
    given = {"quantity": quantity, "outcome": "score"}
    given |= {"members": D[:, 1] > 0} if quantity == "disparity" else {}
    for samples in (None, 9):
        with CUT:
            assert not xj.QII(model, D, samples=samples, **given).unary().values.any()
        assert xj.QII(model, D, samples=samples, bounds=(390, 410), **given).unary().values.any()


@BACKENDS
def test_scores_at_their_bounds_and_a_rounding_beyond_are_not_cut(backend):
    model = xj.as_model(lambda r: (r[:, 0] > 0) * (1.0 + 2.0**-22), backend=backend)
    given = {"quantity": "individual", "outcome": "score"}
    values = xj.QII(model, D, **given).unary(D[:3]).values
    rate = (D[:, 0] > 0).mean()
    np.testing.assert_allclose(values[:, 0], (D[:3, 0] > 0) - rate, atol=1e-6)  # float32


@pytest.mark.slow
def test_the_values_of_cut_scores_are_those_of_the_definition():
    model = xj.as_model(lambda r: r[:, 0])
    with pytest.warns(xj.XaiWarning, match=r"bounds=\(-0.5, 0.5\)"):
        found = xj.QII(model, D, quantity="individual", outcome="score", bounds=(-0.5, 0.5)).unary(
            D[:4]
        )
    cut = np.clip(D[:, 0], -0.5, 0.5)
    np.testing.assert_allclose(found.values[:, 0], cut[:4] - cut.mean(), atol=2e-6)  # float32


def test_a_cut_answer_that_is_not_finite_is_refused():
    model = xj.as_model(lambda r: jnp.where(r[:, 0] > 1, jnp.nan, 399.0))
    with pytest.raises(M, match="returned nan"), CUT:
        xj.QII(model, D, quantity="individual", outcome="score").unary()


def test_one_column_at_a_time_as_captum_does_it():
    """docs/coming_from.md: FeatureAblation is f(x) minus f(x with the column's baseline)."""
    model = xj.as_model(lambda r: 100 * r[:, 0] * r[:, 1] + r[:, 2])
    blank = xj.Baseline(np.zeros(3))
    qii = xj.QII(model, D, quantity="individual", outcome="score", bounds=(-1e3, 1e3), pool=blank)
    product = 100 * D[:5, 0] * D[:5, 1]
    expected = np.stack([product, product, D[:5, 2]], axis=1)
    np.testing.assert_allclose(qii.unary(D[:5]).values, expected, atol=1e-3)  # float32 of 1e3


@pytest.mark.slow
@BACKENDS
def test_a_score_out_of_its_bounds_is_refused(backend):
    """It would stop a Bernstein run too early, and calibrate a private release to nothing."""
    u = np.zeros((1000, 1))
    u[0] = 1
    model = xj.as_model(lambda r: r[:, 0], backend=backend, output="value")
    given = {"quantity": spike, "outcome": "score"}
    with pytest.raises(M, match=r"score of quantity= is 1000 .*row 0.*out.* bounds=\(0, 1\)"):
        xj.QII(model, u, **given).explain(u[1:2])
    with pytest.raises(M, match=r"Say bounds=\(low, high\)"):
        xj.QII(model, u, bounds=(0, 999), **given).game(u[1:2])
    qii = xj.QII(model, u, bounds=(0, 1000), **given)
    found = qii.explain(u[1:2])
    np.testing.assert_allclose(found.values, [[-1.0]], atol=1e-9)
    assert found.provenance["bounds"] == [0.0, 1000.0]
    given |= {"bounds": (0, 1000), "samples": 2_000, "stop": "bernstein", "epsilon": 0.05}
    drawn = xj.QII(model, u, **given)
    with pytest.warns(xj.XaiWarning, match="did not reach epsilon"):
        half = drawn.explain(u[1:2]).stats["bernstein_half_width"]
    # 2,000 draws of width 2,000: 3 width log(3 / delta) / n alone is above 12.
    assert half[0] > 12


def test_scores_in_bounds_but_for_rounding_are_cut_to_them():
    """1 + 2^-23 is a rounding of 1 in float32, 1.01 is not."""
    near = xj.as_model(lambda r: jnp.full(len(r), 1 + 2.0**-23))
    q = xj.QII(near, D, quantity=lambda a, o: a[:, 0], outcome="score")
    assert q.unary(D[:1]).stats["quantity"] == [1.0]
    far = xj.as_model(lambda r: jnp.full(len(r), 1.01))
    with pytest.raises(M, match="bounds="):
        xj.QII(far, D, quantity=lambda a, o: a[:, 0], outcome="score").unary(D[:1])


@BACKENDS
def test_a_score_of_labels_has_bounds_too(backend):
    f = lambda r: (r[:, 0] > 0) * 2  # noqa: E731
    model = xj.as_model(f, backend=backend, output="label", classes=[0, 1, 2])
    twice = lambda a, o: a[:, 0]  # noqa: E731
    with pytest.raises(M, match="score of quantity= is 2"):
        xj.QII(model, D, quantity=twice).unary(D[:1])
    found = xj.QII(model, D, quantity=twice, bounds=(0, 2)).unary(D[:1])
    share = np.mean(D[:, 0] > 0)
    np.testing.assert_allclose(found.values[0, 0], 2 * (D[0, 0] > 0) - 2 * share, atol=1e-6)


@BACKENDS
@pytest.mark.parametrize("difference", ["subtract", "js", "kl"])
@pytest.mark.parametrize(
    "answer", [lambda r: 5 * r[:, 0], lambda r: r[:, :2] * 1000, lambda r: abs(r[:, :2])]
)
def test_chances_must_be_distributions(backend, answer, difference):
    model = xj.as_model(answer, backend=backend, output="value")
    given = {"quantity": "individual", "outcome": "proba", "difference": difference}
    with pytest.raises(M, match="needs class probabilities, each in .0, 1. and of sum 1") as caught:
        xj.QII(model, D, **given).explain(D[:1])
    assert "floor" not in str(caught.value)


@pytest.mark.parametrize("nonfinite", ["raise", "propagate"])
def test_bounds_hold_where_answers_that_are_not_finite_pass(nonfinite):
    model = xj.as_model(lambda r: r[:, 0] * 9, output="value", nonfinite=nonfinite)
    with pytest.raises(M, match="bounds="):
        xj.QII(model, D, quantity=lambda a, o: a[:, 0], outcome="score").unary(D[:1])


@pytest.mark.slow
def test_many_classes_in_float32_sum_to_one():
    """The tolerance grows with the classes: a softmax of a thousand is a distribution."""
    W = RNG.normal(size=(3, 1000)).astype(np.float32) * 3
    model = xj.as_model(lambda r: jax.nn.softmax(r @ W), output="proba")
    found = xj.QII(model, D[:5], quantity="individual", outcome="proba", difference="tv").unary()
    assert np.isfinite(found.values).all() and (found.values > 0).any()


BAD_SCORES = [
    (lambda a, o: a.sum(), E, r"one number for each row"),
    (lambda a, o: 1.0, E, r"one number for each row"),
    (lambda a, o: a, E, r"one number for each row"),
    (lambda a, o: None, E, r"one number for each row"),
    (lambda a, o: ["a"] * len(a), E, r"one number for each row"),
]


@BACKENDS
@pytest.mark.parametrize(("score", "error", "match"), BAD_SCORES)
def test_scores_of_another_shape(backend, score, error, match):
    model = xj.as_model(lambda r: r[:, :2], backend=backend, output="value")
    with pytest.raises(error, match=match):
        xj.QII(model, D, quantity=score, outcome="score", bounds=WIDE).unary(D[:1])


def test_a_score_that_jax_cannot_trace_says_so():
    model = xj.as_model(lambda r: r[:, 0])
    given = {"outcome": "score", "bounds": WIDE}
    branching = lambda a, o: a[:, 0] if a[0, 0] > 0 else -a[:, 0]  # noqa: E731
    with pytest.raises(T, match=r"quantity= .* cannot be traced by JAX.*jnp.where"):
        xj.QII(model, D, quantity=branching, **given).unary(D[:1])
    broken = lambda a, o: a.nothing  # noqa: E731
    with pytest.raises(AttributeError) as caught:
        xj.QII(model, D, quantity=broken, **given).unary(D[:1])
    assert "raised by quantity=" in caught.value.__notes__[0]


@pytest.mark.parametrize("combine", [lambda m: m, lambda m: 0.0, lambda m: m[0][:1]])
@pytest.mark.parametrize("samples", [None, 20])
def test_combinations_of_another_shape(combine, samples):
    interest = xj.quantities.Interest("mine", "members and rest", combine=combine)
    qii = xj.QII(
        xj.as_model(LR), D, quantity=interest, members=D[:, 0] > 0, outcome="score", samples=samples
    )
    with pytest.raises(E, match="combine= must make one mean of two"):
        qii.unary()


@pytest.mark.slow
def test_two_factors_combine_linearly():
    """And so can be sampled."""
    interest = xj.quantities.Interest("mine", "members and rest", combine=(2, -1))
    members = D[:, 0] > 0
    given = {"members": members, "outcome": "score"}
    model = xj.as_model(LR)

    def rate(who):
        return xj.QII(model, D, quantity="group", members=who, outcome="score").explain().values

    wanted = 2 * rate(members) - rate(~members)
    np.testing.assert_allclose(
        xj.QII(model, D, quantity=interest, **given).explain().values, wanted, atol=1e-12
    )
    drawn = xj.QII(model, D, quantity=interest, samples=2_000, **given).explain()
    assert (np.abs(drawn.values - wanted) <= 6 * drawn.std_errors).all()


@pytest.mark.parametrize("labels", [[0, 5], ["n", "y"]])
def test_a_label_outside_of_the_classes(labels):
    """Of a host model: rates of 0 would follow in silence."""
    model = xj.as_model(
        lambda r: np.where(r[:, 0] > 0, labels[1], labels[0]),
        backend="host", output="label", classes=[0, 1],
    )  # fmt: skip
    with pytest.raises(M, match=r"returned the label .* none of its classes \[0, 1\]"):
        xj.QII(model, D, quantity="rate").unary()


@pytest.mark.slow
def test_what_is_measured_of_vectors_of_chances():
    """No vector stays "the same": `actual` and `average` are `individual` and `rate` of it."""
    model = xj.as_model(LR)
    for asked, measured in (("actual", "individual"), ("average", "rate")):
        one = xj.QII(model, D, quantity=asked, outcome="proba")
        other = xj.QII(model, D, quantity=measured, outcome="proba").explain()
        found = one.explain()
        np.testing.assert_array_equal(found.values, other.values)
        facts = found.provenance
        assert (facts["quantity"], facts["measured"]) == (asked, measured)
        assert facts["quantity_words"] == other.provenance["quantity_words"]
        assert "keep" not in facts["quantity_words"] and "chances" in facts["quantity_words"]
        assert f"{asked!r} (measured as {measured!r})" in repr(one)
    labels = xj.QII(model, D).unary().provenance
    assert labels["measured"] == "actual" and "keeps the outcome" in labels["quantity_words"]
    agrees = xj.quantities.Interest("mine", agrees=True)
    with pytest.raises(E, match="agrees=True .* outcome='proba' keeps all classes"):
        xj.QII(model, D, quantity=agrees, outcome="proba")
