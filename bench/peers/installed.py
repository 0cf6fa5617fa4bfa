"""Peers that are imported into this process, where they are installed."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from bench.frame import NotRun


def installed(module: str) -> Any:
    """Import a peer, or say why it does not run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        reason = f"{name} is not installed (pip install -r bench/peers/here.txt)"
        raise NotRun(reason) from error
