"""Keras 3: traced by JAX where JAX is its backend, else called on the host."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.adapters.modules import module_source, refuse_options
from xaijax.models.base.source import Source


def is_keras(f: Any) -> bool:
    """Whether f is a Keras model."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(f, keras.Model)


def keras_model(f: Any, params: Any, state: Any, backend: str) -> Source:
    """A built Keras model of one input, in inference mode; its variables are not touched.

    Its params are {"trainable": [...], "fixed": [...]}, the values of its variables in its order.
    """
    refuse_options("Keras", "auto", params, state)
    keras: Any = sys.modules["keras"]
    name = type(f).__name__
    if not f.built:
        raise InputError(
            f"f= is the Keras model {name}, which has no variables yet. Call it once on a few rows "
            f"before as_model."
        )
    if len(getattr(f, "inputs", None) or [None]) > 1:
        raise InputTypeError(
            f"f= is the Keras model {name} of {len(f.inputs)} inputs, and rows are one array. "
            f"Write a function of one array that splits it and calls the model."
        )
    used = keras.backend.backend()
    if used != "jax" or backend == "host":
        if backend == "jax":
            raise InputError(
                f"backend='jax' is not available for {name}: Keras runs on {used} here. Set "
                f"KERAS_BACKEND=jax before keras is imported."
            )
        reason = "backend='host' was said"
        if used != "jax":
            reason = f"Keras runs on {used}; with KERAS_BACKEND=jax it is traced"

        def called(rows: Any) -> np.ndarray:
            return keras.ops.convert_to_numpy(f(np.asarray(rows, np.float32), training=False))

        return module_source(reason, name, called, backend="host")

    def head(params: Any, rows: Any) -> Any:
        return f.stateless_call(params["trainable"], params["fixed"], rows, training=False)[0]

    values = {
        "trainable": [one.value for one in f.trainable_variables],
        "fixed": [one.value for one in f.non_trainable_variables],
    }
    return module_source("a Keras model, traced by JAX", name, head, values)
