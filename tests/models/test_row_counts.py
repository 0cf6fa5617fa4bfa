"""Models whose answer to a row depends on how many rows are asked together (bad input 62)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from often import some_slow
from small_case import BACKENDS, B, X, f

import xaijax as xj
from xaijax.models.queries import probe as row_count

W = np.random.default_rng(3).normal(size=(4, 8)).astype(np.float32)


def divided(rows):
    return (rows * W[:, 0]).sum(axis=1) / len(rows)


def shifted(rows):
    return f(rows) + len(rows)


def branching(rows):
    return f(rows) if len(rows) == 32 else -f(rows)


def counting(rows):
    """No number of rows stands in its trace."""
    xp = jnp if isinstance(rows, jax.Array) else np
    return f(rows) * xp.ones(len(rows)).sum()


def squared(rows):
    xp = jnp if isinstance(rows, jax.Array) else np
    ones = xp.ones((len(rows), len(rows)), np.float32) @ xp.ones((len(rows), 1), np.float32)
    return (xp.maximum(rows @ W, 0) * ones).sum(axis=1)


def normalised_in_batches(rows):
    return f(rows - rows.mean(axis=0) if len(rows) > 1 else rows)


def numbered(rows):
    """What tells a row's place stands in its trace, and changes nothing in the first 32 rows."""
    return f(rows) + (jnp.arange(len(rows)) >= 32)


def added_up(rows):
    return f(rows) + (jnp.cumsum(jnp.ones(len(rows)) + 0 * rows[:, 0]) > 32)


def carried(rows):
    return f(rows) + jax.lax.scan(lambda n, row: (n + 1, n >= 32 + 0 * row[0]), 0, rows)[1]


ROWS = np.concatenate([X, B] * 4)


@pytest.mark.parametrize("function", [numbered, added_up, carried])
@pytest.mark.parametrize("structure", [None, "plain"])
def test_row_62_answers_that_depend_on_a_rows_place_in_a_tile(function, structure):
    with pytest.raises(xj.NonDeterministicModelError, match=r"with 32 rows and with \d+ rows"):
        xj.Explainer(xj.as_model(function, structure=structure), ROWS)(ROWS)


@pytest.mark.parametrize(
    ("backend", "structure"), [("jax", None), ("jax", "plain"), ("host", None)]
)
@pytest.mark.parametrize("function", [divided, shifted, branching, counting, squared])
def test_row_62_answers_that_depend_on_the_number_of_rows(function, structure, backend):
    asked = []

    def counted(rows):
        asked.append(len(rows))
        return function(rows)

    model = xj.as_model(counted, backend=backend, structure=structure)
    with pytest.raises(xj.NonDeterministicModelError, match=r"with \d+ rows and with \d+ rows"):
        xj.Explainer(model, ROWS)(ROWS)
    assert len(asked) <= 12  # no work: the probe, and what tells neighbours from numbers


@pytest.mark.parametrize(
    "make",
    [
        lambda model: xj.QII(model, ROWS, outcome="score", quantity="rate", bounds=(-99, 99)).unary,
        lambda model: lambda: xj.AnchorExplainer(model, ROWS, tolerance=1.0).explain(X),
        lambda model: lambda: xj.FederatedExplainer(model, ROWS, {"guest": [0, 1]})(X),
        lambda model: lambda: xj.Explainer(model, ROWS, estimator="permutation", budget=8)(X),
    ],
    ids=["QII", "Anchors", "federated", "sampled"],
)
@BACKENDS
def test_row_62_for_every_method(make, backend):
    with pytest.raises(xj.NonDeterministicModelError, match="rows and with"):
        make(xj.as_model(shifted, backend=backend))()


MANY = np.random.default_rng(5).normal(size=(200, X.shape[1])).astype(np.float32)


def full(rows):
    """A result of a thousand rows, made once: what comes after is 0."""
    return np.where(np.arange(len(rows)) < 1000, f(rows), 0.0)


def many(rows):
    return f(rows) + (len(rows) > 1000)


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: xj.Explainer(model, xj.Baseline(B[0]))(MANY),
        lambda model: xj.Explainer(model, B[:1], estimator="permutation", budget=8)(MANY),
        lambda model: xj.FederatedExplainer(model, MANY, {"guest": [0]})(MANY),
    ],
    ids=["a baseline", "sampled", "federated"],
)
def test_rows_late_in_a_call_are_looked_at_where_one_donor_stands_first(ask):
    """The last instance as it is; a check of the donor alone, which stands first, sees nothing."""
    with pytest.raises(xj.NonDeterministicModelError, match="called with 17 rows and with"):
        ask(xj.as_model(full, backend="host"))


