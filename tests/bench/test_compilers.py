"""What the compilers of a TPU and of a GPU make of the library's programs.

Kernels, rows of the smallest product, collectives, float64 and transfers to the host depend on the
program and on the compiler's version, not on a clock. `LIMITS` has the most kernels for a million
hybrids and the fewest rows of the smallest product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from bench.accelerators import cycles, kernels, smallest
from bench.compiler_jobs import JOBS

pytestmark = [pytest.mark.compilers, pytest.mark.slow]


@dataclass(frozen=True)
class Limit:
    """What a problem may cost on a target."""

    kernels: float | None = None  # at most, for a million hybrids; None: any number
    rows: int = 0  # of the smallest product, at least
    cycles: float | None = None  # over those of the plain forward pass, at most
    seconds: float | None = None  # of the processor, to compile


LIMITS: dict[str, dict[str, Limit]] = {
    "h200": {},
    "v5e:1x1": {},
}
SPLIT = "T1", "T3", "kernel, P = 64", "permutation, P = 64", "expected gradients"


@pytest.mark.parametrize("target", LIMITS)
@pytest.mark.parametrize("name", JOBS)
def test_programs_stay_within_their_limits(
    name: str, target: str, compilers: Callable[[str], Any]
) -> None:
    programs, limit = compilers(target).job(name), LIMITS[target].get(name, Limit())
    assert programs
    for one in programs:
        assert not one.figures["float64"] and not one.figures["host"]
        assert one.figures["collectives"] == 0
        assert set(one.figures["arithmetic"]) <= {"float32", "pred"}  # full products
    assert limit.kernels is None or kernels(programs) <= limit.kernels
    assert (smallest(programs) or limit.rows) >= limit.rows
    assert limit.cycles is None or cycles(programs) <= limit.cycles
    assert limit.seconds is None or sum(one.seconds for one in programs) <= limit.seconds


@pytest.mark.parametrize("name", SPLIT)
def test_programs_split_over_four_chips_have_no_collective(
    name: str, compilers: Callable[[str], Any]
) -> None:
    for one in compilers("v5e:2x2").job(name):
        assert one.figures["collectives"] == 0 and not one.figures["float64"]
