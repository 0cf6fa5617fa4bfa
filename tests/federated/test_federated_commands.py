"""The command line of parties: files, what is refused, what is said, and what is never said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from parties import GUEST, HOST, SECRET, guest_folder, logistic, names, process, table, write_csv
from repository import ROOT

import xaijax as xj
from xaijax import federated as fd
from xaijax.commands import cli
from xaijax.federated.command_line import commands
from xaijax.federated.command_line import commands as configuration
from xaijax.federated.command_line.commands import read_settings, read_table
from xaijax.federated.guest.sessions import LIFETIME, MOST_SESSIONS, Session, Sessions
from xaijax.federated.wire import party
from xaijax.federated.wire.tokens import SessionKey

pytest.importorskip("grpc", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")

SPLIT, X = logistic(), table(30)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fd.Tls]:
    return fd.make_certificates(tmp_path_factory.mktemp("tls"), ["host", "shop"])


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What a command that is refused says, in one line."""
    assert cli.main([str(one) for one in arguments]) == 1
    said = capsys.readouterr().err
    assert said.startswith("xaijax: error: ") and said.count("\n") == 1
    return said


def test_keys_are_for_the_owner_only(tls: dict[str, fd.Tls]) -> None:
    for one in tls.values():
        assert Path(one.key).stat().st_mode & 0o777 == 0o600


def test_keys_that_are_made_anew_are_too(tmp_path: Path) -> None:
    (tmp_path / "host.key").write_text("an older one")
    (tmp_path / "host.key").chmod(0o644)
    key = fd.make_certificates(tmp_path, ["host"])["host"].key
    assert Path(key).stat().st_mode & 0o777 == 0o600


def test_a_secret_is_made_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "secret"
    assert cli.main(["guest", "secret", str(file)]) == 0
    secret = file.read_bytes()
    assert len(secret) == 32 and file.stat().st_mode & 0o777 == 0o600
    assert "cannot be made" in told(capsys, "guest", "secret", file)
    assert file.read_bytes() == secret
    assert cli.main(["guest", "secret", str(tmp_path / "other")]) == 0
    assert (tmp_path / "other").read_bytes() != secret


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ("fewest = 1", "fewset = 1", "policy.fewset is not known; accepted: fewest"),
        ("fewest = 1", "fewest = 0", "fewest must be at least 1"),
        ("address =", "adress =", "adress is not known"),
        ('identifier = "customer"', "", "identifier is missing"),
        ('identifier = "customer"', 'identifier = "name"', "has no column 'name'"),
        ('rows = "rows.csv"', 'rows = "none.csv"', "cannot be read as CSV"),
        ('rows = "rows.csv"', "rows = 3", "rows must be a file's name"),
        ('secret = "secret"', 'secret = "none"', "xaijax guest secret FILE"),
        ('"part.npz"', '"rows.csv"', "a file that save() wrote"),
        ("fewest = 1", "hosts = 3", "hosts must be a list"),
        ('state = "state"', 'state = "rows.csv"', "rows.csv"),  # a file, where a folder belongs
        ("[tls]", "[tsl]", "tsl is not known"),
        ("[policy]", "[policy", "cannot be read"),
        ('authority = "', 'authority = "/none', "authority"),
        ('"localhost:0"', '"localhost"', "host:port"),
        ('"localhost:0"', '"192.0.2.1:7443"', "cannot be listened at"),  # nobody's address
    ],
)
def test_guest_files_that_are_refused(
    was: str, now: str, words: str, tls: dict[str, fd.Tls], tmp_path: Path, capsys
) -> None:
    config = guest_folder(tmp_path, SPLIT, X, tls["shop"])
    text = config.read_text()
    assert was in text
    config.write_text(text.replace(was, now))
    assert words in told(capsys, "guest", "serve", "--config", config)


def test_entries_that_are_no_numbers_are_not_repeated(tmp_path: Path) -> None:
    write_csv(tmp_path / "rows.csv", X[:3, :2], ["a", "b"], names(3))
    good = (tmp_path / "rows.csv").read_text()
    ids, columns, rows = read_table(tmp_path / "rows.csv", "customer")
    assert ids == names(3) and columns == ["a", "b"]
    np.testing.assert_array_equal(rows, X[:3, :2])
    for bad, words in (("canary", "line 3: the entry of 'a' is no number"), ("1,2", "4 entries")):
        lines = good.splitlines()
        lines[2] = f"{names(3)[1]},{bad},1.0"
        (tmp_path / "rows.csv").write_text("\n".join(lines))
        with pytest.raises(xj.InputError, match=words) as raised:
            read_table(tmp_path / "rows.csv", "customer")
        assert "canary" not in str(raised.value) and names(3)[1] not in str(raised.value)


