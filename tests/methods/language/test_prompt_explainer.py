"""`PromptExplainer` against brute force: every coalition's text through a NumPy transformer.

float32: a log-probability is a sum of some hundred products of numbers of size 1, so eps times a
thousand, 1e-4, is above its rounding; a value is a mean of such differences.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import prompt_values
import pytest
import tiny_gpt
from tiny_gpt import PROMPT, START

import xaijax as xj

PARAMS = tiny_gpt.params()
LM = xj.CausalLM(tiny_gpt.logits, PARAMS, context=tiny_gpt.LONGEST)
ORACLE = partial(prompt_values.gpt_logits, PARAMS, heads=tiny_gpt.H)
OTHERS = ["a dog ran. by mat? he sat", "we all saw. it mat? so far"]
TARGET = " cat sat"
ROUNDING = 1e-4


def explainer(**given: Any) -> xj.PromptExplainer:
    return xj.PromptExplainer(LM, tiny_gpt.tokenizer, **({"start": START} | given))


def words_of(text: str) -> list[list[int]]:
    """The tokens of each word, from the tokenizer's places alone."""
    ids, spans = tiny_gpt.tokenizer(text)
    found: list[list[int]] = []
    for token, (a, b) in zip(ids, spans, strict=True):
        if a == 0 or text[a] == " ":
            found.append([])
        found[-1].append(token)
        assert b > a
    return found


TARGET_IDS = tiny_gpt.tokenizer(TARGET)[0]


def value(
    words: list[list[int]], S: frozenset[int], stand_in: Any = None, target: Any = None
) -> np.ndarray:
    """Log-probability of each target token behind the words in S; stand_in(word): in its place."""
    other = stand_in or (lambda p, word: [])
    kept = [word if p in S else other(p, word) for p, word in enumerate(words)]
    before = [START, *(token for word in kept for token in word)]
    return prompt_values.log_probabilities(
        lambda ids, hidden: ORACLE(ids=ids, hidden=hidden), before, target or TARGET_IDS
    )


def truth(words: list[list[int]], stand_in: Any = None, target: Any = None) -> np.ndarray:
    """Shapley values [P, t]."""
    return prompt_values.shapley_of(len(words), lambda S: value(words, S, stand_in, target))


