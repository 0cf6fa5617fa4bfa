"""What the data did to mean values, and what the model did: two explainers, two sets of rows.

The mean value of a player is m(explainer, rows). What changed, m(eb, Xb) - m(ea, Xa), is split as
the Shapley value of a game of two players, data and model: each gets the mean of what it adds alone
and what it adds after the other,

    of data  = [m(ea, Xb) - m(ea, Xa) + m(eb, Xb) - m(eb, Xa)] / 2,
    of model = [m(eb, Xa) - m(ea, Xa) + m(eb, Xb) - m(ea, Xb)] / 2.

All four are means over the two samples of rows, so the intervals of the parts are those of means.
Where the data did nothing, the rows of both samples have one distribution and may be exchanged;
where the model did nothing, the explainers may be exchanged in each row, which turns the sign of
what the model did to it.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.certainty.simultaneous import intervals
from xaijax.certainty.two_sides import flat, rounding, same_data, shared_error
from xaijax.core.errors import InputError
from xaijax.results.comparison import Part, Split
from xaijax.results.explanation import Explanation
from xaijax.results.same_question import other_mark, refuse_other_numbers


def split_of(
    a: Explanation, b: Explanation, explainers: Any, same: bool, confidence: float
) -> Split:
    """Both parts, with intervals that hold together; same: whether instances are the same."""
    ea, eb = _two(explainers)
    crossed = (b, a) if same and same_data(a, b) else (_asked(eb, a, b), _asked(ea, b, a))
    old, old_by_b, new_by_a, new = (flat(one.values) for one in (a, crossed[0], crossed[1], b))
    four = (a, *crossed, b)
    error = np.sum([shared_error(one, confidence) for one in four], axis=0) / 2
    both = np.concatenate([error, error]) ** 2
    rows = [
        np.concatenate([-(old + old_by_b), old_by_b - old], axis=1) / 2,
        np.concatenate([new_by_a + new, new - new_by_a], axis=1) / 2,
    ]
    if same:  # instance i is in both samples, whether its data changed or not
        found, half = intervals([rows[0] + rows[1]], both, confidence)
    else:  # each part at half the chance to be wrong, so that both hold together (Bonferroni)
        by_data, by_model = zip(*(np.split(one, 2, axis=1) for one in rows), strict=True)
        level = (1 + confidence) / 2
        data = intervals(by_data, error**2, level, exchanged=True)
        model = intervals(by_model, error**2, level)
        found, half = (np.concatenate(one) for one in zip(data, model, strict=True))
    half = half + np.where((half > 0) | (found != 0), sum(rounding(one) for one in four) / 2, 0.0)
    shape = a.values.shape[1:]
    parts = [
        Part(*(one.reshape(shape) for one in (mean, mean - h, mean + h)))
        for mean, h in zip(np.split(found, 4), np.split(half, 4), strict=True)
    ]
    return Split(*parts)


def _two(explainers: Any) -> tuple[Any, Any]:
    if not isinstance(explainers, tuple | list) or len(explainers) != 2:
        raise InputError("explainers: give two, (explainer of a, explainer of b).")
    if not all(callable(one) for one in explainers):
        raise InputError("explainers: both must be explainers, called as explainer(X).")
    return explainers[0], explainers[1]


def _asked(
    explainer: Callable[[Any], Explanation], rows_of: Explanation, like: Explanation
) -> Explanation:
    """The instances of one explanation by the other's explainer, in the other's form."""
    if rows_of.data is None:
        raise InputError("explainers: an explanation without data has no rows to explain again.")
    if "outputs" in rows_of.stats or "outputs" in like.stats:
        raise InputError(
            "explainers: each instance has an output of its own (outputs=), which another model "
            "need not have. Explain one output of all instances: explanation[:, :, output]."
        )
    found = explainer(rows_of.data)
    selected = like.provenance.get("selected_output")
    if found.output_names is not None and selected is not None and like.output_names is None:
        found = found[:, :, selected]
    if found.feature_names != like.feature_names or found.values.ndim != like.values.ndim:
        raise InputError(
            "explainers: they answer with other players or outputs than a and b have. Give the "
            "explainers that made a and b, in this order."
        )
    refuse_other_numbers(found, like, ("the answer of one of explainers", "what it stands for"))
    if other_mark(found.stats, like.stats) is not None:
        raise InputError(
            "explainers: one has another model or background than the explanation that it stands "
            "for. Give the explainers that made a and b, in this order."
        )
    if not found.exact and (found.std_errors is None or np.isnan(found.std_errors).any()):
        raise InputError("explainers: a sampled answer has no standard errors; raise budget=.")
    return found
