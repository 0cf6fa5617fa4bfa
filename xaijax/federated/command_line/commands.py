"""The commands `xaijax guest`, `xaijax host` and `xaijax arbiter`."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xaijax.core.command_line import command_of
from xaijax.core.errors import InputError
from xaijax.federated.command_line.configuration import (
    HOST_OPTIONS,
    arbiter_of,
    guest_of,
    host_of,
    host_rows,
    read_secret,
    read_settings,
)
from xaijax.federated.guest.arguments import SECRET
from xaijax.federated.guest.audit import verify_audit
from xaijax.federated.wire.grpc_transport import serve
from xaijax.results.files.npz import file_to_write

GUEST = (
    "address",
    "rows",
    "identifier",
    "parts",
    "reference",
    "secret",
    "state",
    "aligned",
    "party",
)
HOST = ("model", "arbiter", "background", "identifier", "identifiers", "guests", "answers")
ARBITER = ("address", "model", "columns", "guests", "hosts", "tls")

Run = Callable[[argparse.Namespace], None]


def add_commands(commands: Any) -> None:
    """Put the three commands under `xaijax`; each sets `run`, which takes the parsed arguments."""
    about = "answer as a guest, with one's own rows and part of a model"
    guest = command_of(commands, "guest", about, "    xaijax guest serve --config guest.toml")
    actions = guest.add_subparsers(dest="action", required=True, title="actions")
    _config(actions, "serve", "listen for hosts until interrupted", serve_guest)
    _config(actions, "audit", "check the log's chain; print its length and head", check_audit)
    secret = actions.add_parser("secret", help="make the long-term secret of a guest, once")
    secret.add_argument("file", metavar="FILE")
    secret.set_defaults(run=make_secret)

    about = "explain as a host, with guests in other processes"
    example = "    xaijax host explain --config host.toml --rows people.csv --out explanation.npz"
    host = command_of(commands, "host", about, example)
    actions = host.add_subparsers(dest="action", required=True, title="actions")
    explain = _config(actions, "explain", "explain rows and write the values", explain_rows)
    explain.add_argument("--rows", required=True, metavar="CSV", help="the host's columns")
    explain.add_argument("--out", required=True, metavar="NPZ", help="the explanation")

    about = "find the common identifiers by private set intersection, and write them"
    align = _config(actions, "align", about, align_lists)
    align.add_argument("--out", required=True, metavar="FILE", help="one identifier a line")

    about = "run a joint model for parties that trust this process"
    arbiter = command_of(
        commands, "arbiter", about, "    xaijax arbiter serve --config arbiter.toml"
    )
    actions = arbiter.add_subparsers(dest="action", required=True, title="actions")
    _config(actions, "serve", "listen for hosts until interrupted", serve_arbiter)


def serve_guest(arguments: argparse.Namespace) -> None:
    """`xaijax guest serve`: say where it listens, and listen."""
    settings = read_settings(arguments.config, (*GUEST, "policy", "tls"))
    tls = settings.tls()
    guest = guest_of(settings)
    try:
        _listen(guest, settings.needed("address"), tls)
    finally:
        guest.close()


def check_audit(arguments: argparse.Namespace) -> None:
    """`xaijax guest audit`."""
    settings = read_settings(arguments.config, (*GUEST, "policy", "tls"))
    secret = read_secret(settings.file("secret"))
    path = settings.file("state") / "audit.jsonl"
    if not path.exists():
        raise InputError(f"state: there is no log at {path}; the guest has not been served yet.")
    count, head = verify_audit(path, secret)
    print(f"{count} entries, head {head}")


def make_secret(arguments: argparse.Namespace) -> None:
    """`xaijax guest secret`: a new file for the owner's eyes only; never written over."""
    path = Path(arguments.file)
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"secret: {path} cannot be made ({error.strerror}).") from None
    with os.fdopen(file, "wb") as stream:
        stream.write(secrets.token_bytes(SECRET))


def explain_rows(arguments: argparse.Namespace) -> None:
    """`xaijax host explain`."""
    settings = read_settings(arguments.config, (*HOST, *HOST_OPTIONS, "tls"))
    file_to_write(arguments.out, "out")  # before guests count queries
    host = host_of(settings)
    identifiers, rows = host_rows(settings, Path(arguments.rows))
    explanation = host(rows, identifiers)
    explanation.save(arguments.out)
    stats = explanation.stats
    print(
        f"{len(rows):,} rows explained; guests were asked for {stats['rows_asked']:,} rows in "
        f"{stats['messages']:,} messages; written to {arguments.out}"
    )


def align_lists(arguments: argparse.Namespace) -> None:
    """`xaijax host align`: guests then go by this list for this host, until they restart."""
    settings = read_settings(arguments.config, (*HOST, *HOST_OPTIONS, "tls"))
    file_to_write(arguments.out, "out")
    common = host_of(settings).align()
    if any(b"\n" in one or b"\r" in one for one in common):
        raise InputError(
            "identifiers: some hold a line end, and the list has one identifier a line. Rename "
            "them."
        )
    file = os.open(arguments.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(b"".join(one + b"\n" for one in common))
    print(f"{len(common):,} identifiers are common; written to {arguments.out}")


def serve_arbiter(arguments: argparse.Namespace) -> None:
    """`xaijax arbiter serve`."""
    settings = read_settings(arguments.config, ARBITER)
    arbiter = arbiter_of(settings)
    try:
        _listen(arbiter, settings.needed("address"), settings.tls())
    finally:
        arbiter.close()


def _listen(party: Any, address: str, tls: Any) -> None:
    server = serve(party, address, tls)
    print(f"listening at {server.address}", flush=True)

    def stop(number: int, frame: Any) -> None:
        del number, frame
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        server.wait()
    except KeyboardInterrupt:
        server.stop()


def _config(actions: Any, name: str, about: str, run: Run) -> Any:
    command = actions.add_parser(name, help=about, description=f"{about.capitalize()}.")
    command.add_argument("--config", required=True, metavar="TOML", help="see docs/federated.md")
    command.set_defaults(run=run)
    return command