def test_dropped_words_equal_brute_force() -> None:
    found = explainer()([PROMPT], targets=[TARGET])
    words = words_of(PROMPT)
    np.testing.assert_allclose(found.values[0], truth(words).sum(axis=1), atol=ROUNDING)
    base = value(words, frozenset()).sum()
    np.testing.assert_allclose(found.base_values[0], base, atol=ROUNDING)
    assert found.segments == (("the", " cat", " sat.", " on", " mat?", " it", " ran"),)
    assert found.feature_names == ("the", "cat", "sat.", "on", "mat?", "it", "ran")
    assert list(found.stats["targets"]) == [TARGET]
    assert found.exact and found.stats["estimator"] == "exact"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("absent", "stand_in"),
    [
        (5, lambda p, word: [5] * len(word)),
        pytest.param(
            " dog ran",
            lambda p, word: tiny_gpt.tokenizer(" dog ran")[0],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["token", "text"],
)
def test_replaced_words_equal_brute_force(absent: Any, stand_in: Any) -> None:
    found = explainer(absent=absent)([PROMPT], targets=TARGET)
    expected = truth(words_of(PROMPT), stand_in).sum(axis=1)
    np.testing.assert_allclose(found.values[0], expected, atol=ROUNDING)
    assert found.provenance["absent"] == absent


def test_masked_words_keep_their_positions() -> None:
    found = explainer(absent="mask")([PROMPT], targets=TARGET)
    words = words_of(PROMPT)

    def of(S: frozenset[int]) -> np.ndarray:
        hidden = [False, *(p not in S for p, word in enumerate(words) for _ in word)]
        before = [START, *(token for word in words for token in word)]
        return prompt_values.log_probabilities(
            lambda ids, lost: ORACLE(ids=ids, hidden=lost), before, TARGET_IDS, hidden
        )

    expected = prompt_values.shapley_of(len(words), of).sum(axis=1)
    np.testing.assert_allclose(found.values[0], expected, atol=ROUNDING)
    assert np.abs(expected - truth(words).sum(axis=1)).max() > 0.01  # another question


def test_words_of_other_prompts_are_averaged() -> None:
    found = explainer(absent=OTHERS)([PROMPT], targets=TARGET)
    parts = [truth(words_of(PROMPT), lambda p, word, o=o: words_of(o)[p]) for o in OTHERS]
    expected = np.mean([one.sum(axis=1) for one in parts], axis=0)
    np.testing.assert_allclose(found.values[0], expected, atol=ROUNDING)
    assert found.provenance["absent"] == "2 prompts"


@pytest.mark.slow
def test_each_token_of_the_target_is_an_output() -> None:
    found = explainer()([PROMPT], targets=TARGET, outputs="tokens")
    expected = truth(words_of(PROMPT))
    np.testing.assert_allclose(found.values[0], expected, atol=ROUNDING)
    assert found.shape == (1, 7, len(TARGET_IDS))
    assert found.output_names == tuple(map(str, TARGET_IDS))


@pytest.mark.slow
def test_function_of_logits() -> None:
    def margin(logits: Any, ids: Any) -> Any:
        return logits[:, 0, 3] - logits[:, 0, 4]

    found = explainer()([PROMPT], targets=TARGET, outputs=margin)
    words = words_of(PROMPT)

    def of(S: frozenset[int]) -> float:
        before = [START, *(token for p in sorted(S) for token in words[p])]
        last = ORACLE(ids=before)[-1]
        return last[3] - last[4]

    expected = prompt_values.shapley_of(len(words), of)
    np.testing.assert_allclose(found.values[0], expected, atol=ROUNDING)


@pytest.mark.slow
def test_prompts_of_different_lengths_in_one_call() -> None:
    texts = [PROMPT, "it ran", "on mat? the cat"]
    found = explainer()(texts, targets=["it", TARGET, " on"])
    own = tiny_gpt.tokenizer
    assert found.shape == (3, 7)
    assert found.present is not None and found.segments is not None
    assert found.feature_names == tuple(f"segment {p}" for p in range(7))  # in text order
    for n, (text, target) in enumerate(zip(texts, ["it", TARGET, " on"], strict=True)):
        words = words_of(text)
        ids = own(text + target)[0][len(own(text)[0]) :]
        expected = truth(words, target=ids).sum(axis=1)
        np.testing.assert_allclose(found.values[n, : len(words)], expected, atol=ROUNDING)
        assert (found.values[n, len(words) :] == 0).all()
        assert found.present[n].sum() == len(words) == len(found.segments[n])
        assert found[n].feature_names == tuple(one.strip() for one in found.segments[n])
        assert found[n].present is None and found[n].shape == (1, len(words))
    again = explainer()(texts[1:2], targets=[TARGET])  # other padding, the same question
    np.testing.assert_allclose(again.values[0], found.values[1, :2], atol=ROUNDING)


@pytest.mark.slow
def test_targets_are_generated_greedily() -> None:
    found = explainer()([PROMPT, "it ran"], new_tokens=3)
    for n, text in enumerate([PROMPT, "it ran"]):
        ids = [START, *tiny_gpt.tokenizer(text)[0]]
        for _ in range(3):
            ids.append(int(np.argmax(ORACLE(ids=ids)[-1])))
        assert found.stats["targets"][n] == " ".join(map(str, ids[-3:]))
    first = found.stats["targets"][1].split()[0]
    ended = xj.PromptExplainer(LM, tiny_gpt.tokenizer, start=START, stop=int(first))(["it ran"])
    assert ended.stats["targets"][0] == first


@pytest.mark.slow
def test_chat_and_given_spans_and_gaps_never_play() -> None:
    spans = [(0, 3), (7, 11), (12, 20)]  # " cat", "." and " it ran" belong to nobody
    chat = "so {} far"
    found = explainer(chat=chat, start=None)([PROMPT], targets=TARGET, players=[spans])
    whole, own = "so " + PROMPT + " far", tiny_gpt.tokenizer
    ids, places = own(whole)

    def of(S: frozenset[int]) -> float:
        before = []
        for token, (a, b) in zip(ids, places, strict=True):
            a += whole[a:b].startswith(" ")
            owner = [p for p, (c, d) in enumerate(spans) if c <= a - 3 < d]
            if not owner or owner[0] in S:
                before.append(token)
        return prompt_values.log_probabilities(
            lambda ids, lost: ORACLE(ids=ids, hidden=lost), before, TARGET_IDS
        ).sum()

    np.testing.assert_allclose(found.values[0], prompt_values.shapley_of(3, of), atol=ROUNDING)
    assert found.segments == (("the", " sat", " on mat?"),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "segments"),
    [
        ("token", ("the", " cat", " sat", ".", " on", " mat", "?", " it", " ran")),
        ("sentence", ("the cat sat.", " on mat?", " it ran")),
        ("line", ("the cat sat. on mat? it ran",)),
        (lambda text: [(0, 12), (12, len(text))], ("the cat sat.", " on mat? it ran")),
    ],
)
def test_who_plays(by: Any, segments: tuple[str, ...]) -> None:
    found = explainer(by=by)([PROMPT], targets=TARGET)
    assert found.segments == (segments,)
    full = value([tiny_gpt.tokenizer(PROMPT)[0]], frozenset([0])).sum()
    np.testing.assert_allclose(found.base_values + found.values.sum(axis=1), full, atol=ROUNDING)


