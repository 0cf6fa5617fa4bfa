"""Imports optional libraries on use, with an error that says how to install them."""

from __future__ import annotations

import importlib
from typing import Any


def require(module: str, install: str) -> Any:
    """Imports `module`, or raises an error with the `pip install` command for it.

    Args:
        module: dotted name, for example "matplotlib.figure".
        install: the argument of `pip install`, for example "xaijax[plots]".

    Raises:
        ImportError: the library is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(f"{library} is needed here: {how_to(install)}") from error


def how_to(install: str) -> str:
    """Returns the command that installs an extra, from the package index and from a checkout."""
    command = f'pip install "{install}"'
    if install.startswith("xaijax["):
        command += f' (in a checkout: pip install ".{install.removeprefix("xaijax")}")'
    return command
