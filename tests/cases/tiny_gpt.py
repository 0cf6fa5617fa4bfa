"""A small random causal transformer in jax.numpy, its tokenizer, and texts for it.

Letters: R rows, T tokens, V tokens of the vocabulary, D units, H heads, L layers.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

V, D, H, L, LONGEST = 32, 16, 2, 2, 128
PROMPT = "the cat sat. on mat? it ran"
START = 0


def params(seed: int = 0, dtype: Any = np.float32) -> dict[str, Any]:
    """Random weights; answers differ by a few units of log-probability."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(shape[-2])).astype(dtype)

    sizes = {"qkv": (D, 3 * D), "out": (D, D), "up": (D, 4 * D), "down": (4 * D, D)}
    layers = {name: normal(L, *size) for name, size in sizes.items()}
    embed = (rng.normal(size=(V, D))).astype(dtype)
    return {"embed": embed, "place": normal(LONGEST, D), "head": 2 * normal(D, V), "layers": layers}


def norm(x: Any) -> Any:
    """Each token's units with mean 0 and variance 1."""
    x = x - x.mean(axis=-1, keepdims=True)
    return x / jnp.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5)


def logits(params: Any, ids: Any, mask: Any) -> Any:
    """[R, T, V] of ids and mask [R, T]."""
    T = ids.shape[1]
    seen = jnp.tril(jnp.ones((T, T), bool)) & mask[:, None, :]

    def add(x: Any, layer: Any) -> tuple[Any, None]:
        q, k, v = (heads(part) for part in jnp.split(norm(x) @ layer["qkv"], 3, axis=-1))
        x = x + attended(q, k, v, seen) @ layer["out"]
        return x + jax.nn.gelu(norm(x) @ layer["up"]) @ layer["down"], None

    x = params["embed"][ids] + params["place"][:T]
    return norm(jax.lax.scan(add, x, params["layers"])[0]) @ params["head"]


def heads(x: Any) -> Any:
    """[R, T, D] as [R, H, T, D / H]."""
    return x.reshape(*x.shape[:2], H, D // H).swapaxes(1, 2)


def attended(q: Any, k: Any, v: Any, seen: Any) -> Any:
    """Attention of heads, [R, t, D]; seen bool [R, t, T]."""
    scores = jnp.einsum("rhtd,rhsd->rhts", q, k) / np.sqrt(D // H)
    shares = jax.nn.softmax(jnp.where(seen[:, None], scores, -1e30), axis=-1)
    return (shares @ v).swapaxes(1, 2).reshape(q.shape[0], q.shape[2], D)


def tokenizer(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Ids and places of pieces of at most three letters, and of marks; a long word has several."""
    spans = [match.span() for match in re.finditer(r" ?[a-z]{1,3}|[^a-z\s]|\s", text)]
    return [1 + sum(map(ord, text[a:b])) % (V - 1) for a, b in spans], spans


def init(params: Any, R: int, length: int) -> dict[str, Any]:
    """An empty cache."""
    room = (R, L, H, length, D // H)
    dtype = params["embed"].dtype
    return {"k": jnp.zeros(room, dtype), "v": jnp.zeros(room, dtype), "count": jnp.zeros(R, int)}


def step(params: Any, cache: Any, ids: Any, mask: Any) -> tuple[Any, Any]:
    """The cache and the logits [R, t, V] after t more tokens."""
    room = cache["k"].shape[3]
    place = cache["count"][:, None] + jnp.cumsum(mask, axis=1) - 1
    x = params["embed"][ids] + params["place"][jnp.clip(place, 0, LONGEST - 1)]
    rows, at = jnp.arange(len(ids))[:, None], jnp.where(mask, place, room)
    seen = jnp.arange(room) <= place[..., None]

    def add(x: Any, inputs: Any) -> tuple[Any, Any]:
        layer, keys, values = inputs
        q, k, v = (heads(part) for part in jnp.split(norm(x) @ layer["qkv"], 3, axis=-1))
        keys = keys.at[rows, :, at].set(k.swapaxes(1, 2), mode="drop")
        values = values.at[rows, :, at].set(v.swapaxes(1, 2), mode="drop")
        x = x + attended(q, keys, values, seen) @ layer["out"]
        return x + jax.nn.gelu(norm(x) @ layer["up"]) @ layer["down"], (keys, values)

    caches = (cache[name].swapaxes(0, 1) for name in "kv")
    x, (keys, values) = jax.lax.scan(add, x, (params["layers"], *caches))
    count = cache["count"] + mask.sum(axis=1)
    cache = {"k": keys.swapaxes(0, 1), "v": values.swapaxes(0, 1), "count": count}
    return cache, norm(x) @ params["head"]
