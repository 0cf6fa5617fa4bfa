"""Work that has no end is refused before it begins, and a long run is told of before it starts."""

import os
import warnings
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.core.checks import MINUTE_OF_A_CORE
from xaijax.estimators.kernel import Kernel
from xaijax.estimators.permutation import Permutation
from xaijax.games import refuse as long_runs
from xaijax.games.refuse import MOST_HOST_ROWS
from xaijax.methods.anchors import search as anchors
from xaijax.players.index import named
from xaijax_kernels.engine.steps import operations

P = 40
WIDE = np.linspace(-1, 1, 2 * P, dtype=np.float32).reshape(2, P)
KERNELS = np.linspace(-1, 1, 16 * 3 * 9, dtype=np.float32).reshape(16, 3, 3, 3)


class Asked:
    """A model that may be traced for the probe, and counts what it is called with after it."""

    def __init__(self, function):
        self.function, self.times = function, 0

    def __call__(self, rows):
        self.times += 1
        return self.function(rows)


def product(rows):
    return jnp.tanh(rows).sum(axis=1) * rows[:, 0]


def convolutional(rows):
    hidden = jax.lax.conv_general_dilated(rows, jnp.asarray(KERNELS), (1, 1), "SAME")
    return jnp.abs(hidden).sum(axis=(1, 2, 3))


def perceptron(rows):
    hidden = jnp.tanh(rows @ jnp.ones((12, 64)))
    return jnp.tanh(hidden @ jnp.ones((64, 64))).sum(axis=1)


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


@pytest.mark.parametrize("budget", [10**9, 10**30])
@pytest.mark.parametrize("estimator", ["auto", "permutation", "kernel"])
@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_a_budget_that_cannot_be_drawn_is_refused_before_any_work(budget, estimator, index):
    model = Asked(product)
    explainer = xj.Explainer(
        xj.as_model(model), WIDE, estimator=estimator, budget=budget, index=index, max_memory=2**34
    )
    words = rf"budget={budget:,}: .*{P} players.* bytes, more than max_memory=17,179,869,184"
    with pytest.raises(xj.MemoryPlanError, match=words):
        explainer(WIDE)
    assert model.times <= (estimator == "auto")  # it is traced by the probe, for a closed form


def test_a_default_that_cannot_be_drawn_says_that_it_is_the_default():
    rows = np.zeros((1, 5000), np.float32)
    explainer = xj.Explainer(xj.as_model(product), rows, estimator="kernel", max_memory=2**30)
    with pytest.raises(xj.MemoryPlanError, match=r"budget=20,000 \(the default\).*permutation"):
        explainer(rows + 1)


