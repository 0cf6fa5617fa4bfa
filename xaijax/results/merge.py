"""`merge`: one Explanation of instances that were explained separately."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import ENTRIES, QUESTION, equal
from xaijax.results.interactions import Interactions
from xaijax.results.shared_fields import concatenate, joined_labels, per_instance

Merged = TypeVar("Merged", Explanation, Interactions)
AnyPart = Explanation | Interactions

SUMMED = "model_rows", "full_rows", "padded_rows", "model_calls", "seconds", "compile_seconds"

MODEL = (
    "is of another model than explanation {first}: another program, other parameters, or another "
    "fit. Explain all with one model, or keep the explanations in a list."
)
ROWS = (
    "has other donor rows (a background or a pool), weights of them, or functions (a link, "
    "difference or score) than explanation {first}, so that values are not of one question. "
    "Explain all with the same rows, in one order, and the same functions."
)


@public
def merge(explanations: Iterable[Merged]) -> Merged:
    """Joins explanations of different instances into one, in the order given.

    Use it if one question was answered for parts of the rows: in several runs, or in several
    processes. Values, base values, data and names are concatenated. The result is `exact` if all
    parts are. The rest is joined as follows.

    - Standard errors: if another part is sampled, they are 0 for an exact part, and NaN for a part
      that has none. The degrees of freedom, stats["dof"], are infinite for a part without them.
    - Bounds: if another part has bounds, they are 0 for an exact part, and NaN for any other.
    - stats["model_rows"], "full_rows", "padded_rows", "model_calls", "seconds" and
      "compile_seconds" are added up. Two slices of one explanation count its run twice.
    - Arrays [N] in `stats` are concatenated.
    - If only some parts have instance names, the other instances are named by their positions.
    - Any other entry of `stats` and `provenance` stays as it is if all parts have the same. If they
      differ it becomes a list with one item for each part, None for a part without it.

    Parts must answer one question about one model. Models are compared if they can be read: what
    JAX traces by its program, constants and parameters, and scikit-learn's estimators by all that
    they hold. Functions on the host, programs that call back to Python, and models that ran under
    other versions of these libraries, on another platform or in another precision are not compared.
    For these the caller must make sure that one model made all parts.

    Args:
        explanations: iterable of `Explanation`, or of `Interactions`, at least one.

    Returns:
        An `Explanation`, or `Interactions`, of all instances.

    Raises:
        InputError: there is no explanation; or explanations differ in feature_names, output_names
            or `kind` (interactions: index, order and sets); `data` (array or frame, its columns,
            its dtypes); the question, by the provenance (selected output, link, weights of the
            index, players' columns, replacement and others); the background or pool and its
            weights; the functions given; the model. It also raises for exact explanations with a
            `Baseline` whose base values differ, and for several explanations of one QII quantity of
            the whole data, which has no instances. The message names the field.
        InputTypeError: something is not an Explanation, or Explanations are mixed with
            Interactions.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.zeros((1, 2)))
        >>> parts = [explainer(np.array([[2.0, 3.0]])), explainer(np.array([[1.0, 4.0]]))]
        >>> xj.merge(parts).values.round(3)
        array([[3., 3.],
               [2., 2.]])
    """
    if isinstance(explanations, Explanation | Interactions):
        raise InputTypeError("explanations: got one Explanation; pass a list of them.")
    parts: list[Merged] = checks.listed(explanations, "explanations", "Explanations")
    if not parts:
        raise InputError("explanations: got none; pass at least one Explanation.")
    for part in parts:
        if not isinstance(part, Explanation | Interactions):
            raise InputTypeError(f"explanations: got {type(part).__name__}, not an Explanation.")
        if type(part) is not type(parts[0]):
            raise InputTypeError(
                "explanations: got Explanations and Interactions; merge each kind separately."
            )
    _require_one_question(parts)
    index, names = joined_labels(parts)
    bounds = {}
    if isinstance(parts[0], Explanation):
        bounds["bounds"] = _field(parts, "bounds", lambda part: np.full(len(part), _error(part)))
    return replace(
        parts[0],
        values=np.concatenate([part.values for part in parts]),
        base_values=np.concatenate([part.base_values for part in parts]),
        std_errors=_field(parts, "std_errors", lambda part: np.full(part.shape, _error(part))),
        data=concatenate([part.data for part in parts]),
        instance_names=names,
        instance_index=index,
        exact=all(part.exact for part in parts),
        stats=_join(_stats(parts), partial(_join_stat, parts)),
        provenance=_join([part.provenance for part in parts], lambda _, values: _same(values)),
        present=_field(parts, "present", _every_player),
        **bounds,
    )


def _require_one_baseline(parts: Sequence[AnyPart]) -> None:
    """Raises for values that are relative to different rows, which base values show.

    Only exact values are checked: the base of a random model is noisy, and that of the least
    squares of `FederatedExplainer` is an intercept, which differs from row to row.
    """
    one_row = parts[0].provenance.get("replacement") == "baseline"
    if not (one_row and all(part.exact for part in parts)):
        return
    bases = [part.base_values[:1] for part in parts if len(part)]
    for number, base in enumerate(bases):
        # A row's answer may be rounded differently in another call: float32, some hundred units.
        if not np.allclose(base, bases[0], rtol=1e-5, atol=1e-7, equal_nan=True):
            raise InputError(
                f"base_values: explanation {number} has {_short(base.tolist())}, the first has "
                f"{_short(bases[0].tolist())}; their baselines differ. Explain all with one "
                "baseline."
            )


def _require_one_question(parts: Sequence[AnyPart]) -> None:
    """Refuses parts whose fingerprints or baselines differ, and several quantities of the data."""
    prints = [part.fingerprint for part in parts]
    for number, fingerprint in enumerate(prints):
        _require_same_facts(number, fingerprint.question, prints[0].question)
    _require_one_baseline(parts)
    seen: dict[str, tuple[int, str]] = {}  # by key, the first part that has it
    for number, fingerprint in enumerate(prints):
        for key, digest in fingerprint.digests().items():
            first, known = seen.setdefault(key, (number, digest))
            if digest != known:
                name = key.partition(" ")[0]
                text = (ROWS if name == "rows" else MODEL).format(first=first)
                raise InputError(f"stats[{ENTRIES[name]!r}]: explanation {number} {text}")
    if len(parts) > 1 and all(part.provenance.get("method") == "QII" for part in parts):
        if any(part.data is None for part in parts):
            name = parts[0].provenance.get("quantity")
            raise InputError(
                f"quantity={name!r} is one number for the whole data, without instances to join. "
                "Keep the explanations in a list."
            )


def _require_same_facts(number: int, facts: Mapping[str, Any], first: Mapping[str, Any]) -> None:
    for name in dict.fromkeys([*first, *facts]):
        value, known = facts.get(name), first.get(name)
        if not equal(value, known):
            fact = f"provenance[{name!r}]" if name in QUESTION else name
            fact = "stats['outputs'] (given or None)" if name == "outputs" else fact
            raise InputError(
                f"{fact}: explanation {number} has {_short(value)}, the first has {_short(known)}; "
                "only explanations of the same question can be merged."
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def _field(parts: Sequence[AnyPart], name: str, filled: Callable[[AnyPart], Any]) -> Any:
    """Joins a field that some parts lack, filled for these; None if all lack it."""
    arrays = [getattr(part, name) for part in parts]
    if all(array is None for array in arrays):
        return None
    pairs = zip(arrays, parts, strict=True)
    return np.concatenate([filled(part) if array is None else array for array, part in pairs])


def _every_player(part: AnyPart) -> np.ndarray:
    return np.ones((len(part), len(part.feature_names)), bool)


def _error(part: AnyPart) -> float:
    """The error of a part that has no field of errors: 0 if it is exact, else unknown."""
    return 0.0 if part.exact else np.nan


def _stats(parts: Sequence[AnyPart]) -> list[Mapping[str, Any]]:
    """The stats of each part, completed by the entries that another part has per instance."""
    known = {name for part in parts for name in part.stats}
    exact_rows = "exact_rows" in known or len({part.exact for part in parts}) > 1
    counts = [name for name in ("coalitions", "pairs", "whole_pairs") if name in known]
    certain = "certain" in known and "top" not in known
    completed: list[Mapping[str, Any]] = []
    for part in parts:
        added: dict[str, Any] = {}
        drawn = not part.exact and part.std_errors is not None
        if exact_rows:
            added["exact_rows"] = np.full(len(part), part.exact)
        if "dof" in known:
            added["dof"] = np.full(len(part), np.inf)  # exact, or none known: normal quantiles
        if not drawn:
            added |= {name: np.zeros(len(part), np.int64) for name in counts}
        if part.exact and "heavy_tail" in known:
            added["heavy_tail"] = np.zeros(len(part), bool)
            added["tail_judged"] = np.ones(len(part), bool)
        if not drawn and certain:
            # Exact values meet any tolerance; those of a network have no known error.
            added["certain"] = np.full(len(part), part.exact)
        completed.append({**added, **part.stats})
    return completed


def _join(
    mappings: Sequence[Mapping[str, Any]], join_one: Callable[[str, list[Any]], Any]
) -> dict[str, Any]:
    keys = dict.fromkeys(key for mapping in mappings for key in mapping)
    return {key: join_one(key, [mapping.get(key) for mapping in mappings]) for key in keys}


def _join_stat(parts: Sequence[AnyPart], name: str, values: list[Any]) -> Any:
    if all(per_instance(v, len(part)) for v, part in zip(values, parts, strict=True)):
        return np.concatenate(values)
    numbers = (int, float, np.integer, np.floating)
    if name in SUMMED and all(isinstance(v, numbers) and not isinstance(v, bool) for v in values):
        return sum(values)
    return _same(values)


def _same(values: list[Any]) -> Any:
    return values[0] if all(equal(v, values[0]) for v in values) else values
