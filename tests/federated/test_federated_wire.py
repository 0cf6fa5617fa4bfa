"""A sweep over the wire, in memory: the same values as in one process, asked for once."""

from __future__ import annotations

import math

import numpy as np
import parties
import pytest
from parties import GUEST, HOST, Watched, guest_of, host_of, logistic, names, table

import xaijax as xj
from xaijax import federated as fd
from xaijax.federated.wire.messages import METHODS, decode, encode, file_descriptor

pytest.importorskip("google.protobuf", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")

# The bound. Both sides compute in float32, a guest's answer is rounded to it once more.
EQUAL = {"rtol": 0, "atol": 1e-6}


def several(seed: int = 0) -> tuple[fd.PartySplit, np.ndarray]:
    """Two guests, of 2 and 1 columns."""
    split = fd.split_logistic(np.linspace(-1, 1, 6), 0.2, {"a": [1, 2], "b": [5]})
    return split, np.random.default_rng(seed).normal(size=(40, 6))


def in_process(split: fd.PartySplit, X: np.ndarray, rows: np.ndarray, **options) -> xj.Explanation:
    return xj.FederatedExplainer(split.joint, X, {"shop": GUEST}, **options)(rows, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"index": "banzhaf"},
        {"estimator": "wls"},
        {"estimator": "permutation", "budget": 12, "seed": 3},
    ],
)
def test_values_are_those_of_one_process(options: dict) -> None:
    split, X = logistic(), table()
    host = host_of(split, X, fd.InMemory(guest_of(split, X)), **options)
    found = host(X[:, HOST], progress=False)
    expected = in_process(split, X, X, **options)
    np.testing.assert_allclose(found.values, expected.values, **EQUAL)
    np.testing.assert_allclose(found.base_values, expected.base_values, **EQUAL)
    assert found.feature_names[-1] == "shop" and found.values.shape == (len(X), 5)
    assert found.data.shape == (len(X), len(HOST))  # no column of the guest
    assert found.provenance["reference"] == "median" and found.provenance["remote"] == {"shop": "1"}
    assert host.interaction_ is None


def test_values_are_those_of_the_definition() -> None:
    """Shapley's value of w(T), by all orders, in float64."""
    split, X = logistic(), table(30)
    host = host_of(split, X, fd.InMemory(guest_of(split, X)))
    found = host(X[:3, HOST], names(3), progress=False)
    c = np.array([0.5, -1.0, 0.25, 2.0, -0.75, 0.5, 1.0])
    players = [[0], [2], [4], [6], GUEST]
    P, off = len(players), np.median(X, axis=0)
    for x, values in zip(X, found.values, strict=False):
        worth = np.empty(1 << P)
        for coalition in range(1 << P):
            row = off.copy()
            for player, columns in enumerate(players):
                if coalition >> player & 1:
                    row[columns] = x[columns]
            worth[coalition] = 1 / (1 + math.exp(-(row @ c + 0.1)))
        for player in range(P):
            total = 0.0
            for coalition in range(1 << P):
                if not coalition >> player & 1:
                    s = coalition.bit_count()
                    share = math.factorial(s) * math.factorial(P - 1 - s) / math.factorial(P)
                    total += share * (worth[coalition | 1 << player] - worth[coalition])
            assert abs(values[player] - total) < 1e-6


@pytest.mark.slow
def test_two_guests_and_any_reference_row() -> None:
    split, X = several()
    r = np.linspace(-0.5, 0.5, 6)
    guests = {}
    with pytest.warns(xj.XaiWarning):
        for name, columns in (("a", [1, 2]), ("b", [5])):
            policy = fd.Policy(fewest=1)
            rows, part = X[:, columns], split.parts[name]
            guests[name] = fd.Guest(rows, names(40), part, reference=r[columns], policy=policy)
    transports = {name: fd.InMemory(guests[name]) for name in ("b", "a")}  # in any order
    own = [0, 3, 4]
    host = fd.Host(split.host, X[:, own], transports, names(40), reference=r[own])
    found = host(X[:, own], progress=False)
    both = {"a": [1, 2], "b": [5]}
    expected = xj.FederatedExplainer(split.joint, X, both, reference=r)(X, progress=False)
    np.testing.assert_allclose(found.values, expected.values, **EQUAL)
    assert found.feature_names[3:] == ("a", "b")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_keep_their_names(library: str) -> None:
    frames = pytest.importorskip(library)
    split, X = logistic(), table(50)
    columns = ["age", "pay", "rooms", "years"]
    frame = frames.DataFrame(dict(zip(columns, X[:, HOST].T, strict=True)))
    transport = fd.InMemory(guest_of(split, X))
    host = fd.Host(split.host, frame, {"shop": transport}, names(50))
    found = host(frame, progress=False)
    assert found.feature_names == ("age", "pay", "rooms", "years", "shop")
    np.testing.assert_allclose(found.values, in_process(split, X, X).values, **EQUAL)


