"""A stamp of an estimator tells every two states apart, and no state from itself."""

from __future__ import annotations

import numpy as np
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
