"""Flax nnx: a module split into its graph and its arrays, in inference form."""

from __future__ import annotations

import sys
from typing import Any

import jax

from xaijax.models.adapters.functions import checked_params
from xaijax.models.adapters.modules import (
    in_inference,
    module_source,
    refuse_missing,
    refuse_options,
)
from xaijax.models.base.source import Source


def is_nnx(f: Any) -> bool:
    """Whether f is a Flax nnx module."""
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(f, nnx.Module)


def nnx_module(f: Any, params: Any, state: Any, backend: str) -> Source:
    """A callable nnx module, written for a batch. Its params are the state of a clone in inference
    mode, without its streams of random numbers; the module itself is not touched. What an answer
    writes, as the counters of streams that an RNN asks for its first carry, is dropped.
    """
    refuse_options("Flax nnx", backend, params, state)
    from flax import nnx  # noqa: PLC0415

    name = type(f).__name__
    refuse_missing(
        f,
        1,
        f"the Flax nnx module {name}",
        "graphdef, state = nnx.split(module); as_model(lambda state, X: "
        "nnx.merge(graphdef, state)({given}), params=state)",
    )
    clone = nnx.clone(f)
    clone.eval()
    graph, streams, arrays = nnx.split(clone, nnx.RngState, ...)
    mode = in_inference(f)

    def head(arrays: Any, rows: Any) -> Any:
        own = jax.tree.map(lambda leaf: leaf, streams)  # made in this trace, which may write them
        return nnx.merge(graph, own, arrays)(rows, **mode)

    read = checked_params(arrays)
    reason = "a Flax nnx module in inference mode, traced by JAX"
    return module_source(reason, name, head, read, again=(clone, None, None))
