"""What QII makes of a subsample drawn for a private release.

Letters: D rows of the full data, M rows drawn.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.methods.qii.quantities import Interest
from xaijax.results.recount import Sample
from xaijax.results.subsample import Subsample


def refuse_sample_weights(
    subsample: Subsample | None, pool: Any, data_weights: Any, pool_weights: Any
) -> None:
    """Weights belong to rows, and nobody knows which rows a subsample has."""
    if isinstance(pool, Subsample):
        raise InputError(
            "pool is a Subsample. Give it as data, and leave pool= out: its rows are donors too."
        )
    weighted = data_weights is not None or (pool is None and pool_weights is not None)
    if subsample is not None and weighted:
        raise InputError(
            "data_weights and pool_weights have no place with a Subsample, whose rows are secret. "
            "Leave them out, or release the full data."
        )


def members_drawn(
    full: np.ndarray | None, subsample: Subsample | None, interest: Interest
) -> np.ndarray | None:
    """The members among the rows drawn, bool [M]; full: among all rows [D]."""
    if full is None or subsample is None:
        return full
    mask = subsample.of_full(full)
    if not mask.any() or (interest.whom == "members and rest" and mask.all()):
        raise InputError(
            f"data: of the {len(mask):,} rows drawn {int(mask.sum()):,} are members=; both sides "
            "need rows. Draw another subsample, or a larger one."
        )
    return mask


def sample_of(subsample: Subsample, full: np.ndarray | None) -> Sample:
    """The sample as a release must know it.

    The report says how many members were drawn (its noise follows from that). Given that number a
    member was drawn with the chance drawn members / members, and the others with theirs: the
    larger of the two is what privacy is amplified by.
    """
    own = subsample.sample
    if full is None:
        return own
    drawn = subsample.of_full(full)
    rates = [own.rate, drawn.sum() / full.sum()]
    if not full.all():
        rates.append((~drawn).sum() / (~full).sum())
    return replace(own, rate=float(max(rates)))  # `release` stays one object for both


def sample_facts(sample: Sample | None) -> dict[str, Any]:
    """For the provenance."""
    if sample is None:
        return {"subsample": None}
    facts = {"rows": sample.rows, "full_rows": sample.full_rows, "rate": sample.rate}
    return {"subsample": facts}
