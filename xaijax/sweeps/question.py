"""The question of a run directory, as JSON: a second call resumes with it, or is refused.

Letters: N rows.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from xaijax.core.checks import warn
from xaijax.core.errors import InputError, InputTypeError, ResumeMismatchError
from xaijax.core.pickling import made_of
from xaijax.games.engine.plan import devices_of
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.measure.replacement.rows import weighted_rows
from xaijax.methods.amortized.explainer import AmortizedExplainer
from xaijax.methods.record import VERSIONS, digest_of
from xaijax.models import Model
from xaijax.models.identity.identity import portable_reads
from xaijax.players.players import PerInstancePlayers
from xaijax.results.fingerprint import Fingerprint
from xaijax.sweeps.inputs import digest_of_rows
from xaijax.tables.rows import rows_of

# A second call may come from another process, another platform or a newly written function. All
# that can be read is compared exactly: code, parameters, what a function closes over, a fitted
# estimator. Answers to a few rows, which rounding changes, cover what cannot be read.

PROBED = 32  # rows on which the model's answers are compared
ANSWERS = ("answers", "answers_over_X", "raised_over_X")  # the fields that `near` compares
MOVED = "changes when it is asked"
# How far answers may differ, relative to their spread: as sums in another order do on one platform,
# and as products of fewer digits (TF32 has ten bits) do on another.
NEAR_HERE, NEAR_ELSEWHERE = 1e-5, 1e-3


def of_model(
    model: Model,
    rows: Any,
    described: Callable[[Any], Any],
    over: Any = None,
    numbers: Sequence[int] = (),
    devices: Any = None,
) -> dict[str, Any]:
    """The fields of a model; described: converts a value of its options to JSON.

    rows: the first rows; over: some rows spread over X, which have these `numbers` in X. The
    answers to both become fields; None adds none. devices: as the explainer was given them.
    """
    recipe = model.recipe
    named = {} if recipe is None else {**recipe.arguments, **recipe.changes}
    fields = {
        name: described(v) for name, v in named.items() if name not in ("f", "params", "state")
    }
    function = named.get("f")
    fields["function"] = getattr(function, "__qualname__", type(function).__qualname__)
    fields["held"] = held(function)
    code = _code(function)
    if code is not None:
        fields["code"] = digest_of(code)
    leaves = jax.tree.leaves(model.params)
    if leaves and model.comparison is None:
        digest = hashlib.sha256()
        for leaf in leaves:
            digest.update(digest_of(np.asarray(leaf)).encode())
        fields["params"] = digest.hexdigest()
    if model.deterministic and rows is not None:
        jax_runs = model.backend == "jax"
        fields["platform"] = devices_of(devices)[0].platform if jax_runs else "host"
        fields["answers"] = _answers(model, rows)
        if over is not None:
            fields["answers_over_X"], fields["raised_over_X"] = _answers_over(model, over, numbers)
        # State that the function itself modifies when called (a log, a counter) is ignored.
        after = held(function)
        fields["held"] = {k: v if after.get(k) == v else MOVED for k, v in fields["held"].items()}
    return fields


def near(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the answers of two runs can be those of one model."""
    return all(_near(before, now, name) for name in ANSWERS)


def _near(before: Mapping[str, Any], now: Mapping[str, Any], name: str) -> bool:
    a, b = before.get(name), now.get(name)
    if a == b or (name.endswith("_over_X") and None in (a, b)):  # compared here and not there
        return True
    if isinstance(a, Mapping):  # other rows raise now, or with other errors
        return False
    try:
        first, second = np.asarray(a, np.float64), np.asarray(b, np.float64)
    except (TypeError, ValueError):  # labels
        return False
    if first.shape != second.shape or not first.size:
        return False
    spread = np.ptp(first[np.isfinite(first)]) if np.isfinite(first).any() else 0.0
    same = before.get("platform") == now.get("platform")
    most = NEAR_HERE if same else NEAR_ELSEWHERE
    return bool(np.allclose(first, second, most, most * spread, equal_nan=True))


