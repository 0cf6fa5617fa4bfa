"""Whose part it is, of which release, and its columns: what is exchanged is refused before answers.

The model is a logistic regression explained by its log odds, so that by definition the value of a
player is the sum over its columns of coefficient x (entry - median).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from parties import SECRET, Watched, names

import xaijax as xj
from xaijax import federated as fd
from xaijax.commands import cli
from xaijax.federated.wire.messages import decode

pytest.importorskip("google.protobuf", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")

N = 30
COLUMNS = ["age", "a1", "a2", "a3", "b1", "b2", "b3", "pay"]
PLACES = {"a": [1, 2, 3], "b": [4, 5, 6]}
HOST = [0, 7]
C = np.array([0.5, -1.0, 0.25, 2.0, -0.75, 0.5, 1.0, -0.3])
X = np.random.default_rng(0).normal(size=(N, 8))
FRAME = pd.DataFrame(X, columns=COLUMNS)
ANSWERING = fd.Policy(fewest=1)
# Sums of float32 numbers below 8: 8 roundings of 8 x 6e-8, and a logit of a sigmoid, whose slope
# 1 / (p (1 - p)) is below 1e3 for log odds below 7.
EQUAL = {"rtol": 0, "atol": 5e-4}


def split_of(named: bool = True) -> fd.PartySplit:
    return fd.split_logistic(C, 0.1, PLACES, COLUMNS if named else None)


def guests_of(split: fd.PartySplit, **options) -> dict[str, fd.Guest]:
    return {
        name: fd.Guest(X[:, own], names(N), split.parts[name], policy=ANSWERING, **options)
        for name, own in PLACES.items()
    }


def host_of(split: fd.PartySplit, transports, background: Any = X[:, HOST], **options) -> fd.Host:
    return fd.Host(split.host, background, transports, names(N), link="logit", **options)


def by_definition() -> np.ndarray:
    terms = C * (X - np.median(X, axis=0))
    return np.stack([*terms[:, HOST].T, *(terms[:, own].sum(axis=1) for own in PLACES.values())], 1)


def answered(*guests: fd.Guest) -> int:
    return sum(one["event"] == "answer" for guest in guests for one in guest.audit.entries)


@contextlib.contextmanager
def reached(kind: str, guests: dict[str, fd.Guest], folder: Path) -> Iterator[dict]:
    """Transports to the guests, in memory or by TLS."""
    if kind == "memory":
        yield {name: fd.InMemory(guest) for name, guest in guests.items()}
        return
    pytest.importorskip("grpc", reason="needs the extra [federated]")
    tls = fd.make_certificates(folder, ["bank", *guests])
    servers = {name: fd.serve(guest, "localhost:0", tls[name]) for name, guest in guests.items()}
    found = {name: fd.Connection(one.address, tls["bank"]) for name, one in servers.items()}
    try:
        yield found
    finally:
        for one in found.values():
            one.close()
        for server in servers.values():
            server.stop()


@pytest.mark.parametrize("kind", ["memory", "tls"])
def test_guests_that_are_exchanged_or_doubled_are_refused(kind: str, tmp_path: Path) -> None:
    split = split_of()
    guests = guests_of(split)
    with reached(kind, guests, tmp_path) as to:
        for given in (
            {"a": to["b"], "b": to["a"]},
            {"a": to["a"], "b": to["a"]},
            {"a": to["b"], "b": to["b"]},
        ):
            with pytest.raises(xj.FederatedProtocolError, match=r"party: this guest is '[ab]'"):
                host_of(split, given)(X[:, HOST], progress=False)
        assert answered(*guests.values()) == 0  # not even the guest that is the right one
        found = host_of(split, to)(X[:, HOST], progress=False)
    np.testing.assert_allclose(found.values, by_definition(), **EQUAL)


@pytest.mark.parametrize("kind", ["memory", "tls"])
def test_a_part_of_another_release_is_refused(kind: str, tmp_path: Path) -> None:
    """Both are version "1", and have the same party, columns and width."""
    split, other = split_of(), split_of()
    guests = guests_of(split) | {"b": guests_of(other)["b"]}
    with (
        reached(kind, guests, tmp_path) as to,
        pytest.raises(xj.FederatedProtocolError, match="release: .*files of one split"),
    ):
        host_of(split, to)(X[:, HOST], progress=False)
    assert answered(*guests.values()) == 0


def test_parts_made_by_hand() -> None:
    """They have no release, and a name where the guest says one."""
    split = split_of()
    host = fd.SplitModel(split.host.model, 2, {"a": 1, "b": 1})
    hand = {n: fd.Part("linear", {"weights": C[own]}) for n, own in PLACES.items()}

    def explained(model: fd.SplitModel, **party: str | None) -> xj.Explanation:
        guests = {
            name: fd.Guest(X[:, PLACES[part]], names(N), hand[part], policy=ANSWERING, party=said)
            for (name, said), part in zip(party.items(), parts, strict=True)
        }
        to = {name: fd.InMemory(one) for name, one in guests.items()}
        one = fd.Host(model, X[:, HOST], to, names(N), link="logit")
        try:
            return one(X[:, HOST], progress=False)
        finally:
            held.extend(guests.values())

    held: list[fd.Guest] = []
    parts = ["a", "b"]
    np.testing.assert_allclose(explained(host, a="a", b="b").values, by_definition(), **EQUAL)
    held.clear()
    parts = ["b", "a"]
    with pytest.raises(xj.FederatedProtocolError, match="party: this guest is 'b'"):
        explained(host, a="b", b="a")
    with pytest.raises(xj.FederatedProtocolError, match="does not say which party .*party='a'"):
        explained(host, a=None, b=None)
    parts = ["a", "b"]
    with pytest.raises(xj.FederatedProtocolError, match="says no release.* FunctionPart say"):
        explained(split.host, a="a", b="b")
    guest = guests_of(split)
    with pytest.raises(xj.FederatedProtocolError, match=r"host's side says no release.*SplitModel"):
        to = {name: fd.InMemory(one) for name, one in guest.items()}
        fd.Host(host, X[:, HOST], to, names(N))(X[:, HOST], progress=False)
    assert answered(*held) == 0


def test_one_guest_under_two_names_is_found_by_its_fingerprint() -> None:
    """Where a name is not said by the guest but by what lies between, say."""
    split = split_of()
    guest = fd.Guest(X[:, [1, 2, 3]], names(N), fd.Part("linear", {"weights": C[1:4]}))

    class Renamed:
        """Lets the guest answer to any name."""

        def __init__(self, name: str) -> None:
            self.name = name

        def call(self, method: str, data: bytes, deadline: float) -> bytes:
            guest._party = self.name
            return guest.handle(method, ("host",), data)

        def close(self) -> None: ...

    model = fd.SplitModel(split.host.model, 2, {"a": 1, "b": 1})
    host = fd.Host(model, X[:, HOST], {n: Renamed(n) for n in "ab"}, names(N))
    with pytest.raises(xj.FederatedProtocolError, match="'a' and 'b' are one and the same party"):
        host(X[:, HOST], progress=False)
    assert answered(guest) == 0 and host._answers["a"].facts is None


def test_guests_exchanged_at_an_arbiter_too() -> None:
    """On both sides, so that sessions do not show it."""
    policy = fd.Policy(fewest=1, arbiter="arbiter")
    model = xj.as_model(lambda rows: rows @ C, backend="host")

    def explained(order: str, said: str) -> xj.Explanation:
        guests = {
            name: fd.Guest(X[:, PLACES[own]], names(N), None, policy=policy, party=party)
            for name, own, party in zip("ab", order, said, strict=True)
        }
        rows = {name: fd.InMemory(one, "arbiter") for name, one in guests.items()}
        arbiter = fd.Arbiter(model, 8, PLACES, rows)
        to = {name: fd.InMemory(one) for name, one in guests.items()}
        host = fd.Host(None, X[:, HOST], to, names(N), arbiter=fd.InMemory(arbiter))
        return host(X[:, HOST], progress=False)

    np.testing.assert_allclose(explained("ab", "ab").values, by_definition(), rtol=0, atol=1e-12)
    with pytest.raises(xj.FederatedProtocolError, match="party: this guest is 'b'"):
        explained("ba", "ba")


def test_kept_answers_of_another_release_are_not_used(tmp_path: Path) -> None:
    split, other = split_of(), split_of()
    to = {name: fd.InMemory(one) for name, one in guests_of(split).items()}
    host_of(split, to, answers=tmp_path)(X[:, HOST], progress=False)
    again = host_of(split, to, answers=tmp_path)(X[:, HOST], progress=False)
    assert again.stats["rows_asked"] == 0
    with pytest.raises(xj.FederatedProtocolError, match="kept answers are of another release"):
        host_of(other, to, answers=tmp_path)(X[:, HOST], progress=False)


# --- columns by name -------------------------------------------------------------------------


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_read_by_name(library: str) -> None:
    frames = pytest.importorskip(library)
    split, mixed = split_of(), ["pay", "age"]

    def frame(columns: list[str]):
        return frames.DataFrame({name: FRAME[name].to_numpy() for name in columns})

    guests = {
        name: fd.Guest(frame(order), names(N), split.parts[name], policy=ANSWERING)
        for name, order in (("a", ["a3", "a1", "a2"]), ("b", ["b2", "b1", "b3"]))
    }
    to = {name: fd.InMemory(one) for name, one in guests.items()}
    host = host_of(split, to, frame(mixed))
    for columns in (mixed, ["age", "pay"]):
        found = host(frame(columns), progress=False)
        np.testing.assert_allclose(found.values, by_definition(), **EQUAL)
        assert found.feature_names == ("age", "pay", "a", "b")
        np.testing.assert_array_equal(found.data.to_numpy(), X[:, HOST])
    named = host_of(split, to)(X[:, HOST], progress=False)  # arrays have the names of the model
    assert named.feature_names == ("age", "pay", "a", "b")
    for columns in (["age"], ["age", "a1"], ["age", "pay", "a1"]):
        with pytest.raises(xj.InputError, match="background has other columns than the model's"):
            host_of(split, to, frame(columns))
        with pytest.raises(xj.InputError, match="X has other columns than the model's host side"):
            host(frame(columns), progress=False)
    for columns in (["a1", "a2", "b1"], ["a1", "a2", "a3", "pay"]):
        part = split.parts["a"]
        with pytest.raises(xj.InputError, match=r"other columns than the part|columns, but rows"):
            fd.Guest(frame(columns), names(N), part)


def test_references_are_read_by_name_too() -> None:
    split = split_of()
    zero = pd.Series([3.0, 1.0, 2.0], index=["a3", "a1", "a2"])
    mixed = FRAME[["a2", "a3", "a1"]]
    part = split.parts["a"]
    off = []
    given: list[tuple[Any, Any, dict[str, Any]]] = [
        (FRAME[["a1", "a2", "a3"]], [1.0, 2.0, 3.0], {}),
        (mixed, zero, {}),
        (mixed, [2.0, 3.0, 1.0], {}),  # numbers are in the order of the rows
        (mixed.to_numpy(), [2.0, 3.0, 1.0], {"feature_names": ["a2", "a3", "a1"]}),
    ]
    for rows, reference, more in given:
        guest = fd.Guest(rows, names(N), part, reference=reference, policy=ANSWERING, **more)
        off.append(guest._reference)
        np.testing.assert_array_equal(off[-1], [1.0, 2.0, 3.0])
    own = pd.Series([5.0, 4.0], index=["pay", "age"])
    host = host_of(split, {n: fd.InMemory(g) for n, g in guests_of(split).items()},
                   FRAME[["pay", "age"]], reference=own)  # fmt: skip
    np.testing.assert_array_equal(host._row.to_numpy()[0], [4.0, 5.0])


def test_columns_in_another_order_are_the_same_guest() -> None:
    """The fingerprint and the noise go by columns, not by their places."""
    part = split_of().parts["a"]
    policy = fd.Policy(fewest=1, epsilon=1.0, bounds=(-4, 4))
    told = []
    for order in (["a1", "a2", "a3"], ["a3", "a1", "a2"]):
        guest = fd.Guest(FRAME[order], names(N), part, policy=policy, secret=SECRET)
        told.append(guest._answers(part, "1", np.arange(-1, N)))
        told.append(guest._state(part, "1"))
    np.testing.assert_array_equal(told[0], told[2])
    assert told[1] == told[3]


def test_versions_may_name_columns_in_their_own_order() -> None:
    split = split_of()
    one = split.parts["a"]
    turned = fd.Part("linear", {"weights": C[[3, 1, 2]]}, feature_names=["a3", "a1", "a2"])
    plain = fd.Part("linear", {"weights": C[[2, 3, 1]]})  # no names: the order of the rows
    parts = {"1": one, "2": turned, "3": plain}
    guest = fd.Guest(FRAME[["a2", "a3", "a1"]], names(N), parts, policy=ANSWERING)
    places = np.arange(N)
    for version, part in parts.items():
        found = guest._answers(part, version, places)[:, 0]
        np.testing.assert_allclose(found, X[:, 1:4] @ C[1:4], rtol=0, atol=1e-14)  # 3 products
    with pytest.raises(xj.InputError, match="in different orders. Give a frame"):
        fd.Guest(X[:, 1:4], names(N), {"1": one, "2": turned})


@pytest.mark.parametrize(
    "maker", ["trees", "neighbours", pytest.param("network", marks=pytest.mark.slow)]
)
def test_every_maker_takes_names(maker: str) -> None:
    y = X[:, 0] > 0
    options = {"trees": {"rounds": 1}, "network": {"steps": 1}, "neighbours": {}}[maker]
    make = getattr(fd, f"split_{maker}")
    guests = {"a": ["a1", "a2", "a3"], "b": [4, 5, 6]}
    for rows, more in ((X, {"feature_names": COLUMNS}), (FRAME, {})):
        split = make(rows, y, guests, **options, **more)
        assert split.parts["a"].feature_names == ("a1", "a2", "a3")
        assert split.host.feature_names == ("age", "pay")
        assert split.joint.feature_names == tuple(COLUMNS)
        releases = {part.release for part in split.parts.values()} | {split.host.release}
        assert len(releases) == 1 and [p.party for p in split.parts.values()] == ["a", "b"]
    assert make(X, y, PLACES, **options).parts["a"].feature_names is None
    with pytest.raises(xj.InputError, match="rows has other columns than feature_names"):
        make(FRAME, y, guests, **options, feature_names=[*COLUMNS[:-1], "x"])


BAD = {
    "too few names": ({"feature_names": ["a"]}, "1 names for 3 columns"),
    "a name twice": ({"feature_names": ["a", "a", "b"]}, "more than once"),
    "names that are numbers": ({"feature_names": [1, 2, 3]}, "must be texts"),
    "a party that is none": ({"party": 3}, "party must be a text"),
    "an empty party": ({"party": ""}, "1 to 100"),
    "a release that is none": ({"release": b"r"}, "release must be a text"),
    "a release too long": ({"release": "r" * 101}, "101 characters"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_a_part_cannot_say_of_itself(name: str) -> None:
    given, words = BAD[name]
    for make in (
        lambda: fd.Part("linear", {"weights": np.ones(3)}, **given),
        lambda: fd.FunctionPart(len, 3, **given),
    ):
        with pytest.raises((xj.InputError, xj.InputTypeError), match=words):
            make()


def test_guests_whose_parts_are_anothers() -> None:
    split = split_of()
    with pytest.raises(xj.InputError, match="part of 'a', this guest is 'b'"):
        fd.Guest(X[:, 1:4], names(N), split.parts["a"], party="b")
    with pytest.raises(xj.InputError, match="part of 'b', this guest is 'a'"):
        fd.Guest(X[:, 1:4], names(N), {"1": split.parts["a"], "2": split.parts["b"]})


# --- what it reveals -------------------------------------------------------------------------


def test_files_hold_names_and_nothing_of_others(tmp_path: Path) -> None:
    split = split_of()
    split.parts["a"].save(tmp_path / "a.npz")
    split.host.save(tmp_path / "host.npz")
    part, host = fd.load_part(tmp_path / "a.npz"), fd.load_split(tmp_path / "host.npz")
    assert (part.party, part.feature_names) == ("a", ("a1", "a2", "a3"))
    assert host.feature_names == ("age", "pay") and part.release == host.release is not None
    data = {name: (tmp_path / f"{name}.npz").read_bytes() for name in ("a", "host")}
    for name, own in (("a", [1, 2, 3]), ("host", HOST)):
        for place, weight in enumerate(C):
            assert (weight.tobytes() in data[name]) == (weight in C[own])
            assert (f'"{COLUMNS[place]}"'.encode() in data[name]) == (place in own)


def test_a_release_is_random_and_says_nothing_of_the_weights() -> None:
    """A digest of them could be tried out by whoever knows all but a few."""
    releases = [split_of().parts["a"].release for _ in range(3)]
    assert len(set(releases)) == 3 and all(
        re.fullmatch("[0-9a-f]{32}", str(one)) for one in releases
    )


def test_column_names_do_not_travel() -> None:
    split = fd.split_logistic(C, 0.1, PLACES, [f"canary-{name}" for name in COLUMNS])
    to = {name: Watched(fd.InMemory(one)) for name, one in guests_of(split).items()}
    host_of(split, to)(X[:, HOST], progress=False)
    said = b"".join(one.said for one in to.values())
    assert b"canary" not in said
    (request,) = [request for method, request, _ in to["a"].log if method == "Open"]
    assert decode("OpenRequest", request).release == split.host.release  # the search finds it


# --- the command line ------------------------------------------------------------------------


def test_the_command_line_reads_by_name_and_refuses_exchanged_addresses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("grpc", reason="needs the extra [federated]")
    from xaijax.federated.command_line import commands  # noqa: PLC0415

    split, tls = split_of(), fd.make_certificates(tmp_path, ["bank", "a", "b"])
    split.host.save(tmp_path / "host.npz")
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "common.txt").write_text("\n".join(names(N)))

    def written(name: str, columns: list[str]) -> None:
        table = FRAME[columns].copy()
        table.insert(1, "customer", names(N))
        table.to_csv(tmp_path / name, index=False)

    def section(name: str) -> str:
        return f'[tls]\nauthority = "authority.pem"\ncertificate = "{name}.pem"\nkey = "{name}.key"'

    guests = {}
    for name, order in (("a", ["a2", "a3", "a1"]), ("b", ["b3", "b1", "b2"])):
        written(f"{name}.csv", order)
        split.parts[name].save(tmp_path / f"{name}.npz")
        (tmp_path / f"{name}.toml").write_text(
            f'address = "localhost:0"\nrows = "{name}.csv"\nidentifier = "customer"\n'
            f'secret = "secret"\nstate = "state-{name}"\n[parts]\n"1" = "{name}.npz"\n'
            f"[policy]\nfewest = 1\n{section(name)}\n"
        )
        accepted = (*commands.GUEST, "policy", "tls")
        settings = commands.read_settings(tmp_path / f"{name}.toml", accepted)
        guests[name] = commands.guest_of(settings)
    written("background.csv", ["pay", "age"])
    written("people.csv", ["age", "pay"])
    written("mixed.csv", ["pay", "age"])
    written("other.csv", ["pay", "a1"])
    servers = {name: fd.serve(guest, "localhost:0", tls[name]) for name, guest in guests.items()}
    try:
        for order, rows, status, words in (
            ("ba", "people.csv", 1, "party: this guest is"),
            ("aa", "people.csv", 1, "party: this guest is"),
            ("ab", "other.csv", 1, "other columns than the model's host side"),
            ("ab", "people.csv", 0, ""),
            ("ab", "mixed.csv", 0, ""),
        ):
            said = "\n".join(
                f'{name} = "{servers[to].address}"' for name, to in zip("ab", order, strict=True)
            )
            (tmp_path / "host.toml").write_text(
                'model = "host.npz"\nbackground = "background.csv"\nidentifier = "customer"\n'
                f'identifiers = "common.txt"\nlink = "logit"\n[guests]\n{said}\n{section("bank")}\n'
            )
            out = tmp_path / f"{order}-{rows}.npz"
            command = ["host", "explain", "--config", tmp_path / "host.toml"]
            command += ["--rows", tmp_path / rows, "--out", out]
            assert cli.main([str(one) for one in command]) == status
            assert words in capsys.readouterr().err
            assert out.exists() == (status == 0)
            if status == 0:
                found = xj.load(out)
                np.testing.assert_allclose(found.values, by_definition(), **EQUAL)
                assert found.feature_names == ("age", "pay", "a", "b")
    finally:
        for server in servers.values():
            server.stop()
        for guest in guests.values():
            guest.close()
    written("a.csv", ["a1", "a2", "b1"])
    assert cli.main(["guest", "serve", "--config", str(tmp_path / "a.toml")]) == 1
    assert "other columns than the part" in capsys.readouterr().err
