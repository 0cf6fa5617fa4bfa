"""Reads Flax modules in inference form: linen with variables, a TrainState, nnx."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable
from typing import Any

import jax

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.adapters.functions import (
    INFERENCE,
    checked_params,
    in_inference,
    module_source,
    refuse_missing,
    refuse_options,
)
from xaijax.models.base.options import came
from xaijax.models.base.source import ModelSource


def is_linen(f: Any) -> bool:
    """Whether f is a Flax linen module, a tuple that starts with one, or a TrainState."""
    return _is_module(f[0] if isinstance(f, tuple) and f else f) or _is_train_state(f)


def _is_module(f: Any) -> bool:
    linen = sys.modules.get("flax.linen")
    return linen is not None and isinstance(f, linen.Module)


def linen_module(f: Any, params: Any, state: Any, backend: str) -> ModelSource:
    """Reads a linen module with its variables, or a TrainState; it takes a batch."""
    if _is_train_state(f):
        refuse_options("Flax", backend, params, state)
        return _of_train_state(f)
    if not isinstance(f, tuple) and params is not None:
        f, params = (f, params), None
    refuse_options("Flax", backend, params, state)
    if not (isinstance(f, tuple) and len(f) == 2):
        raise InputTypeError(
            "f= for Flax must come with its variables, as_model(module, variables) or the pair "
            f"(module, variables), variables as module.init returned them; got {came(f)}."
        )
    linen, variables = f
    if not hasattr(variables, "keys"):
        raise InputTypeError(
            f"f= for Flax must be (module, variables), variables {{'params': ...}}; got "
            f"{type(variables).__name__}."
        )
    if not any(name in variables for name in ("params", "batch_stats")) and len(variables):
        raise InputError(
            f"f= for Flax must hold the whole variables, {{'params': ...}}; got the collections "
            f"{came(list(variables))}. Pass (module, {{'params': params}})."
        )
    module: Any = _inference_form(linen)
    name = type(module).__name__
    apply = module.apply
    call: Any = type(module).__call__ if callable(module) else apply
    refuse_missing(
        call,
        2,
        f"the Flax module {name}",
        "as_model(lambda variables, X: module.apply(variables, {given}), variables)",
    )
    read = checked_params(variables)
    return _source(name, apply, _said_in_call(module, call), read, (module, read, None))


def _of_train_state(state: Any) -> ModelSource:
    """The model of a TrainState: its `apply_fn`, which takes variables and a batch."""
    apply = state.apply_fn
    module = getattr(apply, "__self__", None)
    name, mode = getattr(apply, "__name__", "apply_fn"), in_inference(apply)
    if _is_module(module):
        module = _inference_form(module)
        name, apply = type(module).__name__, module.apply
        mode = _said_in_call(module, type(module).__call__)
    variables = {"params": state.params}
    if getattr(state, "batch_stats", None) is not None:
        variables["batch_stats"] = state.batch_stats
    read = checked_params(variables)
    again = (module, read, None) if _is_module(module) else None
    return _source(name, apply, mode, read, again)


def _source(
    name: str, apply: Callable[..., Any], mode: dict[str, bool], variables: Any, again: Any
) -> ModelSource:
    # Writes into other collections, such as a cache, are dropped.
    written = [key for key in variables if key not in ("params", "batch_stats")]

    def head(variables: Any, rows: Any) -> Any:
        if written:
            return apply(variables, rows, mutable=written, **mode)[0]
        return apply(variables, rows, **mode)

    return module_source("a Flax module, traced by JAX", name, head, variables, again=again)


def _said_in_call(module: Any, call: Callable[..., Any]) -> dict[str, bool]:
    """The inference mode as keywords of the call. If a field of the module sets the mode, a call
    whose keyword defaults to None (`flax.linen.merge_param`) gets no keyword, because Flax
    refuses both.
    """
    taken = inspect.signature(call).parameters
    return {
        name: value
        for name, value in in_inference(call).items()
        if getattr(module, name, None) is None or taken[name].default is not None
    }


def _inference_form(module: Any) -> Any:
    """A copy whose fields are set to inference; fields that are None are set in the call."""
    fields = {field.name for field in dataclasses.fields(module) if field.init}
    mode = {
        name: value
        for name, value in INFERENCE.items()
        if name in fields and isinstance(getattr(module, name, None), bool)
    }
    return module.clone(**mode) if mode else module


def _is_train_state(f: Any) -> bool:
    loaded = sys.modules.get("flax.training.train_state")
    return loaded is not None and isinstance(f, loaded.TrainState)


def nnx_module(f: Any, params: Any, state: Any, backend: str) -> ModelSource:
    """Reads a callable nnx module, which takes a batch. Its params are the state of a clone in
    inference mode, without random streams; the module itself is not changed. Writes during a
    call, such as the counters of an RNN's random streams, are dropped.
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
        fresh = jax.tree.map(lambda leaf: leaf, streams)  # made in this trace
        return nnx.merge(graph, fresh, arrays)(rows, **mode)

    read = checked_params(arrays)
    reason = "a Flax nnx module in inference mode, traced by JAX"
    return module_source(reason, name, head, read, again=(clone, None, None))
