"""What the compilers of a TPU and of a GPU make of the library's programs.

Kernels, rows of the smallest product, collectives, float64 and transfers to the host depend on the
program and on the compiler's version, not on a clock. `LIMITS` has the most kernels for a million
hybrids and the fewest rows of the smallest product.
"""

from __future__ import annotations

from collections.abc import Callable, Set
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
    products: Set[str] = frozenset({"float32"})  # in which numbers they multiply, at most


# Figures of a TPU for jobs of SMALL are those of the small ones.
LIMITS: dict[str, dict[str, Limit]] = {
    "h200": {
        "T1": Limit(81, 81_920),
        "T1, plain": Limit(27, 524_288),
        "T1, one instance": Limit(93, 81_920),
        "T1, bfloat16": Limit(81, 81_920, products={"float32", "bfloat16"}),
        "T3": Limit(86, 65_536),
        "logistic": Limit(29),
        "RBF machine": Limit(213, 65_536),
        "forest, labels": Limit(168, 32),
        "boosted": Limit(120),  # tests of bits, no product
        "nearest neighbours": Limit(553, 32_768),
        "first convolution": Limit(2_552, 10_240),
        "kernel, P = 64": Limit(43, 319_488),
        "permutation, P = 64": Limit(69, 159_744),
        "permutation, P = 784": Limit(97, 156_800),
        "interactions": Limit(86, 65_536),
        "certain top-k": Limit(69, 159_744),
        "QII, all pairs": Limit(36, 524_288),
        "Anchors": Limit(1_955, 32_768),
        "integrated gradients": Limit(1_080, 1_664),
        "expected gradients": Limit(219, 1_600),
        "shapley_values": Limit(12_454),
        "ViT": Limit(439_454, 16_384),
        "GPT": Limit(427_735, 16_384),
    },
    "v5e:1x1": {
        "T1": Limit(199, 81_920, cycles=1.14),
        "T1, plain": Limit(488, 65_536, cycles=1.4),
        "T1, one instance": Limit(3_192, 81_920),
        "T1, bfloat16": Limit(199, 81_920, products={"float32", "bfloat16"}),
        # Pairs of four sizes share a program of sums: 8.6 kernels more, one program less.
        "T3": Limit(851, 8_192, cycles=1.46),
        "logistic": Limit(67),
        "RBF machine": Limit(20_722, 2_048),
        # A slice a column says where NaN goes, which the forest takes also where none was fitted:
        # 14 and 65 kernels more in programs of 1,102 and 2,666, 17.6 of a million.
        "forest, labels": Limit(874, 208),
        "boosted": Limit(),  # tests of bits, no product
        "nearest neighbours": Limit(286_866, 2_048),
        "first convolution": Limit(193_112),
        "kernel, P = 64": Limit(300, 106_496),
        "permutation, P = 64": Limit(484, 59_904),
        "permutation, P = 784": Limit(782, 35_840),
        "interactions": Limit(850, 8_192),
        "certain top-k": Limit(484, 59_904),
        "QII, all pairs": Limit(584, 65_536),
        "Anchors": Limit(230_100, 16_384),
        "integrated gradients": Limit(12_901, 1_312),
        "expected gradients": Limit(802, 1_312),
        "shapley_values": Limit(26_738),
        "ViT": Limit(4_857_422),
        "GPT": Limit(4_355_470),
    },
}
SPLIT = "T1", "T3", "kernel, P = 64", "permutation, P = 64", "expected gradients"


@pytest.mark.parametrize("target", LIMITS)
@pytest.mark.parametrize("name", JOBS)
def test_programs_stay_within_their_limits(
    name: str, target: str, compilers: Callable[[str], Any]
) -> None:
    limit = LIMITS[target][name]
    programs = compilers(target).job(name, small=True, compare=limit.cycles is not None)
    assert programs
    for one in programs:
        assert not one.figures["float64"] and not one.figures["host"]
        assert one.figures["collectives"] == 0
    made_in = {numbers for one in programs for numbers in one.figures["arithmetic"]}
    assert made_in - {"pred"} <= limit.products
    assert limit.products - made_in <= {"float32"}  # what was asked for is used
    assert limit.kernels is None or kernels(programs) <= limit.kernels
    assert not limit.rows or (smallest(programs) or 0) >= limit.rows
    assert limit.cycles is None or cycles(programs) <= limit.cycles


@pytest.mark.parametrize("name", SPLIT)
def test_programs_split_over_four_chips_have_no_collective(
    name: str, compilers: Callable[[str], Any]
) -> None:
    for one in compilers("v5e:2x2").job(name, small=True, compare=False):
        assert one.figures["collectives"] == 0 and not one.figures["float64"]
