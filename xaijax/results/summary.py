"""Describes an Explanation in a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xaijax.results.describe_question import counted_outputs, output_of_each

if TYPE_CHECKING:
    from xaijax.results.explanation import Explanation
    from xaijax.results.interactions import Interactions
    from xaijax.results.private_explanation import PrivateExplanation

TOP = 6  # players in the repr

SHOWN_STATS = {
    "estimator": "estimator {}",
    "budget": "budget {:,}",
    "model_rows": "{:,} model rows",
    "model_calls": "{:,} model calls",
    "seconds": "{:.3g} s",
    "compile_seconds": "compiled in {:.3g} s",
    "backend": "backend {}",
    "structure": "structure {}",
}


def mean_abs(explained: Explanation | PrivateExplanation) -> np.ndarray:
    """Mean |value| over the instances: [P] or [P, K]; NaN without instances."""
    if len(explained.values) == 0:
        return np.full(explained.values.shape[1:], np.nan)
    return np.abs(explained.values).mean(axis=0)


def ranking(size: np.ndarray) -> np.ndarray:
    """Positions [P] from the largest to the smallest of size [P] or [P, K], ties in order."""
    total = size if size.ndim == 1 else size.sum(axis=1)
    return np.argsort(-total, kind="stable")


def largest(values: np.ndarray, names: Sequence[str]) -> str:
    """Returns the names and the sizes of the largest mean |values| of [N, P] or [N, P, K]."""
    size = np.abs(values).mean(axis=0)
    size = size if size.ndim == 1 else size.mean(axis=1)
    return ", ".join(f"{names[j]} {size[j]:.4g}" for j in ranking(size)[:TOP])


def text_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns the lines of a table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]


def how_sure(explained: Explanation) -> str:
    """Says exact, or sampled with the largest standard error, or why there is none."""
    if explained.bounds is not None:
        return _bounded(explained, explained.bounds)
    errors = explained.std_errors
    if explained.exact and errors is not None:
        return f"exact; largest bootstrap standard error {errors.max():.2g}"
    return sure_of(explained)


def _bounded(explained: Explanation, bounds: np.ndarray) -> str:
    """The text for values with a bound for each row."""
    exact = int((bounds == 0).sum())
    known = bounds[np.isfinite(bounds) & (bounds > 0)]
    bound = "no bounds"
    if known.size:
        bound = f"bounds of a row {np.median(known):.2g} (median) to {known.max():.2g}"
    level = explained.provenance.get("confidence")
    held = f", held with {100 * level:g} %" if isinstance(level, float) else ""
    note = f" ({exact:,} of {len(bounds):,} instances exact)" if exact else ""
    return f"predicted{note}, {bound}{held}"


def sure_of(explained: Explanation | Interactions) -> str:
    """The same without a bootstrap."""
    errors, N = explained.std_errors, len(explained.values)
    answered = finite_instances(explained.values)
    untold = ""
    if not answered.all():
        untold = f"; the answers of {int((~answered).sum()):,} of {N:,} instances are not finite"
    if explained.exact:
        return f"exact{untold}"
    if errors is None:
        return f"not exact, {_without_errors(explained)}{untold}"
    text = "sampled"
    exact_rows, drawn = explained.stats.get("exact_rows"), answered
    if isinstance(exact_rows, np.ndarray) and exact_rows.any():
        drawn = answered & ~exact_rows  # an exact instance's 0 is not an error of a sampled one
        text += f" ({int(exact_rows.sum()):,} of {N:,} instances exact)"
    largest, missing = [], []
    for of, part in _parts(explained, errors[drawn]):
        finite = part[np.isfinite(part)]
        if finite.size:
            largest.append(f"{of}{finite.max():.2g}")
        lacking = int(np.isnan(part).any(axis=tuple(range(1, part.ndim))).sum())
        if lacking:
            reason = _missing_reason(explained, of)
            missing.append(f"; no standard errors {of}for {lacking:,} of {N:,} instances: {reason}")
    if largest:
        text += f", largest standard error {', '.join(largest)}"
    return text + "".join(missing) + untold


def _without_errors(explained: Explanation | Interactions) -> str:
    """Says why there are no standard errors, and what there is instead."""
    apart = explained.stats.get("completeness")
    if not isinstance(apart, np.ndarray) or not np.isfinite(apart).any():
        return "without standard errors"
    return f"by quadrature: base value + values is off by at most {np.nanmax(np.abs(apart)):.2g}"


def finite_instances(values: np.ndarray) -> np.ndarray:
    """Instances whose values are all finite, bool [N]; a model may have no answer for some."""
    return np.isfinite(values).all(axis=tuple(range(1, values.ndim)))


def _parts(
    explained: Explanation | Interactions, errors: np.ndarray
) -> list[tuple[str, np.ndarray]]:
    """("of whom", their errors); players and larger sets separately if not all are known."""
    sizes = np.array([len(S) for S in getattr(explained, "sets", ())])
    if not np.isnan(errors).any() or len(np.unique(sizes > 1)) < 2:
        return [("", errors)]
    joined = "pairs" if sizes.max() == 2 else "larger sets"
    return [("of players ", errors[:, sizes == 1]), (f"of {joined} ", errors[:, sizes > 1])]


def headline(explained: Explanation) -> str:
    """Returns the method, the index, and the numbers of instances, players and outputs."""
    method = explained.provenance.get("method")
    head = explained.kind if method is None else f"{method}, {explained.kind}"
    return headline_of(explained, f"Explanation ({head})", "players")


def headline_of(explained: Explanation | Interactions, head: str, second: str, of: str = "") -> str:
    """Returns the head, the size of each axis, and the output; second: the noun of axis 1."""
    shape = explained.values.shape
    axes = zip(shape, ["instances", second, "outputs"][: len(shape)], strict=True)
    text = f"{head}: {' x '.join(f'{size:,} {axis}' for size, axis in axes)}{of}"
    selected = explained.provenance.get("selected_output")
    if outputs := output_of_each(explained.stats, shape[0]):
        selected = counted_outputs(outputs)
        if len({*outputs}) > 1:
            return f"{text}, output: {selected}"
    return text if selected is None else f"{text}, output {selected!r}"


def describe(explained: Explanation) -> str:
    """The text of `repr(explanation)`."""
    values = explained.values
    lines = [headline(explained), f"  {how_sure(explained)}"]
    if explained.present is not None and len(values):
        # One number is a different player in each instance, so a mean over them is meaningless.
        counts = explained.present.sum(axis=1)
        lines.append(f"  players of each instance: {counts.min():,} to {counts.max():,}")
    elif finite_instances(values).any():
        text = largest(values[finite_instances(values)], explained.feature_names)
        more = f", and {values.shape[1] - TOP} more" if values.shape[1] > TOP else ""
        lines.append(f"  mean |value|: {text}{more}")
    meaning = explained.provenance.get("meaning")
    if meaning is not None:
        lines.append(f"  {meaning}")
    return "\n".join(lines + shown_stats(explained))


def shown_stats(explained: Explanation | Interactions) -> list[str]:
    """Summary of the run, in at most one line."""
    shown = [
        _format(form, explained.stats[key])
        for key, form in SHOWN_STATS.items()
        if explained.stats.get(key) is not None
        and not (key == "compile_seconds" and explained.stats[key] == 0)  # nothing was compiled
    ]
    return ["  " + ", ".join(shown)] if shown else []


def _missing_reason(explained: Explanation | Interactions, of: str) -> str:
    if explained.provenance.get("method") == "shapiq":
        return "shapiq gives none"
    estimator = str(explained.stats.get("estimator", ""))
    P = len(explained.feature_names)
    reasons = {
        "permutation": "fewer than 2 antithetic pairs of permutations; raise budget",
        "kernel": f"fewer than P + 20 = {P + 20} complementary pairs; raise budget",
        "unbiased-pairs": "of a size of coalitions one was drawn; raise budget",
        "leverage": f"fewer than P + 20 = {P + 20} complementary pairs; raise budget",
    }
    if of == "of players " and estimator in ("pairs", "unbiased-pairs"):
        estimator = "kernel"  # which has them
    return reasons.get(estimator, "the budget leaves no degree of freedom; raise budget")


def _format(form: str, value: object) -> str:
    try:
        return form.format(value)
    except (TypeError, ValueError):  # merged parts may hold a list in place of a number
        return form.partition("{")[0] + str(value) + form.partition("}")[2]