def test_host_files_that_are_refused(tls: dict[str, fd.Tls], tmp_path: Path, capsys) -> None:
    write_csv(tmp_path / "rows.csv", X[:, HOST], list("abcd"), names(30))
    write_csv(tmp_path / "wide.csv", X, list("abcdefg"), names(30))
    write_csv(tmp_path / "mixed.csv", X[:, HOST], list("abdc"), names(30))
    SPLIT.host.save(tmp_path / "host.npz")
    (tmp_path / "ids").write_text("\n".join(names(30)))
    own = tls["host"]
    good = (
        'model = "host.npz"\nbackground = "rows.csv"\nidentifier = "customer"\n'
        'identifiers = "ids"\n[guests]\nshop = "localhost:1"\n[tls]\n'
        f'authority = "{own.authority}"\ncertificate = "{own.certificate}"\nkey = "{own.key}"\n'
    )
    config = tmp_path / "host.toml"
    for was, now, words in (
        ("", "", "is lost"),  # all is well, but nobody listens there
        ('"host.npz"', '"rows.csv"', "model: "),
        ('background = "rows.csv"', 'background = "wide.csv"', "7 columns besides the identifier"),
        ('identifiers = "ids"', 'identifiers = "none"', "identifiers: "),
        ("shop =", "bank =", "those of the model"),
        ("[guests]", "batch = 1\n[guests]", "batch must be at least 2"),
        ("[guests]", "nsamples = 1\n[guests]", "nsamples is not known"),
        (
            'background = "rows.csv"',
            'background = "mixed.csv"',
            "in the same order",
        ),  # else values of other columns
    ):
        config.write_text(good.replace(was, now) if was else good)
        out = ("--rows", tmp_path / "rows.csv", "--out", tmp_path / "out.npz")
        assert words in told(capsys, "host", "explain", "--config", config, *out)
    assert not (tmp_path / "out.npz").exists()
    out = ("--rows", tmp_path / "rows.csv", "--out", tmp_path / "none" / "out.npz")
    assert "out: the folder" in told(capsys, "host", "explain", "--config", config, *out)


@pytest.mark.parametrize(
    ("guests", "words"),
    [
        ('guests = "shop"', "guests must be sections"),
        ('[guests.shop]\naddress = "localhost:1"', "guests.shop.columns is missing"),
        ("[guests]\nshop = 3", "guests.shop must be a section"),
    ],
)
def test_arbiter_files_that_are_refused(
    guests: str, words: str, tls: dict[str, fd.Tls], tmp_path: Path, capsys
) -> None:
    own = tls["host"]
    (tmp_path / "arbiter.toml").write_text(
        f'address = "localhost:0"\nmodel = "numpy:sum"\ncolumns = 7\n{guests}\n[tls]\n'
        f'authority = "{own.authority}"\ncertificate = "{own.certificate}"\nkey = "{own.key}"\n'
    )
    assert words in told(capsys, "arbiter", "serve", "--config", tmp_path / "arbiter.toml")