@pytest.mark.slow
def test_estimators_interactions_top_plan_and_files(tmp_path: Any) -> None:
    exact = explainer()([PROMPT], targets=TARGET)
    for estimator in ("permutation", "kernel"):
        found = explainer(estimator=estimator, budget=60)([PROMPT], targets=TARGET)
        # 5 standard errors: with 14 values, a false alarm in less than 1e-5 of seeds; fixed here.
        off = np.abs(found.values - exact.values) / found.std_errors
        assert off.max() < 5
    pairs = explainer().interactions([PROMPT], targets=TARGET)
    np.testing.assert_allclose(pairs.values[0, :7], exact.values[0], atol=ROUNDING)
    words = words_of(PROMPT)
    a, b = 0, 6
    rest = [p for p in range(7) if p not in (a, b)]
    total = 0.0
    for bits in range(1 << 5):
        S = frozenset(p for j, p in enumerate(rest) if bits >> j & 1)
        weight = 1 / (6 * [1, 5, 10, 10, 5, 1][len(S)])
        four = [S | {a, b}, S | {a}, S | {b}, S]
        total += weight * np.dot([1, -1, -1, 1], [value(words, one).sum() for one in four])
    np.testing.assert_allclose(pairs.matrix[0, a, b], total, atol=4 * ROUNDING)
    assert pairs.feature_names == exact.feature_names
    top = explainer()([PROMPT], targets=TARGET, top=2)
    assert top.stats["certain"].all()
    assert explainer().plan([PROMPT], targets=TARGET).model_rows.sum() == 2**7
    inner, X = explainer().as_explainer([PROMPT], targets=TARGET)
    assert xj.judge(exact.values[:, ::-1], inner, X).relative_error < 1e-6
    exact.save(tmp_path / "one.npz")
    back = xj.load(tmp_path / "one.npz")
    assert back.segments == exact.segments and back.stats["targets"] == exact.stats["targets"]


@pytest.mark.slow
def test_tokenizer_without_places_plays_token_by_token() -> None:
    def ids(text: str) -> list[int]:
        return tiny_gpt.tokenizer(text)[0]

    found = xj.PromptExplainer(LM, ids, by="token", start=START)([PROMPT], targets=TARGET)
    other = explainer(by="token")([PROMPT], targets=TARGET)
    np.testing.assert_array_equal(found.values, other.values)
    with pytest.raises(xj.InputError, match="tokenizer: it has no offsets"):
        xj.PromptExplainer(LM, ids, start=START)([PROMPT], targets=TARGET)


