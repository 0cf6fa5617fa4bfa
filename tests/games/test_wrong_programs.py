"""A program that the compiler makes wrong never reaches an answer (bad input 114).

XLA's CPU compiler (jaxlib 0.12.0.1) reads memory of something else where a product with a repeated
number is in one fusion with a sum, mean or maximum of 4,096 numbers or more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from often import some_slow

import xaijax as xj
from xaijax.core import compiler
from xaijax.games.engine.dispatch import Compiled

F, H = 5, 128
RNG = np.random.default_rng(0)
W = (RNG.normal(size=(F, H)) / 2).astype(np.float32)
ROWS = RNG.normal(size=(3000, F)).astype(np.float32)
B, X = ROWS[:40], ROWS[40:52]


def softmax(xp: Any, x: Any) -> Any:
    return (xp.exp(x) / (xp.exp(x) @ xp.ones((F, F), x.dtype)) * x).sum(axis=1)


def filled(xp: Any, x: Any) -> Any:
    return (xp.exp(x) @ xp.full((F, F), 0.2, x.dtype)).max(axis=1) * x[:, 0]


def of_numpy(xp: Any, x: Any) -> Any:
    return ((x * x[:, :1]) @ np.full((F, F), 0.2, x.dtype)).mean(axis=1)


def one_hot(xp: Any, x: Any) -> Any:
    largest = (x[:, :, None] >= x[:, None, :]).all(axis=2).astype(x.dtype)
    return (largest @ xp.ones((F, F), x.dtype)).sum(axis=1) * x[:, 0] * x[:, 1]


def jitted(xp: Any, x: Any) -> Any:
    def inner(z: Any) -> Any:
        return (xp.tanh(z) @ xp.ones((F, F), z.dtype)).sum(axis=1)

    return (jax.jit(inner) if xp is jnp else inner)(x) * x[:, 0]


def behind_a_layer(xp: Any, x: Any) -> Any:
    return (xp.tanh(x @ W[:, :8]) @ xp.ones((8, 8), x.dtype)).sum(axis=1)


def wide(xp: Any, x: Any) -> Any:
    """Wrong in the 32 rows of the probe as well."""
    return (xp.tanh(x @ W) @ xp.ones((H, H), x.dtype)).sum(axis=1) / H


MODELS = [softmax, filled, of_numpy, one_hot, jitted, behind_a_layer, wide]


def in_jax(f: Any) -> Callable[[Any], Any]:
    return lambda x: f(jnp, x)


def truth(f: Any, rows: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Shapley values [N, P, 1] by the definition, in float64."""

    def answers(Z: np.ndarray) -> np.ndarray:
        return f(np, np.asarray(Z, np.float64))[:, None]

    return oracles.explain(answers, rows, background, oracles.shapley_weight(F))[0]


def close(found: Any, wanted: np.ndarray) -> None:
    """Sums of at most 128 terms, twice, each rounded in float32 at the size of the largest answer
    of a hybrid, which is at most 64 times the largest value here.
    """
    size = 64 * np.abs(wanted).max()
    np.testing.assert_allclose(
        np.asarray(found).reshape(wanted.shape), wanted, rtol=0, atol=16 * 2.0**-23 * size
    )


@pytest.mark.parametrize("f", MODELS)
def test_row_114_predict(f: Any) -> None:
    close(xj.as_model(in_jax(f)).predict(ROWS), f(np, ROWS.astype(np.float64)))


