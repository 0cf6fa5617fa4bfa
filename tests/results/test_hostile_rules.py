"""Rules from anyone: one typed error that names the file and the field, at load and never later."""

from __future__ import annotations

import copy
import functools
import json
import os
import warnings

import numpy as np
import pandas as pd
import pytest

import xaijax as xj
from xaijax.federated import load_part

FRAME = pd.DataFrame({"size": np.arange(6.0), "colour": list("rgbrgb")})
NUMBERS = np.column_stack([np.arange(6.0), np.tile([0.0, np.nan, 2.0], 2)])
FIELDS = {"samples": 8, "search": "table", "std_error": 0.01, "tolerance": 0.5, "target": "y"}
RULES = xj.Rules(
    (
        xj.Rule(
            ["size > 1", "colour = r"], [(0, 1.0, np.inf), (1, ("r", None, np.nan, 2, True))],
            1.5, 0.97, 0.9, 0.5, True, **FIELDS, names=("size", "colour"),
        ),
        xj.Rule([], [], "a", 1, None, None, False, 0, "exact", note="n", names=("size", "colour")),
    ),
    ("size", "colour"),
    {"search": "table", "seconds": 0.5, "devices": ("cpu", 0), "worst": np.inf},
    {"method": "AnchorExplainer", "versions": {"numpy": "2"}, "cuts": [1, [2, None]]},
)  # fmt: skip
PLAYERS = xj.Rules(
    (xj.Rule(["a as it is"], [(0, ("as it is",))], 3, 0.9, 0.8, None, True, 9, "sar"),), ("a",)
)
TEXT = RULES.to_json()
DEEP = json.loads("[" * 60 + "]" * 60)
HUGE = 10**400
VALUES = [
    None, True, False, -1, 0, 3, 99, 2**70, HUGE, -HUGE, -0.5, 1.5, 1e308, float("nan"),
    float("inf"), "", "x", "nan", "\ud800", [], [1], [None], ["x"], [[1], [1, 2]], [0, 1.0, 2.0],
    [0, ["x"]], {}, {"a": 1}, {"float": "nan"}, {"float": "x"}, {"float": 1}, {"float": [1]}, DEEP,
]  # fmt: skip


def places(node, path=()):
    """The paths of everything in a JSON text."""
    if path:
        yield path
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield from places(node[key], (*path, key))


def changed(path, change):
    """The text in which `change(holder, key)` was done where the path leads."""
    content = json.loads(TEXT)
    holder = content
    for key in path[:-1]:
        holder = holder[key]
    change(holder, path[-1])
    return json.dumps(content)


def put_there(value, holder, key):
    holder[key] = value


def used(rules):
    """All that may be asked of rules; what the rows do not fit may be said, by the error family."""
    assert repr(rules) and rules.to_html() and rules._repr_html_()
    assert len(rules.to_dataframe()) == len(rules)
    assert all(repr(rule) and rule.predicted is not None for rule in rules)
    assert xj.Rules.from_json(rules.to_json()).to_json() == rules.to_json()
    assert copy.deepcopy(rules).to_json() == rules.to_json()
    for rows in (FRAME, FRAME[["colour"]], NUMBERS, NUMBERS[:, :1], np.array(FRAME, object)):
        for act in (*(rule.applies for rule in rules), lambda X: rules.pick(2, X).to_json()):
            try:
                act(rows)
            except xj.XaiError as error:
                assert "X" in str(error) or "players=" in str(error)


def tried(path, text):
    """Whether the file is read, and of use; else the one error, which names the file."""
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            used(xj.Rules.load(path))
        except xj.InputError as error:
            assert str(error).startswith(f"path: {path}") and len(str(error)) < 700
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("top", sorted(json.loads(TEXT)))
def test_no_change_of_a_field_gives_a_raw_error(top, tmp_path):
    path, read = tmp_path / "rules.json", []
    for place in places(json.loads(TEXT)):
        if place[0] != top:
            continue
        for value in VALUES:
            put = functools.partial(put_there, value)
            read.append(tried(path, changed(place, put)))
        for change in (
            lambda holder, key: holder.pop(key),
            lambda holder, key: isinstance(holder, list) and holder.insert(key, holder[key]),
            lambda holder, key: isinstance(holder, dict) and holder.update({"extra": holder[key]}),
        ):
            read.append(tried(path, changed(place, change)))
    assert not all(read)


@pytest.mark.parametrize("rules", [RULES, PLAYERS, RULES[:0], RULES[1:]])
def test_what_save_writes_comes_back(rules, tmp_path):
    again = xj.Rules.load(rules.save(tmp_path / "rules.json"))
    used(again)
    assert again.to_json() == rules.to_json() and again.feature_names == rules.feature_names
    assert dict(again.stats) == dict(rules.stats) and again.provenance == rules.provenance
    assert [str(one) for one in again] == [str(one) for one in rules]
    for one, other in zip(again, rules, strict=True):
        assert repr(one.predicates) == repr(other.predicates)
        assert type(one.prediction) is type(other.prediction)


