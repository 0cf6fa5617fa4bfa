"""Identifiers on the wire: tokens under a key that lives as long as a session.

Both parties agree on the key by X25519, so that whoever reads the messages cannot try identifiers
out. A token is an HMAC of an identifier; that of the reference looks like any other.

Letters: N identifiers.
"""

from __future__ import annotations

import hashlib
import hmac
import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import FederatedProtocolError, InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.federated.wire.messages import INSTALL

TOKEN = 32  # bytes
KEY = 32
NONCE = 32
SESSION = 16
LONGEST = 1024  # bytes of an identifier

_REFERENCE = b"\x00"
_ROW = b"\x01"


def identifiers_of(identifiers: Any, name: str, least: int = 1) -> tuple[bytes, ...]:
    """Identifiers, texts or integers (7 and "7" are the same), as bytes [N].

    Raises InputTypeError and InputError for others, for duplicates, and for fewer than `least`. The
    text gives the position, and never the identifier.
    """
    entries = checks.listed(identifiers, name, "texts or whole numbers")
    encoded = tuple(_bytes(entry, place, name) for place, entry in enumerate(entries))
    if len(encoded) < least:
        raise InputError(f"{name} has {len(encoded)} entries; at least {least} are needed.")
    first: dict[bytes, int] = {}
    for place, identifier in enumerate(encoded):
        if first.setdefault(identifier, place) != place:
            raise InputError(
                f"{name}: the entries at places {first[identifier]} and {place} are the same. Drop "
                "one of the rows."
            )
    return encoded


def _bytes(identifier: Any, place: int, name: str) -> bytes:
    if isinstance(identifier, np.generic):
        identifier = identifier.item()
    whole = isinstance(identifier, numbers.Integral) and not isinstance(identifier, bool)
    if not whole and not isinstance(identifier, str):
        raise InputTypeError(
            f"{name}: the entry at place {place} is a {type(identifier).__name__}; give texts or "
            "whole numbers."
        )
    raw = str(identifier).encode()
    if not 0 < len(raw) <= LONGEST:
        raise InputError(f"{name}: place {place} takes {len(raw):,} bytes; 1 to {LONGEST:,} fit.")
    return raw


@dataclass(frozen=True, repr=False)
class SessionKey:
    """The key of one session; it never leaves the two parties."""

    secret: bytes

    def tokens(self, identifiers: Iterable[bytes]) -> list[bytes]:
        """One token per identifier."""
        key = self._derived(b"tokens")
        return [hmac.digest(key, _ROW + identifier, "sha256") for identifier in identifiers]

    def reference_token(self) -> bytes:
        """The token of the special identifier, which stands for the reference row."""
        return hmac.digest(self._derived(b"tokens"), _REFERENCE, "sha256")

    def list_digest(self, identifiers: Sequence[bytes]) -> bytes:
        """The digest by which two parties compare their identifiers, in any order."""
        digest = hmac.new(self._derived(b"list"), digestmod="sha256")
        for identifier in sorted(identifiers):
            digest.update(len(identifier).to_bytes(4, "big") + identifier)
        return digest.digest()

    def confirmation(self) -> bytes:
        """The proof that a party has this key."""
        return self._derived(b"confirmation")

    def _derived(self, purpose: bytes) -> bytes:
        return hmac.digest(self.secret, b"xaijax.federated " + purpose, "sha256")


@dataclass(frozen=True, repr=False)
class KeyPair:
    """One party's half of the key agreement."""

    private: Any
    public: bytes

    @classmethod
    def new(cls) -> KeyPair:
        """A fresh pair, from the system's randomness."""
        curve = require("cryptography.hazmat.primitives.asymmetric.x25519", INSTALL)
        private = curve.X25519PrivateKey.generate()
        return cls(private, private.public_key().public_bytes_raw())

    def agree(self, public: bytes, *said: bytes) -> SessionKey:
        """The common key, which depends on all that was `said` in the handshake, in this order.

        Raises FederatedProtocolError for a public key that is none.
        """
        curve = require("cryptography.hazmat.primitives.asymmetric.x25519", INSTALL)
        hashes = require("cryptography.hazmat.primitives.hashes", INSTALL)
        hkdf = require("cryptography.hazmat.primitives.kdf.hkdf", INSTALL)
        try:
            shared = self.private.exchange(curve.X25519PublicKey.from_public_bytes(public))
        except ValueError:  # of another length, or of small order
            raise FederatedProtocolError(
                f"public_key: {len(public)} bytes that are no X25519 key were received; {KEY} "
                "bytes are needed. Both parties need xaijax of the same protocol version."
            ) from None
        transcript = hashlib.sha256()
        for message in said:
            transcript.update(len(message).to_bytes(4, "big") + message)
        derive = hkdf.HKDF(hashes.SHA256(), KEY, transcript.digest(), b"xaijax.federated session")
        return SessionKey(derive.derive(shared))


def split_tokens(data: bytes) -> list[bytes]:
    """Tokens that were sent one after the other.

    Raises FederatedProtocolError if the length is no multiple of a token's.
    """
    if len(data) % TOKEN:
        raise FederatedProtocolError(f"tokens: {len(data):,} bytes, not {TOKEN} bytes each.")
    return [data[start : start + TOKEN] for start in range(0, len(data), TOKEN)]