@pytest.mark.parametrize(("N", "batch"), [(40, 256), (200, 64), (100, 101), (100, 50), (127, 8)])
def test_n_plus_1_vectors_in_few_messages(N: int, batch: int) -> None:
    split, X = logistic(), table()
    asked: list[int] = []

    def counting(rows: np.ndarray) -> np.ndarray:
        asked.append(len(rows))
        return split.parts["shop"].answers(rows)

    part = fd.FunctionPart(counting, columns=3, release=split.host.release)
    guest = fd.Guest(X[:, GUEST], names(len(X)), part, policy=fd.Policy(fewest=1))
    transport = Watched(fd.InMemory(guest))
    host = host_of(split, X, transport, batch=batch)
    found = host(X[:N, HOST], names(N), progress=False)
    assert sum(asked) == N + 1 == found.stats["rows_asked"]
    assert len(transport.log) <= math.ceil((N + 1) / batch) + 2
    assert len(transport.log) == found.stats["messages"]
    assert max(asked) <= batch and max(asked) - min(asked) <= 1


def test_nothing_is_asked_twice() -> None:
    split, X = logistic(), table()
    transport = Watched(fd.InMemory(guest_of(split, X)))
    host = host_of(split, X, transport)
    first = host(X[:50, HOST], names(50), progress=False)
    said = len(transport.log)
    again = host(X[:50, HOST], names(50), progress=False)
    assert len(transport.log) == said and again.stats["rows_asked"] == 0
    np.testing.assert_array_equal(first.values, again.values)
    more = host(X[:60, HOST], names(60), progress=False)
    assert more.stats["rows_asked"] == 10
    host.forget()
    assert host(X[:60, HOST], names(60), progress=False).stats["rows_asked"] == 61


def test_rows_are_told_apart_by_identifier_and_not_by_place() -> None:
    split, X = logistic(), table()
    guest = guest_of(split, X)
    host = host_of(split, X, fd.InMemory(guest))
    order = np.random.default_rng(1).permutation(len(X))
    mixed = host(X[order][:, HOST], [names(len(X))[i] for i in order], progress=False)
    plain = host_of(split, X, fd.InMemory(guest))(X[:, HOST], progress=False)
    np.testing.assert_array_equal(mixed.values, plain.values[order])


def test_numbers_and_texts_name_the_same_row() -> None:
    split, X = logistic(), table(20)
    policy = fd.Policy(fewest=1)
    guest = fd.Guest(X[:, GUEST], [str(i) for i in range(20)], split.parts["shop"], policy=policy)
    host = host_of(split, X, fd.InMemory(guest), identifiers=range(20))
    np.testing.assert_allclose(
        host(X[:, HOST], progress=False).values, in_process(split, X, X).values, **EQUAL
    )


@pytest.mark.slow
def test_lengths_depend_neither_on_the_coalitions_nor_on_the_hosts_columns() -> None:
    """What a guest can see: methods, lengths and their order."""
    lengths = []
    for seed, width in ((0, 8), (1, 8), (2, 12)):
        rng = np.random.default_rng(seed)
        columns = width + 3
        split = fd.split_logistic(rng.normal(size=columns), 0.0, {"shop": [0, 1, 2]})
        X = rng.normal(size=(120, columns))
        guest = fd.Guest(X[:, :3], names(120), split.parts["shop"], policy=fd.Policy(fewest=1))
        transport = Watched(fd.InMemory(guest))
        host = fd.Host(
            split.host,
            X[:, 3:],
            {"shop": transport},
            names(120),
            estimator="permutation",
            budget=64 + 32 * seed,
            seed=seed,
            batch=32,
        )
        host(X[:, 3:], progress=False)
        lengths.append(transport.lengths)
    assert len(lengths[0]) == 2 + 4
    assert lengths[0] == lengths[1] == lengths[2]


