"""Reads Equinox modules, which take one instance: maps them over rows, in inference mode."""

from __future__ import annotations

import sys
from typing import Any

import jax

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.adapters.functions import missing, module_source, refuse_options
from xaijax.models.base.source import ModelSource


def is_equinox(f: Any) -> bool:
    """Whether f is a callable Equinox module, or one with its state; its jit and vmap wrappers are
    plain functions.
    """
    equinox = sys.modules.get("equinox")
    if equinox is not None and isinstance(f, tuple) and len(f) == 2:
        return isinstance(f[1], equinox.nn.State)
    if equinox is None or not isinstance(f, equinox.Module) or not callable(f):
        return False
    # filter_jit(f), filter_vmap(f) and similar wrappers are modules too, but take a batch as f
    # does.
    return not type(f).__module__.startswith("equinox._")


def equinox_module(f: Any, params: Any, state: Any, backend: str) -> ModelSource:
    """Reads a callable Equinox module, or (module, state) from `eqx.nn.make_with_state`.

    Its params are `equinox.filter(module, equinox.is_array)`; with a state, (these, the state).
    """
    import equinox  # noqa: PLC0415

    if isinstance(f, tuple):
        if state is not None:
            raise InputError("state= was given twice: in f=(module, state) and as state=.")
        f, state = f
    if isinstance(params, equinox.nn.State):
        params, state = None, params
    refuse_options("Equinox", backend, params)
    takes_state = _takes_state(f)
    name = type(f).__name__
    if takes_state and state is None:
        raise InputTypeError(
            f"f= is the Equinox module {name}, which takes state besides a row. Pass both: module, "
            f"state = equinox.nn.make_with_state({name})(...); as_model(module, state=state)."
        )
    if state is not None and not takes_state:
        raise InputError(
            f"state= is for Equinox modules that take one; {name} does not. Leave it out."
        )
    more = [argument for argument in missing(f, 1) if argument != "state"]
    if more:
        leaves = ", ".join(f"'{argument}': ..." for argument in more)
        named = ", ".join(f"X['{argument}']" for argument in more)
        raise InputTypeError(
            f"f= is the Equinox module {name}, which takes {', '.join(more)} besides a row; "
            "as_model maps f(x) over rows. If each row has its own, give rows "
            f"{{'x': ..., {leaves}}}: as_model(lambda X: jax.vmap(module)(X['x'], {named})). What "
            "is the same for all rows goes into a function of them: as_model(lambda X: "
            f"jax.vmap(lambda x: module(x, {', '.join(more)}))(X))."
        )
    module = equinox.nn.inference_mode(f)
    arrays, static = equinox.partition(module, equinox.is_array)

    def alone(arrays: Any, rows: Any) -> Any:
        return jax.vmap(equinox.combine(arrays, static))(rows)

    def with_state(params: Any, rows: Any) -> Any:
        module = equinox.combine(params[0], static)
        # Each row starts from the same state, and its writes are dropped.
        return jax.vmap(lambda x: module(x, params[1])[0])(rows)

    return module_source(
        "an Equinox module, mapped over rows and traced by JAX",
        name,
        alone if state is None else with_state,
        arrays if state is None else (arrays, state),
        again=(module, None, state),
    )


def _takes_state(f: Any) -> bool:
    """Whether it needs a state, by its signature or because it contains a stateful Equinox
    layer.
    """
    needed = missing(f, 1)
    return "state" in needed if needed else _holds_state(f)


def _holds_state(module: Any) -> bool:
    """Whether it contains an Equinox layer that needs a state."""
    layer = sys.modules["equinox"].nn.StatefulLayer
    leaves = jax.tree.leaves(module, is_leaf=lambda part: isinstance(part, layer))
    return any(isinstance(leaf, layer) and leaf.is_stateful() for leaf in leaves)
