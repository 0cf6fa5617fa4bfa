"""Texts become tokens, segments and targets, by the user's tokenizer.

A token belongs to the segment that holds its first character that is no space. A token of no
segment (a special token, a chat template's) is always kept.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.methods.language.layout import DONOR

Span = tuple[int, int]  # (first character, past the last)
WORDS = ("token", "word", "sentence", "line")
# A piece of text and the spaces before it; of sentences, up to the closing quote.
PIECES = {
    "word": re.compile(r"\s*\S+"),
    "sentence": re.compile(r"""\s*\S.*?(?:(?<=[.!?])["')\]»”’]*(?=\s|\Z)|\Z)""", re.DOTALL),
    "line": re.compile(r"\s*\S[^\n]*(?:\n|\Z)"),
}
PLACE = "{}"  # in chat=, where the prompt goes


@dataclass(frozen=True)
class Encoded:
    """The tokens of a text."""

    ids: list[int]
    offsets: list[Span] | None  # None: the tokenizer has none
    special: list[bool]  # whether the tokenizer added the token to the text


@dataclass(frozen=True)
class Prompt:
    """A prompt as segments of tokens; gaps[p] holds the tokens before segment p that never play."""

    start: list[int]
    gaps: list[list[int]]
    segments: list[list[int]]
    end: list[int]
    texts: tuple[str, ...]  # of the segments
    target: list[int] | None  # None: it is generated
    said: str | None = None  # the target's text by the places of its tokens; None: not known

    @property
    def ids(self) -> list[int]:
        """The tokens before the target."""
        inside = (one for pair in zip(self.gaps, self.segments, strict=True) for one in pair)
        return [*self.start, *(token for one in inside for token in one), *self.end]


