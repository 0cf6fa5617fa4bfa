"""PyTorch modules, called on the host in inference mode."""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
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
    """A module written for a batch: a copy of it in `eval()`, under `torch.inference_mode`, on the
    device where its parameters are.
    """
    refuse_options("PyTorch", "auto", params, state)
    if backend == "jax":
        raise InputError("backend='jax' is not available for PyTorch modules; leave it out.")
    torch: Any = sys.modules["torch"]
    name = type(f).__name__
    refuse_missing(
        f.forward,
        1,
        f"the PyTorch module {name}",
        "a function that makes a tensor of rows, calls the module and returns an array, with "
        "backend='host'.",
    )
    module = copy.deepcopy(f).eval()
    mode = in_inference(f.forward)
    held = next((one for one in module.parameters() if one.is_floating_point()), torch.empty(0))

    def called(rows: Any) -> np.ndarray:
        given = torch.from_numpy(np.array(rows))  # a copy: PyTorch knows no read-only memory
        given = given.to(held.device, held.dtype if given.is_floating_point() else None)
        with torch.inference_mode():
            answers = module(given, **mode)
        return (
            answers.float().cpu().numpy() if answers.is_floating_point() else answers.cpu().numpy()
        )

    return module_source("a PyTorch module, called on the host", name, called, backend="host")
