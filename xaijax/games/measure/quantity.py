"""Quantity: what is measured of the model's outputs.

A quantity has three steps: a score per model row, which may read f(x); a weighted mean over donors,
and over data rows for groups; an outer function of (Q(nothing replaced), Q(S)).

Letters: N instances, G groups of instances, C coalitions, K scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError, ModelOutputError

# (position of a coalition) -> its name, for messages
NameOf = Callable[[int], str]

_AT_A_TIME = 1 << 20  # numbers of a weighted sum that are held at once with the values


@dataclass(frozen=True)
class Quantity:
    """The means that are measured, and the functions of them.

    `groups` None: every instance is a separate game. Otherwise row g holds the weights of the
    instances in the mean of group g, and `combine` reduces the G means to one number: float64 [G],
    a linear combination, or a callable [G, C, K] -> [C, K].
    """

    name: str
    argument: str = "link"  # the argument that names the outer function, for messages
    measured: str = "identity"  # the name of the combined quantity
    outer: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None  # None: linear
    reads_full: bool = False  # whether `outer` reads Q(nothing replaced), its first argument
    groups: np.ndarray | None = None  # float64 [G, N], each row of sum 1
    combine: np.ndarray | Callable[[np.ndarray], np.ndarray] | None = None
    remedy: str = 'Use link="identity", or a model output that stays inside the link\'s domain.'

    @cached_property
    def linear(self) -> bool:
        """Whether a semivalue may be taken pair by pair and averaged afterwards."""
        return self.outer is None and not callable(self.combine)

    def asked(self, N: int) -> np.ndarray:
        """The instances with a weight in some mean; int64."""
        return np.arange(N) if self.groups is None else np.flatnonzero(self.groups.any(axis=0))

    def mean(self, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Means over data rows of (instances [n], float64 [n, C, K]) in the order given.

        [N, C, K] without groups, else [G, C, K]; each part is added before the next is computed.
        """
        if self.groups is None:
            return np.concatenate([part for _, part in parts])
        total: Any = 0.0
        for rows, part in parts:
            total = total + weighted_sums(self.groups[:, rows], part)
        return total

    def combined(self, means: np.ndarray) -> np.ndarray:
        """Combines the groups' means [G, C, K] to [1, C, K]; without groups [N, C, K] is
        returned."""
        if self.groups is None or self.combine is None:
            return means
        with np.errstate(all="ignore"):
            if not callable(self.combine):
                return weighted_sums(self.combine[None], means)
            out = checks.real_numbers(self.combine(means), "combine= of a quantity").copy()
        if out.shape != means.shape[1:]:
            raise InputError(
                f"quantity={self.measured!r}: combine= must make one mean of two, "
                f"{list(means.shape[1:])} of {list(means.shape)}; got {list(out.shape)}. Combine "
                "means[0] and means[1] element by element."
            )
        return out[None]

    def of(self, means: np.ndarray, full: np.ndarray | None, name_of: NameOf) -> np.ndarray:
        """The outer function of the combined means [n, C, K]; raises if it is not finite.

        full [n, 1, K]: the combined means with nothing replaced.
        """
        if self.linear:
            return means
        if callable(self.combine):
            who = f"quantity={self.measured!r}"
            zero = "What it divides by is 0 there: measure a difference, or another group."
            refuse_not_finite(means, means, name_of, who, zero)
        if self.outer is None:
            return means
        with np.errstate(all="ignore"):
            # A copy: the user's function may return views of a buffer, and tables are kept.
            out = checks.real_numbers(
                self.outer(means if full is None else full, means), self.argument
            ).copy()
        if out.ndim != 3 or out.shape[:2] != means.shape[:2]:
            raise InputError(
                f"{self.argument} must keep the shape of what it gets: {means.shape} became "
                f"{out.shape}."
            )
        who = f"{self.argument}={self.name!r}"
        refuse_not_finite(out, means, name_of, who, self.remedy)
        return out


def weighted_sums(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """sum over n of weights [G, n] times values [n, C, K]; [G, C, K].

    Every column (c, k) is summed by the same additions, so that equal columns have equal sums, and
    a player that changes nothing has an influence of exactly 0. A matrix product would round its
    last columns differently.
    """
    out = np.zeros((len(weights), *values.shape[1:]))
    step = max(1, _AT_A_TIME // max(1, out[0].size))
    for first in range(0, len(values), step):
        chunk = values[first : first + step]
        for total, weight in zip(out, weights[:, first : first + step, None, None], strict=True):
            total += (weight * chunk).sum(axis=0)
    return out


def refuse_not_finite(
    out: np.ndarray, means: np.ndarray, name_of: NameOf, who: str, remedy: str
) -> None:
    """Raises ModelOutputError if out [n, C, K] is not finite; means: its arguments."""
    finite = np.isfinite(out).all(axis=2)
    if not finite.all():
        n, c = (int(i) for i in np.argwhere(~finite)[0])
        raise ModelOutputError(
            f"{who} of a mean answer of {means[n, c].tolist()} is not finite, for {name_of(c)}. "
            f"{remedy}"
        )


def quantity_of(link: Any) -> Quantity:
    """Reads the `link=` argument: "identity", "logit", or a callable of float64 arrays."""
    if isinstance(link, str):
        if link == "identity":
            return Quantity("identity")
        if link == "logit":
            return Quantity("logit", outer=lambda _, v: np.log(v) - np.log1p(-v))
        raise InputError(f"link must be 'identity', 'logit' or a callable, got {link!r}.")
    if not callable(link):
        raise InputTypeError(
            f"link must be 'identity', 'logit' or a callable, got {type(link).__name__}."
        )
    function: Any = link

    def outer(_: np.ndarray, values: np.ndarray) -> np.ndarray:
        out = checks.real_numbers(function(values), "link")
        if out.shape != values.shape:
            raise InputError(
                f"link must keep the shape of what it gets: {values.shape} became {out.shape}."
            )
        return out

    return Quantity(getattr(link, "__name__", "custom"), outer=outer)