def _code(function: Any) -> Any:
    inner = getattr(function, "func", None) or getattr(function, "__wrapped__", None)
    if hasattr(function, "__code__") or inner is None:
        return getattr(function, "__code__", None)
    return _code(inner)


def held(value: Any) -> dict[str, str]:
    """The digests of the values that a function's answers depend on, by the name in its code.

    Values that the function itself assigns or extends are left out: a counter is no part of the
    question.
    """
    return portable_reads(value).digests()


def _answers_over(
    model: Model, rows: Any, numbers: Sequence[int]
) -> tuple[list[Any], dict[str, str]]:
    """Answers to rows spread over X, and the error types of the rows without an answer, by number.

    The part with such a row reports why; the parts before it are kept.
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
    head = rows_of(rows).part(0, PROBED)
    if model.output == "label":
        return [str(label) for label in model.labels(head)]
    if model.loop == "jax" and model.reader is None and rows_of(head).is_frame:
        head = rows_of(head).matrix()
    # Fewer digits than float64 has, since users read the file too.
    return [float(f"{value:.9g}") for value in np.ravel(model.predict(head))]


# Arguments that change no value; path= is "tiled" in each sweep
FREE = ("batch_size", "max_memory", "devices", "tile", "path")
ROWS = ("background", "reference", "data", "pool", "weights")  # arguments that hold rows
SHOWN = 8  # fields that differ, in a message
LOOSE = (*ANSWERS, "platform")  # compared by `near`
HIDDEN = ("answers", "answers_over_X")  # a message says only that they differ


def method_of(explainer: object) -> Callable[..., Any]:
    """The method that explains rows: the call of an explainer, or its `explain`.

    It raises InputTypeError if there is no answer for each row.
    """
    if isinstance(explainer, type) or not hasattr(explainer, "__dict__"):
        raise InputTypeError(f"explainer must be an explainer, got {explainer!r:.80}.")
    for name in ("__call__", "explain"):
        if callable(getattr(explainer, name, None)) and not isinstance(explainer, Model):
            made_of(explainer)  # checks before any work that it can be pickled
            return getattr(explainer, name)
    raise InputTypeError(
        f"explainer is a {type(explainer).__name__}, which has no answer for each row. Give an "
        "Explainer or the like, an AnchorExplainer, or a QII of an individual quantity."
    )


def accepted(function: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are keywords of the function."""
    return {k: v for k, v in options.items() if k in inspect.signature(function).parameters}


