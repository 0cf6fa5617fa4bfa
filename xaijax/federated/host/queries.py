"""The host's side of its conversation with one guest.

A sweep over N instances takes one Open, one Align and ceil((N + 1) / batch) Answers: every instance
and the reference once, whatever is made of the answers afterwards. All guests are connected, and
compared, before the first one is asked.

Letters: N instances, L identifiers of the aligned list, E numbers of an answer.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core.errors import FederatedPolicyError, FederatedProtocolError
from xaijax.federated.host.answers import REFERENCE, GuestAnswers
from xaijax.federated.wire.messages import FLOAT32, VERSION, rows_of
from xaijax.federated.wire.party import Transport, ask
from xaijax.federated.wire.tokens import NONCE, KeyPair, SessionKey


@dataclass(frozen=True)
class Started:
    """The queries to one guest, and the requests that carry them."""

    opened: GuestSession
    requests: list[list[int]]  # places
    again: frozenset[int]  # those that were answered before
    width: int  # E


@dataclass(frozen=True)
class GuestSession:
    """A session, as the host knows it."""

    session: bytes
    key: SessionKey
    version: str
    width: int  # E
    fewest: int
    most: int
    state: bytes


@dataclass(eq=False, repr=False)  # which would show the identifiers
class Conversation:
    """One guest, by its transport."""

    guest: str
    transport: Transport
    identifiers: Sequence[bytes]  # the aligned list [L]
    version: str | None  # of the model; None: the guest's only one
    deadline: float
    release: str | None = None  # of the host's side; "": it has none; None: with an arbiter
    alone: bool = True  # whether it is the host's only guest
    messages: int = 0  # requests sent

    @property
    def who(self) -> str:
        """The guest, for messages."""
        return f"guest {self.guest!r}"

    def open(self) -> GuestSession:
        """Opens a session and compares the lists of identifiers.

        Raises FederatedProtocolError and its kinds; see `party.ask`.
        """
        pair, nonce = KeyPair.new(), secrets.token_bytes(NONCE)
        said = self._ask(
            "Open",
            version=VERSION,
            public_key=pair.public,
            nonce=nonce,
            model_version=self.version or "",
            party=self.guest,
            release=self.release or "",
        )
        if said.version != VERSION:
            raise FederatedProtocolError(
                f"{self.who}: version: it speaks protocol {said.version}, this host {VERSION}. "
                "Install the same version of xaijax on both sides."
            )
        if self.version and said.model_version != self.version:
            raise FederatedProtocolError(
                f"{self.who}: model_version: {self.version!r} was asked for, another one came. Ask "
                "the guest which it has."
            )
        heard = (pair.public, nonce, said.public_key, said.nonce)
        texts = (said.model_version, self.guest, self.release or "", said.party, said.release)
        key = pair.agree(said.public_key, *heard, *(text.encode() for text in texts))
        if not hmac.compare_digest(said.confirmation, key.confirmation()):
            raise FederatedProtocolError(
                f"{self.who}: the session keys differ: a message was changed on its way, or it is "
                "another party. Check the address and the certificates."
            )
        self._check_part(said)
        count = len(self.identifiers)
        digest = key.list_digest(self.identifiers)
        done = self._ask("Align", session=said.session, count=count, digest=digest)
        if done.count != count:
            raise FederatedProtocolError(
                f"{self.who}: identifiers: {done.count:,} are aligned, the host has {count:,}. "
                "Agree on one list."
            )
        least = max(1, said.most)
        return GuestSession(
            said.session, key, said.model_version, said.width, said.fewest, least, said.state
        )

    def _check_part(self, reply: Any) -> None:
        """Raises FederatedProtocolError for another guest, or a part of another release."""
        party = reply.party
        if party != self.guest and (party or not self.alone):
            said = f"it is {party!r}" if party else "it does not say which party it is"
            raise FederatedProtocolError(
                f"{self.who}: party: {said}. Check which transport belongs to which name in "
                f"guests; a guest whose part has no name needs party={self.guest!r}."
            )
        if reply.width and self.release is not None and reply.release != self.release:
            said = "says no release" if not self.release else "has another one"
            raise FederatedProtocolError(
                f"{self.who}: release: its part has a release, and the host's side {said}. Give "
                "both the files of one split; to a SplitModel say release=split.host.release."
            )

    def start(
        self, answers: GuestAnswers, places: Sequence[int], width: int, batch: int
    ) -> Started | None:
        """Connects, and plans the requests for those of `places` and the reference that have no
        answer yet.

        It returns None if all have one. places: [N] in the aligned list. width: E, as the host's
        model has it.

        Raises FederatedProtocolError if kept answers are of another version, release or width,
        FederatedPolicyError if a request would be too small, and what `ask` raises.
        """
        answers.fit(width, self.version, self.release or "")
        missing = answers.missing([REFERENCE, *dict.fromkeys(places)])
        if not missing:
            return None
        opened = self.open()
        if opened.width != width:
            raise FederatedProtocolError(
                f"{self.who}: its answers have {opened.width:,} numbers, the host's model takes "
                f"{width:,}. Both need parts of the same split model."
            )
        answers.check_same(self._facts(opened))
        requests, again = batches(missing, answers.places, batch, opened, self.who)
        return Started(opened, requests, frozenset(again), width)

    def fetch(self, started: Started | None, answers: GuestAnswers) -> int:
        """Sends the requests; returns the number of tokens. `answers` keeps those before an
        error.
        """
        if started is None:
            return 0
        opened, width = started.opened, started.width
        answers.begin(self._facts(opened))
        for number, batch in enumerate(started.requests, 1):
            tokens, order = self._tokens(opened.key, batch)
            again = [place for place in batch if place in started.again]
            fields = {"session": opened.session, "number": number, "tokens": b"".join(tokens)}
            try:
                said = self._ask("Answer", **fields)
            except FederatedPolicyError as error:
                if not again:
                    raise
                raise FederatedPolicyError(
                    f"{error} The request was filled up with {len(again)} people who were answered "
                    f"before; explain at least {opened.fewest} new people in one call."
                ) from None
            answers.again.update(again)
            if (said.number, said.width) != (number, width):
                raise FederatedProtocolError(
                    f"{self.who}: reply {said.number} of width {said.width} came where {number} "
                    f"of width {width} is due; it does not answer the request."
                )
            rows = rows_of(said.values, len(order), width, f"{self.who}: answer", FLOAT32)
            new = [at for at, place in enumerate(order) if place not in started.again]
            answers.add([order[at] for at in new], rows[new])
        return sum(map(len, started.requests))

    def _facts(self, opened: GuestSession) -> dict[str, Any]:
        """The facts that must not change while answers are kept."""
        facts = {"state": opened.state.hex(), "width": opened.width, "version": opened.version}
        return facts | {"release": self.release or ""}

    def token_bytes(self, opened: GuestSession, places: Sequence[int]) -> bytes:
        """The tokens of these places, in this order, one after the other."""
        return b"".join(self._token_of(opened.key, places))

    def _tokens(self, key: SessionKey, places: Sequence[int]) -> tuple[list[bytes], list[int]]:
        """Tokens in their own order, which reveals nothing of the host's rows; and their places."""
        tokens = self._token_of(key, places)
        order = sorted(range(len(tokens)), key=lambda i: tokens[i])
        return [tokens[i] for i in order], [places[i] for i in order]

    def _token_of(self, key: SessionKey, places: Sequence[int]) -> list[bytes]:
        tokens = iter(key.tokens(self.identifiers[p] for p in places if p != REFERENCE))
        return [key.reference_token() if p == REFERENCE else next(tokens) for p in places]

    def _ask(self, method: str, **fields: Any) -> Any:
        self.messages += 1
        return ask(self.transport, self.who, method, self.deadline, **fields)