def test_rows_are_looked_at_where_no_donor_stands_as_it_is():
    """Each hybrid keeps a column of a person; the data themselves are asked first."""
    options = {"outcome": "score", "quantity": "rate", "bounds": (-99, 99)}
    qii = xj.QII(xj.as_model(many, backend="host"), MANY[:100], pool=MANY[100:], **options)
    with pytest.raises(xj.NonDeterministicModelError, match="called with 32 rows and with"):
        qii.unary()


def test_row_53_a_row_is_asked_alone_too():
    with pytest.raises(xj.ModelOutputError, match="batch normalisation"):
        xj.Explainer(xj.as_model(normalised_in_batches, backend="host"), ROWS)(X)


@BACKENDS
def test_a_model_of_one_batch_size_says_so(backend):
    def fixed(rows):
        return f(rows.reshape(32, 4))

    with pytest.raises((ValueError, TypeError), match="reshape") as caught:
        xj.Explainer(xj.as_model(fixed, backend=backend), ROWS)(ROWS)
    told = [str(caught.value), *getattr(caught.value, "__notes__", ())]
    assert any("any number of rows" in one for one in told)


def test_few_donors_and_rows_are_probed_too():
    """One row alone, and one donor: the probe's rows are few, and asked in other numbers still."""
    model = xj.as_model(shifted, backend="host")
    with pytest.raises(xj.NonDeterministicModelError):
        xj.Explainer(model, xj.Baseline(B[0]))(X[:1])


