"""Parties as processes, over gRPC with mutual TLS; the test makes the certificates."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from often import some_slow
from parties import (
    GUEST,
    HOST,
    Watched,
    guest_folder,
    logistic,
    mutated,
    names,
    process,
    table,
    write_csv,
)
from repository import ROOT

import xaijax as xj
from xaijax import federated as fd
from xaijax.federated.wire import grpc_transport, messages

grpc = pytest.importorskip("grpc", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")

N = 120
SPLIT, X = logistic(), table(N)
DEADLINE = 20.0  # seconds; only the test that stops a guest waits for one


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parties")


@pytest.fixture(scope="module")
def tls(folder: Path) -> dict[str, fd.Tls]:
    return fd.make_certificates(folder / "tls", ["host", "shop"])


@pytest.fixture(scope="module")
def address(folder: Path, tls: dict[str, fd.Tls]) -> Iterator[str]:
    """Of a guest in a process of its own."""
    config = guest_folder(folder / "shop", SPLIT, X, tls["shop"])
    with process("guest", "serve", "--config", config) as (_, found):
        yield found


def host_at(address: str, tls: fd.Tls, change=None, **options) -> tuple[fd.Host, Watched]:
    connection = fd.Connection(address, tls)
    transport = Watched(connection) if change is None else Watched(connection, change)
    options = {"deadline": DEADLINE, **options}
    return fd.Host(SPLIT.host, X[:, HOST], {"shop": transport}, names(N), **options), transport


def expected() -> xj.Explanation:
    return xj.FederatedExplainer(SPLIT.joint, X, {"shop": GUEST})(X, progress=False)


@pytest.mark.slow
def test_two_processes_agree_with_one(address: str, tls: dict[str, fd.Tls]) -> None:
    host, transport = host_at(address, tls["host"], batch=50)
    found = host(X[:, HOST], progress=False)
    np.testing.assert_allclose(found.values, expected().values, rtol=0, atol=1e-6)
    assert found.provenance["remote"] == {"shop": "2024"}
    assert len(transport.log) == 3 + 2
    transport.close()


@pytest.mark.slow
def test_memory_and_the_wire_carry_the_same_bytes(address: str, tls: dict[str, fd.Tls]) -> None:
    """Lengths of all, and the bytes of what does not hold fresh keys."""
    _, transport = wired = host_at(address, tls["host"])
    wired[0](X[:, HOST], progress=False)
    parts = {"2024": SPLIT.parts["shop"]}
    guest = fd.Guest(X[:, GUEST], names(N), parts, policy=fd.Policy(fewest=1))
    memory = Watched(fd.InMemory(guest))
    fd.Host(SPLIT.host, X[:, HOST], {"shop": memory}, names(N))(X[:, HOST], progress=False)
    assert memory.lengths == transport.lengths
    assert memory.log[1][2] == transport.log[1][2]
    transport.close()


@pytest.mark.slow
def test_the_command_line_of_both_sides(
    address: str, tls: dict[str, fd.Tls], tmp_path: Path
) -> None:
    columns = ["age", "pay", "rooms", "years"]
    SPLIT.host.save(tmp_path / "host.npz")
    write_csv(tmp_path / "background.csv", X[:, HOST], columns, names(N))
    write_csv(tmp_path / "people.csv", X[:30, HOST], columns, names(30))
    (tmp_path / "aligned.txt").write_text("\n".join(names(N)) + "\n")
    own = tls["host"]
    (tmp_path / "host.toml").write_text(
        f"""
