"""The open sessions of a guest or an arbiter."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xaijax.federated.wire.party import Names, Refused
from xaijax.federated.wire.tokens import SESSION, SessionKey

MOST_SESSIONS = 32  # of one asking party; the oldest gives way
LIFETIME = 3600.0  # seconds since it was last used


@dataclass
class Session:
    """One host's conversation with this guest."""

    names: Names
    key: SessionKey
    version: str  # of the model
    part: Any
    rows: dict[bytes, int] | None = None  # token -> row; None until the lists were compared
    used: set[bytes] = field(default_factory=set)  # tokens that were answered
    sent: set[bytes] = field(default_factory=set)  # tokens whose rows went to the arbiter
    number: int = 0  # of the last request that was answered
    touched: float = 0.0
    busy: bool = False  # while its part computes


class Sessions:
    """The open sessions, by their identifier: objects with `names` and `touched`."""

    def __init__(
        self,
        most: int = MOST_SESSIONS,
        what: str = "session",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """most: sessions of one asking party. what: a session's name in messages."""
        self._open: dict[bytes, Any] = {}
        self._most, self._what, self._clock = most, what, clock

    def add(self, session: Any) -> bytes:
        """Keeps a session; returns its new identifier."""
        session.touched = self._clock()
        self._drop_old()
        same = [name for name, known in self._open.items() if known.names == session.names]
        if len(same) >= self._most:
            del self._open[min(same, key=lambda name: self._open[name].touched)]
        name = secrets.token_bytes(SESSION)
        self._open[name] = session
        return name

    def find(self, name: bytes, names: Names | None) -> Any:
        """The session of this identifier, which belongs to the party with these names.

        names None: whoever asks (the arbiter, which its own name lets in). Raises Refused.
        """
        self._drop_old()
        session = self._open.get(name)
        if session is None or (names is not None and session.names != names):
            raise Refused("session", f"{self._what}: unknown, or closed since; open another one.")
        session.touched = self._clock()
        return session

    def _drop_old(self) -> None:
        now = self._clock()
        for name in [k for k, session in self._open.items() if now - session.touched > LIFETIME]:
            del self._open[name]
