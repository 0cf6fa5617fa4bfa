"""Makes an Explanation of values, with how they were made and what they cost.

Letters: N rows, P players, K outputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.methods.amortized.calling import AmortizedValues
from xaijax.methods.amortized.fitted import FittedNetwork
from xaijax.methods.amortized.questions import Teacher
from xaijax.methods.record import VERSIONS, functions_of, instances, numbers
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import Fingerprint, fingerprint_of

ROUNDINGS = 4  # for each of the P corrected sums, and for their total


def explanation(
    question: Teacher,
    fitted: FittedNetwork,
    X: Any,
    rows: Any,
    answered: AmortizedValues,
    share: float,
    so_far: int,
    seed: int,
) -> Explanation:
    """The explanation: values, stats and provenance; so_far: rows explained, including these."""
    single = fitted.outputs is None
    errors, values = answered.std_errors, answered.values
    base = np.repeat(fitted.base[None], len(values), axis=0)
    residual, bound = _efficiency(base, answered)
    cost = fitted.cost
    stats = {
        "estimator": "amortized",
        "model_rows": answered.model_rows,
        "seconds": sum(answered.seconds),
        "network_seconds": answered.seconds[0],
        "fallback_seconds": answered.seconds[1],
        "label_model_rows": cost.model_rows,
        "label_seconds": cost.label_seconds,
        "training_seconds": cost.training_seconds,
        "break_even": cost.break_even(share),
        "rows_so_far": so_far,
        "fallback": share,
        "fallback_rows": answered.sent,
        "exact_rows": answered.exact,
        "outside_rows": answered.outside,
        **fitted.judged,
        **answered.drawn,
        "seed": seed,
        "backend": question.explainer.model.backend,
        **_digests(fitted),
        **functions_of(question.explainer.quantity),
        "efficiency_residual": residual,
        "efficiency_bound": bound,
    }
    return Explanation(
        **numbers(values, base, errors, single),
        **instances(X, rows),
        feature_names=fitted.fingerprint.question["players"],
        output_names=fitted.outputs,
        exact=bool(answered.exact.all()),
        kind="amortized",
        stats=stats,
        provenance={
            **_facts(fitted),
            "estimator": "amortized",
            "labels": fitted.facts.get("estimator"),
            "confidence": fitted.confidence,
            "instances": len(values),
            "versions": VERSIONS,
        },
        bounds=answered.bounds,
    )


def fingerprint(fitted: FittedNetwork) -> Fingerprint:
    """Returns the fingerprint of all explanations by this network."""
    return fingerprint_of(
        _digests(fitted),
        _facts(fitted),
        feature_names=fitted.fingerprint.question["players"],
        output_names=fitted.outputs,
        kind="amortized",
    )


def _facts(fitted: FittedNetwork) -> dict[str, Any]:
    return {**fitted.facts, "method": "AmortizedExplainer"}


def _digests(fitted: FittedNetwork) -> dict[str, str | None]:
    learned = fitted.fingerprint
    return {"fingerprint": learned.rows, "model_fingerprint": next(iter(learned.model), None)}


def _efficiency(base: np.ndarray, answered: AmortizedValues) -> tuple[np.ndarray, np.ndarray]:
    """(|base + sum of values - f(x)|, its rounding bound) of the worst output, [N] each.

    The network's sums are corrected in float64: P + 1 sums of at most the size of all values, with
    f(x) and the base value. Rows that the explainer answered have its float32 roundings.
    """
    values, full = answered.values, answered.full
    residual = np.abs(base + values.sum(axis=1) - full).max(axis=1)
    size = (np.abs(values).sum(axis=1) + np.abs(base) + np.abs(full)).max(axis=1)
    unit = np.where(answered.sent, np.finfo(np.float32).eps, np.finfo(np.float64).eps)
    return residual, ROUNDINGS * (values.shape[1] + 1) * unit * size


def warn_below(fitted: FittedNetwork, share: float, so_far: int) -> None:
    """Warns if the explainer itself would have been faster for all rows so far."""
    needed = fitted.cost.break_even(share)
    if so_far >= needed:
        return
    cost, worth = fitted.cost, f"it pays from {needed:,} rows on with fallback={share:g}"
    if needed == float("inf"):
        worth = "the explainer itself is as fast for any number of rows"
    checks.warn(
        f"{so_far:,} rows have been explained by a network that took "
        f"{cost.label_seconds + cost.training_seconds:.3g} s to fit; {worth}. "
        f"The explainer itself needs {cost.explained_seconds:.2g} s a row."
    )