@pytest.mark.slow
def test_the_files_in_the_docs_are_accepted(tls: dict[str, fd.Tls], tmp_path: Path) -> None:
    """guest.toml and host.toml as docs/federated.md has them, with trial certificates."""
    text = (ROOT / "docs" / "federated.md").read_text("utf-8")
    for block in text.split("```toml\n")[1:]:
        name, body = block.split("```")[0].split(".toml", 1)
        (tmp_path / f"{name.strip('# ')}.toml").write_text("#" + body)
    for name, own in (("shop", tls["shop"]), ("bank", tls["host"])):
        for file, ending in ((own.certificate, "pem"), (own.key, "key")):
            (tmp_path / f"{name}.{ending}").write_bytes(Path(file).read_bytes())
        (tmp_path / "authority.pem").write_bytes(Path(own.authority).read_bytes())
    write_csv(tmp_path / "rows.csv", X[:, GUEST], list("abc"), names(30))
    write_csv(tmp_path / "background.csv", X[:, HOST], list("abcd"), names(30))
    (tmp_path / "common.txt").write_text("\n".join(names(20)) + "\n")
    (tmp_path / "guest.secret").write_bytes(SECRET)
    SPLIT.parts["shop"].save(tmp_path / "part.npz")
    SPLIT.host.save(tmp_path / "host.npz")
    guest_settings = read_settings(tmp_path / "guest.toml", (*commands.GUEST, "policy", "tls"))
    guest, _ = configuration.guest_of(guest_settings), guest_settings.tls()
    assert guest.policy == fd.Policy(fewest=10, most_queries=20, hosts=["bank.example"])
    accepted = (*commands.HOST, *configuration.HOST_OPTIONS, "tls")
    host = configuration.host_of(read_settings(tmp_path / "host.toml", accepted))
    host._conversations["shop"].transport = fd.InMemory(guest, "bank.example")
    assert host(X[:20, HOST], progress=False).values.shape == (20, 5)
    guest.close()


@pytest.mark.slow
def test_what_a_guests_process_says(tls: dict[str, fd.Tls], tmp_path: Path) -> None:
    """Answers and refusals, then a polite end: nothing of the rows is on the screen or logged."""
    config = guest_folder(tmp_path, SPLIT, X, tls["shop"], "fewest = 20")
    with process("guest", "serve", "--config", config) as (guest, address):
        connection = fd.Connection(address, tls["host"])
        host = fd.Host(SPLIT.host, X[:, HOST], {"shop": connection}, names(30))
        host(X[:, HOST], progress=False)
        host.forget()
        with pytest.raises(xj.FederatedPolicyError):
            host(X[:5, HOST], names(30)[:5], progress=False)
        connection.close()
        guest.terminate()
        out, err = guest.communicate(timeout=60)
        assert guest.returncode == 0
    state = b"".join(path.read_bytes() for path in (tmp_path / "state").iterdir())
    said = (out + err).encode() + state
    assert not any(one.encode() in said for one in names(30))
    assert not any(repr(float(value)).encode() in said for value in X.ravel())
    assert not any(value.tobytes() in said for value in X.ravel())
    assert SECRET not in said and "Traceback" not in err
    command = [sys.executable, "-m", "xaijax", "guest", "audit", "--config", str(config)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    count, head = fd.verify_audit(tmp_path / "state" / "audit.jsonl", SECRET)
    assert done.stdout == f"{count} entries, head {head}\n"


def test_an_audit_of_what_never_ran(tls: dict[str, fd.Tls], tmp_path: Path, capsys) -> None:
    config = guest_folder(tmp_path, SPLIT, X, tls["shop"])
    assert "not been served yet" in told(capsys, "guest", "audit", "--config", config)


@pytest.mark.parametrize("module", ["grpc", "google.protobuf.descriptor_pb2"])
def test_a_missing_extra_is_named(
    module: str, tls: dict[str, fd.Tls], monkeypatch: pytest.MonkeyPatch
) -> None:
    from xaijax.federated.wire import messages  # noqa: PLC0415

    messages._classes.cache_clear()
    messages.file_descriptor.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    host = fd.Host(
        SPLIT.host, X[:, HOST], {"shop": fd.Connection("localhost:1", tls["host"])}, names(30)
    )
    with pytest.raises(ImportError, match=r'pip install "xaijax\[federated\]"'):
        host(X[:, HOST], progress=False)


def test_sessions_end() -> None:
    now = [0.0]
    sessions = Sessions(clock=lambda: now[0])
    new = []
    for _ in range(MOST_SESSIONS):
        now[0] += 1
        new.append(sessions.add(Session(("host",), SessionKey(b"k"), "1", None)))
    other = sessions.add(Session(("other",), SessionKey(b"k"), "1", None))
    sessions.find(new[0], ("host",))  # used just now, so the second is the oldest
    now[0] += 1
    sessions.find(new[0], ("host",))
    sessions.add(Session(("host",), SessionKey(b"k"), "1", None))
    assert sessions.find(other, ("other",)) and sessions.find(new[0], ("host",))
    with pytest.raises(party.Refused, match="closed since"):
        sessions.find(new[1], ("host",))
    now[0] += LIFETIME + 1
    with pytest.raises(party.Refused, match="closed since"):
        sessions.find(new[0], ("host",))
