"""What is known once an amortised explainer is fitted: all that a file of it holds.

Letters: P players, K outputs, D what difficulty is told by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.methods.amortized.inputs import Inputs
from xaijax.results.fingerprint import Fingerprint


@dataclass(frozen=True)
class Cost:
    """What fitting took, and what a row takes, in seconds and rows of the model."""

    model_rows: int  # for all labels
    label_seconds: float
    training_seconds: float
    explained_seconds: float  # of one row by the explainer
    use_seconds: float  # of one row by the network

    def break_even(self, fallback: float) -> float:
        """Rows from which fitting and asking the network is faster than asking the explainer.

        fallback: the share of them that the explainer answers still. Infinite: never.
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
    ends: tuple[float, float]  # between which it stays
    quantile: float  # of the judge rows' scores
    confidence: float
    fingerprint: Fingerprint  # of players, their columns and the shape of a row, as a question
    outputs: tuple[str, ...] | None  # names of the K outputs; None: values [N, P]
    cost: Cost
    judged: Mapping[str, Any]  # "r2", "relative_error" and the numbers of rows
    facts: Mapping[str, Any]  # provenance of the labels