def checked_options(explainer: object, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The keywords of the call; raises InputError or InputTypeError for unknown ones."""
    method = method_of(explainer)
    if options is not None and not isinstance(options, Mapping):
        raise InputTypeError(f"options must be a dict of keywords, got {options!r:.60}.")
    keywords = dict(options or {})
    takes = [name for name in inspect.signature(method).parameters if name not in ("X", "progress")]
    for name in keywords:
        if name not in takes:
            raise InputError(
                f"options has {name!r}, but {type(explainer).__name__} takes for the rows: "
                f"{', '.join(takes) or 'nothing'}."
            )
    return keywords


def question_of(
    explainer: object,
    options: Mapping[str, Any],
    rows: Mapping[str, Any],
    first: Any,
    over: Any = None,
    numbers: Sequence[int] = (),
) -> dict[str, Any]:
    """The fields in which two runs must agree.

    first: the first rows; over: some rows spread over X, which have these `numbers` in X. The
    model's answers to both are compared.
    """
    teacher = getattr(explainer, "_teacher", explainer)
    arguments = _with_defaults(type(teacher), made_of(explainer))
    model, of_whole = arguments.pop("model", None), None
    if isinstance(model, tuple):  # two halves: all that can be read of both, and no answers
        of_whole = {**of_model(model[1], None, described), "embed": held(model[0])}
    elif model is not None:
        devices = arguments.get("devices")
        of_whole = of_model(model, first, described, over, numbers, devices)
    fields = {
        name: _hidden(value) if name in ROWS else described(value)
        for name, value in arguments.items()
        if name not in FREE
    }
    if isinstance(explainer, AmortizedExplainer):
        fields["learned"] = _learned(explainer)
    keywords = _with_defaults(method_of(explainer), options)
    return {
        "method": type(explainer).__name__,
        "arguments": fields,
        "options": {name: described(value) for name, value in keywords.items()},
        "model": of_whole,
        "rows": dict(rows),
        "versions": VERSIONS,
    }


def _learned(explainer: AmortizedExplainer) -> dict[str, Any]:
    """Digests of what an amortised explainer learned."""
    fitted = explainer._known()
    leaves = [digest_of(np.asarray(leaf)) for leaf in fitted.leaves]
    bounds = [digest_of(np.asarray(a)) for a in (fitted.line, fitted.ends, fitted.quantile)]
    return {
        "network": digest_of(repr((leaves, explainer.hidden))),
        "bounds": digest_of(repr(bounds)),
        "confidence": fitted.confidence,
    }


def _with_defaults(function: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    left = ("self", "X", "progress")
    defaults = {name: p.default for name, p in parameters.items() if name not in left}
    return {k: v for k, v in {**defaults, **arguments}.items() if v is not inspect.Parameter.empty}


def described(value: Any) -> Any:
    """A value as JSON: plain values as they are, others by their digest.

    Numbers in a list are rows, or come from them; a manifest or a message must not contain rows.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value if value == value else repr(value)
    if isinstance(value, np.generic):
        return described(value.item())
    if isinstance(value, Baseline):
        return {"baseline": _hidden(value.row), "rows": _hidden(value.rows)}
    if isinstance(value, PerInstancePlayers):
        value = value.of_entry
    if isinstance(value, np.ndarray | jax.Array) or rows_of(value).is_frame:
        return {"rows": len(value) if np.ndim(value) else 0, "sha256": digest_of_rows(value)}
    if isinstance(value, list | tuple):
        leaves = jax.tree.leaves(value)
        if leaves and all(isinstance(leaf, float | np.generic) for leaf in leaves):
            return _hidden(value)
        return [described(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): described(item) for name, item in value.items()}
    name = getattr(value, "__qualname__", type(value).__qualname__)
    facts = {"object": name, "digest": digest_of(value)}
    return {**facts, "held": held(value)} if callable(value) else facts


def _hidden(value: Any) -> Any:
    """The digest of rows."""
    if value is None:
        return None
    rows, weights = weighted_rows(value, None)
    if rows is not value:
        return {"rows": _hidden(rows), "weights": _hidden(weights)}
    if isinstance(value, Mapping | list | tuple):
        leaves = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(value)]
        return {"rows": len(value), "digest": digest_of(repr((leaves, str(type(value)))))}
    return described(value)


def refuse_other(before: Mapping[str, Any], now: Mapping[str, Any], where: Any) -> None:
    """Raises ResumeMismatchError with the fields that differ, if the run has another question."""
    a, b = (dict(_facts(question)) for question in (before, now))
    # The answers may differ by rounding or by platform. A value that one of the runs saw change
    # during its calls is a log.
    rounded = near(before.get("model") or {}, now.get("model") or {})
    loose = tuple(f"model.{name}" for name in LOOSE) if rounded else ()
    differ = [
        name
        for name in Fingerprint(a).why_not(Fingerprint(b))
        if not name.startswith(loose) and MOVED not in (a.get(name), b.get(name))
    ]
    if not differ:
        return
    both = {n: f"{_short(a.get(n))} in the run, {_short(b.get(n))} now" for n in differ}
    fields = "; ".join(n if n.endswith(HIDDEN) else f"{n}: {both[n]}" for n in differ[:SHOWN])
    more = f"; and {len(differ) - SHOWN} more" if len(differ) > SHOWN else ""
    raise ResumeMismatchError(
        f"out={str(where)!r} holds a run of another question. It differs in {fields}{more}. Give "
        "another directory, or ask what that run asks."
    )


def _facts(question: Mapping[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of each field."""
    for key, value in question.items():
        if isinstance(value, Mapping):
            yield from _facts(value, f"{name}{key}.")
        else:
            yield f"{name}{key}", value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
