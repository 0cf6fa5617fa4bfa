"""`Guest`: a party with rows and a part of a model, which answers within its policy.

Letters: N rows, F columns of the guest, E numbers of an answer, n rows asked for.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public_class
from xaijax.core.typing import ArrayLike, Rows
from xaijax.federated.guest import arguments
from xaijax.federated.guest.audit import AuditLog, QueryCounts
from xaijax.federated.guest.policy import Policy, noise_key, noisy
from xaijax.federated.guest.sessions import Session, Sessions
from xaijax.federated.split.parts import FunctionPart, Part
from xaijax.federated.wire import psi
from xaijax.federated.wire.messages import FLOAT32, LARGEST, VERSION, numbers
from xaijax.federated.wire.party import (
    Alive,
    Answerer,
    Names,
    Refused,
    check_alive,
    check_hosts,
    check_version,
    handled,
    waiting,
)
from xaijax.federated.wire.tokens import KEY, NONCE, KeyPair, identifiers_of, split_tokens
from xaijax.results.files.npz import as_path
from xaijax.tables.rows import rows_of


@public_class
class Guest:
    """A guest: the party that keeps its rows and answers a host within its policy.

    A split model has one part for each party. The guest's part g maps one row of the guest's
    columns to a few numbers. A host, the party that explains, asks for instances by identifier.
    For an instance x the guest answers g(x), and once g(reference): the reference is the row that
    stands for a guest that is switched off. The rows stay here and only answers leave, unless the
    policy names an arbiter, which gets rows.

    Args:
        rows: array or frame of finite numbers [N, F], the guest's columns.
        identifiers: texts or integers [N], one per row, all different. 7 and "7" are the same
            identifier. Each has 1 to 1,024 bytes in UTF-8.
        parts: the guest's part of the model, a `Part` or `FunctionPart`; or {"model version":
            part}. A part without a version has the version "1". None is accepted if the policy
            names an arbiter: rows then go to the arbiter, and no host gets an answer.
        reference: "median" (of each column of the rows, the default), or finite numbers [F].
        policy: `Policy` or None. None: `Policy()`.
        secret: bytes, at least 32 random ones, or None. Noise, counts and the log are derived from
            it, so keep it for years and from everybody. None: a new one, which is not accepted with
            noise (`epsilon`) or with `state`.
        state: a folder, or None. The folder holds the counts of queries (queries.sqlite) and the
            log of requests (audit.jsonl, see `verify_audit`). It is made if there is none. One
            guest at a time can use it. None: both are in memory, as long as this object lives.
        aligned: identifiers or None. A host may ask for these only. Both parties must have the same
            list, in any order. None: the identifiers of all rows.
        party: text or None, the name by which hosts know this guest. None: the name in the parts. A
            host that asks for another party is refused. Parts made by hand, and guests of an
            arbiter, have no name of their own, and need one here if a host has several guests.
        feature_names: texts [F] or None, the names of an array's columns. A frame has its own. If a
            part has names, the columns are put in its order, and other columns are refused.

    A reference of numbers is in the order of the columns of `rows`, unless it is a Series with
    their names.

    Attributes:
        policy: the `Policy`.
        audit: the log. `audit.count` is its number of entries and `audit.head` the code of the last
            one. `audit.entries` holds the entries of a log in memory.

    Raises:
        InputError, InputTypeError: an argument is not accepted. Among them are a part that
            reveals too much (see `Policy`), and a state folder in which a file was deleted or
            changed or that another guest uses.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.array([[0.0, 2.0, 1.0], [4.0, 0.0, 1.0]])
        >>> part = xj.federated.Part("linear", {"weights": np.array([0.5, -1.0, 2.0])})
        >>> policy = xj.federated.Policy(fewest=2)
        >>> guest = xj.federated.Guest(rows, ["ann", "ben"], part, policy=policy)
        >>> [entry["event"] for entry in guest.audit.entries]
        ['start']

        `Host` has the whole example, with this guest's answers.

    The constructor warns (`xaijax.XaiWarning`) if an answer has as many numbers as the guest has
    columns, and if the guest has fewer than three columns: answers may then give rows away.
    """

    def __init__(
        self,
        rows: Rows,
        identifiers: Iterable[str | int],
        parts: Part | FunctionPart | Mapping[str, Part | FunctionPart | None] | None,
        reference: Literal["median"] | ArrayLike = "median",
        policy: Policy | None = None,
        secret: bytes | None = None,
        state: str | Path | None = None,
        aligned: Iterable[str | int] | None = None,
        party: str | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        table = rows_of(rows)
        matrix = table.matrix() if table.is_frame else rows
        self._rows = checks.matrix(matrix, "rows").astype(np.float64)
        checks.finite(self._rows, "rows", False)
        N, F = self._rows.shape
        known = identifiers_of(identifiers, "identifiers")
        if len(known) != N:
            raise InputError(f"identifiers has {len(known):,} entries for {N:,} rows; one each.")
        self._row_of = {identifier: row for row, identifier in enumerate(known)}
        self.policy = Policy() if policy is None else policy
        if not isinstance(self.policy, Policy):
            raise InputTypeError(f"policy must be a Policy, got {type(policy).__name__}.")
        self._secret = arguments.secret_of(secret, self.policy, state)
        self._parts = arguments.parts_of(parts, self.policy, self._rows)
        self._party = arguments.party_of(party, self._parts)
        self._columns = arguments.GuestColumns(rows, feature_names, self._parts, F)
        self._rows = np.ascontiguousarray(self._rows[:, self._columns.places])
        self._reference = arguments.reference_row(reference, self._rows, self._columns)
        self._identifiers = known
        # By identifier: the same people in another order are the same people.
        order = sorted(range(N), key=lambda place: known[place])
        content = hashlib.sha256(self._rows[order].tobytes() + self._reference.tobytes())
        for identifier in (known[place] for place in order):
            content.update(len(identifier).to_bytes(4, "big") + identifier)
        self._content = content.digest()
        self._aligned = _listed(aligned, self._row_of)
        self._aligned_with: dict[Names, tuple[bytes, ...]] = {}  # by private set intersection
        self._intersections: dict[Names, psi.Intersection] = {}
        folder = None if state is None else as_path(state, "state")
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._counts = QueryCounts(folder and folder / "queries.sqlite", self._secret)
        self.audit = AuditLog(folder and folder / "audit.jsonl", self._secret)
        _agree(self._counts, self.audit, folder)
        self._sent("start", versions=list(self._parts), rows=N, columns=F)
        self._sessions, self._lock = Sessions(), threading.Lock()
        self._computing = {version: threading.Lock() for version in self._parts}

    def handle(self, method: str, names: Names, data: bytes, alive: Alive = waiting) -> bytes:
        """Answers one request. Transports call it; it never raises.

        Args:
            method: the name of the request, such as "Open" or "Answer".
            names: the names in the asking party's certificate.
            data: the bytes of the request.
            alive: a function that says whether the asking party still waits. A request whose party
                has given up is not counted.

        Returns:
            The bytes of the reply, which may be a refusal.
        """
        answerers: dict[str, Answerer] = {
            "Open": self._locked(self._open),
            "Align": self._locked(self._align),
            "Answer": lambda names, request: self._answer(names, request, alive),
            "Block": self._locked(lambda names, request: self._block(names, request, alive)),
            "Intersect": self._intersect,
        }
        return handled(answerers, self._refused, method, names, data)

    def close(self) -> None:
        """Closes the files of the state folder."""
        with self._lock:
            self._counts.close()

    def __repr__(self) -> str:
        N, F = self._rows.shape
        return f"Guest({N:,} rows of {F} columns; versions {list(self._parts)}; {self.policy})"

    def _locked(self, answer: Answerer) -> Answerer:
        """One request at a time. A slow part computes outside of the lock (`_answer`)."""

        def locked(names: Names, request: Any) -> dict[str, Any]:
            with self._lock:
                return answer(names, request)

        return locked

    def _refused(self, event: str, names: Names, code: str, cause: str) -> None:
        more = {"cause": cause} if cause else {}
        with self._lock:
            self.audit.add("refused", peer=names[0], asked=event, code=code, **more)

    def _open(self, names: Names, request: Any) -> dict[str, Any]:
        check_version(request.version)
        self._check_host(names)
        if len(request.nonce) != NONCE or len(request.public_key) != KEY:
            raise Refused("message", f"public_key and nonce need {KEY} and {NONCE} bytes.")
        version = self._version(request.model_version)
        part = self._parts[version]
        release = getattr(part, "release", None) or ""
        self._check_part(request, version, release)
        pair, nonce = KeyPair.new(), secrets.token_bytes(NONCE)
        said = (request.public_key, request.nonce, pair.public, nonce)
        texts = (version, request.party, request.release, self._party, release)
        key = pair.agree(request.public_key, *said, *(text.encode() for text in texts))
        session = self._sessions.add(Session(names, key, version, part))
        self.audit.add("open", peer=names[0], version=version)
        width = part.width if part is not None else 0
        return {
            "version": VERSION,
            "public_key": pair.public,
            "nonce": nonce,
            "model_version": version,
            "session": session,
            "width": width,
            "fewest": self.policy.fewest,
            "most": min(self.policy.most, (LARGEST - 64) // max(32, 8 * width)),
            "state": self._state(part, version),
            "confirmation": key.confirmation(),
            "party": self._party,
            "release": release,
        }

    def _align(self, names: Names, request: Any) -> dict[str, Any]:
        session = self._sessions.find(request.session, names)
        aligned = self._aligned_with.get(names, self._aligned)
        same = hmac.compare_digest(request.digest, session.key.list_digest(aligned))
        if request.count != len(aligned) or not same:
            raise Refused(
                "aligned",
                f"identifiers: the host's list of {request.count:,} and the guest's are not the "
                "same. Agree on one list (aligned=), or use private set intersection.",
            )
        session.rows = dict(
            zip(session.key.tokens(aligned), (self._row_of[i] for i in aligned), strict=True)
        )
        session.rows[session.key.reference_token()] = -1
        self.audit.add("align", peer=names[0], identifiers=len(aligned))
        return {"count": len(aligned)}

    def _answer(self, names: Names, request: Any, alive: Alive) -> dict[str, Any]:
        with self._lock:
            session = self._sessions.find(request.session, names)
            tokens, rows = self._due(session, request)
            session.busy = True
        version = session.version
        try:
            with self._computing[version]:  # a part computes for one request at a time
                check_alive(alive)
                answers = self._answers(session.part, version, rows)
            with self._lock:
                check_alive(alive)
                self._charge(rows)
                session.used.update(tokens)
                session.number = request.number
                instances = int((rows >= 0).sum())
                self._sent("answer", peer=names[0], version=version, instances=instances)
        finally:
            session.busy = False
        return {"number": request.number, "width": answers.shape[1], "values": numbers(answers)}

    def _sent(self, event: str, **facts: Any) -> None:
        """Logs what goes out, with a fingerprint of the counts that identifies their file later."""
        self.audit.add(event, **facts, counts=self._counts.fingerprint)

    def _due(self, session: Session, request: Any) -> tuple[list[bytes], np.ndarray]:
        """Tokens and rows of the next request of a session; raises Refused if it is not allowed."""
        if session.part is None:
            raise Refused("policy", "parts: this guest has none; its rows go to an arbiter only.")
        if request.number != session.number + 1:
            raise Refused(
                "message",
                f"number: {request.number} came where {session.number + 1} is next. Open another "
                "session for the missing answers.",
            )
        if session.busy:
            raise Refused("message", "number: the request before is still being answered.")
        tokens, rows = self._asked(session, request.tokens, session.used)
        self._check_queries(rows)
        return tokens, rows

    def _block(self, names: Names, request: Any, alive: Alive) -> dict[str, Any]:
        if self.policy.arbiter is None or self.policy.arbiter not in names:
            raise Refused("policy", "arbiter: rows go to the arbiter that the policy names, only.")
        session = self._sessions.find(request.session, None)
        tokens, rows = self._asked(session, request.tokens, session.sent)
        check_alive(alive)
        self._charge(rows)
        session.sent.update(tokens)
        self._sent("block", peer=names[0], instances=int((rows >= 0).sum()))
        values = self._values(session.version, rows)
        return {"columns": values.shape[1], "values": numbers(values)}

    def _intersect(self, names: Names, request: Any) -> dict[str, Any]:
        self._check_host(names)
        if not self.policy.intersection:
            raise Refused("policy", "intersection: the guest's policy does not allow it.")
        if request.step == 1:
            state = psi.Intersection(self._aligned)
            reply = state.first_reply(request.request, request.count)
            with self._lock:
                self._intersections[names] = state
                self.audit.add("intersect", peer=names[0], identifiers=int(request.count))
            return reply
        with self._lock:
            intersection = self._intersections.pop(names, None)
        if intersection is None:
            raise Refused("session", "intersection: step 1 comes first.")
        common = intersection.common(request.setup, request.response)
        with self._lock:
            self._aligned_with[names] = common
        return {"count": len(common)}

    def _check_host(self, names: Names) -> None:
        check_hosts(self.policy.hosts, names, self.policy.arbiter)

    def _check_part(self, request: Any, version: str, release: str) -> None:
        """Refuses a host that takes this guest for another party, or has another release."""
        if self._party and request.party != self._party:
            raise Refused(
                "part",
                f"party: this guest is {self._party!r}, not {request.party!r}. Check the address "
                "or transport of each name in guests=.",
            )
        if self._parts[version] is not None and request.release not in ("", release):
            raise Refused(
                "part",
                f"release: version {version!r} is not of the host's release. Give both parties the "
                "files of one split."
                if release
                else f"release: version {version!r} says no release, the host's side has one. Use "
                "the part that was split with it; of a FunctionPart say release=.",
            )

    def _version(self, requested: str) -> str:
        allowed = [v for v in self._parts if v in (self.policy.versions or self._parts)]
        if not requested and len(allowed) == 1:
            return allowed[0]
        if requested not in allowed:
            said = "none was named" if not requested else "another one was asked for"
            raise Refused("policy", f"model_version: {said}; this guest answers {allowed}.")
        return requested

    def _asked(
        self, session: Session, data: bytes, done: set[bytes]
    ) -> tuple[list[bytes], np.ndarray]:
        """Tokens of a request and their rows, -1 for the reference; raises Refused for bad ones."""
        if session.rows is None:
            raise Refused("aligned", "identifiers: compare the lists (Align) before asking.")
        tokens = split_tokens(data)
        if len(tokens) > self.policy.most:
            raise Refused(
                "size", f"tokens: {len(tokens)} in one request; at most {self.policy.most}."
            )
        unknown = sum(token not in session.rows for token in tokens)
        if unknown:
            raise Refused("token", f"tokens: {unknown:,} of {len(tokens):,} stand for no row here.")
        again = len(tokens) - len(set(tokens) - done)
        if again:
            raise Refused(
                "token",
                f"tokens: {again:,} of {len(tokens):,} were answered before under this key, or "
                "occur in the request twice.",
            )
        rows = np.array([session.rows[token] for token in tokens], np.int64)
        if (rows >= 0).sum() < self.policy.fewest:
            raise Refused(
                "policy",
                f"fewest: {int((rows >= 0).sum())} instances in one request; this guest wants at "
                f"least {self.policy.fewest}. Explain more at a time.",
            )
        return tokens, rows

    def _charge(self, rows: np.ndarray) -> None:
        """Counts the queries, or refuses them all."""
        self._counts.charge(self._check_queries(rows), self.audit.counts)

    def _check_queries(self, rows: np.ndarray) -> list[bytes]:
        """Identifiers of the requested people; refuses all if one was requested too often."""
        who = [self._identifiers[row] for row in rows[rows >= 0]]
        most = self.policy.most_queries
        if most is not None and self._counts.most(who) >= most:
            raise Refused("policy", f"most_queries: an identifier has had its {most} requests.")
        return who

    def _values(self, version: str, places: np.ndarray) -> np.ndarray:
        """The rows themselves, [n, F], in the order of a part's columns; -1 is the reference."""
        rows = np.where(places[:, None] >= 0, self._rows[places], self._reference)
        return rows[:, self._columns.of[version]]

    def _answers(self, part: Any, version: str, places: np.ndarray) -> np.ndarray:
        """g of these rows as it leaves the house; [n, E]. All answers go out through here.

        Raises Refused for answers that are not finite, beyond float32 or of another shape, and
        whatever the part raises.
        """
        values, policy = self._values(version, places), self.policy
        answers = np.asarray(part.answers(values), np.float64)
        if answers.shape != (len(places), part.width) or not np.isfinite(answers).all():
            raise Refused("internal", "part: its answers are not finite, or of another shape.")
        if policy.epsilon is not None and policy.bounds is not None:
            rest = repr(policy.bounds).encode() + _content(part)
            keys = [
                noise_key(
                    self._secret,
                    b"\x01" + self._identifiers[place] if place >= 0 else b"\x00",  # the reference
                    row.tobytes(),
                    version,
                    policy.epsilon,
                    rest,
                )
                for place, row in zip(places, values, strict=True)
            ]
            answers = noisy(answers, *policy.bounds, policy.epsilon, keys)
        if policy.quantum is not None:
            answers = np.rint(answers / policy.quantum) * policy.quantum
        if not (np.abs(answers) <= FLOAT32).all():
            raise Refused(
                "internal",
                f"part: its answers, as rounded, are not within float32's {FLOAT32:.3g}. Rescale "
                "the part, or give a larger quantum.",
            )
        return answers

    def _state(self, part: Any, version: str) -> bytes:
        """A digest that changes if answers would; it reveals nothing without the secret."""
        digest = hmac.new(self._secret, b"xaijax.federated state", "sha256")
        policy = self.policy
        shape = None if part is None else (part.kind, part.columns, part.width)
        said = [
            version,
            shape,
            policy.quantum,
            policy.epsilon,
            policy.bounds,
            self._columns.of[version],
        ]
        digest.update(repr(said).encode() + _content(part) + self._content)
        return digest.digest()[:16]


