"""Defines every index: the weight of each marginal contribution, its words, and how it is sampled.

A new index is an entry of `KNOWN`: no other file compares an index with its name.

Letters: P players.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from xaijax.core.checks import whole_number, yes_or_no
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public_class


def shapley_weights(P: int) -> np.ndarray:
    """p(s) = s! (P-s-1)! / P! = 1 / (P C(P-1, s)); float64 [P]."""
    return np.array([1.0 / (P * math.comb(P - 1, s)) for s in range(P)])


def banzhaf_weights(P: int) -> np.ndarray:
    """p(s) = 2^-(P-1); float64 [P]."""
    return np.full(P, 0.5 ** (P - 1))


def size_limited_weights(P: int, k: int, normalised: bool = True) -> np.ndarray:
    """p(s) = 1 / ((k+1) C(P-1, s)) for s <= k, else 0; float64 [P].

    The QII paper's VIII-A leaves out the factor 1/(k+1), so that its weights sum to k+1:
    `normalised=False` gives that reading.
    """
    share = k + 1 if normalised else 1
    return np.array([1.0 / (share * math.comb(P - 1, s)) if s <= k else 0.0 for s in range(P)])


@dataclass(frozen=True)
class Index:
    """Facts about an index.

    One with weights is an `index=` of `Explainer`, `QII` and the federated explainers. Its weights
    for P and for P + 1 players must agree: a player who changes nothing does not affect the values
    of the others (Dubey, Neyman and Weber 1981, "Value theory without efficiency").

    Shapley's is the only semivalue that adds up to f(x), and it is the mean over orders; only
    Banzhaf's is the mean over sets. Others have drawn=None: `Explainer` only enumerates them, and
    `QII` samples orders in which each position has its weight by `weights`.
    """

    name: str  # as `index=` takes it and `Explanation.kind` keeps it
    value: str = ""  # the name of one number; "": unknown
    average: str = ""  # the set over which marginal contributions are averaged; "": weighted sums
    weights: Callable[[int], np.ndarray] | None = None  # of P: p [P] of a single set, by its size
    efficient: bool = False  # base value and all values add up to f(x)
    drawn: Literal["orders", "sets"] | None = None  # a plain mean over all of these
    shapiq: str | None = None  # its name in shapiq
    alone: bool = False  # each player is replaced alone: larger sets are not evaluated
    simple: bool = False  # about winning sets: its numbers have neither unit nor direction
    apart: bool = False  # each number is a separate effect, not a share

    @property
    def draws_orders(self) -> bool:
        """Whether estimators sample orders of players, and average over their positions."""
        return self.drawn == "orders"

    @property
    def draws_sets(self) -> bool:
        """Whether estimators sample sets uniformly."""
        return self.drawn == "sets"

    @property
    def steps(self) -> bool:
        """Whether values are steps from one number to another, as in a waterfall plot.

        If they are not, their sum has no meaning.
        """
        return not (self.alone or self.simple or self.apart)


KNOWN = {
    index.name: index
    for index in (
        Index(
            "shapley",
            "Shapley value",
            "all orders in which inputs can be replaced",
            weights=shapley_weights,
            efficient=True,
            drawn="orders",
            shapiq="SV",
        ),
        Index(
            "banzhaf",
            "Banzhaf value",
            "all sets of them",
            weights=banzhaf_weights,
            drawn="sets",
            shapiq="BV",
        ),
        Index("unary", "unary influence", alone=True),
        Index("deegan-packel", "Deegan-Packel index", simple=True),
        Index("aec", "AEC effect", apart=True),
        Index("amortized", "amortised Shapley value", efficient=True, shapiq="SV"),
    )
}


def named(name: object) -> Index:
    """The index of this name, ignoring case; for an unknown one, an `Index` with only the name."""
    index = KNOWN.get(name.lower()) if isinstance(name, str) else None
    return index or Index(str(name))


def quoted(fact: str) -> list[str]:
    """The known indices for which this fact is set or true, in quotes, for messages."""
    return [repr(index.name) for index in KNOWN.values() if getattr(index, fact)]


def _real(weight: Any) -> Any:
    if np.iscomplexobj(weight):
        raise TypeError(f"it returned the complex number {weight!r}")
    return weight


@public_class
@dataclass(frozen=True)
class SizeLimited:
    """An index that counts only what a player adds to sets of at most k other players.

    Give it as `index=`. The weight of one set of s <= k players is 1 / ((k + 1) C(P - 1, s)), that
    of a larger set is 0; C is the binomial coefficient. Every size 0..k therefore counts alike. k =
    0 is what the player adds to the empty set, k = P - 1 is the Shapley value. `Explainer` counts
    the players that are KEPT at the instance's values, `QII` those that are REPLACED.

    Args:
        k: int, 0 to P - 1. It is the largest number of other players in the set.
        normalised: True (the default): the weights above, whose sum over all sets is 1. False:
            without the factor 1 / (k + 1), as the paper prints it; values are k + 1 times as large.

    Raises:
        InputError: `k` is negative, or on use larger than P - 1.
        InputTypeError: `k` is not an integer, or `normalised` is not True or False.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> model = xj.as_model(lambda X: X[:, 0] * X[:, 1])
        >>> explainer = xj.Explainer(model, np.ones((1, 2)), index=xj.SizeLimited(0))
        >>> explainer(np.array([[2.0, 3.0]])).values.round(3)
        array([[1., 2.]])

        f(2, 1) - f(1, 1) is 1, and f(1, 3) - f(1, 1) is 2.

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (2016),
        section VIII-A; its weights sum to k + 1.
    """

    k: int
    normalised: bool = True

    def __post_init__(self) -> None:
        whole_number(self.k, "k", least=0)
        yes_or_no(self.normalised, "normalised")


LARGEST_P = 1_000  # C(P - 1, s) and 2^-(P - 1) are normal float64 numbers

IndexLike = Literal["shapley", "banzhaf"] | SizeLimited | Callable[[int], float] | str


def index_weights(index: IndexLike, P: int) -> tuple[np.ndarray, str]:
    """(weight of a single set by its size s, float64 [P]; the index's name).

    Beyond LARGEST_P players a named index has the weights of LARGEST_P: further null players change
    nothing, and no pair with more differing players is enumerated.
    """
    accepted = f"{', '.join(quoted('weights'))}, SizeLimited(k) or a callable w(s)"
    P = min(P, LARGEST_P) if isinstance(index, str) else P
    if P > LARGEST_P:
        raise InputError(
            f"players: there are {P:,}; beyond {LARGEST_P:,} the weight of a set vanishes in "
            f"float64. Group columns with players=, or say index={' or '.join(quoted('weights'))}."
        )
    if isinstance(index, SizeLimited):
        if index.k > P - 1:
            raise InputError(
                f"index: SizeLimited({index.k}) is larger than the {P - 1} players that a set "
                f"without i can have; SizeLimited({P - 1}) is Shapley."
            )
        suffix = "" if index.normalised else ", not normalised"
        return size_limited_weights(P, index.k, index.normalised), f"size <= {index.k}{suffix}"
    if isinstance(index, str):
        known = named(index)
        if known.weights is None:
            raise InputError(f"index must be {accepted}, got {index!r}.")
        return known.weights(P), known.name
    if not callable(index):
        raise InputTypeError(f"index must be {accepted}, got {type(index).__name__}.")
    try:
        weights = np.array([float(_real(index(s))) for s in range(P)])
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"index: w(s) must take a whole number s and return a number; {error}."
        ) from error
    if not np.isfinite(weights).all():
        raise InputError(f"index: w(s) must be finite for s = 0..{P - 1}, got {weights.tolist()}.")
    return weights, "semivalue"
