"""Reads ONNX files, which onnxruntime runs on the host."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.models.adapters.functions import module_source, refuse_options
from xaijax.models.base.options import WORDS
from xaijax.models.base.source import ModelSource

DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}


def is_onnx(f: Any) -> bool:
    """Whether f names an ONNX file."""
    return isinstance(f, (str, os.PathLike)) and str(f).endswith(".onnx")


def onnx_file(f: Any, params: Any, state: Any, backend: str) -> ModelSource:
    """Reads a file whose inputs have any number of rows as first axis. If it returns labels and
    probabilities, "proba" is the default.

    Raises ImportError if onnxruntime is not installed, InputError for a file that it cannot read or
    that has other inputs or outputs.
    """
    refuse_options("ONNX", "auto", params, state, "its numbers are in the file")
    if backend == "jax":
        raise InputError("backend='jax' is not available for ONNX files, which onnxruntime runs.")
    path = Path(f)
    if not path.exists():
        raise FileNotFoundError(f"f={str(path)!r}: there is no such file.")
    runtime: Any = require("onnxruntime", "xaijax[onnx]")
    try:
        session = runtime.InferenceSession(str(path), providers=runtime.get_available_providers())
    except Exception as exc:
        raise InputError(
            f"f={str(path)!r} is no ONNX file that onnxruntime can run: {exc}"
        ) from exc
    heads, default = _heads(session, _inputs(session, path), path)
    source = module_source(
        "an ONNX file, run by onnxruntime",
        path.name,
        heads[default],
        backend="host",
        again=(SameFile(path.resolve()), None, None),
    )
    return dataclasses.replace(source, heads=heads, default=default, columns=default)


class SameFile:
    """A file's path, pickled with the file's digest, so that the same file must be opened."""

    def __init__(self, path: Path) -> None:
        self.path, self.digest = path, _digest(path)

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def __reduce__(self) -> Any:
        return _found_again, (str(self.path), self.digest)


def _found_again(path: str, digest: str) -> str:
    if not Path(path).is_file():
        raise InputError(f"f={path!r} is not here: an ONNX file travels by its path alone.")
    if _digest(Path(path)) != digest:
        raise InputError(f"f={path!r} is another file here than where the model was made.")
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _inputs(session: Any, path: Path) -> dict[str, Any]:
    """The dtype of each input, by its name."""
    for arg in session.get_inputs():
        if arg.type not in DTYPES:
            raise InputTypeError(
                f"f={path.name!r} takes {arg.type} as {arg.name!r}; accepted: {', '.join(DTYPES)}."
            )
        if arg.shape and isinstance(arg.shape[0], int):
            raise InputError(
                f"f={path.name!r} takes batches of {arg.shape[0]} rows only. Export it with a "
                "first axis of any length (dynamic_axes or dynamic_shapes of the exporter)."
            )
    return {arg.name: DTYPES[arg.type] for arg in session.get_inputs()}


def _feeds(rows: Any, inputs: dict[str, Any], path: Path) -> dict[str, np.ndarray]:
    """Inputs of the session, by name; rows: one array, a dict by name, or a list in order."""
    leaves = jax.tree.leaves(rows)
    arrays = rows if isinstance(rows, Mapping) else dict(zip(inputs, leaves, strict=False))
    if set(arrays) != set(inputs) or len(leaves) != len(inputs):
        came = sorted(map(str, rows)) if isinstance(rows, Mapping) else len(leaves)
        raise InputTypeError(
            f"f={path.name!r} takes the arrays {list(inputs)}, but rows have {came}. Give X and "
            "the background as a dict of these names, or as a list in this order."
        )
    return {name: np.asarray(arrays[name], dtype) for name, dtype in inputs.items()}


def _heads(
    session: Any, inputs: dict[str, Any], path: Path
) -> tuple[dict[str, Callable[[Any], Any]], str]:
    """Outputs that each word of `output=` selects, and the default."""
    outputs = session.get_outputs()

    def output(name: str) -> Callable[[Any], Any]:
        return lambda rows: session.run([name], _feeds(rows, inputs, path))[0]

    if len(outputs) == 1:
        return dict.fromkeys(WORDS, output(outputs[0].name)), "value"
    numbers = [arg for arg in outputs if arg.type in DTYPES]
    if len(outputs) == 2 and len(numbers) == 2 and len(numbers[1].shape or ()) == 2:
        return {"label": output(outputs[0].name), "proba": output(outputs[1].name)}, "proba"
    shown = [f"{arg.name}: {arg.type}" for arg in outputs]
    raise InputTypeError(
        f"f={path.name!r} has the outputs {shown}; accepted are one array, or a label and an array "
        f"of chances (export a scikit-learn classifier with options={{'zipmap': False}})."
    )