def check_distinct(states: Mapping[str, bytes]) -> None:
    """Raises FederatedProtocolError if two guests are one party; states: their fingerprints."""
    first: dict[bytes, str] = {}
    for name, state in states.items():
        other = first.setdefault(state, name)
        if other != name:
            raise FederatedProtocolError(
                f"guests {other!r} and {name!r} are one and the same party: their fingerprints "
                "agree. Check which transport belongs to which name in guests."
            )


def batches(
    missing: Sequence[int], answered: Sequence[int], batch: int, opened: GuestSession, who: str
) -> tuple[list[list[int]], list[int]]:
    """The missing places in as few requests as `batch` and the guest allow, of nearly equal size.

    Requests with too few instances for the guest are filled up with people who were answered before
    (`answered`, the least often requested first); these are returned as well. An answer depends on
    one row alone and is the same each time, so this reveals nothing to the host.

    Raises FederatedPolicyError if a request would still have too few instances.
    """
    most = min(batch, opened.most)
    count = -(-len(missing) // most)
    parts = [list(map(int, chunk)) for chunk in np.array_split(np.array(missing, np.int64), count)]
    instances = [sum(place != REFERENCE for place in part) for part in parts]
    spare, again = list(answered), []
    for part, has in zip(parts, instances, strict=True):
        fill, spare = spare[: max(0, opened.fewest - has)], spare[max(0, opened.fewest - has) :]
        if has + len(fill) < opened.fewest or len(part) + len(fill) > most:
            raise FederatedPolicyError(
                _too_few(who, sum(instances), len(answered), batch, opened, len(parts), has)
            )
        part += fill
        again += fill
    return parts, again


def _too_few(
    who: str, new: int, answered: int, batch: int, opened: GuestSession, parts: int, has: int
) -> str:
    """The remedy if one of the requests for `new` people would have `has` of them."""
    least = opened.fewest
    said = (
        f"{who} answers at least {least} instances in one request, and one of {parts} would have "
        f"{has} that are not answered yet"
    )
    if opened.most <= least:
        return f"{said}; it takes {opened.most} tokens at most, so its policy must change."
    if new + answered < least:
        return (
            f"{said}; {answered} answered before can fill it up. Explain at least "
            f"{least - new - answered} more people in the same call."
        )
    if batch <= least or batch <= new < opened.most:
        return f"{said}, with batch={batch}. Say batch={min(opened.most, max(new, least) + 1)}."
    # A token of one request is for the reference.
    fits = f"{parts * least} to {parts * opened.most - 1}"
    return f"{said}. Explain {opened.most - 1} people in one call, or {fits}."
