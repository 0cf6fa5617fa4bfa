"""Joint models: they run at the arbiter, which alone gets rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from parties import GUEST, HOST, Watched, guest_folder, logistic, mutated, names, process, table

import xaijax as xj
from xaijax import federated as fd
from xaijax.federated.host.host import JointRun
from xaijax.federated.wire import messages, party

pytest.importorskip("google.protobuf", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")

N = 50
X = table(N)
POLICY = fd.Policy(fewest=1, arbiter="arbiter")


def f(rows: np.ndarray) -> np.ndarray:
    """No split model: columns of both parties are multiplied."""
    return rows[:, 0] * rows[:, 1] * rows[:, 3] + np.maximum(rows[:, 5], rows[:, 6]) - rows[:, 2]


model = xj.as_model(f, backend="host")


def parties(policy: fd.Policy = POLICY, served=model):
    """A guest without a part, an arbiter, a host; and what passes between them."""
    guest = fd.Guest(X[:, GUEST], names(N), None, policy=policy)
    between = {
        "guest": Watched(fd.InMemory(guest)),
        "rows": Watched(fd.InMemory(guest, "arbiter")),
    }
    arbiter = fd.Arbiter(served, 7, {"shop": GUEST}, {"shop": between["rows"]})
    between["arbiter"] = Watched(fd.InMemory(arbiter))
    shop = {"shop": between["guest"]}
    host = fd.Host(None, X[:, HOST], shop, names(N), arbiter=between["arbiter"])
    return host, arbiter, between


def test_values_are_those_of_one_process() -> None:
    host, _, _ = parties()
    found = host(X[:20, HOST], names(N)[:20], progress=False)
    expected = xj.FederatedExplainer(model, X, {"shop": GUEST})(X[:20], progress=False)
    np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-12)
    assert found.stats["rows_asked"] == 21 and found.feature_names[-1] == "shop"
    again = host(X[20:40, HOST], names(N)[20:40], progress=False)  # another run
    assert again.values.shape == (20, 5)


def test_several_outputs() -> None:
    two = xj.as_model(lambda rows: np.stack([f(rows), -f(rows)], axis=1), backend="host")
    host, _, _ = parties(served=two)
    found = host(X[:8, HOST], names(N)[:8], progress=False)
    expected = xj.FederatedExplainer(two, X, {"shop": GUEST})(X[:8], progress=False)
    np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-12)


def test_rows_go_to_the_arbiter_only() -> None:
    host, _, between = parties()
    host(X[:, HOST], progress=False)
    for n in range(N):
        for value in X[n, GUEST]:
            bits = value.tobytes()
            assert bits in between["rows"].said
            assert bits not in between["guest"].said and bits not in between["arbiter"].said
        assert X[n, HOST[0]].tobytes() not in between["guest"].said + between["rows"].said
        assert names(N)[n].encode() not in b"".join(one.said for one in between.values())
    assert {method for method, _, _ in between["guest"].log} == {"Open", "Align"}


def test_the_order_of_the_hosts_rows_is_not_told() -> None:
    """Tokens come to the guest in their own order, which is a random one."""
    host, _, between = parties()
    host(X[:, HOST], progress=False)
    (asked,) = [request for method, request, _ in between["rows"].log if method == "Block"]
    data = messages.decode("BlockRequest", asked).tokens
    tokens = [data[i : i + 32] for i in range(0, len(data), 32)]
    assert len(tokens) == N + 1 and tokens == sorted(tokens)


def test_answers_of_changing_width_are_told() -> None:
    widths = iter([1, 0])

    class Changing:
        def call(self, method: str, data: bytes, deadline: float) -> bytes:
            body = messages.encode("PredictReply", width=next(widths), values=bytes(16))
            return messages.encode("Reply", body=body)

        def close(self) -> None: ...

    run = JointRun(Changing(), 1.0)
    run._most = 2
    with pytest.raises(xj.FederatedProtocolError, match="of width 0 follows one of width 1"):
        run._predict(np.zeros((4, 5)))


def test_who_may_have_rows() -> None:
    host, _, _ = parties(fd.Policy(fewest=1, arbiter="somebody"))
    with pytest.raises(xj.FederatedProtocolError, match=r"arbiter refused \(policy\): .* names"):
        host(X[:, HOST], progress=False)
    with pytest.raises(xj.InputTypeError, match="None is accepted if the policy names an arb"):
        parties(fd.Policy(fewest=1))
    # A guest without a part answers no host, and a host cannot be the arbiter.
    guest = fd.Guest(X[:, GUEST], names(N), None, policy=POLICY)
    split = logistic()
    asking = fd.Host(split.host, X[:, HOST], {"shop": fd.InMemory(guest)}, names(N))
    with pytest.raises(xj.FederatedProtocolError, match="numbers, the host's model takes 1"):
        asking(X[:, HOST], progress=False)
    both = fd.Host(split.host, X[:, HOST], {"shop": fd.InMemory(guest, "arbiter")}, names(N))
    with pytest.raises(xj.FederatedPolicyError, match="hosts"):
        both(X[:, HOST], progress=False)


def test_the_guests_limits_hold_for_rows_too() -> None:
    policy = fd.Policy(fewest=10, most=20, most_queries=1, arbiter="arbiter")
    host, _, between = parties(policy)
    host(X[:40, HOST], names(N)[:40], progress=False)
    blocks = [request for method, request, _ in between["rows"].log if method == "Block"]
    assert len(blocks) == 3  # 41 tokens, 20 in one request
    with pytest.raises(xj.FederatedProtocolError, match="has had its 1 requests"):
        host(X[:40, HOST], names(N)[:40], progress=False)
    with pytest.raises(xj.FederatedProtocolError, match="at least 10"):
        host(X[40:45, HOST], names(N)[40:45], progress=False)


def test_wrong_requests_to_an_arbiter() -> None:
    _, arbiter, _ = parties()
    transport = fd.InMemory(arbiter)
    ask = party.ask
    run = ask(transport, "arbiter", "Start", 1.0, version=messages.VERSION).run
    rows = {"run": run, "rows": 1, "values": np.zeros(5).tobytes()}
    for method, fields, words in (
        ("Start", {"version": 9}, r"\(version\)"),
        ("Predict", {"run": b"?"}, r"\(session\)"),
        ("Predict", rows, "not loaded"),
        ("Load", {"run": run, "guest": "bank"}, "unknown, or loaded"),
        ("Load", {"run": run, "guest": "shop", "tokens": b"t" * 32}, "at least one other"),
        ("Load", {"run": run, "guest": "shop", "tokens": b"t" * 64, "most": 9}, "arbiter.*unknown"),
        ("Answer", {}, "answers Start, Load, Predict only"),
    ):
        with pytest.raises(xj.FederatedProtocolError, match=words):
            ask(transport, "arbiter", method, 1.0, **fields)
    other = fd.InMemory(arbiter, "other")
    with pytest.raises(xj.FederatedProtocolError, match=r"\(session\)"):
        ask(other, "arbiter", "Predict", 1.0, **rows)


def test_rows_that_an_arbiter_refuses() -> None:
    host, arbiter, between = parties()
    host(X[:10, HOST], names(N)[:10], progress=False)
    run = host._joint._run
    for last, words in ((11.0, "not there"), (-1.0, "not there"), (0.5, "not there")):
        values = np.array([0.0, 0, 0, 0, last]).tobytes()
        with pytest.raises(xj.FederatedProtocolError, match=words):
            fields = {"run": run, "rows": 1, "values": values}
            party.ask(between["arbiter"], "arbiter", "Predict", 1.0, **fields)
    arbiter.close()
    with pytest.raises(xj.FederatedProtocolError, match=r"\(session\)"):
        party.ask(between["arbiter"], "arbiter", "Predict", 1.0, run=run, rows=1)


def test_mutated_messages_to_an_arbiter() -> None:
    host, _, between = parties()
    host(X[:10, HOST], names(N)[:10], progress=False)
    rng = np.random.default_rng(0)
    good = [(method, request) for method, request, _ in between["arbiter"].log]
    codes = set()
    for number in range(1_500):
        method, request = good[number % len(good)]
        reply = between["arbiter"].inner.call(method, mutated(rng, request), 1.0)
        found = messages.decode("Reply", reply)
        codes.add(found.refusal.code if found.HasField("refusal") else "answered")
    assert {"message", "session"} <= codes and "internal" not in codes
    assert host(X[10:20, HOST], names(N)[10:20], progress=False).values.shape == (10, 5)


def test_arbiters_that_are_refused() -> None:
    transport = {"shop": fd.InMemory(fd.Guest(X[:, GUEST], names(N), None, policy=POLICY))}
    for given, words in (
        ((3, 7, {"shop": GUEST}, transport), "as_model"),
        ((model, 7, {"shop": GUEST}, {}), "one to each"),
        ((model, 7, {"bank": GUEST}, transport), "one to each"),
        ((model, 3, {"shop": [7]}, transport), "guests"),
    ):
        with pytest.raises((xj.InputError, xj.InputTypeError), match=words):
            fd.Arbiter(*given)
    with pytest.raises(xj.InputError, match="model must be None with arbiter="):
        fd.Host(logistic().host, X, transport, names(N), arbiter=transport["shop"])
    with pytest.raises(xj.InputError, match="accepts only numbers"):
        fd.Host(None, pd.DataFrame(X), transport, names(N), arbiter=transport["shop"])
    with pytest.raises(xj.FederatedProtocolError, match="joins 4 host columns"):
        host, _, _ = parties()
        wide = fd.Host(None, X, host._transports, names(N), arbiter=host._joint._arbiter)
        wide(X, progress=False)


@pytest.mark.slow
def test_three_processes(tmp_path: Path) -> None:
    """A guest, an arbiter whose model is a Python function, and the host in this process."""
    pytest.importorskip("grpc", reason="needs the extra [federated]")
    tls = fd.make_certificates(tmp_path / "tls", ["host", "shop", "arbiter"])
    guest = guest_folder(
        tmp_path / "shop", logistic(), X, tls["shop"], 'fewest = 1\narbiter = "arbiter"'
    )
    (tmp_path / "joint_model.py").write_text(
        "import numpy as np\nimport xaijax as xj\n\n\ndef f(rows):\n"
        "    return rows[:, 0] * rows[:, 1] * rows[:, 3] + np.maximum(rows[:, 5], rows[:, 6])"
        " - rows[:, 2]\n\n\nmodel = xj.as_model(f, backend='host')\n"
    )
    with process("guest", "serve", "--config", guest) as (_, shop):
        (tmp_path / "arbiter.toml").write_text(
            f"""
address = "localhost:0"
model = "joint_model:model"
columns = 7
hosts = ["host"]
[guests.shop]
columns = {GUEST}
address = "{shop}"
[tls]
authority = "tls/authority.pem"
certificate = "tls/arbiter.pem"
key = "tls/arbiter.key"
"""
        )
        arguments = ("arbiter", "serve", "--config", tmp_path / "arbiter.toml")
        with process(*arguments, more_path=tmp_path) as (_, address):
            arbiter = fd.Connection(address, tls["host"])
            transport = {"shop": fd.Connection(shop, tls["host"])}
            host = fd.Host(None, X[:, HOST], transport, names(N), arbiter=arbiter)
            found = host(X[:, HOST], progress=False)
            expected = xj.FederatedExplainer(model, X, {"shop": GUEST})(X, progress=False)
            np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-12)
            stranger = fd.Connection(address, tls["shop"])
            with pytest.raises(xj.FederatedPolicyError, match="hosts"):
                party.ask(stranger, "arbiter", "Start", 20.0, version=messages.VERSION)
            for one in (arbiter, stranger, *transport.values()):
                one.close()
