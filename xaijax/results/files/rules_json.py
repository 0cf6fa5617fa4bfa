"""Rules as JSON text, and back: every field of a text from anyone is checked when it is read.

Letters: F columns.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.players.predicates import Predicate
from xaijax.results.files.untrusted_zip import Unfit, schema_of
from xaijax.tables.rows import labels_of_levels

FORMAT = "xaijax.Rules"
SCHEMA = 1
TOP = ("format", "schema", "feature_names", "stats", "provenance", "rules")
NOT_FINITE = ("nan", "inf", "-inf")  # JSON has no numbers for them: {"float": "nan"}
OPEN = ({"float": "-inf"}, {"float": "inf"})  # ends of a predicate
ROUNDING = 1e-9  # by which a summed share may leave [0, 1]
DEEPEST = 50  # nested lists in a provenance

TIMES = ("datetime64[ns]", "timedelta64[ns]")
LABELS = ("int64", "float64", "bool", "object", "str", *TIMES)  # dtypes of labels

Content = tuple[tuple[str, ...], list[dict[str, Any]], dict[str, Any], dict[str, Any], Any]


def written(
    names: Sequence[str],
    rules: Sequence[Mapping[str, Any]],
    stats: Mapping[str, Any],
    provenance: Mapping[str, Any],
    index: Any = None,
) -> str:
    """The JSON text of rules, each as in `Rule.as_dict`; index: that of the instances."""
    facts = {
        k: [plain(entry) for entry in v] if isinstance(v, tuple | list) else plain(v)
        for k, v in stats.items()
    }
    content = {"format": FORMAT, "schema": SCHEMA, "feature_names": list(names), "stats": facts}
    content["provenance"] = json.loads(json.dumps(dict(provenance), default=str))
    content["rules"] = list(rules)
    if index is not None:
        levels = [index.get_level_values(n) for n in range(index.nlevels)]
        content["instances"] = [_level(level) for level in levels]
    return json.dumps(content, allow_nan=False)


def _level(level: Any) -> dict[str, Any]:
    """The dtype, name and labels of a level of an index."""
    values, dtype = level.to_numpy(), str(level.dtype)
    if dtype in TIMES:
        labels = values.astype("i8").tolist()
    elif values.dtype.kind in "iufb":
        dtype = {"b": "bool", "f": "float64"}.get(values.dtype.kind, "int64")
        labels = [plain(label) for label in values.tolist()]
    else:
        dtype = "str" if dtype == "str" else "object"
        labels = [plain(label) for label in values.tolist()]
    name = None if level.name is None else str(level.name)
    return {"dtype": dtype, "name": name, "labels": labels}


def _index(stored: Any, N: int) -> Any:
    """The index whose levels `_level` was given."""
    _need(isinstance(stored, list) and len(stored) > 0, "instances", stored, "a list of levels")
    levels = []
    for i, level in enumerate(stored):
        where = f"instances[{i}]"
        _need(isinstance(level, dict), where, level, "an object")
        _same_fields(level, ("dtype", "name", "labels"), (), where)
        dtype, labels, name = level["dtype"], level["labels"], level["name"]
        _need(dtype in LABELS, f"{where}.dtype", dtype, f"one of {list(LABELS)}")
        fits, needed = _or_null(TEXT)
        _need(fits(name), f"{where}.name", name, needed)
        fits = isinstance(labels, list) and len(labels) == N
        _need(fits, f"{where}.labels", labels, f"a list of {N} labels")
        values = np.empty(N, object)
        values[:] = [_value(label, f"{where}.labels[{n}]") for n, label in enumerate(labels)]
        whole = all(type(label) is int and -(1 << 63) <= label < 1 << 63 for label in labels)
        _need(whole or dtype not in ("int64", *TIMES), f"{where}.labels", labels, "whole numbers")
        array = values.astype("i8").view(dtype) if dtype in TIMES else values
        levels.append((array, dtype, name))
    return labels_of_levels(levels)


def plain(value: Any) -> Any:
    """A value as JSON."""
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def plain_predicate(predicate: Predicate) -> list[Any]:
    """A predicate as JSON: [column, low, high] or [column, [categories]]."""
    if len(predicate) == 3:
        return [int(predicate[0]), plain(float(predicate[1])), plain(float(predicate[2]))]
    return [int(predicate[0]), [plain(v) for v in predicate[1]]]


def read(text: str | bytes, source: Path | None = None) -> Content:
    """The input of `written`: names, the fields of each rule but its names, stats, provenance.

    Args:
        text: from anyone; bytes are UTF-8.
        source: the file it comes from, for messages; None: it was given as text.

    Raises:
        InputError: it is not such a text; the message names the file and the field.
    """
    what, who = ("text", "this") if source is None else ("path", source)
    kind = "text of Rules.to_json" if source is None else "file of Rules.save"
    try:
        content = json.loads(_decoded(text), parse_constant=_refuse_constant)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise Unfit(f"its format is not {FORMAT!r}")
        if "schema" in content:
            schema_of(content, SCHEMA, who, what)
        _same_fields(content, (*TOP, "instances"), ("instances",), "the text")
        names = content["feature_names"]
        _need(_texts(names), "feature_names", names, "a list of texts")
        _need(isinstance(content["rules"], list), "rules", content["rules"], "a list of rules")
        rules = [_rule(rule, f"rules[{i}]", len(names)) for i, rule in enumerate(content["rules"])]
        stats, provenance = content["stats"], content["provenance"]
        _need(isinstance(stats, dict), "stats", stats, "an object")
        _need(isinstance(provenance, dict), "provenance", provenance, "an object")
        _refuse_unwritable(provenance, "provenance")
        facts = {k: _fact(v, k) for k, v in stats.items()}
        index = _index(content["instances"], len(rules)) if "instances" in content else None
        return tuple(names), rules, facts, provenance, index
    except InputError:
        raise
    except Exception as error:  # a text from anyone may raise anything
        said = str(error)[:300].rstrip(".")
        said = said if isinstance(error, Unfit) else f"{type(error).__name__}: {said}"
        raise InputError(f"{what}: {who} is no {kind}: {said}. Save the rules again.") from None


def _decoded(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    if text[:2] == b"PK":
        raise Unfit("it is a zip file, as Explanation.save writes; xaijax.load reads it")
    return text.decode("utf-8")


def _refuse_constant(name: str) -> None:
    raise Unfit(f"it holds {name}, which is no number of JSON")


def _need(fits: bool, field: str, value: Any, needed: str) -> None:
    if not fits:
        raise Unfit(f"{field} is {value!r:.60}, where {needed} is needed")


def _same_fields(
    stored: Mapping[str, Any], fields: Sequence[str], optional: Sequence[str], where: str
) -> None:
    lost = [name for name in fields if name not in stored and name not in optional]
    if lost:
        raise Unfit(f"{where} has no field {lost[0]!r}")
    more = [name for name in stored if name not in fields]
    if more:
        raise Unfit(f"{where} has a field {more[0]!r:.60}, which is unknown")


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _whole(value: Any) -> bool:
    """Whether it is a whole number from 0, as arrays and tables hold it."""
    return type(value) is int and 0 <= value < 1 << 63


def _number(value: Any) -> bool:
    """Whether it is a number that is a finite float, or would be one."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