@pytest.mark.parametrize("method", [Permutation(), Kernel()])
@pytest.mark.parametrize(("players", "budget"), [(10, 1000), (40, 8000), (200, 4000)])
def test_what_is_drawn_takes_no_more_memory_than_said(method, players, budget):
    import tracemalloc  # noqa: PLC0415

    K = 3
    tracemalloc.start()
    state = method.init(players, named("shapley"), budget, 0)
    state, new = method.step(state, method.units(players, named("shapley"), budget))
    masks = new.nbytes if new.dtype == bool else 0  # the answer, beside what the draw holds
    method.result(state, np.zeros((1, len(new) + 2, K)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    said = method.cost(players, named("shapley"), budget, K).held
    assert said / 4 < peak - masks <= 1.1 * said  # a tenth for Python's own


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_millions_of_passes_of_a_convolutional_network_are_told_of_before_they_start():
    # 8 pictures, 100 donors and 12,288 coalitions of 3,072 pixels: "auto" began 9.8 million passes.
    model = Asked(convolutional)
    picture = np.zeros((1, 3, 32, 32), np.float32)
    explainer = xj.Explainer(
        xj.as_model(model, input_shape=picture.shape[1:]), np.repeat(picture, 100, axis=0)
    )
    words = (
        # 32 to join each of 16,384 units, 3 of what follows for each, and 512 of its sums.
        r"up to 9,832,000 model rows are coming, of about 573,952 operations each.*budget= \(now"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", xj.LongRunWarning)
        with pytest.raises(xj.LongRunWarning, match=words):
            explainer(np.repeat(picture + 1, 8, axis=0))
    # For the probe: its columns before the convolution take the probe's number of rows.
    assert model.times == 1


@pytest.mark.usefixtures("two_cores")
def test_no_word_of_sixteen_million_rows_of_a_small_network():
    model = xj.as_model(perceptron, structure="plain")
    rows = np.zeros((4, 12), np.float32)
    game = _game(model, rows)
    assert not _why(game, 16_000_000)
    assert _why(game, 2_000_000_000)


@pytest.mark.slow
@pytest.mark.usefixtures("two_cores")
def test_a_closed_form_is_not_told_of_since_it_asks_few_rows(monkeypatch):
    from xaijax.games import refuse as long_runs  # noqa: PLC0415

    # Above what f(x) of two rows takes, below what 16 coalitions of each take.
    monkeypatch.setattr(long_runs, "MINUTE_OF_A_CORE", 20)
    rows = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    weights = jnp.asarray([1.0, 2.0, 3.0, 4.0])
    found = xj.Explainer(xj.as_model(lambda z: z @ weights), rows[:1])(rows[1:])
    assert found.stats["structure"] == "additive"
    with pytest.warns(xj.LongRunWarning, match="estimator='permutation'"):
        xj.Explainer(xj.as_model(lambda z: product(z)), rows[:1])(rows[1:])


def test_a_model_on_the_host_is_told_of_by_its_rows():
    game = _game(xj.as_model(lambda z: z.sum(axis=1), backend="host"), WIDE)
    assert not _why(game, MOST_HOST_ROWS)
    assert "on the host" in _why(game, MOST_HOST_ROWS + 1)


def test_operations_are_those_of_the_definition():
    R = 32

    def traced(function, *shape):
        rows = jax.ShapeDtypeStruct((R, *shape), jnp.float32)
        return operations(jax.jit(function).trace(rows).jaxpr.jaxpr, R)

    matrix = jnp.ones((12, 64))
    # A product of 12 numbers for each of 64 units; what else is made is at most 64 + 12 a row.
    assert 2 * 12 * 64 <= traced(lambda z: z @ matrix, 12) <= 2 * 12 * 64 + 12 * 64 / R + 76
    # 16 kernels of 3 x 3 x 3 at each of 32 x 32 places, an abs and a sum.
    conv = 2 * 27 * 16 * 32 * 32
    assert conv <= traced(convolutional, 3, 32, 32) <= conv + 3 * 16 * 32 * 32

    def steps(z):
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ jnp.ones((12, 12))), None), z, length=10)[0]

    assert 10 * 2 * 144 <= traced(steps, 12) <= 10 * (2 * 144 + 144 / R + 40)

    def either(z):
        return jax.lax.cond(z.sum() > 0, lambda y: y @ jnp.ones((12, 12)), lambda y: y, z)

    assert traced(either, 12) >= 2 * 144


def _game(model, rows):
    explainer = xj.Explainer(model, rows)

    from xaijax.games.run import GameRun  # noqa: PLC0415

    read = explainer._evaluator.engine.replacement.table.read(rows, "X", False)
    return GameRun(explainer._evaluator, read, explainer.quantity)


def _why(game, rows):
    from xaijax.games.refuse import why_long  # noqa: PLC0415

    return why_long(game, rows)


def test_the_numbers_of_the_documentation():
    assert MINUTE_OF_A_CORE == 1.5e12
    assert MOST_HOST_ROWS == 10_000_000


def labelled(rows):
    return (rows.sum(axis=1) > 0).astype(jnp.int32)


SIX = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)


def _classifier(function=labelled):
    return xj.as_model(function, output="label", classes=[0, 1])


def _drawn(kept_from, kept, u):
    return np.where(kept, kept_from, u.astype(np.float32))


def _check_of_rules(model, samples):
    explainer = xj.AnchorExplainer(model, SIX)
    return explainer.check(explainer.explain(SIX[:1]), SIX[:1], samples=samples)


