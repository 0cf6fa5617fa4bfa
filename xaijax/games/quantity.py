"""Quantity: what is measured of the model's answers.

Three steps: a score per model row; a weighted mean over donors; an outer function of v(S).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax._errors import InputError, InputTypeError, ModelOutputError


@dataclass(frozen=True)
class Quantity:
    """The model's answer itself as the score, and a link that acts on its mean."""

    name: str
    outer: Callable[[np.ndarray], np.ndarray] | None  # None: linear, the mean comes last

    @property
    def linear(self) -> bool:
        """Whether a semivalue may be taken pair by pair and averaged afterwards."""
        return self.outer is None

    def of(self, table: np.ndarray) -> np.ndarray:
        """The outer function of v(S), float64 of any shape; refuses results that are not finite."""
        if self.outer is None:
            return table
        with np.errstate(all="ignore"):
            out = np.asarray(self.outer(table), np.float64)
        if out.shape != table.shape:
            raise InputError(
                f"link must keep the shape of what it gets: {table.shape} became {out.shape}."
            )
        if not np.isfinite(out).all():
            worst = table[~np.isfinite(out)].flat[0]
            raise ModelOutputError(
                f"link={self.name!r} of a mean answer of {worst} is not finite. Use "
                'link="identity", or a model output that stays inside the link\'s domain.'
            )
        return out


def quantity_of(link: Any) -> Quantity:
    """Read the `link=` argument: "identity", "logit", or a callable of float64 arrays."""
    if isinstance(link, str):
        if link == "identity":
            return Quantity("identity", None)
        if link == "logit":
            return Quantity("logit", lambda v: np.log(v) - np.log1p(-v))
        raise InputError(f"link must be 'identity', 'logit' or a callable, got {link!r}.")
    if not callable(link):
        raise InputTypeError(
            f"link must be 'identity', 'logit' or a callable, got {type(link).__name__}."
        )
    function: Any = link
    return Quantity(getattr(link, "__name__", "custom"), function)
