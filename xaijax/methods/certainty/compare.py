"""`compare`: tests what changed between two explanations of the same players.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public
from xaijax.core.sequences import checked_level
from xaijax.methods.certainty.simultaneous import intervals
from xaijax.results.comparison import Comparison, ShiftPart, ShiftSplit
from xaijax.results.explanation import Explanation
from xaijax.results.same_question import refuse_other_numbers, refuse_other_outputs, shared_amount
from xaijax.results.top import half_widths_together
from xaijax.tables.rows import rows_of

GIVE = "Give the explainers that made a and b, in this order."


def refuse_others(a: Any, b: Any) -> None:
    """Raises InputError or InputTypeError for anything but two explanations of the same players."""
    for name, side in (("a", a), ("b", b)):
        checks.passed(side, name, Explanation, "an xaijax Explanation")
        if len(side) < 2:
            raise InputError(f"{name}: it has {len(side)} instances; a spread needs at least 2.")
        if side.present is not None:
            raise InputError(
                f"{name}: its instances have players of their own. Explain both by shared players."
            )
        if not np.isfinite(side.values).all():
            raise InputError(f"{name}: it has values that are not finite; leave such rows out.")
        if not side.exact and (side.std_errors is None or np.isnan(side.std_errors).any()):
            raise InputError(
                f"{name}: it has no standard errors for some {side.kind!r} values. Raise budget= "
                "of its Explainer, give samples= to a GradientExplainer, or compare exact values."
            )
    if a.feature_names != b.feature_names:
        raise InputError(
            f"a and b are of different players: {a.feature_names} and {b.feature_names}."
        )
    refuse_other_numbers(a, b, ("a", "b"))
    if a.kind != b.kind:
        raise InputError(f"a holds {a.kind!r} values and b {b.kind!r} ones; ask one index of both.")


def _paired(a: Explanation, b: Explanation, said: Any) -> bool:
    """Whether instance i of a is instance i of b.

    said: True, False, or None. None: determined by the instances' names if both have them (names
        from a frame's index count only with equal data), else by the data. It raises InputError if
        neither decides, or if `said` is True and the instances cannot be paired.
    """
    if said is not None:
        if checks.yes_or_no(said, "paired") and len(a) != len(b):
            raise InputError(f"paired=True, but a has {len(a):,} instances and b {len(b):,}.")
        return said
    if len(a) != len(b):
        return False
    if a.instance_names is not None and b.instance_names is not None:
        if a.instance_names != b.instance_names:
            return False
        # Names that the user gave identify an instance, whatever changed. Two frames may have one
        # index by chance: their rows decide.
        said = a.instance_index is None and b.instance_index is None
        return said or a.data is None or b.data is None or same_data(a, b)
    if a.data is None or b.data is None:
        raise InputError(
            "a and b have equally many instances, and one has no data. Say paired=True or False."
        )
    return same_data(a, b)


def same_data(a: Explanation, b: Explanation) -> bool:
    """Whether both hold the same rows in the same order; False where one holds none."""
    if a.data is None or b.data is None:
        return False
    mine, other = rows_of(a.data), rows_of(b.data)
    return mine.kind == other.kind and all(
        x == y for x, y in zip(mine.texts(), other.texts(), strict=True)
    )


def flat(values: np.ndarray) -> np.ndarray:
    """Statistics of mean values, then of mean sizes: [N, P] or [N, P, K] -> [N, 2 P K]."""
    rows = values.reshape(len(values), -1)
    return np.concatenate([rows, np.abs(rows)], axis=1)


def shared_error(explanation: Explanation, confidence: float) -> np.ndarray:
    """Bound on the sampling error of the mean of all instances' values, [2 P K].

    All instances share coalitions, so errors of their values may have one sign: the mean of the
    standard errors bounds that of the mean. | |x + e| - |x| | is at most |e|. Errors with few
    degrees of freedom, or of draws that a rule ended, count as normal errors with equally wide
    intervals at this confidence, for all values of an instance together.
    """
    if explanation.exact or explanation.std_errors is None:
        return np.zeros(2 * explanation.values[0].size)
    from scipy.special import ndtri  # noqa: PLC0415 - `import xaijax` does not load scipy

    half, _ = half_widths_together(explanation, confidence)
    normal = float(ndtri(1 - (1 - confidence) / max(1, explanation.values[0].size) / 2))
    wide = np.where(np.isfinite(half), half / normal, 0.0)
    error = np.maximum(explanation.std_errors, wide).mean(axis=0).reshape(-1)
    return np.concatenate([error, error])


def rounding(explanation: Explanation) -> float:
    """Bound on the rounding error of a mean value, if the run recorded it; else 0."""
    bound = explanation.stats.get("efficiency_bound")
    return float(np.mean(bound)) if isinstance(bound, np.ndarray) else 0.0


def same_draws(a: Explanation, b: Explanation) -> bool:
    """Whether the errors of two sampled explanations may be correlated."""
    seeds = [side.stats.get("seed") for side in (a, b)]
    return not (a.exact or b.exact) and (None in seeds or seeds[0] == seeds[1])


@public
def compare(
    a: Explanation,
    b: Explanation,
    confidence: float = 0.95,
    *,
    explainers: tuple[Callable[[Any], Explanation], Callable[[Any], Explanation]] | None = None,
    paired: bool | None = None,
) -> Comparison:
    """Compares the players' values of two explanations, with simultaneous confidence intervals.

    It compares two models on the same rows, one model on two sets of rows, or both at two times.
    The shift of a player is its mean value in b minus that in a; the shift of its size is the same
    for mean |value|. Instances count as samples of a larger population. The 2 P intervals (2 P K
    with K outputs) hold simultaneously with probability `confidence`: if nothing changed, at most 5
    % of comparisons (at 0.95) have any interval without 0. This guarantee holds for any number of
    instances, also for 8 against 200: intervals are at least as wide as a permutation test needs
    (derived in `xaijax.methods.certainty.simultaneous`). Few instances cannot show a change: 95 %
    needs 6 paired instances, or two sides that can be exchanged in 20 ways (4 and 4, 3 and 4, 2 and
    5). If both explain the same instances, `compare` uses paired differences, which detects much
    smaller changes.

    Both must explain the same quantity, link, output and class. With `outputs=` each instance has
    an output of its own: paired instances must have the same output on both sides, and unpaired
    sides must have the same outputs.

    Intervals cover the draw of the instances, the errors of sampled values, and rounding in
    float32. Errors of sampled values are bounded by the case that all instances' errors have one
    sign and, with one seed on both sides, that the sides' errors do not cancel: intervals are then
    at most too wide. The backgrounds are taken as given.

    Args:
        a, b: `Explanation` of the same players, quantity, link, outputs and index, of at least 2
            instances each.
        confidence: float between 0 and 1. Probability that all intervals hold.
        explainers: None, or (explainer of a, explainer of b). If given, each explainer also
            explains the rows of the other side, and `Comparison.split` divides the shift into the
            effect of the data and that of the model (with its background). The same instances are
            not explained again: the model has the whole effect.
        paired: whether instance i of a is instance i of b. None: determined by their names (names
            from a frame's index count only if the rows are equal too), else by their data.

    Returns:
        A `Comparison`.

    Raises:
        InputError, InputTypeError: the explanations cannot be compared, or an argument is not
            accepted; errors of an explainer pass through.

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
    errors = [shared_error(side, level) for side in (a, b)]
    mine, other = errors
    known = (mine + other) ** 2 if same_draws(a, b) else mine**2 + other**2
    old, new = flat(a.values), flat(b.values)
    sides = [new - old] if same else [new, -old]
    shifts, half = intervals(sides, known, level, exchanged=not same)
    half = half + np.where((half > 0) | (shifts != 0), rounding(a) + rounding(b), 0.0)
    shape = a.values.shape[1:]
    shift, size_shift = (part.reshape(shape) for part in np.split(shifts, 2))
    half, size_half = (part.reshape(shape) for part in np.split(half, 2))
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
        sizes=np.stack([np.abs(side.values).mean(axis=0) for side in (a, b)]),
        rows=rows,
        row_shift=row_shift,
        split=None if explainers is None else split_of(a, b, explainers, same, level),
        provenance=shared_amount(a, b),
    )


