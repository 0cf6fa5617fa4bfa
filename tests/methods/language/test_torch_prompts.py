"""`PromptExplainer` of PyTorch and Hugging Face modules against brute force: every coalition's text
goes through the module alone, without mask, padding or cache.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import prompt_values
import pytest
import tiny_gpt
from tiny_gpt import PROMPT, START, V

import xaijax as xj

torch = pytest.importorskip("torch", reason="needs PyTorch")
torch.set_num_threads(1)  # modules are small
TARGET = " cat sat"
TARGET_IDS = tiny_gpt.tokenizer(TARGET)[0]
ROUNDING = 1e-9  # float64


def gpt2(**given: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs Hugging Face transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": V, "n_positions": 128, "n_embd": 16, "n_layer": 2, "n_head": 2}
    sizes |= {"initializer_range": 0.6, "bos_token_id": 0, "eos_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes | given)).double().eval()


def llama(**given: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs Hugging Face transformers")
    torch.manual_seed(1)
    sizes = {"vocab_size": V, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.6}
    config = transformers.LlamaConfig(**sizes | given)
    return transformers.LlamaForCausalLM(config).double().eval()


class Plain(torch.nn.Module):
    """The mean of the embeddings so far, and their places, without mask or cache; a tensor."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.table, self.place = torch.nn.Embedding(V, 8), torch.nn.Embedding(128, 8)
        self.head, self.drop = torch.nn.Linear(8, V), torch.nn.Dropout(0.5)
        self.double()

    def forward(self, ids: Any) -> Any:
        places = torch.arange(ids.shape[1])
        x = (self.table(ids) * self.place(places)).cumsum(1) / (places[:, None] + 1)
        return 3 * self.head(self.drop(torch.tanh(3 * x)))


class Keyed(torch.nn.Module):
    """Attention with a cache of pairs, and a dict as its answer."""

    def __init__(self, late: int = 0) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table, self.place = torch.nn.Embedding(V, 8), torch.nn.Embedding(256, 8)
        self.qkv, self.head = torch.nn.Linear(8, 24), torch.nn.Linear(8, V)
        self.late = late  # positions by which the cache is wrong
        self.double()

    def forward(
        self, input_ids: Any, attention_mask: Any, position_ids: Any, past_key_values: Any = None,
        use_cache: bool = False,
    ) -> Any:  # fmt: skip
        late = self.late if past_key_values else 0
        x = self.table(input_ids) + self.place(position_ids + late)
        q, k, v = (2 * self.qkv(x)).split(8, dim=-1)
        k, v = k[:, None], v[:, None]
        if past_key_values is not None:
            k = torch.cat([past_key_values[0][0], k], 2)
            v = torch.cat([past_key_values[0][1], v], 2)
        T, W = input_ids.shape[1], k.shape[2]
        seen = torch.arange(W) <= torch.arange(W - T, W)[:, None]
        scores = (q[:, None] @ k.mT).masked_fill(
            ~(seen & attention_mask[:, None, None].bool()), -1e9
        )
        logits = 2 * self.head(x + (scores.softmax(-1) @ v)[:, 0])
        return Output(logits=logits, past_key_values=((k, v),) if use_cache else None)


class Output(dict):
    """As `ModelOutput` of Hugging Face: a dict whose entries are attributes."""

    __getattr__ = dict.__getitem__


class Last(Plain):
    """One that answers for the last token alone."""

    def forward(self, ids: Any) -> Any:
        return super().forward(ids)[:, -1]


MODULES = {"gpt2": gpt2, "llama": llama, "plain": Plain, "keyed": Keyed}


def words_of(text: str) -> list[list[int]]:
    found: list[list[int]] = []
    for token, (a, _) in zip(*tiny_gpt.tokenizer(text), strict=True):
        if a == 0 or text[a] == " ":
            found.append([])
        found[-1].append(token)
    return found


