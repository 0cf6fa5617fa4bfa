"""What classifiers share: from scores to probabilities and to the decided class.

Letters: R rows, K classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from xaijax.models.translations.registry import Head


def two(positive: Any) -> Any:
    """The probability of the second class, [R], as a column per class."""
    return jnp.stack([1 - positive, positive], axis=1)


def logistic(scores: Any) -> Any:
    """Probabilities [R, K] of a binary score [R] by the sigmoid, of several [R, K] by softmax."""
    return two(jax.nn.sigmoid(scores)) if scores.ndim == 1 else jax.nn.softmax(scores, axis=1)


def place(scores: Any) -> Any:
    """The decided class: the largest column (ties: the lowest), or whether one score is above 0."""
    return (scores > 0).astype("int32") if scores.ndim == 1 else scores.argmax(axis=1)


def then(head: Head, function: Callable[[Any], Any]) -> Head:
    """`function` of the answers of a head."""
    return lambda params, rows: function(head(params, rows))
