"""The noise: OpenDP's integer discrete Laplace, and nothing else, ever.

Floating-point Laplace noise reveals the value that it was added to: the possible sums differ from
value to value in their last bits, and in float32 a sizeable share of draws identifies the value.
Values are therefore whole numbers (multiples of 2^-20), and integer noise is added, drawn exactly.
P(noise = k) = (1 - q) / (1 + q) q^|k|, q = exp(-1 / scale).
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xaijax.core.errors import InputError, PrivacyError
from xaijax.core.optional import require
from xaijax.results.recount import LATTICE, LEAST_NOISE

LARGEST = 1 << 50  # limit of scales and values; OpenDP's i64 would saturate far beyond


class TooLittleNoise(PrivacyError):
    """The scale is below LEAST_NOISE; `factor`: the largest allowed factor for epsilon."""

    def __init__(self, factor: float) -> None:
        super().__init__("epsilon= is so large that the noise is nearly always 0.")
        self.factor = factor


def refuse_no_noise(sensitivity: int, epsilon: float) -> None:
    """Raises TooLittleNoise if sensitivity / epsilon is below LEAST_NOISE."""
    factor = sensitivity / LEAST_NOISE / epsilon
    if factor < 1:
        raise TooLittleNoise(factor)


def library() -> Any:
    """The OpenDP library; raises ImportError that names the extra.

    An interrupt waits until it is imported: it registers names, and a second import after half of
    one would find them taken.
    """
    with interrupts_later():
        dp = require("opendp.prelude", "xaijax[privacy]")
        dp.enable_features("contrib")
    return dp


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Delays Ctrl-C to the end of the block; threads other than the main one never get it."""
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or not callable(before):
        yield
        return
    came: list[Any] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[-1])


def measurement(scale: float) -> Any:
    """The mechanism on vectors of whole numbers, with their L1 distance.

    T="i64" is used and not T=int, which is 32 bits wide and saturates. It raises for what OpenDP
    accepts: a scale of 0, one that is not finite, or one so large that whole numbers overflow.
    """
    if isinstance(scale, bool) or not isinstance(scale, int | float):
        raise InputError(f"scale must be a number above 0, got {type(scale).__name__}.")
    if not math.isfinite(scale) or not 0 < scale < LARGEST:
        raise PrivacyError(
            f"the noise would need a scale of {scale:g} lattice steps, not within 0 and 2^50. "
            "Choose a larger epsilon=, or more rows."
        )
    dp = library()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return dp.m.make_laplace(*space, scale=float(scale))


def scale_for(sensitivity: int, epsilon: float) -> float:
    """A scale, in lattice steps, for which OpenDP itself proves `epsilon`.

    It is sensitivity / epsilon, or the first scale above it (steps double) that OpenDP's rounding
    accepts.
    """
    if sensitivity < 1:
        raise PrivacyError("a sensitivity of 0 needs no noise, and none is drawn.")
    scale = sensitivity / epsilon
    step = math.ulp(scale)
    for _ in range(64):
        if measurement(scale).map(sensitivity) <= epsilon:
            return scale
        scale, step = scale + step, 2 * step
    raise PrivacyError(f"no scale was found for epsilon={epsilon:g}. Choose a larger one.")


def noisy(values: Sequence[int], scale: float) -> list[int]:
    """Adds independent discrete Laplace noise to whole numbers."""
    refuse_large(values)
    return list(measurement(scale)([int(value) for value in values]))


def refuse_large(values: Sequence[int]) -> None:
    """Raises PrivacyError if values come near the limit of i64: scores about 2^29 wide or more."""
    if any(abs(int(value)) >= LARGEST for value in values):
        raise PrivacyError(
            "explanation cannot be released: a value could have 2^50 steps of 2^-20. Rescale the "
            "score, and with it bounds=."
        )


def standard_error(scale: float) -> float:
    """The standard error of the noise, as a value: sqrt(2 q) / (1 - q) lattice steps."""
    q = math.exp(-1 / scale)
    return math.sqrt(2 * q) / -math.expm1(-1 / scale) / LATTICE


def amplified(epsilon: float, rate: float) -> float:
    """The epsilon that the mechanism may spend on a sample, for `epsilon` on all rows.

    It is ln(1 + (e^epsilon - 1) / rate) for samples without replacement and neighbours of equal
    size (Balle, Barthe and Gaboardi 2018, theorem 9), slightly reduced for rounding.
    """
    if rate >= 1:
        return epsilon
    if epsilon > 500:  # e^epsilon has no float; the omitted part is below one in e^500
        return (epsilon - math.log(rate)) * (1 - 1e-12)
    return math.log1p(math.expm1(epsilon) / rate) * (1 - 1e-12)


def of_all_rows(spent: float, rate: float) -> float:
    """The epsilon on all rows for which a mechanism on a sample spends this; inverts
    `amplified`.
    """
    if rate >= 1:
        return spent
    if spent > 500:
        return spent + math.log(rate)
    return math.log1p(math.expm1(spent) * rate)
