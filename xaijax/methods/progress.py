"""The progress bar of a run, counted in model rows, instances or steps."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from tqdm import TqdmWarning

from xaijax.core.errors import InputTypeError

with warnings.catch_warnings():
    # In a notebook without ipywidgets tqdm draws its bar as text, and would warn of that on import.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm


def progress_bar(progress: Any, total: int, counted: str = "model rows", unit: str = "row") -> tqdm:
    """A bar over `total`; progress None: in a terminal or notebook once a run takes a while."""
    shown = read_progress(progress)
    if shown is None:
        shown = sys.stderr.isatty() or "ipykernel" in sys.modules
    return tqdm(
        total=total,
        unit=unit,
        unit_scale=True,
        desc=counted,
        disable=not shown,
        delay=0.5 if progress is None else 0,
    )


def read_progress(progress: Any) -> bool | None:
    """The argument, checked."""
    if progress is not None and not isinstance(progress, bool):
        raise InputTypeError(f"progress must be None, True or False, got {progress!r}.")
    return progress
