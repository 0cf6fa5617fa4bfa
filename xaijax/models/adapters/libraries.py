"""Which adapter reads a model: the most particular is asked first."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from xaijax.core.errors import InputTypeError
from xaijax.models.adapters.equinox import equinox_module, is_equinox
from xaijax.models.adapters.flax import is_linen, linen_module, nnx_module
from xaijax.models.adapters.functions import plain_function
from xaijax.models.adapters.haiku import haiku_function
from xaijax.models.adapters.keras import keras_model
from xaijax.models.adapters.onnx import is_onnx, onnx_file
from xaijax.models.adapters.sklearn import estimator, estimator_method, is_estimator, owner_of
from xaijax.models.adapters.torch import torch_module
from xaijax.models.base.options import came
from xaijax.models.base.source import ModelSource


def is_of(f: Any, module: str, *kinds: str) -> bool:
    """Whether f is of a library's classes with these names; the library is not loaded for it."""
    library = sys.modules.get(module)
    return library is not None and isinstance(f, tuple(getattr(library, kind) for kind in kinds))


Adapter = tuple[Callable[[Any], bool], Callable[[Any, Any, Any, str], ModelSource]]

# (whether f is of this library, without importing it; what reads f, params=, state=, backend=)
ADAPTERS: list[Adapter] = [
    (is_onnx, onnx_file),
    (is_linen, linen_module),
    (lambda f: is_of(f, "flax.nnx", "Module"), nnx_module),
    (lambda f: is_of(f, "haiku", "Transformed", "TransformedWithState"), haiku_function),
    (is_equinox, equinox_module),
    (lambda f: is_of(f, "keras", "Model"), keras_model),
    (lambda f: is_of(f, "torch.nn", "Module"), torch_module),
]


def source(f: Any, params: Any, state: Any, backend: str) -> ModelSource:
    """What its adapter finds out about f.

    Raises InputError and InputTypeError for a model that none of them takes.
    """
    if isinstance(f, FunctionType) and state is None:  # which no adapter of a library takes
        return plain_function(f, params, backend)
    owner = getattr(f, "__self__", None)
    if is_of(owner, "keras", "Model") and getattr(f, "__name__", None) == "predict":
        f = owner  # the same answers, in one call for all rows and traced where Keras runs on JAX
    for takes, read in ADAPTERS:
        if takes(f):
            return read(f, params, state, backend)
    if state is not None:
        raise InputTypeError("state= goes with Equinox modules and Haiku functions. Leave it out.")
    if isinstance(f, type):
        raise InputTypeError(
            f"f= must be an instance of a model; got the class {f.__name__}. Pass an instance."
        )
    if is_estimator(f):
        return estimator(f, params, backend)
    if (owner := owner_of(f)) is not None:
        return estimator_method(f, owner, params, backend)
    if not callable(f):
        raise InputTypeError(
            f"f= must be a Model of xaijax.as_model, a function of rows, a fitted estimator or its "
            f"method, a module of Flax, Equinox, Haiku, Keras or PyTorch, or the path of an ONNX "
            f"file; got {type(f).__name__} {came(f)}."
        )
    return plain_function(f, params, backend)