model = "host.npz"
background = "background.csv"
identifier = "customer"
identifiers = "aligned.txt"
answers = "answers"
deadline = {DEADLINE}
[guests]
shop = "{address}"
[tls]
authority = "{own.authority}"
certificate = "{own.certificate}"
key = "{own.key}"
"""
    )
    out = tmp_path / "explanation.npz"
    command = [sys.executable, "-W", "error", "-m", "xaijax", "host", "explain", "--config"]
    command += [str(tmp_path / "host.toml"), "--rows", str(tmp_path / "people.csv")]
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    environment = {**os.environ, "PYTHONPATH": path}
    for asked in (31, 0):  # the second run finds the answers of the first
        done = subprocess.run(
            [*command, "--out", str(out)], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert f"asked for {asked} rows" in done.stdout and done.stderr == ""
    found = xj.load(out)
    np.testing.assert_allclose(found.values, expected().values[:30], rtol=0, atol=1e-6)
    assert found.feature_names == (*columns, "shop")
    said = done.stdout + done.stderr
    assert not any(one in said for one in names(N))


# --- TLS: without it, or with certificates of others, nothing is answered --------------------


@pytest.mark.slow
def test_no_client_certificate(address: str, tls: dict[str, fd.Tls]) -> None:
    authority = Path(tls["host"].authority).read_bytes()
    with grpc.secure_channel(address, grpc.ssl_channel_credentials(authority)) as channel:
        ask = channel.unary_unary("/xaijax.federated.Party/Open")
        with pytest.raises(grpc.RpcError) as told:
            ask(b"", timeout=DEADLINE)
    assert told.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(xj.InputError, match="There is no connection without"):
        fd.Connection(address, None)


def test_a_client_of_another_authority(
    address: str, tls: dict[str, fd.Tls], tmp_path: Path
) -> None:
    other = fd.make_certificates(tmp_path, ["host"])["host"]
    mixed = fd.Tls(tls["host"].authority, other.certificate, other.key)
    host, transport = host_at(address, mixed)
    with pytest.raises(xj.FederatedProtocolError, match="tls: .* certificate") as told:
        host(X[:, HOST], progress=False)
    assert not isinstance(told.value, xj.FederatedPeerLost)
    assert not transport.log


def test_a_server_of_another_authority(
    address: str, tls: dict[str, fd.Tls], tmp_path: Path
) -> None:
    other = fd.make_certificates(tmp_path, ["host"])["host"]
    mixed = fd.Tls(other.authority, tls["host"].certificate, tls["host"].key)
    host, _ = host_at(address, mixed)
    with pytest.raises(xj.FederatedProtocolError, match="certificate is not accepted"):
        host(X[:, HOST], progress=False)


@pytest.mark.slow
def test_certificates_that_have_expired(
    address: str, tls: dict[str, fd.Tls], tmp_path: Path
) -> None:
    """On either side; the authority is known to both, and good."""
    old = fd.make_certificates(tmp_path, ["host", "shop"], expired=True)
    config = guest_folder(tmp_path / "a", SPLIT, X, old["shop"])
    with process("guest", "serve", "--config", config) as (_, stale):
        host, _ = host_at(stale, old["host"])
        with pytest.raises(xj.FederatedProtocolError, match="tls: .*expired"):
            host(X[:, HOST], progress=False)
    # The client's: a guest that trusts this authority, with a certificate that is good.
    host_key = Path(old["host"].key).read_bytes()
    assert b"PRIVATE KEY" in host_key
    fresh = guest_folder(tmp_path / "b", SPLIT, X, tls["shop"])
    text = fresh.read_text().replace(str(tls["shop"].authority), str(old["host"].authority))
    fresh.write_text(text)
    with process("guest", "serve", "--config", fresh) as (_, other):
        mixed = fd.Tls(tls["host"].authority, old["host"].certificate, old["host"].key)
        host, transport = host_at(other, mixed)
        with pytest.raises(xj.FederatedProtocolError, match="tls: ") as told:
            host(X[:, HOST], progress=False)
        assert not isinstance(told.value, xj.FederatedPeerLost) and not transport.log


def test_a_common_name_beside_alternative_names_counts_for_nothing() -> None:
    """An authority checks the latter, so that the former may claim to be the arbiter."""
    names_of = grpc_transport._names
    both = {"x509_common_name": [b"arbiter"], "x509_subject_alternative_name": [b"bank", b"b"]}
    assert names_of(both) == ("bank", "b")
    assert names_of({"x509_common_name": [b"bank"]}) == ("bank",)
    assert names_of({}) == ()


def test_plaintext_clients_are_not_answered(address: str) -> None:
    """A run with TLS off fails."""
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary("/xaijax.federated.Party/Open")
        with pytest.raises(grpc.RpcError) as told:
            ask(b"", timeout=DEADLINE)
    assert told.value.code() is grpc.StatusCode.UNAVAILABLE


def test_plaintext_servers_are_not_asked(tls: dict[str, fd.Tls]) -> None:
    asked: list[bytes] = []

    def handle(data: bytes, context: object) -> bytes:
        asked.append(data)
        return b""

    methods = {"Open": grpc.unary_unary_rpc_method_handler(handle)}
    generic = grpc.method_handlers_generic_handler("xaijax.federated.Party", methods)
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((generic,))
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        host, _ = host_at(f"localhost:{port}", tls["host"])
        with pytest.raises(xj.FederatedProtocolError, match="does not speak TLS|closed the conn"):
            host(X[:, HOST], progress=False)
    finally:
        server.stop(None).wait()
    assert not asked


def test_a_name_that_is_not_in_the_certificate(address: str, tls: dict[str, fd.Tls]) -> None:
    host, _ = host_at(address.replace("localhost", "127.0.0.2"), tls["host"])
    with pytest.raises(xj.FederatedProtocolError, match="tls|lost"):
        host(X[:, HOST], progress=False)


def test_a_key_of_another_certificate(tls: dict[str, fd.Tls], address: str) -> None:
    mixed = fd.Tls(tls["host"].authority, tls["host"].certificate, tls["shop"].key)
    host, _ = host_at(address, mixed)
    with pytest.raises(xj.FederatedProtocolError, match="do not belong together"):
        host(X[:, HOST], progress=False)


def test_files_that_are_none(tls: dict[str, fd.Tls], tmp_path: Path) -> None:
    good = tls["host"]
    with pytest.raises(xj.InputError, match="authority .* cannot be read"):
        fd.Tls(tmp_path / "none.pem", good.certificate, good.key)
    (tmp_path / "text").write_text("no certificate")
    with pytest.raises(xj.InputError, match="is no PEM file"):
        fd.Tls(tmp_path / "text", good.certificate, good.key)
    for wrong in ("localhost", "localhost:none", "localhost:99999", ":1"):
        with pytest.raises(xj.InputError, match="host:port"):
            fd.Connection(wrong, good)


def test_nobody_listens(tls: dict[str, fd.Tls]) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    host, _ = host_at(f"localhost:{port}", tls["host"])
    with pytest.raises(xj.FederatedPeerLost, match="guest 'shop': party at localhost"):
        host(X[:, HOST], progress=False)


@pytest.mark.slow
def test_an_oversize_message_over_the_wire(address: str, tls: dict[str, fd.Tls]) -> None:
    connection = fd.Connection(address, tls["host"])
    with pytest.raises(xj.FederatedProtocolError, match="larger than"):
        connection.call("Open", bytes((1 << 24) + (1 << 12)), DEADLINE)
    connection.close()


# --- a guest that is killed, and one that hangs ---------------------------------------------


class After:
    """Calls `act` once, after so many answers."""

    def __init__(self, answers: int, act) -> None:
        self.left, self.act = answers, act

    def __call__(self, method: str, reply: bytes) -> bytes:
        self.left -= method == "Answer"
        if self.left == 0 and method == "Answer":
            self.act()
        return reply


@pytest.mark.slow
@pytest.mark.parametrize("how", some_slow(["killed", "hangs"]))
def test_a_guest_lost_in_mid_sweep_and_resumed(
    how: str, folder: Path, tls: dict[str, fd.Tls], tmp_path: Path
) -> None:
    config = guest_folder(tmp_path, SPLIT, X, tls["shop"], "fewest = 1\nmost_queries = 1")
    deadline = 2.0
    with process("guest", "serve", "--config", config) as (guest, address):

        def stop() -> None:
            guest.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
            if how == "killed":
                guest.wait()
            else:  # the signal may be on its way while the next request is answered
                os.waitpid(guest.pid, os.WUNTRACED)

        host, transport = host_at(address, tls["host"], After(2, stop), batch=25, deadline=deadline)
        started = time.monotonic()
        with pytest.raises(xj.FederatedPeerLost, match="are kept") as told:
            host(X[:, HOST], progress=False)
        # The one deadline: what is lost is told soon after it.
        assert time.monotonic() - started < deadline + 10
        assert ("deadline=2" in str(told.value)) == (how == "hangs")
        guest.send_signal(signal.SIGKILL) if how == "hangs" else None
        guest.wait()
    answered = [reply for method, _, reply in transport.log if method == "Answer"]
    assert len(answered) == 2
    # The policy answers each identifier once: asking again for what was answered would be refused.
    with process("guest", "serve", "--config", config) as (_, address):
        transport.inner = fd.Connection(address, tls["host"])
        host._deadline = host._conversations["shop"].deadline = DEADLINE
        found = host(X[:, HOST], progress=False)
        transport.close()
    sizes = [len(part) for part in np.array_split(np.arange(N + 1), -(-(N + 1) // 25))]
    assert found.stats["rows_asked"] == N + 1 - sum(sizes[:2])
    np.testing.assert_allclose(found.values, expected().values, rtol=0, atol=1e-6)
    count, _ = fd.verify_audit(tmp_path / "state" / "audit.jsonl", bytes(range(32)))
    assert count >= 2 + 3 + 4


# --- whatever comes over the wire, the guest goes on ----------------------------------------


@pytest.mark.slow
def test_10_000_mutated_messages(folder: Path, tls: dict[str, fd.Tls], tmp_path: Path) -> None:
    """Each is answered by a Reply; the same process then serves a host as if nothing had been."""
    config = guest_folder(tmp_path, SPLIT, X, tls["shop"])
    rng = np.random.default_rng(0)
    with process("guest", "serve", "--config", config) as (guest, address):
        host, transport = host_at(address, tls["host"], batch=40)
        host(X[:, HOST], progress=False)
        good = [(method, request) for method, request, _ in transport.log]
        codes: dict[str, int] = {}
        methods = ["Open", "Align", "Answer", "Block", "Intersect", "Start", "Load", "Predict"]
        for number in range(10_000):
            method, request = good[number % len(good)]
            if number % 7 == 0:
                method = str(rng.choice(methods))
            reply = transport.inner.call(method, mutated(rng, request), DEADLINE)
            found = messages.decode("Reply", reply)
            code = found.refusal.code if found.HasField("refusal") else "answered"
            codes[code] = codes.get(code, 0) + 1
        assert guest.poll() is None
        assert {"message", "session"} <= set(codes) and "internal" not in codes, codes
        again, other = host_at(address, tls["host"])
        np.testing.assert_allclose(
            again(X[:, HOST], progress=False).values, expected().values, rtol=0, atol=1e-6
        )
        transport.close()
        other.close()
    fd.verify_audit(tmp_path / "state" / "audit.jsonl", bytes(range(32)))
