"""Differences between Q(nothing replaced) and Q(S): the distances of `difference=`.

Letters: K scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError

# (p: Q(nothing replaced), q: Q(S)), both [..., K] and broadcast -> [..., K] or [...]
Difference = Callable[[np.ndarray, np.ndarray], np.ndarray]

NAMES = ("subtract", "l1", "tv", "l2", "linf", "kl", "js")
OF_DISTRIBUTIONS = ("tv", "kl", "js")  # need a vector of class probabilities


def _l1(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.abs(p - q).sum(axis=-1)


def _kl(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """sum p log(p / q) with the natural logarithm; 0 log 0 = 0, infinite if q = 0 < p."""
    p, q = np.broadcast_arrays(p, q)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p / q), 0.0)
    return np.maximum(terms.sum(axis=-1), 0.0)  # rounding: two equal distributions


def _js(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    middle = (p + q) / 2
    return (_kl(p, middle) + _kl(q, middle)) / 2


_DISTANCES: dict[str, Difference] = {
    "l1": _l1,
    "tv": lambda p, q: _l1(p, q) / 2,
    "l2": lambda p, q: np.sqrt(np.square(p - q).sum(axis=-1)),
    "linf": lambda p, q: np.abs(p - q).max(axis=-1),
    "kl": _kl,
    "js": _js,
}


def difference_of(difference: Any, floor: float | None) -> tuple[str, Difference | None]:
    """(its name, the distance [..., K], [..., K] -> [...]); the distance is None for "subtract".

    KL(p || q) has p = real and q = intervened. With floor, each probability is raised to at least
    `floor` and the vector is normalised again, before a "kl" or "js".
    """
    if floor is not None:
        if difference not in ("kl", "js"):
            raise InputError("floor= goes with difference='kl' and 'js'. Leave it out.")
        checks.share(floor, "floor")
    if not isinstance(difference, str):
        if not callable(difference):
            raise InputTypeError(
                f"difference must be one of {list(NAMES)} or a callable d(p, q), got "
                f"{type(difference).__name__}."
            )
        return getattr(difference, "__name__", "custom"), _checked(difference)
    name = checks.one_of(difference, "difference", NAMES)
    if name == "subtract":
        return name, None
    distance = _DISTANCES[name]
    if floor is None:
        return name, distance
    least = float(floor)

    def floored(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        refuse_high_floor(least, p.shape[-1])
        p, q = np.maximum(p, least), np.maximum(q, least)
        return distance(p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True))

    return name, floored


def refuse_high_floor(floor: float | None, classes: int) -> None:
    """Raises InputError for a floor that leaves nothing of K classes' probabilities, which sum to
    1.
    """
    if floor is not None and floor * classes >= 1:
        raise InputError(f"floor must be below 1/{classes} for {classes} classes, got {floor:g}.")


def _checked(function: Any) -> Difference:
    """A user's d(p [..., K], q [..., K]) -> [...]; d(p, p) must be 0, since v(empty) is."""

    def distance(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        p = np.broadcast_to(p, q.shape)
        # A copy: a user's function may return views of a buffer, and is called once more below.
        out = checks.real_numbers(function(p, q), "difference").copy()
        if out.shape != q.shape[:-1]:
            raise InputError(
                f"difference: d(p, q) must return {list(q.shape[:-1])} for p and q of "
                f"{list(q.shape)}, got {list(out.shape)}. Reduce over the last axis."
            )
        same = checks.real_numbers(function(p, p), "difference")
        if not np.all(np.abs(same) <= 1e-9):
            raise InputError(
                f"difference: d(p, p) must be 0, got {same.flat[int(np.abs(same).argmax())]:.3g}."
            )
        return out

    return distance


def as_outer(distance: Difference) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The distance as the outer function of a `Quantity`: one number in place of K."""
    return lambda full, values: distance(full, values)[..., None]