@pytest.mark.slow
def test_token_across_the_end_of_the_prompt_belongs_to_the_target() -> None:
    found = explainer()(["the cat "], targets=["sat"])  # " sat" is one token
    assert list(found.stats["targets"]) == [" sat"]
    expected = truth(words_of("the cat"), target=tiny_gpt.tokenizer(" sat")[0]).sum(axis=1)
    np.testing.assert_allclose(found.values[0], expected, atol=ROUNDING)


def blind(params: Any, ids: Any, mask: Any) -> Any:
    """A model that lets every position see every other, whatever the mask says."""
    seen = jnp.ones((*ids.shape, ids.shape[1]), bool)
    x = params["embed"][ids]
    q, k, v = (tiny_gpt.heads(one) for one in jnp.split(x @ params["layers"]["qkv"][0], 3, axis=-1))
    return tiny_gpt.attended(q, k, v, seen) @ params["head"]


@pytest.mark.parametrize(
    ("given", "call", "says"),
    [
        ({}, {"prompts": PROMPT}, "prompts: got one text; pass a list"),
        ({}, {"prompts": []}, "prompts: got none"),
        ({}, {"prompts": ["it", " "]}, "prompt 1 is empty"),
        ({}, {"prompts": ["it"], "targets": [""]}, "targets: that of prompt 0 is ''"),
        ({}, {"prompts": ["it"], "targets": ["a", "b"]}, "targets: got 2 for 1 prompts"),
        ({}, {"prompts": ["it"], "targets": 5}, "targets must be a list of texts, got int"),
        ({}, {"prompts": ["it"], "players": [[(1, 1)]]}, "players of prompt 0"),
        ({}, {"prompts": ["it"], "players": 5}, "players must be a list of segments"),
        ({"absent": ["it"]}, {"prompts": ["so"], "players": [[(0, 2)]]}, "players: .* Pass by="),
        ({"start": -1}, {}, "start must be at least 0, got -1. Pass the number of a token"),
        ({"start": 1 << 23}, {}, "start must be below 8,388,608"),
        ({"absent": 1 << 24}, {}, "absent must be below 8,388,608"),
        ({"stop": 1 << 23}, {}, "stop must be below 8,388,608"),
        ({"start": 32}, {"prompts": ["it"]}, "start has the token 32, but the logits .* 0 to 31"),
        ({"absent": 40}, {"prompts": ["it"]}, "absent has the token 40"),
        ({"stop": 32}, {"prompts": ["it"]}, "stop has the token 32"),
        ({}, {"prompts": ["it"], "outputs": "logit"}, "outputs must be one of"),
        ({}, {"prompts": ["ran " * 200]}, "prompt 0 has 202 tokens .* context=128"),
        ({"start": None}, {"prompts": ["it"]}, "Say start="),
        ({"absent": OTHERS}, {"prompts": ["it ran"]}, "prompt 0 has 7 segments, and prompt 0"),
        ({"by": "words"}, {}, "by must be one of"),
        ({"absent": 1.5}, {}, "absent: got 1.5"),
        ({"chat": "so"}, {}, "chat: got 'so'"),
        ({"estimator": "best"}, {}, "estimator must be one of"),
        ({"temperature": 1.0}, {}, "has no keyword 'temperature'"),
    ],
)
def test_bad_input_names_the_argument(given: Any, call: Any, says: str) -> None:
    with pytest.raises(xj.XaiError, match=says):
        explainer(**given)(**call)


class Encoding:
    """An object that encodes, but returns a list."""

    def encode(self, text: str) -> list[int]:
        return tiny_gpt.tokenizer(text)[0]


@pytest.mark.parametrize(
    ("tokenizer", "says"),
    [
        (lambda text: [1.5], r"it returned \[1.5\] for 'it'; whole numbers"),
        (lambda text: ([-1], [(0, 2)]), "it returned the token -1 for 'it'; tokens are from 0"),
        (lambda text: ([1 << 23], [(0, 2)]), "it returned the token 8388608"),
        (lambda text: ([32], [(0, 2)]), "tokenizer: prompt 0 has the token 32, but the logits"),
        (lambda text: ([1], [(0, 2.5)]), "whole numbers"),
        (lambda text: None, "it returned None"),
        (Encoding(), "tokenizer: it returned .* Pass a function of a text that returns ids"),
    ],
)
def test_tokens_that_are_none_are_refused(tokenizer: Any, says: str) -> None:
    with pytest.raises(xj.XaiError, match=says):
        xj.PromptExplainer(LM, tokenizer, by="line", start=START)(["it"])


