"""Values of a prompt's segments from the definitions: every coalition's text through a transformer.

Plain float64 NumPy, one text at a time, without masks, padding or caches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def _norm(x: np.ndarray) -> np.ndarray:
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5)


def gpt_logits(
    params: Any, ids: Sequence[int], heads: int, hidden: Sequence[bool] | None = None
) -> np.ndarray:
    """Logits [T, V] of one text of T tokens; hidden: the tokens that no other may look at."""
    T = len(ids)
    lost = np.zeros(T, bool) if hidden is None else np.asarray(hidden)
    x = np.stack([np.float64(params["embed"][i]) for i in ids]) + np.float64(params["place"][:T])
    for number in range(len(params["layers"]["qkv"])):
        layer = {name: arrays[number] for name, arrays in params["layers"].items()}
        D = x.shape[1]
        size = D // heads
        q, k, v = np.split(_norm(x) @ np.float64(layer["qkv"]), 3, axis=1)
        mixed = np.zeros((T, D))
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            for t in range(T):
                seen = [s for s in range(t + 1) if not lost[s]]
                if not seen:
                    continue
                scores = np.array([q[t, part] @ k[s, part] for s in seen]) / math.sqrt(size)
                shares = np.exp(scores - scores.max())
                shares /= shares.sum()
                mixed[t, part] = sum(a * v[s, part] for a, s in zip(shares, seen, strict=True))
        x = x + mixed @ np.float64(layer["out"])
        up = _norm(x) @ np.float64(layer["up"])
        gelu = 0.5 * up * (1 + np.tanh(math.sqrt(2 / math.pi) * (up + 0.044715 * up**3)))
        x = x + gelu @ np.float64(layer["down"])
    return _norm(x) @ np.float64(params["head"])


def log_probabilities(
    logits_of: Callable[..., np.ndarray],
    before: Sequence[int],
    target: Sequence[int],
    hidden: Sequence[bool] | None = None,
) -> np.ndarray:
    """Log-probability of each target token behind the tokens `before`, float64 [t]; of the first
    one by the last token that is not hidden.
    """
    lost = None if hidden is None else [*hidden, *[False] * len(target)]
    logits = logits_of([*before, *target], lost)
    seen = [place for place in range(len(before)) if lost is None or not lost[place]]
    out = []
    for j, token in enumerate(target):
        row = logits[len(before) + j - 1 if j else seen[-1]]
        out.append(row[token] - row.max() - math.log(np.exp(row - row.max()).sum()))
    return np.array(out)


def shapley_of(players: int, value: Callable[[frozenset[int]], np.ndarray]) -> np.ndarray:
    """Shapley values [P, ...] of a game v(S) by the sum over all subsets."""
    table = {
        S: np.asarray(value(S))
        for r in range(players + 1)
        for S in map(frozenset, itertools.combinations(range(players), r))
    }
    out = []
    for i in range(players):
        total = np.zeros_like(table[frozenset()], dtype=float)
        for S, v in table.items():
            if i not in S:
                weight = math.factorial(len(S)) * math.factorial(players - len(S) - 1)
                total = total + weight / math.factorial(players) * (table[S | {i}] - v)
        out.append(total)
    return np.array(out)
