"""Private set intersection: two parties learn the identifiers that both have, and no others.

It uses openmined-psi (elliptic-curve Diffie-Hellman) if that is installed. One run informs one
side; it is run in both directions, in two steps of the wire:

    1. host -> guest   the host's request, how many identifiers it has
       guest -> host   the guest's setup and response (the host now knows), the guest's own request
    2. host -> guest   the host's setup and response (the guest now knows)

Each side learns how many identifiers the other has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xaijax.core.errors import FederatedProtocolError
from xaijax.core.optional import require
from xaijax.federated.wire.messages import LARGEST
from xaijax.federated.wire.party import Transport, ask

INSTALL = "openmined-psi"
FALSE_POSITIVES = 1e-12  # not used by the raw structure, which has none
MOST = LARGEST // 128  # identifiers of a side; both requests and setups fit a message


class Intersection:
    """One side of one run."""

    def __init__(self, identifiers: Sequence[bytes]) -> None:
        """Raises ImportError if openmined-psi is not installed, FederatedProtocolError for more
        identifiers than fit a message.
        """
        self._library = require("private_set_intersection.python", INSTALL)
        if len(identifiers) > MOST:
            raise FederatedProtocolError(
                f"identifiers: {len(identifiers):,}; private set intersection takes at most "
                f"{MOST:,}. Give both parties the aligned list."
            )
        self._identifiers = tuple(identifiers)
        # Hexadecimal: the library takes texts.
        self._texts = [identifier.hex() for identifier in self._identifiers]
        self._client = self._library.client.CreateWithNewKey(True)

    def request(self) -> bytes:
        """The request of this side to the other one."""
        return self._client.CreateRequest(self._texts).SerializeToString()

    def reply(self, request: bytes, count: int) -> dict[str, bytes]:
        """The setup and the response to the other side's request for `count` identifiers."""
        if not 0 < count <= MOST:
            raise FederatedProtocolError(f"count: {count:,} identifiers; 1 to {MOST:,} accepted.")
        server = self._library.server.CreateWithNewKey(True)
        raw = self._library.DataStructure.RAW
        setup = server.CreateSetupMessage(FALSE_POSITIVES, count, self._texts, raw)
        response = server.ProcessRequest(self._parsed(self._library.Request, request))
        return {"setup": setup.SerializeToString(), "response": response.SerializeToString()}

    def first_reply(self, request: bytes, count: int) -> dict[str, Any]:
        """The guest's reply to step 1."""
        fields = {"request": self.request(), "count": len(self._identifiers)}
        return self.reply(request, count) | fields

    def common(self, setup: bytes, response: bytes) -> tuple[bytes, ...]:
        """The identifiers that both have, in the caller's order."""
        library = self._library
        places = self._client.GetIntersection(
            self._parsed(library.ServerSetup, setup), self._parsed(library.Response, response)
        )
        return tuple(self._identifiers[place] for place in sorted(places))

    @staticmethod
    def _parsed(kind: Any, data: bytes) -> Any:
        message = kind()
        try:
            message.ParseFromString(data)
        except Exception:  # DecodeError; its text may quote the bytes
            raise FederatedProtocolError(
                f"intersection: {len(data):,} bytes are no message of it. Both need the same "
                "openmined-psi."
            ) from None
        return message


def intersect(
    transport: Transport, who: str, identifiers: Sequence[bytes], deadline: float
) -> tuple[bytes, ...]:
    """Finds the common identifiers with one guest, who learns them too; in the caller's order.

    Raises what `ask` raises, and ImportError if openmined-psi is not installed.
    """
    side = Intersection(identifiers)
    count = len(identifiers)
    reply = ask(transport, who, "Intersect", deadline, step=1, request=side.request(), count=count)
    common = side.common(reply.setup, reply.response)
    answer = side.reply(reply.request, reply.count)
    done = ask(transport, who, "Intersect", deadline, step=2, **answer)
    if done.count != len(common):
        raise FederatedProtocolError(
            f"{who}: found {done.count:,} common identifiers, the host {len(common):,}. Try again."
        )
    return common