def _agree(counts: QueryCounts, log: AuditLog, folder: Path | None) -> None:
    """Refuses a state folder in which one of the files was emptied, or is an older copy.

    Queries are counted before they are logged, so that the counts are never the smaller ones.
    """
    counted = counts.total()
    same = counts.known and log.counts in (None, counts.fingerprint, counts.logged)
    if not same or counted < log.instances or (counted and not log.count):
        counts.close()
        raise InputError(
            f"state: in {folder} queries.sqlite counts {counted:,} queries and audit.jsonl "
            f"{log.instances:,}, or one of them was deleted, cut, replaced or put back, so that "
            "limits would not hold. Restore both, or start with another state folder."
        )


def _listed(aligned: Any, row_of: Mapping[bytes, int]) -> tuple[bytes, ...]:
    """The aligned list; None: the identifiers of all rows."""
    if aligned is None:
        return tuple(row_of)
    listed = identifiers_of(aligned, "aligned")
    missing = sum(identifier not in row_of for identifier in listed)
    if missing:
        raise InputError(
            f"aligned: {missing:,} of {len(listed):,} identifiers are not those of any row. Take "
            "them out of the list that both parties use."
        )
    return listed


def _content(part: Any) -> bytes:
    """A digest of a part's numbers; of a function, nothing but its version can be known."""
    digest = hashlib.sha256()
    for name, array in sorted(getattr(part, "arrays", {}).items()):
        digest.update(repr((name, array.dtype.str, array.shape)).encode() + array.tobytes())
    return digest.digest()
