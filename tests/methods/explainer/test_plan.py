"""`plan(X)` says what a run asks for before it asks: held against what the run then did."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import often
import pytest
from sklearn.ensemble import RandomForestClassifier

import xaijax as xj
from xaijax.games.engine import dispatch
from xaijax.games.engine.dispatch import Compiled, Program
from xaijax.games.engine.plan import free_memory
from xaijax.models.queries.findings import ProgramCache

RNG = np.random.default_rng(0)
W = RNG.normal(size=(6, 8)).astype(np.float32)
X = RNG.normal(size=(40, 6)).astype(np.float32)
CODES = RNG.integers(0, 3, (40, 6)).astype(np.float32)  # of which many agree with a donor


class Counted:
    """A model that counts the rows that it is called with on the host."""

    def __init__(self) -> None:
        self.rows = 0

    def __call__(self, rows: Any) -> Any:
        self.rows += len(rows)
        return np.tanh(np.asarray(rows) @ W).sum(axis=1)


def network(rows: Any) -> Any:
    return jnp.tanh(rows @ W).sum(axis=1)


def linear(rows: Any) -> Any:
    return rows @ W[:, 0]


def forest() -> xj.Model:
    fitted = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    return xj.as_model(fitted)


MODELS = {
    "first layer": lambda: xj.as_model(network),
    "whole rows": lambda: xj.as_model(network, structure="plain"),
    "additive": lambda: xj.as_model(linear),
    "trees": forest,
    "host": lambda: xj.as_model(Counted(), backend="host"),
}
WAYS: dict[str, dict[str, Any]] = {
    "pairs": {},
    "tables": {"link": np.square},
    "orders": {"estimator": "permutation", "budget": 30},
    "regression": {"estimator": "kernel", "budget": 40},
    "groups": {"players": {"a": [0, 2], "b": [1]}, "index": "banzhaf"},
    "little memory": {"max_memory": 3_000_000},
}


def programs(model: xj.Model) -> int:
    own = [kept for kept in model.compiled.values() if isinstance(kept, ProgramCache)]
    all_kept = [*model.compiled.values(), *(one for kept in own for one in kept.values())]
    return sum(isinstance(one, Program) for one in all_kept)


def of_run(explainer: xj.Explainer, rows: np.ndarray) -> tuple[Any, ...]:
    """What the run asked for, and which programs it compiled."""
    model = explainer._evaluator.engine.model  # the one that answers, where a translation was left
    before = programs(model)
    stats = explainer(rows).stats
    asked = stats["model_rows"], stats["model_calls"], stats["structure"], stats["tile"]
    return *asked, programs(model) - before


@pytest.mark.slow
@often.product(
    {
        "model": MODELS,
        "way": WAYS,
        "rows": [pytest.param(X, id="continuous"), pytest.param(CODES, id="codes")],
    },
    every=6,
    pairwise=True,
)
def test_a_plan_is_what_the_run_then_does(model: str, way: str, rows: np.ndarray) -> None:
    explainer = xj.Explainer(MODELS[model](), rows[:10], **WAYS[way])
    plan = explainer.plan(rows[10:20])
    told = plan.model_rows.sum(), plan.model_calls, plan.structure, plan.tile, plan.programs
    assert told == of_run(explainer, rows[10:20])
    assert explainer.plan(rows[10:20]).programs == 0  # they are kept


@pytest.mark.slow
@often.product({"rows": ["continuous", "codes"], "way": ["pairs", "regression", "orders"]})
def test_a_plan_counts_the_runs_of_each_program(
    rows: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sum of pairs is run for each number of players that differ, in each dispatch with some."""
    ran: Counter[Any] = Counter()
    planned: list[Any] = []
    program, lacking = Compiled.program, Compiled.lacking

    def counting(self: Compiled, recipe: Any) -> Any:
        call = program(self, recipe)

        def counted(*arguments: Any) -> Any:
            ran[recipe.name] += 1
            return call(*arguments)

        return counted

    def noting(self: Compiled, recipes: Any, runs: Any) -> int:
        planned.append(runs)
        return lacking(self, recipes, runs)

    monkeypatch.setattr(Compiled, "program", counting)
    monkeypatch.setattr(Compiled, "lacking", noting)
    own = RNG.normal(size=(60, 12)) if rows == "continuous" else RNG.integers(0, 3, (60, 12))
    weights = RNG.normal(size=(12, 4)).astype(np.float32)
    model = xj.as_model(lambda Z: jnp.tanh(Z @ weights).sum(axis=1))
    explainer = xj.Explainer(model, own[:20].astype(np.float32), **WAYS[way])
    explainer.plan(own[20:].astype(np.float32))
    explainer(own[20:].astype(np.float32))
    (runs,) = planned
    assert runs and runs == {name: ran[name] for name in runs}