def value(module: Any, before: list[int], hidden: Any = None) -> np.ndarray:
    """Log-probability of each target token behind `before`, one text at a time."""
    given = {}
    if hidden is not None:
        mask = [0 if one else 1 for one in [*hidden, *[False] * len(TARGET_IDS)]]
        given = {"attention_mask": torch.tensor([mask])}
        given["position_ids"] = torch.arange(len(mask))[None]
    if isinstance(module, Keyed) and not given:
        places = torch.arange(len(before) + len(TARGET_IDS))[None]
        given = {"attention_mask": torch.ones_like(places), "position_ids": places}

    def logits(ids: Any, lost: Any) -> np.ndarray:
        was, quiet = module.training, module.eval()
        with torch.no_grad():
            out = quiet(torch.tensor([ids]), **given)
        module.train(was)
        return (out if torch.is_tensor(out) else out["logits"])[0].numpy()

    return prompt_values.log_probabilities(logits, before, TARGET_IDS, hidden)


def truth(module: Any, words: list[list[int]], stand_in: Any = None) -> np.ndarray:
    other = stand_in or (lambda word: [])

    def of(S: frozenset[int]) -> np.ndarray:
        kept = [word if p in S else other(word) for p, word in enumerate(words)]
        return value(module, [START, *(token for word in kept for token in word)])

    return prompt_values.shapley_of(len(words), of)


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("absent", ["drop", " dog ran", 5])
def test_words_equal_brute_force(name: str, absent: Any) -> None:
    module = MODULES[name]()
    explainer = xj.PromptExplainer(module, tiny_gpt.tokenizer, start=START, absent=absent)
    texts = [PROMPT, "it ran on"]
    found = explainer(texts, targets=TARGET)
    own = {"drop": None, 5: lambda word: [5] * len(word)}
    stand_in = own.get(absent, lambda word: tiny_gpt.tokenizer(" dog ran")[0])
    for n, text in enumerate(texts):
        words = words_of(text)
        expected = truth(module, words, stand_in).sum(axis=1)
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(found.values[n, : len(words)], expected, atol=ROUNDING)
    assert (found.stats["backend"], found.exact) == ("host", True)


@pytest.mark.parametrize("name", ["gpt2", "llama", "keyed"])
def test_masked_words_keep_their_positions(name: str) -> None:
    module, words = MODULES[name](), words_of(PROMPT)
    explainer = xj.PromptExplainer(module, tiny_gpt.tokenizer, start=START, absent="mask")
    found = explainer([PROMPT], targets=TARGET)
    before = [START, *(token for word in words for token in word)]

    def of(S: frozenset[int]) -> np.ndarray:
        hidden = [False, *(p not in S for p, word in enumerate(words) for _ in word)]
        return value(module, before, hidden)

    expected = prompt_values.shapley_of(len(words), of).sum(axis=1)
    np.testing.assert_allclose(found.values[0], expected, atol=ROUNDING)


def test_outputs_targets_and_interactions() -> None:
    module = gpt2()
    explainer = xj.PromptExplainer(module, tiny_gpt.tokenizer, start=START)
    words = words_of(PROMPT)
    each = explainer([PROMPT], targets=TARGET, outputs="tokens")
    np.testing.assert_allclose(each.values[0], truth(module, words), atol=ROUNDING)

    def first(logits: Any, ids: Any) -> Any:
        return logits.log_softmax(-1)[torch.arange(len(ids)), 0, ids[:, 0]]

    by_function = explainer([PROMPT], targets=TARGET, outputs=first)
    np.testing.assert_allclose(by_function.values, each.values[..., 0], atol=ROUNDING)
    pairs = explainer.interactions(["it ran on"], targets=TARGET)
    found = explainer(["it ran on"], targets=TARGET)
    np.testing.assert_allclose(pairs.values[0, :3], found.values[0], atol=ROUNDING)
    generated = explainer([PROMPT, "it ran"], new_tokens=3)
    for n, text in enumerate([PROMPT, "it ran"]):
        ids = torch.tensor([[START, *tiny_gpt.tokenizer(text)[0]]])
        new = module.generate(ids, do_sample=False, max_new_tokens=3, eos_token_id=-1)
        said = " ".join(map(str, new[0, ids.shape[1] :].tolist()))
        assert generated.stats["targets"][n] == said


