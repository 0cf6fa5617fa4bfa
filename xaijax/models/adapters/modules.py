"""What the adapters of neural libraries share: inference form, refused arguments, `ModelSource`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.base.options import WORDS
from xaijax.models.base.source import ModelSource

# What a module's own signature may call its mode, and what it is when the module is not trained.
INFERENCE = {
    "train": False,
    "training": False,
    "is_training": False,
    "inference": True,
    "deterministic": True,
    "use_running_average": True,
}


def in_inference(call: Callable[..., Any]) -> dict[str, bool]:
    """The keywords of `call` that say its mode, set to inference."""
    return {name: INFERENCE[name] for name in _parameters(call) if name in INFERENCE}


def missing(call: Callable[..., Any], first: int) -> list[str]:
    """Arguments without a default that `call` takes in addition to its first ones and its mode."""
    varied = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name
        for name, one in list(_parameters(call).items())[first:]
        if one.default is inspect.Parameter.empty
        and one.kind not in varied
        and name not in INFERENCE
    ]


def refuse_missing(call: Callable[..., Any], first: int, what: str, way: str) -> None:
    """Raises InputTypeError if `call` must be given more than rows.

    way: what to write, with {given} for the arguments that the module gets.
    """
    more = missing(call, first)
    if more:
        rows = [*_parameters(call)][first - 1]
        container = "{" + ", ".join(f"'{one}': ..." for one in (rows, *more)) + "}"
        mode = [f"{name}={value}" for name, value in in_inference(call).items()]
        each = [f"X['{rows}']", *(f"{one}=X['{one}']" for one in more), *mode]
        shared = ["X", *(f"{one}={one}" for one in more), *mode]
        raise InputTypeError(
            f"f= is {what}, which takes {', '.join(more)} besides rows. If each row has its own, "
            f"give rows {container}: {way.format(given=', '.join(each))}. What is the same for all "
            f"rows goes into a function of them: {way.format(given=', '.join(shared))}."
        )


def refuse_options(
    library: str,
    backend: str,
    params: Any = None,
    state: Any = None,
    way: str = "model.replace(params=...) sets new ones",
) -> None:
    """Raises InputError for arguments that a module of the library does not take; way: to set its
    parameters.
    """
    for name, value in (("params", params), ("state", state)):
        if value is not None:
            raise InputError(
                f"{name}= is not accepted for a {library} module, which has its own; {way}."
            )
    if backend == "host":
        raise InputError(
            f"backend='host' is not accepted for {library} modules: JAX traces them. Leave it out."
        )


def module_source(
    reason: str,
    name: str,
    head: Callable[..., Any],
    params: Any = None,
    backend: str = "jax",
    again: Any = None,
    network: bool = True,
) -> ModelSource:
    """The `ModelSource` of a function or a module: one head for all words of `output=`."""
    heads: dict[str, Any] = dict.fromkeys(WORDS, head)
    facts: dict[str, Any] = {"params": params, "again": again, "network": network}
    return ModelSource(backend, reason, name, heads, "value", "value", **facts)


def _parameters(call: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(call).parameters)
    except (TypeError, ValueError):  # compiled callables tell no signature
        return {}
