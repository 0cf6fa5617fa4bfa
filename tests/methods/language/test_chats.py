"""Chat templates of tokenizers, and how many logits are made at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny_gpt
from tiny_gpt import PROMPT

import xaijax as xj
from xaijax.methods.language import causal_lm

MESSAGES = [{"role": "system", "content": "so"}, {"role": "user", "content": "{}"}]
AS_TEXT = "! so. on {}! it"


class Chatting:
    """A tokenizer of Hugging Face's form with a chat template, which has the first token itself."""

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(one) for one in ids]

    def __call__(self, text: str, **asked: bool) -> dict[str, Any]:
        ids, spans = tiny_gpt.tokenizer(text)
        special = [1, *[0] * len(ids)]
        return dict(
            input_ids=[9, *ids], offset_mapping=[(0, 0), *spans], special_tokens_mask=special
        )

    def decode(self, ids: list[int]) -> str:
        return " ".join(map(str, ids))

    def apply_chat_template(
        self, messages: list[Any], tokenize: bool, add_generation_prompt: bool
    ) -> str:
        assert not tokenize and add_generation_prompt
        system, user = (one["content"] for one in messages)
        return f"! {system}. on {user}! it"


def test_messages_become_the_template_s_text() -> None:
    """The template never plays, and no first token is added to the one that it has."""
    lm = xj.CausalLM(tiny_gpt.logits, tiny_gpt.params())
    found = xj.PromptExplainer(lm, Chatting(), chat=MESSAGES)([PROMPT], targets=" cat")
    wanted = xj.PromptExplainer(lm, tiny_gpt.tokenizer, chat=AS_TEXT)([PROMPT], targets=" cat")
    np.testing.assert_allclose(found.values, wanted.values, atol=1e-6)
    np.testing.assert_allclose(found.base_values, wanted.base_values, atol=1e-6)
    assert found.feature_names == wanted.feature_names
    assert found.provenance["chat"] == AS_TEXT
    assert (found.provenance.get("start"), wanted.provenance.get("start")) == ("", None)


@pytest.mark.parametrize(
    ("tokenizer", "chat", "says"),
    [
        (tiny_gpt.tokenizer, MESSAGES, "no apply_chat_template"),
        (Chatting(), [{"content": "a"}, {"content": "b"}], "marked by one {}"),
        (Chatting(), 5, "chat must be a text"),
        (Chatting(), [], "has no message"),
    ],
)
def test_bad_chats(tokenizer: Any, chat: Any, says: str) -> None:
    lm = xj.CausalLM(tiny_gpt.logits, tiny_gpt.params())
    with pytest.raises(xj.XaiError, match=says):
        xj.PromptExplainer(lm, tokenizer, chat=chat)


def test_few_logits_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def logits(params: Any, ids: Any, mask: Any) -> Any:
        rows.append(len(ids))
        return tiny_gpt.logits(params, ids, mask)

    def values() -> np.ndarray:
        lm = xj.CausalLM(logits, tiny_gpt.params())
        explainer = xj.PromptExplainer(lm, tiny_gpt.tokenizer, start=tiny_gpt.START, by="sentence")
        return explainer([PROMPT], targets=" cat").values

    wanted = values()
    assert max(rows) >= 32
    rows.clear()
    monkeypatch.setattr(causal_lm, "LOGITS", 8 * 16 * tiny_gpt.V)  # a row has 12 to 16 places
    np.testing.assert_allclose(values(), wanted, atol=1e-6)
    assert max(rows) in (8, 4)
