"""`CausalLM`: a causal language model in JAX, and what it answers to rows of tokens.

Letters: R rows, T tokens of a row, V tokens of the vocabulary, t tokens of a target, K outputs, F
columns of a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, ModelOutputError
from xaijax.core.public import public_class
from xaijax.methods.language.layout import NOTHING, PromptLayout, bucket
from xaijax.methods.language.torch_lm import (
    CausalModule,
    ModuleAnswer,
    is_torch,
    refuse_other_cache,
)
from xaijax.models.as_model import as_model
from xaijax.models.base.trace import MATMUL
from xaijax.models.model import Model
from xaijax.models.queries.comparison import SHARES
from xaijax.models.structure.prefix import GivenPrefix
from xaijax_kernels.structures.prefixes import Segment

# What is explained: the target's log-probability, that of each of its tokens, or a function.
Measure = Literal["target", "tokens"] | Callable[[Any, Any], Any]
TOGETHER = 32  # prompts that are continued together
LOGITS = 1 << 26  # numbers of logits that are made at once: 256 MB, of 49,152 tokens 1,365 places


@public_class
@dataclass(frozen=True, eq=False)
class CausalLM:
    """A causal language model: a function of tokens whose logits predict the next one, or a module
    of PyTorch.

    Give it to `PromptExplainer`. Rows of tokens begin at the first position and are filled up at
    their end, where the mask is False.

    Args:
        logits: function (params, ids int32 [R, T], mask bool [R, T]) that returns the logits
            [R, T, V], in jax.numpy. Those at position i predict the token at i + 1, from the
            tokens up to i. A position whose mask is False must be invisible to all others. Or a
            causal module of PyTorch, such as AutoModelForCausalLM of Hugging Face: it is called
            with input_ids, attention_mask and position_ids, as far as its forward takes them,
            without gradients, on the device where it is. If it has past_key_values each distinct
            prefix is read once; with module.config.use_cache = False it is not. It has no other
            arguments here but context=.
        params: pytree of arrays; arguments of the compiled function, as for `as_model`.
        step: None, or a function (params, cache, ids [R, t], mask [R, t]) that reads t more tokens
            and returns (cache, logits [R, t, V]). A token whose mask is False is no token: the
            cache and later positions are as without it. With step= each distinct prefix of a
            prompt's coalitions is read once.
        init: function (params, R, length) that returns the cache of R empty rows, which has room
            for `length` tokens: a pytree of arrays whose first axis is R.
        context: int or None. The most tokens that a prompt and its target may have together. None:
            any number.
        precision: "float32", "tf32", "bfloat16" or "float64", as for `as_model`.

    Raises:
        InputError, InputTypeError: an argument is not accepted.

    Example:
        >>> import jax.numpy as jnp
        >>> import xaijax as xj
        >>> def logits(params, ids, mask):  # the next token depends on the mean of all so far
        ...     seen = jnp.cumsum(params[ids] * mask[..., None], axis=1)
        ...     return seen / jnp.maximum(jnp.cumsum(mask, axis=1), 1)[..., None]
        >>> lm = xj.CausalLM(logits, jnp.eye(4) * 3)
        >>> lm.generate([[0, 2, 2]], new_tokens=2)
        [[2, 2]]
    """

    logits: Callable[..., Any]
    params: Any = None
    _: KW_ONLY
    step: Callable[..., Any] | None = None
    init: Callable[..., Any] | None = None
    context: int | None = None
    precision: Literal["float32", "tf32", "bfloat16", "float64"] = "float32"

    def __post_init__(self) -> None:
        pair = ("step", "init")
        passed = [name for name in pair if getattr(self, name) is not None]
        if len(passed) == 1:
            lacking = next(name for name in pair if name not in passed)
            raise InputError(f"{passed[0]}= needs {lacking}=, which is not given. Pass both.")
        checks.functions(self, "logits", *passed)
        if self.context is not None:
            checks.whole_number(self.context, "context", least=2)
        if self.module is not None:
            for field in fields(self):
                value = getattr(self, field.name)
                if field.name not in ("logits", "context") and value is not field.default:
                    raise InputError(
                        f"{field.name}= is not accepted for the PyTorch module {self.name}, which "
                        "has its own. Leave it out."
                    )

    @cached_property
    def module(self) -> CausalModule | None:
        """The module of PyTorch, if it is one."""
        return CausalModule(self.logits) if is_torch(self.logits) else None

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        return getattr(self.logits, "__name__", type(self.logits).__name__)

    def generate(
        self, ids: list[list[int]], new_tokens: int = 16, stop: int | None = None
    ) -> list[list[int]]:
        """Continues prompts greedily: the most probable token, again and again.

        Args:
            ids: the tokens of each prompt.
            new_tokens: int. The most tokens that are added to each.
            stop: a token that ends a continuation, and belongs to it; None: there is none.

        Returns:
            The new tokens of each prompt.

        Raises:
            InputError: a prompt is empty, or does not fit the context with the new tokens.
            ModelOutputError: the logits have another shape, or are NaN.
        """
        new = checks.whole_number(new_tokens, "new_tokens")
        for n, tokens in enumerate(ids):
            if not len(tokens):
                raise InputError(f"ids: prompt {n} is empty. Give at least one token.")
            self.refuse_longer(len(tokens), new, f"prompt {n}")
        length = bucket(max(map(len, ids)) + new)
        size = min(TOGETHER, 1 << (len(ids) - 1).bit_length())
        continued: list[list[int]] = []
        for first in range(0, len(ids), size):  # of one shape, the last filled up
            chunk = ids[first : first + size]
            rows = np.zeros((size, length), np.int32)
            count = np.ones(size, np.int32)
            for place, tokens in enumerate(chunk):
                rows[place, : len(tokens)], count[place] = tokens, len(tokens)
            if self.module is not None:
                new_ids, bad = self.module.generated(rows, count, new)
            else:
                new_ids, bad = map(np.asarray, self._continued(self.params, rows, count, new))
            if bad:
                raise ModelOutputError(f"{self.name} returned logits that are NaN.")
            continued += [cut_at(row.tolist(), stop) for row in new_ids[: len(chunk)]]
        return continued

    @cached_property
    def checked(self) -> set[Any]:
        """The answers that look at no place whose mask is False, and "step" if `step` agrees."""
        return set()

    @cached_property
    def vocabulary(self) -> int:
        """V, by the shape of the logits; a function is not run."""
        if self.module is not None:
            return self.module.vocabulary
        ids = jax.ShapeDtypeStruct((1, 2), np.int32)
        mask = jax.ShapeDtypeStruct((1, 2), np.bool_)
        places = jax.ShapeDtypeStruct((1, 1), np.int32)
        return jax.eval_shape(self.predicted, self.params, ids, mask, places).shape[2]

    @cached_property
    def _continued(self) -> Callable[..., Any]:
        def continued(params: Any, rows: Any, count: Any, new: int) -> tuple[Any, Any]:
            def add(carry: tuple[Any, Any], j: Any) -> tuple[tuple[Any, Any], Any]:
                rows, bad = carry
                mask = jnp.arange(rows.shape[1]) < (count + j)[:, None]
                logits = self.predicted(params, rows, mask, (count + j - 1)[:, None])[:, 0]
                token = jnp.argmax(logits, axis=1).astype(rows.dtype)
                place = jnp.arange(rows.shape[1]) == (count + j)[:, None]
                rows = jnp.where(place, token[:, None], rows)
                return (rows, bad | jnp.isnan(logits).any()), token

            with jax.default_matmul_precision(MATMUL[self.precision]):
                (_, bad), tokens = jax.lax.scan(add, (rows, jnp.array(False)), jnp.arange(new))
            return tokens.T, bad

        return jax.jit(continued, static_argnums=3)

    def predicted(self, params: Any, ids: Any, mask: Any, places: Any) -> Any:
        """Returns the logits at places [R, t], floating [R, t, V], of a few rows at a time if the
        logits of all would be too many. Raises ModelOutputError for logits of another shape.
        """
        R = at_once = len(ids)
        if R > 1:
            one = jax.eval_shape(self._logits, params, ids[:1], mask[:1])
            while at_once % 2 == 0 and at_once * math.prod(one.shape) > LOGITS:
                at_once //= 2

        def some(part: Any) -> Any:
            ids, mask, places = part
            return jnp.take_along_axis(self._logits(params, ids, mask), places[..., None], axis=1)

        if at_once == R:
            return some((ids, mask, places))
        parts = [x.reshape(-1, at_once, *x.shape[1:]) for x in (ids, mask, places)]
        found = jax.lax.map(some, tuple(parts))
        return found.reshape(R, *found.shape[2:])

    def _logits(self, params: Any, ids: Any, mask: Any) -> Any:
        """The logits [R, T, V]; raises ModelOutputError for another shape."""
        logits = jnp.asarray(self.logits(params, ids, mask))
        if logits.ndim != 3 or logits.shape[:2] != ids.shape:
            raise ModelOutputError(
                f"{self.name} must return logits [R, T, V]; for ids {list(ids.shape)} it returned "
                f"{list(logits.shape)}. Return the logits at every position."
            )
        return logits

    def refuse_longer(self, prompt: int, target: int, what: str) -> None:
        """Raises InputError for more tokens than the context holds."""
        if self.context is not None and prompt + target > self.context:
            raise InputError(
                f"{what} has {prompt:,} tokens and its target {target:,}, but context="
                f"{self.context:,}. Shorten the prompt, or its target by new_tokens=."
            )


def cut_at(tokens: list[int], stop: int | None) -> list[int]:
    """The tokens up to the first `stop`, with it."""
    return tokens[: tokens.index(stop) + 1] if stop in tokens else tokens


@dataclass(frozen=True)
class Answer:
    """A model's answer to hybrid rows of a layout, as a function of (params, rows [R, F]).

    Equal for equal parts, so that what was compiled is found again.
    """

    lm: CausalLM
    layout: PromptLayout
    measure: Measure

    @property
    def __name__(self) -> str:
        return self.lm.name

    def __call__(self, params: Any, rows: Any) -> Any:
        """[R], or [R, K]."""
        return self.filled(params, rows, 0)

    def filled(self, params: Any, rows: Any, filler: Any) -> Any:
        """The same with this token at places whose mask is False."""
        ids, mask, places = self.layout.read(rows, filler)
        logits = self.lm.predicted(params, ids, mask, places)
        first = self.layout.before_target
        targets = rows[:, first : first + self.layout.target].astype(jnp.int32)
        return measured(self.measure, logits, targets)


def measured(measure: Measure, logits: Any, targets: Any) -> Any:
    """The answers [R] or [R, K] by the logits [R, t, V] that predict targets [R, t]."""
    if callable(measure):
        return measure(logits, targets)
    each = log_probabilities(logits, targets)
    return each.sum(axis=1) if measure == "target" else each


def log_probabilities(logits: Any, targets: Any) -> Any:
    """The log-probability of each target token [R, t] by logits [R, t, V]; 0 where none is."""
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    at = jnp.maximum(targets, 0)[..., None]
    logs = jnp.take_along_axis(wide, at, axis=2)[..., 0] - jax.nn.logsumexp(wide, axis=2)
    return jnp.where(targets == NOTHING, 0.0, logs)


def refuse_ignored_mask(lm: CausalLM, answer: Answer | ModuleAnswer, rows: np.ndarray) -> None:
    """Raises ModelOutputError if tokens at places whose mask is False change an answer.

    rows: some hybrid rows [R, F]. Their unused places hold one token, then another.
    """
    if callable(answer.measure):  # its own numbers may hide a difference
        answer = replace(answer, measure="tokens")
    if answer in lm.checked:
        return

    def filled(params: Any, rows: Any, filler: Any) -> Any:
        with jax.default_matmul_precision(MATMUL[lm.precision]):
            return answer.filled(params, rows, filler)

    run = jax.jit(filled) if lm.module is None else filled
    zeros, ones = (np.asarray(run(lm.params, rows, filler), np.float64) for filler in (0, 1))
    # A token that is visible moves the answer by its own share. Rounding moves it by a few units
    # of the logits' precision, as the sums over positions are of the same numbers.
    eps = jnp.finfo(jnp.float32).eps * 2**10
    wrong = np.abs(zeros - ones) > eps * (1 + np.abs(zeros))
    if wrong.any():
        n = int(np.argwhere(wrong)[0][0])
        raise ModelOutputError(
            f"{lm.name} ignores its mask: with another token at places whose mask is False "
            f"the target's log-probability changes by {np.abs(zeros - ones)[n].max():.3g}. Add "
            "jnp.where(mask[:, None, None, :], scores, -inf) to its attention."
        )
    lm.checked.add(answer)


@dataclass(frozen=True)
class TokenFold:
    """The same answers as a fold over segments, by the model's cache; see `Fold`.

    A state is (cache, the logits [R, V] that predict the next token).
    """

    lm: CausalLM
    layout: PromptLayout
    measure: Measure

    def start(self, params: Any, rows: Any) -> Any:
        """See `Fold`."""
        assert self.lm.init is not None
        R, layout = len(rows), self.layout
        cache = self.lm.init(params, R, layout.length)
        first = rows[:, : max(1, layout.start)].astype(jnp.int32)
        _, logits = jax.eval_shape(self._read, params, cache, first)
        state = cache, jnp.zeros((R, logits.shape[2]), logits.dtype)
        return self.step(params, state, first) if layout.start else state

    def part(self, rows: Any, segment: Segment) -> Any:
        """See `Fold`."""
        return self.layout.part(rows, segment)

    def step(self, params: Any, state: Any, part: Any) -> Any:
        """See `Fold`."""
        cache, before = state
        cache, logits = self._read(params, cache, part)
        there = part != NOTHING
        last = part.shape[1] - 1 - jnp.argmax(there[:, ::-1], axis=1)
        after = jnp.take_along_axis(logits, last[:, None, None], axis=1)[:, 0]
        return cache, jnp.where(there.any(axis=1)[:, None], after, before)

    def read(self, params: Any, state: Any, rows: Any) -> Any:
        """See `Fold`."""
        layout, codes = self.layout, rows.astype(jnp.int32)
        if layout.end:
            end = codes[:, layout.before_target - layout.end : layout.before_target]
            state = self.step(params, state, end)
        cache, last = state
        targets = codes[:, layout.before_target : layout.before_target + layout.target]
        logits = last[:, None]
        if layout.target > 1:
            _, more = self._read(params, cache, targets[:, :-1])
            logits = jnp.concatenate([logits, more], axis=1)
        return measured(self.measure, logits, targets)

    def _read(self, params: Any, cache: Any, tokens: Any) -> tuple[Any, Any]:
        assert self.lm.step is not None
        mask = tokens >= 0
        return self.lm.step(params, cache, jnp.where(mask, tokens, 0), mask)


def refuse_other_steps(answer: Answer, rows: np.ndarray) -> None:
    """Raises ModelOutputError if `step` gives other logits than the model for rows [R, F]."""
    lm, layout = answer.lm, answer.layout
    assert lm.step is not None and lm.init is not None
    half, step, init = layout.length // 2, lm.step, lm.init

    def both(params: Any, rows: Any) -> tuple[Any, Any, Any]:
        ids, mask, _ = layout.read(rows)
        with jax.default_matmul_precision(MATMUL[lm.precision]):
            whole = lm.logits(params, ids, mask)
            cache, stepped = init(params, len(rows), layout.length), []
            for part in (slice(0, half), slice(half, None)):  # each with a place that is no token
                some, seen = (jnp.pad(array[:, part], ((0, 0), (0, 1))) for array in (ids, mask))
                cache, logits = step(params, cache, some, seen)
                stepped.append(logits[:, :-1])
        return whole, jnp.concatenate(stepped, axis=1), mask

    whole, stepped, mask = jax.jit(both)(lm.params, rows)
    # Two orders of the same sums, with room for a deep model: a thousand roundings of the logits,
    # but at most a sixteenth of their spread, or what products of fewer digits change.
    share = min(2.0**10 * float(jnp.finfo(whole.dtype).eps), 2.0**-4)
    share = max(share, SHARES.get(lm.precision, 0.0))
    whole, stepped, mask = (np.asarray(array, np.float64) for array in (whole, stepped, mask))
    seen = np.broadcast_to(mask[..., None] > 0, whole.shape)
    if np.isnan(whole[seen]).any():  # which is no fault of step
        raise ModelOutputError(f"{lm.name} returned logits that are NaN.")
    unequal = seen & (stepped != whole)  # infinite ones must be the same
    apart = np.abs(np.subtract(stepped, whole, where=unequal, out=np.zeros_like(whole))).max(axis=2)
    finite = whole[seen & np.isfinite(whole)]
    allowed = share * ((np.ptp(finite) if finite.size else 0.0) + 2.0**-4)
    if not (apart <= allowed).all():
        n, t = np.unravel_index(int(np.where(apart <= allowed, 0, 1).argmax()), apart.shape)
        raise ModelOutputError(
            f"step= of {lm.name} gives other logits than the model: at position {t} of a prompt "
            f"they differ by {apart[n, t]:.3g}. The positions of tokens go on behind those in the "
            "cache, and a token whose mask is False takes none. Fix step=, or leave it out."
        )


def model_of(
    lm: CausalLM,
    layout: PromptLayout,
    measure: Measure,
    rows: np.ndarray,
    memory: int,
    drops: bool | None,
) -> Model:
    """The model that answers rows of a layout, after it is compared with itself on some hybrid rows
    [R, F].

    memory: bytes of a module's caches and logits; drops: whether absent segments are left out;
    None: they are hidden, and no step is used.
    """
    if lm.module is not None:
        of_module = ModuleAnswer(lm.module, layout, measure, memory)
        refuse_ignored_mask(lm, of_module, rows)
        if lm.module.cache_bytes:
            refuse_other_cache(of_module, rows)
        return as_model(of_module, backend="host")
    answer, structure = Answer(lm, layout, measure), "plain"
    refuse_ignored_mask(lm, answer, rows)
    if lm.step is not None and drops is not None:
        if "step" not in lm.checked:
            refuse_other_steps(answer, rows)
            lm.checked.add("step")
        fold = TokenFold(lm, layout, measure)
        given = {"segments": layout.segments, "last": True, "drops": drops}
        structure = cast(Any, GivenPrefix(fold, lm.precision, **cast(Any, given)))
    params = {} if lm.params is None else lm.params
    return as_model(answer, params, precision=lm.precision, structure=structure)
