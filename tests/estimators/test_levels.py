"""`levels="bfloat16"`: values of the float32 model, by brute force over all coalitions in float64.

A weight rounded to 8 bits is off by up to 2^-9 of its size, so that a copy alone misses the values
by some 1e-3. A value in float32 is a mean of sums of some hundred products: 1e-5.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import prompt_values
import pytest
import tiny_gpt
from scipy.stats import chi2, t

import xaijax as xj
from xaijax.methods.explainer.levels import joint_dof

P, N = 7, 2
rng = np.random.default_rng(0)
PARAMS = {
    "first": (rng.normal(size=(P, 16)) / 2).astype(np.float32),
    "last": rng.normal(size=16).astype(np.float32),
}
X, ZERO = rng.normal(size=(N, P)).astype(np.float32), np.zeros((1, P), np.float32)
ROUNDING, COPY = 1e-5, 1e-3


def network(params: Any, rows: Any) -> Any:
    return jnp.tanh(rows @ params["first"]) @ params["last"]


def nearly_additive(params: Any, rows: Any) -> Any:
    """A sum of columns and a small product."""
    return 4 * rows @ params["first"][:, 0] + 1e-4 * rows[:, 0] * rows[:, 1]


def truth(of: Any) -> np.ndarray:
    wide: dict[str, Any] = {name: np.float64(one) for name, one in PARAMS.items()}
    rows = np.float64(X)

    def value(S: frozenset[int], n: int) -> np.ndarray:
        kept = np.where([p in S for p in range(P)], rows[n], 0.0)
        hidden = kept @ wide["first"]
        if of is network:
            return np.atleast_1d(np.tanh(hidden) @ wide["last"])
        return np.atleast_1d(4 * hidden[0] + 1e-4 * kept[0] * kept[1])

    each = [prompt_values.shapley_of(P, lambda S, n=n: value(S, n))[:, 0] for n in range(N)]
    return np.stack(each)


def explainer(of: Any = network, levels: Any = "bfloat16", **given: Any) -> xj.Explainer:
    options = {"estimator": "permutation", "budget": 60, **given}
    return xj.Explainer(xj.as_model(of, PARAMS), ZERO, levels=levels, **options)


def copied(of: Any) -> np.ndarray:
    """The copy's exact values."""
    return xj.Explainer(xj.as_model(of, PARAMS, precision="bfloat16"), ZERO)(X).values


@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_values_are_those_of_the_float32_model(estimator: Any) -> None:
    """The product alone is sampled, in units of 1e-4: the copy is off by far more."""
    found = explainer(nearly_additive, estimator=estimator)(X)
    wanted = truth(nearly_additive)
    assert np.abs(copied(nearly_additive) - wanted).max() > COPY
    assert found.std_errors is not None and not found.exact
    np.testing.assert_allclose(found.values, wanted, atol=3e-4 + ROUNDING)
    assert found.std_errors.max() < 3e-4
    assert found.stats["levels"] == found.provenance["levels"] == "bfloat16"
    whole = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(whole, wanted.sum(axis=1), atol=2 * ROUNDING)


def test_the_model_itself_answers_few_rows() -> None:
    many = explainer(budget=None, estimator="auto")  # all coalitions of the copy
    found = many(X)
    assert found.stats["full_rows"] < found.stats["model_rows"]
    assert found.stats["model_rows"] <= many.plan(X).model_rows.sum()
    assert many.fingerprint(X) == found.fingerprint
    low = xj.as_model(network, PARAMS, precision="bfloat16")
    assert xj.Explainer(low, ZERO)(X).fingerprint != found.fingerprint


@pytest.mark.slow
def test_errors_over_seeds_are_those_that_are_said() -> None:
    """Two-sided tests over 32 seeds, each with a false alarm of 1e-6 for all values together."""
    seeds, wanted = 32, truth(network)
    runs = [explainer(seed=seed)(X) for seed in range(seeds)]
    values = np.stack([one.values for one in runs])
    said = np.mean([np.square(one.std_errors) for one in runs if one.std_errors is not None], 0)
    spread = values.std(axis=0, ddof=1)
    z = (values.mean(axis=0) - wanted) / (spread / np.sqrt(seeds))
    assert np.abs(z).max() < t.ppf(1 - 1e-6 / 2 / wanted.size, seeds - 1)
    # Errors are not understated; the said variances are means of 32 estimates, off by half at most.
    most = chi2.ppf(1 - 1e-6 / wanted.size, seeds - 1) / (seeds - 1)
    assert (spread**2 < 2 * most * said).all()