MEMORY = xj.MemoryPlanError
ENDLESS = {
    "samples": (xj.InputError, lambda m, n: xj.QII(m, SIX, samples=n).explain(SIX)),
    "samples of single sets": (xj.InputError, lambda m, n: xj.QII(m, SIX, samples=n).unary(SIX)),
    "samples of a set": (xj.InputError, lambda m, n: xj.QII(m, SIX, samples=n).influence([0], SIX)),
    "samples of a pool": (
        MEMORY,
        lambda m, n: xj.QII(m, SIX, samples=n, scheme="fixed-pool", max_memory=50_000_000).explain(
            SIX
        ),
    ),
    "samples of the data": (
        xj.InputError,
        lambda m, n: xj.QII(m, SIX, samples=n, quantity="rate").explain(),
    ),
    "coverage_samples": (
        MEMORY,
        lambda m, n: xj.AnchorExplainer(m, SIX, perturbation=_drawn).explain(
            SIX[:1], coverage_samples=n
        ),
    ),
    "batch_size": (
        MEMORY,
        lambda m, n: xj.AnchorExplainer(m, SIX).explain(SIX, batch_size=n, search="kl-lucb"),
    ),
    "batch_size of pairs": (
        MEMORY,
        lambda m, n: xj.AnchorExplainer(m, SIX, perturbation="joint").explain(
            SIX, batch_size=n, search="sar"
        ),
    ),
    "table_rows": (MEMORY, lambda m, n: xj.AnchorExplainer(m, SIX, table_rows=n)),
    "samples of a rule": (
        MEMORY,
        lambda m, n: xj.AnchorExplainer(m, SIX, perturbation=_drawn).evaluate(
            [0], SIX[0], samples=n
        ),
    ),
    "bootstrap": (MEMORY, lambda m, n: xj.AEC(bootstrap=n).fit(SIX, np.arange(4.0))),
    "bootstrap of classes": (MEMORY, lambda m, n: xj.AEC(bootstrap=n).fit(SIX, [0, 1, 0, 1])),
}


@pytest.mark.parametrize("number", [10**12, 10**30])
@pytest.mark.parametrize("name", ENDLESS)
def test_draws_without_end_are_refused_before_any_work(name, number):
    error, ask = ENDLESS[name]
    model = Asked(labelled)
    with pytest.raises(xj.XaiError, match=f"{name.split()[0]}={number:,}") as caught:
        ask(_classifier(model), number)
    assert type(caught.value) is error
    assert model.times == 0


@pytest.mark.slow
def test_fresh_draws_to_check_rules_are_refused_too():
    with pytest.raises(MEMORY, match="samples=1,000,000,000,000 takes"):
        _check_of_rules(_classifier(), 10**12)


@pytest.mark.slow
def test_a_pool_drawn_once_is_counted_by_its_rows():
    # A list asks the sqrt(n) rows of the pool, not n draws: 10^10 of them are 10^5 rows a set.
    qii = xj.QII(_classifier(), SIX, samples=10**8, scheme="fixed-pool")
    assert qii.influence([0], SIX[:1]).shape == (1,)


@pytest.mark.slow
def test_a_stopping_rule_makes_any_number_of_samples_a_limit():
    qii = xj.QII(_classifier(), SIX, samples=10**30, stop="bernstein", epsilon=0.5)
    assert qii.unary(SIX[:1]).stats["draws"].max() < 10**6


