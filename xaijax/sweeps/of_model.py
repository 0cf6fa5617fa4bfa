"""What tells the model of one run from that of another, as JSON: options, digests and answers.

A second call may come from another process, another platform or a function written anew. So what
can be read is compared exactly: code, parameters, what a function closes over, a fitted estimator.
Answers to a few rows, which rounding moves, stand beside it for what cannot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from xaijax.core.checks import warn
from xaijax.methods.fingerprint import digest_of
from xaijax.models import Model
from xaijax.models.identity.identity import portable_reads
from xaijax.tables.rows import rows_of

PROBED = 32  # rows that the model's answers are compared on
ANSWERS = ("answers", "answers_over_X", "raised_over_X")  # the fields that `near` compares
MOVED = "changes when it is asked"
# By how much answers may differ, of their spread: as sums in another order do on one platform, and
# as products of fewer digits (TF32 has ten bits) do on another.
NEAR_HERE, NEAR_ELSEWHERE = 1e-5, 1e-3


def of_pair(embed: Any, head: Model, described: Callable[[Any], Any]) -> dict[str, Any]:
    """The fields of a model in two halves: what can be read of both, and no answers."""
    return {**of_model(head, None, described), "embed": held(embed)}


def of_model(
    model: Model,
    rows: Any,
    described: Callable[[Any], Any],
    over: Any = None,
    numbers: Sequence[int] = (),
) -> dict[str, Any]:
    """The fields of a model; described: a value of its options as JSON has it.

    rows: the first rows; over: some rows spread over X, which have these `numbers` in X. The
    answers to both become fields; None adds none.
    """
    found = model.recipe
    given = {} if found is None else {**found.given, **found.changes}
    told = {
        name: described(one) for name, one in given.items() if name not in ("f", "params", "state")
    }
    function = given.get("f")
    told["function"] = getattr(function, "__qualname__", type(function).__qualname__)
    told["held"] = held(function)
    code = _code(function)
    if code is not None:
        told["code"] = digest_of(code)
    leaves = jax.tree.leaves(model.params)
    if leaves and model.comparison is None:
        own = hashlib.sha256()
        for leaf in leaves:
            own.update(digest_of(np.asarray(leaf)).encode())
        told["params"] = own.hexdigest()
    if model.deterministic and rows is not None:
        told["platform"] = jax.default_backend() if model.backend == "jax" else "host"
        told["answers"] = _answers(model, rows)
        if over is not None:
            told["answers_over_X"], told["raised_over_X"] = _answers_over(model, over, numbers)
        # What asking changes is a log or a counter of the function's own, and no part of it.
        after = held(function)
        told["held"] = {k: v if after.get(k) == v else MOVED for k, v in told["held"].items()}
    return told


def near(there: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Whether the answers of two runs are those of one model, as far as they show it."""
    return all(_near(there, here, name) for name in ANSWERS)


def _near(there: Mapping[str, Any], here: Mapping[str, Any], name: str) -> bool:
    a, b = there.get(name), here.get(name)
    if a == b or (name.endswith("_over_X") and None in (a, b)):  # asked here and not there
        return True
    if isinstance(a, Mapping):  # other rows raise now, or otherwise
        return False
    try:
        first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    except (TypeError, ValueError):  # labels
        return False
    if first.shape != second.shape or not first.size:
        return False
    spread = np.ptp(first[np.isfinite(first)]) if np.isfinite(first).any() else 0.0
    same = there.get("platform") == here.get("platform")
    most = NEAR_HERE if same else NEAR_ELSEWHERE
    return bool(np.allclose(first, second, most, most * spread, equal_nan=True))


def _code(function: Any) -> Any:
    while not hasattr(function, "__code__"):
        inner = getattr(function, "func", None) or getattr(function, "__wrapped__", None)
        if inner is None:
            return None
        function = inner
    return function.__code__


def held(value: Any) -> dict[str, str]:
    """The digests of what a function's answers come from, by the name under which its code reads
    it. Not what it assigns or adds to itself: a counter is no part of the question.
    """
    return portable_reads(value).digests()


def _answers_over(
    model: Model, rows: Any, numbers: Sequence[int]
) -> tuple[list[Any], dict[str, str]]:
    """Answers to rows spread over X, and the kind of error by number of the rows that have none.

    A part that comes to such a row says why, and the parts before it are kept.
    """
    try:
        return _answers(model, rows), {}
    except Exception:  # the model's own, too
        answers: list[Any] = []
        raised: dict[str, str] = {}
    for place, number in enumerate(numbers):
        try:
            answers += _answers(model, rows_of(rows).part(place, place + 1))
        except Exception as error:
            raised[str(number)] = type(error).__qualname__
    if raised:
        kinds = ", ".join(f"{kind} for row {number}" for number, kind in raised.items())
        warn(
            f"The model raised {kinds} of X. A sweep asks the model for {len(numbers)} rows spread "
            "over X before the first part, so that a later call can compare the answers. The part "
            "that comes to such a row will fail; the parts before it are kept. Leave out the rows "
            "that the model does not take."
        )
    return answers, raised


def _answers(model: Model, rows: Any) -> Any:
    some = rows_of(rows).part(0, PROBED)
    if model.output == "label":
        return [str(one) for one in model.labels(some)]
    if model.loop == "jax" and model.reader is None and rows_of(some).is_frame:
        some = rows_of(some).matrix()
    # Fewer digits than float64 has: a file of numbers, read by people too.
    return [float(f"{one:.9g}") for one in np.ravel(model.predict(some))]