def test_the_guest_hears_nothing_that_depends_on_the_seed() -> None:
    """Everything is sent before the first coalition is drawn."""
    split, X = logistic(), table(40)
    heard: list[list[str]] = []
    for seed in (0, 1):
        transport = Watched(fd.InMemory(guest_of(split, X)))
        order: list[str] = []
        model = split.host.model

        def watching(rows: np.ndarray, model=model, transport=transport, order=order) -> np.ndarray:
            order.append(f"model after {len(transport.log)}")
            return model.predict(rows)

        watched = xj.as_model(watching, backend="host")
        remote = fd.SplitModel(watched, 4, {"shop": 1}, release=split.host.release)
        host = fd.Host(
            remote,
            X[:, HOST],
            {"shop": transport},
            names(40),
            seed=seed,
            estimator="permutation",
            budget=20,
        )
        host(X[:, HOST], progress=False)
        heard.append(sorted(set(order)))
    assert heard == [["model after 3"]] * 2


def test_canaries_are_nowhere_in_the_messages() -> None:
    """Values, identifiers and coalitions, in all forms in which they could travel."""
    split, X = logistic(), table(64)
    host_canary, guest_canary = 1234.56789, 98765.4321
    X[7, HOST[1]], X[7, GUEST[1]] = host_canary, guest_canary
    transport = Watched(fd.InMemory(guest_of(split, X)))
    host = host_of(split, X, transport)
    host(X[:, HOST], progress=False)
    said = transport.said
    for value in (host_canary, guest_canary):
        for dtype in ("<f8", ">f8", "<f4", ">f4"):
            assert np.array([value], dtype).tobytes() not in said
        assert repr(value).encode() not in said
    for one in names(64):
        assert one.encode() not in said and one[-5:].encode() not in said
    for start in range(60):  # nor a bit set of all coalitions
        masks = np.arange(start, start + 4)
        assert all(masks.astype(kind).tobytes() not in said for kind in ("<i4", "<i8", "<f8"))
    # The search finds what is there: the answers themselves.
    answer = split.parts["shop"].answers(X[:1, GUEST])
    assert answer.astype("<f8").tobytes() in said


def test_tokens_of_two_sessions_have_nothing_in_common() -> None:
    split, X = logistic(), table(30)
    guest = guest_of(split, X)
    found = []
    for _ in range(2):
        transport = Watched(fd.InMemory(guest))
        host_of(split, X, transport)(X[:, HOST], progress=False)
        data = [request for method, request, _ in transport.log if method == "Answer"]
        tokens = decode("AnswerRequest", data[0]).tokens
        found.append({tokens[i : i + 32] for i in range(0, len(tokens), 32)})
        assert len(found[-1]) == 31  # the special one among them, like the others
    assert not found[0] & found[1]


def test_the_messages_are_those_of_the_proto_file(tmp_path) -> None:
    """`wire.proto`, compiled, is what `messages.py` reads in it."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    from google.protobuf import descriptor_pb2  # noqa: PLC0415

    folder = parties.ROOT / "xaijax" / "federated" / "wire"
    out = tmp_path / "wire.binpb"
    arguments = ["", f"--proto_path={folder}", f"--descriptor_set_out={out}", "wire.proto"]
    assert protoc.main(arguments) == 0
    compiled = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]
    for message in compiled.message_type:
        for one in message.field:
            one.ClearField("json_name")
    assert compiled == file_descriptor()
    assert set(METHODS) == {m.name[:-7] for m in compiled.message_type if m.name[-7:] == "Request"}


def test_the_same_fields_give_the_same_bytes() -> None:
    fields = {"session": b"s" * 16, "number": 3, "tokens": b"t" * 64}
    assert encode("AnswerRequest", **fields) == encode("AnswerRequest", **fields)
    assert decode("AnswerRequest", encode("AnswerRequest", **fields)).tokens == b"t" * 64
