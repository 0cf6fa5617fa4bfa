"""What TF32 may change: the network on the host in float64, its operands cut to TF32's bits.

A product in TF32 keeps 10 bits of the fraction of each operand and adds in float32. Hardware
rounds to these bits, or drops the others. Dropping is the worse of the two: all errors then have
one sign, so that they do not cancel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.definition import REASON, shapley, tolerance
from bench.models import Params

Operand = Callable[[np.ndarray], np.ndarray]

BITS = 10  # of the fraction; float32 has 23
TF32_REASON = (
    "twice what dropping all but 10 bits of each operand changes, computed in float64 on the same "
    "rows: the device's float32 activations are cut elsewhere than those in float64; and float32's "
    "own tolerance"
)


def whole(values: np.ndarray) -> np.ndarray:
    """Operands as they are, in float64."""
    return np.asarray(values, np.float64)


def dropped(values: np.ndarray, bits: int = BITS) -> np.ndarray:
    """Operands with all but `bits` of the fraction dropped, in float64."""
    pattern = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return (pattern >> (23 - bits) << (23 - bits)).view(np.float32).astype(np.float64)


def rounded(values: np.ndarray, bits: int = BITS) -> np.ndarray:
    """Operands rounded to `bits` of the fraction, ties to even, in float64."""
    pattern = np.ascontiguousarray(values, np.float32).view(np.uint32)
    low = np.uint32(23 - bits)
    odd = (pattern >> low) & 1
    return dropped((pattern + np.uint32(2 ** (22 - bits) - 1) + odd).view(np.float32), bits)


def on_host(params: Params, rows: np.ndarray, operand: Operand = whole) -> np.ndarray:
    """The network of `models.forward` in float64: rows [R, F] -> [R]."""
    hidden = (whole(rows) - params["shift"]) / params["scale"]
    last = len(params["layers"]) - 1
    for index, (weight, bias) in enumerate(params["layers"]):
        hidden = operand(hidden) @ operand(weight) + bias
        if index < last:
            hidden = np.maximum(hidden, 0)
    return hidden[:, 0]


def values(
    params: Params, X: np.ndarray, background: np.ndarray, operand: Operand = whole
) -> np.ndarray:
    """Shapley values [N, P] by the definition."""
    return np.stack(
        [shapley(lambda rows: on_host(params, rows, operand), x, background) for x in X]
    )


def accepted(
    precision: str, exact: np.ndarray, cut: np.ndarray, outputs: np.ndarray
) -> tuple[float, str]:
    """How far from `exact` results in a precision may be, and why.

    cut: the same results with operands `dropped`. outputs: of the network.
    """
    if precision == "float32":
        return tolerance(outputs), REASON
    return 2 * float(np.abs(cut - exact).max()) + tolerance(outputs), TF32_REASON
