"""Noise that is a function of the guest's secret, so that asking again does not average it out.

Letters: N rows, E numbers in a row, J bits of a draw.
"""

from __future__ import annotations

import decimal
import hashlib
import hmac
import math
from collections.abc import Sequence

import numpy as np

LATTICE = 1 << 20  # answers are multiples of 1 / LATTICE
MOST = 2.0**54  # the largest scale in lattice steps whose draws fit int64


def noise_key(
    secret: bytes,
    identifier: bytes,
    row: bytes,
    version: str,
    epsilon: float,
    rest: bytes = b"",
) -> bytes:
    """What the noise of one answer is drawn from; another row, version or epsilon has another.

    rest: all else that an answer depends on. One draw on two different answers would cancel in
    their difference.
    """
    parts = (identifier, row, version.encode(), float(epsilon).hex().encode(), rest)
    said = b"".join(len(one).to_bytes(8, "big") + one for one in parts)
    return hmac.digest(secret, b"xaijax.federated noise" + said, "sha256")


def noisy(
    answers: np.ndarray, low: float, high: float, epsilon: float, keys: Sequence[bytes]
) -> np.ndarray:
    """Answers [N, E], clipped to [low, high], on the lattice, with discrete Laplace noise; [N, E].

    The scale is that of the difference of two whole rows, E (high - low) / epsilon: whoever sees an
    answer can tell two rows apart by a factor of at most e^epsilon, up to the 2^-63 per number that
    the bits of the draws are rounded to and as far as HMAC-SHA256 looks random. Sums and bounds are
    whole numbers, so no rounding of floating-point noise tells the answer (Mironov 2012, "On
    significance of the least significant bits for differential privacy").

    keys: [N], of `noise_key`.
    """
    lowest, highest = on_lattice(low), on_lattice(high)
    exact = np.rint(np.clip(answers, low, high) * LATTICE).astype(np.int64)
    exact = np.clip(exact, lowest, highest)
    scale = scale_of(answers.shape[1], low, high, epsilon)
    thresholds = bit_thresholds(scale)
    drawn = np.stack([_draws(key, answers.shape[1], thresholds) for key in keys])
    return (exact + drawn) / LATTICE


def on_lattice(value: float) -> int:
    """The nearest point, in lattice steps."""
    return int(np.rint(value * LATTICE))


def scale_of(width: int, low: float, high: float, epsilon: float) -> float:
    """The noise's scale in lattice steps, for answers of `width` numbers."""
    return width * (on_lattice(high) - on_lattice(low)) / epsilon


def bit_thresholds(scale: float) -> np.ndarray:
    """2^64 times the chance that bit j of a geometric draw is 1, as uint64 [J].

    P(G = k) is proportional to q^k with q = exp(-1 / scale). With k = sum_j b_j 2^j this is the
    product of q^(b_j 2^j): bits are independent, and bit j is 1 with 1 / (1 + exp(2^j / scale)).
    Bits whose chance is below 2^-64 are left out.
    """
    bits = max(1, math.ceil(math.log2(64 * math.log(2) * scale)) + 1)
    with decimal.localcontext() as context:
        context.prec = 60
        chances = [
            1 / (1 + (decimal.Decimal(2**j) / decimal.Decimal(scale)).exp()) for j in range(bits)
        ]
        return np.array([int(chance * 2**64) for chance in chances], np.uint64)


def _draws(key: bytes, count: int, thresholds: np.ndarray) -> np.ndarray:
    """Discrete Laplace draws, the difference of two geometric ones; int64 [count]."""
    stream = hashlib.shake_256(key).digest(16 * count * len(thresholds))
    uniform = np.frombuffer(stream, "<u8").reshape(count, 2, len(thresholds))
    bits = (uniform < thresholds).astype(np.int64)
    geometric = (bits << np.arange(len(thresholds))).sum(axis=2)
    return geometric[:, 0] - geometric[:, 1]
