"""PyTorch modules: called on the host in inference mode, or traced by JAX through torchax."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import sys
from typing import Any

import jax
import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.models.adapters.modules import (
    in_inference,
    module_source,
    refuse_missing,
    refuse_options,
)
from xaijax.models.base.source import Source


def is_torch(f: Any) -> bool:
    """Whether f is a PyTorch module."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(f, torch.nn.Module)


def torch_module(f: Any, params: Any, state: Any, backend: str) -> Source:
    """A module written for a batch: a copy of it in `eval()`.

    On the host it runs under `torch.inference_mode`, on the device where its parameters are. With
    backend="jax" torchax turns it into a function that JAX traces, and the module's own answers
    are what that one is compared with.
    """
    way = "module.load_state_dict(...) before as_model sets others"
    refuse_options("PyTorch", "auto", params, state, way)
    torch: Any = sys.modules["torch"]
    name = type(f).__name__
    refuse_missing(
        f.forward,
        1,
        f"the PyTorch module {name}",
        "a torch.nn.Module whose forward(self, X) returns self.module({given})",
    )
    module = copy.deepcopy(f).eval()
    mode = in_inference(f.forward)
    held = next((one for one in module.parameters() if one.is_floating_point()), torch.empty(0))

    def tensor(leaf: Any) -> Any:
        given = torch.from_numpy(np.array(leaf))  # a copy: PyTorch knows no read-only memory
        return given.to(held.device, held.dtype if given.is_floating_point() else None)

    def called(rows: Any) -> np.ndarray:
        with torch.inference_mode():
            answers = module(jax.tree.map(tensor, rows), **mode)
        return (
            answers.float().cpu().numpy() if answers.is_floating_point() else answers.cpu().numpy()
        )

    if backend == "jax":
        return _traced(module, mode, called, name)
    reason = "a PyTorch module, called on the host"
    if importlib.util.find_spec("torchax") is not None:
        reason += "; backend='jax' traces it by torchax"
    return module_source(reason, name, called, backend="host", again=(module, None, None))


def _traced(module: Any, mode: dict[str, bool], called: Any, name: str) -> Source:
    """The module as torchax gives it to JAX; raises InputError where torchax cannot be used."""
    try:
        torchax = require("torchax", "torchax")
    except Exception as reason:  # a torchax that is too old for this PyTorch raises what it meets
        raise InputError(
            f"backend='jax' is not available for the PyTorch module {name}: torchax, which gives "
            f"it to JAX, cannot be imported here ({type(reason).__name__}: {reason}). Install "
            "a torchax that fits this PyTorch, or leave backend= out: the module then runs on "
            "the host."
        ) from reason
    values, function = torchax.extract_jax(module.cpu())

    def head(params: Any, rows: Any) -> Any:
        return function(params, (rows,), mode)

    source = module_source("a PyTorch module, traced by JAX through torchax", name, head, values)
    return dataclasses.replace(source, own=called, again=(module, None, None))
