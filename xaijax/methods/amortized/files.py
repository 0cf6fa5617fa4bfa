"""What `AmortizedExplainer.save` writes: arrays and plain values, and no pickle.

Letters: H distinct values that are inputs.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from xaijax.methods.amortized.fitted import Cost, Fitted
from xaijax.methods.amortized.inputs import Inputs
from xaijax.methods.amortized.questions import Marks
from xaijax.results.files import npz

FORMAT = "xaijax.AmortizedExplainer"


def write(path: str | os.PathLike[str], fitted: Fitted, hidden: tuple[int, ...], seed: int) -> None:
    """One file of what was learned."""
    fields = _plain(fitted) | {
        "inputs": _plain(fitted.inputs),
        "marks": _plain(fitted.marks),
        "cost": _plain(fitted.cost),
        "judged": dict(fitted.judged),
        "facts": dict(fitted.facts),
        "widths": hidden,
        "seed": seed,
    }
    npz.write(path, fields, FORMAT)


def read(state: dict[str, Any]) -> tuple[Fitted, tuple[int, ...], int]:
    """(what was learned, widths, seed) of the fields of a file."""
    hidden, seed = tuple(state.pop("widths")), int(state.pop("seed"))
    parts = {"inputs": Inputs, "marks": Marks, "cost": Cost}
    made = {name: kind(**state.pop(name)) for name, kind in parts.items()}
    found = Fitted(**made, **state)
    if not all(isinstance(leaf, np.ndarray) for leaf in found.leaves):
        raise ValueError("leaves that are no arrays")
    widths = tuple(leaf.shape[-1] for leaf in found.leaves[:-2:2])
    if found.hidden is not None and not hidden == found.hidden == widths:
        raise ValueError(f"layers of widths {widths}, but {hidden!r:.60} are said")
    return found, hidden, seed


def _plain(one: Any) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
