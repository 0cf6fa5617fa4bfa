"""Requests to a party and its replies: bytes in, bytes out, and only typed refusals.

A request that a party does not accept is answered by a refusal with a code and a text that holds no
secret, no row and no identifier; any internal error is answered by "internal", without its text,
which could hold any of them. The party's own log gets the kind of the error and its place in the
code, and not the text either.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from xaijax.core.checks import text
from xaijax.core.errors import (
    FederatedPeerLost,
    FederatedPolicyError,
    FederatedProtocolError,
    InputTypeError,
)
from xaijax.core.public import public_class
from xaijax.federated.wire.messages import LARGEST, METHODS, TOO_LARGE, VERSION, decode, encode

Names = tuple[str, ...]  # of the asking party's certificate; the first one is shown in logs
Answerer = Callable[[Names, Any], dict[str, Any]]  # a request -> the fields of the reply
Alive = Callable[[], bool]  # whether the asking party still waits for the reply

CODES = (
    "version", "message", "session", "token", "part", "lost", "aligned", "size", "policy",
    "arbiter", "internal",
)  # fmt: skip
_LONGEST_TEXT = 500
KINDS = {"policy": FederatedPolicyError, "lost": FederatedPeerLost}
_FRAMES = 4  # of a traceback, in a log


class Party(Protocol):
    """The members of a party that a transport needs.

    handle(method, names, request, alive): the bytes of the Reply; it never raises an Exception.
    """

    def handle(self, method: str, names: Names, data: bytes, alive: Alive = ...) -> bytes: ...


class Transport(Protocol):
    """Carries bytes to a party.

    call(method, request, deadline in seconds): the bytes of the Reply; raises
    FederatedProtocolError, and FederatedPeerLost if none came. close(): releases the connection.
    """

    def call(self, method: str, data: bytes, deadline: float) -> bytes: ...
    def close(self) -> None: ...


def waiting() -> bool:
    """True: in memory the asking party always waits."""
    return True


def check_alive(alive: Alive) -> None:
    """Refuses a request that its sender no longer waits for, so that it costs nothing."""
    if not alive():
        raise Refused("lost", "the asking party gave up before the answer; nothing was counted.")


def check_hosts(hosts: Sequence[str], names: Names, arbiter: str | None = None) -> None:
    """Refuses parties that are none of these hosts (none: any party), and the arbiter."""
    if (hosts and not set(hosts) & set(names)) or arbiter in names:
        raise Refused("policy", "hosts: the certificate's name is not among those that may ask.")


class Refused(Exception):
    """A party refuses a request."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        assert code in CODES
        self.code, self.text = code, text


def handled(
    answerers: Mapping[str, Answerer],
    log: Callable[[str, Names, str, str], None],
    method: str,
    names: Names,
    data: bytes,
) -> bytes:
    """The bytes of the Reply to one request.

    log(event, names, code, cause) is called for refusals; cause: where an internal error came from.
    """
    cause = ""
    try:
        try:
            return encode("Reply", body=_body(answerers, method, names, data))
        except FederatedProtocolError as error:
            raise Refused("message", str(error)) from None
    except Refused as error:
        code, text = error.code, error.text
        cause = text if code == "internal" else ""
    except Exception as error:
        kind = type(error).__name__
        code, text = "internal", f"{kind} on the other side; its own log says where."
        cause = f"{kind} at {_place(error)}"
    try:
        log(method if method in METHODS else "unknown method", names, code, cause)
    except Exception:  # a full disk must not keep the refusal from being sent
        code, text = "internal", "the log cannot be written."
    return encode("Reply", refusal={"code": code, "text": text})


def _place(error: BaseException) -> str:
    """The innermost frames of an error: files, lines and functions, and nothing that they held."""
    frames = list(traceback.walk_tb(error.__traceback__))[-_FRAMES:]
    codes = [(frame.f_code, line) for frame, line in frames]
    return ", ".join(f"{Path(c.co_filename).name}:{line} {c.co_name}" for c, line in codes)


def _body(answerers: Mapping[str, Answerer], method: str, names: Names, data: bytes) -> bytes:
    if method not in answerers:
        raise Refused("message", f"method: this party answers {', '.join(answerers)} only.")
    if len(data) > LARGEST:
        raise Refused("size", f"message: {len(data):,} bytes; {LARGEST:,} are accepted.")
    request, reply = METHODS[method]
    body = encode(reply, **answerers[method](names, decode(request, data)))
    if len(body) + 16 > LARGEST:  # 16: what the Reply around it adds
        raise Refused("size", "reply: too large; ask for fewer rows in one request (batch=).")
    return body


def ask(transport: Transport, who: str, method: str, deadline: float, **fields: Any) -> Any:
    """Asks a party over a transport; returns the reply's message.

    who: "guest 'shop'", for messages.

    Raises FederatedPolicyError if the party's policy refuses, FederatedProtocolError for other
    refusals and for replies that are none, FederatedPeerLost if none came in time, from the party
    or, as an arbiter says, from a guest.
    """
    request, reply = METHODS[method]
    data = encode(request, **fields)
    if len(data) > LARGEST:
        raise FederatedProtocolError(f"{who}: the {method} request has {len(data):,}; {TOO_LARGE}")
    try:
        answer = decode("Reply", transport.call(method, data, deadline))
        if not answer.HasField("refusal"):
            return decode(reply, answer.body)
    except FederatedProtocolError as error:
        raise type(error)(f"{who}: {error}") from None
    # The other party's words: kept short, and without what a terminal would obey.
    text = re.sub(r"[^\x20-\x7e]", "?", answer.refusal.text)[:_LONGEST_TEXT]
    code = answer.refusal.code if answer.refusal.code in CODES else "message"
    raise KINDS.get(code, FederatedProtocolError)(f"{who} refused ({code}): {text}")


def check_party(party: Any) -> None:
    """Raises InputTypeError if it is no `Guest` or `Arbiter`."""
    if not hasattr(party, "handle"):
        raise InputTypeError(f"party must be a Guest or an Arbiter, got {type(party).__name__}.")


def check_version(version: int) -> None:
    """Refuses a request of another protocol."""
    if version != VERSION:
        raise Refused(
            "version",
            f"version: protocol {version} was asked for, and this party speaks {VERSION}. Install "
            "the same version of xaijax on both sides.",
        )


@public_class
class InMemory:
    """The transport to a party in the same process, for trials and tests.

    It passes on the bytes that `Connection` would send.

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
        check_party(party)
        self._party: Party | None = party
        self._names = (text(name, "name"),)

    def call(self, method: str, data: bytes, deadline: float) -> bytes:
        """Hands one request over. `Host` and `Arbiter` call it.

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
        """Releases the party; later requests raise FederatedPeerLost."""
        self._party = None
