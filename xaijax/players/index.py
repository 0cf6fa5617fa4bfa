"""Every index: the weight of each marginal contribution, its words, and how it is drawn.

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
    """What is known of an index.

    One with weights is an `index=` of `Explainer`, `QII` and the federated explainers. Its weights
    for P and for P + 1 players belong together: a player who changes nothing leaves the values of
    the others as they are (Dubey, Neyman and Weber 1981, "Value theory without efficiency").

    Only one semivalue, Shapley's, adds up to f(x), and it is the mean over orders; only Banzhaf's
    is the mean over sets. Another one has drawn=None: `Explainer` only enumerates it, and the draws
    of `QII` are orders in which each place has the weight that `weights` gives it.
    """

    name: str  # as `index=` takes it and `Explanation.kind` keeps it
    value: str = ""  # what one number is called; "": unknown
    average: str = ""  # over what a player's marginal contributions are averaged; "": weighted sums
    weights: Callable[[int], np.ndarray] | None = None  # of P: p [P] of a single set, by its size
    efficient: bool = False  # base value and all values add up to f(x)
    drawn: Literal["orders", "sets"] | None = None  # a plain mean over all of these
    shapiq: str | None = None  # its name in shapiq
    alone: bool = False  # each player is replaced by itself: no set of several is asked
    simple: bool = False  # about which sets win: its numbers are no amounts and have no direction
    apart: bool = False  # each number is an effect of its own, and no share of anything

    @property
    def draws_orders(self) -> bool:
        """Whether estimators draw orders of players, and average over their places."""
        return self.drawn == "orders"

    @property
    def draws_sets(self) -> bool:
        """Whether estimators draw sets, every set alike."""
        return self.drawn == "sets"

    @property
    def steps(self) -> bool:
        """Whether values are steps from one number towards another, as a waterfall shows them.

        If they are not, a sum of them means nothing.
        """
        return not (self.alone or self.simple or self.apart)


KNOWN = {
    one.name: one
    for one in (
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
    """The index of this name, in any case; of another thing, only what it is called is known."""
    index = KNOWN.get(name.lower()) if isinstance(name, str) else None
    return index or Index(str(name))


def quoted(fact: str) -> list[str]:
    """The known indices that have this fact, or for which it is true, in quotes: for messages."""
    return [repr(one.name) for one in KNOWN.values() if getattr(one, fact)]


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
        InputError: `k` is negative; when it is used, also `k` above P - 1.
        InputTypeError: `k` is not a whole number, or `normalised` not True or False.

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
    """(weight of one single set of size s, float64 [P]; the index's name).

    Beyond LARGEST_P players a named index has the weights of LARGEST_P: more null players change
    nothing in it, and no pair in which more differ is enumerated.
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
