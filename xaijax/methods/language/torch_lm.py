"""`CausalModule`: a causal module of PyTorch, on the host, and what it answers to rows of tokens.

With a cache of keys and values each distinct prefix of a call's rows is read once: level by level,
and a group of nodes to its end before the next where all of them would not fit the memory.

Letters: R rows, T tokens of a row, V tokens of the vocabulary, t tokens of a target or of a part, U
distinct prefixes (nodes), W columns of their cache.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from xaijax.core.errors import ModelOutputError
from xaijax.methods.language.layout import NOTHING, PromptLayout
from xaijax.models.adapters.torch import logits_of

MEMORY = 1 << 30  # bytes that caches and logits may take, if max_memory= does not say
COPIES = 3  # of a cache, while it is gathered and made longer
ROUNDINGS = 2.0**10  # units in the last place by which two orders of the same sums may differ


def is_torch(f: Any) -> bool:
    """Whether `f` is a module of PyTorch, which is not imported for this."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(f, torch.nn.Module)


@dataclass(frozen=True)
class Prefixed:
    """Distinct prefixes that have been read."""

    cache: list[tuple[Any, Any]] | None  # of each layer, keys and values [U, ..., W, d]
    seen: np.ndarray  # whether a column of the cache holds a token of the prefix, bool [U, W]
    count: np.ndarray  # tokens of the prefix, with hidden ones, [U]
    last: Any  # logits behind the last token [U, V]; None: none was read

    def taken(self, which: np.ndarray) -> Prefixed:
        """Those at places `which`."""
        seen, count = self.seen[which], self.count[which]
        if self.cache is None:
            return Prefixed(None, seen, count, None)
        if len(which) == len(self.count) and (which == np.arange(len(which))).all():
            return self
        at = sys.modules["torch"].as_tensor(which, device=self.last.device)
        cache = [(keys[at], values[at]) for keys, values in self.cache]
        return Prefixed(cache, seen, count, self.last[at])