WAYS = {
    "exact": lambda model: xj.Explainer(model, B)(X),
    "plain": lambda model: xj.Explainer(model, B)(X),
    "sampled": lambda model: xj.Explainer(model, B, estimator="permutation", budget=60)(X),
    "Baseline": lambda model: xj.Explainer(model, xj.Baseline(B[0]))(np.tile(X, (200, 1))),
    "interactions": lambda model: xj.Explainer(model, B).interactions(X, order=1),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:budget=60 covers all")
@pytest.mark.parametrize(
    ("way", "f"),
    some_slow([(way, f) for f in (softmax, wide, behind_a_layer) for way in WAYS], every=7),
)
def test_row_114_explanations(way: str, f: Any) -> None:
    model = xj.as_model(in_jax(f), structure="plain" if way == "plain" else None)
    values = np.asarray(WAYS[way](model).values)
    close(values[: len(X)], truth(f, X, B[:1] if way == "Baseline" else B))


@pytest.mark.slow
@pytest.mark.parametrize("f", some_slow([softmax, jitted, behind_a_layer, wide], every=4))
def test_row_114_gradients(f: Any) -> None:
    """Along a line to zeros they add up to the difference of the answers."""
    explainer = xj.GradientExplainer(
        xj.as_model(in_jax(f)), xj.Baseline(np.zeros(F, np.float32)), steps=64
    )
    found = np.asarray(explainer(ROWS[:200]).values).reshape(200, F).sum(axis=1)
    ends = f(np, np.concatenate([ROWS[:200], np.zeros((1, F))]).astype(np.float64))
    wanted = ends[:-1] - ends[-1]
    # 64 places by Gauss's rule are exact to 1e-6 for such smooth lines of a length of at most 6.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.slow
def test_row_114_a_function_of_jax() -> None:
    found = xj.shapley_values(in_jax(softmax), jnp.asarray(X), jnp.asarray(B))
    close(found, truth(softmax, X, B))


@pytest.mark.parametrize("f", some_slow(MODELS, every=7))
def test_row_114_a_function_of_jax_in_a_program_of_its_caller(f: Any) -> None:
    found = jax.jit(lambda x, donors: xj.shapley_values(in_jax(f), x, donors))(X, B)
    close(found, truth(f, X, B))


@pytest.mark.slow
@pytest.mark.parametrize("f", [softmax, behind_a_layer, wide])
def test_row_114_derivatives_in_a_program_of_its_caller(f: Any) -> None:
    """Equal to those of the program that is compiled without the fusions."""

    def size(x: Any) -> Any:
        return (xj.shapley_values(in_jax(f), x, B) ** 2).sum()

    program = jax.jit(jax.grad(size))
    sound = program.lower(X).compile(compiler_options=compiler.WITHOUT_FUSIONS)
    close(program(X), np.asarray(sound(X), np.float64))


@pytest.mark.parametrize("f", [jitted, behind_a_layer])
def test_row_114_as_jax_in_a_program_of_its_caller(f: Any) -> None:
    function = xj.as_jax(xj.as_model(in_jax(f)))
    close(jax.jit(function)(ROWS), f(np, ROWS.astype(np.float64)))


def in_steps(x: Any) -> Any:
    """Products in a scan, in a branch, in a function that is made again, and in own derivatives."""
    square = W[:, :F]

    @jax.custom_jvp
    def own(z: Any) -> Any:
        return z @ square

    own.defjvp(lambda primals, tangents: (own(*primals), 2 * tangents[0] @ square))

    z = jax.lax.scan(lambda c, _: (jnp.tanh(c @ square), None), x, None, length=3)[0]
    z = jax.lax.cond(x.sum() > 0, lambda z: z @ square, lambda z: z @ -square, z)
    z = own(jax.checkpoint(lambda z: jnp.sin(z @ square))(z))
    z = jax.lax.fori_loop(0, 2, lambda _, z: jnp.tanh(z @ square), z)
    return jax.vmap(lambda row: row @ square)(z).sum(axis=1)


@pytest.mark.slow
def test_barriers_change_no_function_and_stand_around_every_product() -> None:
    kept = compiler.without_fused_products(in_steps)
    np.testing.assert_allclose(kept(X), in_steps(X), rtol=0, atol=1e-6)  # roundings of about 1
    change = np.ones_like(X)
    for mine, theirs in zip(
        jax.jvp(kept, (X,), (change,)), jax.jvp(in_steps, (X,), (change,)), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-5)
    text = jax.jit(kept).lower(X).as_text()
    assert text.count("optimization_barrier") == 3 * text.count("dot_general") > 0


def test_a_sound_program_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    options = []

    class Lowered:
        def __init__(self, lowered: Any) -> None:
            self._lowered = lowered

        def compile(self, **given: Any) -> Any:
            options.append(given)
            return self._lowered.compile(**given)

    def network(x: Any) -> Any:
        return jnp.tanh(x @ W + 1).sum(axis=1)

    compiler.compile_sound(Lowered(jax.jit(network).lower(ROWS)))
    assert options == [{}]


FUSED = """
%fused (a: f32[1024,5]) -> f32[1024] {
  %a = f32[1024,5]{1,0} parameter(0)
  %one = f32[] constant(1)
  %many = f32[5,5]{1,0} broadcast(%one), dimensions={}
  %turned = f32[5,5]{0,1} bitcast(%many)
  %product = f32[1024,5]{1,0} dot(%a, OPERAND), lhs_contracting_dims={1}
  ROOT %sum = f32[1024]{0} reduce(%product, %one), dimensions={1}, to_apply=%add
}

ENTRY %main (x: f32[1024,5]) -> f32[1024] {
  ROOT %out = f32[1024]{0} fusion(%x), kind=kCustom, calls=%fused, config={"kind":"KIND"}
}
"""


@pytest.mark.parametrize(
    ("operand", "kind", "wrong"),
    [
        ("%many", "__ynn_fusion", True),
        ("%turned", "__ynn_fusion", True),
        ("%a", "__ynn_fusion", False),
        ("%many", "__other", False),
    ],
)
def test_a_product_with_a_repeated_number_is_seen(operand: str, kind: str, wrong: bool) -> None:
    text = FUSED.replace("OPERAND", operand).replace("KIND", kind)
    assert compiler.repeats_an_operand(text) == wrong


def smooth(number: int) -> Callable[[Any, Any], Any]:
    """A model of which no other test has programs."""
    return lambda xp, x: xp.tanh(x @ W[:, :4]).prod(axis=1) + x[:, 0] * x[:, 1] * number


def made_wrong(monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Any, int], bool]) -> list[Any]:
    """Programs that hold a whole model are off by 1 percent in the calls, counted from 1, for which
    `wrong` says so of the recipe and the number. The list fills with the calls.
    """
    program, calls = Compiled.program, []

    def patched(self: Compiled, recipe: Any) -> Any:
        call = program(self, recipe)
        if recipe.key[0] != "run":
            return call

        def run(*given: Any) -> Any:
            calls.append(recipe.name)
            values, bad = call(*given)
            return (values * 1.01 if wrong(recipe, len(calls)) else values), bad

        return run

    monkeypatch.setattr(Compiled, "program", patched)
    return calls


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["exact", "permutation"])
def test_a_wrong_program_is_left_for_blocks_of_few_rows(
    monkeypatch: pytest.MonkeyPatch, estimator: Any
) -> None:
    made_wrong(monkeypatch, lambda recipe, _: not recipe.key[-1])  # not in blocks
    f = smooth(2 if estimator == "exact" else 3)
    budget: Any = {} if estimator == "exact" else {"budget": 10}
    explainer = xj.Explainer(
        xj.as_model(in_jax(f), structure="plain"), B, estimator=estimator, **budget
    )
    with pytest.warns(xj.XaiWarning, match="XLA's compiler for cpu.*jaxlib") as told:
        got = explainer(X)
    assert len(told) == 1
    again = explainer(X)  # the warning is given once
    np.testing.assert_array_equal(again.values, got.values)
    if estimator == "exact":
        close(got.values, truth(f, X, B))
    else:
        sums = got.base_values.ravel() + got.values.sum(axis=1).ravel()
        close(sums, f(np, X.astype(np.float64)))


