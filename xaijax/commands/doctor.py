"""The command `xaijax doctor`: what is installed, a check of one known explanation, and with
`--device` one of a GPU or a TPU.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from xaijax.commands import device
from xaijax.core.command_line import command_of
from xaijax.core.compilation_cache import SETTING
from xaijax.core.errors import XaiError
from xaijax.core.version import __version__
from xaijax.methods.explainer.explainer import Explainer
from xaijax.models import as_model

ABOUT = "show versions, devices, extras and caches, and check one known explanation"
EXAMPLE = """\
    xaijax doctor --device"""
CORE = ("jax", "jaxlib", "numpy", "scikit-learn", "optax", "tqdm")
# "jinja2>=3.1; extra == 'plots'", as in the package's own list of requirements.
OF_EXTRA = re.compile(r"""([A-Za-z0-9_.-]+)[^;]*;.*extra == ["'](\w+)["']""")
UNTOLD = ("dev", "all", "docs")  # extras that contain others, or are for development only
FOLDERS = ("XAIJAX_DATA", "JAX_COMPILATION_CACHE_DIR")  # their values show the user's folders
VARIABLES = (
    "XAIJAX_DATA XAIJAX_MEMORY_LIMIT JAX_PLATFORMS JAX_ENABLE_X64 JAX_COMPILATION_CACHE_DIR "
    "XLA_FLAGS CUDA_VISIBLE_DEVICES"
).split()


def add_doctor(commands: Any) -> None:
    """Adds the command to `xaijax`."""
    command = command_of(commands, "doctor", ABOUT, EXAMPLE, run)
    about = "check a GPU or a TPU for at most a minute: values, rows a second, kernels"
    command.add_argument("--device", action="store_true", help=about)


def run(arguments: argparse.Namespace) -> None:
    """Prints what is found; raises XaiError if the known explanation comes out wrong."""
    for head, text in _lines():
        print(f"{head:12} {text}")
    try:
        devices = [f"{d.device_kind} ({d.platform})" for d in jax.local_devices()]
    except Exception as error:  # back ends raise errors of any type
        raise XaiError(
            f"JAX has no device: {type(error).__name__}: {error}. Try JAX_PLATFORMS=cpu."
        ) from error
    print(f"{'Devices':12} {len(devices)}: {', '.join(devices)}; {os.cpu_count()} processors")
    print(f"{'Check':12} {_checked()}")
    if arguments.device:
        for line in device.report(jax.local_devices()):
            print(line, flush=True)


def _lines() -> Iterator[tuple[str, str]]:
    yield "xaijax", f"{__version__}, Python {platform.python_version()}, {platform.platform()}"
    yield "Core", ", ".join(f"{name} {_version(name)}" for name in CORE)
    for extra, names in _extras().items():
        versions = {name: _version(name) for name in names}
        absent = [name for name, version in versions.items() if version is None]
        has = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        lacks = f"not installed: {', '.join(absent)}" if absent else ""
        yield f"[{extra}]", "; ".join(filter(None, (has, lacks)))
    cache = jax.config.values.get(SETTING)
    none = "none; xaijax.enable_compilation_cache() keeps compiled programs"
    yield "Cache", "a folder is set" if cache else none
    names_set = [name for name in VARIABLES if name in os.environ]
    said = [f"{n} is set" if n in FOLDERS else f"{n}={os.environ[n]}" for n in names_set]
    yield "Variables", ", ".join(said) or "none that matter"


def _extras() -> dict[str, list[str]]:
    """{extra: the libraries that it installs}."""
    libraries: dict[str, list[str]] = {}
    for line in importlib.metadata.requires("xaijax") or ():
        match = OF_EXTRA.match(line)
        if match and match[2] not in UNTOLD and match[1] != "xaijax":
            libraries.setdefault(match[2], []).append(match[1])
    return libraries


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _checked() -> str:
    """Checks x0 x1 + 2 x2 at (1, 2, 3) against zeros: values 1, 1 and 6, the product is shared."""
    model = as_model(lambda X: X[:, 0] * X[:, 1] + 2 * X[:, 2])
    result = Explainer(model, np.zeros((1, 3)))(np.array([[1.0, 2.0, 3.0]]), progress=False)
    if not np.allclose(result.values, [[1.0, 1.0, 6.0]], rtol=0, atol=1e-5):
        raise XaiError(
            f"the Shapley values of a known function are {result.values[0].tolist()}, not "
            "[1, 1, 6]. Do not trust this installation; please report it with the lines above."
        )
    return "the Shapley values of a known function are right"
