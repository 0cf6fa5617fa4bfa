"""Which of QII's four axes do not go together, and arguments that would have no effect.

Letters: K classes.
"""

from __future__ import annotations

from typing import Any

from xaijax.core.errors import InputError, InputTypeError
from xaijax.games.asking.refuse import LARGEST_TABLE
from xaijax.games.measure.quantity import Quantity
from xaijax.methods.qii.difference import OF_DISTRIBUTIONS, refuse_high_floor
from xaijax.methods.qii.limits import linear_form
from xaijax.methods.qii.outcome import Outcome
from xaijax.methods.qii.quantities import Interest


def signed_of(signed: Any, interest: Interest) -> bool:
    """Read `signed=`."""
    if not isinstance(signed, bool):
        raise InputTypeError(f"signed must be True or False, got {signed!r}.")
    if signed and interest.name != "disparity":
        raise InputError(
            f"signed= goes with quantity='disparity', not with {interest.name!r}. Leave it out."
        )
    return signed


def refuse_difference(
    difference: str, interest: Interest, outcome: Outcome, floor: float | None
) -> None:
    """Raise InputError for a difference of distributions where there are none."""
    if difference not in OF_DISTRIBUTIONS:
        return
    if outcome.kind != "proba" or interest.score is not None:
        raise InputError(
            f"difference={difference!r} compares vectors of class probabilities. Say "
            "outcome='proba', or difference='l1'."
        )
    if interest.whom == "members and rest":
        raise InputError(
            f"difference={difference!r} compares distributions, and quantity={interest.name!r} is "
            "none. Say difference='subtract', 'l1', 'l2' or 'linf'."
        )
    if outcome.classes is not None:
        refuse_high_floor(floor, len(outcome.classes))


def refuse_sampled(quantity: Quantity, groups: int, samples: int | None) -> None:
    """Raise InputError for what has no unbiased draws, or fewer draws than groups."""
    if samples is None:
        return
    if quantity.outer is not None:
        raise InputError(
            f"difference={quantity.name!r} of sampled means is biased and has no unbiased draws, "
            "so samples= goes with difference='subtract'. Say that, or samples=None: exact up to "
            f"{LARGEST_TABLE} players for an index (group columns with players=), and for unary, "
            "influence and marginal with any number."
        )
    if samples < groups:
        raise InputError(
            f"samples={samples} leaves a group of quantity={quantity.measured!r} without a draw: "
            f"they take turns. Say samples={groups} at least, and {2 * groups} for standard errors."
        )


def refuse_random(model: Any, quantity: Quantity) -> None:
    """Raise InputError for what a random model's noise would bias, drawn or not."""
    if model.deterministic:
        return
    if quantity.outer is not None:
        raise InputError(
            f"difference={quantity.name!r} of a random model's means is biased by its noise. Say "
            "difference='subtract' with deterministic=False."
        )
    if callable(quantity.combine):
        raise InputError(
            f"quantity={quantity.measured!r} of a random model's means is biased by its noise. Say "
            f"{linear_form(quantity)} with deterministic=False."
        )


def refuse_unused_weights(interest: Interest, data_weights: Any, own_pool: bool) -> None:
    """Raise InputError for data_weights that nothing would be weighted by."""
    if data_weights is not None and own_pool and not interest.of_data:
        raise InputError(
            f"data_weights have no effect on quantity={interest.name!r}, which is of individuals, "
            "with a pool or pool_weights of its own. Leave them out, or say pool_weights=."
        )
