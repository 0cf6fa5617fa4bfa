"""Reads plain functions: f(X) or f(params, X) traced by JAX, or any callable on the host.

The adapters of neural libraries share the inference form, the refused arguments and `ModelSource`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from xaijax.core.checks import leaves_of
from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.base.options import WORDS, came
from xaijax.models.base.source import ModelSource


def plain_function(f: Callable[..., Any], params: Any, backend: str) -> ModelSource:
    """Reads a batched function f(X), or f(params, X) if params are given, -> [R] or [R, K]."""
    name = function_name(f)
    if backend == "host":
        if params is not None:
            raise InputError(
                "params= and backend='host' do not go together. Say functools.partial(f, params)."
            )
        _check_arity(f, ("X",))
        return module_source("backend='host' was said", name, f, backend="host", network=False)
    if params is None:
        _check_arity(f, ("X",))
        reason = "a function, traced by JAX"
        return module_source(reason, name, lambda _, rows: f(rows), network=False)
    params = checked_params(params)
    _check_arity(f, ("params", "X"))
    reason, again = "a function of params and rows, traced by JAX", (f, params, None)
    return module_source(reason, name, f, params, again=again, network=False)


def function_name(f: Any) -> str:
    """The name of `f` for messages and for the repr."""
    while isinstance(f, functools.partial):
        f = f.func
    name = getattr(f, "__name__", None)
    return name if isinstance(name, str) else type(f).__name__


def checked_params(params: Any) -> Any:
    """Checks the pytree, and returns it with NumPy arrays as read-only copies.

    Raises InputTypeError if a leaf is neither an array nor a number.
    """
    leaves_of(params, "params=")  # refuses keys that cannot be sorted
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        array = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
        if not array and not isinstance(leaf, (bool, int, float, complex)):
            raise InputTypeError(
                f"params= must be a pytree of arrays and numbers; got {type(leaf).__name__} "
                f"{came(leaf)} at params{jax.tree_util.keystr(path)}. Close over what is no array."
            )
    return jax.tree.map(_copied, params)


def _copied(leaf: Any) -> Any:
    """A read-only copy of a NumPy array; other values are returned as they are."""
    if isinstance(leaf, np.ndarray):
        leaf = leaf.copy()
        leaf.flags.writeable = False
    return leaf


def on_one_device(params: Any) -> Any:
    """The pytree with replicated arrays taken from one device, without a copy.

    If an array is sharded, all arrays stay where they are.
    """
    leaves = [leaf for leaf in jax.tree.leaves(params) if isinstance(leaf, jax.Array)]
    if not all(leaf.sharding.is_fully_replicated for leaf in leaves):
        return params

    def held(leaf: Any) -> Any:
        whole = isinstance(leaf, jax.Array) and isinstance(leaf.sharding, NamedSharding)
        return leaf.addressable_data(0) if whole else leaf

    return jax.tree.map(held, params)


def _check_arity(f: Callable[..., Any], names: tuple[str, ...]) -> None:
    """Raises InputTypeError if f cannot be called with this number of positional arguments."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # builtins and compiled callables have no signature
        return
    try:
        signature.bind(*names)
    except TypeError as exc:
        wanted = ", ".join(names)
        remedy = (
            "To explain a function of parameters and rows, give params= to as_model."
            if names == ("X",)
            else "Leave params= out for a function of the rows alone."
        )
        raise InputTypeError(
            f"f= is called as f({wanted}), and {function_name(f)}{signature} does not accept "
            f"that: {exc}. {remedy}"
        ) from None


# Names of the mode in signatures of modules, and its value for inference.
INFERENCE = {
    "train": False,
    "training": False,
    "is_training": False,
    "inference": True,
    "deterministic": True,
    "use_running_average": True,
}


def in_inference(call: Callable[..., Any]) -> dict[str, bool]:
    """The keywords of `call` that set its mode, with their values for inference."""
    return {name: INFERENCE[name] for name in _parameters(call) if name in INFERENCE}


def missing(call: Callable[..., Any], first: int) -> list[str]:
    """Arguments without a default that `call` takes in addition to its first ones and its mode."""
    varied = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name
        for name, parameter in list(_parameters(call).items())[first:]
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in varied
        and name not in INFERENCE
    ]


def refuse_missing(call: Callable[..., Any], first: int, what: str, way: str) -> None:
    """Raises InputTypeError if `call` needs arguments besides rows.

    way: what to write instead, with {given} for the module's arguments.
    """
    more = missing(call, first)
    if more:
        rows = [*_parameters(call)][first - 1]
        container = "{" + ", ".join(f"'{name}': ..." for name in (rows, *more)) + "}"
        mode = [f"{name}={value}" for name, value in in_inference(call).items()]
        each = [f"X['{rows}']", *(f"{name}=X['{name}']" for name in more), *mode]
        shared = ["X", *(f"{name}={name}" for name in more), *mode]
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
    """Raises InputError for arguments that modules of the library do not take; way: how to set
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
    """The `ModelSource` of a function or a module: one head for all values of `output=`."""
    heads: dict[str, Any] = dict.fromkeys(WORDS, head)
    facts: dict[str, Any] = {"params": params, "again": again, "network": network}
    return ModelSource(backend, reason, name, heads, "value", "value", **facts)


def _parameters(call: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(call).parameters)
    except (TypeError, ValueError):  # compiled callables have no signature
        return {}