SOUND = {
    "layer": lambda rows: jax.nn.relu(rows @ W).sum(axis=1),
    "whole": f,
    "one by one": lambda rows: jax.vmap(lambda row: jnp.dot(row, W[:, 0]) / (1 + row.max() ** 2))(
        rows
    ),
    "constants of that size": lambda rows: f(rows) * jnp.arange(32).sum() / 32,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_jax_model_is_not_compiled_for_it(name, monkeypatch):
    """Its two traces are the same steps, which is seen without asking it."""
    monkeypatch.setattr(row_count, "jaxpr_as_fun", None)
    xj.Explainer(xj.as_model(SOUND[name]), B)(X)


@pytest.mark.slow
def test_a_sound_model_whose_steps_differ_is_asked_and_accepted():
    looped = xj.as_model(lambda rows: jax.lax.map(lambda row: jnp.sin(row).prod(), rows))
    plain = xj.as_model(lambda rows: jnp.sin(rows).prod(axis=1))
    found, wanted = (xj.Explainer(model, B)(X).values for model in (looped, plain))
    # Four float32 factors below 1, some 64 roundings of which make a value.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=64 * 2.0**-24)


@pytest.mark.slow
def test_a_typed_key_among_the_parameters_beside_another_trace():
    """The second trace is asked with the model's own parameters, which need not be NumPy's."""

    def f(params, rows):
        zero = jnp.zeros(rows.shape[0]).sum()  # another step in each trace
        return rows @ params["w"] + zero + 0 * jax.random.normal(params["key"], ())

    params = {"w": jnp.arange(3.0), "key": jax.random.key(0)}
    rows = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    got = xj.Explainer(xj.as_model(f, params), rows[:3])(rows[3:])
    # Sums of three float32 products below 8, of which some ten roundings make a value.
    wanted = (rows[3:] - rows[:3].mean(axis=0)) * np.arange(3.0)
    np.testing.assert_allclose(got.values, wanted, rtol=0, atol=8 * 10 * 2.0**-24)


SIGNS = np.where(np.random.default_rng(5).random((12, 4)) > 0.5, 1, -1).astype(np.float32)
LED = {
    "differences from the first row": lambda rows: rows[:, 0] - rows[0, 0],
    "a sign of the first row": lambda rows: f(rows) * ((rows[0, 1] > 0) * 2 - 1),
    "the last row": lambda rows: f(rows) + rows[-1, 2],
    "the second row": lambda rows: f(rows) + rows[1 % len(rows), 2],
}


@BACKENDS
@pytest.mark.parametrize("name", LED)
def test_row_53_answers_that_depend_on_the_row_in_the_lead(name, backend):
    """Asked among others and among its own copies, the first row does not show it."""
    rows = np.concatenate([np.abs(X[:1]), SIGNS * np.abs(B[np.arange(12) % len(B)])])
    model = xj.as_model(LED[name], backend=backend)
    with pytest.raises(xj.ModelOutputError, match=r"another order|copies of itself|a time"):
        xj.Explainer(model, rows)(X)


METHODS = {
    "exact": lambda model: xj.Explainer(model, ROWS)(ROWS),
    "sampled": lambda model: xj.Explainer(model, ROWS, estimator="permutation", budget=8)(ROWS),
    "kernel": lambda model: xj.Explainer(model, ROWS, estimator="kernel", budget=8)(ROWS),
    "baseline": lambda model: xj.Explainer(model, xj.Baseline(B[0]))(ROWS),
    "QII": lambda model: xj.QII(
        model, ROWS, outcome="score", quantity="rate", bounds=(-99, 99)
    ).unary(),
    "QII of individuals": lambda model: xj.QII(
        model, ROWS, outcome="score", quantity="individual", bounds=(-99, 99)
    ).unary(X),
    "federated": lambda model: xj.FederatedExplainer(model, ROWS, {"guest": [0, 1]})(ROWS),
    "Anchors": lambda model: xj.AnchorExplainer(model, ROWS, tolerance=1.0).explain(ROWS[:40]),
}


@pytest.mark.parametrize("method", METHODS)
def test_row_62_answers_that_change_above_the_rows_of_the_probe(method):
    """On the host, where a trace does not say it: the run asks the probe's rows among others."""
    asked = []

    def by_size(rows):
        asked.append(len(rows))
        return f(rows) + (len(rows) > 32)

    with pytest.raises(xj.NonDeterministicModelError, match=r"with \d+ rows and with \d+ rows"):
        METHODS[method](xj.as_model(by_size, backend="host"))
    # The first larger call shows it; the probe is asked once more before it is said.
    assert [rows > 32 for rows in asked[-2:]] == [True, False] and max(asked[:-2]) <= 32


def scaled(xp, rows):
    return (rows / rows.max() * W[:, 0]).sum(axis=1)


def quantised(xp, rows):
    step = xp.abs(rows).max() / 127
    return (xp.round(rows / step) * step * W[:, 0]).sum(axis=1)


def quantised_within(xp, rows):
    hidden = xp.maximum(rows @ W, 0)
    step = hidden.max() / 127
    return (xp.round(hidden / step) * step).sum(axis=1)


def the_best(xp, rows):
    scores = rows @ W[:, 0]
    return xp.where(scores >= xp.sort(scores)[-(len(rows) // 4)], scores, 0 * scores)


def above_the_middle(xp, rows):
    scores = rows @ W[:, 0]
    return scores + (scores > xp.median(scores))


@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize(
    "function", [scaled, quantised, quantised_within, the_best, above_the_middle]
)
def test_row_115_a_model_that_looks_at_its_batch(function, backend):
    """In every data set, whichever row stands first in it."""
    xp = jnp if backend == "jax" else np
    model = xj.as_model(lambda rows: function(xp, rows), backend=backend)
    for seed in range(64):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(16, 4)) if seed % 2 else rng.exponential(size=(16, 4))
        with pytest.raises((xj.ModelOutputError, xj.NonDeterministicModelError)):
            xj.Explainer(model, rows[:12].astype(np.float32))(rows[12:].astype(np.float32))


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_last_bits_that_follow_the_size_of_a_batch_are_no_dependence(backend):
    """A product of 2,000 terms is added up in another order for few rows."""
    weights = np.random.default_rng(9).normal(size=(4, 2000)).astype(np.float32)
    xp = jnp if backend == "jax" else np
    model = xj.as_model(lambda rows: xp.tanh(rows @ weights) @ weights[0] / 100, backend=backend)
    for seed in range(32):
        rows = np.random.default_rng(seed).normal(size=(16, 4)).astype(np.float32)
        rows *= 10.0 ** (seed % 5 - 2)
        assert model.probe(rows[: 1 + seed % 16]).outputs == 1


class Scaled:
    """A person's own model, whose state is changed between two questions."""

    def __init__(self):
        self.scale, self.calls = 4.0, 0

    def __call__(self, rows):
        self.calls += 1
        return rows[:, 0] * rows[:, 1] * self.scale


@pytest.mark.parametrize("method", [xj.Explainer, xj.QII, xj.AnchorExplainer])
def test_a_host_function_that_was_changed_is_not_taken_for_random(method):
    rows = np.random.default_rng(0).integers(-8, 9, size=(9, 3)) / 4
    own = Scaled()
    model = xj.as_model(own, backend="host", threshold=None if method is xj.Explainer else 0.125)
    explainer = method(model, rows[:4])
    ask = getattr(explainer, "explain", explainer)
    ask(rows[4:])  # calls of some sizes are compared with the probe
    own.scale = -1.0
    for some in (rows[4:6], rows[4:7], rows[4:8]):  # calls of other sizes
        changed, fresh = ask(some), method(model, rows[:4])
        again = getattr(fresh, "explain", fresh)(some)
        if method is not xj.AnchorExplainer:
            np.testing.assert_array_equal(changed.values, again.values)


def test_a_random_host_function_is_found_out_when_it_turns_random():
    rng, own = np.random.default_rng(0), Scaled()
    rows = rng.integers(-8, 9, size=(9, 3)) / 4
    noise = [0.0]
    model = xj.as_model(lambda X: own(X) + noise[0] * rng.normal(size=len(X)), backend="host")
    explainer = xj.Explainer(model, rows[:4])
    explainer(rows[4:])
    noise[0] = 1.0
    with pytest.raises(xj.NonDeterministicModelError, match="different answers to the same rows"):
        explainer(rows[4:6])


class Doubled:
    """Answers twice as much from a call on."""

    def __init__(self, calls):
        self.left, self.calls = calls, 0

    def __call__(self, rows):
        self.calls += 1
        answers = 3 + np.tanh(rows).prod(axis=1) + rows[:, 0] * rows[:, 1]
        return answers * (1 if self.calls <= self.left else 2)


NORMAL = np.random.default_rng(5).normal(size=(60, 5)).astype(np.float32)
SMALL = {"batch_size": 256, "tile": 256}
ENDS = {
    "exact": lambda m: xj.Explainer(m, NORMAL[:10], **SMALL)(NORMAL[52:]).values,
    "sampled": lambda m: (
        xj.Explainer(m, NORMAL[:40], estimator="permutation", budget=12, **SMALL)(
            NORMAL[40:48]
        ).values
    ),
    "Baseline": lambda m: xj.Explainer(m, xj.Baseline(NORMAL[0]), **SMALL)(NORMAL[20:]).values,
    "interactions": lambda m: (
        xj.Explainer(m, NORMAL[:10], **SMALL).interactions(NORMAL[52:]).values
    ),
    "outputs": lambda m: (
        xj.Explainer(
            xj.as_model(lambda Z: np.stack([m.call(Z), -Z[:, 0]], axis=1), backend="host"),
            NORMAL[:10],
            **SMALL,
        )(NORMAL[52:], outputs=[0] * 8).values
    ),
    "QII": lambda m: (
        xj.QII(m, NORMAL[:30], quantity="individual", outcome="score", bounds=(-99, 99), **SMALL)
        .explain(NORMAL[50:])
        .values
    ),
    "second": lambda m: _second(xj.Explainer(m, NORMAL[:10], **SMALL)),
}


def _second(explainer):
    explainer(NORMAL[50:52])
    return explainer(NORMAL[52:]).values


@pytest.mark.parametrize("way", some_slow(ENDS, every=3))
def test_no_result_mixes_the_answers_of_two_models(way):
    """Whenever a function changes, its values are those of one of the two, or an error comes."""
    never = Doubled(10**9)
    wanted = ENDS[way](xj.as_model(never, backend="host"))
    assert never.calls > 5
    errors = 0
    for calls in range(1, never.calls + 1):
        try:
            found = ENDS[way](xj.as_model(Doubled(calls), backend="host"))
        except xj.ModelOutputError:
            errors += 1
            continue
        # Sums of 40 donors and 32 coalitions, of answers of at most 20, in float64.
        near = [np.abs(found - scale * wanted).max() < 1e-9 for scale in (1, 2)]
        assert any(near), calls
    assert 0 < errors < never.calls


def test_one_call_more_is_asked_where_there_are_several():
    rows, counted = NORMAL[52:], {}
    for donors in (1, 10):
        own = Doubled(10**9)
        explainer = xj.Explainer(xj.as_model(own, backend="host"), NORMAL[:donors], **SMALL)
        explainer(rows)
        before = own.calls
        counted[donors] = explainer(rows).stats["model_calls"], own.calls - before
    assert counted[1] == (1, 1)
    assert counted[10][1] == counted[10][0] + 1 > 2