# The mean value of a player is m(explainer, rows). The change, m(eb, Xb) - m(ea, Xa), is split by
# the Shapley value of a game of two players, data and model: each gets the mean of its effect alone
# and its effect after the other,
#
#     of data  = [m(ea, Xb) - m(ea, Xa) + m(eb, Xb) - m(eb, Xa)] / 2,
#     of model = [m(eb, Xa) - m(ea, Xa) + m(eb, Xb) - m(ea, Xb)] / 2.
# All four are means over the two samples of rows, so the intervals of the parts are those of means.
# If the data have no effect, the rows of both samples have one distribution and may be exchanged;
# if the model has no effect, the explainers may be exchanged in each row, which flips the sign of
# the model's effect on it.


def split_of(
    a: Explanation, b: Explanation, explainers: Any, same: bool, confidence: float
) -> ShiftSplit:
    """Returns both parts, with simultaneous intervals; same: whether the instances are the same."""
    two = isinstance(explainers, tuple | list) and len(explainers) == 2
    if not two or not all(map(callable, explainers)):
        raise InputError(
            "explainers: give two, (explainer of a, explainer of b), each called as explainer(X)."
        )
    ea, eb = explainers
    crossed = (b, a) if same and same_data(a, b) else (_crossed(eb, a, b), _crossed(ea, b, a))
    old, old_by_b, new_by_a, new = (flat(side.values) for side in (a, crossed[0], crossed[1], b))
    four = (a, *crossed, b)
    error = np.sum([shared_error(side, confidence) for side in four], axis=0) / 2
    both = np.concatenate([error, error]) ** 2
    rows = [
        np.concatenate([-(old + old_by_b), old_by_b - old], axis=1) / 2,
        np.concatenate([new_by_a + new, new - new_by_a], axis=1) / 2,
    ]
    if same:  # instance i is in both samples, whether its data changed or not
        shifts, half = intervals([rows[0] + rows[1]], both, confidence)
    else:  # each part with half the error probability, so that both hold together (Bonferroni)
        by_data, by_model = zip(*(np.split(part, 2, axis=1) for part in rows), strict=True)
        level = (1 + confidence) / 2
        data = intervals(by_data, error**2, level, exchanged=True)
        model = intervals(by_model, error**2, level)
        shifts, half = (np.concatenate(pair) for pair in zip(data, model, strict=True))
    half = half + np.where((half > 0) | (shifts != 0), sum(map(rounding, four)) / 2, 0.0)
    shape = a.values.shape[1:]
    parts = [
        ShiftPart(*(bound.reshape(shape) for bound in (mean, mean - h, mean + h)))
        for mean, h in zip(np.split(shifts, 4), np.split(half, 4), strict=True)
    ]
    return ShiftSplit(*parts)


