"""Reads Keras 3 models: traced by JAX if JAX is Keras's backend, otherwise called on the host."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.adapters.functions import module_source, refuse_options
from xaijax.models.base.source import ModelSource


def keras_model(f: Any, params: Any, state: Any, backend: str) -> ModelSource:
    """Reads a built Keras model in inference mode; its variables are not changed. A model of
    several inputs takes a dict of rows by name, or a list in the inputs' order.

    Its params are {"trainable": [...], "fixed": [...]}, the values of its variables in order.
    """
    refuse_options("Keras", "auto", params, state)
    keras: Any = sys.modules["keras"]
    name = type(f).__name__
    if not f.built:
        raise InputError(
            f"f= is the Keras model {name} without variables. Call it once on a few rows before "
            "as_model."
        )
    if len(heads := list(getattr(f, "outputs", None) or [])) > 1:
        shapes = ", ".join(str(tuple(output.shape)) for output in heads)
        raise InputError(
            f"f= is the Keras model {name} with {len(heads)} outputs, of shapes {shapes}. Choose "
            f"one of them, 0 to {len(heads) - 1}: as_model(keras.Model(m.inputs, m.outputs[1]))."
        )
    used = keras.backend.backend()
    if used != "jax" or backend == "host":
        if backend == "jax":
            raise InputError(
                f"backend='jax' is not available for {name}: Keras runs on {used} here. Set "
                "KERAS_BACKEND=jax before keras is imported."
            )
        reason = "backend='host' was said"
        if used != "jax":
            reason = f"Keras runs on {used}; with KERAS_BACKEND=jax it is traced"

        def called(rows: Any) -> np.ndarray:
            _refuse_other_rows(f, rows)
            return keras.ops.convert_to_numpy(f(jax.tree.map(_narrow, rows), training=False))

        return module_source(reason, name, called, backend="host")

    def head(params: Any, rows: Any) -> Any:
        _refuse_other_rows(f, rows)
        return f.stateless_call(params["trainable"], params["fixed"], rows, training=False)[0]

    values = {
        "trainable": [variable.value for variable in f.trainable_variables],
        "fixed": [variable.value for variable in f.non_trainable_variables],
    }
    return module_source("a Keras model, traced by JAX", name, head, values)


def _narrow(leaf: Any) -> np.ndarray:
    """Floats as float32, Keras's own dtype; integers and bools as they are."""
    array = np.asarray(leaf)
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _refuse_other_rows(f: Any, rows: Any) -> None:
    """Raises InputTypeError if rows do not match the declared inputs of a model."""
    inputs = getattr(f, "inputs", None) or [None]
    made_of = getattr(f, "_inputs_struct", None)  # a dict with the model's own names
    names = [getattr(tensor, "name", "rows") for tensor in inputs]
    names = list(made_of) if isinstance(made_of, Mapping) else names
    count = len(jax.tree.leaves(rows))
    # Keras reads the arrays of a dict in the order of their sorted names.
    if len(inputs) != count or (isinstance(rows, Mapping) and set(rows) != set(names)):
        came = sorted(map(str, rows)) if isinstance(rows, Mapping) else count
        raise InputTypeError(
            f"the Keras model {type(f).__name__} takes {len(inputs)} arrays, but rows have {came}. "
            f"Give X and the background as a dict of the inputs {names}, or a list in this order."
        )
