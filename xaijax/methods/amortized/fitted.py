"""Holds the state of a fitted amortised explainer: everything that its file contains.

Letters: P players, K outputs, D features for the difficulty, H distinct values that are inputs.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.methods.amortized.inputs import Inputs
from xaijax.results.files import npz
from xaijax.results.fingerprint import Fingerprint


@dataclass(frozen=True)
class Cost:
    """The cost of fitting, and of a row, in seconds and model rows."""

    model_rows: int  # for all labels
    label_seconds: float
    training_seconds: float
    explained_seconds: float  # for one row, by the explainer
    use_seconds: float  # for one row, by the network

    def break_even(self, fallback: float) -> float:
        """Number of rows from which fitting and using the network is faster than the explainer.

        fallback: the share of rows that the explainer still answers. Infinite: never.
        """
        saved = self.explained_seconds * (1 - fallback) - self.use_seconds
        spent = self.label_seconds + self.training_seconds
        return math.ceil(spent / saved) if saved > 0 else math.inf


@dataclass(frozen=True)
class FittedNetwork:
    """The network's numbers, those of its bounds, and how good they were on judge rows."""

    inputs: Inputs
    hidden: tuple[int, ...] | None  # widths; None: a network of the user's own
    leaves: tuple[np.ndarray, ...]  # of the trained parameters
    base: np.ndarray  # float64 [K]
    centre: np.ndarray  # float64 [P, K]
    scale: np.ndarray  # float64 [K]
    known: np.ndarray  # float64 [2, K], mean and spread of f(x)
    line: np.ndarray  # float64 [1 + D], of the logarithm of the difficulty
    ends: tuple[float, float]  # lowest and highest height of the line
    quantile: float  # quantile of the judge rows' scores
    confidence: float
    fingerprint: Fingerprint  # its question: players, their columns and the shape of a row
    outputs: tuple[str, ...] | None  # names of the K outputs; None: values [N, P]
    cost: Cost
    judged: Mapping[str, Any]  # "r2", "relative_error" and the numbers of rows
    facts: Mapping[str, Any]  # provenance of the labels


FORMAT = "xaijax.AmortizedExplainer"
ASKED = ("players", "columns", "shape")  # keys of "marks"


def write(
    path: str | os.PathLike[str], fitted: FittedNetwork, hidden: tuple[int, ...], seed: int
) -> None:
    """Writes what was learned to one file."""
    fields = _plain(fitted)
    asks: Fingerprint = fields.pop("fingerprint")
    marks = {"donors": asks.rows, "model": next(iter(asks.model), None), **asks.question}
    fields |= {
        "inputs": _plain(fitted.inputs),
        "marks": marks,
        "cost": _plain(fitted.cost),
        "judged": dict(fitted.judged),
        "facts": dict(fitted.facts),
        "widths": hidden,
        "seed": seed,
    }
    npz.write(path, fields, FORMAT)


def read(state: dict[str, Any]) -> tuple[FittedNetwork, tuple[int, ...], int]:
    """(what was learned, widths, seed) from the fields of a file."""
    hidden, seed = tuple(state.pop("widths")), int(state.pop("seed"))
    inputs, cost = Inputs(**state.pop("inputs")), Cost(**state.pop("cost"))
    marks = state.pop("marks")
    model = () if marks["model"] is None else (marks["model"],)
    question = Fingerprint({name: marks[name] for name in ASKED}, marks["donors"], model)
    learned = FittedNetwork(inputs=inputs, cost=cost, fingerprint=question, **state)
    if not all(isinstance(leaf, np.ndarray) for leaf in learned.leaves):
        raise ValueError("leaves that are no arrays")
    widths = tuple(leaf.shape[-1] for leaf in learned.leaves[:-2:2])
    if learned.hidden is not None and not hidden == learned.hidden == widths:
        raise ValueError(f"layers of widths {widths}, but {hidden!r:.60} are said")
    return learned, hidden, seed


def _plain(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
