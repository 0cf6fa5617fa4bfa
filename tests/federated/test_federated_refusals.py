"""What parties refuse, in memory: each with a typed error that says what to do."""

from __future__ import annotations

import numpy as np
import pytest
from parties import GUEST, HOST, SECRET, Watched, guest_of, host_of, logistic, mutated, names, table

import xaijax as xj
from xaijax import federated as fd
from xaijax.federated.host.answers import GuestAnswers
from xaijax.federated.host.queries import Conversation
from xaijax.federated.wire import party
from xaijax.federated.wire.messages import LARGEST, VERSION, decode, encode
from xaijax.federated.wire.party import ask

pytest.importorskip("google.protobuf", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")

SPLIT, X = logistic(), table(40)


def changed(method: str, **fields):
    """A change of one kind of reply's fields, a function of the value where it is callable."""

    def change(asked: str, data: bytes) -> bytes:
        if asked != method:
            return data
        reply = decode("Reply", data)
        body = decode(f"{method}Reply", reply.body)
        for name, value in fields.items():
            setattr(body, name, value(getattr(body, name)) if callable(value) else value)
        return encode("Reply", body=body.SerializeToString())

    return change


def with_nan(values: bytes) -> bytes:
    return np.array([np.nan]).tobytes() + values[8:]


REPLIES = {
    "too short": (changed("Answer", values=lambda v: v[:-8]), "bytes, where"),
    "too long": (changed("Answer", values=lambda v: v + v[:8]), "bytes, where"),
    "NaN": (changed("Answer", values=with_nan), "NaN or infinite"),
    "another number": (changed("Answer", number=7), "does not answer the request"),
    "another width": (changed("Answer", width=2), "does not answer the request"),
    "another protocol": (changed("Open", version=9), "version: it speaks protocol 9"),
    "wrong confirmation": (changed("Open", confirmation=b"x" * 32), "session keys differ"),
    "a key that is none": (changed("Open", public_key=b"\0" * 32), "no X25519 key"),
    "a nonce that was changed": (changed("Open", nonce=b"x" * 32), "session keys differ"),
    "a party that was changed": (changed("Open", party="x"), "session keys differ"),
    "a release that was changed": (changed("Open", release="x"), "session keys differ"),
    "a width that the model has not": (changed("Open", width=3), "its answers have 3 numbers"),
    "fewer aligned": (changed("Align", count=3), "3 are aligned"),
    "no message at all": (lambda method, reply: b"\xff" * 9, "no Reply"),
    "another message": (lambda method, reply: encode("Reply", body=b"\xff"), "no OpenReply"),
    "too large": (lambda method, reply: bytes(LARGEST + 1), "are accepted"),
}


@pytest.mark.parametrize("name", REPLIES)
def test_replies_that_are_wrong(name: str) -> None:
    change, words = REPLIES[name]
    transport = Watched(fd.InMemory(guest_of(SPLIT, X)), change)
    with pytest.raises(xj.FederatedProtocolError, match=words) as told:
        host_of(SPLIT, X, transport)(X[:, HOST], progress=False)
    assert str(told.value).startswith("guest 'shop'") or "public_key" in str(told.value)
    for one in names(40):
        assert one not in str(told.value)


@pytest.mark.slow
def test_mutated_replies_raise_nothing_but_typed_errors() -> None:
    """Or pass, where a mutation changes a number or what nobody reads."""
    rng = np.random.default_rng(1)
    raised = 0
    for _ in range(400):
        spoilt = str(rng.choice(["Open", "Align", "Answer"]))
        transport = Watched(
            fd.InMemory(guest_of(SPLIT, X)),
            lambda method, reply, spoilt=spoilt: mutated(rng, reply) if method == spoilt else reply,
        )
        conversation = conversed(transport)
        answers = GuestAnswers(None, "shop", [n.encode() for n in names(40)])
        try:
            conversation.fetch(conversation.start(answers, range(40), 1, 64), answers)
        except xj.FederatedProtocolError:
            raised += 1
    assert 200 < raised < 400


def conversed(transport) -> Conversation:
    listed = [n.encode() for n in names(40)]
    return Conversation("shop", transport, listed, None, 1.0, SPLIT.host.release)


def opened(guest: fd.Guest):
    transport = fd.InMemory(guest)
    conversation = conversed(transport)
    return transport, conversation, conversation.open()


def test_a_wrong_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = guest_of(SPLIT, X)
    monkeypatch.setattr("xaijax.federated.host.queries.VERSION", 9)
    with pytest.raises(xj.FederatedProtocolError, match=r"refused \(version\): .* this party"):
        host_of(SPLIT, X, fd.InMemory(guest))(X[:, HOST], progress=False)


def test_unknown_and_replayed_tokens() -> None:
    guest = guest_of(SPLIT, X)
    transport, conversation, session = opened(guest)
    tokens = conversation.token_bytes(session, [0, 1, 2])

    def answer(number: int, asked: bytes):
        fields = {"session": session.session, "number": number, "tokens": asked}
        return ask(transport, "guest", "Answer", 1.0, **fields)

    with pytest.raises(
        xj.FederatedProtocolError, match=r"\(token\): tokens: 1 of 4 stand for no row"
    ):
        answer(1, tokens + b"?" * 32)
    with pytest.raises(xj.FederatedProtocolError, match="32 bytes each"):
        answer(1, tokens + b"?")
    with pytest.raises(xj.FederatedProtocolError, match="occur in the request twice"):
        answer(1, tokens + tokens[:32])
    assert len(answer(1, tokens).values) == 3 * 8
    with pytest.raises(xj.FederatedProtocolError, match=r"\(token\): .* answered before"):
        answer(2, tokens)
    with pytest.raises(xj.FederatedProtocolError, match=r"number: 1 came where 2 is next"):
        answer(1, conversation.token_bytes(session, [5, 6]))
    # A message of one session, played again in another one, has tokens that nobody knows there.
    transport, _, other = opened(guest)
    with pytest.raises(xj.FederatedProtocolError, match="3 of 3 stand for no row"):
        fields = {"session": other.session, "number": 1, "tokens": tokens}
        ask(transport, "guest", "Answer", 1.0, **fields)


def test_sessions_belong_to_who_opened_them() -> None:
    guest = guest_of(SPLIT, X)
    _, conversation, session = opened(guest)
    fields = {"session": session.session, "number": 1}
    fields["tokens"] = conversation.token_bytes(session, [0])
    for stranger, name in ((fd.InMemory(guest, "other"), "of another party"), (None, "none")):
        if stranger is None:
            stranger, fields["session"] = fd.InMemory(guest), b"?" * 16
        with pytest.raises(xj.FederatedProtocolError, match=r"\(session\)"):
            ask(stranger, name, "Answer", 1.0, **fields)


def test_asking_before_the_lists_are_compared() -> None:
    guest = guest_of(SPLIT, X)
    transport = fd.InMemory(guest)
    fields = {"version": VERSION, "public_key": b"\x09" * 32, "nonce": b"n" * 32, "party": "shop"}
    said = ask(transport, "guest", "Open", 1.0, **fields)
    with pytest.raises(xj.FederatedProtocolError, match="compare the lists"):
        ask(transport, "guest", "Answer", 1.0, session=said.session, number=1, tokens=b"t" * 32)


@pytest.mark.parametrize("change", ["one more", "one less", "another", "prefix"])
def test_misaligned_lists(change: str) -> None:
    lists = {
        "one more": [*names(40), "somebody"],
        "one less": names(39),
        "another": [*names(39), "somebody"],
        "prefix": names(40, "client-"),
    }
    host = host_of(SPLIT, X, fd.InMemory(guest_of(SPLIT, X)), identifiers=lists[change])
    with pytest.raises(xj.FederatedProtocolError, match=r"\(aligned\).* are not the same") as told:
        host(X[:5, HOST], lists[change][:5], progress=False)
    assert "somebody" not in str(told.value)


def test_the_order_of_the_lists_does_not_matter() -> None:
    order = np.random.default_rng(0).permutation(40)
    transport = fd.InMemory(guest_of(SPLIT, X))
    host = host_of(SPLIT, X, transport, identifiers=[names(40)[i] for i in order])
    found = host(X[order][:, HOST], progress=False)
    plain = host_of(SPLIT, X, transport)(X[:, HOST], progress=False)
    np.testing.assert_array_equal(found.values, plain.values[order])


def test_a_guest_may_have_more_rows_than_are_aligned() -> None:
    guest = guest_of(SPLIT, X, aligned=names(30))
    host = host_of(SPLIT, X, fd.InMemory(guest), identifiers=names(30))
    assert host(X[:30, HOST], progress=False).values.shape == (30, 5)
    with pytest.raises(xj.InputError, match="1 of 3 identifiers are not those of any row"):
        guest_of(SPLIT, X, aligned=[*names(2), "somebody"])


def test_oversize_messages() -> None:
    guest = guest_of(SPLIT, X)
    reply = decode("Reply", guest.handle("Open", ("host",), bytes(LARGEST + 1)))
    assert reply.refusal.code == "size"
    with pytest.raises(xj.FederatedProtocolError, match="Ask for fewer rows"):
        ask(fd.InMemory(guest), "guest", "Answer", 1.0, tokens=bytes(LARGEST))
    transport, conversation, session = opened(guest_of(SPLIT, X, fd.Policy(fewest=1, most=8)))
    assert session.most == 8
    with pytest.raises(xj.FederatedProtocolError, match="10 in one request; at most 8"):
        tokens = conversation.token_bytes(session, list(range(10)))
        fields = {"session": session.session, "number": 1, "tokens": tokens}
        ask(transport, "guest", "Answer", 1.0, **fields)


def test_what_a_party_says_is_not_trusted_with_the_terminal() -> None:
    evil = encode("Reply", refusal={"code": "policy", "text": "\x1b[2J" + "x" * 9_000})
    transport = Watched(fd.InMemory(guest_of(SPLIT, X)), lambda method, reply: evil)
    with pytest.raises(xj.FederatedPolicyError) as told:
        host_of(SPLIT, X, transport)(X[:, HOST], progress=False)
    assert "\x1b" not in str(told.value) and len(str(told.value)) < 600


def test_what_goes_wrong_inside_is_not_told() -> None:
    """The part's own exception holds a value of a row; neither the reply nor the log does."""

    def breaks(rows: np.ndarray) -> np.ndarray:
        raise ValueError(f"cannot take {rows[0, 0]}")

    part = fd.FunctionPart(breaks, columns=3, release=SPLIT.host.release)
    guest = fd.Guest(X[:, GUEST], names(40), part, policy=fd.Policy(fewest=1))
    transport = Watched(fd.InMemory(guest))
    with pytest.raises(xj.FederatedProtocolError, match=r"\(internal\): ValueError on the other"):
        host_of(SPLIT, X, transport)(X[:, HOST], progress=False)
    values = [repr(value) for value in X[:, GUEST].ravel()]
    heard = transport.said.decode("latin-1") + repr(guest.audit.entries)
    assert not any(value in heard for value in values)
    assert guest.audit.entries[-1]["code"] == "internal"


def test_a_guest_that_changed_is_not_mixed_with_what_it_said_before() -> None:
    guests = [guest_of(SPLIT, X + shift, secret=SECRET) for shift in (0.0, 1.0)]
    transport = fd.InMemory(guests[0])
    host = host_of(SPLIT, X, transport)
    host(X[:10, HOST], names(10), progress=False)
    transport._party = guests[1]
    with pytest.raises(xj.FederatedProtocolError, match=r"has changed .*\(state\).*forget"):
        host(X[:20, HOST], names(20), progress=False)
    host.forget()
    assert host(X[:20, HOST], names(20), progress=False).stats["rows_asked"] == 21


def test_a_closed_transport_is_a_lost_peer() -> None:
    transport = fd.InMemory(guest_of(SPLIT, X))
    transport.close()
    with pytest.raises(xj.FederatedPeerLost):
        host_of(SPLIT, X, transport)(X[:, HOST], progress=False)


def test_a_joint_model_without_an_arbiter_is_refused() -> None:
    guest = {"shop": fd.InMemory(guest_of(SPLIT, X))}
    for model in (SPLIT.joint, None):
        with pytest.raises(xj.InputError, match="give arbiter="):
            fd.Host(model, X[:, HOST], guest, names(40))


BAD_HOSTS = {
    "guests of other names": ({"guests": {"bank": fd.InMemory}}, "those of the model"),
    "no guests": ({"guests": {}}, "guests must be a dict"),
    "no transport": ({"guests": {"shop": "localhost:1"}}, "needs a Connection or InMemory"),
    "several reference rows": ({"reference": X[:3, HOST]}, "one reference"),
    "a background too wide": ({"background": X}, "7 columns, the model's host side 4"),
    "an identifier twice": ({"identifiers": ["a", "b", "a"]}, "places 0 and 2 are the same"),
    "an identifier that is none": ({"identifiers": ["a", 1.5]}, "place 1 is a float"),
    "an empty identifier": ({"identifiers": ["a", ""]}, "takes 0 bytes"),
    "one text": ({"identifiers": "abc"}, "list of texts"),
    "no deadline": ({"deadline": 0}, "deadline must be a positive number"),
    "a batch of one": ({"batch": 1}, "batch must be at least 2"),
    "a version that is no text": ({"version": 3}, "version must be a text"),
    "a version of nobody": ({"version": {"bank": "1"}}, "there is no guest 'bank'"),
    "an unknown index": ({"index": "owen"}, "index"),
}


@pytest.mark.parametrize("name", BAD_HOSTS)
def test_hosts_that_are_refused_before_anybody_is_asked(name: str) -> None:
    given, words = BAD_HOSTS[name]
    guest = {"shop": fd.InMemory(guest_of(SPLIT, X))}
    good = {"background": X[:, HOST], "guests": guest, "identifiers": names(40)}
    with pytest.raises((xj.InputError, xj.InputTypeError), match=words):
        fd.Host(SPLIT.host, **(good | given))


def test_rows_that_are_refused_before_anybody_is_asked() -> None:
    transport = Watched(fd.InMemory(guest_of(SPLIT, X)))
    host = host_of(SPLIT, X, transport)
    for rows, ids, words in (
        (X[:5, HOST], None, "aligned list 40"),
        (X[:5, HOST], names(4), "4 entries for 5 rows"),
        (X[:2, HOST], ["customer-00001", "somebody"], "1 of 2 are not in the aligned list"),
        (X[:0, HOST], [], "0 rows"),
        (names(2), None, "X takes rows .* host.rows, identifiers="),
        (np.array(names(40)), None, "X takes rows .* host.rows, identifiers="),
        ([7, 8], None, "X takes rows .* host.rows, identifiers="),
        ("customer-00001", None, "X takes rows .* host.rows, identifiers="),
    ):
        with pytest.raises(xj.InputError, match=words) as told:
            host(rows, ids, progress=False)
        assert "somebody" not in str(told.value)
    assert not transport.log
    with pytest.raises(xj.InputTypeError, match="random_state"):
        fd.Host(SPLIT.host, X[:, HOST], {}, [], random_state=0)


@pytest.mark.parametrize("reference", [False, True])
def test_answers_on_the_disk_survive_and_hold_no_identifier(tmp_path, reference) -> None:
    """reference: that of the reference is the record that is lost; it cannot be asked alone."""
    guest = guest_of(SPLIT, X)
    first = host_of(SPLIT, X, fd.InMemory(guest), answers=tmp_path / "kept")
    one = first(X[:20, HOST], names(20), progress=False)
    (file,) = (tmp_path / "kept").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    data = file.read_bytes()
    assert not any(name.encode() in data for name in names(40))
    # Another process, and a file whose last record was being written when it was killed.
    header, _, rest = data.partition(b"\n")
    size = len(rest) // 21
    records = [rest[start : start + size] for start in range(0, len(rest), size)]
    of_reference = (-1).to_bytes(8, "little", signed=True)
    records.sort(key=lambda record: record.startswith(of_reference) == reference)
    file.write_bytes(header + b"\n" + b"".join(records)[:-5])
    second = host_of(SPLIT, X, fd.InMemory(guest), answers=tmp_path / "kept")
    again = second(X[:20, HOST], names(20), progress=False)
    assert again.stats["rows_asked"] == (2 if reference else 1)
    np.testing.assert_array_equal(one.values, again.values)
    assert GuestAnswers(file, "shop", [n.encode() for n in names(40)]).missing(range(20)) == []
    for guest_name, ids in (("bank", names(40)), ("shop", names(39))):
        with pytest.raises(xj.InputError, match="another guest or another list"):
            GuestAnswers(file, guest_name, [n.encode() for n in ids])
    file.write_bytes(b"rows")
    with pytest.raises(xj.InputError, match="no file of answers"):
        GuestAnswers(file, "shop", [n.encode() for n in names(40)])


def test_every_code_of_a_refusal_is_in_the_proto() -> None:
    text = (party.__file__ or "").replace("party.py", "wire.proto")
    with open(text, encoding="utf-8") as file:
        line = next(one for one in file if "string code" in one)
    assert tuple(line.split("//")[1].replace("|", " ").split()) == party.CODES
