"""`PromptExplainer`: which segments of a prompt made a language model say its answer.

Letters: N prompts, P players (segments), K outputs, F columns of a row, V tokens of the vocabulary,
t tokens of a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

import numpy as np

from xaijax.core import checks, html
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public_class
from xaijax.core.typing import AnswerPath, Devices, Levels, Progress
from xaijax.estimators.driver import EstimatorName
from xaijax.methods.explainer.explainer import Explainer
from xaijax.methods.language.causal_lm import CausalLM, Measure, model_of
from xaijax.methods.language.layout import DONOR, MASKED, PromptLayout, bucket
from xaijax.methods.language.prompts import (
    PLACE,
    Prompt,
    Tokenizer,
    read_by,
    read_chat,
    read_prompt,
    read_token,
    spans_of,
)
from xaijax.methods.language.torch_lm import MEMORY, is_torch
from xaijax.models.as_model import as_model
from xaijax.players.index import IndexLike
from xaijax.players.players import Players
from xaijax.results.explanation import Explanation
from xaijax.results.interactions import Interactions
from xaijax.results.plan import Plan
from xaijax.results.shared_fields import unique
from xaijax_kernels.structures.prefixes import Prefixes

MEASURES = ("target", "tokens")
KEPT = 8  # explainers of different layouts whose programs are kept
Result = TypeVar("Result", Explanation, Interactions)


@dataclass(frozen=True)
class Question:
    """Prompts as rows, and the explainer of them."""

    explainer: Explainer
    layout: PromptLayout
    X: np.ndarray  # [N, F]
    prompts: list[Prompt]
    targets: list[str]  # as the tokenizer has them
    tokens: tuple[str, ...] | None  # [K], of the target of a single prompt

    def of_prompts(self, result: Result, facts: dict[str, Any]) -> Result:
        """The result with the prompts' own texts and names."""
        N, P = len(self.prompts), len(result.feature_names)
        texts = np.full((N, P), "", object)
        for n, prompt in enumerate(self.prompts):
            texts[n, : len(prompt.texts)] = prompt.texts
        count = np.array([[len(one.texts)] for one in self.prompts])
        present = np.arange(P) < count
        provenance = {k: v for k, v in result.provenance.items() if k != "player_columns"}
        outputs = result.output_names
        if outputs is not None and self.tokens is not None:
            outputs = unique(self.tokens)
        return replace(
            result,
            **in_text_order(result, count),
            data=texts.astype(str),
            feature_names=unique(self.prompts[0].texts if N == 1 else segment_names(P)),
            output_names=outputs,
            present=None if present.all() else present,
            stats={**result.stats, "targets": np.array(self.targets)},
            provenance=provenance | facts,
        )


