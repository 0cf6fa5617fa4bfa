"""The arguments of an amortised explainer, of its `fit` and of a call, read and checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.methods.amortized.bounds import fewest_judges
from xaijax.methods.amortized.learning import TrainingRecipe

SHARE = 10  # one row in so many is kept from training, to watch it by
MOST_WATCHED = 5_000  # rows at most
LEAST = 20  # rows beside the judge's


@dataclass(frozen=True)
class RowSplit:
    """Places of rows, int64 each; together all of them, each once."""

    training: np.ndarray
    validation: np.ndarray
    judge: np.ndarray


def read_hidden(hidden: Any) -> tuple[int, ...]:
    """Widths of layers, whole numbers of at least 1."""
    widths = checks.listed(hidden, "hidden", "widths of layers, such as [256, 256]")
    return tuple(checks.whole_number(one, "hidden") for one in widths)


def read_recipe(steps: Any, batch: Any, learning_rate: Any, seed: int) -> TrainingRecipe:
    """How the network is trained."""
    return TrainingRecipe(
        checks.whole_number(steps, "steps"),
        checks.whole_number(batch, "batch"),
        checks.positive(learning_rate, "learning_rate"),
        seed,
    )


def read_split(N: int, judge: Any, confidence: float, seed: int) -> RowSplit:
    """Which of N rows judge, watch and train, drawn by the seed."""
    judges = checks.whole_number(judge, "judge")
    fewest = fewest_judges(confidence)
    if judges < fewest:
        raise InputError(
            f"judge={judges} rows are too few for bounds at confidence={confidence:g}: the largest "
            f"of {fewest} errors is the first that says so much. Say judge={fewest} or more; 256 "
            "cover within two points of what they claim."
        )
    if N - judges < LEAST:
        raise InputError(
            f"judge={judges} of the {N:,} rows of X leaves {max(N - judges, 0)} to learn from; at "
            f"least {LEAST} are needed. Give more rows, or say a smaller judge=."
        )
    order = np.random.default_rng([seed, 0]).permutation(N)
    watched = judges + min(max(2, (N - judges) // SHARE), MOST_WATCHED)
    return RowSplit(order[watched:], order[judges:watched], order[:judges])


def read_share(fallback: Any) -> float:
    """A number from 0 to 1."""
    what = "a share of the rows, from 0 (none) to 1 (all)"
    return checks.number(fallback, "fallback", what, lambda one: 0 <= one <= 1)
