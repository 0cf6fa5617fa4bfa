"""Checks whether two results answer one question: numbers shown together must be of one amount.

`refuse_other_numbers` checks two explanations that are compared, judged or drawn together.
`of_the_same` checks interactions that are shown with an explanation. A fact that one of the two
lacks (a model on the host, interactions without data, an array) is not compared.

Letters: N instances, K outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from xaijax.core.errors import InputError
from xaijax.results.describe_question import counted_outputs, describe_output, output_of_each
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import AMOUNT, QUESTION, equal, functions_in, why_not
from xaijax.results.interactions import Interactions
from xaijax.tables.rows import rows_of

Either = Explanation | Interactions
# Compared separately, or different for interactions and values.
APART = ("selected_output", "method", "index_weights", "scheme")
SAME = (
    "Say explainer.interactions(X) of the explainer, the rows X and the outputs that the "
    "explanation is of."
)


def refuse_other_numbers(
    a: Explanation, b: Explanation, called: tuple[str, str], paired: bool = False
) -> None:
    """Raises InputError unless the values of two explanations are comparable.

    They must have the same quantity, link, output and class. Their rows, fits, backgrounds,
    estimators and seeds may differ.

    called: the names of the two in a message; paired: whether instance i of the one is instance i
        of the other, so that both must have the same output.
    """
    mine, other = amount_of(a.provenance, a.kind), amount_of(b.provenance, b.kind)
    refuse_other_amounts(mine, other, called)
    refuse_other_functions(a.stats, b.stats, called)
    refuse_other_outputs(a, b, called, paired)


def shared_amount(a: Explanation, b: Explanation) -> dict[str, Any]:
    """The quantity of two explanations' values that `refuse_other_numbers` accepted.

    It holds facts of the provenance, and "selected_output" if they are of one output of several.
    """
    facts = {}
    for fact in (*AMOUNT, "column_of"):
        known = [r.provenance[fact] for r in (a, b) if r.provenance.get(fact) is not None]
        if known and all(equal(value, known[0]) for value in known):
            facts[fact] = known[0]
    outputs = outputs_of(a) or outputs_of(b)
    if outputs and a.output_names is None:
        alike = len({*outputs}) == 1
        facts["selected_output"] = outputs[0] if alike else "each instance's own"
    return facts


def amount_of(provenance: Mapping[str, Any], kind: str = "") -> dict[str, Any]:
    """The facts that define what values are amounts of, as far as they are known."""
    facts = {fact: provenance[fact] for fact in AMOUNT if provenance.get(fact) is not None}
    if _column(provenance) is not None:  # the column is compared as an output
        column = provenance.get("column_of")
        facts.pop("quantity_words", None)
        facts["quantity"] = column and describe_output(column)
        facts = {fact: value for fact, value in facts.items() if value is not None}
    if "quantity" in facts:
        facts.setdefault("link", "identity")  # methods without a link, such as gradients
    elif kind == "aec":
        facts["quantity"] = "dependence of columns"
    return facts


def _column(provenance: Mapping[str, Any]) -> str | None:
    """The output that `as_model(output=...)` chose, by its class or its position."""
    quantity = provenance.get("quantity")
    return quantity if isinstance(quantity, str) and quantity.startswith("output ") else None


def refuse_other_amounts(
    mine: Mapping[str, Any], other: Mapping[str, Any], called: tuple[str, str]
) -> None:
    """Raises InputError if quantities or links differ; both arguments come from `amount_of`."""
    for fact in why_not(mine, other, AMOUNT):
        _refuse_amounts(called, fact, f"{mine[fact]!r} and {other[fact]!r}")


def refuse_other_functions(
    mine: Mapping[str, Any], other: Mapping[str, Any], called: tuple[str, str]
) -> None:
    """Raises InputError for two functions that have one name, as far as both stats know them."""
    for fact in why_not(functions_in(mine), functions_in(other)):
        _refuse_amounts(called, fact, "two functions of one name")


def _refuse_amounts(called: tuple[str, str], fact: str, values: str) -> NoReturn:
    raise InputError(
        f"{called[0]} and {called[1]} differ in {fact}: {values}, so their values are amounts of "
        f"different things. Explain both with the same {fact}."
    )


def refuse_other_outputs(
    a: Explanation, b: Explanation, called: tuple[str, str], paired: bool
) -> None:
    """Raises InputError if the numbers of two explanations belong to different outputs."""
    names = [result.output_names for result in (a, b)]
    if None not in names:
        known = [list(outputs or ()) for outputs in names]
        if known[0] != known[1]:
            _refuse_outputs(called, known[0], known[1])
        return
    if a.values.ndim != b.values.ndim:
        several = [list(outputs) if outputs else "one output" for outputs in names]
        _refuse_outputs(called, several[0], several[1])
    mine, other = _one_output(a), _one_output(b)
    if mine is None or other is None:
        return
    if paired:
        for n, (x, y) in enumerate(zip(mine, other, strict=True)):
            if x != y:
                where = "" if len({*mine}) == len({*other}) == 1 else f" (of instance {n})"
                _refuse_outputs(called, x, y, where)
    elif {*mine} != {*other}:
        sets = [sorted({*each}) for each in (mine, other)]
        first, second = (each[0] if len(each) == 1 else each for each in sets)
        _refuse_outputs(called, first, second)


def _refuse_outputs(called: tuple[str, str], mine: Any, other: Any, where: str = "") -> NoReturn:
    a, b = called
    raise InputError(
        f"{a} and {b} differ in output{where}: {mine!r} and {other!r}. Take the same outputs of "
        "both, in one order: explanation[:, :, name], or explainer(X, outputs=name)."
    )


def of_the_same(explanation: Explanation, result: Interactions) -> Interactions:
    """The interactions of the output that the page draws, after checking that they belong to it.

    Raises:
        InputError: the players, outputs, instances, data, background, model or facts of the
            provenance differ.
    """
    if result.feature_names != explanation.feature_names:
        _refuse("players", result.feature_names, explanation.feature_names)
    if len(result) != len(explanation):
        _refuse("number of instances", len(result), len(explanation))
    result = _of_output(explanation, result)
    # With guests, data and columns are those of the host only.
    one_has_guests = ("guests" in result.provenance) != ("guests" in explanation.provenance)
    apart = (*APART, "player_columns") if one_has_guests else APART
    compared = [fact for fact in QUESTION if fact not in apart]
    for fact in why_not(result.provenance, explanation.provenance, compared):
        _refuse(f"provenance[{fact!r}]", result.provenance[fact], explanation.provenance[fact])
    if not one_has_guests:
        _refuse_other_data(explanation, result)
    _refuse_other_marks(explanation, result)
    return result


def output_of(result: Either) -> str | None:
    """The output of values [N, ..], as a page names it; None: there is only one."""
    outputs = outputs_of(result)
    return counted_outputs(outputs) if outputs else None


def _of_output(explanation: Explanation, result: Interactions) -> Interactions:
    """Returns, for a model with several outputs, those of the explanation's output, the last of
    several.
    """
    shown = explanation
    if explanation.output_names is not None:
        shown = explanation[:, :, -1]
    wanted = outputs_of(shown)
    if result.output_names is not None:
        if wanted is None or len(set(wanted)) != 1 or wanted[0] not in result.output_names:
            said = "one output" if wanted is None else sorted(set(wanted))
            _refuse("output", list(result.output_names), said)
        result = result[:, :, wanted[0]]
    outputs = outputs_of(result)
    if outputs is None or wanted is None:
        methods = {answer.provenance.get("method") for answer in (explanation, result)}
        if outputs is not wanted and len(methods) == 1 and None not in methods:
            _refuse("output", outputs and sorted(set(outputs)), wanted and sorted(set(wanted)))
    elif outputs != wanted:
        n = next(n for n, (a, b) in enumerate(zip(outputs, wanted, strict=True)) if a != b)
        _refuse(f"output (of instance {n})", outputs[n], wanted[n])
    return result


def outputs_of(result: Either) -> tuple[str, ...] | None:
    """Names of the output of each instance [N]; None: not known, or the model has only one."""
    if outputs := output_of_each(result.stats, len(result)):
        return outputs
    selected = result.provenance.get("selected_output")
    return None if selected is None else (str(selected),) * len(result)


def _one_output(result: Explanation) -> tuple[str, ...] | None:
    """The same, also if the model's only output is a column that `as_model` chose."""
    outputs, column = outputs_of(result), _column(result.provenance)
    if outputs is None and column is not None:
        outputs = (column,) * len(result)
    # "yes" and "output yes" are the same: the name of a column, and of a model that chose it.
    return outputs and tuple(name.removeprefix("output ") for name in outputs)


