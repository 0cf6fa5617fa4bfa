"""Optional libraries, imported on use with an error that says how to get them."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, install: str) -> Any:
    """Import `module`, or say which `pip install` brings it.

    Args:
        module: dotted name, "matplotlib.figure" say.
        install: what stands after `pip install`, "xaijax[plots]" say.

    Raises:
        ImportError: the library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(f"{library} is needed here: {how_to(install)}") from error


def how_to(install: str) -> str:
    """The command that brings an extra: from the package's index, and from a checkout."""
    told = f'pip install "{install}"'
    if install.startswith("xaijax["):
        told += f' (in a checkout: pip install ".{install.removeprefix("xaijax")}")'
    return told
