"""PyTorch modules: called on the host in inference mode, or traced by JAX through torchax."""

from __future__ import annotations

import copy
import dataclasses
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

import jax
import numpy as np

from xaijax.core.errors import InputError, ModelOutputError
from xaijax.core.optional import require
from xaijax.models.adapters.functions import (
    in_inference,
    module_source,
    refuse_missing,
    refuse_options,
)
from xaijax.models.base.source import ModelSource

FEW = 8  # rows by which the widths of layers are found


def torch_module(f: Any, params: Any, state: Any, backend: str) -> ModelSource:
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
    keywords = _keywords(f)
    held = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(0))

    def tensor(leaf: Any) -> Any:
        copied = torch.from_numpy(np.array(leaf))  # a copy: PyTorch knows no read-only memory
        return copied.to(held.device, held.dtype if copied.is_floating_point() else None)

    def called(rows: Any) -> np.ndarray:
        inputs = jax.tree.map(tensor, rows)
        with torch.inference_mode():
            if isinstance(inputs, Mapping) and keywords(inputs):
                answers = module(**inputs, **mode)
            else:
                answers = module(inputs, **mode)
        answers = logits_of(answers, torch.Tensor, name)
        answers = answers.float() if answers.is_floating_point() else answers
        return answers.cpu().numpy()

    def widest(rows: Any) -> int:
        """Numbers of a row in the widest layer's output."""
        few = jax.tree.map(lambda leaf: leaf[:FEW], rows)
        sizes = [0]

        def note(layer: Any, inputs: Any, made: Any) -> None:
            sizes.extend(leaf.numel() for leaf in jax.tree.leaves(made) if torch.is_tensor(leaf))

        hooks = [layer.register_forward_hook(note) for layer in module.modules()]
        try:
            called(few)
        finally:
            for hook in hooks:
                hook.remove()
        return max(sizes) // len(jax.tree.leaves(few)[0])

    cast(Any, called).widest = widest  # read by the probe
    if backend == "jax":
        return _traced(module, mode, called, name)
    reason = "a PyTorch module, called on the host"
    if importlib.util.find_spec("torchax") is not None:
        reason += "; backend='jax' traces it by torchax"
    return module_source(reason, name, called, backend="host", again=(module, None, None))


def _keywords(f: Any) -> Callable[[Mapping[Any, Any]], bool]:
    """Returns which rows in a dict are inputs by their names: a Hugging Face module's, and those of
    all modules that take several inputs, each by the name of its key.
    """
    hugging = sys.modules.get("transformers")
    if hugging is not None and isinstance(f, getattr(hugging, "PreTrainedModel", ())):
        return lambda rows: True
    kinds = inspect.signature(f.forward).parameters
    if any(kind.kind is inspect.Parameter.VAR_KEYWORD for kind in kinds.values()):
        return lambda rows: all(isinstance(key, str) for key in rows)
    return lambda rows: len(kinds) > 1 and set(rows) <= set(kinds)


def logits_of(answers: Any, kind: type, name: str) -> Any:
    """The tensor that a module answers with: its own, or the logits of several."""
    if isinstance(answers, kind):
        return answers
    logits = getattr(answers, "logits", None)
    if logits is None and isinstance(answers, Mapping):
        logits = answers.get("logits")
    if isinstance(logits, kind):
        return logits
    fields = f" with {', '.join(map(str, answers))}" if isinstance(answers, Mapping) else ""
    raise ModelOutputError(
        f"{name} answers with a {type(answers).__name__}{fields}, which has no logits. Pass a "
        "torch.nn.Module whose forward returns one tensor, [R] or [R, K]."
    )


def _traced(module: Any, mode: dict[str, bool], called: Any, name: str) -> ModelSource:
    """The module as torchax gives it to JAX; raises InputError if torchax cannot be used."""
    try:
        torchax = require("torchax", "torchax")
    except Exception as reason:  # a torchax that is too old for this PyTorch raises what it meets
        raise InputError(
            f"backend='jax' is not available for the PyTorch module {name}: torchax cannot be "
            f"imported ({type(reason).__name__}: {reason}). Install one that fits this PyTorch, or "
            "leave backend= out: the module then runs on the host."
        ) from reason
    values, function = torchax.extract_jax(module.cpu())

    def head(params: Any, rows: Any) -> Any:
        return function(params, (rows,), mode)

    source = module_source("a PyTorch module, traced by JAX through torchax", name, head, values)
    return dataclasses.replace(source, original=called, again=(module, None, None))
