"""Haiku: a transformed function with its params, and its state where it has one."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.adapters.functions import checked_params
from xaijax.models.adapters.modules import INFERENCE, module_source
from xaijax.models.base.source import Source


def is_haiku(f: Any) -> bool:
    """Whether f is what `hk.transform` or `hk.transform_with_state` returns."""
    haiku = sys.modules.get("haiku")
    return haiku is not None and isinstance(f, (haiku.Transformed, haiku.TransformedWithState))


def haiku_function(f: Any, params: Any, state: Any, backend: str) -> Source:
    """A transformed function of a batch, with its params and, of TransformedWithState, its state.

    It is asked without a random key, so that a function that draws is refused by Haiku.
    """
    stateful = isinstance(f, sys.modules["haiku"].TransformedWithState)
    recipe = "as_model(transformed, params, state=state)" if stateful else "as_model(f, params)"
    if params is None or stateful == (state is None):
        raise InputTypeError(
            f"f= is Haiku's {type(f).__name__}, which goes with "
            f"{'params and state' if stateful else 'params alone'}: {recipe}, as its init returned "
            f"them."
        )
    if backend == "host":
        raise InputError(
            "backend='host' is not accepted for Haiku functions, which JAX traces. Say "
            "backend='auto' or 'jax'."
        )
    taken = list(inspect.signature(f.apply).parameters)
    key = (None,) if "rng" in taken else ()  # hk.without_apply_rng leaves it out

    if stateful:

        def head(params: Any, rows: Any, **mode: bool) -> Any:
            return f.apply(params["params"], params["state"], *key, rows, **mode)[0]

        given = {"params": params, "state": state}
    else:

        def head(params: Any, rows: Any, **mode: bool) -> Any:
            return f.apply(params, *key, rows, **mode)

        given = params
    read = checked_params(given)
    again = (f, read["params"], read["state"]) if stateful else (f, read, None)
    name = type(f).__name__
    return module_source(
        "a Haiku function, traced by JAX", name, _asked(head, stateful), read, again=again
    )


def _asked(apply: Callable[..., Any], stateful: bool) -> Callable[..., Any]:
    """`apply(rows, **mode)` in inference form; raises InputTypeError where the function takes more.

    A transformed function tells no signature, but Python names the arguments that it lacks.
    """

    def asked(params: Any, rows: Any) -> Any:
        try:
            return apply(params, rows)
        except TypeError as exc:
            lacks = re.findall(r"'(\w+)'", str(exc).partition("required positional")[2])
            mode = {one: INFERENCE[one] for one in lacks if one in INFERENCE}
            if not lacks:
                raise
            failure = exc
        if len(mode) == len(lacks):
            try:
                return apply(params, rows, **mode)
            except TypeError:  # then it was a layer within that lacked its mode
                raise failure from None
        first = "params, state, None" if stateful else "params, None"
        own = "".join(f", X['{one}']" for one in lacks if one not in mode)
        said = "".join(f", {name}={value}" for name, value in mode.items())
        raise InputTypeError(
            f"f= is a Haiku function that takes {', '.join(lacks)} beside rows. Where each row has "
            f"its own, give rows {{'x': ..., '{lacks[0]}': ...}}: as_model(lambda params, X: "
            f"transformed.apply({first}, X['x']{own}{said}){'[0]' if stateful else ''}, "
            "params=params)."
        ) from failure

    return asked