Check = tuple[Callable[[Any], bool], str]


def _or_null(check: Check) -> Check:
    fits, needed = check
    return lambda value: value is None or fits(value), f"{needed}, or null,"


TEXT: Check = (lambda value: isinstance(value, str), "a text")
FLAG: Check = (lambda value: isinstance(value, bool), "true or false")
SIZE: Check = (lambda value: _number(value) and value >= 0, "a number from 0")
SHARE: Check = (
    lambda value: _number(value) and -ROUNDING <= value <= 1 + ROUNDING,
    "a number from 0 to 1",
)
FIELDS: dict[str, Check] = {
    "rule": (_texts, "a list of texts"),
    "predicates": (lambda value: isinstance(value, list), "a list of predicates"),
    "prediction": (lambda value: True, "anything that `_value` takes"),
    "precision": SHARE,
    "precision_lower": _or_null(SHARE),
    "coverage": _or_null(SHARE),
    "accepted": FLAG,
    "samples": (_whole, "a whole number from 0"),
    "search": TEXT,
    "std_error": _or_null(SIZE),
    "target": _or_null(TEXT),
    "tolerance": _or_null(SIZE),
    "note": TEXT,
    "single": FLAG,
}
OPTIONAL = ("std_error", "target", "tolerance", "note", "single")  # as for `Rule`


