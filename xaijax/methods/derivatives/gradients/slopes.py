"""Checks that a model has gradients, with errors for models without.

Letters: N instances, K outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, ModelOutputError
from xaijax.models.model import Model
from xaijax.models.queries.findings import Probe

CALLBACKS = ("pure_callback", "io_callback")
TREES = "xaijax_leaf_sums"  # the step of a trace that computes a translated tree
TRACED = (
    "Gradients need a model that JAX traces: a function of jax.numpy, a network, or an estimator "
    "that as_model translates to JAX. xaijax.as_jax of a host model calls back to Python, and has "
    "no derivative either. Explainer explains any model."
)


def refuse_model(model: Model) -> None:
    """Raises InputError or InputTypeError for a model without gradients; does not call it."""
    if model.output == "label":
        raise InputError(
            f"model: {model.name} answers with labels, which have no gradient. Say output='proba' "
            "or 'decision' in as_model."
        )
    if model.reader is not None and not model.reader.numbers_only:
        raise InputError(
            f"model: {model.name} reads text or categories, which have no lines. Use Explainer."
        )
    refuse_host(model)


def refuse_host(model: Model) -> None:
    """Raises InputError for a model on the host, or one that its comparison sent there."""
    if model.backend == "host":
        raise InputError(f"model: {model.name} runs on the host. {TRACED}")


def refuse_findings(model: Model, findings: Probe) -> None:
    """Raises InputError for what only the trace of a model shows."""
    if "float" not in findings.answer_dtype:
        raise InputError(
            f"model: {model.name} answers with {findings.answer_dtype}, labels or counts. Return "
            "the scores that they are made of."
        )
    names = set(_steps(findings.jaxpr))
    if names & set(CALLBACKS):
        raise InputError(f"model: {model.name} calls back to Python. {TRACED}")
    if TREES in names:
        raise InputError(
            f"model: {model.name} holds trees, whose answers change in steps. Use Explainer."
        )


def refuse_answers(answers: np.ndarray, of: str, allowed: bool) -> None:
    """Raises ModelOutputError for answers [M, K] that are not finite; of: for example "X row"."""
    wrong = np.flatnonzero(~np.isfinite(answers).all(axis=1))
    if len(wrong) and not allowed:
        answer = answers[wrong[0]][~np.isfinite(answers[wrong[0]])][0]
        raise ModelOutputError(
            f"the model returned {answer} for {of} {int(wrong[0])}. Fix the model, or say "
            "nonfinite='propagate' in as_model."
        )


def refuse_not_finite(values: np.ndarray, allowed: bool) -> None:
    """Raises ModelOutputError for values [N, P, K] that are not finite."""
    # A sum is finite if all of its numbers are, as long as they are far from the largest float.
    wrong = ~np.isfinite(values.sum(axis=1)).all(axis=1)
    if wrong.any() and not allowed:
        raise ModelOutputError(
            f"the gradients of X row {int(np.flatnonzero(wrong)[0])} are not finite somewhere on "
            "its lines. Fix the model, or say nonfinite='propagate' in as_model."
        )


BLOCK = 1 << 16  # values whose sizes are computed together, to limit memory
# Rounding of a float32 answer: by the model's last sum and product, and the two before them.
ROUNDING = 4 * float(np.finfo(np.float32).eps)
FAR = 0.05  # share of a row's change or values; a sum off by more gives a warning


def warn_of_steps(values: np.ndarray, full: np.ndarray, base: np.ndarray, drawn: bool) -> None:
    """Warns if gradients do not reflect how the answers change; values [N, P, K].

    full, base: the answers [N, K] to the instances and at the starts of the lines. Differences that
        rounding may cause are ignored. drawn: the standard errors say how far off a sum may be.
    """
    change, rounding = full - base, ROUNDING * (np.abs(full) + np.abs(base))
    if not values.any() and np.any(np.abs(change) > rounding):
        checks.warn(
            "all gradients are 0, though the answers to X and to the background differ: the model "
            "changes in steps (trees, rounding, a largest entry). These values are meaningless. "
            "Use Explainer."
        )
        return
    off = np.abs(change - values.sum(axis=1))
    size = np.maximum(np.abs(change), _sizes(values))
    far = int((off > np.maximum(FAR * size, rounding)).any(axis=1).sum())
    if far and not drawn:
        checks.warn(
            f"the values of {checks.count(far, 'instance')} are off by more than {100 * FAR:g} % "
            "in their sum (stats['completeness']). Raise steps=; where that does not help, the "
            "model changes in steps (rounding, a comparison), and gradients say nothing about it."
        )


def _sizes(values: np.ndarray) -> np.ndarray:
    """The sum of |values| [N, P, K] over players, [N, K]."""
    N, P, K = values.shape
    out, each = np.empty((N, K)), max(1, BLOCK // max(1, P * K))
    for first in range(0, N, each):
        out[first : first + each] = np.abs(values[first : first + each]).sum(axis=1)
    return out


def _steps(jaxpr: Any) -> Iterator[str]:
    """Names of all steps of a trace, and of the jitted functions in it."""
    for equation in jaxpr.eqns:
        yield equation.primitive.name
        yield str(equation.params.get("name", ""))
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else (value,):
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from _steps(inner)
