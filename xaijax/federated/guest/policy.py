"""The policy of a guest: stated once, checked at each request.

Letters: F columns of the guest, E numbers in one answer, N rows, J bits of a draw.
"""

from __future__ import annotations

import decimal
import hashlib
import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public_class
from xaijax.results.recount import LATTICE, LEAST_NOISE

FEW_COLUMNS = 3  # below which a united value is nearly a column
TOKENS = 1024  # in one request


@public_class
@dataclass(frozen=True)
class Policy:
    """Says which requests a guest answers, and whose. It is checked at each request.

    A request is a list of tokens. A token is a code for an identifier, or for the reference, in one
    session. E is the number of numbers in an answer.

    Args:
        fewest: int. It is the least number of instances in one request; the reference does not
            count.
        most: int, above `fewest`. It is the largest number of tokens in one request.
        most_queries: int or None. It limits how often an identifier may be asked for, over all
            sessions and hosts, and over restarts if the guest has a `state` folder; without one a
            restart begins at 0. A request that would pass it is refused as a whole. None: no limit.
        versions: texts or None. They are the model versions that may be asked for. None: all that
            the guest has may be asked for.
        quantum: float above 0 or None. Answers are rounded to multiples of it. None: they are not
            rounded.
        epsilon: float above 0 or None. It sets the noise in every answer: discrete Laplace noise of
            scale E (high - low) / epsilon on multiples of 2^-20. The probabilities of an answer for
            two rows differ by a factor of at most e^epsilon. The noise is a function of the guest's
            secret, the identifier and its row, the model version, the part's numbers, the bounds
            and epsilon. A repeated request therefore gets the same noise. None: there is no noise.
        bounds: (low, high) within a million, or None. The numbers of an answer are clipped to it.
            It is needed with `epsilon`, and only then accepted.
        hosts: names of certificates that may ask. If empty, any name that the guest's authority
            signed may ask. The arbiter may not ask in either case.
        arbiter: text or None. It is the name of the certificate that gets rows as they are, for
            joint models (see `Arbiter`). It cannot be combined with `epsilon` or `quantum`. None:
            nobody gets rows.
        intersection: bool. It says whether a host may find the common identifiers by private set
            intersection (`Host.align`).
        allow_binary: bool. It says whether a guest with a single column of two values answers. Any
            answer that is not constant reveals the value.
        allow_distance_leak: bool. It says whether a guest answers with distances to training rows
            (`split_neighbours`). They give the whole table away.

    Raises:
        InputError, InputTypeError: a value is not accepted.

    Example:
        >>> import xaijax as xj
        >>> policy = xj.federated.Policy(fewest=20, most_queries=5, hosts=["bank.example"])
        >>> policy.fewest, policy.most_queries, policy.hosts
        (20, 5, ('bank.example',))

    References:
        Mironov, "On significance of the least significant bits for differential privacy" (CCS
        2012): why the noise is made of whole numbers.
    """

    fewest: int = 10
    most: int = TOKENS
    most_queries: int | None = None
    versions: Sequence[str] | None = None
    quantum: float | None = None
    epsilon: float | None = None
    bounds: tuple[float, float] | None = None
    hosts: Sequence[str] = ()
    arbiter: str | None = None
    intersection: bool = False
    allow_binary: bool = False
    allow_distance_leak: bool = False

    def __post_init__(self) -> None:
        checks.whole_number(self.fewest, "fewest")
        checks.whole_number(self.most, "most", least=self.fewest + 1)
        if self.most_queries is not None:
            checks.whole_number(self.most_queries, "most_queries")
        for name in ("quantum", "epsilon"):
            if getattr(self, name) is not None:
                checks.positive(getattr(self, name), name)
        for name in ("versions", "hosts"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _texts(getattr(self, name), name))
        if self.versions == ():
            raise InputError("versions is empty, so nothing could be asked. Leave it out for all.")
        if self.arbiter is not None and not isinstance(self.arbiter, str):
            raise InputTypeError(f"arbiter must be a certificate's name, got {self.arbiter!r}.")
        for name in ("intersection", "allow_binary", "allow_distance_leak"):
            checks.yes_or_no(getattr(self, name), name)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", _bounds(self.bounds))
        if (self.epsilon is None) != (self.bounds is None):
            raise InputError(
                "epsilon and bounds belong together: answers are clipped to the bounds, got "
                f"epsilon={self.epsilon!r}, bounds={self.bounds!r}."
            )
        if self.arbiter is not None and not (self.epsilon is None and self.quantum is None):
            raise InputError(
                "arbiter: rows go to it with neither the noise (epsilon=) nor the rounding "
                "(quantum=) of the policy. Leave one out, or run two guests."
            )