def test_a_described_device_needs_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices of a topology are for compilers: nothing is compiled here, and none can be asked."""
    client = SimpleNamespace(runtime_type="compile_only_runtime")
    chip = SimpleNamespace(platform="tpu", device_kind="TPU v5 lite", client=client)
    with pytest.raises(xj.InputError, match="topology, which does not state their memory.*max_mem"):
        free_memory(chip)
    monkeypatch.setattr(dispatch, "only_described", lambda device: True)
    devices = jax.devices()[:1]
    wide = xj.as_model(lambda Z: (Z[:, :1] * jnp.ones(1 << 22)).sum(axis=1))
    monkeypatch.setattr(Compiled, "program", None)  # no program is compiled before the refusal
    with pytest.raises(
        xj.MemoryPlanError, match=r"widest layer 4194304\).* shares are 25,000,000 "
    ):
        xj.Explainer(wide, X[:10], devices=devices, max_memory=100_000_000).plan(X)


@pytest.mark.parametrize("options", [{}, {"structure": "plain"}], ids=["layer", "plain"])
def test_parameters_of_a_described_device_are_planned(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network of 16 MB was planned with 9 MB on a device that should hold less."""
    monkeypatch.setattr(dispatch, "only_described", lambda device: True)
    params = {"W": np.ones((4, 2048), np.float32), "V": np.ones((2048, 2048), np.float32)}

    def network(params: Any, rows: Any) -> Any:
        return jnp.tanh(jnp.tanh(rows @ params["W"]) @ params["V"]).sum(axis=1)

    model = xj.as_model(network, params, **options)
    made = {"devices": jax.devices()[:1], "max_memory": 1 << 24, "batch_size": 64}
    with pytest.raises(xj.MemoryPlanError, match="16,809,984 for parameters"):
        xj.Explainer(model, X[:2, :4], **made).plan(X[:1, :4])
    monkeypatch.undo()  # a CPU's own parameters are the caller's, and come on top
    xj.Explainer(model, X[:2, :4], **made).plan(X[:1, :4])


