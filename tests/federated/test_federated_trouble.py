"""Guests that are slow, wrong, moved or shared: what is counted, kept, logged and said then."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from parties import GUEST, HOST, SECRET, Watched, guest_of, host_of, logistic, names, table

import xaijax as xj
from xaijax import federated as fd
from xaijax.federated.command_line.commands import read_lines, read_settings, read_table
from xaijax.federated.host.answers import GuestAnswers, alone_in
from xaijax.federated.wire.messages import decode, encode
from xaijax.federated.wire.tls import host_and_port

pytest.importorskip("google.protobuf", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")

N = 40
SPLIT, X = logistic(), table(N)
POLICY = fd.Policy(fewest=1)


def function_guest(function, **options) -> fd.Guest:
    part = fd.FunctionPart(function, columns=3, release=SPLIT.host.release)
    return fd.Guest(X[:, GUEST], names(N), part, policy=POLICY, **options)


def asked(guest: fd.Guest) -> tuple[fd.Host, bytes]:
    """A host with an open session, and an Answer request for three people."""
    host = host_of(SPLIT, X, fd.InMemory(guest))
    conversation = host._conversations["shop"]
    opened = conversation.open()
    tokens = conversation.token_bytes(opened, [0, 1, 2])
    return host, encode("AnswerRequest", session=opened.session, number=1, tokens=tokens)


# --- answers above float32 -------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e39, -1e39])
def test_answers_above_float32_are_the_guests_error(size: float) -> None:
    guest = function_guest(lambda rows: np.full(len(rows), size))
    host = host_of(SPLIT, X, fd.InMemory(guest))
    with pytest.raises(xj.FederatedProtocolError, match="part: .*3.4e.38"):
        host(X[:, HOST], progress=False)
    assert host._answers["shop"].facts is None or not host._answers["shop"].places
    assert guest._counts.total() == 0 and "float32" in guest.audit.entries[-1]["cause"]


def test_an_answer_above_float32_is_not_kept_by_the_host(tmp_path: Path) -> None:
    """Of a guest that sends it all the same; the good one is asked afterwards."""

    def change(method: str, data: bytes) -> bytes:
        if method != "Answer":
            return data
        body = decode("AnswerReply", decode("Reply", data).body)
        body.values = np.array([1e39]).tobytes() + body.values[8:]
        return encode("Reply", body=body.SerializeToString())

    transport = Watched(fd.InMemory(guest_of(SPLIT, X)), change)
    host = host_of(SPLIT, X, transport, answers=tmp_path)
    with pytest.raises(xj.FederatedProtocolError, match="answer: 1 of 41 numbers are above"):
        host(X[:, HOST], progress=False)
    transport.change = lambda method, data: data
    assert host(X[:, HOST], progress=False).stats["rows_asked"] == N + 1


# --- hosts that give up, and parts that are slow ----------------------------------------------


def test_a_request_whose_host_has_given_up_is_not_counted() -> None:
    computed: list[int] = []

    def part(rows: np.ndarray) -> np.ndarray:
        computed.append(len(rows))
        return rows[:, 0]

    guest = function_guest(part)
    _, request = asked(guest)
    reply = decode("Reply", guest.handle("Answer", ("host",), request, lambda: False))
    assert reply.refusal.code == "lost" and not computed
    gone = iter([True, False])  # between the part's answer and the count
    reply = decode("Reply", guest.handle("Answer", ("host",), request, lambda: next(gone)))
    assert reply.refusal.code == "lost" and computed == [3]
    assert guest._counts.total() == 0
    assert not any(one["event"] == "answer" for one in guest.audit.entries)
    reply = decode("Reply", guest.handle("Answer", ("host",), request))  # the same one, in time
    assert not reply.HasField("refusal") and guest._counts.total() == 3


def test_a_part_that_fails_costs_nothing_and_its_place_is_logged() -> None:
    def breaks(rows: np.ndarray) -> np.ndarray:
        raise ValueError(f"cannot take {rows[0, 0]}")

    guest = function_guest(breaks)
    host, request = asked(guest)
    transport = Watched(fd.InMemory(guest))
    with pytest.raises(xj.FederatedProtocolError, match=r"\(internal\): ValueError on the other"):
        host_of(SPLIT, X, transport)(X[:, HOST], progress=False)
    cause = guest.audit.entries[-1]["cause"]
    assert cause.startswith("ValueError at ") and "test_federated_trouble.py:" in cause
    assert cause.endswith(" breaks") and "cannot take" not in cause
    heard = transport.said.decode("latin-1") + json.dumps(guest.audit.entries)
    assert not any(repr(float(value)) in heard for value in X[:, GUEST].ravel())
    assert "breaks" not in transport.said.decode("latin-1")  # the host does not hear where
    assert guest._counts.total() == 0


def test_a_slow_part_does_not_hold_the_lock() -> None:
    going, free = threading.Event(), threading.Event()

    def slow(rows: np.ndarray) -> np.ndarray:
        going.set()
        assert free.wait(30)
        return rows[:, 0]

    guest = function_guest(slow)
    _, request = asked(guest)
    replies: list[bytes] = []
    thread = threading.Thread(
        target=lambda: replies.append(guest.handle("Answer", ("host",), request))
    )
    thread.start()
    assert going.wait(30)
    done: list[object] = []
    other = threading.Thread(target=lambda: done.append(asked(guest)), daemon=True)
    other.start()  # Open and Align of another session
    other.join(10)
    again = decode("Reply", guest.handle("Answer", ("host",), request))
    free.set()
    thread.join(30)
    assert done and "still being answered" in again.refusal.text
    assert not decode("Reply", replies[0]).HasField("refusal") and guest._counts.total() == 3


def test_over_the_wire_a_request_past_its_deadline_is_not_counted(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs the extra [federated]")
    lost, answered = threading.Event(), threading.Event()

    def slow(rows: np.ndarray) -> np.ndarray:
        assert lost.wait(10)  # until the host has given up
        answered.set()
        return rows[:, 0]

    guest = function_guest(slow)
    tls = fd.make_certificates(tmp_path, ["bank", "shop"])
    server = fd.serve(guest, "localhost:0", tls["shop"])
    connection = fd.Connection(server.address, tls["bank"])
    try:
        host = host_of(SPLIT, X, connection, deadline=10.0)
        host._conversations["shop"].deadline = 0.3
        with pytest.raises(xj.FederatedPeerLost, match="deadline"):
            host(X[:, HOST], progress=False)
        time.sleep(0.5)  # the guest counts the deadline from when the request came in
        lost.set()
        assert answered.wait(10)
        for _ in range(200):  # until the refusal is logged
            if guest.audit.entries[-1]["event"] == "refused":
                break
            time.sleep(0.01)
        assert guest._counts.total() == 0 and guest.audit.entries[-1]["code"] == "lost"
        host._conversations["shop"].deadline = 10.0
        assert host(X[:, HOST], progress=False).stats["rows_asked"] == N + 1
    finally:
        connection.close()
        server.stop()


# --- an arbiter passes on what guests say -----------------------------------------------------


def arbited(policy: fd.Policy) -> tuple[fd.Host, fd.InMemory]:
    guest = fd.Guest(X[:, GUEST], names(N), None, policy=policy)
    rows = fd.InMemory(guest, "arbiter")
    model = xj.as_model(lambda rows: rows.sum(axis=1), backend="host")
    arbiter = fd.Arbiter(model, 7, {"shop": GUEST}, {"shop": rows})
    to = {"shop": fd.InMemory(guest)}
    return fd.Host(None, X[:, HOST], to, names(N), arbiter=fd.InMemory(arbiter)), rows


def test_an_arbiter_passes_on_the_kind_of_an_error() -> None:
    host, rows = arbited(fd.Policy(fewest=10, arbiter="arbiter"))
    with pytest.raises(xj.FederatedPolicyError, match="arbiter refused .policy.: guest 'shop'"):
        host(X[:5, HOST], names(N)[:5], progress=False)
    rows.close()
    with pytest.raises(xj.FederatedPeerLost, match="arbiter refused .lost.: guest 'shop'"):
        host(X[:, HOST], progress=False)


def test_an_arbiter_says_where_its_model_failed(caplog: pytest.LogCaptureFixture) -> None:
    def breaks(rows: np.ndarray) -> np.ndarray:
        raise KeyError(rows[0, 0])

    guest = fd.Guest(X[:, GUEST], names(N), None, policy=fd.Policy(fewest=1, arbiter="arbiter"))
    model = xj.as_model(breaks, backend="host")
    arbiter = fd.Arbiter(model, 7, {"shop": GUEST}, {"shop": fd.InMemory(guest, "arbiter")})
    to = {"shop": fd.InMemory(guest)}
    host = fd.Host(None, X[:, HOST], to, names(N), arbiter=fd.InMemory(arbiter))
    with pytest.raises(xj.FederatedProtocolError, match=r"\(internal\)"):
        host(X[:, HOST], progress=False)
    assert "internal error: " in caplog.text and " at " in caplog.text
    assert not any(repr(float(value)) in caplog.text for value in X.ravel())


# --- addresses --------------------------------------------------------------------------------


def test_an_ipv6_address_can_be_dialled(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="needs the extra [federated]")
    tls = fd.make_certificates(tmp_path, ["bank", "shop"])
    try:
        server = fd.serve(guest_of(SPLIT, X), "[::1]:0", tls["shop"])
    except xj.InputError:
        pytest.skip("this machine has no IPv6")
    connection = fd.Connection(server.address, tls["bank"])
    try:
        assert server.address.startswith("[::1]:")
        assert len(host_of(SPLIT, X, connection)(X[:, HOST], progress=False)) == N
    finally:
        connection.close()
        server.stop()


def test_addresses_are_read() -> None:
    assert host_and_port("[::1]:7443") == ("::1", 7443)
    assert host_and_port("shop.example:7443") == ("shop.example", 7443)
    for wrong, words in (("::1:7443", "in brackets"), ("[]:1", "host:port"), ("a:²", "host:port")):
        with pytest.raises(xj.InputError, match=words):
            host_and_port(wrong)


# --- folders that are shared, or replaced -----------------------------------------------------


def test_two_hosts_in_one_folder_of_answers_are_told(tmp_path: Path) -> None:
    transport = Watched(fd.InMemory(guest_of(SPLIT, X)))
    first = host_of(SPLIT, X, transport, answers=tmp_path)
    second = host_of(SPLIT, X, transport, answers=tmp_path)
    first(X[:20, HOST], names(N)[:20], progress=False)
    said = len(transport.log)
    with pytest.raises(xj.InputError, match="answers: another host uses the folder"):
        second(X[:, HOST], progress=False)
    assert len(transport.log) == said  # before anybody is asked
    first(X[:30, HOST], names(N)[:30], progress=False)  # the first goes on
    third = host_of(SPLIT, X, transport, answers=tmp_path)  # made when the others are done
    assert third(X[:, HOST], progress=False).stats["rows_asked"] == 10
    with pytest.raises(xj.InputError, match="another host uses"):
        first(X[:, HOST], progress=False)
    with (
        alone_in(tmp_path, []),
        pytest.raises(xj.InputError, match="another host uses"),
        alone_in(tmp_path, []),
    ):
        pytest.fail("two hosts at the same time")


def served(state: Path, secret: bytes = SECRET, people: int = N, **options) -> fd.Guest:
    guest = guest_of(SPLIT, X, secret=secret, state=state, **options)
    host_of(SPLIT, X, fd.InMemory(guest))(X[:people, HOST], names(N)[:people], progress=False)
    guest.close()
    return guest


def test_a_counter_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    """Also where its sum is not smaller: of another guest, of fewer people, or edited."""
    state = tmp_path / "state"
    served(state, people=10)
    file = state / "queries.sqlite"
    older = file.read_bytes()
    served(state)
    good = file.read_bytes()

    def refused(why: str) -> None:
        with pytest.raises(xj.InputError, match="state: .* replaced"):
            guest_of(SPLIT, X, secret=SECRET, state=state)
            pytest.fail(why)
        file.write_bytes(good)

    file.write_bytes(older)
    refused("an older copy")
    for secret in (SECRET, SECRET[::-1]):
        other = tmp_path / f"other-{secret[0]}"
        for _ in range(3):  # more queries than the log has
            served(other, secret)
        shutil.copy(other / "queries.sqlite", file)
        refused("the file of another guest")
    for change in (
        "UPDATE queries SET count = 100 - count",
        "UPDATE queries SET who = randomblob(16) WHERE rowid = 3",
        "UPDATE queries SET count = 1; INSERT INTO queries VALUES (x'00', 1000)",
        "UPDATE marks SET logged = 'x'",
    ):
        base = sqlite3.connect(file)
        base.executescript(change)
        base.commit()
        base.close()
        refused(change)
    guest_of(SPLIT, X, secret=SECRET, state=state).close()


def test_counts_that_are_ahead_of_the_log_are_accepted(tmp_path: Path) -> None:
    """A process that was killed after it counted, and before it logged."""
    guest = guest_of(SPLIT, X, secret=SECRET, state=tmp_path)
    host_of(SPLIT, X, fd.InMemory(guest))(X[:, HOST], progress=False)
    for _ in range(2):  # twice in a row, as on a full disk
        guest._counts.charge([names(N)[0].encode()], guest.audit.counts)
    guest.close()
    again = guest_of(SPLIT, X, secret=SECRET, state=tmp_path)
    assert again._counts.total() == N + 2
    again.close()
    guest_of(SPLIT, X, secret=SECRET, state=tmp_path).close()


# --- the same people in another order ---------------------------------------------------------


def test_the_same_people_in_another_order_are_the_same(tmp_path: Path) -> None:
    order = np.random.default_rng(3).permutation(N)
    mixed = [names(N)[place] for place in order]
    guests = [
        fd.Guest(rows, ids, SPLIT.parts["shop"], policy=POLICY, secret=SECRET)
        for rows, ids in ((X[:, GUEST], names(N)), (X[order][:, GUEST], mixed))
    ]
    transport = fd.InMemory(guests[0])
    first = host_of(SPLIT, X, transport, answers=tmp_path)
    expected = first(X[:25, HOST], names(N)[:25], progress=False).values
    # The host's list, the guest's rows, or both, after a restart.
    transport = fd.InMemory(guests[1])
    for listed in (mixed, names(N)):
        host = host_of(SPLIT, X, transport, answers=tmp_path, identifiers=listed)
        found = host(X[:25, HOST], names(N)[:25], progress=False)
        assert found.stats["rows_asked"] == 0
        np.testing.assert_array_equal(found.values, expected)
    host = host_of(SPLIT, X, transport, answers=tmp_path, identifiers=mixed)
    more = host(X[:, HOST], names(N), progress=False)
    assert more.stats["rows_asked"] == 15
    plain = host_of(SPLIT, X, fd.InMemory(guests[0]))(X[:, HOST], progress=False)
    np.testing.assert_array_equal(more.values, plain.values)
    turned = [one.encode() for one in mixed]
    held = GuestAnswers(tmp_path / "0.answers", "shop", turned)
    before = held.rows(range(N))
    held.realign([one.encode() for one in names(N)])
    np.testing.assert_array_equal(held.rows(order), before)
    with pytest.raises(xj.InputError, match="another list"):
        held.realign(turned[1:])


# --- files of identifiers ---------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_end_at_line_ends_only(end: str, tmp_path: Path) -> None:
    people = ["ann\x0bb", "ben\x0c", "c\x1cd\x1d\x1e", "e\x85f", "g\u2028h\u2029", " i ", "j"]
    for closing in ("", end):
        path = tmp_path / "common.txt"
        path.write_bytes(("\ufeff" + end.join(people) + closing).encode())
        assert read_lines(path, "aligned") == people
    path.write_bytes(b"")
    assert read_lines(path, "aligned") == []


def test_byte_order_marks_are_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes("\ufeffcustomer,age\r\nann,1\r\n".encode())
    ids, columns, rows = read_table(tmp_path / "rows.csv", "customer")
    assert (ids, columns, rows.tolist()) == (["ann"], ["age"], [[1.0]])
    (tmp_path / "guest.toml").write_bytes('\ufeffaddress = "a:1"\n'.encode())
    assert read_settings(tmp_path / "guest.toml", ["address"]).needed("address") == "a:1"