class Lowering:
    """A tokenizer of Hugging Face's form that writes letters small and adds a first token."""

    def __init__(self, first: int = START) -> None:
        self.texts, self.first = {first: "<s>"}, first

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.texts[one] for one in ids]

    def __call__(self, text: str, **asked: bool) -> dict[str, Any]:
        ids, spans = tiny_gpt.tokenizer(text.lower())
        self.texts |= {one: text[a:b].lower() for one, (a, b) in zip(ids, spans, strict=True)}
        special = [1, *[0] * len(ids)]
        spans = [(0, 0), *spans]
        return dict(input_ids=[self.first, *ids], offset_mapping=spans, special_tokens_mask=special)

    def decode(self, ids: list[int]) -> str:
        return "".join(self.convert_ids_to_tokens(ids))


@pytest.mark.slow
def test_start_takes_the_place_of_special_tokens() -> None:
    """The tokenizer adds token 7, and start= another, which then stands alone."""
    found = xj.PromptExplainer(LM, Lowering(first=7), start=START)(["It ran on"], targets=[TARGET])
    expected = truth(words_of("it ran on")).sum(axis=1)
    np.testing.assert_allclose(found.values[0], expected, atol=ROUNDING)
    assert (found.provenance["start"], "chat" in found.provenance) == (START, False)


def test_target_is_shown_as_its_tokens_have_it() -> None:
    explainer = xj.PromptExplainer(LM, Lowering(), by="line")
    found = explainer(["it", "It"], targets=[" CAT sat", " cat"])
    assert list(found.stats["targets"]) == [" cat sat", " cat"]


@pytest.mark.slow
def test_lacking_targets_are_generated() -> None:
    found = explainer(by="line")(["it", "it ran"], targets=[None, TARGET], new_tokens=2)
    other = explainer(by="line")(["it"], new_tokens=2)
    assert found.stats["targets"].tolist() == [other.stats["targets"][0], TARGET]
    np.testing.assert_allclose(found.values[:1], other.values, atol=ROUNDING)


def test_provenance_and_names_of_given_segments() -> None:
    asked: dict[str, Any] = {"targets": TARGET, "players": [[(0, 2), (2, 6)], [(0, 3)]]}
    explainer = xj.PromptExplainer(LM, tiny_gpt.tokenizer, chat="so {}")
    pairs = explainer.interactions(["it ran", "ran"], **asked)
    assert pairs.feature_names == ("segment 0", "segment 1")
    said = {name: pairs.provenance[name] for name in ("segments", "chat", "outputs")}
    assert said == {"segments": "given", "chat": "so {}", "outputs": "target"}
    assert "start" not in pairs.provenance


def test_segments_without_texts() -> None:
    found = xj.Explanation(np.zeros((1, 2)), np.zeros(1), provenance={"segments": "word"})
    assert found.segments is None


def test_prompts_of_absent_segments_may_have_wider_gaps() -> None:
    """What is before, between and behind the segments stays that of the explained prompt."""

    def by(text: str) -> list[tuple[int, int]]:
        return [one.span() for one in re.finditer(" ?(it|ran|cat)", text)]

    found = explainer(by=by, absent=["so by cat on cat far far"])(["it ran"], targets=TARGET)
    cat = tiny_gpt.tokenizer(" cat")[0]
    expected = truth(words_of("it ran"), lambda p, word: cat).sum(axis=1)
    np.testing.assert_allclose(found.values[0], expected, atol=ROUNDING)


def test_mask_is_checked_with_targets(monkeypatch: Any) -> None:
    """The rows that check the mask lack segments, but never the start or the target."""
    found: list[Any] = []
    name = "xaijax.methods.language.causal_lm.refuse_ignored_mask"
    monkeypatch.setattr(
        name, lambda lm, answer, rows: found.append((answer.layout.of_column, rows))
    )
    _, X = explainer().as_explainer([PROMPT], targets=TARGET)
    of_column, rows = found[0]
    assert (rows[:, of_column < 0] == X[:, of_column < 0]).all()
    gone = [set(of_column[one != X[0]].tolist()) for one in rows]
    assert gone == [{1, 3, 5}, {6}]