@pytest.mark.slow
def test_long_draws_replicates_and_searches_are_told_of(monkeypatch):
    from xaijax.games import refuse as long_runs  # noqa: PLC0415
    from xaijax.methods.aec import bootstrap  # noqa: PLC0415

    monkeypatch.setattr(long_runs, "MINUTE_OF_A_CORE", 1e-6)
    monkeypatch.setattr(bootstrap, "MINUTE_OF_A_CORE", 1e-6)
    model = _classifier()
    with pytest.warns(xj.LongRunWarning, match=r"up to 8,400 model rows.*fewer samples="):
        xj.QII(model, SIX, samples=300).explain(SIX)
    with pytest.warns(xj.XaiWarning) as caught:
        xj.QII(model, SIX, samples=300, stop="bernstein", epsilon=0.01, delta=0.5).unary(SIX[:1])
    assert [str(w.message) for w in caught if "larger epsilon=, fewer samples=" in str(w.message)]
    assert sum(isinstance(w.message, xj.LongRunWarning) for w in caught) == 1
    with pytest.warns(xj.LongRunWarning, match="model rows.*samples=, which draws"):
        xj.QII(model, SIX).explain(SIX[:1])
    with pytest.warns(xj.LongRunWarning, match="model rows.*max_size="):
        xj.AnchorExplainer(model, SIX).explain(SIX[:1])
    with pytest.warns(xj.LongRunWarning, match="bootstrap=9 replicates of 4 rows"):
        xj.AEC(bootstrap=9).fit(SIX, np.arange(4.0))


def test_draws_of_a_small_model_are_counted_with_what_it_takes_to_draw_them():
    # 6 columns and 14 rules: 1.4e9 draws, whose hybrids and answers alone are 6e10 operations.
    class Started(Exception):
        pass

    def stop(*_):
        raise Started

    explainer = xj.AnchorExplainer(_classifier(), SIX)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with mock.patch.object(anchors, "search", stop), pytest.raises(Started):
            explainer.explain(SIX[:1], search="kl-lucb", batch_size=10**8)
    assert [w for w in caught if w.category is xj.LongRunWarning and "batch_size" in str(w.message)]


@pytest.mark.slow
def test_sampled_influences_of_more_players_than_float64_has_weights_for():
    # 1 / C(P - 1, s) vanishes beyond a thousand players; every term of an order counts once.
    rows = np.zeros((1, 1100), np.float32)
    model = xj.as_model(lambda z: z.sum(axis=1))
    qii = xj.QII(model, rows, samples=2, outcome="score", quantity="individual", bounds=(0, 2000))
    found = qii.explain(rows + 1)
    # Additive: every marginal is exactly 1 (sums of whole numbers below 2^24 are exact).
    assert np.array_equal(found.values, np.ones((1, 1100)))


@pytest.mark.parametrize("number", [2**31, 2**63, 10**30, 2**200])
@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("name", ["batch_size", "max_memory", "tile", "seed", "devices"])
def test_huge_numbers_are_refused_or_have_a_result(name, number, backend):
    function = product if backend == "jax" else lambda z: np.tanh(z).sum(axis=1) * z[:, 0]
    options = {"estimator": "permutation", "budget": 20, name: number}
    if name != "max_memory":
        options["max_memory"] = 2**30
    model = xj.as_model(function, backend=backend)
    refused = {
        "tile": xj.InputError if number == 10**30 else xj.MemoryPlanError,
        "devices": xj.InputError,
    }
    if name in refused:
        with pytest.raises(refused[name], match=name):
            xj.Explainer(model, SIX, **options)(SIX)
        return
    found = xj.Explainer(model, SIX, **options)(SIX)
    plain = xj.Explainer(model, SIX, estimator="permutation", budget=20)(SIX)
    if name == "seed":
        assert np.isfinite(found.values).all()
    else:
        assert np.array_equal(found.values, plain.values)


def test_a_seed_that_no_generator_takes_is_refused():
    with pytest.raises(xj.InputError, match="seed must be below"):
        xj.AEC(bootstrap=3, seed=2**200).fit(SIX, np.arange(4.0))


def test_draws_of_the_host_that_take_long_are_told_of(monkeypatch):
    """However fast the model is."""
    monkeypatch.setattr(long_runs, "minute", lambda devices: np.inf)
    monkeypatch.setattr(long_runs, "MINUTE_OF_A_CORE", 0.0)
    rows = np.random.default_rng(0).normal(size=(4, 20))
    explain = xj.Explainer(xj.as_model(lambda X: X.prod(axis=1)), rows[:2], budget=40)
    with pytest.warns(xj.LongRunWarning, match="is worked out on the host"):
        explain(rows[2:])
