"""The command `xaijax doctor`: what is installed, and one explanation that is known."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from xaijax.commands.options import command_of
from xaijax.core.errors import XaiError
from xaijax.core.version import __version__
from xaijax.methods.explainer.explainer import Explainer
from xaijax.models import as_model

ABOUT = "tell versions, devices, extras and caches, and check one explanation that is known"
EXAMPLE = """\
    xaijax doctor"""
CORE = ("jax", "jaxlib", "numpy", "scikit-learn", "optax", "tqdm")
EXTRAS = {
    "plots": ("matplotlib", "jinja2"),
    "data": ("pandas", "pooch"),
    "adapters": ("flax", "equinox", "dm-haiku", "keras"),
    "onnx": ("onnxruntime",),
    "privacy": ("opendp",),
    "federated": ("grpcio", "protobuf"),
    "scale": ("cloudpickle", "pyarrow", "dask", "distributed", "zarr"),
    "notebooks": ("nbclient", "ipykernel"),
}
VARIABLES = (
    "XAIJAX_DATA",
    "XAIJAX_MEMORY_LIMIT",
    "JAX_PLATFORMS",
    "JAX_ENABLE_X64",
    "JAX_COMPILATION_CACHE_DIR",
    "XLA_FLAGS",
    "CUDA_VISIBLE_DEVICES",
)


def add_doctor(commands: Any) -> None:
    """Put the command under `xaijax`."""
    command_of(commands, "doctor", ABOUT, EXAMPLE, run)


def run(arguments: argparse.Namespace) -> None:
    """Print what is found; raises XaiError where the known explanation comes out wrong."""
    for head, told in _lines():
        print(f"{head:12} {told}")
    print(f"{'Check':12} {_checked()}")


def _lines() -> Iterator[tuple[str, str]]:
    yield "xaijax", f"{__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield "Core", ", ".join(f"{name} {_version(name)}" for name in CORE)
    devices = [f"{one.device_kind} ({one.platform})" for one in jax.local_devices()]
    yield "Devices", f"{len(devices)}: {', '.join(devices)}; {os.cpu_count()} processors"
    for extra, names in EXTRAS.items():
        versions = {name: _version(name) for name in names}
        absent = [name for name, found in versions.items() if found is None]
        has = ", ".join(f"{name} {found}" for name, found in versions.items() if found)
        lacks = f"not installed: {', '.join(absent)}" if absent else ""
        yield f"[{extra}]", "; ".join(filter(None, (has, lacks)))
    cache = jax.config.values.get("jax_compilation_cache_dir")
    yield "Cache", cache or "none; xaijax.enable_compilation_cache(folder) keeps compiled programs"
    said = [f"{name}={os.environ[name]}" for name in VARIABLES if name in os.environ]
    yield "Variables", ", ".join(said) or "none that matter"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _checked() -> str:
    """x0 x1 + 2 x2 at (1, 2, 3) beside zeros is worth 1, 1 and 6: x0 and x1 share their product."""
    model = as_model(lambda X: X[:, 0] * X[:, 1] + 2 * X[:, 2])
    found = Explainer(model, np.zeros((1, 3)))(np.array([[1.0, 2.0, 3.0]]), progress=False)
    if not np.allclose(found.values, [[1.0, 1.0, 6.0]], rtol=0, atol=1e-5):
        raise XaiError(
            f"the Shapley values of a known function came out as {found.values[0].tolist()}, not "
            "as [1, 1, 6]. Do not trust this installation; please report it with the lines above."
        )
    return f"the Shapley values of a known function are right ({sys.executable})"