@pytest.mark.slow
def test_a_program_that_stays_wrong_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made_wrong(monkeypatch, lambda *_: True)
    explainer = xj.Explainer(xj.as_model(in_jax(smooth(4)), structure="plain"), B)
    with pytest.raises(xj.ModelOutputError, match="another version of jaxlib"):
        explainer(X)


def test_a_program_that_turns_wrong_is_found_by_f_of_x(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values and base value are off by the same share, so that they add up to what it answers."""
    made_wrong(monkeypatch, lambda _, number: number > 1)
    explainer = xj.Explainer(xj.as_model(in_jax(smooth(6)), structure="plain"), B)
    with pytest.raises(xj.ModelOutputError, match="another answer to X row"):
        explainer(X)


def test_predict_is_held_against_the_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    model = xj.as_model(in_jax(smooth(7)))
    model.probe(B)
    compiled = compiler.compile_sound
    monkeypatch.setattr(
        "xaijax.models.queries.predict.compile_sound",
        lambda lowered: lambda *given: compiled(lowered)(*given) * 1.01,
    )
    with pytest.raises(xj.ModelOutputError, match="a call with 4096 rows than in one with 32"):
        model.predict(ROWS)


def test_a_sound_program_is_asked_once_more_than_the_run_asks_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, program = [], Compiled.program

    def counted(self: Compiled, recipe: Any) -> Any:
        call = program(self, recipe)
        return call if recipe.key[0] != "run" else lambda *a: calls.append(recipe.name) or call(*a)

    monkeypatch.setattr(Compiled, "program", counted)
    model = xj.as_model(in_jax(smooth(5)), structure="plain")
    explainer = xj.Explainer(model, B)
    first = explainer(X).stats["model_calls"]
    assert len(calls) == first + len(set(calls))
    calls.clear()
    assert explainer(X).stats["model_calls"] == len(calls) == first
    calls.clear()
    assert xj.Explainer(model, B)(X).stats["model_calls"] == len(calls) == first


@pytest.mark.slow
@pytest.mark.parametrize("how", ["scored", "seeded"])
def test_programs_with_a_score_or_with_slots_of_the_device_are_held(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A sound one passes; a wrong one is left for blocks of few rows, at its first use."""
    f = smooth(8 if how == "scored" else 9)

    def asked(scale: float) -> Any:
        model = xj.as_model(lambda x: scale * f(jnp, x), structure="plain")
        if how == "scored":
            qii = xj.QII(model, B, quantity="individual", outcome="score", bounds=(-99, 99))
            return qii.explain(X).values
        return xj.Explainer(model, B)(X).values

    if how == "seeded":
        monkeypatch.setattr("xaijax.games.engine.programs.counted_on", lambda mesh: True)
    sound = asked(1.0)
    made_wrong(monkeypatch, lambda recipe, _: not recipe.key[-1])  # not in blocks
    with pytest.warns(xj.XaiWarning, match="XLA's compiler for cpu") as told:
        np.testing.assert_allclose(asked(2.0), 2 * sound, rtol=0, atol=1e-4)  # answers of about 50
    assert len(told) == 1