def _crossed(
    explainer: Callable[[Any], Explanation], rows_of: Explanation, like: Explanation
) -> Explanation:
    """Explains the instances of one explanation with the other's explainer, in the other's form."""
    if rows_of.data is None:
        raise InputError("explainers: an explanation without data has no rows to explain again.")
    if "outputs" in rows_of.stats or "outputs" in like.stats:
        raise InputError(
            "explainers: each instance has its own output. Explain explanation[:, :, output]."
        )
    result = explainer(rows_of.data)
    selected = like.provenance.get("selected_output")
    if result.output_names is not None and selected is not None and like.output_names is None:
        result = result[:, :, selected]
    if result.feature_names != like.feature_names or result.values.ndim != like.values.ndim:
        raise InputError(
            f"explainers: their results have other players or outputs than a and b. {GIVE}"
        )
    refuse_other_numbers(result, like, ("the result of one of explainers", "its counterpart"))
    if not {"rows", "model"}.isdisjoint(result.fingerprint.why_not(like.fingerprint)):
        raise InputError(
            f"explainers: one has another model or background than its explanation a or b. {GIVE}"
        )
    if not result.exact and (result.std_errors is None or np.isnan(result.std_errors).any()):
        raise InputError("explainers: a sampled result has no standard errors; raise budget=.")
    return result
