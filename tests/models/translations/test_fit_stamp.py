"""A stamp of an estimator tells every two states apart, and no state from itself."""

from __future__ import annotations

import array
import collections
import decimal
import functools
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from xaijax.models.identity.fit_stamp import Stamp


def test_minus_one_and_minus_two_are_two_states():
    """Python's hash takes them for one number."""
    estimator = LinearRegression()
    estimator.kept = -1
    before = Stamp(estimator)
    estimator.kept = -2
    assert Stamp(estimator) != before


def test_values_that_python_takes_for_equal_are_told_apart():
    """And those that are written alike, or stand in things of another kind."""
    values = [True, 1, 1.0, np.float64(1), "1", b"1", None, 0, False, 0.0, -0.0, "", b"", ()]
    values += [[], {}, ("1",), ["1"], {"1"}, {"1": None}, {b"1": None}, {1: None}, {"1": "None"}]
    values += [{"a": "1", "b": None}, {"a": "1"}, {"a": {"1": None}, "b": None}]
    stamps = [Stamp({"kept": value, "more": None}) for value in values]
    for i, one in enumerate(stamps):
        assert [j for j, other in enumerate(stamps) if one == other] == [i], values[i]
    assert Stamp({"kept": float("nan")}) == Stamp({"kept": float("nan")})


def test_what_lies_between_the_fields_of_a_record_is_no_state():
    """A tree's nodes are such records; a number within one of them is its state."""
    kind = np.dtype({"names": ["a", "b"], "formats": ["i1", "(2,)f8"], "offsets": [0, 8]})
    one, other = np.zeros(3, kind), np.frombuffer(bytearray(b"\xff" * 3 * kind.itemsize), kind)
    for name in kind.names:
        other[name] = one[name]
    assert one.tobytes() != other.tobytes()
    assert Stamp([one]) == Stamp([other])
    other["b"][2, 1] = 5e-324
    assert Stamp([one]) != Stamp([other])


class Slotted:
    """What it holds stands beside its `__dict__`."""

    __slots__ = ("__dict__", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight


class Noted(dict):
    """A dict with an attribute."""

    def __init__(self, note: str) -> None:
        self.note = note


@pytest.mark.parametrize(
    "made",
    [
        lambda n: collections.deque([n]),
        lambda n: array.array("d", [n]),
        lambda n: operator.itemgetter(n),
        lambda n: re.compile("ab"[n]),
        lambda n: functools.partial(max, n),
        lambda n: functools.partial(max, key=n),
        lambda n: Slotted(float(n)),
        lambda n: Noted("ab"[n]),
        lambda n: decimal.Decimal(n),
        lambda n: np.zeros(2, [(name, "f8") for name in ("ab", "ba")[n]]),
    ],
)
def test_what_no_dict_of_an_object_shows_is_told_apart(made: Callable[[int], Any]) -> None:
    """Classes written in C, whose objects may have a `__dict__` besides, slots, names of fields."""
    assert Stamp({"kept": made(0)}) != Stamp({"kept": made(1)})
    kept = {"kept": made(0)}
    assert Stamp(kept) == Stamp(kept)


def test_objects_of_python_are_read_by_their_dict_alone() -> None:
    """The others are asked for what they would pickle, which takes longer."""
    stamp = Stamp([LinearRegression(), Slotted(0.0), functools.partial(max)])
    found = {kind.__name__: bare for kind, (_, bare) in stamp._kinds.items()}
    assert found == {"LinearRegression": True, "Slotted": False, "partial": False}