class CausalModule:
    """A causal module: forward(input_ids, attention_mask, ...) -> logits [R, T, V], alone or in a
    `ModelOutput` or dict. It runs on its own device, in inference form.
    """

    def __init__(self, module: Any) -> None:
        self.module, self.name = module, type(module).__name__
        self._torch: Any = sys.modules["torch"]
        base = getattr(module, "get_base_model", lambda: module)()  # behind an adapter of PEFT
        self._takes = set(inspect.signature(base.forward).parameters)
        # Hugging Face named it "cache" in version 5.
        self.past = "cache" if "cache" in self._takes else "past_key_values"
        held = [one for one in module.parameters() if one.is_floating_point()]
        self._device = held[0].device if held else "cpu"
        self.eps = float(self._torch.finfo(held[0].dtype if held else self._torch.float32).eps)

    @cached_property
    def vocabulary(self) -> int:
        """V, by the logits of one token."""
        one = np.ones((1, 1), np.int64)
        return self._forward(0 * one, one > 0, 0 * one)[0].shape[2]

    @cached_property
    def cache_bytes(self) -> int:
        """Bytes of a token in the cache; 0: there is no cache whose rows can be taken."""
        config = getattr(self.module, "config", None)
        needed = {self.past, "position_ids", "attention_mask", "use_cache"}
        if not needed <= self._takes or getattr(config, "use_cache", True) is False:
            return 0
        two = np.zeros((1, 2), np.int64)
        _, past = self._forward(two, two == 0, np.arange(2)[None], cache=True)
        pairs = self._pairs(past)
        if pairs is None or any(one.shape[0] != 1 or one.shape[-2] != 2 for one in sum(pairs, ())):
            return 0
        return sum(one.numel() * one.element_size() for one in sum(pairs, ())) // 2

    def generated(self, rows: np.ndarray, count: np.ndarray, new: int) -> tuple[np.ndarray, bool]:
        """(the most probable `new` tokens behind the first count [R] of rows [R, T], int [R, new];
        whether a logit is NaN).
        """
        rows, bad = rows.astype(np.int64), False
        for j in range(new):
            mask = np.arange(rows.shape[1]) < (count + j)[:, None]
            for which, logits in self.predicted(rows, mask, (count + j - 1)[:, None], MEMORY):
                bad |= bool(logits.isnan().any())
                rows[which, count[which] + j] = logits[:, 0].argmax(1).cpu().numpy()
        places = count[:, None] + np.arange(new)
        return np.take_along_axis(rows, places, axis=1), bad

    def predicted(
        self, ids: np.ndarray, mask: np.ndarray, places: np.ndarray, memory: int
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """(which rows, their logits at places [r, t, V]) of rows [R, T] that are read from their
        start, by length and as many at once as the memory holds.
        """
        size = places.max(axis=1) + 1
        order = np.argsort(size, kind="stable")
        first = 0
        while first < len(order):
            length = size[order[first:]].max()
            at_once = max(1, memory // int(8 * length * self.vocabulary))
            rows = order[first : first + at_once]
            first += at_once
            length = size[rows].max()
            at, where = np.unique(places[rows], return_inverse=True)
            positions = np.broadcast_to(np.arange(length), (len(rows), length))
            given = ids[rows, :length], mask[rows, :length], positions
            logits, _ = self._forward(*given, keep=at)
            own = self._tensor(where.reshape(places[rows].shape))
            yield rows, logits[self._torch.arange(len(rows))[:, None], own]

    def by_prefixes(
        self, parts: Sequence[np.ndarray], targets: np.ndarray, memory: int
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """(which rows, their logits [r, t, V] that predict targets [R, t]) of rows whose tokens
        are in parts [R, width]; each distinct prefix of parts is read once.
        """
        width = sum(part.shape[1] for part in parts) + targets.shape[1]
        # The nodes of all levels down to those that are read, whose caches are half as long in the
        # mean, and copies of the last.
        columns = width * (len(parts) / 2 + COPIES)
        row = self.cache_bytes * columns + 8 * targets.shape[1] * self.vocabulary
        room = max(1, int(memory / row))
        R = len(targets)
        empty = Prefixed(None, np.zeros((1, 0), bool), np.zeros(1, np.int64), None)
        yield from self._below(empty, np.zeros(R, np.int64), np.arange(R), parts, targets, room)

    def _below(
        self,
        nodes: Prefixed,
        own: np.ndarray,
        rows: np.ndarray,
        parts: Sequence[np.ndarray],
        targets: np.ndarray,
        room: int,
    ) -> Iterator[tuple[np.ndarray, Any]]:
        """`by_prefixes` of rows whose first parts are read: own[i] is the node of rows[i]; at most
        `room` nodes are read at once, and what is below them before the others.
        """
        keys = np.column_stack([own, (parts[0] if parts else targets)[rows]])
        keys, where = np.unique(keys, axis=0, return_inverse=True)
        where = where.reshape(-1)
        for first in range(0, len(keys), room):
            parents, codes = keys[first : first + room, 0], keys[first : first + room, 1:]
            inside = (where >= first) & (where < first + room)
            at = where[inside] - first
            if parts:
                below = self._extended(nodes, parents, codes)
                yield from self._below(below, at, rows[inside], parts[1:], targets, room)
            else:
                logits = self._of_targets(nodes.taken(parents), codes)
                yield rows[inside], logits[self._tensor(at)]

    def _extended(self, nodes: Prefixed, parents: np.ndarray, codes: np.ndarray) -> Prefixed:
        """The nodes behind parents [U] and the tokens of one more part [U, width]."""
        old = nodes.taken(parents)
        there = codes >= 0
        t = int(there.sum(axis=1).max())
        count = old.count + (codes != NOTHING).sum(axis=1)
        if t == 0:  # nothing is visible of it
            return replace(old, count=count)
        # To the right, so that the last column is the last token of each.
        order = np.argsort(there, axis=1, kind="stable")[:, codes.shape[1] - t :]
        ids, real = (np.take_along_axis(one, order, axis=1) for one in (codes, there))
        some = np.flatnonzero(there.any(axis=1))
        past = old.taken(some)
        logits, cache = self._more(past, ids[some], real[some], keep=np.array([t - 1]))
        pairs = self._pairs(cache)
        assert pairs is not None
        seen = np.concatenate([old.seen, real], axis=1)
        if len(some) == len(codes):
            return Prefixed(pairs, seen, count, logits[:, -1])
        at, U = self._tensor(some), len(codes)
        olds = old.cache or [(None, None)] * len(pairs)
        whole = [
            (self._joined(new[0], held[0], at, U), self._joined(new[1], held[1], at, U))
            for new, held in zip(pairs, olds, strict=True)
        ]
        last = logits.new_zeros((len(codes), logits.shape[2])) if old.last is None else old.last
        last = last.clone()
        last[at] = logits[:, -1]
        return Prefixed(whole, seen, count, last)

    def _joined(self, new: Any, held: Any, at: Any, U: int) -> Any:
        """The cache of U nodes: that of those at `at`, [len(at), ..., W, d], and what the others
        held before, with empty columns behind.
        """
        out = new.new_zeros((U, *new.shape[1:]))
        if held is not None:
            out[..., : held.shape[-2], :] = held
        out[at] = new
        return out

    def _of_targets(self, nodes: Prefixed, targets: np.ndarray) -> Any:
        """The logits [U, t, V] that predict the targets [U, t] behind the nodes."""
        logits = nodes.last[:, None]
        if targets.shape[1] == 1:
            return logits
        ids = targets[:, :-1]
        more, _ = self._more(nodes, ids, ids >= 0, keep=None)
        return self._torch.cat([logits, more], dim=1)

    def _more(
        self, nodes: Prefixed, ids: np.ndarray, real: np.ndarray, keep: Any
    ) -> tuple[Any, Any]:
        """(logits, cache) of nodes [U] that read more tokens [U, t]."""
        positions = np.maximum(nodes.count[:, None] + np.cumsum(real, axis=1) - 1, 0)
        mask = np.concatenate([nodes.seen, real], axis=1)
        past = None if nodes.cache is None else self._cache(nodes.cache)
        return self._forward(np.maximum(ids, 0), mask, positions, keep, past, cache=True)

    def _forward(
        self,
        ids: np.ndarray,
        mask: np.ndarray,
        positions: np.ndarray,
        keep: np.ndarray | None = None,
        past: Any = None,
        cache: bool = False,
    ) -> tuple[Any, Any]:
        """(floating logits [R, T, V], or at columns `keep`, and the cache)."""
        tensor = self._tensor
        given = {
            "attention_mask": tensor(mask).long(),
            "position_ids": tensor(positions),
            self.past: past,
            "use_cache": cache,
            "logits_to_keep": None if keep is None else tensor(keep),
        }
        given = {name: one for name, one in given.items() if name in self._takes}
        given = {name: one for name, one in given.items() if one is not None}
        rows = tensor(ids)
        with self._torch.inference_mode(), in_inference(self.module):
            if "input_ids" in self._takes:
                out = self.module(input_ids=rows, **given)
            else:
                out = self.module(rows, **given)
        logits = logits_of(out, self._torch.Tensor, self.name)
        T = ids.shape[1] if keep is None or "logits_to_keep" not in given else len(keep)
        if logits.ndim != 3 or tuple(logits.shape[:2]) != (len(ids), T):
            raise ModelOutputError(
                f"{self.name} must return logits [R, T, V]; for ids {list(ids.shape)} it returned "
                f"{list(logits.shape)}. Pass a causal language model."
            )
        if keep is not None and "logits_to_keep" not in given:
            logits = logits[:, tensor(keep)]
        past = getattr(out, self.past, None)
        return logits.float() if logits.element_size() < 4 else logits, past

    def _tensor(self, array: np.ndarray) -> Any:
        return self._torch.from_numpy(np.array(array)).to(self._device)

    def _pairs(self, past: Any) -> list[tuple[Any, Any]] | None:
        """The keys and values of a cache; None: of another form."""
        if isinstance(past, tuple | list):
            plain = all(isinstance(one, tuple | list) and len(one) == 2 for one in past)
            return [tuple(one) for one in past] if past and plain else None
        dynamic = getattr(sys.modules.get("transformers"), "DynamicCache", None)
        if dynamic is None or type(past) is not dynamic:
            return None
        layers = list(getattr(past, "layers", ()))
        # One of a window forgets its first columns, and others hold states.
        if not layers or any(type(one).__name__ != "DynamicLayer" for one in layers):
            return None
        return [(one.keys, one.values) for one in layers]

    def _cache(self, pairs: list[tuple[Any, Any]]) -> Any:
        """A cache of the module's own kind."""
        if self._by_tuples:
            return tuple(pairs)
        past = sys.modules["transformers"].DynamicCache()
        for layer, (keys, values) in enumerate(pairs):
            past.update(keys, values, layer)
        return past

    @cached_property
    def _by_tuples(self) -> bool:
        one = np.zeros((1, 1), np.int64)
        return isinstance(self._forward(one, one == 0, one, cache=True)[1], tuple | list)


@contextmanager
def in_inference(module: Any) -> Iterator[None]:
    """The module in inference form inside, and as it was behind."""
    training = [layer for layer in module.modules() if layer.training]
    module.eval()
    try:
        yield
    finally:
        for layer in training:
            layer.training = True


@dataclass(frozen=True, eq=False)
class ModuleAnswer:
    """A module's answer to hybrid rows of a layout, as a function of rows [R, F] on the host."""

    module: CausalModule
    layout: PromptLayout
    measure: Any
    memory: int

    @property
    def __name__(self) -> str:
        return self.module.name

    def widest(self, rows: Any) -> int:
        """Numbers of a row that the engine plans for; caches and logits are bounded here."""
        return len(self.layout.of_column)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """[R], or [R, K]."""
        return self.by_cache(rows) if self.module.cache_bytes else self.filled(None, rows, 0)

    def by_cache(self, rows: np.ndarray) -> np.ndarray:
        """The answers by the module's cache."""
        codes, layout = np.asarray(rows).astype(np.int64), self.layout
        parts = [codes[:, : layout.start]]
        parts += [layout.part(codes, one) for one in layout.segments]
        parts.append(codes[:, layout.segments[-1].last : layout.before_target])
        parts = [part for part in parts if (part != NOTHING).any()]
        targets = self._targets(codes)
        return self._measured(self.module.by_prefixes(parts, targets, self.memory), targets)

    def filled(self, params: Any, rows: Any, filler: Any) -> np.ndarray:
        """The answers by rows that are read from their start, with this token where the mask is
        False; params: none.
        """
        codes = np.asarray(rows).astype(np.int64)
        ids, mask, places = self.layout.read(codes, filler)
        return self._measured(
            self.module.predicted(ids, mask, places, self.memory), self._targets(codes)
        )

    def _targets(self, codes: np.ndarray) -> np.ndarray:
        first = self.layout.before_target
        return codes[:, first : first + self.layout.target]

    def _measured(
        self, predicted: Iterator[tuple[np.ndarray, Any]], targets: np.ndarray
    ) -> np.ndarray:
        """The answers to rows with these targets by parts of their logits."""
        out: np.ndarray | None = None
        for rows, logits in predicted:
            own = self.module._tensor(targets[rows])
            answer: Any
            if callable(self.measure):
                answer = self.measure(logits, own)
            else:
                each = log_probabilities(logits, own)
                answer = each.sum(1) if self.measure == "target" else each
            numbers = answer.detach().double().cpu().numpy()
            if out is None:
                out = np.zeros((len(targets), *numbers.shape[1:]))
            out[rows] = numbers
        assert out is not None
        return out


def log_probabilities(logits: Any, targets: Any) -> Any:
    """The log-probability of each target token [R, t] by logits [R, t, V]; 0 where none is."""
    at = targets.clamp(min=0)[..., None]
    logs = logits.gather(2, at)[..., 0] - logits.logsumexp(2)
    return logs.masked_fill(targets == NOTHING, 0.0)


def refuse_other_cache(answer: ModuleAnswer, rows: np.ndarray) -> None:
    """Raises ModelOutputError if the module's cache leads to other answers than reading rows [R, F]
    from their start.
    """
    module, each = answer.module, replace(answer, measure="tokens")
    whole, cached = each.filled(None, rows, 0), each.by_cache(rows)
    share = min(ROUNDINGS * module.eps, 2.0**-4)
    apart = np.where(np.isfinite(whole), np.abs(whole - cached), 0)
    wrong = ~(apart <= share * (1 + np.abs(np.where(np.isfinite(whole), whole, 0))))
    if wrong.any():
        n, t = np.argwhere(wrong)[0]
        raise ModelOutputError(
            f"{module.past} of {module.name} leads to another answer than the whole text: the "
            f"log-probability of token {t} of a target differs by {apart[n, t]:.3g}. Say "
            "module.config.use_cache = False, and each text is read from its start."
        )
