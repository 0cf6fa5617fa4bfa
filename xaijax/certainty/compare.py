"""`compare`: what changed between two explanations of the same players, and how sure that is.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.certainty.simultaneous import intervals
from xaijax.certainty.split import split_of
from xaijax.certainty.two_sides import (
    flat,
    paired,
    refuse_others,
    rounding,
    same_draws,
    shared_error,
)
from xaijax.core.intervals import checked_level
from xaijax.core.public import public
from xaijax.results.comparison import Comparison
from xaijax.results.explanation import Explanation
from xaijax.results.same_question import refuse_other_outputs, shared_amount


@public
def compare(
    a: Explanation,
    b: Explanation,
    confidence: float = 0.95,
    *,
    explainers: tuple[Callable[[Any], Explanation], Callable[[Any], Explanation]] | None = None,
    paired: bool | None = None,
) -> Comparison:
    """How the players' values changed from one explanation to another of the same players.

    Two models on the same rows, one model on two sets of rows, or both at two times. The shift of a
    player is its mean value of b less that of a; the shift of its size is the same of mean |value|.
    Instances count as samples of many. The 2 P intervals (of K outputs 2 P K) hold all at once, at
    the confidence asked: that an interval without 0 is met where nothing changed happens in at most
    5 % of comparisons, not for each player. That is so for any number of instances, also for 8
    against 200: intervals are at least as wide as a permutation test needs (the docstring of
    `xaijax.certainty.simultaneous` derives it). Few instances cannot show a change: at 95 % it
    takes 6 paired ones, or two sides that can be exchanged in 20 ways (4 and 4, 3 and 4, 2 and 5).
    Where both are of the same instances the differences of the instances are looked at, which sees
    much smaller shifts.

    Both must be amounts of one thing: of the same quantity, link, output and class. With
    `outputs=` each instance has an output of its own: of paired instances it is the same on both
    sides, of others the sides have the same outputs.

    Intervals cover which instances were drawn, sampled values' errors, and float32's rounding.
    Errors of sampled values are bounded by the case that all instances' errors go one way, and
    with one seed on both sides that the sides' errors do not cancel: intervals are then at most too
    wide. The backgrounds are taken as given.

    Args:
        a, b: `Explanation` of the same players, quantity, link, outputs and index, of at least 2
            instances each.
        confidence: float within 0 and 1.
        explainers: None, or (explainer of a, explainer of b). Then the rows of a are explained by
            the explainer of b and the reverse, and `Comparison.split` says what the data did and
            what the model (with its background) did. Of the same instances nothing is asked: the
            model did all of it.
        paired: whether instance i of a is instance i of b. None: found by their names (of a frame's
            index only where the rows are equal too), else by their data.

    Returns:
        A `Comparison`.

    Raises:
        InputError, InputTypeError: explanations that cannot be compared, or an argument that is not
            accepted; and what an explainer raises.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> old = xj.Explainer(xj.as_model(lambda X: X[:, 0] + X[:, 1]), np.zeros((1, 2)))
        >>> new = xj.Explainer(xj.as_model(lambda X: X[:, 0] + 2 * X[:, 1]), np.zeros((1, 2)))
        >>> compared = xj.compare(old(X), new(X))
        >>> compared.paired, compared.changed
        (True, ('x1',))

    References:
        Hothorn, Bretz and Westfall, "Simultaneous inference in general parametric models"
        (Biometrical Journal 2008). Chung and Romano, "Exact and asymptotically robust permutation
        tests" (Annals of Statistics 2013).
    """
    level = checked_level(confidence, "confidence")
    refuse_others(a, b)
    same = _paired(a, b, paired)
    refuse_other_outputs(a, b, ("a", "b"), same)
    errors = [shared_error(one, level) for one in (a, b)]
    own, other = errors
    known = (own + other) ** 2 if same_draws(a, b) else own**2 + other**2
    old, new = flat(a.values), flat(b.values)
    sides = [new - old] if same else [new, -old]
    found, half = intervals(sides, known, level, exchanged=not same)
    half = half + np.where((half > 0) | (found != 0), rounding(a) + rounding(b), 0.0)
    shape = a.values.shape[1:]
    shift, size_shift = (one.reshape(shape) for one in np.split(found, 2))
    half, size_half = (one.reshape(shape) for one in np.split(half, 2))
    rows = row_shift = None
    if same:
        row_shift = np.sqrt(((b.values - a.values).reshape(len(a), -1) ** 2).sum(axis=1))
        rows = np.argsort(-row_shift, kind="stable")
    return Comparison(
        feature_names=a.feature_names,
        output_names=a.output_names,
        kind=a.kind,
        confidence=level,
        paired=same,
        instances=(len(a), len(b)),
        shift=shift,
        low=shift - half,
        high=shift + half,
        size_shift=size_shift,
        size_low=size_shift - size_half,
        size_high=size_shift + size_half,
        sizes=np.stack([np.abs(one.values).mean(axis=0) for one in (a, b)]),
        rows=rows,
        row_shift=row_shift,
        split=None if explainers is None else split_of(a, b, explainers, same, level),
        provenance=shared_amount(a, b),
    )


_paired = paired  # which the argument of this name hides
