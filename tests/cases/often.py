"""Which cases of a test run often: the others carry the mark `slow`, which `make test` leaves out.

In a `product` every value of a parameter stays in some case that is not slow: one that leaves a
value out is refused when tests are collected. `some_slow` keeps no more than its first case and
some others; where kinds alternate in a list, an odd `every` keeps some of each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

Case = Any  # a plain value, a tuple for several names, or a pytest.param


def some_slow(cases: Iterable[Case], every: int = 2) -> list[Any]:
    """The cases, of which the first and each `every`-th after it is not slow.

    A case that is a pytest.param keeps its id and its marks.
    """
    return [_slow(case) if place % every else case for place, case in enumerate(cases)]


def all_but(cases: Iterable[Case], slow: Iterable[Any]) -> list[Any]:
    """The plain values, of which those in `slow` are slow; all of these must be there."""
    cases, slow = list(cases), list(slow)
    absent = [name for name in slow if name not in cases]
    if absent:
        raise ValueError(f"no such cases: {absent}")
    return [_slow(case) if case in slow else case for case in cases]


def product(
    axes: Mapping[str, Iterable[Case]],
    every: int = 2,
    often: Callable[..., bool] | None = None,
    pairwise: bool = False,
) -> pytest.MarkDecorator:
    """The mark of all combinations, as stacked marks would give them, of which some are not slow.

    axes: the values by name ("a, b" for pairs). The first is that of the lowest stacked mark: it
        comes first in the ids.
    every: a combination is not slow where the places of its values add up to a multiple of it:
        about one in so many, spread over all of them.
    often: says instead of `every` whether a combination is not slow. It is called with the values
        in their order.
    pairwise: leave out the slow combinations that are not needed for any two values of two axes to
        meet in some case. Most faults that hang on a combination hang on two of its values.
    """
    listed = [[_param(value) for value in values] for values in axes.values()]
    chosen, seen = {}, set()
    for places in itertools.product(*(range(len(axis)) for axis in listed)):
        parts = [axis[place] for axis, place in zip(listed, places, strict=True)]
        values = [value for part in parts for value in part.values]
        ids = [_id(*part) for part in zip(axes, parts, places, strict=True)]
        case = pytest.param(
            *values, id="-".join(ids), marks=[mark for part in parts for mark in part.marks]
        )
        if often(*values) if often else sum(places) % every == 0:
            if not _is_slow(case):
                seen |= set(enumerate(places))
        else:
            case = _slow(case)
        chosen[places] = case
    for at, (name, axis) in enumerate(zip(axes, listed, strict=True)):
        for place, part in enumerate(axis):
            if (at, place) not in seen and not _is_slow(part):
                raise ValueError(f"{name}: all cases of {part.values} are slow")
    if pairwise:
        chosen = _pairwise(chosen)
    return pytest.mark.parametrize(_names(", ".join(axes)), list(chosen.values()))


def _pairwise(cases: Mapping[tuple[int, ...], Any]) -> dict[tuple[int, ...], Any]:
    """The cases, by the places of their values, without slow ones whose pairs others show."""
    chosen = {places for places, case in cases.items() if not _is_slow(case)}
    met = {pair for places in chosen for pair in _pairs(places)}
    for places in cases:
        if not met.issuperset(_pairs(places)):
            chosen.add(places)
            met.update(_pairs(places))
    return {places: case for places, case in cases.items() if places in chosen}


def _pairs(places: tuple[int, ...]) -> list[Any]:
    """Two axes each, with the places of their values."""
    return list(itertools.combinations(enumerate(places), 2))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _is_param(case: Case) -> bool:
    return hasattr(case, "values") and hasattr(case, "marks")


def _param(case: Case) -> Any:
    if _is_param(case):
        return case
    return pytest.param(*case) if isinstance(case, tuple) else pytest.param(case)


def _is_slow(case: Any) -> bool:
    return any(mark.name == "slow" for mark in case.marks)


def _slow(case: Case) -> Any:
    case = _param(case)
    if _is_slow(case):
        return case
    return pytest.param(*case.values, id=case.id, marks=[*case.marks, pytest.mark.slow])


def _id(names: str, part: Any, place: int) -> str:
    """As pytest makes it."""
    if part.id is not None:
        return str(part.id)
    pairs = zip(_names(names), part.values, strict=True)
    return "-".join(_of_value(name, value, place) for name, value in pairs)


def _of_value(name: str, value: Any, place: int) -> str:
    if value is None or isinstance(value, str | int | float | bool):
        return str(value)
    return getattr(value, "__name__", f"{name}{place}")