def check_columns(policy: Policy, rows: np.ndarray) -> None:
    """Refuses, or warns of, rows [N, F] whose united values say too much, wherever they are made.

    Raises InputError for a single binary column, unless the policy allows it.
    """
    columns = rows.shape[1]
    if columns == 1 and len(np.unique(rows)) <= 2 and not policy.allow_binary:
        raise InputError(
            "rows: any answer reveals the value of a guest's only column if that has at most two. "
            "Add columns, or say allow_binary=True in the policy."
        )
    if columns < FEW_COLUMNS:
        checks.warn(
            f"the guest has {checks.count(columns, 'column')}; a united value of fewer than "
            f"{FEW_COLUMNS} is nearly a function of one of them. Add columns, or noise (epsilon=)."
        )


def check_part(policy: Policy, part: Any, rows: np.ndarray) -> None:
    """Refuses, or warns of, a part of a model whose answers say too much of rows [N, F].

    Raises InputError for distances, unless the policy allows them, and for noise of a scale that
    cannot be drawn.
    """
    columns = rows.shape[1]
    if part.kind == "distances" and not policy.allow_distance_leak:
        raise InputError(
            "parts: distances to training rows give the guest's whole table away. Explain "
            "neighbours in one process, or say allow_distance_leak=True in the policy."
        )
    if part.width >= columns:
        checks.warn(
            f"the guest's answer has {part.width} numbers for {columns} columns, so that it may be "
            "inverted, and the rows read off. Use fewer numbers than columns, or noise (epsilon=)."
        )
    if policy.epsilon is not None and policy.bounds is not None:
        scale = scale_of(part.width, *policy.bounds, policy.epsilon)
        if not LEAST_NOISE <= scale <= MOST:
            raise InputError(
                f"epsilon={policy.epsilon:g} with bounds={policy.bounds}: a noise of {scale:.3g} x "
                f"2^-20; {LEAST_NOISE:.3g} to {MOST:.3g} hide answers and can be drawn. Scale the "
                "answers, or change epsilon."
            )


def _texts(values: Any, name: str) -> tuple[str, ...]:
    listed = isinstance(values, Sequence) and not isinstance(values, str | bytes)
    if not listed or not all(isinstance(value, str) for value in values):
        raise InputTypeError(f"{name} must be a list of texts, got {values!r}.")
    return tuple(values)


def _bounds(bounds: Any) -> tuple[float, float]:
    try:
        low, high = checks.real_numbers(list(bounds), "bounds").tolist()
    except (TypeError, ValueError):
        raise InputTypeError(f"bounds must be (low, high), got {bounds!r}.") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"bounds must be finite with low < high, got {bounds!r}.")
    if max(abs(low), abs(high)) > 1e6:
        raise InputError(f"bounds must lie within a million, got {bounds!r}. Scale the answers.")
    return low, high


MOST = 2.0**54  # the largest scale in lattice steps whose draws fit int64


def noise_key(
    secret: bytes,
    identifier: bytes,
    row: bytes,
    version: str,
    epsilon: float,
    rest: bytes = b"",
) -> bytes:
    """The seed of the noise of one answer; another row, version or epsilon has another.

    rest: all else that an answer depends on. One draw on two different answers would cancel in
    their difference.
    """
    parts = (identifier, row, version.encode(), float(epsilon).hex().encode(), rest)
    said = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(secret, b"xaijax.federated noise" + said, "sha256")


def noisy(
    answers: np.ndarray, low: float, high: float, epsilon: float, keys: Sequence[bytes]
) -> np.ndarray:
    """Answers [N, E], clipped to [low, high], on the lattice, with discrete Laplace noise; [N, E].

    The scale is that of the difference of two full rows, E (high - low) / epsilon. The
    probabilities of an answer for two rows differ by a factor of at most e^epsilon, up to 2^-63 per
    number, to which the bits of the draws are rounded, and if HMAC-SHA256 is a random function.
    Sums and bounds are whole numbers, so no rounding of floating-point noise reveals the answer
    (Mironov 2012, "On significance of the least significant bits for differential privacy").

    keys: [N], each from `noise_key`.
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
