"""The host's side of its conversation with one guest.

A sweep over N instances takes one Open, one Align and ceil((N + 1) / batch) Answers: every instance
and the reference once, whatever is made of the answers afterwards.

Letters: N instances, L identifiers of the aligned list, E numbers of an answer.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core.errors import FederatedPolicyError, FederatedProtocolError
from xaijax.federated.host.answers import REFERENCE, Answers
from xaijax.federated.wire.messages import VERSION, rows_of
from xaijax.federated.wire.party import Transport, ask
from xaijax.federated.wire.tokens import NONCE, KeyPair, SessionKey


@dataclass(frozen=True)
class Opened:
    """A session, as the host knows it."""

    session: bytes
    key: SessionKey
    version: str
    width: int  # E
    fewest: int
    most: int
    state: bytes


class Conversation:
    """One guest, by its transport."""

    def __init__(
        self,
        guest: str,
        transport: Transport,
        identifiers: Sequence[bytes],
        version: str | None,
        deadline: float,
    ) -> None:
        """identifiers: the aligned list [L]. version: of the model; None: the guest's only one."""
        self.who, self._transport = f"guest {guest!r}", transport
        self.identifiers = identifiers
        self._version, self._deadline = version or "", deadline
        self.messages = 0  # requests sent

    def open(self) -> Opened:
        """Open a session and compare the lists of identifiers.

        Raises FederatedProtocolError and its kinds; see `party.ask`.
        """
        pair, nonce = KeyPair.new(), secrets.token_bytes(NONCE)
        said = self._ask(
            "Open",
            version=VERSION,
            public_key=pair.public,
            nonce=nonce,
            model_version=self._version,
        )
        if said.version != VERSION:
            raise FederatedProtocolError(
                f"{self.who}: version: it speaks protocol {said.version}, this host {VERSION}. "
                "Install the same version of xaijax on both sides."
            )
        if self._version and said.model_version != self._version:
            raise FederatedProtocolError(
                f"{self.who}: model_version: {self._version!r} was asked for, and another one "
                "came. Ask the guest which versions it has."
            )
        heard = (pair.public, nonce, said.public_key, said.nonce, said.model_version.encode())
        key = pair.agree(said.public_key, *heard)
        if not hmac.compare_digest(said.confirmation, key.confirmation()):
            raise FederatedProtocolError(
                f"{self.who}: the session keys differ, so a message was changed on its way, or "
                "the other party is not what it says. Check the address and the certificates."
            )
        count = len(self.identifiers)
        digest = key.list_digest(self.identifiers)
        done = self._ask("Align", session=said.session, count=count, digest=digest)
        if done.count != count:
            raise FederatedProtocolError(
                f"{self.who}: identifiers: {done.count:,} are aligned, where the host has "
                f"{count:,}. Agree on the list of common identifiers."
            )
        least = max(1, said.most)
        return Opened(
            said.session, key, said.model_version, said.width, said.fewest, least, said.state
        )

    def fetch(self, answers: Answers, places: Sequence[int], width: int, batch: int) -> int:
        """Ask for what is not answered yet of `places` and the reference; how many were asked.

        places: [N] in the aligned list. width: E, as the host's model has it. What was answered
        before an error is in `answers`.

        Raises FederatedProtocolError where kept answers are of another version or width, besides
        what `ask` raises.
        """
        answers.fit(width, self._version)
        missing = answers.missing([REFERENCE, *places])
        if not missing:
            return 0
        opened = self.open()
        if opened.width != width:
            raise FederatedProtocolError(
                f"{self.who}: width: its answers have {opened.width:,} numbers, the host's model "
                f"takes {width:,}. Both need parts of the same split model."
            )
        answers.same(opened.state, width, opened.version)
        if missing == [REFERENCE]:  # a request needs instances: some that were answered go again
            missing += list(dict.fromkeys(places))[: opened.fewest]
        for number, asked in enumerate(batches(missing, batch, opened, self.who), 1):
            tokens, order = self._tokens(opened.key, asked)
            said = self._ask(
                "Answer", session=opened.session, number=number, tokens=b"".join(tokens)
            )
            if (said.number, said.width) != (number, width):
                raise FederatedProtocolError(
                    f"{self.who}: reply {said.number} of width {said.width} came where {number} "
                    f"of width {width} is due; it is not the answer to what was asked."
                )
            answers.add(order, rows_of(said.values, len(order), width, f"{self.who}: answer"))
        return len(missing)

    def token_bytes(self, opened: Opened, places: Sequence[int]) -> bytes:
        """The tokens of these places, in this order, one after the other."""
        return b"".join(self._token_of(opened.key, places))

    def _tokens(self, key: SessionKey, places: Sequence[int]) -> tuple[list[bytes], list[int]]:
        """Tokens in their own order, which tells nothing of the host's rows; and their places."""
        tokens = self._token_of(key, places)
        order = sorted(range(len(tokens)), key=lambda i: tokens[i])
        return [tokens[i] for i in order], [places[i] for i in order]

    def _token_of(self, key: SessionKey, places: Sequence[int]) -> list[bytes]:
        own = iter(key.tokens(self.identifiers[p] for p in places if p != REFERENCE))
        return [key.reference_token() if p == REFERENCE else next(own) for p in places]

    def _ask(self, method: str, **fields: Any) -> Any:
        self.messages += 1
        return ask(self._transport, self.who, method, self._deadline, **fields)


def batches(places: Sequence[int], batch: int, opened: Opened, who: str) -> list[list[int]]:
    """The places in as few requests as `batch` and the guest allow, of nearly equal size.

    Raises FederatedPolicyError where one of them would have too few instances for the guest.
    """
    count = -(-len(places) // min(batch, opened.most))
    parts = [list(map(int, one)) for one in np.array_split(np.array(places, np.int64), count)]
    instances = [sum(place != REFERENCE for place in one) for one in parts]
    if min(instances) < opened.fewest:
        raise FederatedPolicyError(
            f"{who} answers at least {opened.fewest} instances in one request, and one of "
            f"{len(parts)} would have {min(instances)}. Explain more instances at a time, or raise "
            "batch=."
        )
    return parts
