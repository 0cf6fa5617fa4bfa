"""Plain functions: f(X) or f(params, X) traced by JAX, or any callable run on the host."""

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
from xaijax.models.adapters.modules import module_source
from xaijax.models.base.options import came
from xaijax.models.base.source import ModelSource
from xaijax.models.queries.host import read_only


def plain_function(f: Callable[..., Any], params: Any, backend: str) -> ModelSource:
    """A batched function: f(X), or f(params, X) where params are given, -> [R] or [R, K]."""
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
    """What to call `f` in messages and in the repr."""
    while isinstance(f, functools.partial):
        f = f.func
    name = getattr(f, "__name__", None)
    return name if isinstance(name, str) else type(f).__name__


def checked_params(params: Any) -> Any:
    """The pytree, its NumPy arrays as read-only copies: a model keeps the numbers it was given.

    Raises InputTypeError if a leaf is neither an array nor a number.
    """
    leaves_of(params, "params=")  # refuses keys that do not sort
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        array = hasattr(leaf, "shape") and hasattr(leaf, "dtype")
        if not array and not isinstance(leaf, (bool, int, float, complex)):
            raise InputTypeError(
                f"params= must be a pytree of arrays and numbers; got {type(leaf).__name__} "
                f"{came(leaf)} at params{jax.tree_util.keystr(path)}. Close over what is no array."
            )
    return jax.tree.map(
        lambda leaf: read_only(leaf.copy()) if isinstance(leaf, np.ndarray) else leaf, params
    )


def on_one_device(params: Any) -> Any:
    """The pytree with arrays that several devices hold whole taken from one of them, uncopied.

    An array that is sharded stays where it is, and so do all others with it.
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
    except (TypeError, ValueError):  # builtins and compiled callables tell no signature
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