@public_class
class PromptExplainer:
    """Explains what a causal language model says: how much each segment of a prompt moves it.

    A player is a segment of the prompt: a word, a sentence, a document. The value of a coalition is
    the log-probability of the target text after the prompt, if only the coalition's segments are
    present. The target is given, or it is the model's own greedy continuation of the full
    prompt. Prompts become rows of tokens, and `Explainer` explains these: estimators, interactions
    and certain top-k are the same.

    Args:
        lm: a `CausalLM`, or a causal module of PyTorch, which is read as `CausalLM` says.
        tokenizer: a `Tokenizer` of the tokenizers package, a tokenizer of Hugging Face, or a
            function that takes a text and returns ids, or (ids, [(start, end), ...]) with the place
            of each token in the text. by="token" alone needs no places.
        by: the players: "token", "word", "sentence" or "line" of the prompt, or a function that
            takes a text and returns the segments as pairs (start, end). Tokens outside of all
            segments are always kept.
        absent: what becomes of an absent segment. These are different questions, and
            provenance["absent"] says which one was asked. "drop": it is left out, and later tokens
            move up. "mask": its tokens stay in place, and the mask hides them. A token's number: it
            replaces each of its tokens. A text: it replaces the segment. A list
            of prompts: the segments in the same places of these prompts, averaged over them; all
            prompts have the same number of segments then.
        index, estimator, budget, link, seed, tolerance: as for `Explainer`.
        chat: None, or a text with one {} where the prompt goes. It is no player. Or messages, such
            as [{"role": "user", "content": "{}"}], for the chat template of a tokenizer of
            Hugging Face, which then has the special tokens.
        start: a token's number or a text in front of each prompt, in place of the special tokens
            that the tokenizer adds; it is no player. None: what the tokenizer adds. With
            absent="drop" or "mask" something must be left if all segments are absent.
        stop: a token's number that ends a generated target; None: the tokenizer's eos_token_id, if
            it has one.
        {batch_size}
        {memory}
        {path}
        {levels}

    Raises:
        InputError, InputTypeError: an argument is not accepted. The model is not run before the
            first explanation.

    Example:
        >>> import jax.numpy as jnp
        >>> import xaijax as xj
        >>> words = ["<s>", "sun", "rain", "today"]
        >>> def tokenizer(text):  # ids, and the place of each in the text
        ...     spans = [m.span() for m in re.finditer(r"\\S+", text)]
        ...     return [words.index(text[a:b]) for a, b in spans], spans
        >>> def logits(params, ids, mask):  # the next token depends on the mean of all so far
        ...     seen = jnp.cumsum(params[ids] * mask[..., None], axis=1)
        ...     return seen / jnp.maximum(jnp.cumsum(mask, axis=1), 1)[..., None]
        >>> import re
        >>> lm = xj.CausalLM(logits, jnp.eye(4) * 3)
        >>> explainer = xj.PromptExplainer(lm, tokenizer, start="<s>")
        >>> explanation = explainer(["sun rain sun"], targets=[" sun"])
        >>> explanation.feature_names, explanation.values.round(2)
        (('sun', 'rain', 'sun (2)'), array([[1.16, 0.05, 1.16]]))
    """

    def __init__(
        self,
        lm: Any,
        tokenizer: Any,
        by: Any = "word",
        absent: Any = "drop",
        index: IndexLike = "shapley",
        estimator: EstimatorName = "auto",
        budget: int | None = None,
        link: Any = "identity",
        seed: int = 0,
        chat: str | Sequence[Any] | None = None,
        start: int | str | None = None,
        stop: int | None = None,
        batch_size: int | Literal["auto"] = "auto",
        max_memory: int | None = None,
        devices: Devices = None,
        tolerance: float | None = None,
        tile: int | None = None,
        path: AnswerPath = "auto",
        levels: Levels = None,
    ) -> None:
        lm = CausalLM(lm) if is_torch(lm) else lm
        checks.instance(lm, "lm", CausalLM, "a xaijax.CausalLM", " Wrap the function of logits.")
        self.lm, self._tokenizer = lm, Tokenizer(tokenizer)
        self.by, self._chat = read_by(by), read_chat(chat, self._tokenizer)
        self._start = None if start is None else self._tokenizer.token(start, "start")
        if start is None and isinstance(chat, list | tuple):  # the template has the special tokens
            self._start, start = [], ""
        self._in_front = {"chat": chat and PLACE.join(self._chat), "start": start}
        own_end = getattr(tokenizer, "eos_token_id", None)
        self._stop = own_end if stop is None else read_token(stop, "stop")
        self._numbers = {"start": self._start or [], "stop": [] if stop is None else [self._stop]}
        self.absent, self._donors = self._read_absent(absent)
        self._options: dict[str, Any] = {
            "index": index,
            "estimator": estimator,
            "budget": budget,
            "link": link,
            "seed": seed,
            "batch_size": batch_size,
            "max_memory": max_memory,
            "devices": devices,
            "tolerance": tolerance,
            "tile": tile,
            "path": path,
            "levels": levels,
        }
        self._explainers: dict[Any, Explainer] = {}
        # Options are checked here, by an explainer of other rows; an index needs the segments.
        others = {name: one for name, one in self._options.items() if name != "index"}
        Explainer(as_model(_first_column), np.zeros((1, 1)), **others)

    _repr_html_ = html.shown("lm", "by", "absent")

    def __repr__(self) -> str:
        by = self.by if isinstance(self.by, str) else getattr(self.by, "__name__", "function")
        return f"{type(self).__name__}({self.lm.name}, by={by!r}, absent={self.absent!r})"

    def __call__(
        self,
        prompts: Sequence[str],
        targets: Sequence[str | None] | str | None = None,
        new_tokens: int = 16,
        outputs: Measure = "target",
        players: Sequence[Any] | None = None,
        progress: Progress = None,
        top: int | None = None,
        confidence: float | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> Explanation:
        """Explains prompts, of any lengths, in one batch.

        Args:
            prompts: N texts.
            targets: N texts that follow the prompts, or one text for all; None, for all or in place
                of a text: the prompt's greedy continuation. A target is tokenized together with its
                prompt; a token that reaches from the prompt into the target belongs to the target.
                stats["targets"] shows the tokens of each target as text.
            new_tokens: int. The largest number of tokens of a generated target.
            outputs: "target": the log-probability of the target. "tokens": that of each of its
                tokens, K outputs; 0 for a token that a shorter target lacks. Or a function (logits
                [R, t, V] that predict the target's tokens, these tokens int [R, t], -1 where a
                shorter target lacks one) that returns [R] or [R, K], in jax.numpy.
            players: for each prompt its segments, as ascending pairs (start, end) of places in its
                text. They replace by=, and cannot be combined with absent=[prompts], whose segments
                follow from by=. None: the segments of by=.
            progress, top, confidence, bounds: as for `Explainer`.

        Returns:
            An `Explanation` with values [N, P], or [N, P, K] for K outputs, with P the largest
            number of segments. `explanation.segments` has the texts of each prompt's segments,
            `explanation[n]` those of prompt n alone as names.

        Raises:
            InputError, InputTypeError: an argument is not accepted; a prompt is empty, or longer
                than the context. ModelOutputError: the logits have another shape, are not finite,
                or ignore the mask. The errors of `Explainer` are raised as well.
        """
        question = self._question(prompts, targets, new_tokens, outputs, players)
        options = {"top": top, "confidence": confidence, "bounds": bounds}
        result = question.explainer(question.X, progress=progress, **cast(Any, options))
        return question.of_prompts(result, self._facts(outputs, players))

    def interactions(
        self,
        prompts: Sequence[str],
        targets: Sequence[str | None] | str | None = None,
        new_tokens: int = 16,
        outputs: Measure = "target",
        players: Sequence[Any] | None = None,
        order: int = 2,
        index: str = "sii",
        progress: Progress = None,
        unbiased: bool = False,
    ) -> Interactions:
        """Computes how much sets of segments move the answer together.

        Args:
            prompts, targets, new_tokens, outputs, players: as for a call.
            order, index, progress, unbiased: as for `Explainer.interactions`.

        Returns:
            `Interactions` of all sets of 1 to `order` segments.

        Raises:
            The errors of a call and of `Explainer.interactions`.
        """
        question = self._question(prompts, targets, new_tokens, outputs, players)
        options = {"order": order, "index": index, "progress": progress, "unbiased": unbiased}
        result = question.explainer.interactions(question.X, **cast(Any, options))
        return question.of_prompts(result, self._facts(outputs, players))

    def plan(
        self,
        prompts: Sequence[str],
        targets: Sequence[str | None] | str | None = None,
        new_tokens: int = 16,
        outputs: Measure = "target",
        players: Sequence[Any] | None = None,
    ) -> Plan:
        """Computes the cost of explaining prompts before it is run.

        Args:
            prompts, targets, new_tokens, outputs, players: as for a call.

        Returns:
            A `Plan`. Targets that are not given are generated; else only the model's probe is run.

        Raises:
            The errors that a call raises before it runs the model.
        """
        question = self._question(prompts, targets, new_tokens, outputs, players)
        plan = question.explainer.plan(question.X)
        return replace(plan, tokens=self._tokens(question, plan))

    def _tokens(self, question: Question, plan: Plan) -> tuple[int, int]:
        """(token positions that a plan's rows read, and those without prefixes)."""
        layout = question.layout
        plain = plan.model_rows * layout.length
        cached = self.lm.module is not None and self.lm.module.cache_bytes > 0
        if plan.structure is None and not cached:
            return int(plain.sum()), int(plain.sum())
        drops = self._donors is None and self.absent == "drop"
        width = len(layout.of_column)
        tree = Prefixes(None, cast(Any, None), layout.segments, 0, width, True, drops)
        k = np.array([len(one.segments) for one in question.prompts])
        most = min(layout.players, plan.tile.bit_length() - 1)
        sizes = np.unique(np.minimum(tree.slot_bits, most))
        bits = sizes[np.maximum(np.searchsorted(sizes, k, side="right") - 1, 0)]
        slots = -(-plan.model_rows >> bits)
        steps = np.array([tree.steps(int(one)) for one in bits]) * layout.segment + layout.start
        read = slots * (steps + ((layout.end + layout.target - 1) << bits))
        return int(np.where(plan.estimator == "exact", read, plain).sum()), int(plain.sum())

    def as_explainer(
        self,
        prompts: Sequence[str],
        targets: Sequence[str | None] | str | None = None,
        new_tokens: int = 16,
        outputs: Measure = "target",
        players: Sequence[Any] | None = None,
    ) -> tuple[Explainer, np.ndarray]:
        """Returns the `Explainer` that answers a call, and the prompts as its rows.

        Pass both to a function of an explainer and rows, such as `judge` or `sweep`. The players
        are the segments from the last one to the first.

        Args:
            prompts, targets, new_tokens, outputs, players: as for a call.

        Returns:
            (explainer, rows [N, F]), F codes of tokens.

        Raises:
            The errors that a call raises before it explains.
        """
        question = self._question(prompts, targets, new_tokens, outputs, players)
        return question.explainer, question.X

    def _facts(self, outputs: Any, players: Any) -> dict[str, Any]:
        """Returns what the provenance says of the question."""
        named = [one if isinstance(one, str) else "function" for one in (self.by, outputs)]
        return {
            "method": "PromptExplainer",
            "segments": named[0] if players is None else "given",
            "absent": self.absent if self._donors is None else f"{len(self._donors)} prompts",
            "outputs": named[1],
            **{name: one for name, one in self._in_front.items() if one is not None},
        }

    def _read_absent(self, absent: Any) -> tuple[Any, list[Prompt] | None]:
        """(absent=, its prompts if it is a list of them)."""
        if isinstance(absent, str | int) and not isinstance(absent, bool):
            if absent not in ("drop", "mask"):
                self._numbers["absent"] = self._tokenizer.token(absent, "absent")
                if not self._numbers["absent"]:
                    raise InputError(
                        f"absent: {absent!r} has no token. Say 'drop' to leave it out."
                    )
            return absent, None
        if not isinstance(absent, list | tuple) or not absent:
            raise InputTypeError(
                f"absent: got {checks.shown(absent)}; pass 'drop', 'mask', a token's number, a "
                "text, or a list of prompts."
            )
        return absent, self._read(absent, [None] * len(absent), None, "absent: prompt")

    def _read(
        self, prompts: Sequence[Any], targets: Sequence[Any], players: Any, what: str
    ) -> list[Prompt]:
        """The prompts as tokens."""
        of_each = [None] * len(prompts) if players is None else players
        return [
            read_prompt(
                self._tokenizer,
                text,
                target,
                lambda text, name, given=spans: spans_of(text, self.by, given, name),
                self._chat,
                self._start,
                f"{what} {n}",
            )
            for n, (text, target, spans) in enumerate(zip(prompts, targets, of_each, strict=True))
        ]

    def _question(
        self, prompts: Any, targets: Any, new_tokens: Any, outputs: Any, players: Any
    ) -> Question:
        """Reads prompts; targets that are not given are generated."""
        if not callable(outputs):
            checks.one_of(outputs, "outputs", MEASURES)
        new = checks.whole_number(new_tokens, "new_tokens")
        texts = _texts(prompts)
        one = targets is None or isinstance(targets, str)
        wanted = [targets] * len(texts) if one else checks.listed(targets, "targets", "texts")
        cuts = None if players is None else checks.listed(players, "players", "segments of prompts")
        for name, of_each in (("targets", wanted), ("players", cuts)):
            if of_each is not None and len(of_each) != len(texts):
                raise InputError(
                    f"{name}: got {len(of_each):,} for {len(texts):,} prompts. Give one for each."
                )
        if cuts is not None and self._donors is not None:
            raise InputError(
                "players: got segments of the prompts, but those of the prompts in absent= are not "
                "given. Pass by=, a function that returns the segments of any of these texts."
            )
        read = self._read(texts, wanted, cuts, "prompt")
        for n, prompt in enumerate(read):
            self._refuse(n, prompt)
            size = new if prompt.target is None else len(prompt.target)
            self.lm.refuse_longer(self._longest(prompt), size, f"prompt {n}")
        self._refuse_unknown(read)
        lacking = [one.ids for one in read if one.target is None]
        if lacking:
            added = iter(self.lm.generate(lacking, new, self._stop))
            read = [replace(one, target=next(added)) if one.target is None else one for one in read]
        tokens = [one.target or [] for one in read]
        layout = self._layout(read, outputs)
        X = self._rows(layout, read)
        explainer = self._explainer(layout, outputs, X)
        names = [self._tokenizer.decode([one]) for one in tokens[0]] if len(read) == 1 else None
        return Question(
            explainer,
            layout,
            X,
            read,
            [self._tokenizer.said(one.target or [], one.said) for one in read],
            tuple(names) if names and outputs == "tokens" else None,
        )

    def _refuse_unknown(self, prompts: list[Prompt]) -> None:
        """Raises InputError for a token that the model's logits do not have."""
        V = self.lm.vocabulary
        every = {f"prompt {n}": one for n, one in enumerate(prompts)}
        every |= {f"absent: prompt {n}": one for n, one in enumerate(self._donors or ())}
        ids = {f"tokenizer: {name}": [*one.ids, *(one.target or ())] for name, one in every.items()}
        for name, tokens in {**self._numbers, **ids}.items():
            if max(tokens, default=0) >= V:
                raise InputError(
                    f"{name} has the token {max(tokens):,}, but the logits of {self.lm.name} are "
                    f"of {V:,} tokens, 0 to {V - 1:,}. Pass the tokenizer and tokens of this model."
                )

    def _refuse(self, n: int, prompt: Prompt) -> None:
        """Raises InputError for a prompt that the question does not fit."""
        if self._donors is not None:
            for b, donor in enumerate(self._donors):
                if len(donor.segments) != len(prompt.segments):
                    raise InputError(
                        f"absent: prompt {b} has {len(donor.segments)} segments, and prompt {n} of "
                        f"the call has {len(prompt.segments)}: segments are exchanged place by "
                        "place. Give prompts with the same number, or say absent='drop'."
                    )
        elif self.absent in ("drop", "mask") and not (
            prompt.start or prompt.end or any(prompt.gaps)
        ):
            raise InputError(
                f"absent={self.absent!r} leaves nothing of prompt {n} where all segments are "
                "absent, and the model needs a token to predict the next one. Say start= (the "
                "model's token for the beginning of a text) or chat=."
            )

    def _tokens_of_absent(self, segment: list[int]) -> list[int]:
        """The tokens that replace an absent segment of these tokens."""
        if self._donors is not None or self.absent == "drop":
            return []
        if self.absent == "mask":
            return [MASKED] * len(segment)
        stand_in = self._numbers["absent"]
        return stand_in if isinstance(self.absent, str) else stand_in * len(segment)

    def _longest(self, prompt: Prompt) -> int:
        """The most tokens that a hybrid of the prompt has before its target."""
        others = [self._tokens_of_absent(one) for one in prompt.segments]
        donors = [one.segments for one in self._donors or ()]
        sizes = [max(map(len, at)) for at in zip(prompt.segments, others, *donors, strict=True)]
        fixed = len(prompt.ids) - sum(map(len, prompt.segments))
        return fixed + sum(sizes)

    def _layout(self, prompts: list[Prompt], outputs: Any) -> PromptLayout:
        """The columns of rows that hold these prompts."""
        every = [*prompts, *(self._donors or ())]
        parts = [one for prompt in every for one in prompt.segments]
        parts += [self._tokens_of_absent(one) for one in parts]
        target = max(len(one.target or ()) for one in prompts)
        length = bucket(max(self._longest(one) for one in prompts) + target)
        return PromptLayout(
            players=max(len(one.segments) for one in prompts),
            start=bucket(max(len(one.start) for one in every)),
            gap=bucket(max(len(gap) for one in every for gap in one.gaps)),
            segment=bucket(max(map(len, parts))),
            end=bucket(max(len(one.end) for one in every)),
            target=bucket(target) if outputs == "target" else target,
            stand_ins=self._donors is None and self.absent != "drop",
            length=min(length, self.lm.context or length),
        )

    def _rows(self, layout: PromptLayout, prompts: list[Prompt]) -> np.ndarray:
        """The prompts as rows of a layout, floating [N, F]: token numbers are below 2^24."""
        codes = layout.rows(
            [one.start for one in prompts],
            [one.gaps for one in prompts],
            [one.segments for one in prompts],
            [one.end for one in prompts],
            [one.target or [] for one in prompts],
            [[self._tokens_of_absent(own) for own in one.segments] for one in prompts],
        )
        return codes.astype(np.float64 if self.lm.precision == "float64" else np.float32)

    def _explainer(self, layout: PromptLayout, outputs: Any, X: np.ndarray) -> Explainer:
        """The explainer of rows of this layout, which is kept."""
        key = layout, outputs
        if key not in self._explainers:
            if self._donors is None:
                background = layout.absent.astype(X.dtype)
            else:
                background = self._rows(layout, self._donors)
                marked = (layout.of_column >= 0) & (background >= 0) & (self.lm.step is not None)
                background = background + DONOR * marked
            few, last = X[:2], layout.players - 1
            own = layout.of_column
            gone = ((own > 0) & (own % 2 == 1), own == last)
            cases = [np.where(one, background[:1], few) for one in gone]
            memory = self._options["max_memory"] or MEMORY
            # Of a masked segment a step does not know the positions.
            steps = None if self.absent == "mask" else self._donors is None and not layout.stand_ins
            model = model_of(self.lm, layout, outputs, np.concatenate(cases), memory, steps)
            names = segment_names(layout.players)[::-1]
            players = cast(Any, Players(layout.of_column, names))
            while len(self._explainers) >= KEPT:
                self._explainers.pop(next(iter(self._explainers)))
            self._explainers[key] = Explainer(model, background, players, **self._options)
        return self._explainers[key]


def segment_names(count: int) -> tuple[str, ...]:
    """The names of segments in the order of the text."""
    return tuple(f"segment {p}" for p in range(count))


def in_text_order(result: Result, count: np.ndarray) -> dict[str, Any]:
    """The values and errors of a result whose player 0 is the last of `count` [N, 1] segments."""
    P = len(result.feature_names)
    if isinstance(result, Explanation):
        place = np.arange(P)
        order = np.where(place < count, count - 1 - place, place)  # [N, P]
    else:
        at = {own: m for m, own in enumerate(result.sets)}
        order = np.empty((len(count), len(at)), int)
        for L in np.unique(count):
            turned = [L - 1 - p if p < L else p for p in range(P)]
            own = [at[tuple(sorted(turned[p] for p in one))] for one in result.sets]
            order[count[:, 0] == L] = own

    def turn(array: np.ndarray | None) -> np.ndarray | None:
        if array is None:
            return None
        return np.take_along_axis(array, order.reshape(*order.shape, *[1] * (array.ndim - 2)), 1)

    return {"values": turn(result.values), "std_errors": turn(result.std_errors)}


def _first_column(X: Any) -> Any:
    return X[:, 0]


def _texts(prompts: Any) -> list[Any]:
    """prompts=, a list of texts."""
    if isinstance(prompts, str):
        raise InputTypeError("prompts: got one text; pass a list of texts, [text].")
    texts = checks.listed(prompts, "prompts", "texts")
    if not texts:
        raise InputError("prompts: got none; pass at least one text.")
    return texts