def test_sampled_values_and_small_memory() -> None:
    module = llama()
    given: dict[str, Any] = {"start": START, "by": "token"}
    explainer = xj.PromptExplainer(module, tiny_gpt.tokenizer, **given, estimator="exact")
    exact = explainer([PROMPT], targets=TARGET)
    small = xj.PromptExplainer(module, tiny_gpt.tokenizer, **given, max_memory=200_000)
    np.testing.assert_allclose(small([PROMPT], targets=TARGET).values, exact.values, atol=ROUNDING)
    for estimator in ("permutation", "kernel"):
        sampled = xj.PromptExplainer(
            module, tiny_gpt.tokenizer, **given, estimator=estimator, budget=120
        )([PROMPT], targets=TARGET)
        # 5 standard errors: of 18 values, false in less than 1e-4 of seeds; this seed is fixed.
        assert (np.abs(sampled.values - exact.values) / sampled.std_errors).max() < 5


@pytest.mark.parametrize(("absent", "steps"), [("drop", 31), (5, 62)])
def test_each_prefix_is_read_once(absent: Any, steps: int) -> None:
    """Five words of a token: 2^5 - 1 steps, or 2^6 - 2 where absent ones are replaced."""
    module, text = gpt2(), "the cat on so it"
    explainer = xj.PromptExplainer(module, tiny_gpt.tokenizer, start=START, absent=absent)
    inner, X = explainer.as_explainer([text], targets=" ran on")
    plan = explainer.plan([text], targets=" ran on")  # the probe, which is not counted
    assert plan.tokens == (1 + steps + 32, 32 * (1 + 5 + 2))
    # The start once, and the target's first token of two.
    assert tokens_read(module, inner, X) == 1 + steps + 32


def tokens_read(module: Any, inner: Any, X: np.ndarray) -> int:
    """Tokens that the module reads in a call."""
    forward, count = module.forward, []
    signature = inspect.signature(forward)

    def counting(*given: Any, **named: Any) -> Any:
        count.append((given[0] if given else named["input_ids"]).numel())
        return forward(*given, **named)

    counting.__signature__ = signature
    module.forward = counting
    inner(X)
    del module.forward
    return sum(count)


def test_module_stays_as_it_is() -> None:
    module = Plain().train()
    xj.PromptExplainer(module, tiny_gpt.tokenizer, start=START)(["it ran"], targets=TARGET)
    assert module.training and module.drop.training
    cold = gpt2(use_cache=False)
    found = xj.PromptExplainer(cold, tiny_gpt.tokenizer, start=START)(["it ran"], targets=TARGET)
    expected = truth(cold, words_of("it ran")).sum(axis=1)
    np.testing.assert_allclose(found.values[0], expected, atol=ROUNDING)


def test_refused() -> None:
    ask = lambda module, **given: xj.PromptExplainer(  # noqa: E731
        module, tiny_gpt.tokenizer, start=START, **given
    )(["it ran on"], targets=TARGET)
    with pytest.raises(xj.ModelOutputError, match="past_key_values of Keyed .*use_cache = False"):
        ask(Keyed(late=1))
    with pytest.raises(xj.ModelOutputError, match="Plain ignores its mask"):
        ask(Plain(), absent="mask")
    with pytest.raises(xj.ModelOutputError, match=r"Last must return logits \[R, T, V\]"):
        ask(Last())
    with pytest.raises(xj.InputError, match="precision= is not accepted for the PyTorch module"):
        xj.CausalLM(Plain(), precision="bfloat16")
    with pytest.raises(xj.InputError, match="levels=.*on the host"):
        ask(Plain(), levels="bfloat16", estimator="permutation")
    lost = Plain()
    lost.head.bias.data[:] = float("nan")
    with pytest.raises(xj.ModelOutputError, match="returned nan"):
        ask(lost)
