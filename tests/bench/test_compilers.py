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
    seconds: float | None = None  # of the processor, to compile
    products: Set[str] = frozenset({"float32"})  # in which numbers they multiply, at most


# Figures of a TPU for jobs of SMALL are those of the small ones.
LIMITS: dict[str, dict[str, Limit]] = {
    "h200": {
        "T1": Limit(326, 65_536),
        "T1, plain": Limit(49, 262_144),
        "T1, one instance": Limit(5_171, 65_536),
        "T1, bfloat16": Limit(326, 65_536, products={"float32", "bfloat16"}),
        "T3": Limit(154, 65_536),
        "logistic": Limit(206),
        "RBF machine": Limit(446, 32_768),
        "forest": Limit(29_257),
        "forest, labels": Limit(2_612, 32),
        "nearest neighbours": Limit(1_104, 16_384),
        "first convolution": Limit(300_633, 250),
        "kernel, P = 64": Limit(6_965, 768),
        "permutation, P = 64": Limit(2_427, 120_832),
        "permutation, P = 784": Limit(8_130, 39_168),
        "interactions": Limit(154, 65_536),
        "certain top-k": Limit(2_427, 120_832),
        "QII, all pairs": Limit(66, 262_144),
        "Anchors": Limit(28, 32_768),
        "integrated gradients": Limit(4_560, 1_312),
        "expected gradients": Limit(278, 1_312),
        "shapley_values": Limit(12_454),
        "ViT": Limit(443_360, 16_384),
        "GPT": Limit(427_735, 16_384),
    },
    "v5e:1x1": {
        "T1": Limit(1_208, 65_536, cycles=1.82, seconds=20),
        "T1, plain": Limit(488, 65_536, cycles=3.21),
        "T1, one instance": Limit(19_170, 65_536),
        "T1, bfloat16": Limit(1_208, 65_536, products={"float32", "bfloat16"}),
        "T3": Limit(783, 13_312, cycles=1.65),
        "logistic": Limit(1_109),
        "RBF machine": Limit(23_163, 2_048),
        "forest": Limit(371_036),
        "forest, labels": Limit(47_965, 32),
        "nearest neighbours": Limit(275_147, 2_048),
        "first convolution": Limit(193_112, 1_020),
        "kernel, P = 64": Limit(13_824, 65_520),
        "permutation, P = 64": Limit(14_209, 53_248),
        "permutation, P = 784": Limit(32_995, 39_168),
        "interactions": Limit(783, 13_312),
        "certain top-k": Limit(14_209, 53_248),
        "QII, all pairs": Limit(600, 65_536),
        "Anchors": Limit(81, 16_384),
        "integrated gradients": Limit(19_500, 672),
        "expected gradients": Limit(1_546, 608),
        "shapley_values": Limit(26_738),
        "ViT": Limit(4_855_469, 65_536),
        "GPT": Limit(4_355_470, 65_536),
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
    assert limit.seconds is None or sum(one.seconds for one in programs) <= limit.seconds


@pytest.mark.parametrize("name", SPLIT)
def test_programs_split_over_four_chips_have_no_collective(
    name: str, compilers: Callable[[str], Any]
) -> None:
    for one in compilers("v5e:2x2").job(name, small=True, compare=False):
        assert one.figures["collectives"] == 0 and not one.figures["float64"]