def test_model_whose_mask_is_ignored_is_refused() -> None:
    lm = xj.CausalLM(blind, PARAMS)
    with pytest.raises(xj.ModelOutputError, match="ignores its mask"):
        xj.PromptExplainer(lm, tiny_gpt.tokenizer, start=START)([PROMPT], targets=TARGET)


@pytest.mark.slow
def test_logits_of_another_shape_or_nan_are_refused() -> None:
    def last(params: Any, ids: Any, mask: Any) -> Any:
        return tiny_gpt.logits(params, ids, mask)[:, -1]

    def lost(params: Any, ids: Any, mask: Any) -> Any:
        return tiny_gpt.logits(params, ids, mask) * jnp.nan

    for f, says in ((last, r"must return logits \[R, T, V\]"), (lost, "NaN")):
        lm = xj.CausalLM(f, PARAMS)
        with pytest.raises(xj.ModelOutputError, match=says):
            xj.PromptExplainer(lm, tiny_gpt.tokenizer, start=START)([PROMPT])


@pytest.mark.slow
def test_one_segment_has_all_of_the_value() -> None:
    found = explainer(by="line")([PROMPT], targets=TARGET)
    words = [tiny_gpt.tokenizer(PROMPT)[0]]
    full, base = (value(words, S).sum() for S in (frozenset([0]), frozenset()))
    np.testing.assert_allclose(found.values, [[full - base]], atol=ROUNDING)


@pytest.mark.slow
def test_float64() -> None:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        wide = jax.tree.map(np.float64, PARAMS)
        lm = xj.CausalLM(tiny_gpt.logits, wide, precision="float64")
        found = xj.PromptExplainer(lm, tiny_gpt.tokenizer, start=START)([PROMPT], targets=TARGET)
        expected = truth(words_of(PROMPT)).sum(axis=1)
        np.testing.assert_allclose(found.values[0], expected, atol=1e-10)
    finally:
        jax.config.update("jax_enable_x64", before)