def test_prompts_in_two_levels() -> None:
    """Four words: all coalitions of the difference are enumerated, so that nothing is drawn."""
    params, prompt = tiny_gpt.params(), "the cat sat. on"
    lm = xj.CausalLM(tiny_gpt.logits, params)
    options: Any = {"start": tiny_gpt.START}
    say: Any = {"targets": [" cat sat"]}
    plain = xj.PromptExplainer(lm, tiny_gpt.tokenizer, **options)([prompt], **say)
    both = xj.PromptExplainer(lm, tiny_gpt.tokenizer, levels="bfloat16", **options)
    found = both([prompt], **say)
    low = xj.CausalLM(tiny_gpt.logits, params, precision="bfloat16")
    copy = xj.PromptExplainer(low, tiny_gpt.tokenizer, **options)([prompt], **say)
    assert np.abs(copy.values - plain.values).max() > COPY
    np.testing.assert_allclose(found.values, plain.values, atol=1e-4)
    np.testing.assert_allclose(found.base_values, plain.base_values, atol=1e-4)
    assert found.exact and found.feature_names == plain.feature_names
    with pytest.raises(xj.InputError, match="levels='bfloat16'.*interactions"):
        both.interactions([prompt], **say)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"levels": "float16"}, "levels must be"),
    ({"estimator": "exact", "budget": None}, "estimator='exact' draws nothing"),
    ({"tolerance": 0.1}, "tolerance="),
    ({"link": "logit"}, "link= is not linear"),
    ({"index": "banzhaf", "estimator": "auto"}, "index= is not 'shapley'"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_has_one_level_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(xj.InputError, match=message):
        explainer(**given)


def test_other_models_and_calls_are_refused() -> None:
    def host(rows: Any) -> Any:
        return rows[:, 0]

    with pytest.raises(xj.InputError, match="runs on the host"):
        xj.Explainer(xj.as_model(host, backend="host"), ZERO, levels="bfloat16")
    precise = xj.as_model(network, PARAMS, precision="bfloat16")
    with pytest.raises(xj.InputError, match="precision='bfloat16' is given"):
        xj.Explainer(precise, ZERO, levels="bfloat16")
    with pytest.raises(xj.InputError, match="top= stops"):
        explainer()(X, top=2)
    with pytest.raises(xj.InputError, match="confidence=0.9 needs top="):
        explainer()(X, confidence=0.9)
    with pytest.raises(xj.InputError, match="give numbers in outputs="):
        explainer(two)(X, outputs="predicted")
    with pytest.raises(xj.InputError, match=r"budget=8 is less than the 48 .* Say budget="):
        explainer(budget=8)(X)
    with pytest.raises(xj.InputError, match="a network learns"):
        xj.AmortizedExplainer(explainer())


def two(params: Any, rows: Any) -> Any:
    """Two outputs."""
    first = network(params, rows)
    return jnp.stack([first, first**2], axis=1)


def test_several_outputs_and_merged_results() -> None:
    """The degrees of freedom are those of the output with the fewest; rows of both are counted."""
    both = explainer(two)
    found = both(X)
    assert found.stats["dof"].shape == (N,) and (found.stats["dof"] >= 1).all()
    assert found.std_errors is not None and found.std_errors.shape == (N, P, 2)
    parts = [both(X[:1]), both(X[1:])]
    merged = xj.merge(parts)
    assert merged.stats["full_rows"] == sum(part.stats["full_rows"] for part in parts)
    assert both.plan(X).model_calls >= found.stats["model_calls"] > 1  # of both runs
    alone = explainer(two, levels=None).plan(X)
    assert both.plan(X).model_calls > alone.model_calls


def test_freedom_of_a_sum_is_the_fewest_of_its_outputs() -> None:
    """Welch and Satterthwaite's formula by hand, for two outputs; a known part counts nothing."""
    first, second = np.ones((1, 3, 2)), np.stack([np.ones((1, 3)), np.zeros((1, 3))], axis=2)
    found = joint_dof([first, second], [np.array([10.0]), np.array([5.0])])
    np.testing.assert_allclose(found, [min(4 / (1 / 10 + 1 / 5), 10.0)])