def _refuse_other_data(explanation: Explanation, result: Interactions) -> None:
    if result.data is None or explanation.data is None:
        return
    theirs, mine = rows_of(result.data), rows_of(explanation.data)
    if theirs.kind != mine.kind or theirs.instance != mine.instance:
        _refuse("data", *[f"{rows.kind}, {rows.width:,} columns" for rows in (theirs, mine)])
    if mine.kind == "array":  # all at once: an image has many columns
        columns = [(theirs.matrix(), mine.matrix())]
    else:
        columns = [(theirs.column(c), mine.column(c)) for c in range(mine.width)]
    for a, b in columns:
        equal = _equal(np.asarray(a), np.asarray(b))
        equal = equal.reshape(np.shape(a)).all(axis=tuple(range(1, np.ndim(a))))
        if not equal.all():
            n = int(np.flatnonzero(~equal)[0])
            _refuse(f"data (row {n})", a[n], b[n])


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equality, bool [N]; numbers are compared with the digits of the less precise side."""
    if a.dtype.kind == b.dtype.kind == "f":
        narrow = min(a.dtype, b.dtype, key=lambda dtype: dtype.itemsize)
        a, b = a.astype(narrow), b.astype(narrow)
        return (a == b) | (np.isnan(a) & np.isnan(b))
    if "O" in (a.dtype.kind, b.dtype.kind):
        pairs = zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)
        return np.array([x is y or _alike(x, y) for x, y in pairs], bool)
    return np.asarray(a == b) | (np.asarray(a != a) & np.asarray(b != b))


def _alike(x: Any, y: Any) -> bool:
    """Whether two entries of a column of objects are equal; missing equals only missing."""
    try:
        return bool(x == y or (x != x and y != y))
    except TypeError:  # pandas.NA compares with nothing, and the other is not NA
        return False


def _refuse_other_marks(explanation: Explanation, result: Interactions) -> None:
    """Raises if backgrounds or models differ, as far as both are known."""
    differ = why_not(explanation.fingerprint.digests(), result.fingerprint.digests())
    other = next((name.partition(" ")[0] for name in differ), None)
    if other == "rows":
        what = "have other background rows, weights or functions (stats['fingerprint'])"
        raise InputError(f"interactions: {what} than the explanation's values. {SAME}")
    if other == "model":
        what = "are of another model, program or fit (stats['model_fingerprint'])"
        raise InputError(f"interactions: {what} than the explanation. {SAME}")


def _refuse(what: str, theirs: Any, mine: Any) -> NoReturn:
    shown = [text if len(text := repr(v)) <= 90 else text[:87] + "..." for v in (theirs, mine)]
    raise InputError(
        f"interactions: differ from the explanation in {what}: got {shown[0]}, expected "
        f"{shown[1]}. {SAME}"
    )
