"""Flax and Equinox modules, traced by JAX; found without importing a library that is not in use."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import jax

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.adapters.functions import checked_params
from xaijax.models.base.options import WORDS, came
from xaijax.models.base.source import Source


def is_flax(f: Any) -> bool:
    """Whether f is a Flax linen module, or a tuple that starts with one."""
    linen = sys.modules.get("flax.linen")
    first = f[0] if isinstance(f, tuple) and f else f
    return linen is not None and isinstance(first, linen.Module)


def flax_module(f: Any, params: Any, backend: str) -> Source:
    """(module, variables) of Flax linen: module.apply(variables, X), written for a batch."""
    _refuse(params, backend, "Flax")
    if not (isinstance(f, tuple) and len(f) == 2):
        raise InputTypeError(
            "f= for Flax must be the pair (module, variables), variables as module.init returned "
            f"them; got {came(f)}."
        )
    module, variables = f
    if not hasattr(variables, "keys"):
        raise InputTypeError(
            f"f= for Flax must be (module, variables) with variables a dict of collections such as "
            f"{{'params': ...}}; got {type(variables).__name__}."
        )
    if not any(name in variables for name in ("params", "batch_stats")) and len(variables):
        raise InputError(
            f"f= for Flax must hold the whole variables, {{'params': ...}}; got the collections "
            f"{came(list(variables))}. Pass (module, {{'params': params}})."
        )
    variables = checked_params(variables)
    return _source(
        "a Flax module, traced by JAX",
        type(module).__name__,
        lambda variables, rows: module.apply(variables, rows),
        variables,
    )


def is_equinox(f: Any) -> bool:
    """Whether f is a callable Equinox module, or one with its state; its jit and vmap wrappers are
    plain functions.
    """
    equinox = sys.modules.get("equinox")
    if equinox is not None and isinstance(f, tuple) and len(f) == 2:
        return isinstance(f[1], equinox.nn.State)
    if equinox is None or not isinstance(f, equinox.Module) or not callable(f):
        return False
    # filter_jit(f), filter_vmap(f) and the like are modules too, but take what f takes: a batch.
    return not type(f).__module__.startswith("equinox._")


def equinox_module(f: Any, params: Any, backend: str) -> Source:
    """A callable Equinox module, written for one instance: mapped over rows, in inference mode.

    Its params are `equinox.filter(module, equinox.is_array)`.
    """
    _refuse(params, backend, "Equinox")
    import equinox  # noqa: PLC0415

    _refuse_more_than_rows(f)
    module = equinox.nn.inference_mode(f)
    arrays, static = equinox.partition(module, equinox.is_array)

    def batched(params: Any, rows: Any) -> Any:
        return jax.vmap(equinox.combine(params, static))(rows)

    return _source(
        "an Equinox module, mapped over rows and traced by JAX", type(f).__name__, batched, arrays
    )


def _holds_state(module: Any) -> bool:
    """Whether a layer of Equinox's own in it needs a state, which its signature does not show."""
    layer = sys.modules["equinox"].nn.StatefulLayer
    leaves = jax.tree.leaves(module, is_leaf=lambda part: isinstance(part, layer))
    return any(isinstance(leaf, layer) and leaf.is_stateful() for leaf in leaves)


def _refuse_more_than_rows(f: Any) -> None:
    """Raise InputTypeError for an Equinox module that must be given a state, a key or the like."""
    if isinstance(f, tuple):
        name, more = type(f[0]).__name__, ["state"]
    else:
        name, taken = type(f).__name__, list(inspect.signature(f).parameters.values())
        varied = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        more = [
            one.name
            for one in taken[1:]
            if one.default is inspect.Parameter.empty and one.kind not in varied
        ]
        more = more or (["state"] if _holds_state(f) else [])
    if not more:
        return
    given = ", ".join(more)
    if more == ["state"]:
        way = (
            "Give the state as params, in inference mode: net = equinox.nn.inference_mode(module); "
            "as_model(lambda state, X: jax.vmap(lambda x: net(x, state)[0])(X), params=state)."
        )
    else:
        way = (
            f"Close over {'it' if len(more) == 1 else 'them'}: as_model(lambda X: "
            f"jax.vmap(lambda x: module(x, {given}))(X))."
        )
    raise InputTypeError(
        f"f= is the Equinox module {name}, which takes {given} beside a row, and as_model maps "
        f"f(x) over rows. {way}"
    )


def refuse_unsupported(f: Any) -> None:
    """Raise InputTypeError for modules of libraries that have no adapter, with the way around."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(f, nnx.Module):
        raise InputTypeError(
            "f= is a flax.nnx module, which has no adapter yet; accepted are Flax linen (module, "
            "variables) pairs, Equinox modules and functions. Split it: graphdef, state = "
            "nnx.split(module); as_model(lambda state, X: nnx.merge(graphdef, state)(X), "
            "params=state)."
        )
    for library, root in (("PyTorch", "torch.nn"), ("Keras", "keras")):
        module = sys.modules.get(root)
        kind = getattr(module, "Module" if library == "PyTorch" else "Model", None)
        if kind is not None and isinstance(f, kind):
            raise InputTypeError(
                f"f= is a {library} model, which has no adapter yet. Wrap it in a function from "
                f"an array to an array and say backend='host'."
            )


def _refuse(params: Any, backend: str, library: str) -> None:
    if params is not None:
        raise InputError(
            f"params= goes with functions f(params, X); a {library} module brings its own. Leave "
            f"it out; model.replace(params=...) sets new ones."
        )
    if backend == "host":
        raise InputError(
            f"backend='host' is not accepted for {library} modules, which JAX traces. Say "
            f"backend='auto' or 'jax'."
        )


def _source(reason: str, name: str, head: Any, params: Any) -> Source:
    return Source(
        backend="jax",
        reason=reason,
        name=name,
        heads=dict.fromkeys(WORDS, head),
        default="value",
        columns="value",
        params=params,
    )
