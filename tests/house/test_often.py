"""Which cases of a product are left out: none whose two values meet in no other case."""

from __future__ import annotations

import itertools

import often
import pytest

AXES = {"a": range(4), "b": range(3), "c, d": [(0, 1), (2, 3), (4, 5)]}


def cases(**options: bool) -> dict[tuple[int, ...], bool]:
    """Whether each case is slow."""
    mark = often.product(AXES, every=3, **options)
    return {one.values: bool(one.marks) for one in mark.args[1]}


def test_all_that_is_not_slow_stays_and_all_pairs_meet() -> None:
    every, kept = cases(), cases(pairwise=True)
    assert len(every) == 36
    assert len(kept) < 24
    assert [one for one in every if not every[one]] == [one for one in kept if not kept[one]]
    for first, second in itertools.combinations((0, 1, 2), 2):
        met = {(one[first], one[second]) for one in kept}
        assert met == {(one[first], one[second]) for one in every}


def test_a_value_whose_cases_are_all_slow_is_refused() -> None:
    with pytest.raises(ValueError, match="a: all cases"):
        often.product(AXES, often=lambda a, *others: a > 0)
