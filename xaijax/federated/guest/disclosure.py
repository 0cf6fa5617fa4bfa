"""What leaves a guest's house: answers clipped, with noise, rounded, as the policy says.

Letters: N rows, n rows asked for, F columns of the guest, E numbers of an answer.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any

import numpy as np

from xaijax.federated.guest.noise import noise_key, noisy
from xaijax.federated.guest.policy import Policy
from xaijax.federated.wire.messages import FLOAT32
from xaijax.federated.wire.party import Refused


class Disclosure:
    """A guest's rows, and the one way out for what is computed of them."""

    def __init__(
        self,
        rows: np.ndarray,
        reference: np.ndarray,
        identifiers: Sequence[bytes],
        policy: Policy,
        secret: bytes,
    ) -> None:
        """rows [N, F], reference [F], identifiers [N]."""
        self._rows, self._reference, self.identifiers = rows, reference, identifiers
        self._policy, self._secret = policy, secret
        # By identifier: the same people in another order are the same people.
        order = sorted(range(len(identifiers)), key=lambda place: identifiers[place])
        content = hashlib.sha256(rows[order].tobytes() + reference.tobytes())
        for one in (identifiers[place] for place in order):
            content.update(len(one).to_bytes(4, "big") + one)
        self._content = content.digest()

    def values(self, places: np.ndarray) -> np.ndarray:
        """The rows themselves, [n, F]; place -1 is the reference."""
        return np.where(places[:, None] >= 0, self._rows[places], self._reference)

    def answers(
        self, part: Any, version: str, columns: Sequence[int], places: np.ndarray
    ) -> np.ndarray:
        """g of these rows as it leaves the house; [n, E]. columns: [F], of the part, in the rows.

        Raises Refused for answers that are not finite, beyond float32 or of another shape, and
        whatever the part raises.
        """
        values, policy = self.values(places)[:, list(columns)], self._policy
        found = np.asarray(part.answers(values), np.float64)
        if found.shape != (len(places), part.width) or not np.isfinite(found).all():
            raise Refused("internal", "part: its answers are not finite, or of another shape.")
        if policy.epsilon is not None and policy.bounds is not None:
            rest = repr(policy.bounds).encode() + _content(part)
            keys = [
                noise_key(
                    self._secret,
                    b"\x01" + self.identifiers[place] if place >= 0 else b"\x00",  # the reference
                    row.tobytes(),
                    version,
                    policy.epsilon,
                    rest,
                )
                for place, row in zip(places, values, strict=True)
            ]
            found = noisy(found, *policy.bounds, policy.epsilon, keys)
        if policy.quantum is not None:
            found = np.rint(found / policy.quantum) * policy.quantum
        if not (np.abs(found) <= FLOAT32).all():
            raise Refused(
                "internal",
                f"part: its answers, as the policy rounds them, are not within {FLOAT32:.3g}, the "
                "largest number of float32. Rescale the part, or give a larger quantum.",
            )
        return found

    def state(self, part: Any, version: str, columns: Sequence[int]) -> bytes:
        """What changes when answers would; it says nothing without the secret."""
        digest = hmac.new(self._secret, b"xaijax.federated state", "sha256")
        policy = self._policy
        shape = None if part is None else (part.kind, part.columns, part.width)
        said = [version, shape, policy.quantum, policy.epsilon, policy.bounds, list(columns)]
        digest.update(repr(said).encode() + _content(part) + self._content)
        return digest.digest()[:16]


def _content(part: Any) -> bytes:
    """A digest of a part's numbers; of a function, nothing but its version can be known."""
    digest = hashlib.sha256()
    for name, array in sorted(getattr(part, "arrays", {}).items()):
        digest.update(repr((name, array.dtype.str, array.shape)).encode() + array.tobytes())
    return digest.digest()