R0 = ("rules", 0)
REFUSED = [
    (("schema",), -1, "its schema is -1"),
    (("schema",), None, "its schema is None"),
    (("schema",), "x", "its schema is 'x'"),
    (("schema",), True, "its schema is True"),
    (("schema",), 99, "has schema 99, this xaijax reads up to 1; update"),
    (("format",), "x", "its format is not 'xaijax.Rules'"),
    (("feature_names",), "ab", "feature_names is 'ab', where a list of texts is needed"),
    (("more",), 1, "has a field 'more', which is unknown"),
    ((*R0, "names"), 1, r"rules\[0\] has a field 'names', which is unknown"),
    ((*R0, "rule"), ["x"], "has 1 conditions in words, but 2 predicates"),
    ((*R0, "precision"), 1.01, r"rules\[0\]\.precision is 1.01, where a number from 0 to 1"),
    ((*R0, "precision"), True, "precision is True"),
    ((*R0, "coverage"), float("nan"), "holds NaN, which is no number of JSON"),
    ((*R0, "precision_lower"), -0.5, "precision_lower is -0.5"),
    ((*R0, "accepted"), 1, "accepted is 1, where true or false is needed"),
    ((*R0, "samples"), -1, "samples is -1, where a whole number from 0"),
    ((*R0, "std_error"), -1, "std_error is -1, where a number from 0, or null, is"),
    ((*R0, "tolerance"), HUGE, "tolerance is 1000"),
    ((*R0, "prediction"), HUGE, "prediction is 1000"),
    ((*R0, "predicates", 0, 0), 2, r"predicates\[0\]\[0\] is 2, where a column from 0 to 1 is"),
    ((*R0, "predicates", 0, 1), HUGE, r"predicates\[0\]\[1\] is 1000.*where a finite number"),
    ((*R0, "predicates", 0, 1), {"float": "nan"}, r"predicates\[0\]\[1\] is {'float': 'nan'}"),
    ((*R0, "predicates", 0, 1), {"float": "inf"}, "whose low end is not below its high end"),
    ((*R0, "predicates", 1, 1), "red", r"predicates\[1\]\[1\] is 'red', where a list of cat"),
    (("stats", "search"), {"a": 1}, r"stats\['search'\] is {'a': 1}"),
    (("provenance", "deep"), DEEP, "provenance has more than 50 levels"),
]


@pytest.mark.parametrize(
    ("place", "value", "said"), REFUSED, ids=[str(i) for i in range(len(REFUSED))]
)
def test_the_error_says_the_field(place, value, said, tmp_path):
    path = tmp_path / "rules.json"
    text = changed(place, functools.partial(put_there, value))
    path.write_text(text)
    with pytest.raises(xj.InputError, match=f"^path: {path} .*{said}"):
        xj.Rules.load(path)
    with pytest.raises(xj.InputError, match=f"^text: .*{said}"):
        xj.Rules.from_json(text)


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"PK\x03\x04", b"[]", b"1", b"null", b"[" * 100_000, b"1" * 5_000,
     TEXT.replace("0.97", "1e999").encode(), TEXT.replace('"2"', "-1e999").encode(),
     TEXT.encode("utf-16"), *(TEXT[:end].encode() for end in range(1, len(TEXT), 61))],
)  # fmt: skip
def test_texts_of_something_else(content, tmp_path):
    path = tmp_path / "rules.json"
    path.write_bytes(content)
    with pytest.raises(xj.InputError, match=f"^path: {path} is no file of Rules.save: "):
        xj.Rules.load(path)
    with pytest.raises(xj.InputError, match="no text of Rules.to_json"):
        xj.Rules.from_json(content)


def test_fields_that_have_a_default_may_be_missing():
    content = json.loads(TEXT)
    for name in ("std_error", "target", "tolerance", "note", "single"):
        del content["rules"][0][name]
    assert xj.Rules.from_json(json.dumps(content))[0].note == ""


def test_rules_without_names_and_rows_that_do_not_fit():
    fields = {"accepted": True, "samples": 1, "search": "exact"}
    rule = xj.Rule(["b > 1"], [(1, 1.0, 2.0)], 1, 1.0, None, None, **fields)
    with pytest.raises(xj.InputError, match="has no names"):
        rule.applies(FRAME)
    with pytest.raises(xj.InputError, match="X has 1 columns; the rule is about column 1"):
        rule.applies(NUMBERS[:, :1])
    with pytest.raises(xj.InputTypeError, match="column 1 must be numbers"):
        rule.applies(np.array(FRAME, object))
    np.testing.assert_array_equal(rule.applies(NUMBERS), [False, False, True] * 2)


@pytest.mark.parametrize("act", [xj.load, xj.Rules.load, RULES.save, load_part])
def test_a_name_that_the_system_cannot_write(act):
    with pytest.raises(xj.InputError, match="path: .*ud800|part: "):
        act("\ud800")


@pytest.mark.parametrize(
    ("load", "told", "missing"),
    [
        (xj.load, ("is a folder", "no regular file"), FileNotFoundError),
        (xj.Rules.load, ("is a folder", "no regular file"), FileNotFoundError),
        (load_part, ("part: .*cannot be read",) * 2, xj.InputError),
    ],
)
def test_folders_pipes_and_devices_are_not_read(load, told, missing, tmp_path):
    odd = [(tmp_path, told[0]), ("/dev/zero", told[1])]
    if hasattr(os, "mkfifo"):  # a system without pipes that have names has none to wait for
        os.mkfifo(tmp_path / "pipe")
        odd.append((tmp_path / "pipe", told[1]))
    for path, words in odd:
        with pytest.raises(xj.InputError, match=words):
            load(path)
    with pytest.raises(missing):
        load(tmp_path / "nothing")