class Tokenizer:
    """A tokenizer of the tokenizers package, of Hugging Face, or a function, in one form."""

    def __init__(self, given: Any) -> None:
        if isinstance(given, type) or not (callable(given) or hasattr(given, "encode")):
            raise InputTypeError(
                f"tokenizer: got {checks.shown(given)}; pass a tokenizers.Tokenizer, a Hugging "
                "Face tokenizer, or a function that takes a text and returns ids, or (ids, offsets)"
            )
        self._given: Any = given
        # One of Hugging Face is called; one of the tokenizers package encodes.
        self._encodes = not callable(given)
        self._calls = callable(given) and hasattr(given, "convert_ids_to_tokens")

    def encode(self, text: str) -> Encoded:
        """The tokens of a text; raises InputTypeError for what a tokenizer does not return."""
        encoded: Any
        if self._encodes:
            encoded = self._given.encode(text)
        elif self._calls:
            options = {"return_special_tokens_mask": True}
            try:
                encoded = self._given(text, return_offsets_mapping=True, **options)
            except NotImplementedError:  # only fast tokenizers have offsets
                encoded = self._given(text, **options)
        else:
            encoded = self._given(text)
        try:
            ids, offsets, special = self._parts(encoded)
            spans = None
            if offsets is not None:
                spans = [(operator.index(a), operator.index(b)) for a, b in offsets]
            tokens = [operator.index(token) for token in ids]
            marks = [bool(token) for token in special]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputTypeError(
                f"tokenizer: it returned {checks.shown(encoded)} for {text[:40]!r}; whole numbers "
                "are needed. Pass a function of a text that returns ids, or (ids, [(start, end), "
                "...])."
            ) from None
        unknown = [token for token in tokens if not 0 <= token < DONOR]
        if unknown:
            raise InputError(
                f"tokenizer: it returned the token {unknown[0]} for {text[:40]!r}; tokens are from "
                f"0 to {DONOR - 1:,}. Return the model's own numbers of tokens."
            )
        if spans is not None and len(spans) != len(tokens):
            raise InputError(
                f"tokenizer: it returned {len(tokens)} ids and {len(spans)} offsets for "
                f"{text[:40]!r}. Return a pair (start, end) for each id."
            )
        return Encoded(tokens, spans, marks)

    def _parts(self, raw: Any) -> tuple[Any, Any, Any]:
        """(ids, offsets or None, marks of special tokens) of what the tokenizer returned."""
        if self._encodes:
            return raw.ids, raw.offsets, raw.special_tokens_mask
        if self._calls:
            return raw["input_ids"], raw.get("offset_mapping"), raw["special_tokens_mask"]
        pair = isinstance(raw, tuple) and len(raw) == 2
        ids, offsets = raw if pair else (raw, None)
        return ids, offsets, [False] * len(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens; their numbers, if the tokenizer does not decode."""
        decode = getattr(self._given, "decode", None)
        if decode is None:
            return " ".join(map(str, ids))
        if type(self._given).__module__.startswith("tokenizers"):  # which leaves some out
            return decode(list(ids), skip_special_tokens=False)
        return decode(list(ids))

    def said(self, ids: Sequence[int], text: str | None) -> str:
        """The text of a target as its tokens have it; text: that at their places, or None."""
        if text is not None and not hasattr(self._given, "decode"):
            return text
        decoded = self.decode(ids)
        # A tokenizer may add or lose spaces when it decodes; other changes are the tokens' own.
        same = text is not None and "".join(decoded.split()) == "".join(text.split())
        return text if same and text is not None else decoded

    def chat(self, messages: Sequence[Any]) -> str:
        """The text of messages by the tokenizer's chat template, up to the answer's first token."""
        if not messages:
            raise InputError(
                f"chat=[] has no message. Pass one with {PLACE} where the prompt goes."
            )
        template = getattr(self._given, "apply_chat_template", None)
        if template is None:
            raise InputTypeError(
                "chat: got messages, and the tokenizer has no apply_chat_template. Pass the text, "
                f"with {PLACE} where the prompt goes."
            )
        return template(list(messages), tokenize=False, add_generation_prompt=True)

    def token(self, value: int | str, name: str) -> list[int]:
        """The tokens of an argument that is a token or a text."""
        if isinstance(value, str):
            read = self.encode(value)
            return [t for t, mark in zip(read.ids, read.special, strict=True) if not mark]
        return [read_token(value, name)]


def read_token(given: Any, name: str) -> int:
    """An argument that is a token's number, checked."""
    remedy = " Pass the number of a token of the model."
    token = checks.whole_number(given, name, least=0, remedy=remedy)
    if token >= DONOR:
        raise InputError(f"{name} must be below {DONOR:,}, got {token:,}.{remedy}")
    return token


def read_by(by: Any) -> Any:
    """by=, checked."""
    if callable(by):
        return by
    return checks.one_of(by, "by", WORDS)


def read_chat(chat: Any, tokenizer: Tokenizer) -> tuple[str, str]:
    """(what comes before the prompt, what comes after it) of chat=, a text or messages."""
    if chat is None:
        return "", ""
    text = tokenizer.chat(chat) if isinstance(chat, list | tuple) else checks.text(chat, "chat")
    if text.count(PLACE) != 1:
        raise InputError(
            f"chat: got {text!r}; the prompt's place is marked by one {PLACE}, in a text as in "
            "'<|im_start|>user\\n{}<|im_end|>\\n<|im_start|>assistant\\n'."
        )
    before, _, after = text.partition(PLACE)
    return before, after


def spans_of(text: str, by: Any, given: Any, name: str) -> list[Span] | None:
    """The segments of a prompt, as spans of its text; None: each token is one.

    given: the spans as the user gave them, or None; name: that of the prompt, for messages.
    """
    if given is None and by == "token":
        return None
    if given is None and not callable(by):
        spans = [one.span() for one in PIECES[by].finditer(text)]
        return [*spans[:-1], (spans[-1][0], len(text))] if spans else []
    found: Any = by(text) if given is None else given
    what = f"players of {name}" if given is not None else f"by: the function's spans of {name}"
    try:
        spans = [(int(a), int(b)) for a, b in found]
    except (TypeError, ValueError):
        raise InputTypeError(
            f"{what}: got {checks.shown(found)}; pass pairs (start, end) of places in the text."
        ) from None
    last = 0
    for start, end in spans:
        if not last <= start < end <= len(text):
            raise InputError(
                f"{what}: ({start}, {end}) is empty, overlaps the span before it, or lies outside "
                f"of the {len(text)} characters. Pass ascending pairs (start, end)."
            )
        last = end
    return spans


def read_prompt(
    tokenizer: Tokenizer,
    text: Any,
    target: Any,
    spans: Callable[[str, str], list[Span] | None],
    chat: tuple[str, str],
    start: Sequence[int] | None,
    name: str,
) -> Prompt:
    """A prompt and its target as tokens; spans(text, name): its segments.

    start: tokens in front, in place of the special tokens of the tokenizer; None: these. The
    target's tokens are those that it has behind the prompt.
    """
    if not isinstance(text, str):
        raise InputTypeError(f"{name}: got {type(text).__name__}; a text is needed.")
    if not text.strip():
        raise InputError(f"{name} is empty. Pass a text with at least one word.")
    if target is not None and (not isinstance(target, str) or not target):
        raise InputTypeError(
            f"targets: that of {name} is {target!r}; pass a text, or None to generate it."
        )
    whole = chat[0] + text + chat[1]
    segments = spans(text, name)
    encoded = tokenizer.encode(whole + (target or ""))
    tokens: list[tuple[int, int | None, str]] = []  # (id, its segment, its text)
    said: str | None = None
    if encoded.offsets is None:
        if segments is not None or any(chat):
            what = "by= or players=" if segments is not None else "chat="
            raise InputError(
                f"tokenizer: it has no offsets, and {what} needs to know where each token is in "
                "the text. Say by='token' without chat=, or return (ids, offsets) from it."
            )
        encoded = tokenizer.encode(whole)
        behind = [] if target is None else tokenizer.token(target, "targets")
        places = [(0, 0)] * len(encoded.ids)
    else:
        behind, places = [], encoded.offsets
    for token, span, added in zip(encoded.ids, places, encoded.special, strict=True):
        if added:  # an end of text is left out, as nothing is said behind it
            if start is None and all(place is None for _, place, _ in tokens):
                tokens.append((token, None, ""))
        elif encoded.offsets is None:
            tokens.append((token, 0, tokenizer.decode([token])))
        elif target is not None and span[1] > len(whole):
            said = (whole + target)[span[0] :] if said is None else said
            behind.append(token)
        else:
            place = _place(whole, span, (len(chat[0]), len(chat[0]) + len(text)), segments)
            tokens.append((token, place, whole[slice(*span)]))
    if target is not None and not behind:
        raise InputError(f"targets: that of {name}, {target!r}, has no token. Pass a longer text.")
    if segments is None:
        number = itertools.count()
        texts = tuple(said for _, place, said in tokens if place is not None)
        tokens = [(one, None if at is None else next(number), said) for one, at, said in tokens]
    else:
        texts = tuple(text[a:b] for a, b in segments)
    parted = _parted(tokens, texts, None if target is None else behind, start or [], name)
    return replace(parted, said=said)


def _place(whole: str, span: Span, inside: Span, segments: list[Span] | None) -> int | None:
    """The segment that holds a token's first character that is no space; None: no one does."""
    said = whole[slice(*span)]
    spaces = len(said) - len(said.lstrip())
    at = span[0] + (spaces if spaces < len(said) else 0) - inside[0]
    if not 0 <= at < inside[1] - inside[0]:
        return None
    if segments is None:
        return 0
    return next((p for p, (a, b) in enumerate(segments) if a <= at < b), None)


def _parted(
    tokens: Sequence[tuple[int, int | None, str]],
    texts: tuple[str, ...],
    target: list[int] | None,
    start: Sequence[int],
    name: str,
) -> Prompt:
    """The prompt of tokens (id, segment, text) with its segments' texts."""
    segments: list[list[int]] = [[] for _ in texts]
    gaps: list[list[int]] = [[] for _ in texts]
    waiting: list[int] = []  # tokens of no segment since the last one that has
    for token, p, _ in tokens:
        if p is None:
            waiting.append(token)
            continue
        if waiting and segments[p]:
            raise InputError(
                f"{name}: a token inside of the segment {texts[p]!r} belongs to none. Let the "
                "segment hold all of its text."
            )
        gaps[p], waiting = gaps[p] + waiting, []
        segments[p].append(token)
    lacking = [text for text, own in zip(texts, segments, strict=True) if not own]
    if lacking or not texts:
        which = f"the segment {lacking[0]!r}" if lacking else "it"
        raise InputError(
            f"{name}: {which} has no token of its own. Pass players= that unite it with its "
            "neighbour."
        )
    return Prompt([*start, *gaps[0]], [[], *gaps[1:]], segments, waiting, texts, target)