def _rule(stored: Any, where: str, F: int) -> dict[str, Any]:
    """The fields of a rule, checked; F: columns, 0 if they have no names."""
    _need(isinstance(stored, dict), where, stored, "an object")
    _same_fields(stored, tuple(FIELDS), OPTIONAL, where)
    for name, value in stored.items():
        check, needed = FIELDS[name]
        _need(check(value), f"{where}.{name}", value, needed)
    words, predicates = stored["rule"], stored["predicates"]
    if len(words) != len(predicates):
        raise Unfit(
            f"{where} has {len(words)} conditions in words, but {len(predicates)} predicates"
        )
    read = [_predicate(p, f"{where}.predicates[{i}]", F) for i, p in enumerate(predicates)]
    prediction = _value(stored["prediction"], f"{where}.prediction")
    return {**stored, "rule": words, "predicates": read, "prediction": prediction}


def _predicate(stored: Any, where: str, F: int) -> Predicate:
    parts = len(stored) if isinstance(stored, list) else 0
    _need(parts in (2, 3), where, stored, "[column, low, high] or [column, [categories]]")
    column = stored[0]
    known = f"a column from 0 to {F - 1}" if F else "a column from 0"
    _need(_whole(column) and (column < F or not F), f"{where}[0]", column, known)
    if parts == 2:
        _need(isinstance(stored[1], list), f"{where}[1]", stored[1], "a list of categories")
        values = [_value(v, f"{where}[1][{i}]") for i, v in enumerate(stored[1])]
        return (column, tuple(values))
    bounds = []
    for i in (1, 2):
        fits = _number(stored[i]) or stored[i] in OPEN
        _need(fits, f"{where}[{i}]", stored[i], 'a finite number or {"float": "inf"} or "-inf"')
        bounds.append(float(_value(stored[i], where)))
    if not bounds[0] < bounds[1]:
        raise Unfit(f"{where} is {stored!r:.60}, whose low end is not below its high end")
    return (column, bounds[0], bounds[1])


def _value(stored: Any, where: str) -> Any:
    """The value that `plain` was given."""
    if isinstance(stored, dict):
        name = stored.get("float")
        fits = len(stored) == 1 and isinstance(name, str) and name in NOT_FINITE
        _need(fits, where, stored, f'a plain value, or {{"float": {" or ".join(NOT_FINITE)}}},')
        return float(stored["float"])
    fits = stored is None or isinstance(stored, str | bool) or _number(stored)
    _need(fits, where, stored, "a text, a finite number, true, false or null")
    return stored


def _fact(stored: Any, key: str) -> Any:
    where = f"stats[{key!r:.60}]"
    if isinstance(stored, list):
        return tuple(_value(entry, where) for entry in stored)
    return _value(stored, where)


def _refuse_unwritable(value: Any, where: str, depth: int = 0) -> None:
    """Raises Unfit for what could not be written again."""
    if depth > DEEPEST:
        raise Unfit(f"{where} has more than {DEEPEST} levels")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _refuse_unwritable(item, where, depth + 1)
    elif isinstance(value, float):
        _need(math.isfinite(value), where, value, "a finite number")
