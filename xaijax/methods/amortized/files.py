"""What `AmortizedExplainer.save` writes: arrays and plain values, and no pickle.

Letters: H distinct values that are inputs.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np

from xaijax.methods.amortized.fitted import Cost, FittedNetwork
from xaijax.methods.amortized.inputs import Inputs
from xaijax.results.files import npz
from xaijax.results.fingerprint import Fingerprint

FORMAT = "xaijax.AmortizedExplainer"
ASKED = ("players", "columns", "shape")  # of "marks"


def write(
    path: str | os.PathLike[str], fitted: FittedNetwork, hidden: tuple[int, ...], seed: int
) -> None:
    """One file of what was learned."""
    fields = _plain(fitted)
    fields |= {
        "inputs": _plain(fitted.inputs),
        "marks": _marks(fields.pop("fingerprint")),
        "cost": _plain(fitted.cost),
        "judged": dict(fitted.judged),
        "facts": dict(fitted.facts),
        "widths": hidden,
        "seed": seed,
    }
    npz.write(path, fields, FORMAT)


def read(state: dict[str, Any]) -> tuple[FittedNetwork, tuple[int, ...], int]:
    """(what was learned, widths, seed) of the fields of a file."""
    hidden, seed = tuple(state.pop("widths")), int(state.pop("seed"))
    inputs, cost = Inputs(**state.pop("inputs")), Cost(**state.pop("cost"))
    marks = state.pop("marks")
    model = () if marks["model"] is None else (marks["model"],)
    asked = Fingerprint({name: marks[name] for name in ASKED}, marks["donors"], model)
    found = FittedNetwork(inputs=inputs, cost=cost, fingerprint=asked, **state)
    if not all(isinstance(leaf, np.ndarray) for leaf in found.leaves):
        raise ValueError("leaves that are no arrays")
    widths = tuple(leaf.shape[-1] for leaf in found.leaves[:-2:2])
    if found.hidden is not None and not hidden == found.hidden == widths:
        raise ValueError(f"layers of widths {widths}, but {hidden!r:.60} are said")
    return found, hidden, seed


def _marks(asked: Fingerprint) -> dict[str, Any]:
    """The fingerprint by the names that files have for it."""
    return {"donors": asked.rows, "model": next(iter(asked.model), None), **asked.question}


def _plain(one: Any) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
