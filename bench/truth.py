"""A long run that stands for the truth: as many orders as the errors compared with it need.

Letters: N instances, P players.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bench.frame import Agreement

CACHE = Path(__file__).parent / "out" / "truth"
SHARE = 0.02  # of the smallest error compared, that the truth's own variance may be
FIRST_SEED = 1_000  # no contender draws from these
RECIPE = 1  # raise it when the way a truth is made changes: old files are then left alone
REASON = "the truth must be so sure that it hardly adds to the errors measured against it"

Run = Callable[[int], tuple[np.ndarray, np.ndarray]]  # seed -> values [N, P], std_errors [N, P]


@dataclass(frozen=True)
class Truth:
    """The mean of independent runs."""

    values: np.ndarray  # [N, P]
    variance: float  # of one value, on average: the mean of the squared standard errors
    runs: int

    def agreement(self, smallest: float, what: str) -> Agreement:
        """The rule of 2 %, as a comparison that a case can fail."""
        return Agreement(f"variance of the truth / {what}", self.variance / smallest, SHARE, REASON)


def long_run(
    problem: Any, run: Run, smallest: Callable[[np.ndarray], float], *, keep: bool, most: int = 400
) -> Truth:
    """Add runs until the variance is below the share of `smallest(truth)`, an error.

    Args:
        problem: arrays, numbers and containers of them, that together determine the truth.
        run: an unbiased estimate, and how sure it is, from a seed.
        smallest: values of the truth so far [N, P] -> the smallest error that is compared with it.
            Asked again after each run, since a poor truth makes all errors look larger.
        keep: whether runs are kept in `CACHE`, and those found there are used.
        most: runs after which this ends all the same; `Truth.agreement` then fails.
    """
    path = CACHE / f"{_name(problem)}.npz"
    total, squares, runs = np.zeros(()), np.zeros(()), 0
    if keep and path.exists():
        with np.load(path, allow_pickle=False) as stored:
            total, squares, runs = stored["total"], stored["squares"], int(stored["runs"])
    while True:
        if runs:
            truth = Truth(total / runs, float(np.mean(squares / runs**2)), runs)
            # A tenth of room: an error may shrink by a hair when the case asks for it again.
            if truth.variance <= 0.9 * SHARE * smallest(truth.values) or runs >= most:
                return truth
        values, errors = run(FIRST_SEED + runs)
        total, squares, runs = total + values, squares + errors**2, runs + 1
        if keep:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, total=total, squares=squares, runs=runs)


def _name(problem: Any) -> str:
    """A name that two different problems do not share."""
    found = hashlib.sha256(f"recipe {RECIPE}".encode())
    leaves, structure = jax.tree.flatten(problem)
    found.update(str(structure).encode())
    for leaf in leaves:
        array = np.asarray(leaf)
        found.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()[:24]


def centred(name: str, estimates: np.ndarray, truth: Truth) -> Agreement:
    """The mean over S seeds against the truth: it must be as near as S independent draws allow.

    estimates: [S, N, P]. Finds a biased contender, and a truth of another game. The seeds are
    fixed, so the factor of 2 is no chance of a false alarm: it passes always or never.
    """
    error = float(squared(estimates, truth.values).mean())
    left = float(squared(estimates.mean(axis=0), truth.values).mean())
    allowed = 2 * np.sqrt(error / len(estimates) + truth.variance)
    reason = "twice the standard error of the mean over the seeds"
    return Agreement(f"{name}, mean of the seeds, and the truth", np.sqrt(left), allowed, reason)


def squared(values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Mean over players of the squared error: [..., N, P] against [N, P] -> [..., N]."""
    return ((values - truth) ** 2).mean(axis=-1)


def geometric(errors: np.ndarray | Sequence[float]) -> float:
    """The geometric mean of all of them."""
    return float(np.exp(np.log(errors).mean()))
