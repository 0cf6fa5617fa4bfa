"""Ceilings of the bench: what no library could pass is told from what this one misses."""

from __future__ import annotations

from typing import Any

import pytest

from bench import report
from bench.frame import Figure


@pytest.mark.parametrize(
    ("better", "value", "ceiling", "verdict", "share"),
    [
        ("more", 8.0, 10.0, "beyond the ceiling", 0.8),  # of a target of 20
        ("more", 8.0, 32.0, "missed", 0.25),
        ("more", 9.0, 8.0, "beyond the ceiling", 1.125),
        ("more", 24.0, 32.0, "met", 0.75),
        ("less", 40.0, 30.0, "beyond the ceiling", 0.75),
        ("less", 40.0, 10.0, "missed", 0.25),
    ],
)
def test_a_target_that_no_library_could_reach_is_told(
    better: Any, value: float, ceiling: float, verdict: str, share: float
) -> None:
    figure = Figure("f", value, 20.0, None, better, ceiling=ceiling)
    assert (figure.verdict, figure.of_ceiling) == (verdict, share)
    told = f"{share:.0%} of the ceiling here" if share < 1 else "the ceiling here is reached"
    assert report._verdict(figure) == f"{verdict}, {told}"
