"""Reads Haiku's transformed functions with their params, and their state if they have one."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.adapters.functions import (
    checked_params,
    in_inference,
    module_source,
    refuse_missing,
)
from xaijax.models.base.source import ModelSource


def haiku_function(f: Any, params: Any, state: Any, backend: str) -> ModelSource:
    """Reads a transformed function of a batch, with its params and, for TransformedWithState, its
    state.

    It is called without a random key, so Haiku refuses functions that need one.
    """
    stateful = isinstance(f, sys.modules["haiku"].TransformedWithState)
    recipe = "as_model(transformed, params, state=state)" if stateful else "as_model(f, params)"
    if params is None or stateful == (state is None):
        raise InputTypeError(
            f"f= is Haiku's {type(f).__name__}, which goes with what init returned, "
            f"{'params and state' if stateful else 'params alone'}: {recipe}."
        )
    if backend == "host":
        raise InputError(
            "backend='host' is not accepted for Haiku functions, which JAX traces. Say "
            "backend='auto' or 'jax'."
        )
    taken = list(inspect.signature(f.apply).parameters)
    key = (None,) if "rng" in taken else ()  # hk.without_apply_rng leaves it out
    first = "params" + ", state" * stateful + ", None" * len(key)
    refuse_missing(
        f.apply,
        2 + stateful + len(key),
        "a Haiku function",
        f"as_model(lambda params, X: transformed.apply({first}, {{given}}){'[0]' * stateful}, "
        "params=params)",
    )
    mode = in_inference(f.apply)

    if stateful:

        def head(params: Any, rows: Any) -> Any:
            return f.apply(params["params"], params["state"], *key, rows, **mode)[0]

        variables = {"params": params, "state": state}
    else:

        def head(params: Any, rows: Any) -> Any:
            return f.apply(params, *key, rows, **mode)

        variables = params
    read = checked_params(variables)
    again = (f, read["params"], read["state"]) if stateful else (f, read, None)
    name = type(f).__name__
    return module_source("a Haiku function, traced by JAX", name, head, read, again=again)