CALLS: dict[str, Any] = {
    "values": lambda model, options: xj.Explainer(model, X[:10], **options)(X),
    "orders": lambda model, options: xj.Explainer(
        model, X[:10], estimator="permutation", budget=40, **options
    )(X),
    "influence": lambda model, options: xj.QII(model, X[:10], **options).explain(X),
    "rules": lambda model, options: xj.AnchorExplainer(model, X[:10], **options).explain(X),
    "gradients": lambda model, options: xj.GradientExplainer(model, X[:10], **options)(X),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_on_described_devices_is_refused(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended in JAX's error UNIMPLEMENTED."""
    options = {"devices": jax.devices()[:1], "max_memory": 1 << 30}
    threshold = None if call == "gradients" else 0.0
    model = xj.as_model(lambda Z: jnp.tanh(Z).sum(axis=1), threshold=threshold)
    monkeypatch.setattr(dispatch, "only_described", lambda device: True)
    with pytest.raises(xj.InputError, match=r"devices= are cpu of a topology.*Call plan\(X\)"):
        CALLS[call](model, options)


@pytest.mark.slow
def test_averaged_tables_are_planned_without_being_compiled() -> None:
    rows = RNG.normal(size=(30, 12)).astype(np.float32)
    weights = RNG.normal(size=(12, 4)).astype(np.float32)
    explainer = xj.Explainer(xj.as_model(lambda Z: jnp.tanh(Z @ weights).sum(axis=1)), rows[:20])
    plan = explainer.plan(rows[20:])
    assert plan.programs == 1
    assert (plan.model_rows == 20 << 12).all()
    told = plan.model_rows.sum(), plan.model_calls, plan.structure, plan.tile, plan.programs
    assert told == of_run(explainer, rows[20:])


@pytest.mark.slow
def test_each_instance_has_its_estimator() -> None:
    background = np.zeros((4, 20), np.float32)
    rows = np.zeros((6, 20), np.float32)
    rows[:3, :2], rows[3:] = 1, 1  # two players differ, or all twenty
    explainer = xj.Explainer(xj.as_model(lambda Z: jnp.tanh(Z.sum(axis=1))), background, budget=64)
    plan = explainer.plan(rows)
    assert plan.estimator.tolist() == ["exact"] * 3 + ["permutation"] * 3
    assert plan.model_rows[:3].tolist() == [16, 16, 16]
    assert "exact" in repr(plan)
    assert "permutation" in plan._repr_html_()
    stats = explainer(rows).stats
    assert (stats["exact_rows"] == (plan.estimator == "exact")).all()
    assert plan.model_rows.sum() == stats["model_rows"]


def test_a_tolerance_asks_at_most_what_is_planned() -> None:
    rows = np.tile(X, 2)  # twelve players: eight pairs of orders are less than the budget
    model = xj.as_model(lambda Z: network(Z[:, :6]) + Z[:, 6:].sum(axis=1), structure="plain")
    explainer = xj.Explainer(model, rows[:4], estimator="permutation", budget=900, tolerance=9.0)
    most = explainer.plan(rows[10:20]).model_rows.sum()
    assert 0 < explainer(rows[10:20]).stats["model_rows"] < most / 2


@pytest.mark.slow
def test_only_the_probe_is_asked_and_a_translation_compared_on_its_first_rows() -> None:
    counted = Counted()
    many = np.repeat(X, 50, axis=0)
    xj.Explainer(xj.as_model(counted, backend="host"), X[:20]).plan(many)
    probed = counted.rows
    xj.Explainer(xj.as_model(Counted(), backend="host"), X[:20])(X[20:22])
    assert probed <= 3 * 32  # the same rows twice, and some of them alone
    model = forest()
    asked = 0

    def chances(rows: Any, own: Any = model.comparison.original) -> Any:
        nonlocal asked
        asked += len(rows)
        return own(rows)

    model.comparison.original = chances
    donors = RNG.normal(size=(1_000, 6)).astype(np.float32)  # equal ones would be one
    assert xj.Explainer(model, donors).plan(many).backend == "jax"
    assert 0 < asked <= 2 * 128


def test_what_a_call_refuses_a_plan_refuses() -> None:
    model = xj.as_model(lambda Z: jnp.tanh(Z.sum(axis=1)))
    explainer = xj.Explainer(model, np.zeros((1, 30), np.float32), estimator="exact")
    with pytest.raises(xj.EnumerationLimitError, match="differ in 30 players"):
        explainer.plan(np.ones((1, 30), np.float32))
    with pytest.raises(xj.InputError, match="X"):
        xj.Explainer(model, X[:3]).plan(X[:3, :5])


QUANTITIES = ("individual", "actual", "average", "rate", "disparity")


@often.product(
    {"quantity": QUANTITIES, "backend": ["jax", "host"]},
    often=lambda quantity, backend: backend == "host" or quantity == "actual",
)
def test_qii(quantity: str, backend: str) -> None:
    def decided(rows: Any) -> Any:
        if backend == "host":
            return (np.tanh(np.asarray(rows) @ W).sum(axis=1) > 0).astype(int)
        return (network(rows) > 0).astype(jnp.int32)

    model = xj.as_model(decided, output="label", backend=backend)
    members = {0: 1} if quantity == "disparity" else None
    qii = xj.QII(model, CODES, quantity=quantity, members=members)
    given = (CODES[:5],) if quantity in ("individual", "actual") else ()
    plan = qii.plan(*given)
    stats = qii.explain(*given).stats
    assert plan.model_rows.sum() == stats["model_rows"]
    assert (plan.model_calls, plan.structure) == (stats["model_calls"], stats["structure"])
    assert set(plan.estimator) == {"exact"}
    if quantity == "disparity":
        drawn = xj.QII(model, CODES, quantity=quantity, members=members, samples=300)
        for ask in (drawn.explain, drawn.plan):
            with pytest.raises(xj.InputError, match="no unbiased draws"):
                ask()
        return
    for scheme in ("fresh", "fixed-pool"):
        drawn = xj.QII(model, CODES, quantity=quantity, samples=300, scheme=scheme)
        plan, stats = drawn.plan(*given), drawn.explain(*given).stats
        assert stats["model_rows"] <= plan.model_rows.sum() <= 1.1 * stats["model_rows"]
        assert stats["model_calls"] <= plan.model_calls
        assert set(plan.estimator) == {"sampled"}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["fresh", "fixed-pool"])
def test_draws_that_a_structure_answers_take_the_calls_that_are_said(scheme: str) -> None:
    """The ends too are answered by tables of values; pools are asked row by row."""
    model = xj.as_model(network)
    drawn = xj.QII(
        model, CODES, quantity="individual", outcome="score", samples=300, scheme=scheme,
        bounds=(-9, 9),
    )  # fmt: skip
    plan, stats = drawn.plan(CODES[:5]), drawn.explain(CODES[:5]).stats
    assert plan.structure == stats["structure"] == "first layer"
    assert stats["model_calls"] <= plan.model_calls
    assert plan.model_calls == 0 or scheme == "fixed-pool"


def test_qii_plans_without_the_labels_of_the_data() -> None:
    counted = Counted()
    many = np.repeat(CODES, 100, axis=0)
    model = xj.as_model(lambda rows: counted(rows) > 0, output="label", backend="host")
    qii = xj.QII(model, many, quantity="rate", samples=200)
    qii.plan()
    assert counted.rows <= 3 * 32
    assert "the last label seen on data" in repr(qii)  # nothing is decided by it
    assert qii.unary().values.shape == (1, 6)


@pytest.mark.slow
@pytest.mark.parametrize("search", ["exact", "table", "kl-lucb"])
def test_anchors(search: str) -> None:
    model = xj.as_model(lambda rows: (network(rows) > 0).astype(jnp.int32), output="label")
    perturbation = "conditional" if search == "exact" else "row_bin"
    explainer = xj.AnchorExplainer(model, X, perturbation=perturbation)
    plan = explainer.plan(X[:5], search=search)
    stats = explainer.explain(X[:5], search=search).stats
    assert plan.estimator.tolist() == [search] * 5
    if search == "exact":
        assert plan.model_rows.sum() == stats["model_rows"]
    else:  # rules of up to three columns: about as many
        assert plan.model_rows.sum() / 10 < stats["model_rows"] < 10 * plan.model_rows.sum()


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["auto", "wls"])
def test_federated(estimator: str) -> None:
    guests = {"bank": [1, 2], "shop": [3]}
    explainer = xj.FederatedExplainer(xj.as_model(network), X, guests, estimator=estimator)
    plan = explainer.plan(X[:7])
    assert plan.model_rows.sum() == explainer(X[:7]).stats["model_rows"]
    assert set(plan.estimator) == {"wls" if estimator == "wls" else "exact"}