# With step= a tree of prefixes answers; the oracle reads each coalition's text from its start.
BY_STEPS = xj.CausalLM(tiny_gpt.logits, PARAMS, step=tiny_gpt.step, init=tiny_gpt.init)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("absent", "stand_in"),
    [
        ("drop", None),
        (" dog ran", lambda p, word: tiny_gpt.tokenizer(" dog ran")[0]),
        (OTHERS[:1], lambda p, word: words_of(OTHERS[0])[p]),
    ],
    ids=["drop", "text", "prompts"],
)
def test_prefixes_equal_brute_force(absent: Any, stand_in: Any) -> None:
    given: dict[str, Any] = {"start": START, "absent": absent, "path": "tiled"}
    texts = [PROMPT] if isinstance(absent, list) else [PROMPT, "it ran on"]
    found = xj.PromptExplainer(BY_STEPS, tiny_gpt.tokenizer, **given)(texts, targets=TARGET)
    assert found.stats["structure"] == "prefixes"
    for n, text in enumerate(texts):
        words = words_of(text)
        expected = truth(words, stand_in).sum(axis=1)
        np.testing.assert_allclose(found.values[n, : len(words)], expected, atol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("absent", [5, " dog"])
def test_prefixes_of_prompts_with_nothing_in_front(absent: Any) -> None:
    text, own = "it ran on", tiny_gpt.tokenizer
    given: dict[str, Any] = {"absent": absent, "path": "tiled"}
    found = xj.PromptExplainer(BY_STEPS, own, **given)([text], targets=TARGET)
    assert found.stats["structure"] == "prefixes"
    words, other = words_of(text), [absent] if absent == 5 else own(absent)[0]

    def of(S: frozenset[int]) -> float:
        before = [one for p, word in enumerate(words) for one in (word if p in S else other)]
        return prompt_values.log_probabilities(
            lambda ids, hidden: ORACLE(ids=ids, hidden=hidden), before, TARGET_IDS
        ).sum()

    np.testing.assert_allclose(found.values[0], prompt_values.shapley_of(3, of), atol=ROUNDING)


@pytest.mark.slow
def test_prefixes_of_gaps_interactions_and_chats() -> None:
    spans = [(0, 3), (7, 11), (12, 20), (23, 27)]  # " cat", "." and " it" belong to nobody
    one, other = (
        xj.PromptExplainer(lm, tiny_gpt.tokenizer, chat="so {} far", path="tiled").interactions(
            [PROMPT], targets=TARGET, players=[spans], outputs="tokens"
        )
        for lm in (BY_STEPS, LM)
    )
    assert (one.stats["structure"], other.stats["structure"]) == ("prefixes", None)
    np.testing.assert_allclose(one.values, other.values, atol=ROUNDING)
    assert one.feature_names == ("the", "sat", "on mat?", "ran")


@pytest.mark.slow
@pytest.mark.parametrize(("absent", "steps"), [("drop", 31), (5, 62)])
def test_plan_counts_token_positions(absent: Any, steps: int) -> None:
    given: dict[str, Any] = {"start": START, "absent": absent, "path": "tiled", "tile": 64}
    explainer = xj.PromptExplainer(BY_STEPS, tiny_gpt.tokenizer, **given)
    text = "the cat on so it"  # five words of a token each
    plan = explainer.plan([text], targets=" ran on")
    assert plan.structure == "prefixes" and plan.tokens is not None
    # The start once; the target's first token of two is read for each of 32 coalitions.
    assert plan.tokens == (1 + steps + 32, 32 * (1 + 5 + 2))
    assert "token positions" in repr(plan)


@pytest.mark.slow
def test_step_that_disagrees_with_the_model_is_refused() -> None:
    def late(params: Any, cache: Any, ids: Any, mask: Any) -> Any:
        count = cache["count"] + 1  # every token one place too far behind
        moved, logits = tiny_gpt.step(params, cache | {"count": count}, ids, mask)
        return moved | {"count": moved["count"] - 1}, logits

    lm = xj.CausalLM(tiny_gpt.logits, PARAMS, step=late, init=tiny_gpt.init)
    with pytest.raises(xj.ModelOutputError, match="step= of logits gives other logits .* position"):
        xj.PromptExplainer(lm, tiny_gpt.tokenizer, start=START)([PROMPT], targets=TARGET)
    with pytest.raises(xj.InputError, match="step= needs init="):
        xj.CausalLM(tiny_gpt.logits, PARAMS, step=tiny_gpt.step)


@pytest.mark.slow
def test_step_is_compared_at_the_rounding_of_its_precision() -> None:
    """Logits 1 % apart: two orders of sums in bfloat16, but not in float32."""

    def rough(params: Any, cache: Any, ids: Any, mask: Any) -> Any:
        cache, logits = tiny_gpt.step(params, cache, ids, mask)
        return cache, logits * 1.01

    given: dict[str, Any] = {"step": rough, "init": tiny_gpt.init}
    for precision in ("float32", "bfloat16"):
        lm = xj.CausalLM(tiny_gpt.logits, PARAMS, precision=precision, **given)
        ask = xj.PromptExplainer(lm, tiny_gpt.tokenizer, start=START).as_explainer
        if precision == "bfloat16":
            ask(["it ran"], targets=TARGET)
            continue
        with pytest.raises(xj.ModelOutputError, match="step= of logits gives other logits"):
            ask(["it ran"], targets=TARGET)


def test_logits_that_are_nan_are_not_the_fault_of_step() -> None:
    def lost(params: Any, ids: Any, mask: Any) -> Any:
        return tiny_gpt.logits(params, ids, mask) * jnp.nan

    lm = xj.CausalLM(lost, PARAMS, step=tiny_gpt.step, init=tiny_gpt.init)
    with pytest.raises(xj.ModelOutputError, match="lost returned logits that are NaN") as found:
        xj.PromptExplainer(lm, tiny_gpt.tokenizer, start=START)(["it ran"], targets=TARGET)
    assert "step=" not in str(found.value)
