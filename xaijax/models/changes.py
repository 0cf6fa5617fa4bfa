"""What `Model.replace` takes: each option checked as `as_model` checks it."""

from __future__ import annotations

from typing import Any, Protocol

import jax

from xaijax.core.errors import InputError
from xaijax.models.adapters.functions import checked_params, on_one_device
from xaijax.models.base import options


class Changed(Protocol):
    """What is asked of the model."""

    @property
    def loop(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def params(self) -> Any: ...
    @property
    def original(self) -> Any: ...  # the estimator on the host that it translates, or None


def checked_change(model: Changed, name: str, value: Any) -> Any:
    """The value of one option, as the model keeps it; raises InputError, InputTypeError."""
    if name in ("feature_names", "output_names"):
        return options.check_names(name, value)
    if name == "nonfinite":
        return options.check_choice(name, value, options.NONFINITE)
    if name in ("max_rows", "timeout"):
        if model.loop == "jax" and value is not None:
            raise InputError(f"{name}= is for host models; {model.name} is traced by JAX.")
        check = options.check_max_rows if name == "max_rows" else options.check_timeout
        return check(value)
    if name == "params":
        return _checked_params(model, value)
    value = options.check_flag(name, value)
    if name == "thread_safe" and value and model.loop == "jax" and model.original is None:
        raise InputError(f"{name}= is for host models; {model.name} is traced by JAX.")
    return value


def _checked_params(model: Changed, params: Any) -> Any:
    if model.params is None:
        raise InputError(
            f"params= cannot be replaced: {model.name} was made without. Make the model anew "
            f"with as_model(f, params=...)."
        )
    params = on_one_device(checked_params(params))
    old, new = (jax.eval_shape(lambda tree: tree, tree) for tree in (model.params, params))
    if jax.tree.structure(old) != jax.tree.structure(new):
        raise InputError(
            "params= must have the structure of the model's own (for an Equinox module: "
            "equinox.filter(module, equinox.is_array)); got another. Make a new model with "
            "as_model."
        )
    leaves = zip(jax.tree_util.tree_leaves_with_path(old), jax.tree.leaves(new), strict=True)
    for (path, was), now in leaves:
        if (was.shape, was.dtype) != (now.shape, now.dtype):
            raise InputError(
                f"params= must keep shapes and dtypes; got {now.dtype}{list(now.shape)} in "
                f"place of {was.dtype}{list(was.shape)} at params"
                f"{jax.tree_util.keystr(path)}. Make a new model with as_model."
            )
    return params
