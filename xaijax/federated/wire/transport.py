"""The transport in memory: the bytes that would travel, handed over in one process."""

from __future__ import annotations

from xaijax.core.checks import text
from xaijax.core.errors import FederatedPeerLost, InputTypeError
from xaijax.core.public import public_class
from xaijax.federated.wire.messages import LARGEST
from xaijax.federated.wire.party import Party, handled


@public_class
class InMemory:
    """The transport to a party in the same process, for trials and tests.

    It hands over the bytes that `Connection` would send.

    Args:
        party: `Guest` or `Arbiter`.
        name: text. The name that the party knows the asking one by, as a certificate would say it;
            policies go by it.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.array([[0.0, 2.0, 1.0], [4.0, 0.0, 1.0]])
        >>> part = xj.federated.Part("linear", {"weights": np.array([0.5, -1.0, 2.0])})
        >>> guest = xj.federated.Guest(rows, ["ann", "ben"], part)
        >>> guests = {"shop": xj.federated.InMemory(guest, "bank")}
        >>> list(guests)
        ['shop']

        `Host` takes `guests`, and has the whole example.
    """

    def __init__(self, party: Party, name: str = "host") -> None:
        if not hasattr(party, "handle"):
            raise InputTypeError(
                f"party must be a Guest or an Arbiter, got {type(party).__name__}."
            )
        self._party: Party | None = party
        self._names = (text(name, "name"),)

    def call(self, method: str, data: bytes, deadline: float) -> bytes:
        """Hand one request over. `Host` and `Arbiter` call it.

        Args:
            method: the name of the request, such as "Open" or "Answer".
            data: the bytes of the request.
            deadline: not used; nothing is waited for.

        Returns:
            The bytes of the party's reply.

        Raises:
            FederatedPeerLost: `close` was called before.
        """
        del deadline  # nothing is waited for
        if self._party is None:
            raise FederatedPeerLost("transport: it was closed; make another one.")
        if len(data) > LARGEST:
            return handled({}, lambda *_: None, method, self._names, data)
        return self._party.handle(method, self._names, data)

    def close(self) -> None:
        """Let the party go; requests raise FederatedPeerLost afterwards."""
        self._party = None
